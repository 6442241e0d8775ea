//! Links, whether they are held, and the messages that wait for them.

use super::messages::{Messages, NONE};
use crate::dice::{Dice, Purpose};
use crate::network::{EndpointId, Forwarding, LinkEnd, LinkId, Network, SwitchId};
use crate::scenario::Arbiter;

/// [`Link::state`] of a free link.
const FREE: u32 = u32::MAX;
/// [`Link::state`] of a link that is held, and for which no message waits.
const HELD: u32 = u32::MAX - 1;

/// The upper bits of [`Link::end`] are its kind; the others are a number.
const KIND_SHIFT: u32 = 26;
/// The kind of a link that leads to an endpoint.
const ENDPOINT: u32 = 63;
/// The kind of a link that leads to a switch whose ways the network knows. Those below are numbers of rules.
const SWITCH: u32 = 62;

/// State of a link: only 8 bytes, because the cost of a message in a large network is dominated by links that are not
/// in the cache. The chains of the messages define which message holds it.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// [`FREE`], [`HELD`], or the last of those that wait, in a ring through [`Messages::behind`]: the first comes after
    /// the last.
    state: u32,
    /// The number of an endpoint, of a switch, or of the first output of a switch that goes by a rule, and which.
    end: u32,
}

/// Rule by which a switch with one way to each destination finds it: the digit `place / divisor % radix`. The switches
/// of a layer share a rule, so that the few rules stay in cache and no switch needs to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    divisor: u32,
    radix: u32,
}

/// Far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To its destination.
    End(EndpointId),
    /// To a switch, from which this link leads on.
    On(LinkId),
    /// To a switch that asks the router.
    Ask(SwitchId),
}

/// All links, with the messages that wait.
#[derive(Clone, Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    rules: Vec<Rule>,
    /// The stage of each link, for reports.
    stages: Vec<u16>,
    arbiter: Arbiter,
    dice: Dice,
    /// For each link, the input that was served last; empty for arbiters that need none.
    served: Vec<LinkId>,
}

impl Links {
    pub(super) fn new(network: &Network, arbiter: Arbiter, seed: u64) -> Self {
        assert!(network.links.len() < 1 << KIND_SHIFT, "a network bounds its links and rails");
        let mut rules = Vec::new();
        let kind_of: Vec<u32> =
            network.switches.iter().map(|switch| kind(&switch.forwarding, &mut rules)).collect();
        let end = |link: &crate::network::Link| match link.to {
            LinkEnd::Endpoint(endpoint) => (endpoint.0, ENDPOINT),
            LinkEnd::Switch(switch) => match kind_of[switch.index()] {
                SWITCH => (switch.0, SWITCH),
                rule => (network.switches[switch.index()].outputs.start, rule),
            },
        };
        let link = |link: &crate::network::Link| {
            let (number, kind) = end(link);
            Link { state: FREE, end: kind << KIND_SHIFT | number }
        };
        let links: Vec<Link> = network.links.iter().map(link).collect();
        Self {
            served: if arbiter == Arbiter::RoundRobin { vec![LinkId(0); links.len()] } else { Vec::new() },
            stages: network.links.iter().map(|link| link.stage).collect(),
            links,
            rules,
            arbiter,
            dice: Dice::new(seed, Purpose::Arbiter, 0),
        }
    }

    /// Returns the next end of `link` for a message to the endpoint at `place` of the wiring.
    #[inline]
    pub(super) fn way(&self, link: LinkId, place: u32) -> Way {
        let end = self.links[link.index()].end;
        let number = end & ((1 << KIND_SHIFT) - 1);
        match end >> KIND_SHIFT {
            ENDPOINT => Way::End(EndpointId(number)),
            SWITCH => Way::Ask(SwitchId(number)),
            rule => {
                let Rule { divisor, radix } = self.rules[rule as usize];
                let digit = if divisor.is_power_of_two() && radix.is_power_of_two() {
                    (place >> divisor.trailing_zeros()) & (radix - 1)
                } else {
                    place / divisor % radix
                };
                Way::On(LinkId(number + digit))
            }
        }
    }

