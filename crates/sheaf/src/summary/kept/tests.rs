//! Reports of losses, and cases without one.

use super::*;
use crate::summary::{FragmentSummary, LedgerSummary};

fn books<const N: usize>(drops: [(DropReason, u64); N]) -> BTreeMap<String, u64> {
    drops.into_iter().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

/// The summary of a run that stored 100 events and dropped these triggers and fragments.
fn summary<const N: usize, const M: usize>(
    triggers: [(DropReason, u64); N],
    fragments: [(DropReason, u64); M],
) -> Summary {
    let triggers = books(triggers);
    let ledger = LedgerSummary {
        triggers: 100 + triggers.values().sum::<u64>(),
        stored: 100,
        dropped: triggers,
        balanced: true,
        fragments: FragmentSummary { dropped: books(fragments), ..FragmentSummary::default() },
        ..LedgerSummary::default()
    };
    Summary { ledger, ..Summary::default() }
}

fn headline(summary: &Summary) -> String {
    Kept::of(summary).to_string()
}

#[test]
fn every_reason_is_a_loss_with_a_cause_and_a_remedy_or_makes_none() {
    for reason in DropReason::ALL {
        for summary in [summary([(reason, 7)], []), summary([], [(reason, 7)])] {
            let kept = Kept::of(&summary);
            assert_eq!(kept.all, reason.account() != Account::Loss, "{reason}");
            assert_eq!(kept.losses.len(), usize::from(reason.account() == Account::Loss), "{reason}");
            for loss in kept.losses {
                assert_eq!((loss.count, loss.reason.as_str()), (7, reason.name()));
                assert!(!loss.cause.is_empty() && !loss.remedy.is_empty(), "{reason}");
            }
        }
    }
}

#[test]
fn a_run_that_kept_everything_says_so_in_one_line() {
    let text = headline(&summary([], [(DropReason::NeverTriggered, 12)]));
    assert_eq!(text, "kept              all 100 accepted triggers: 100 stored, 0 rejected by the filter\n");
    let text = headline(&summary([(DropReason::Incomplete, 3)], []));
    assert!(text.ends_with("0 rejected by the filter, 3 dropped as configured\n"), "{text}");
}

#[test]
fn a_run_without_an_accepted_trigger_says_so() {
    let text = headline(&Summary::default());
    assert_eq!(text, "kept              no events: no trigger was accepted\n");
}

#[test]
fn a_loss_is_told_with_its_number_its_cause_and_its_remedy() {
    let text = headline(&summary([(DropReason::BuilderLost, 1_961)], []));
    assert!(text.starts_with("LOST              1,961 of 2,061 accepted triggers: 100 stored"), "{text}");
    assert!(text.contains("\n  1,961 triggers builder_lost: "), "{text}");
    assert!(text.contains("\n    remedy: "), "{text}");
}

#[test]
fn a_filter_that_is_slow_on_the_builder_units_own_thread_is_named_as_the_remedy() {
    let mut summary = summary([(DropReason::BuilderLost, 5)], [(DropReason::NotBuilt, 9)]);
    assert!(!headline(&summary).contains("filter.workers"));
    summary.inline_judging_us = Some(20_000.0);
    let text = headline(&summary);
    assert_eq!(text.matches("an event takes 20.0 ms").count(), 2, "{text}");
    assert!(text.contains("`filter.workers`"), "{text}");
    summary.inline_judging_us = Some(2.0);
    assert!(!headline(&summary).contains("filter.workers"));
}

#[test]
fn incomplete_events_are_told_with_the_sources_that_they_lack() {
    let mut summary = summary([], []);
    summary.events_incomplete = 40;
    let of = |reason: MissingReason, count| BTreeMap::from([(reason.name().to_owned(), count)]);
    summary.missing_sources = BTreeMap::from([
        ("2".into(), of(MissingReason::SourceSilent, 3)),
        ("7".into(), of(MissingReason::SourceEnded, 38)),
    ]);
    let text = headline(&summary);
    assert!(text.contains("INCOMPLETE        40 of 100 events lack a required source\n"), "{text}");
    assert!(
        text.contains("without source 7 in 38 (source_ended), source 2 in 3 (source_silent)\n"),
        "{text}"
    );
    assert!(text.contains("`source.optional`"), "{text}");
    assert!(!Kept::of(&summary).all);
}

#[test]
fn fragments_that_came_late_are_the_remedy_for_sources_that_seemed_silent() {
    let mut summary = summary([], [(DropReason::Late, 3)]);
    summary.events_incomplete = 3;
    summary.missing_sources =
        BTreeMap::from([("2".into(), BTreeMap::from([(MissingReason::SourceSilent.name().to_owned(), 3)]))]);
    let text = headline(&summary);
    assert!(text.contains("the fragments came late: raise `readout.merge_timeout_ms`"), "{text}");
}

#[test]
fn fragments_that_a_restarted_readout_unit_delivers_again_are_no_loss() {
    let mut summary = summary([], [(DropReason::Late, 3)]);
    assert_eq!(Kept::of(&summary).fragments_lost, 3);
    summary.trouble.restarted_readouts = 1;
    assert!(Kept::of(&summary).all, "every event has its fragments");
    summary.events_incomplete = 1;
    assert_eq!(Kept::of(&summary).fragments_lost, 3);
}
