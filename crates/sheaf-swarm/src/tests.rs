//! Of the whole: random runs end well, and the same seed gives the same run.

use crate::coverage::Coverage;
use crate::dice::Ratio;
use crate::options::RecoveryOptions;
use crate::{Options, run, run_with_log};
use sheaf_wire::ByteCount;

#[test]
fn a_run_without_faults_stores_everything_complete() {
    let report = run(&Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (200, 200, 0));
    assert_eq!(report.fragments.stored, 1_200);
    assert_eq!(report.written, 200);
}

/// Number of random runs for every change. CI also runs the 10,000 of `cargo xtask swarm`, which must reach everything.
const RUNS: u64 = 60;

#[test]
fn random_runs_end_with_balanced_books() {
    let mut coverage = Coverage::default();
    for seed in 0..RUNS {
        coverage.add(&run(&Options::random(seed)).unwrap_or_else(|failure| panic!("{failure}")));
    }
    assert_eq!(coverage.impossible(), Vec::<&str>::new());
}

#[test]
fn the_same_seed_gives_the_same_log_byte_for_byte() {
    for seed in 2..10 {
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
