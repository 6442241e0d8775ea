//! Events in parts: steps, regions of interest, and triggers that not all readout units answer.

use super::*;
use sheaf_wire::message::{PARTS_NOT_ASKED, PartRequest};
use std::collections::BTreeMap;

/// Readout unit 0 has the sources 0 and 1, readout unit 1 the sources 2 and 3; source 0 is the first step.
fn stepped(adjust: impl FnOnce(&mut BuilderConfig)) -> BuilderUnit<Size> {
    super::builder(|config| {
        config.scope.first_step = BTreeSet::from([SourceId(0)]);
        adjust(config);
    })
}

fn answer_part(
    builder: &mut BuilderUnit<Size>,
    readout: u16,
    event: u64,
    (attempt, part): (u16, u16),
    sources: &[u32],
) {
    let readout = Identity { node: NodeId::readout(readout), run: RunNumber(1), session: SessionId(1) };
    let event = EventId(event);
    let fragment = |source: &u32| Fragment {
        event,
        source: SourceId(*source),
        time: START,
        checksum: None,
        processed: false,
        mark: sheaf_wire::NumberMark::NONE,
        payload: Size(10),
    };
    let parts = SuperFragments {
        entries: vec![SuperFragment {
            event,
            count: 1,
            attempt,
            part,
            fragments: sources.len() as u16,
            missing: 0,
        }],
        fragments: sources.iter().map(fragment).collect(),
        missing: vec![],
    };
    builder.handle_input(START, readout.plain(Body::SuperFragments(parts)));
}

fn part(builder: &mut BuilderUnit<Size>) -> Option<Event<Size>> {
    std::iter::from_fn(|| builder.poll_event()).find_map(|event| match event {
        BuilderEvent::Part(event) => Some(event),
        BuilderEvent::Built(built) => panic!("event {} is built, not a part of it", built.event()),
        _ => None,
    })
}

/// Requests for parts: readout unit, part, sources, first event, count.
type Asked = (u16, u16, Vec<u32>, u64, u32);

fn asked_parts(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Vec<Asked> {
    let request = |(to, body): (NodeId, _)| match body {
        Body::PartRequest(PartRequest { part, sources, ranges }) => {
            let sources: Vec<u32> = sources.iter().map(|source| source.0).collect();
            let range = |range: EventRange| (to.index, part, sources.clone(), range.first.0, range.count);
            ranges.into_iter().map(range).collect()
        }
        _ => vec![],
    };
    bodies(builder, now).into_iter().flat_map(request).collect()
}

fn ids(event: &Event<Size>) -> Vec<u32> {
    event.fragments.iter().map(|fragment| fragment.source.0).collect()
}

#[test]
fn the_rest_is_asked_for_when_the_first_step_wants_it() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked_parts(&mut builder, START), [(0, 1, vec![0], 5, 2)]);
    for event in [5, 6] {
        answer_part(&mut builder, 0, event, (1, 1), &[0]);
        let part = part(&mut builder).expect("the first step is complete");
        assert_eq!((ids(&part), part.incomplete), (vec![0], false));
        builder.handle_part_decision(START, part, PartDecision::More(More::All));
    }
    assert_eq!(asked_parts(&mut builder, START), [(0, 2, vec![1], 5, 2), (1, 2, vec![2, 3], 5, 2)]);
    answer_part(&mut builder, 1, 5, (1, 2), &[2, 3]);
    // Late copies of the first step, and answers of another attempt, are not the second.
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    answer_part(&mut builder, 0, 5, (2, 2), &[1]);
    assert_eq!(builder.books().counters[&Counter::StaleSuperFragments], 2);
    answer_part(&mut builder, 0, 5, (1, 2), &[1]);
    let event = built(&mut builder).expect("all have answered");
    assert_eq!((ids(&event), event.incomplete), (vec![0, 1, 2, 3], false));
    builder.handle_decision(START, event.id, Decision::Stored);
    let finished = requests(&mut builder, LATER).remove(0).finished;
    assert_eq!((finished[0].fragments, finished[0].bytes), (4, ByteCount(40)));
}

