//! Of the whole: random runs end well, and the same seed gives the same run.

use crate::{Options, run, run_with_log};

#[test]
fn a_run_without_faults_stores_everything_complete() {
    let report = run(&Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.ledger.received, report.ledger.stored, report.incomplete), (200, 200, 0));
    assert_eq!(report.fragments.stored, 1_200);
    assert_eq!(report.written, 200);
}

#[test]
fn random_runs_end_with_balanced_books() {
    for seed in 0..300 {
        if let Err(failure) = run(&Options::random(seed)) {
            panic!("{failure}");
        }
    }
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
