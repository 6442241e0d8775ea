//! Requests for some of the sources.

use super::*;
use sheaf_wire::message::PARTS_NOT_ASKED;

fn ask_part(
    unit: &mut ReadoutUnit<Size>,
    builder: u16,
    event: u64,
    attempt: u16,
    part: u16,
    sources: &[u32],
) {
    let builder = Identity { node: NodeId::builder(builder), run: RunNumber(1), session: SessionId(1) };
    let ranges = vec![EventRange { first: EventId(event), count: 1, attempt }];
    let sources = sources.iter().copied().map(SourceId).collect();
    unit.handle_input(Timestamp(0), builder.plain(Body::PartRequest(PartRequest { part, sources, ranges })));
}

fn release_parts(unit: &mut ReadoutUnit<Size>, event: u64, outcome: Outcome, parts: u16) {
    let release = Release { first: EventId(event), count: 1, outcome, reason: None, parts };
    from_manager(unit, Body::Release(vec![release]));
}

fn answered(unit: &mut ReadoutUnit<Size>) -> Vec<(u16, u16, Vec<u32>)> {
    let all = answers(unit, Timestamp(0));
    all.iter().map(|(_, parts)| (parts.entries[0].attempt, parts.entries[0].part, sources(parts))).collect()
}

#[test]
fn a_part_is_answered_without_waiting_for_the_other_sources() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    ask_part(&mut unit, 0, 1, 1, 1, &[0]);
    assert_eq!(answered(&mut unit), [(1, 1, vec![0])]);
    ask_part(&mut unit, 0, 1, 1, 2, &[1]);
    assert_eq!(answered(&mut unit), []);
    give(&mut unit, 1, 1, 20);
    assert_eq!(answered(&mut unit), [(1, 2, vec![1])]);
    assert_eq!(unit.books().counters[&Counter::SentBytes], 30);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    assert_eq!(ledger(&unit), Ledger { received: 2, stored: 2, ..Ledger::default() });
}

#[test]
fn what_nobody_asked_for_of_an_event_that_ended_is_booked_by_that_name() {
    for outcome in [Outcome::Stored, Outcome::Rejected] {
        let mut unit = unit(|_| {});
        for event in [1, 2] {
            give(&mut unit, event, 0, 10);
            give(&mut unit, event, 1, 20);
        }
        // Of event 1 one source is asked for, of event 2 nothing.
        ask_part(&mut unit, 0, 1, 1, 1, &[0]);
        release(&mut unit, 1, 2, outcome, None);
        let (stored, rejected) = if outcome == Outcome::Stored { (1, 0) } else { (0, 1) };
        let dropped = BTreeMap::from([(DropReason::NotRequested, 3)]);
        assert_eq!(ledger(&unit), Ledger { received: 4, stored, rejected, dropped, ..Ledger::default() });
        assert_eq!(unit.books().counters[&Counter::NotRequestedBytes], 50);
    }
}

#[test]
fn a_part_that_the_builder_did_not_get_is_not_built() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 1, 20);
    ask_part(&mut unit, 0, 1, 1, 1, &[0]);
    ask_part(&mut unit, 0, 1, 1, 2, &[1]);
    release_parts(&mut unit, 1, Outcome::Stored, 1);
    let dropped = BTreeMap::from([(DropReason::NotBuilt, 1)]);
    assert_eq!(ledger(&unit), Ledger { received: 2, stored: 1, dropped, ..Ledger::default() });
}

#[test]
fn what_an_earlier_attempt_asked_for_counts_no_more() {
    let mut unit = unit(|_| {});
    for event in [1, 2] {
        give(&mut unit, event, 0, 10);
        give(&mut unit, event, 1, 20);
        ask_part(&mut unit, 0, event, 1, 1, &[0]);
        ask_part(&mut unit, 0, event, 1, 2, &[1]);
    }
    // Another builder has event 1 and wants less of it; it has event 2, too, and nothing of this unit.
    ask_part(&mut unit, 1, 1, 2, 1, &[0]);
    ask_part(&mut unit, 0, 1, 1, 2, &[1]);
    assert_eq!(unit.books().counters[&Counter::StaleRequests], 1);
    release(&mut unit, 1, 1, Outcome::Rejected, None);
    release_parts(&mut unit, 2, Outcome::Rejected, PARTS_NOT_ASKED);
    let dropped = BTreeMap::from([(DropReason::NotRequested, 3)]);
    assert_eq!(ledger(&unit), Ledger { received: 4, rejected: 1, dropped, ..Ledger::default() });
}

