//! Channels: a lane of a link with the buffer at its end, or the network interface of a host.
//!
//! A message that passes is a chain of channels. Each channel knows which one sends into it (`owner`), and where the
//! first message in its buffer goes on to (`out`). A flit goes over a channel in every cycle in which its owner has a
//! flit and the buffer has room; these channels are the set `ready`, kept up to date with every change, so that a cycle
//! costs as much as flits move and not as much as there are links.

use super::options::Options;
use crate::network::{LinkEnd, Network};
use crate::routing::Journey;
use crate::traffic::Message;
use std::collections::VecDeque;

/// No channel.
pub(super) const NONE: u32 = u32::MAX;
/// Unlimited room: data that arrive at a host are consumed at once.
pub(super) const ENDLESS: u32 = u32::MAX;

/// A lane of a link with its buffer, or a network interface with its message. Two of them fill a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Channel {
    /// Which channel sends into this one.
    pub(super) owner: u32,
    /// Channel to which the first message in the buffer continues.
    pub(super) out: u32,
    /// Flits in the buffer.
    pub(super) content: u32,
    /// Room in the buffer as far as its sender knows; [`ENDLESS`] where a host is behind.
    pub(super) credits: u32,
    /// Flits of the first message that have not yet left the buffer, whether present or still to come.
    pub(super) left: u32,
    /// Flits of the first message.
    pub(super) flits: u32,
    /// The most flits that were ever in the buffer.
    pub(super) most: u32,
}

/// A message in the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub(super) message: Message,
    pub(super) journey: Journey,
    pub(super) flits: u32,
}

/// All messages in the network, with numbers that are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    passing: Vec<Passing>,
    free: Vec<u32>,
}

impl Messages {
    pub(super) fn insert(&mut self, passing: Passing) -> u32 {
        if let Some(number) = self.free.pop() {
            self.passing[number as usize] = passing;
            return number;
        }
        self.passing.push(passing);
        u32::try_from(self.passing.len() - 1).expect("buffers bound the messages in the network")
    }

    pub(super) fn get(&self, number: u32) -> &Passing {
        &self.passing[number as usize]
    }

    pub(super) fn remove(&mut self, number: u32) -> Message {
        self.free.push(number);
        self.passing[number as usize].message
    }
}

/// A set of channels.
#[derive(Clone, Debug)]
pub(super) struct Set(Vec<u64>);

impl Set {
    fn none(channels: usize) -> Self {
        Self(vec![0; channels.div_ceil(64)])
    }

    #[inline]
    pub(super) fn put(&mut self, channel: u32, is_in: bool) {
        let word = &mut self.0[channel as usize / 64];
        let bit = channel % 64;
        *word = *word & !(1 << bit) | u64::from(is_in) << bit;
    }

    #[inline]
    pub(super) fn remove(&mut self, channel: u32) {
        self.0[channel as usize / 64] &= !(1 << (channel % 64));
    }

    #[inline]
    pub(super) fn insert(&mut self, channel: u32) {
        self.0[channel as usize / 64] |= 1 << (channel % 64);
    }