#[test]
fn windows_of_an_event_are_not_those_of_the_next_one_in_its_place() {
    let mut builder = stepped(|config| config.slots = 1);
    let _ = requests(&mut builder, START);
    let windows = |builder: &mut BuilderUnit<Size>| {
        let of_request = |(_, body)| match body {
            Body::WindowRequest(request) => request.events.iter().map(|event| event.window).collect(),
            _ => vec![],
        };
        bodies(builder, START).into_iter().flat_map(of_request).collect::<Vec<_>>()
    };
    let window = sheaf_wire::HitInterval { from_ps: 10, until_ps: 20 };
    for (event, more, expected) in [(5, More::Windows(vec![window]), vec![window; 2]), (6, More::All, vec![])]
    {
        assign(&mut builder, event, 1, 1);
        assert_eq!(windows(&mut builder), [], "the first step has fragments");
        answer_part(&mut builder, 0, event, (1, 1), &[0]);
        let part = part(&mut builder).expect("the first step is complete");
        builder.handle_part_decision(START, part, PartDecision::More(more));
        assert_eq!(windows(&mut builder), expected);
        answer_part(&mut builder, 0, event, (1, 2), &[1]);
        answer_part(&mut builder, 1, event, (1, 2), &[2, 3]);
        let event = built(&mut builder).expect("all have answered");
        builder.handle_decision(START, event.id, Decision::Stored);
        let _ = requests(&mut builder, LATER);
    }
}

#[test]
fn an_event_that_gives_way_to_one_that_lacked_memory_does_not_return_with_it() {
    let mut builder = stepped(|config| (config.memory, config.slots) = (ByteCount(36), 2));
    let _ = requests(&mut builder, START);
    assign(&mut builder, 5, 2, 1);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let older = part(&mut builder).expect("the first step is complete");
    answer_part(&mut builder, 0, 6, (1, 1), &[0]);
    let younger = part(&mut builder).expect("the first step is complete");
    builder.handle_part_decision(START, older, PartDecision::More(More::All));
    // The younger event is being judged, so that it cannot make way.
    answer_part(&mut builder, 1, 5, (1, 2), &[2, 3]);
    builder.handle_part_decision(START, younger, PartDecision::More(More::All));
    from_manager(&mut builder, Body::Command(Command::GiveWay));
    let request = requests(&mut builder, START).remove(0);
    assert_eq!(request.finished.iter().map(|it| it.event.0).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(request.slots, 1, "room for the older one alone");
    assign(&mut builder, 5, 1, 2);
    answer_part(&mut builder, 0, 5, (2, 1), &[0]);
    let older = part(&mut builder).expect("the first step is complete");
    builder.handle_part_decision(START, older, PartDecision::Rejected);
    assert_eq!(requests(&mut builder, LATER).remove(0).slots, 2, "now there is room for both");
}

#[test]
fn a_rejected_part_ends_its_event_with_what_was_asked_for() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 1, 1);
    let _ = requests(&mut builder, START);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let part = part(&mut builder).unwrap();
    assert_eq!(builder.held(), (1, 0, ByteCount(10)), "an event that is judged is held");
    builder.handle_part_decision(START, part, PartDecision::Rejected);
    assert_eq!(builder.held(), (0, 0, ByteCount(0)));
    let request = requests(&mut builder, LATER).remove(0);
    assert_eq!((request.slots, request.absent.len()), (1, 0));
    assert_eq!((request.finished[0].outcome, request.finished[0].fragments), (Outcome::Rejected, 1));
    assert_eq!(builder.books().counters[&Counter::RejectedParts], 1);
}

