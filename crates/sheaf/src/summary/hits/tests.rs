use super::*;
use crate::summary::{Kept, LedgerSummary, Summary};

/// The ledger of 1,000 hits, of which some are late or untimed.
fn ledger(late: u64, untimed: u64) -> HitLedger {
    HitLedger { received: 1_000, in_slices: 1_000 - late - untimed, late, untimed, ..HitLedger::default() }
}

fn summary(hits: HitLedger, lost_hits_allowed: f64) -> Summary {
    let ledger = LedgerSummary { triggers: 10, stored: 10, balanced: true, ..LedgerSummary::default() };
    let mut summary = Summary { ledger, hits: Some(hits), lost_hits_allowed, ..Summary::default() };
    summary.kept = Kept::of(&summary);
    summary
}

#[test]
fn lost_hits_are_in_the_headline_and_in_the_status_unless_they_are_allowed() {
    let lossy = summary(ledger(20, 0), 0.0);
    assert!(!lossy.is_good());
    let text = lossy.kept.to_string();
    assert!(text.contains("LOST HITS         20 hits are in no time slice"), "{text}");
    assert!(text.contains("20 hits late: they came after"), "{text}");
    assert!(text.contains("remedy: raise `source.timed.tolerance_us`"), "{text}");
    let allowed = summary(ledger(20, 0), 0.02);
    assert!(allowed.is_good() && allowed.kept.all, "{}", allowed.kept);
    assert!(!summary(ledger(21, 0), 0.02).is_good());
}

#[test]
fn hits_before_the_first_time_marker_are_not_lost() {
    assert!(summary(ledger(0, 300), 0.0).is_good());
}

#[test]
fn packets_that_waited_for_a_readout_unit_are_lost() {
    let summary = summary(HitLedger { packets_dropped: 4, ..ledger(0, 0) }, 1.0);
    assert!(!summary.is_good());
    let text = summary.kept.to_string();
    assert!(text.contains("4 packets dropped: too many waited"), "{text}");
}

#[test]
fn hits_that_are_in_no_line_are_a_problem() {
    let missing = HitLedger { in_slices: 999, ..ledger(0, 0) };
    let summary = summary(missing, 1.0);
    assert!(!summary.is_good());
    let text = summary.to_string();
    assert!(text.contains("NOT BALANCED: 1000 hits received, 999 accounted for"), "{text}");
}

#[test]
fn books_of_a_source_become_a_ledger_that_balances() {
    let mut books = FeedBooks { hits: 10, hits_in_slices: 6, hits_waiting: 1, ..FeedBooks::default() };
    (books.slices.late, books.slices.left_out, books.hits_untimed) = (2, 1, 5);
    let mut sum = HitLedger::of(&books);
    assert_eq!((sum.received, sum.problem()), (15, None));
    books.hits_in_slices -= 1;
    sum.join(&HitLedger::of(&books));
    assert_eq!(sum.unbalanced_sources, 1);
    assert!(sum.problem().unwrap().contains("1 sources do not balance"));
}
