//! Options of a flit-level run, and the conversion of a scenario to flits.

use crate::scenario::{Arbiter, EndpointModel, Routes, Scenario, SizeModel, Switching, TrafficModel};
use crate::units::{Picos, Rate};
use thiserror::Error;

/// When a message may have an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At once.
    Wormhole,
    /// When the buffer behind it has room for the whole message.
    CutThrough,
    /// When the whole message has arrived, and the next buffer has room for it.
    StoreAndForward,
}

/// Options of a flit-level run, in addition to network and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a flit; the last flit of a message may be shorter, and takes as long.
    pub flit_bytes: u32,
    /// Rate of a link that moves a flit in each cycle. Slower links take several cycles for a flit.
    pub rate: Rate,
    /// When a message may have an output.
    pub kind: Kind,
    /// Flits that one lane of a switch input holds.
    pub buffer_flits: u32,
    /// Cycles from the departure of a flit to the use of its room by the sender upstream, at least 1.
    pub credit_cycles: u32,
    /// Lanes of each link.
    pub lanes: u32,
    /// Order of service.
    pub arbiter: Arbiter,
    /// Which of several ways.
    pub routes: Routes,
    /// Idle time of a host's link after each message.
    pub overhead: Picos,
    /// From hand-over to the first flit.
    pub start: Picos,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Reason why a scenario cannot be simulated flit by flit.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FlitError {
    /// Another kind of switch.
    #[error("{switching:?} has no flits; use wormhole, cut-through or store-and-forward switching")]
    NoFlits {
        /// Switching that was requested.
        switching: Switching,
    },
    /// A buffer of that many messages is not a whole number of flits.
    #[error(
        "sizes {size:?} have no largest message, so that a buffer of messages is no number of flits; use sizes with an upper end, or wormhole switching"
    )]
    Unbounded {
        /// The sizes.
        size: SizeModel,
    },
    /// Feature that only the message-level engines model.
    #[error("the flit level does not model {what}; use the message level")]
    NotModelled {
        /// The parameter.
        what: &'static str,
    },
    /// A number that makes no switch.
    #[error("{what} is {value}, but must be {right}")]
    Range {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: u32,
        /// The remedy.
        right: &'static str,
    },
}

impl Options {
    /// Converts `scenario` to flits.
    ///
    /// If it does not define the size of a flit: a wormhole message has 128 flits if it is to be much longer than
    /// buffers (which then have as many flits as keep a link busy), a buffer with a size in bytes has 4 flits and a
    /// message at least 16, and if buffers hold whole messages a message has 64.
    ///
    /// # Errors
    /// [`FlitError`] if the scenario cannot be expressed in flits.
    pub fn of(scenario: &Scenario) -> Result<Self, FlitError> {
        not_modelled(scenario)?;
        let flits = scenario.flits;
        in_range("credit_cycles", flits.credit_cycles, 1, 10_000)?;
        in_range("lanes", flits.lanes, 1, 64)?;
        let size = size_of(&scenario.traffic);
        let framed = |bytes: u32| match scenario.link.frame_payload {
            Some(payload) => bytes.min(payload).saturating_add(scenario.link.frame_overhead),
            None => bytes.saturating_add(scenario.link.frame_overhead),
        };
        let mean = framed(mean(size));
        let (kind, flit_bytes, buffer_flits) = match scenario.switching {
            Switching::Wormhole { buffer_bytes: 0 } => {
                let flit = flits.flit_bytes.unwrap_or((mean / 128).max(1));
                (Kind::Wormhole, flit, flits.credit_cycles + 1)
            }
            Switching::Wormhole { buffer_bytes } => {
                let flit = flits.flit_bytes.unwrap_or((buffer_bytes / 4).min(mean / 16).max(1));
                (Kind::Wormhole, flit, (buffer_bytes / flit.max(1)).max(1))
            }
            Switching::CutThrough { buffer_messages, credit_delay }
            | Switching::StoreAndForward { buffer_messages, credit_delay } => {
                let largest = match scenario.link.frame_payload {
                    Some(payload) => framed(payload),
                    None => framed(largest(size).ok_or(FlitError::Unbounded { size })?),
                };
                let flit = flits.flit_bytes.unwrap_or((mean / 64).max(1));
                let cycle = scenario.link.rate.time_for(flit.into()).0.max(1);
                let delay = u32::try_from(credit_delay.0.div_ceil(cycle)).unwrap_or(u32::MAX);
                in_range("credit delay in cycles", delay, 0, 10_000)?;
                let kind = match scenario.switching {
                    Switching::CutThrough { .. } => Kind::CutThrough,
                    _ => Kind::StoreAndForward,
                };
                let messages = buffer_messages.max(1);
                let options = (kind, flit, largest.div_ceil(flit.max(1)).saturating_mul(messages));
                return Self::checked(scenario, options, flits.credit_cycles.max(delay));
            }
            switching => return Err(FlitError::NoFlits { switching }),
        };
        Self::checked(scenario, (kind, flit_bytes, buffer_flits), flits.credit_cycles)
    }

