//! Position of the tail of a message, with delays and buffers.
//!
//! All values are times at the message's own rate: `time` is that of its whole body, `room` that of a buffer. Link *k*
//! begins to carry the message at `start[k]`; without stalls its tail has passed `time` later. When the head is held
//! up, the body moves on into the buffers: first the one where the head is, then the ones behind. A stall longer than
//! these can absorb stops link *k* for the rest (`stall[k]`). A buffer keeps what it has absorbed until the tail comes,
//! because its input and output rates are equal.
//!
//! So the end of link *k* is `start[k] + time + stall[k]`, and it is certain as soon as it is before the instant at
//! which the room between link and head would be full if the head were held up from now on.

use super::messages::NONE;
use crate::network::{Link, LinkEnd, LinkId};
use crate::units::Picos;

/// One link of a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    /// When it began to carry the message.
    start: Picos,
    /// Time for which it was stopped.
    stall: Picos,
    /// Data that the buffer at its end has taken.
    content: Picos,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    /// The time of the whole body on the slowest link so far.
    time: Picos,
    /// Time at which the head reaches or reached the end of the last link.
    head_at: Picos,
    /// Number of links with a planned end.
    planned: u16,
    /// The room of the buffer at the end of the last link, as far as the message may count on it.
    room: Picos,
    /// Whether the head waits behind the tail of another message.
    behind: bool,
    /// Whether the head is at its destination.
    through: bool,
}

/// The messages in the buffer at the end of a link.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    first: u32,
    /// The last message and its hop, as an index of [`Bodies::followers`].
    last: usize,
}

/// The bodies of all messages.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    bodies: Vec<Body>,
    /// By message and hop.
    hops: Vec<Hop>,
    /// By message and hop: the message behind it in the buffer at the end of that hop's link.
    followers: Vec<u32>,
    stride: usize,
    /// Time that it takes to fill a buffer.
    room: Picos,
    /// By link.
    buffers: Vec<Buffer>,
}

impl Bodies {
    pub(super) fn new(longest: u16, room: Picos, links: usize) -> Self {
        Self {
            bodies: Vec::new(),
            hops: Vec::new(),
            followers: Vec::new(),
            stride: usize::from(longest),
            room,
            buffers: vec![Buffer { first: NONE, last: 0 }; links],
        }
    }

    /// Returns the number of messages that there is room for.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.bodies.len()
    }

    /// There are `messages` messages now.
    pub(super) fn grow(&mut self, messages: usize) {
        let body = Body {
            time: Picos::ZERO,
            head_at: Picos::ZERO,
            planned: 0,
            room: Picos::ZERO,
            behind: false,
            through: false,
        };
        self.bodies.resize(messages, body);
        self.hops.resize(messages * self.stride, Hop::default());
        self.followers.resize(messages * self.stride, NONE);
    }

    /// The message has taken `link`, the last one of `chain`, on which its body alone would take `time`, and its head
    /// is sent at `now`.
    pub(super) fn hold(&mut self, message: u32, chain: &[LinkId], link: &Link, time: Picos, now: Picos) {
        let hop = chain.len() - 1;
        let entry = message as usize * self.stride + hop;
        if hop == 0 {
            let body = &mut self.bodies[message as usize];
            (body.time, body.planned, body.behind, body.through) = (Picos::ZERO, 0, false, false);
        } else {
            self.hold_up(message, hop, now);
        }
        self.hops[entry] = Hop { start: now, ..Hop::default() };
        let mut room = Picos::ZERO;
        // A switch buffers a part of the body, an endpoint takes it at once.
        if matches!(link.to, LinkEnd::Switch(_)) {
            self.followers[entry] = NONE;
            let buffer = &mut self.buffers[chain[hop].index()];
            if buffer.first == NONE {
                buffer.first = message;
                room = self.room;
            } else {
                self.followers[buffer.last] = message;
            }
            buffer.last = entry;
        }
        let body = &mut self.bodies[message as usize];
        body.time = body.time.max(time);
        body.head_at = now + link.delay;
        body.room = room;
    }

    /// Records that the head was held up at the end of the last of `links` links until `now`: the stall propagates back
    /// from buffer to buffer.
    fn hold_up(&mut self, message: u32, links: usize, now: Picos) {
        let body = &self.bodies[message as usize];
        let mut stall = now.since(body.head_at);
        let first = message as usize * self.stride;
        for hop in self.hops[first + usize::from(body.planned)..first + links].iter_mut().rev() {
            let taken = stall.min(self.room.since(hop.content));
            hop.content += taken;
            stall = stall.since(taken);
            hop.stall += stall;
        }
    }

    /// The time of the whole body on the slowest link of its chain.
    pub(super) fn time(&self, message: u32) -> Picos {
        self.bodies[message as usize].time
    }

    /// Records that the head has reached the end of `link`, its last one. Returns `false` if it is behind the tail of
    /// another message.
    pub(super) fn arrive(&mut self, message: u32, link: LinkId) -> bool {
        let first = self.buffers[link.index()].first;
        let front = first == NONE || first == message;
        self.bodies[message as usize].behind = !front;
        front
    }

    /// Records that the head has arrived after `links` links, and the body follows within `time`. Returns when its last
    /// byte arrives.
    pub(super) fn follow(&mut self, message: u32, links: usize, time: Picos, now: Picos) -> Picos {
        self.hold_up(message, links, now);
        let body = &mut self.bodies[message as usize];
        body.time = time;
        body.through = true;
        now + time
    }

    /// Calls `plan` for each of the `links` links whose end has become certain, with its hop and this end.
    pub(super) fn certain(&mut self, message: u32, links: usize, mut plan: impl FnMut(u16, Picos)) {
        let body = &mut self.bodies[message as usize];
        let first = message as usize * self.stride;
        let hops = &self.hops[first..first + links];
        let mut room: Picos = body.room;
        for hop in &hops[usize::from(body.planned).min(links - 1)..links - 1] {
            room += self.room.since(hop.content);
        }
        while usize::from(body.planned) < links {
            let hop = hops[usize::from(body.planned)];
            let end = hop.start + body.time + hop.stall;
            if !body.through && end > body.head_at + room {
                return;
            }
            plan(body.planned, end);
            body.planned += 1;
            room = room.since(self.room.since(hop.content));
        }
    }

    /// Records that the tail has left the buffer at the end of `link`, the message's hop `hop`. Returns the message
    /// that is now the first there, and whether its head waits.
    pub(super) fn drained(&mut self, message: u32, link: LinkId, hop: usize) -> Option<(u32, bool)> {
        let buffer = &mut self.buffers[link.index()];
        debug_assert_eq!(buffer.first, message, "a tail leaves a buffer in which it is not the first");
        let next = self.followers[message as usize * self.stride + hop];
        buffer.first = next;
        (next != NONE).then(|| {
            let body = &mut self.bodies[next as usize];
            body.room = self.room;
            (next, std::mem::take(&mut body.behind))
        })
    }

    /// Returns whether the head waits behind the tail of another message.
    pub(super) fn is_behind(&self, message: u32) -> bool {
        self.bodies.get(message as usize).is_some_and(|body| body.behind)
    }

    /// The first message in the buffer at the end of `link`.
    pub(super) fn first(&self, link: LinkId) -> u32 {
        self.buffers[link.index()].first
    }
}

#[cfg(test)]
mod tests;
