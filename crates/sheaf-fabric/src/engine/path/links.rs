//! Links, who holds them, and who waits for them.

use super::messages::Messages;
use crate::dice::{Dice, Purpose};
use crate::network::{EndpointId, Forwarding, LinkId, Network, Place, SwitchId};
use crate::scenario::Arbiter;

/// No message.
pub(super) const NONE: u32 = u32::MAX;
/// [`Link::rule`] of a link that leads to an endpoint.
const ENDPOINT: u16 = u16::MAX;
/// [`Link::rule`] of a link that leads to a switch whose ways the network knows.
const SWITCH: u16 = u16::MAX - 1;

/// A link as the engine needs it: 16 bytes, so that a large network stays in the cache as far as it can.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The message that holds it.
    holder: u32,
    /// The last of those that wait, in a ring through [`Messages::behind`]: the first comes after the last.
    last: u32,
    /// An endpoint, a switch, or the first output of a switch that goes by a rule.
    end: u32,
    /// Which of [`Links::rules`], or what `end` is.
    rule: u16,
    /// For reports.
    stage: u16,
}

/// How a switch with one way to each destination finds it: by the digit `place / divisor % radix`. The switches of a
/// layer share a rule, so that the rules are few and near, and no switch needs to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    divisor: u32,
    radix: u32,
}

/// Where a link leads.
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
    arbiter: Arbiter,
    dice: Dice,
    /// For each link, the input that was served last; empty for arbiters that need none.
    served: Vec<LinkId>,
}

impl Links {
    pub(super) fn new(network: &Network, arbiter: Arbiter, seed: u64) -> Self {
        let mut rules = Vec::new();
        let rule_of: Vec<u16> =
            network.switches.iter().map(|switch| rule(&switch.forwarding, &mut rules)).collect();
        let link = |link: &crate::network::Link| {
            let (end, rule) = match link.to {
                Place::Endpoint(endpoint) => (endpoint.0, ENDPOINT),
                Place::Switch(switch) if rule_of[switch.index()] == SWITCH => (switch.0, SWITCH),
                Place::Switch(switch) => {
                    (network.switches[switch.index()].outputs.start, rule_of[switch.index()])
                }
            };
            Link { holder: NONE, last: NONE, end, rule, stage: link.stage }
        };
        let links: Vec<Link> = network.links.iter().map(link).collect();
        Self {
            served: if arbiter == Arbiter::RoundRobin { vec![LinkId(0); links.len()] } else { Vec::new() },
            links,
            rules,
            arbiter,
            dice: Dice::new(seed, Purpose::Arbiter, 0),
        }
    }

    /// Where `link` leads a message to the endpoint at `place` of the wiring.
    #[inline]
    pub(super) fn way(&self, link: LinkId, place: u32) -> Way {
        let Link { end, rule, .. } = self.links[link.index()];
        match rule {
            ENDPOINT => Way::End(EndpointId(end)),
            SWITCH => Way::Ask(SwitchId(end)),
            rule => {
                let Rule { divisor, radix } = self.rules[usize::from(rule)];
                let digit = if divisor.is_power_of_two() && radix.is_power_of_two() {
                    place >> divisor.trailing_zeros() & (radix - 1)
                } else {
                    place / divisor % radix
                };
                Way::On(LinkId(end + digit))
            }
        }
    }

    #[inline]
    pub(super) fn stage(&self, link: LinkId) -> u16 {
        self.links[link.index()].stage
    }

    /// Who holds `link`.
    #[inline]
    pub(super) fn holder(&self, link: LinkId) -> u32 {
        self.links[link.index()].holder
    }

    #[inline]
    pub(super) fn is_free(&self, link: LinkId) -> bool {
        self.links[link.index()].holder == NONE
    }

    /// `message` takes `link` if it is free.
    #[inline]
    pub(super) fn take(&mut self, link: LinkId, message: u32) -> bool {
        let link = &mut self.links[link.index()];
        let free = link.holder == NONE;
        if free {
            link.holder = message;
        }
        free
    }

    /// `message` waits for `link`, behind all others.
    #[inline]
    pub(super) fn wait(&mut self, link: LinkId, message: u32, messages: &mut Messages) {
        let link = &mut self.links[link.index()];
        if link.last == NONE {
            messages.set_behind(message, message);
        } else {
            messages.set_behind(message, messages.behind(link.last));
            messages.set_behind(link.last, message);
        }
        link.last = message;
    }

    /// Those that wait for `link`, from the first on.
    pub(super) fn waiting<'a>(&self, link: LinkId, messages: &'a Messages) -> impl Iterator<Item = u32> + 'a {
        let last = self.links[link.index()].last;
        let first = (last != NONE).then(|| messages.behind(last));
        std::iter::successors(first, move |&message| (message != last).then(|| messages.behind(message)))
    }

    /// The holder gives `link` up. Says who holds it now: of those that wait the one that the arbiter chooses, or
    /// [`NONE`].
    #[inline]
    pub(super) fn pass_on(&mut self, number: LinkId, messages: &mut Messages) -> u32 {
        let link = &mut self.links[number.index()];
        let winner = if link.last == NONE || messages.behind(link.last) == link.last {
            // Nobody waits, or one: the usual case.
            std::mem::replace(&mut link.last, NONE)
        } else {
            self.choose(number, messages)
        };
        self.links[number.index()].holder = winner;
        if winner != NONE && !self.served.is_empty() {
            self.served[number.index()] = messages.input(winner);
        }
        winner
    }

    /// Takes one of several out of the ring.
    fn choose(&mut self, number: LinkId, messages: &mut Messages) -> u32 {
        let last = self.links[number.index()].last;
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
            self.links[number.index()].last = before;
        }
        winner
    }
}

/// The number of the rule of a switch, which becomes one of `rules`.
fn rule(forwarding: &Forwarding, rules: &mut Vec<Rule>) -> u16 {
    let &Forwarding::Digit { divisor, radix, width: 1 } = forwarding else { return SWITCH };
    let wanted = Rule { divisor, radix };
    let known = rules.iter().position(|&rule| rule == wanted).unwrap_or_else(|| {
        rules.push(wanted);
        rules.len() - 1
    });
    u16::try_from(known).ok().filter(|&known| known < SWITCH).unwrap_or(SWITCH)
}