    /// Appends all members to `members`, in the order of their numbers.
    #[inline]
    pub(super) fn append_to(&self, members: &mut Vec<u32>) {
        for (base, &word) in (0_u32..).step_by(64).zip(&self.0) {
            let mut left = word;
            while left != 0 {
                members.push(base + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }
}

/// All channels: `link * lanes + lane`, and behind them one for the network interface of each host.
pub(super) struct Fabric {
    pub(super) channels: Vec<Channel>,
    /// For each channel, the messages whose first flit is in its buffer and whose last has not left it.
    pub(super) queues: Vec<VecDeque<u32>>,
    /// Whether the last message of the queue has flits to come.
    pub(super) incoming: Vec<bool>,
    /// Channels over which a flit can go.
    pub(super) ready: Set,
    pub(super) lanes: u32,
    /// Channels of links; those of hosts follow.
    pub(super) of_links: u32,
    /// For each link, its number among the inputs of the switch that it leads to.
    pub(super) input_number: Vec<u32>,
}

impl Fabric {
    pub(super) fn new(network: &Network, options: &Options) -> Self {
        let lanes = options.lanes.max(1);
        let number = |value: usize| u32::try_from(value).expect("a network bounds its links and endpoints");
        let empty = |credits: u32| Channel {
            owner: NONE,
            out: NONE,
            content: 0,
            credits,
            left: 0,
            flits: 0,
            most: 0,
        };
        let mut channels = Vec::new();
        let mut inputs = vec![0; network.switches.len()];
        let mut input_number = Vec::with_capacity(network.links.len());
        for link in &network.links {
            let (credits, own) = match link.to {
                LinkEnd::Endpoint(_) => (ENDLESS, 0),
                LinkEnd::Switch(switch) => {
                    let count: &mut u32 = &mut inputs[switch.index()];
                    *count += 1;
                    (options.buffer_flits.clamp(1, ENDLESS - 1), *count - 1)
                }
            };
            input_number.push(own);
            channels.extend((0..lanes).map(|_| empty(credits)));
        }
        let of_links = number(channels.len());
        channels.extend((0..network.endpoints()).map(|_| empty(0)));
        let count = channels.len();
        Self {
            channels,
            queues: vec![VecDeque::new(); count],
            incoming: vec![false; count],
            ready: Set::none(count),
            lanes,
            of_links,
            input_number,
        }
    }

    /// The link of `channel`; only for channels of links.
    #[inline]
    pub(super) fn link_of(&self, channel: u32) -> u32 {
        if self.lanes == 1 { channel } else { channel / self.lanes }
    }

    /// The host whose network interface `channel` is.
    #[inline]
    pub(super) fn host_of(&self, channel: u32) -> Option<u32> {
        channel.checked_sub(self.of_links)
    }

    /// The channel of the network interface of `host`.
    pub(super) fn interface(&self, host: usize) -> u32 {
        self.of_links + u32::try_from(host).expect("a network bounds its endpoints")
    }

    /// A lane of `link` that belongs to no message and has room for `flits` more.
    pub(super) fn free_lane(&self, link: u32, flits: u32) -> Option<u32> {
        let first = link * self.lanes;
        (first..first + self.lanes).find(|&channel| {
            let channel = &self.channels[channel as usize];
            channel.owner == NONE && channel.credits >= flits
        })
    }

    /// Returns whether a message that arrives now would get a lane of `link`.
    pub(super) fn is_free(&self, link: u32) -> bool {
        self.free_lane(link, 0).is_some()
    }

    /// A link that belongs to a message and has no room behind it.
    pub(super) fn any_without_room(&self) -> Option<u32> {
        let mut channels = (0..self.of_links).zip(&self.channels);
        let held = channels.find(|(_, channel)| channel.owner != NONE && channel.credits == 0);
        held.map(|(channel, _)| self.link_of(channel))
    }

    /// `owner` sends into `channel` from now on.
    pub(super) fn join(&mut self, owner: u32, channel: u32) {
        self.channels[owner as usize].out = channel;
        self.channels[channel as usize].owner = owner;
        self.update(channel);
    }

    /// Returns whether a flit can pass `channel`, with its present owner and room.
    #[inline]
    pub(super) fn update(&mut self, channel: u32) {
        let Channel { owner, credits, .. } = self.channels[channel as usize];
        let can = owner != NONE && credits > 0 && self.channels[owner as usize].content > 0;
        self.ready.put(channel, can);
    }

    /// One flit of room in the buffer of `channel` is known to its sender.
    #[inline]
    pub(super) fn credit(&mut self, channel: u32) {
        let this = &mut self.channels[channel as usize];
        this.credits += 1;
        let owner = this.owner;
        if owner != NONE && self.channels[owner as usize].content > 0 {
            self.ready.insert(channel);
        }
    }
}
