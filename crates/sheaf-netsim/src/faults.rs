//! Faults and their ends: the plan of a scenario, and its present effect.
//!
//! An engine asks [`Faults::next_change`] when to look again, calls [`Faults::advance`] at that instant, and asks for
//! links, receivers and frames in between. Senders do not know of a dead link: what is sent into it takes its time and
//! is lost, as in a switch that throws away what it cannot deliver. So a dead link cannot stop a network forever, and
//! a sender in front of one does not send infinitely fast. Frames that are on a link at the instant of its death, or
//! that were sent while it was dead, are lost; those before and after are not.

use crate::dice::{Dice, Purpose};
use crate::network::{EndpointId, LinkEnd, LinkId, Network, SwitchId};
use crate::scenario::{Fault, FaultKind};
use crate::units::Picos;
use thiserror::Error;

/// The faults of one run.
#[derive(Clone, Debug)]
pub struct Faults {
    plan: Vec<Planned>,
    /// Starts and ends, sorted by time: (when, which of `plan`, whether it starts).
    changes: Vec<(Picos, usize, bool)>,
    /// The next of `changes`.
    next: usize,
    /// Whether nothing is broken at the moment.
    quiet: bool,
    /// For each link, whether it is dead; empty in a run in which no link ever dies.
    dead: Vec<bool>,
    /// For each endpoint, the fraction of its rate at which it receives; empty in a run without slow receivers.
    speed: Vec<f64>,
    /// The chance of a frame to be lost on a link.
    loss: f64,
    dice: Dice,
}

#[derive(Clone, Debug)]
struct Planned {
    active: bool,
    what: Effect,
}

#[derive(Clone, Debug)]
enum Effect {
    Dead(Vec<LinkId>),
    Slow(EndpointId, f64),
    Loss(f64),
}

/// A fault that makes no sense in its network.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum FaultError {
    /// The network has no such part.
    #[error("fault {fault} is about {part} {number}, but this network has {count} of them: right is 0 to {}", count.saturating_sub(1))]
    NoSuchPart {
        /// Its place in the list of faults.
        fault: usize,
        /// "link", "switch" or "endpoint".
        part: &'static str,
        /// The number given.
        number: u32,
        /// The number of them.
        count: usize,
    },
    /// A fraction or a probability outside of its range.
    #[error("fault {fault} has a {what} of {value}: right is {range}")]
    OutOfRange {
        /// Its place in the list of faults.
        fault: usize,
        /// "factor" or "probability".
        what: &'static str,
        /// The value given.
        value: f64,
        /// The valid range, in words.
        range: &'static str,
    },
    /// It ends before it begins.
    #[error("fault {fault} lasts from {from} until {until}: the end must be later than the start")]
    NoTime {
        /// Its place in the list of faults.
        fault: usize,
        /// Start.
        from: Picos,
        /// End.
        until: Picos,
    },
}

impl Faults {
    /// Makes the plan of `faults` in `network`; random losses are drawn from `seed`. Faults at the very beginning hold
    /// at once.
    ///
    /// # Errors
    /// [`FaultError`] if a fault refers to something that the network does not have, or has a value out of range.
    pub fn new(faults: &[Fault], network: &Network, seed: u64) -> Result<Self, FaultError> {
        let mut plan = Vec::new();
        let mut changes = Vec::new();
        for (number, fault) in faults.iter().enumerate() {
            if let Some(until) = fault.until
                && until <= fault.from
            {
                return Err(FaultError::NoTime { fault: number, from: fault.from, until });
            }
            let Some(what) = effect(number, &fault.what, network)? else { continue };
            changes.push((fault.from, plan.len(), true));
            changes.extend(fault.until.map(|until| (until, plan.len(), false)));
            plan.push(Planned { active: false, what });
        }
        changes.sort_unstable();
        let links_die = plan.iter().any(|planned| matches!(planned.what, Effect::Dead(_)));
        let receivers_slow = plan.iter().any(|planned| matches!(planned.what, Effect::Slow(..)));
        let mut made = Self {
            plan,
            changes,
            next: 0,
            quiet: true,
            dead: if links_die { vec![false; network.links.len()] } else { Vec::new() },
            speed: if receivers_slow { vec![1.0; network.endpoints()] } else { Vec::new() },
            loss: 0.0,
            dice: Dice::new(seed, Purpose::Fault, 0),
        };
        made.advance(Picos::ZERO);
        Ok(made)
    }

