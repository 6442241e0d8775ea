//! Of the whole: random runs end well, and the same seed gives the same run.

use crate::dice::Ratio;
use crate::options::RecoveryOptions;
use crate::{Options, run, run_with_log};
use sheaf_protocol::ledger::{Counter, Ledger};
use sheaf_wire::{ByteCount, DropReason, MissingReason};
use std::collections::BTreeSet;

#[test]
fn a_run_without_faults_stores_everything_complete() {
    let report = run(&Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (200, 200, 0));
    assert_eq!(report.fragments.stored, 1_200);
    assert_eq!(report.written, 200);
}

#[test]
fn random_runs_end_with_balanced_books_and_reach_everything() {
    let (mut fragments, mut events) = (Ledger::default(), Ledger::default());
    let (mut missing, mut counters) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..600 {
        let report = run(&Options::random(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        fragments.add(&report.fragments);
        events.add(&report.ledger);
        missing.extend(report.missing.into_keys());
        counters.extend(report.counters.into_keys());
    }
    // A fault that the simulation never makes is a path that it never tests.
    let dropped: BTreeSet<_> = fragments.dropped.keys().chain(events.dropped.keys()).copied().collect();
    let unreached = |reason: &&DropReason| !dropped.contains(reason);
    let unreached: Vec<_> = DropReason::ALL.iter().filter(unreached).collect();
    assert_eq!(unreached, [&DropReason::Corrupt], "readout units leave checksums to their drivers");
    let unreached: Vec<_> = MissingReason::ALL.iter().filter(|reason| !missing.contains(reason)).collect();
    assert_eq!(unreached, [&MissingReason::ReadoutLost], "no role gives this reason yet");
    let in_ledger = Counter::Received..=Counter::InFlight;
    let unreached = Counter::ALL.iter().filter(|counter| !counters.contains(counter));
    let unreached: Vec<_> = unreached.filter(|counter| !in_ledger.contains(counter)).collect();
    assert_eq!(unreached, [&Counter::UnexpectedMessages], "it would be a failure");
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
