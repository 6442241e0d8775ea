//! Of the whole: random runs end well, and the same seed gives the same run.

use crate::check::Report;
use crate::dice::Ratio;
use crate::options::RecoveryOptions;
use crate::{Options, run, run_with_log};
use sheaf_protocol::ledger::Counter;
use sheaf_wire::{ByteCount, DropReason, MissingReason};
use std::collections::BTreeSet;

#[test]
fn a_run_without_faults_stores_everything_complete() {
    let report = run(&Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (200, 200, 0));
    assert_eq!(report.fragments.stored, 1_200);
    assert_eq!(report.written, 200);
}

/// Number of random runs for every change; CI also runs the 10,000 of `cargo xtask swarm`. More follow only while something is not reached.
const RUNS: u64 = 200;

/// Number of random runs after which everything must be reached.
const MAX_RUNS: u64 = 600;

/// Reasons and counters that occurred in runs.
#[derive(Default)]
struct Reached {
    dropped: BTreeSet<DropReason>,
    missing: BTreeSet<MissingReason>,
    counters: BTreeSet<Counter>,
}

impl Reached {
    fn add(&mut self, report: Report) {
        self.dropped.extend(report.fragments.dropped.into_keys().chain(report.ledger.dropped.into_keys()));
        self.missing.extend(report.missing.into_keys());
        self.counters.extend(report.counters.into_keys());
    }

    /// Returns the drop reasons, reasons of missing sources, and counters that did not occur. Those of the ledger occur in every run.
    fn unreached(&self) -> (Vec<DropReason>, Vec<MissingReason>, Vec<Counter>) {
        let in_ledger = Counter::Received..=Counter::InFlight;
        let is_awaited = |counter: &Counter| !self.counters.contains(counter) && !in_ledger.contains(counter);
        (
            DropReason::ALL.iter().filter(|reason| !self.dropped.contains(reason)).copied().collect(),
            MissingReason::ALL.iter().filter(|reason| !self.missing.contains(reason)).copied().collect(),
            Counter::ALL.iter().filter(|counter| is_awaited(counter)).copied().collect(),
        )
    }
}

#[test]
fn random_runs_end_with_balanced_books_and_reach_everything() {
    // A fault that the simulation never makes is a path that it never tests. These are never reached: readout units leave checksums to
    // their drivers, no role gives this reason yet, an unexpected message would be a failure, and a simulated source repeats a fragment
    // as it was.
    let counters = vec![Counter::UnexpectedMessages, Counter::ConflictingFragments];
    let never = (vec![DropReason::Corrupt], vec![MissingReason::ReadoutLost], counters);
    let mut reached = Reached::default();
    for seed in 0..MAX_RUNS {
        if seed >= RUNS && reached.unreached() == never {
            break;
        }
        reached.add(run(&Options::random(seed)).unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert_eq!(reached.unreached(), never);
}

#[test]
fn the_same_seed_gives_the_same_log_byte_for_byte() {
    for seed in 0..20 {
        let options = Options::random(seed);
        let ((first, first_log), (second, second_log)) = (run_with_log(&options), run_with_log(&options));
        assert!(first_log.len() > 100 && first_log == second_log, "seed {seed}: the logs differ");
        assert_eq!(first.map(|report| report.hash).ok(), second.map(|report| report.hash).ok());
    }
}

#[test]
fn keeping_the_log_does_not_change_the_run() {
    let options = Options::random(3);
    let (with, _) = run_with_log(&options);
    assert_eq!(with.ok(), run(&options).ok());
}

#[test]
fn over_recovery_no_message_is_lost_that_a_living_node_sent_to_another() {
    let recovery = Some(RecoveryOptions { datagram: ByteCount(600), rails: 1 });
    for percent in [0, 1, 10, 40] {
        let mut options = Options { seed: percent.into(), recovery, ..Options::default() };
        options.network.loss = Ratio::percent(percent);
        options.network.duplicate = Ratio::percent(percent / 2);
        options.network.reorder = Ratio::percent(percent);
        let report = run(&options).unwrap_or_else(|failure| panic!("{percent} % lost: {failure}"));
        assert_eq!((report.ledger.stored, report.incomplete), (200, 0), "{percent} % lost");
    }
}
