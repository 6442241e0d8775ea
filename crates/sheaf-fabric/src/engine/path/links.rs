//! Links, who holds them, and who waits for them.

use crate::dice::{Dice, Purpose};
use crate::network::{EndpointId, LinkId, Network, Place, SwitchId};
use crate::scenario::Arbiter;

/// No message.
pub(super) const NONE: u32 = u32::MAX;
/// The bit that tells an endpoint from a switch.
const ENDPOINT: u32 = 1 << 31;

/// A link as the engine needs it: 16 bytes, so that four of them share a cache line.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The message that holds it.
    holder: u32,
    /// Those that wait for it, linked through [`Links::next`].
    first: u32,
    last: u32,
    /// Where it leads: the number of a switch, or of an endpoint with the highest bit set.
    end: u32,
}

/// All links, with the messages that wait.
#[derive(Clone, Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    /// For each message, who waits behind it for the same link.
    next: Vec<u32>,
    /// For each message that waits, the link on which its head came; for an arbiter that goes by inputs.
    input: Vec<u32>,
    arbiter: Arbiter,
    dice: Dice,
    /// For each link, the input that was served last; empty for arbiters that need none.
    served: Vec<u32>,
}

impl Links {
    pub(super) fn new(network: &Network, arbiter: Arbiter, seed: u64) -> Self {
        let end = |place: Place| match place {
            Place::Switch(switch) => switch.0,
            Place::Endpoint(endpoint) => endpoint.0 | ENDPOINT,
        };
        let link =
            |link: &crate::network::Link| Link { holder: NONE, first: NONE, last: NONE, end: end(link.to) };
        Self {
            links: network.links.iter().map(link).collect(),
            next: Vec::new(),
            input: Vec::new(),
            arbiter,
            dice: Dice::new(seed, Purpose::Arbiter, 0),
            served: if arbiter == Arbiter::RoundRobin { vec![0; network.links.len()] } else { Vec::new() },
        }
    }

    /// How many messages there are.
    #[inline]
    pub(super) fn messages(&self) -> usize {
        self.next.len()
    }

    /// There are `messages` messages now.
    pub(super) fn grow(&mut self, messages: usize) {
        self.next.resize(messages, NONE);
        self.input.resize(messages, NONE);
    }

    #[inline]
    pub(super) fn end(&self, link: LinkId) -> Place {
        let end = self.links[link.index()].end;
        if end & ENDPOINT == 0 {
            Place::Switch(SwitchId(end))
        } else {
            Place::Endpoint(EndpointId(end & !ENDPOINT))
        }
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

    /// `message`, whose head came on `input`, waits for `link`, behind all others.
    #[inline]
    pub(super) fn wait(&mut self, link: LinkId, message: u32, input: u32) {
        self.next[message as usize] = NONE;
        self.input[message as usize] = input;
        let link = &mut self.links[link.index()];
        if link.first == NONE {
            link.first = message;
        } else {
            self.next[link.last as usize] = message;
        }
        link.last = message;
    }

    /// The holder gives `link` up. Says who holds it now: of those that wait the one that the arbiter chooses, or
    /// [`NONE`].
    #[inline]
    pub(super) fn pass_on(&mut self, number: LinkId) -> u32 {
        let link = self.links[number.index()];
        let winner = if link.first == NONE || self.next[link.first as usize] == NONE {
            // Nobody, or one: the usual case.
            self.links[number.index()].first = NONE;
            link.first
        } else {
            self.choose(number)
        };
        self.links[number.index()].holder = winner;
        if winner != NONE && !self.served.is_empty() {
            self.served[number.index()] = self.input[winner as usize];
        }
        winner
    }

    /// Takes one of several out of the queue.
    fn choose(&mut self, number: LinkId) -> u32 {
        let first = self.links[number.index()].first;
        let (mut before, mut winner) = (NONE, first);
        let mut previous = first;
        let mut waiting = self.next[first as usize];
        // The n-th waiter replaces the choice with probability 1/n: all are equally likely, in one pass.
        let mut count = 1;
        while waiting != NONE {
            count += 1;
            let better = match self.arbiter {
                Arbiter::Random => self.dice.below(count) == 0,
                Arbiter::FirstCome => false,
                Arbiter::Priority => self.input[waiting as usize] < self.input[winner as usize],
                Arbiter::RoundRobin => {
                    let served = self.served[number.index()];
                    let turn =
                        |message: u32| self.input[message as usize].wrapping_sub(served).wrapping_sub(1);
                    turn(waiting) < turn(winner)
                }
            };
            if better {
                (before, winner) = (previous, waiting);
            }
            previous = waiting;
            waiting = self.next[waiting as usize];
        }
        let behind = self.next[winner as usize];
        if before == NONE {
            self.links[number.index()].first = behind;
        } else {
            self.next[before as usize] = behind;
        }
        if behind == NONE {
            self.links[number.index()].last = before;
        }
        winner
    }
}