    /// When something breaks or heals next; `None`: never again.
    #[must_use]
    pub fn next_change(&self) -> Option<Picos> {
        self.changes.get(self.next).map(|&(at, _, _)| at)
    }

    /// Applies everything that breaks or heals until `now`, and returns whether anything did.
    pub fn advance(&mut self, now: Picos) -> bool {
        let first = self.next;
        while let Some(&(at, which, starts)) = self.changes.get(self.next)
            && at <= now
        {
            self.plan[which].active = starts;
            self.next += 1;
        }
        let changed = self.next > first;
        if changed {
            self.take_stock();
        }
        changed
    }

    /// Returns whether nothing is broken at the moment: engines check this first, because it is nearly always true.
    #[inline]
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether `link` carries nothing at the moment.
    #[inline]
    #[must_use]
    pub fn is_dead(&self, link: LinkId) -> bool {
        self.dead.get(link.index()).is_some_and(|&dead| dead)
    }

    /// Returns the time that `receiver` takes for data that a healthy one receives in `time`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time that a slow receiver stretches is known to 53 bits, and casts to integers saturate"
    )]
    pub fn receiving_time(&self, receiver: EndpointId, time: Picos) -> Picos {
        match self.speed.get(receiver.index()) {
            Some(&speed) if speed < 1.0 => Picos(libm::ceil(time.0 as f64 / speed) as u64),
            _ => time,
        }
    }

    /// Throws the dice for one frame on one link: whether it is lost by chance. Draws nothing where none can be lost.
    #[inline]
    pub fn loses_frame(&mut self) -> bool {
        self.loss > 0.0 && self.dice.unit() < self.loss
    }

    /// Combines the active faults into their present effect. Faults may overlap, so that the end of one is not the end
    /// of all.
    fn take_stock(&mut self) {
        self.dead.fill(false);
        self.speed.fill(1.0);
        let mut survival = 1.0;
        self.quiet = true;
        for planned in self.plan.iter().filter(|planned| planned.active) {
            self.quiet = false;
            match &planned.what {
                Effect::Dead(links) => links.iter().for_each(|link| self.dead[link.index()] = true),
                Effect::Slow(endpoint, factor) => self.speed[endpoint.index()] *= factor,
                Effect::Loss(probability) => survival *= 1.0 - probability,
            }
        }
        self.loss = 1.0 - survival;
    }
}

/// Returns the effect of a fault on `network`, or `None` if it has none.
fn effect(fault: usize, what: &FaultKind, network: &Network) -> Result<Option<Effect>, FaultError> {
    let known = |part, number: u32, count| {
        if (number as usize) < count {
            Ok(())
        } else {
            Err(FaultError::NoSuchPart { fault, part, number, count })
        }
    };
    Ok(Some(match *what {
        FaultKind::LinkDead(link) => {
            known("link", link, network.links.len())?;
            Effect::Dead(vec![LinkId(link)])
        }
        FaultKind::SwitchDead(switch) => {
            known("switch", switch, network.switches.len())?;
            Effect::Dead(links_of(network, SwitchId(switch)))
        }
        FaultKind::SlowReceiver { endpoint, factor } => {
            known("endpoint", endpoint, network.endpoints())?;
            if !(factor > 0.0 && factor <= 1.0) {
                let range = "greater than 0 and at most 1";
                return Err(FaultError::OutOfRange { fault, what: "factor", value: factor, range });
            }
            Effect::Slow(EndpointId(endpoint), factor)
        }
        FaultKind::FrameLoss(probability) => {
            if !(0.0..=1.0).contains(&probability) {
                let range = "from 0 to 1";
                return Err(FaultError::OutOfRange { fault, what: "probability", value: probability, range });
            }
            Effect::Loss(probability)
        }
        FaultKind::HostDead(endpoint) => {
            known("endpoint", endpoint, network.endpoints())?;
            return Ok(None);
        }
    }))
}

/// Every link that begins or ends at `switch`.
fn links_of(network: &Network, switch: SwitchId) -> Vec<LinkId> {
    let place = LinkEnd::Switch(switch);
    let touches = |link: &crate::network::Link| link.from == place || link.to == place;
    (0u32..).zip(&network.links).filter(|(_, link)| touches(link)).map(|(number, _)| LinkId(number)).collect()
}

#[cfg(test)]
mod tests;