    fn checked(
        scenario: &Scenario,
        (kind, flit_bytes, buffer_flits): (Kind, u32, u32),
        credit_cycles: u32,
    ) -> Result<Self, FlitError> {
        in_range("flit_bytes", flit_bytes, 1, u32::MAX)?;
        Ok(Self {
            flit_bytes,
            rate: scenario.link.rate,
            kind,
            buffer_flits,
            credit_cycles,
            lanes: scenario.flits.lanes,
            arbiter: scenario.arbiter,
            routes: scenario.routes,
            overhead: scenario.endpoint.overhead,
            start: scenario.endpoint.start,
            seed: scenario.seed,
        })
    }

    /// Returns the number of flits of a message of `bytes`.
    #[must_use]
    pub fn flits(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.flit_bytes.max(1)).max(1)
    }
}

fn in_range(what: &'static str, value: u32, least: u32, most: u32) -> Result<(), FlitError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let right = match (least, most) {
        (_, u32::MAX) => "1 or more",
        (0, _) => "10,000 or less",
        (_, 64) => "between 1 and 64",
        _ => "between 1 and 10,000",
    };
    Err(FlitError::Range { what, value, right })
}

fn not_modelled(scenario: &Scenario) -> Result<(), FlitError> {
    let EndpointModel { bus, look_ahead, .. } = scenario.endpoint;
    let found = [
        (!scenario.faults.is_empty(), "faults"),
        (bus.is_some(), "the memory or bus limit of hosts"),
        (look_ahead, "look-ahead in network interfaces"),
        (matches!(scenario.traffic, TrafficModel::Roles(_)), "the machines of the protocol as endpoints"),
    ];
    match found.into_iter().find(|&(asked, _)| asked) {
        Some((_, what)) => Err(FlitError::NotModelled { what }),
        None => Ok(()),
    }
}

/// Returns the message sizes of `traffic`.
pub(crate) fn size_of(traffic: &TrafficModel) -> SizeModel {
    match traffic {
        TrafficModel::Random { size, .. } => *size,
        TrafficModel::Push(events, _) | TrafficModel::Pull { events, .. } => events.size,
        TrafficModel::Barrel(_, shifter) if shifter.block_bytes > 0 => SizeModel::Fixed(shifter.block_bytes),
        TrafficModel::Barrel(events, _) => events.size,
        TrafficModel::Replay { events, traffic, .. } => {
            let sizes = || events.iter().flatten().copied();
            match (sizes().min(), sizes().max()) {
                (Some(least), Some(most)) => SizeModel::Uniform(least, most),
                _ => traffic.size,
            }
        }
        TrafficModel::Roles(roles) => roles.size,
    }
}

/// Mean size in bytes, rounded; at least 1.
pub(crate) fn mean(size: SizeModel) -> u32 {
    let mean = match size {
        SizeModel::Fixed(bytes) => f64::from(bytes),
        SizeModel::Uniform(least, most) => 0.5 * (f64::from(least) + f64::from(most)),
        SizeModel::Exponential(mean) | SizeModel::LogNormal { mean, .. } | SizeModel::Normal { mean, .. } => {
            mean
        }
    };
    // A cast from floating point stops at the ends of the range.
    mean.round().max(1.0) as u32
}

fn largest(size: SizeModel) -> Option<u32> {
    match size {
        SizeModel::Fixed(bytes) => Some(bytes),
        SizeModel::Uniform(_, most) => Some(most),
        SizeModel::Exponential(_) | SizeModel::LogNormal { .. } | SizeModel::Normal { .. } => None,
    }
}