#[test]
fn parts_are_decided_in_any_order() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 2, 1);
    let mut parts = Vec::new();
    for event in [5, 6] {
        answer_part(&mut builder, 0, event, (1, 1), &[0]);
        parts.extend(part(&mut builder));
    }
    builder.handle_part_decision(START, parts.remove(1), PartDecision::Enough);
    assert_eq!(built(&mut builder).map(|event| (event.id, ids(&event))), Some((EventId(6), vec![0])));
    builder.handle_part_decision(START, parts.remove(0), PartDecision::Dropped(DropReason::ContentMismatch));
    assert_eq!(built(&mut builder), None);
}

#[test]
fn regions_of_interest_are_judged_again_until_nothing_new_is_wanted() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 1, 1);
    let _ = asked_parts(&mut builder, START);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let wanted =
        |sources: &[u32]| PartDecision::More(More::Sources(sources.iter().copied().map(SourceId).collect()));
    let first = part(&mut builder).unwrap();
    builder.handle_part_decision(START, first, wanted(&[0, 3, 99]));
    assert_eq!(asked_parts(&mut builder, START), [(1, 2, vec![3], 5, 1)]);
    answer_part(&mut builder, 1, 5, (1, 2), &[3]);
    let second = part(&mut builder).unwrap();
    assert_eq!(ids(&second), [0, 3]);
    builder.handle_part_decision(START, second, wanted(&[2]));
    answer_part(&mut builder, 1, 5, (1, 3), &[2]);
    let third = part(&mut builder).unwrap();
    builder.handle_part_decision(START, third, wanted(&[3, 0]));
    let event = built(&mut builder).expect("nothing new was wanted");
    assert_eq!((ids(&event), event.incomplete), (vec![0, 2, 3], false));
}

#[test]
fn all_the_rest_after_a_region_of_interest_is_what_is_not_there_yet() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 1, 1);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let first = part(&mut builder).unwrap();
    builder.handle_part_decision(START, first, PartDecision::More(More::Sources(vec![SourceId(2)])));
    answer_part(&mut builder, 1, 5, (1, 2), &[2]);
    let second = part(&mut builder).unwrap();
    let _ = asked_parts(&mut builder, START);
    builder.handle_part_decision(START, second, PartDecision::More(More::All));
    assert_eq!(asked_parts(&mut builder, START), [(0, 3, vec![1], 5, 1), (1, 3, vec![3], 5, 1)]);
}

#[test]
fn a_unit_that_was_silent_in_a_step_is_not_waited_for_again() {
    let mut builder = stepped(|config| config.scope.first_step = BTreeSet::from([SourceId(0), SourceId(2)]));
    assign(&mut builder, 5, 1, 1);
    let _ = requests(&mut builder, START);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let now = ask_again_in_vain(&mut builder, LATER);
    let silent = |source| MissingSource { source: SourceId(source), reason: MissingReason::ReadoutSilent };
    let first = part(&mut builder).unwrap();
    assert_eq!((first.missing.clone(), first.incomplete), (vec![silent(2)], true));
    builder.handle_part_decision(now, first, PartDecision::More(More::All));
    assert_eq!(asked_parts(&mut builder, now), [(0, 2, vec![1], 5, 1)]);
    // The other one has died, too, after it had answered the first part.
    builder.handle_link(START, NodeId::readout(0), LinkStatus::Down);
    let end = now + TIMEOUT;
    builder.handle_timeout(end);
    let event = built(&mut builder).unwrap();
    assert_eq!((ids(&event), event.missing.clone()), (vec![0], vec![silent(1), silent(2), silent(3)]));
    builder.handle_decision(end, event.id, Decision::Stored);
    let absent = requests(&mut builder, end + TIMEOUT).remove(0).absent;
    let absent_from = |readout, parts| AbsentReadout { event: EventId(5), readout, parts };
    assert_eq!(absent, [absent_from(1, 0), absent_from(0, 1)]);
}

#[test]
fn the_policy_to_drop_does_not_wait_for_the_second_step() {
    let mut builder = stepped(|config| config.incomplete = IncompletePolicy::Drop);
    assign(&mut builder, 5, 1, 1);
    let _ = requests(&mut builder, START);
    let end = ask_again_in_vain(&mut builder, LATER);
    assert_eq!(part(&mut builder), None);
    let finished = requests(&mut builder, end).remove(0).finished;
    assert_eq!(finished[0].reason, Some(DropReason::Incomplete));
}

