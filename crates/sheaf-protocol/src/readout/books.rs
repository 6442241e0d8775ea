//! Counters of a readout unit: plain numbers, converted to named books on request.

use crate::ledger::{Counter, Ledger, NodeBooks, each_drop};
use sheaf_wire::message::{Count, PARTS_NOT_ASKED};
use sheaf_wire::{DropReason, Outcome};
use std::collections::BTreeMap;

/// End of an event, as reported to a readout unit.
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

/// Fragments that are booked under the same outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fragments {
    count: u64,
    bytes: u64,
}

impl Fragments {
    pub(super) fn one(bytes: usize) -> Self {
        Self { count: 1, bytes: bytes as u64 }
    }

    #[inline]
    pub(super) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
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
    pub(super) fn receive(&mut self, fragments: u64, bytes: u64) {
        self.received += fragments;
        self.received_bytes += bytes;
    }

    /// Takes a fragment out of the books, with its bytes: it is in those of the next run.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.received -= 1;
        self.received_bytes -= bytes;
    }

    pub(super) fn drop_one(&mut self, reason: DropReason) {
        self.drop_many(reason, 1);
    }

    fn drop_many(&mut self, reason: DropReason, fragments: u64) {
        *self.dropped.entry(reason).or_default() += fragments;
    }

    /// Counts payload sent to a builder, for the first time or again.
    pub(super) fn send(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Subtracts bytes that [`Self::send`] has counted but that were not sent.
    pub(super) fn save(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_sub(bytes);
    }

    /// Books fragments that were not requested before their events ended. `bytes` is their total size.
    pub(super) fn pass_by(&mut self, fragments: u64, bytes: u64) {
        self.drop_many(DropReason::NotRequested, fragments);
        self.not_requested_bytes += bytes;
    }

    /// Books held fragments under the outcome of their events. `part` is the part in which they were
    /// requested, if any. A fragment's own drop reason is kept if no event was built with it. Otherwise the
    /// ledger of the event has the reason, and the fragment is booked as `event_dropped`.
    pub(super) fn end(&mut self, ending: Ending, part: Option<u16>, fragments: Fragments) {
        let Fragments { count, bytes } = fragments;
        if count == 0 {
            return;
        }
        let Ending { outcome, reason, parts } = ending;
        let is_asked = part.is_some() && parts != PARTS_NOT_ASKED;
        let is_built = parts == 0 || part.is_some_and(|part| part <= parts);
        match (outcome, reason) {
            (Outcome::Stored | Outcome::Rejected, _) if !is_asked => self.pass_by(count, bytes),
            (Outcome::Stored | Outcome::Rejected, _) if !is_built => {
                self.drop_many(DropReason::NotBuilt, count);
            }
            (Outcome::Stored, _) => self.stored += count,
            (Outcome::Rejected, _) => self.rejected += count,
            (
                _,
                Some(
                    own @ (DropReason::UnknownEvent
                    | DropReason::NeverTriggered
                    | DropReason::NotBuilt
                    | DropReason::Excluded
                    | DropReason::Late),
                ),
            ) => self.drop_many(own, count),
            _ => self.drop_many(DropReason::EventDropped, count),
        }
    }

    pub(super) fn count(&mut self, counter: Counter) {
        *self.counters.entry(counter).or_default() += 1;
    }

    /// Passes the books without held fragments to `line`, without allocation.
    pub(super) fn each_count(&self, line: &mut dyn FnMut(Count)) {
        line(Counter::Received.count(self.received));
        line(Counter::Stored.count(self.stored));
        line(Counter::Rejected.count(self.rejected));
        each_drop(&self.dropped, line);
        line(Counter::ReceivedBytes.count(self.received_bytes));
        line(Counter::SentBytes.count(self.sent_bytes));
        line(Counter::NotRequestedBytes.count(self.not_requested_bytes));
        self.counters.iter().for_each(|(counter, value)| line(counter.count(*value)));
    }

    /// Returns the books without held fragments.
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
