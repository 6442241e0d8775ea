//! A link with the buffer in front of it and the buffer behind it.

use super::frames::{Fifo, NONE};
use crate::network::{Link, LinkEnd, Network};
use crate::units::{Picos, Rate};

/// One link: its constants, its sending side, and the buffer at its far end.
///
/// The frame that is on the link is already in `incoming`; its room in the buffer that it leaves stays taken until its
/// last byte has left.
#[derive(Clone, Debug)]
pub(super) struct Port {
    rate: Rate,
    /// Time for one byte, where that is a whole number of picoseconds; else 0.
    picos_per_byte: u64,
    pub(super) delay: Picos,
    pub(super) stage: u16,
    /// The host that sends into it, or [`NONE`].
    pub(super) sender: u32,
    /// The switch that sends into it, or [`NONE`].
    pub(super) source_switch: u32,
    /// The host that it leads to, or [`NONE`].
    pub(super) receiver: u32,
    /// The switch that it leads to, or [`NONE`].
    pub(super) switch: u32,

    /// Whether a frame is leaving.
    pub(super) busy: bool,
    /// The link whose input buffer that frame leaves, or [`NONE`].
    pub(super) feeder: u32,
    /// Bytes of that frame.
    pub(super) leaving: u32,
    /// Frames that wait in front of the link (output queues).
    pub(super) queue: Fifo,
    /// Bytes in front of the link, with the frame that is leaving.
    pub(super) queued_bytes: u64,
    /// Frames for which there is room at the far end, as far as the sender knows (credits).
    pub(super) room: u32,
    /// Whether the far end has stopped the sender (pause), and the sender knows.
    pub(super) stopped: bool,
    /// For how long the link could have carried something but for the far end, until the present spell.
    held_up: Picos,
    /// Since when this is so; [`Picos::MAX`]: it is not so now.
    held_since: Picos,

    /// Frames that were sent into the link and have not left the input at its far end.
    pub(super) incoming: Fifo,
    /// The first of them that is still on the way, or [`NONE`].
    pub(super) coming: u32,
    /// Number of them that have arrived, counted from the first.
    pub(super) arrived: u32,
    /// Bytes of those.
    pub(super) arrived_bytes: u64,
    /// Whether a frame is leaving the input.
    pub(super) reading: bool,
    /// The output that the first of them waits for, or [`NONE`].
    pub(super) wanted: u32,
    /// Since when.
    pub(super) asked: Picos,
    /// For how long that output had been held up until then.
    pub(super) held_before: Picos,
    /// Whether the far end has told the sender to stop.
    pub(super) sender_paused: bool,
}

impl Port {
    fn new(link: &Link, room: u32) -> Self {
        let (mut sender, mut source_switch, mut receiver, mut switch) = (NONE, NONE, NONE, NONE);
        match link.from {
            LinkEnd::Endpoint(endpoint) => sender = endpoint.0,
            LinkEnd::Switch(from) => source_switch = from.0,
        }
        match link.to {
            LinkEnd::Endpoint(endpoint) => receiver = endpoint.0,
            LinkEnd::Switch(to) => switch = to.0,
        }
        const PICOS_PER_BYTE: u64 = 8_000_000_000_000;
        let whole = PICOS_PER_BYTE.is_multiple_of(link.rate.0.max(1));
        Self {
            rate: link.rate,
            picos_per_byte: if whole { PICOS_PER_BYTE / link.rate.0.max(1) } else { 0 },
            delay: link.delay,
            stage: link.stage,
            sender,
            source_switch,
            receiver,
            switch,
            busy: false,
            feeder: NONE,
            leaving: 0,
            queue: Fifo::default(),
            queued_bytes: 0,
            room: if switch == NONE { u32::MAX } else { room },
            stopped: false,
            held_up: Picos::ZERO,
            held_since: Picos::MAX,
            incoming: Fifo::default(),
            coming: NONE,
            arrived: 0,
            arrived_bytes: 0,
            reading: false,
            wanted: NONE,
            asked: Picos::ZERO,
            held_before: Picos::ZERO,
            sender_paused: false,
        }
    }

    /// Returns all links of `network`, with `room` for a number of frames behind those that lead to a switch.
    pub(super) fn all(network: &Network, room: u32) -> Vec<Self> {
        network.links.iter().map(|link| Self::new(link, room)).collect()
    }

    /// Returns the time for which `bytes` occupy the link.
    #[inline]
    pub(super) fn time_for(&self, bytes: u32) -> Picos {
        if self.picos_per_byte > 0 {
            return Picos(u64::from(bytes) * self.picos_per_byte);
        }
        self.rate.time_for(u64::from(bytes))
    }

    /// Returns whether the sender may begin another frame now.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        !self.busy && !self.stopped && self.room > 0
    }

    /// Keeps the clock of [`Port::held_up`], after anything has changed that decides whether it runs.
    #[inline]
    pub(super) fn keep_clock(&mut self, now: Picos) {
        let held = !self.busy && (self.stopped || self.room == 0);
        if held == (self.held_since != Picos::MAX) {
            return;
        }
        if held {
            self.held_since = now;
        } else {
            self.held_up += now.since(self.held_since);
            self.held_since = Picos::MAX;
        }
    }

    /// Returns the time, until now, for which the far end kept the link from carrying frames: the difference of two
    /// readings is the part of a wait that was not for the link itself.
    #[inline]
    pub(super) fn held_up(&self, now: Picos) -> Picos {
        self.held_up + now.since(self.held_since)
    }
}
