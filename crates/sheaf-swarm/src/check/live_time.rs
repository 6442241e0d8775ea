//! Live time and dead time, measured independently and compared with the books.

use super::Evidence;
use crate::violation::{Violation, violation};
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_wire::{Nanos, Timestamp};
use std::collections::BTreeMap;

/// Adds up the time of a run by the state of the gate between two checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Onlooker {
    /// Time of the last check, while triggers are accepted.
    since: Option<Timestamp>,
    shut: Option<DeadTimeCause>,
    live: Nanos,
    dead: BTreeMap<DeadTimeCause, Nanos>,
}

impl Onlooker {
    /// Cause for the closed gate at the last check.
    pub(crate) fn shut(&self) -> Option<DeadTimeCause> {
        self.shut
    }

    /// Takes note of the state of the gate, whenever it may have changed.
    pub(crate) fn look(&mut self, now: Timestamp, runs: bool, gate: Option<DeadTimeCause>) {
        if let Some(since) = self.since {
            let passed = now.since(since);
            let time = match self.shut {
                Some(cause) if passed > Nanos::ZERO => self.dead.entry(cause).or_default(),
                Some(_) | None => &mut self.live,
            };
            *time = *time + passed;
        }
        self.since = runs.then_some(now);
        self.shut = gate.filter(|_| runs);
    }
}

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let books = evidence.manager.dead_time(evidence.now);
    let seen = &evidence.watch.live_time;
    if (books.live, &books.time) != (seen.live, &seen.dead) {
        violations.push(violation!("live and dead time are booked as {books:?} and were {seen:?}"));
    }
    if !books.is_balanced() {
        let (live, dead, run) = (books.live, books.dead(), books.run());
        violations.push(violation!("{live} live and {dead} dead are not the {run} of the run"));
    }
}
