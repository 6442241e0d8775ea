//! Sources that an operator excludes, and includes again.

use super::*;
use sheaf_wire::MissingSource;
use sheaf_wire::message::Exclusion;

/// Gives the unit an order of the event manager, and returns what the unit has answered so far.
fn order(unit: &mut ReadoutUnit<Size>, source: u32, excluded: bool, event: u64) -> Vec<(bool, u64)> {
    let order = Exclusion { source: SourceId(source), excluded, event: EventId(event) };
    unit.handle_manager(Timestamp(0), Body::Exclude(order));
    replies(unit)
}

fn replies(unit: &mut ReadoutUnit<Size>) -> Vec<(bool, u64)> {
    let mut said = Vec::new();
    while let Some(body) = unit.reports.next::<Size>(Timestamp(0), || unit.merger.take_status(unit.driver)) {
        if let Body::Excluded(answer) = body {
            said.push((answer.excluded, answer.event.0));
        }
    }
    said
}

/// Sources of an event, and those that are missing.
type Built = (Vec<u32>, Vec<(u32, MissingReason)>);

/// Requests one event, and returns its answer if there is one.
fn built(unit: &mut ReadoutUnit<Size>, event: u64) -> Option<Built> {
    ask(unit, 0, event, 1, 1);
    let answers = answers(unit, Timestamp(0));
    let (_, answer) = answers.first()?;
    let missing = |missing: &MissingSource| (missing.source.0, missing.reason);
    Some((sources(answer), answer.missing.iter().map(missing).collect()))
}

const EXCLUDED: (u32, MissingReason) = (1, MissingReason::Excluded);

#[test]
fn events_above_those_that_the_source_has_delivered_do_not_wait_for_it() {
    let mut unit = unit(|_| {});
    (1..=9).for_each(|event| give(&mut unit, event, 0, 10));
    (1..=6).for_each(|event| give(&mut unit, event, 1, 10));
    ask(&mut unit, 0, 1, 4, 1);
    // What is held beyond the requested events is dropped.
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 5)]);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Excluded, 2)]));
    assert!(unit.is_excluded(SourceId(1)) && !unit.is_excluded(SourceId(0)));
    assert_eq!(answers(&mut unit, Timestamp(0))[0].1.missing, []);
    for event in 5..=9 {
        assert_eq!(built(&mut unit, event), Some((vec![0], vec![EXCLUDED])), "event {event}");
    }
    // One that is requested before its first fragment.
    assert_eq!(built(&mut unit, 10), None);
    give(&mut unit, 10, 0, 10);
    assert_eq!(answers(&mut unit, Timestamp(0))[0].1.missing[0].reason, MissingReason::Excluded);
    give(&mut unit, 11, 1, 10);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Excluded, 3)]));
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 5)], "again");
}

#[test]
fn events_that_wait_for_the_source_go_at_once() {
    let mut unit = unit(|config| config.wait_for_required = true);
    give(&mut unit, 1, 0, 10);
    ask(&mut unit, 0, 1, 1, 1);
    assert_eq!(answers(&mut unit, Timestamp(0)), []);
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 0)]);
    assert_eq!(answers(&mut unit, Timestamp(0))[0].1.missing[0].reason, MissingReason::Excluded);
}

#[test]
fn an_exclusion_begins_above_events_that_were_answered_without_the_source() {
    let mut unit = unit(|_| {});
    (1..=4).for_each(|event| give(&mut unit, event, 0, 10));
    ask(&mut unit, 0, 1, 2, 1);
    unit.handle_timeout(LATER);
    assert_eq!(answers(&mut unit, LATER).len(), 1);
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 3)]);
    // What comes late of an event below is late.
    give(&mut unit, 2, 1, 10);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Late, 1)]));
}

#[test]
fn events_below_the_first_one_have_the_fragments_that_come_out_of_order() {
    for waits in [false, true] {
        let mut unit = unit(|config| config.wait_for_required = waits);
        (1..=4).for_each(|event| give(&mut unit, event, 0, 10));
        give(&mut unit, 3, 1, 10);
        assert_eq!(built(&mut unit, 3), Some((vec![0, 1], vec![])));
        assert_eq!(order(&mut unit, 1, true, 0), [(true, 4)]);
        give(&mut unit, 2, 1, 10);
        assert_eq!(built(&mut unit, 2), Some((vec![0, 1], vec![])));
        // The one of event 1 is not awaited without limit.
        ask(&mut unit, 0, 1, 1, 1);
        unit.handle_timeout(LATER);
        assert_eq!(answers(&mut unit, LATER)[0].1.missing[0].reason, MissingReason::SourceSilent);
    }
}

#[test]
fn a_source_is_included_with_its_next_fragment() {
    let mut unit = unit(|_| {});
    (1..=9).for_each(|event| give(&mut unit, event, 0, 10));
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 0)]);
    assert_eq!(order(&mut unit, 1, false, 0), []);
    assert!(unit.is_excluded(SourceId(1)), "it is silent, and nothing waits for it");
    assert_eq!(built(&mut unit, 1), Some((vec![0], vec![EXCLUDED])));
    give(&mut unit, 4, 1, 10);
    assert_eq!(replies(&mut unit), [(false, 4)]);
    assert!(!unit.is_excluded(SourceId(1)));
    assert_eq!(built(&mut unit, 3), Some((vec![0], vec![EXCLUDED])));
    assert_eq!(built(&mut unit, 4), Some((vec![0, 1], vec![])));
    assert_eq!(built(&mut unit, 5), None, "it is awaited again");
    give(&mut unit, 5, 1, 10);
    assert_eq!(answers(&mut unit, Timestamp(0)).len(), 1);
    assert!(ledger(&unit).dropped.is_empty());
}

