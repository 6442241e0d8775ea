//! Reasons, counters, and holds and pauses that occurred in runs. A fault that the simulation never makes is a path that it never tests.

use crate::check::{OperatorCounts, Report};
use sheaf_protocol::ledger::Counter;
use sheaf_wire::{DropReason, MissingReason};
use std::collections::BTreeSet;

/// Readout units leave checksums to their drivers.
const NEVER_DROPPED: [DropReason; 1] = [DropReason::Corrupt];

/// No role gives this reason.
const NEVER_MISSING: [MissingReason; 1] = [MissingReason::ReadoutLost];

/// An unexpected message would be a failure, and a simulated source repeats a fragment as it was.
const NEVER_COUNTED: [Counter; 2] = [Counter::UnexpectedMessages, Counter::ConflictingFragments];

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    dropped: BTreeSet<DropReason>,
    missing: BTreeSet<MissingReason>,
    counters: BTreeSet<Counter>,
    operator: BTreeSet<&'static str>,
}

impl Coverage {
    /// Adds what occurred in a run.
    pub fn add(&mut self, report: &Report) {
        self.dropped.extend(report.fragments.dropped.keys().chain(report.ledger.dropped.keys()));
        self.missing.extend(report.missing.keys());
        self.counters.extend(report.counters.keys());
        self.operator
            .extend(report.operator.named().iter().filter(|(_, count)| *count > 0).map(|(name, _)| *name));
    }

    /// Returns the names of drop reasons, reasons of missing sources, counters, and holds and pauses that a simulation can reach, and that did not occur.
    /// Those of the ledger occur in every run.
    #[must_use]
    pub fn unreached(&self) -> Vec<&'static str> {
        let in_ledger = Counter::Received..=Counter::InFlight;
        let dropped = DropReason::ALL.iter().filter(|reason| !NEVER_DROPPED.contains(reason));
        let missing = MissingReason::ALL.iter().filter(|reason| !NEVER_MISSING.contains(reason));
        let counters = Counter::ALL.iter();
        let counters =
            counters.filter(|counter| !NEVER_COUNTED.contains(counter) && !in_ledger.contains(counter));
        let dropped = dropped.filter(|reason| !self.dropped.contains(reason)).map(|reason| reason.name());
        let missing = missing.filter(|reason| !self.missing.contains(reason)).map(|reason| reason.name());
        let counters =
            counters.filter(|counter| !self.counters.contains(counter)).map(|counter| counter.name());
        let operator = OperatorCounts::default().named().map(|(name, _)| name);
        let operator = operator.into_iter().filter(|name| !self.operator.contains(name));
        dropped.chain(missing).chain(counters).chain(operator).collect()
    }

    /// Returns the names of reasons and counters that occurred and that no simulation should reach.
    #[must_use]
    pub fn impossible(&self) -> Vec<&'static str> {
        let dropped = NEVER_DROPPED.iter().filter(|reason| self.dropped.contains(reason));
        let missing = NEVER_MISSING.iter().filter(|reason| self.missing.contains(reason));
        let counters = NEVER_COUNTED.iter().filter(|counter| self.counters.contains(counter));
        let names = dropped.map(|reason| reason.name()).chain(missing.map(|reason| reason.name()));
        names.chain(counters.map(|counter| counter.name())).collect()
    }
}
