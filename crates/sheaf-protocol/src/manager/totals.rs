//! The totals of a run's events.

use super::{Ended, Tallies};
use crate::ledger::{Counter, Ledger};
use serde::{Deserialize, Serialize};
use sheaf_wire::message::Count;
use sheaf_wire::{ByteCount, DropReason, Outcome};

/// Totals of the events that are booked as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTotals {
    /// Fragments in these events.
    pub fragments: u64,
    /// Payload of these events.
    pub bytes: ByteCount,
    /// Number of these events that lack a required source.
    pub incomplete: u64,
}

/// See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    ledger: Ledger,
    stored: StoredTotals,
}

impl Totals {
    /// Returns the ledger, given the number of events in flight.
    pub(super) fn ledger(&self, in_flight: usize) -> Ledger {
        Ledger { in_flight: in_flight as u64, ..self.ledger.clone() }
    }

    /// Passes the ledger to `line`, given the number of events in flight, without allocation.
    pub(super) fn each_count(&self, in_flight: usize, line: &mut dyn FnMut(Count)) {
        self.ledger.each_count(&mut |count| {
            let is_in_flight = count.code == Counter::InFlight.code();
            line(if is_in_flight { Counter::InFlight.count(in_flight as u64) } else { count });
        });
    }

    pub(super) fn stored(&self) -> StoredTotals {
        self.stored
    }

    pub(super) fn tallies(&self, in_flight: usize, vetoed: u64) -> Tallies {
        Tallies {
            stored: self.ledger.stored,
            rejected: self.ledger.rejected,
            dropped: self.ledger.dropped_total(),
            in_flight: in_flight as u64,
            vetoed,
        }
    }

    /// Returns the number of accepted triggers.
    pub(super) fn received(&self) -> u64 {
        self.ledger.received
    }

    /// Books accepted triggers.
    pub(super) fn receive(&mut self, triggers: u64) {
        self.ledger.received += triggers;
    }

    /// Books events that have ended.
    pub(super) fn end(&mut self, outcome: Outcome, reason: Option<DropReason>, count: u32) {
        match outcome {
            Outcome::Stored => self.ledger.stored += u64::from(count),
            Outcome::Rejected => self.ledger.rejected += u64::from(count),
            Outcome::Dropped | Outcome::GivenBack => {
                self.ledger.drop_for(reason.unwrap_or(DropReason::Stopped), u64::from(count));
            }
        }
    }

    /// Adds the stored fragments and bytes of ended events.
    #[inline]
    pub(super) fn add_stored(&mut self, ended: &Ended) {
        if ended.outcome == Outcome::Stored {
            let count = u64::from(ended.count);
            self.stored.fragments += u64::from(ended.fragments) * count;
            self.stored.bytes += ended.bytes;
            self.stored.incomplete += u64::from(ended.incomplete) * count;
        }
    }
}