    #[inline]
    pub(super) fn stage(&self, link: LinkId) -> u16 {
        self.stages[link.index()]
    }

    #[inline]
    pub(super) fn is_free(&self, link: LinkId) -> bool {
        self.links[link.index()].state == FREE
    }

    /// Takes `link` if it is free.
    #[inline]
    pub(super) fn take(&mut self, link: LinkId) -> bool {
        let link = &mut self.links[link.index()];
        let free = link.state == FREE;
        if free {
            link.state = HELD;
        }
        free
    }

    /// `message` waits for `link`, behind all others.
    #[inline]
    pub(super) fn wait(&mut self, link: LinkId, message: u32, messages: &mut Messages) {
        let link = &mut self.links[link.index()];
        if link.state == HELD {
            messages.set_behind(message, message);
        } else {
            messages.set_behind(message, messages.behind(link.state));
            messages.set_behind(link.state, message);
        }
        link.state = message;
    }

    /// Those that wait for `link`, from the first on.
    pub(super) fn waiting<'a>(&self, link: LinkId, messages: &'a Messages) -> impl Iterator<Item = u32> + 'a {
        let last = self.links[link.index()].state;
        let first = (last < HELD).then(|| messages.behind(last));
        std::iter::successors(first, move |&message| (message != last).then(|| messages.behind(message)))
    }

    /// Releases `link`. Returns its new holder: the waiting message chosen by the arbiter, or [`NONE`].
    #[inline]
    pub(super) fn pass_on(&mut self, number: LinkId, messages: &mut Messages) -> u32 {
        let link = &mut self.links[number.index()];
        if link.state == HELD {
            link.state = FREE;
            return NONE;
        }
        let winner = if messages.behind(link.state) == link.state {
            std::mem::replace(&mut link.state, HELD)
        } else {
            self.choose(number, messages)
        };
        if !self.served.is_empty() {
            self.served[number.index()] = messages.input(winner);
        }
        winner
    }

    /// Takes one of several out of the ring.
    fn choose(&mut self, number: LinkId, messages: &mut Messages) -> u32 {
        let last = self.links[number.index()].state;
        let (mut before, mut winner) = (last, messages.behind(last));
        let mut previous = winner;
        // The n-th that waits replaces the choice with probability 1/n: all are equally likely, in one pass.
        let mut count = 1;
        while previous != last && self.arbiter != Arbiter::FirstCome {
            let waiting = messages.behind(previous);
            count += 1;
            let better = match self.arbiter {
                Arbiter::Random => self.dice.below(count) == 0,
                Arbiter::FirstCome => false,
                Arbiter::Priority => messages.input(waiting) < messages.input(winner),
                Arbiter::RoundRobin => {
                    let served = self.served[number.index()].0;
                    let turn = |message: u32| messages.input(message).0.wrapping_sub(served).wrapping_sub(1);
                    turn(waiting) < turn(winner)
                }
            };
            if better {
                (before, winner) = (previous, waiting);
            }
            previous = waiting;
        }
        messages.set_behind(before, messages.behind(winner));
        if winner == last {
            self.links[number.index()].state = before;
        }
        winner
    }
}

/// Returns the kind of links to a switch: the number of its rule, which is added to `rules`, or [`SWITCH`].
fn kind(forwarding: &Forwarding, rules: &mut Vec<Rule>) -> u32 {
    let &Forwarding::Digit { divisor, radix, width: 1 } = forwarding else { return SWITCH };
    let wanted = Rule { divisor, radix };
    let known = rules.iter().position(|&rule| rule == wanted).unwrap_or(rules.len());
    if known == SWITCH as usize {
        return SWITCH;
    }
    if known == rules.len() {
        rules.push(wanted);
    }
    u32::try_from(known).unwrap_or(SWITCH)
}
