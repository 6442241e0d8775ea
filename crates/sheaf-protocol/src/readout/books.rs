//! What a readout unit counts while it works: plain numbers, turned into named books when asked for.

use crate::ledger::{Counter, Ledger, NodeBooks};
use sheaf_wire::message::PARTS_NOT_ASKED;
use sheaf_wire::{DropReason, Outcome};
use std::collections::BTreeMap;

/// How an event ended, as a readout unit is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<DropReason>,
    /// As in [`sheaf_wire::message::Release::parts`].
    pub(super) parts: u16,
}

impl Ending {
    pub(super) fn dropped(reason: DropReason) -> Self {
        Self { outcome: Outcome::Dropped, reason: Some(reason), parts: 0 }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    received: u64,
    received_bytes: u64,
    stored: u64,
    rejected: u64,
    dropped: BTreeMap<DropReason, u64>,
    sent_bytes: u64,
    not_requested_bytes: u64,
    counters: BTreeMap<Counter, u64>,
}

impl Books {
    pub(super) fn receive(&mut self, bytes: usize) {
        self.received += 1;
        self.received_bytes += bytes as u64;
    }

    pub(super) fn drop_one(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Payload that goes to a builder, for the first time or again.
    pub(super) fn send(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Of what [`Self::send`] booked, so much did not leave.
    pub(super) fn save(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
    }

    /// A fragment of so many bytes that nobody asked for before its event ended.
    pub(super) fn pass_by(&mut self, bytes: u64) {
        self.drop_one(DropReason::NotRequested);
        self.not_requested_bytes += bytes;
    }

    /// Books a held fragment of so many bytes under its event's outcome. `part` is the one in which it was asked for, if it
    /// was. A fragment's own reason is kept where the event was never built with it; otherwise the event's ledger says
    /// why, and here it is `event_dropped`.
    #[inline]
    pub(super) fn end_one(&mut self, ending: Ending, part: Option<u16>, bytes: u64) {
        let Ending { outcome, reason, parts } = ending;
        let is_asked = part.is_some() && parts != PARTS_NOT_ASKED;
        let is_built = parts == 0 || part.is_some_and(|part| part <= parts);
        match (outcome, reason) {
            (Outcome::Stored | Outcome::Rejected, _) if !is_asked => self.pass_by(bytes),
            (Outcome::Stored | Outcome::Rejected, _) if !is_built => self.drop_one(DropReason::NotBuilt),
            (Outcome::Stored, _) => self.stored += 1,
            (Outcome::Rejected, _) => self.rejected += 1,
            (
                _,
                Some(
                    own @ (DropReason::UnknownEvent
                    | DropReason::NeverTriggered
                    | DropReason::NotBuilt
                    | DropReason::Late),
                ),
            ) => self.drop_one(own),
            _ => self.drop_one(DropReason::EventDropped),
        }
    }

    pub(super) fn count(&mut self, counter: Counter) {
        *self.counters.entry(counter).or_default() += 1;
    }

    /// The books without what is held.
    pub(super) fn to_node_books(&self) -> NodeBooks {
        let fragments = Ledger {
            received: self.received,
            stored: self.stored,
            rejected: self.rejected,
            dropped: self.dropped.clone(),
            in_flight: 0,
        };
        let mut books = NodeBooks { fragments, counters: self.counters.clone() };
        books.count(Counter::ReceivedBytes, self.received_bytes);
        books.count(Counter::SentBytes, self.sent_bytes);
        books.count(Counter::NotRequestedBytes, self.not_requested_bytes);
        books
    }
}