#[test]
fn a_source_that_returns_behind_the_others_is_included_above_what_was_answered() {
    let mut unit = unit(|_| {});
    (1..=9).for_each(|event| give(&mut unit, event, 0, 10));
    order(&mut unit, 1, true, 0);
    assert!(built(&mut unit, 6).is_some());
    order(&mut unit, 1, false, 0);
    give(&mut unit, 2, 1, 10);
    assert_eq!(replies(&mut unit), [(false, 7)]);
    (3..=7).for_each(|event| give(&mut unit, event, 1, 10));
    assert_eq!(built(&mut unit, 7), Some((vec![0, 1], vec![])));
    assert_eq!(built(&mut unit, 5), Some((vec![0], vec![EXCLUDED])), "one below was not answered yet");
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Excluded, 5)]));
}

#[test]
fn the_first_fragment_may_find_no_room() {
    let mut unit = unit(|config| (config.buffer_events, config.wait_for_required) = (1, true));
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 1, 10);
    ask(&mut unit, 0, 1, 1, 1);
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 2)]);
    give(&mut unit, 3, 1, 10);
    assert_eq!(order(&mut unit, 1, false, 0), []);
    assert!(unit.handle_fragment(Timestamp(0), fragment(5, 1, 10)).is_err());
    assert_eq!(replies(&mut unit), [(false, 5)]);
    // The next exclusion begins where that one has ended.
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 5)]);
    ask(&mut unit, 0, 3, 1, 1);
    give(&mut unit, 3, 0, 10);
    let answer = &answers(&mut unit, Timestamp(0))[0].1;
    assert_eq!(answer.missing[0].reason, MissingReason::Excluded);
}

#[test]
fn a_source_that_ends_meanwhile_is_included_as_one_that_has_ended() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 1, 10);
    assert!(built(&mut unit, 1).is_some());
    order(&mut unit, 1, true, 0);
    assert!(unit.merger.take_status(unit.driver).sources_ended == 1, "nobody waits for its end");
    order(&mut unit, 1, false, 0);
    unit.handle_source_end(Timestamp(0), SourceId(1));
    assert_eq!(replies(&mut unit), [(false, 2)]);
    give(&mut unit, 2, 0, 10);
    assert_eq!(built(&mut unit, 2), Some((vec![0], vec![(1, MissingReason::SourceEnded)])));
}

#[test]
fn a_run_does_not_end_without_the_events_of_a_source_that_is_to_return() {
    let mut unit = unit(|_| {});
    let ended = |unit: &mut ReadoutUnit<Size>| unit.merger.take_status(unit.driver).sources_ended;
    order(&mut unit, 1, true, 0);
    assert_eq!(ended(&mut unit), 1, "nobody waits for its end");
    order(&mut unit, 1, false, 0);
    assert_eq!(ended(&mut unit), 0, "it is included again, and has not delivered its first fragment");
    order(&mut unit, 1, true, 0);
    assert_eq!(ended(&mut unit), 1);
    order(&mut unit, 1, false, 0);
    give(&mut unit, 1, 1, 10);
    assert_eq!(ended(&mut unit), 0);
    unit.handle_source_end(Timestamp(0), SourceId(1));
    assert_eq!(ended(&mut unit), 1);
}

#[test]
fn wrong_numbers_far_ahead_move_no_boundary() {
    let mut unit = unit(|_| {});
    (1..=3).for_each(|event| give(&mut unit, event, 0, 10));
    (1..=2).for_each(|event| give(&mut unit, event, 1, 10));
    ask(&mut unit, 0, 1, 2, 1);
    give(&mut unit, 1 << 40, 1, 10);
    ask(&mut unit, 0, 1 << 40, 1, 1);
    unit.handle_timeout(LATER);
    assert_eq!(answers(&mut unit, LATER).len(), 1);
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 3)]);
    order(&mut unit, 1, false, 0);
    give(&mut unit, 4, 1, 10);
    assert_eq!(replies(&mut unit), [(false, 4)]);
}

#[test]
fn orders_about_other_sources_are_counted_and_ignored() {
    let mut unit = unit(|_| {});
    assert_eq!(order(&mut unit, 7, true, 0), []);
    assert_eq!(order(&mut unit, 1, false, 0), [], "it is not excluded");
    assert_eq!(unit.books().counters[&Counter::UnexpectedMessages], 2);
}

#[test]
fn a_fragment_that_was_refused_is_not_awaited_again() {
    let mut unit = unit(|config| config.wait_for_required = true);
    (1..=3).for_each(|event| give(&mut unit, event, 0, 10));
    give(&mut unit, 1, 1, 1_001);
    give(&mut unit, 2, 1, 1_001);
    assert_eq!(order(&mut unit, 1, true, 0), [(true, 0)]);
    order(&mut unit, 1, false, 0);
    give(&mut unit, 3, 1, 10);
    assert_eq!(replies(&mut unit), [(false, 3)]);
    assert_eq!(built(&mut unit, 1), Some((vec![0], vec![EXCLUDED])));
    assert_eq!(built(&mut unit, 2), Some((vec![0], vec![EXCLUDED])));
}