#[test]
fn a_step_without_an_answer_is_asked_for_again() {
    let mut builder = stepped(|config| config.incomplete = IncompletePolicy::Wait);
    assign(&mut builder, 5, 2, 1);
    let _ = asked_parts(&mut builder, START);
    answer_part(&mut builder, 0, 5, (1, 1), &[0]);
    let first = part(&mut builder).unwrap();
    builder.handle_part_decision(START, first, PartDecision::More(More::All));
    let _ = asked_parts(&mut builder, START);
    answer_part(&mut builder, 1, 5, (1, 2), &[2, 3]);
    builder.handle_timeout(LATER);
    assert_eq!(asked_parts(&mut builder, LATER), [(0, 1, vec![0], 6, 1), (0, 2, vec![1], 5, 1)]);
}

#[test]
fn later_attempts_say_whom_they_have_not_asked() {
    let mut builder = stepped(|_| {});
    assign(&mut builder, 5, 1, 2);
    let _ = requests(&mut builder, START);
    answer_part(&mut builder, 0, 5, (2, 1), &[0]);
    let part = part(&mut builder).unwrap();
    builder.handle_part_decision(START, part, PartDecision::Rejected);
    let absent = requests(&mut builder, LATER).remove(0).absent;
    assert_eq!(absent, [AbsentReadout { event: EventId(5), readout: 1, parts: PARTS_NOT_ASKED }]);
}

#[test]
fn a_trigger_is_answered_by_the_units_of_its_type() {
    let mut builder = super::builder(|config| {
        config.scope.answering = BTreeMap::from([(TriggerType(0), BTreeSet::from([1]))]);
    });
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked(&mut builder, START), [(1, 5, 2)]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    assert_eq!(builder.books().counters[&Counter::DuplicateSuperFragments], 1, "it received no request");
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    let event = built(&mut builder).expect("the event does not wait for the others");
    assert_eq!((ids(&event), event.incomplete, event.missing.len()), (vec![2, 3], false, 0));
}

#[test]
fn a_trigger_that_nobody_answers_is_an_event_without_fragments() {
    let mut builder = super::builder(|config| {
        config.scope.answering = BTreeMap::from([(TriggerType(0), BTreeSet::new())]);
    });
    assign(&mut builder, 5, 1, 1);
    assert_eq!(built(&mut builder).map(|event| event.fragments.len()), Some(0));
}

#[test]
fn units_that_are_not_needed_yet_are_told_where_they_might_drop_the_event() {
    let mut builder = stepped(|config| config.scope.announces_all = true);
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked_parts(&mut builder, START), [(0, 1, vec![0], 5, 2), (1, 1, vec![], 5, 2)]);
}

#[test]
fn paced_requests_for_parts_keep_to_the_credit() {
    let mut builder = stepped(|config| config.asking = Asking::Paced(ByteCount(300)));
    assign(&mut builder, 5, 4, 1);
    let mut judged = 0;
    let mut finished = 0;
    for _ in 0..40 {
        for (readout, number, sources, first, count) in asked_parts(&mut builder, START) {
            for event in first..first + u64::from(count) {
                answer_part(&mut builder, readout, event, (1, number), &sources);
            }
        }
        assert!(builder.in_flight() <= ByteCount(300));
        while let Some(event) = builder.poll_event() {
            match event {
                BuilderEvent::Part(part) => {
                    judged += 1;
                    builder.handle_part_decision(START, part, PartDecision::More(More::All));
                }
                BuilderEvent::Built(built) => {
                    builder.lend(built, |event| assert_eq!(ids(event), [0, 1, 2, 3]));
                    finished += 1;
                    builder.handle_decision(START, built.event(), Decision::Stored);
                }
                _ => {}
            }
        }
    }
    assert_eq!((judged, finished, builder.in_flight()), (4, 4, ByteCount(0)));
}