#[test]
fn a_repeated_request_for_a_part_is_answered_again_and_one_for_an_earlier_part_is_not() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 1, 20);
    for (part, source) in [(1, 0), (1, 0), (2, 1), (1, 0), (2, 1)] {
        ask_part(&mut unit, 0, 1, 1, part, &[source]);
        let expected = if part == 1 && unit.books().counters.contains_key(&Counter::StaleRequests) {
            vec![]
        } else {
            vec![(1, part, vec![source])]
        };
        assert_eq!(answered(&mut unit), expected);
    }
    let counters = unit.books().counters;
    assert_eq!((counters[&Counter::StaleRequests], counters[&Counter::Resent]), (1, 2));
}

#[test]
fn silent_sources_are_given_up_in_each_part_after_its_own_time() {
    let mut unit = unit(|_| {});
    ask_part(&mut unit, 0, 1, 1, 1, &[0]);
    let almost = Timestamp(99_000_000);
    give(&mut unit, 1, 0, 10);
    unit.handle_timeout(almost);
    assert_eq!(answered(&mut unit), [(1, 1, vec![0])]);
    let builder = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };
    let ranges = vec![EventRange { first: EventId(1), count: 1, attempt: 1 }];
    let request = PartRequest { part: 2, sources: vec![SourceId(1)], ranges };
    unit.handle_input(almost, builder.plain(Body::PartRequest(request)));
    unit.handle_timeout(LATER);
    assert_eq!(answers(&mut unit, LATER), [], "the second part has its own time");
    let end = almost + TIMEOUT;
    unit.handle_timeout(end);
    let answer = &answers(&mut unit, end)[0].1;
    assert_eq!(
        answer.missing[0],
        sheaf_wire::MissingSource { source: SourceId(1), reason: MissingReason::SourceSilent }
    );
}

#[test]
fn an_event_that_is_only_spoken_of_is_no_orphan() {
    let mut unit = unit(|config| config.orphan_timeout = Some(TIMEOUT));
    for event in [1, 2, 3] {
        give(&mut unit, event, 0, 1);
    }
    // Event 1 is built with other units' sources so far, event 2 is passed over.
    ask_part(&mut unit, 0, 1, 1, 1, &[]);
    assert_eq!(answered(&mut unit), [], "nothing is wanted");
    ask_part(&mut unit, 0, 3, 1, 1, &[0]);
    unit.handle_timeout(LATER);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::UnknownEvent, 1)]));
    ask_part(&mut unit, 0, 1, 1, 2, &[0]);
    assert_eq!(answers(&mut unit, LATER)[0].1.entries[1].event, EventId(1));
}

#[test]
fn sources_of_other_units_are_not_asked_for_here() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    ask_part(&mut unit, 0, 1, 1, 1, &[0, 77, 0]);
    assert_eq!(answered(&mut unit), [(1, 1, vec![0])]);
    assert_eq!(unit.books().counters[&Counter::UnexpectedMessages], 1);
}

#[test]
fn what_comes_after_its_event_ended_without_it_is_not_late() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    ask_part(&mut unit, 0, 1, 1, 1, &[0]);
    ask(&mut unit, 0, 2, 1, 1);
    release(&mut unit, 1, 2, Outcome::Rejected, None);
    give(&mut unit, 1, 1, 20);
    give(&mut unit, 2, 1, 20);
    let dropped = BTreeMap::from([(DropReason::NotRequested, 1), (DropReason::Late, 1)]);
    assert_eq!(ledger(&unit), Ledger { received: 3, rejected: 1, dropped, ..Ledger::default() });
    assert_eq!(unit.books().counters[&Counter::NotRequestedBytes], 20);
}
