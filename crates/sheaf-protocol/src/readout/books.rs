//! What a readout unit counts while it works: plain numbers, turned into named books when asked for.

use crate::ledger::{Counter, Ledger, NodeBooks};
use sheaf_wire::{DropReason, Outcome};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    received: u64,
    received_bytes: u64,
    stored: u64,
    rejected: u64,
    dropped: BTreeMap<DropReason, u64>,
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

    /// Books a held fragment under its event's outcome. A fragment's own reason is kept where the event was never
    /// built with it; otherwise the event's ledger says why, and here it is `event_dropped`.
    pub(super) fn end_one(&mut self, outcome: Outcome, reason: Option<DropReason>) {
        match (outcome, reason) {
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
        books
    }
}
