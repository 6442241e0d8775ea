//! Sources that are silent, slow, gone, or only seem so.

use super::*;

const JOIN: Command = Command::Join { floor: EventId(0) };

#[test]
fn a_silent_source_is_missing_after_its_time() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    ask(&mut unit, 0, 1, 1, 1);
    assert_eq!(unit.poll_timeout().map(|deadline| deadline.why), Some(Why::Heartbeat));
    let _ = answers(&mut unit, Timestamp(0));
    unit.handle_timeout(LATER);
    let answer = &answers(&mut unit, LATER)[0].1;
    assert_eq!(sources(answer), [0]);
    let missing = sheaf_wire::MissingSource { source: SourceId(1), reason: MissingReason::SourceSilent };
    assert_eq!(answer.missing, [missing]);
    // Fragments after the answer are late.
    give(&mut unit, 1, 1, 5);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Late, 1)]));
}

#[test]
fn a_source_that_is_on_its_way_to_the_event_is_not_silent() {
    let mut unit = unit(|_| {});
    give(&mut unit, 9, 0, 10);
    ask(&mut unit, 0, 9, 1, 1);
    let almost = Timestamp(99_000_000);
    unit.handle_fragment(almost, fragment(7, 1, 10)).unwrap();
    unit.handle_timeout(LATER);
    assert_eq!(answers(&mut unit, LATER), [], "source 1 sends and has not come to event 9");
    // It skips the event: from then on it is silent about it.
    unit.handle_fragment(LATER, fragment(10, 1, 10)).unwrap();
    let end = LATER + TIMEOUT;
    unit.handle_timeout(end);
    assert_eq!(answers(&mut unit, end)[0].1.missing[0].reason, MissingReason::SourceSilent);
}

/// Answers a request of one event, of which source 1 gives its fragment so long after: the sources that are in it.
fn answer_after(unit: &mut ReadoutUnit<Size>, at: Timestamp, event: u64, delay: Nanos) -> Vec<u32> {
    unit.handle_fragment(at, fragment(event, 0, 10)).unwrap();
    ask_at(unit, at, event);
    let (mut now, mut given, mut found) = (at, false, Vec::new());
    while now < at + Nanos(50 * TIMEOUT.0) {
        if !given && now >= at + delay {
            unit.handle_fragment(now, fragment(event, 1, 10)).unwrap();
            given = true;
        }
        unit.handle_timeout(now);
        found.extend(answers(unit, now).first().map(|(_, answer)| sources(answer)));
        now += Nanos(TIMEOUT.0 / 10);
    }
    assert_eq!(found.len(), 1, "event {event} is answered once");
    found.remove(0)
}

#[test]
fn a_source_that_is_slower_than_the_limit_misses_once_and_is_waited_for_from_then_on() {
    let mut unit = unit(|_| {});
    let moment = |event: u64| Timestamp(event * 60 * TIMEOUT.0);
    let slow = Nanos(3 * TIMEOUT.0);
    assert_eq!(answer_after(&mut unit, moment(1), 1, slow), [0], "nobody could know");
    for event in 2..20 {
        assert_eq!(answer_after(&mut unit, moment(event), event, slow), [0, 1]);
    }
    // One that dies costs its limit, and half of that with each event.
    unit.handle_fragment(moment(20), fragment(20, 0, 10)).unwrap();
    ask_at(&mut unit, moment(20), 20);
    let end = moment(20) + Nanos(13 * TIMEOUT.0);
    for tick in 0..=130 {
        unit.handle_timeout(moment(20) + Nanos(tick * TIMEOUT.0 / 10));
    }
    assert_eq!(answers(&mut unit, end)[0].1.missing[0].reason, MissingReason::SourceSilent);
}

#[test]
fn a_source_whose_data_wait_is_waited_for_until_it_has_passed_the_event() {
    let mut unit = unit(|_| {});
    unit.wait_for_source(SourceId(1));
    give(&mut unit, 9, 0, 10);
    ask(&mut unit, 0, 9, 1, 1);
    let mut now = LATER;
    for _ in 0..1_000 {
        unit.handle_timeout(now);
        assert_eq!(answers(&mut unit, now), [], "it has not been read so far");
        now += TIMEOUT;
    }
    unit.handle_fragment(now, fragment(10, 1, 10)).unwrap();
    now += TIMEOUT;
    unit.handle_timeout(now);
    let missing = answers(&mut unit, now)[0].1.missing[0];
    assert_eq!((missing.source, missing.reason), (SourceId(1), MissingReason::SourceSkipped));
}

const EVENTS: u64 = 8;

/// Returns the reasons for which sources are missing in each event. Source 0 gives events 2, 5 and 6, and source 1 gives none. The first
/// events are requested before the ends of the sources, the others after them.
fn missing_at_the_end(first: Command, asked_before: u64) -> BTreeMap<EventId, Vec<MissingReason>> {
    let mut unit = unstarted(|_| {});
    command(&mut unit, first);
    [2, 5, 6].into_iter().for_each(|event| give(&mut unit, event, 0, 1));
    (1..=asked_before).for_each(|event| ask(&mut unit, 0, event, 1, 1));
    [0, 1].into_iter().for_each(|source| unit.handle_source_end(Timestamp(0), SourceId(source)));
    (asked_before + 1..=EVENTS).for_each(|event| ask(&mut unit, 0, event, 1, 1));
    let mut found = BTreeMap::new();
    for (_, answer) in answers(&mut unit, Timestamp(0)) {
        let mut missing = answer.missing.iter().map(|missing| missing.reason);
        for entry in &answer.entries {
            for event in entry.events() {
                found.insert(event, missing.by_ref().take(usize::from(entry.missing)).collect());
            }
        }
    }
    found
}

#[test]
fn a_hole_in_a_stream_is_told_from_its_end_and_from_an_empty_stream() {
    use MissingReason::{ReadoutRestarted, SourceAbsent, SourceEnded, SourceSkipped};
    for asked_before in 0..=EVENTS {
        // A unit that joins late does not know what its sources delivered before.
        for (first, hole, empty) in
            [(Command::Start, SourceSkipped, SourceAbsent), (JOIN, ReadoutRestarted, SourceEnded)]
        {
            let expected = (1..=EVENTS).map(|event| {
                let reasons = match event {
                    2 | 5 | 6 => vec![empty],
                    1 | 3 | 4 => vec![hole, empty],
                    _ => vec![SourceEnded, empty],
                };
                (EventId(event), reasons)
            });
            assert_eq!(missing_at_the_end(first, asked_before), expected.collect::<BTreeMap<_, _>>());
        }
    }
}

#[test]
fn events_wait_for_a_client_that_lives_and_not_long_for_one_that_has_gone() {
    let mut unit = unit(|_| {});
    unit.wait_for_source(SourceId(1));
    unit.handle_source_gone(Timestamp(0), SourceId(1), true);
    give(&mut unit, 9, 0, 10);
    ask(&mut unit, 0, 9, 1, 1);
    unit.handle_timeout(LATER);
    let missing = answers(&mut unit, LATER)[0].1.missing[0];
    assert_eq!((missing.source, missing.reason), (SourceId(1), MissingReason::SourceGone));
    unit.handle_source_gone(LATER, SourceId(1), false);
    unit.handle_fragment(LATER, fragment(9, 1, 10)).unwrap();
    give(&mut unit, 10, 0, 10);
    ask(&mut unit, 0, 10, 1, 1);
    let much_later = LATER + Nanos::from_secs(1_000);
    unit.handle_timeout(much_later);
    assert_eq!(answers(&mut unit, much_later), [], "it is back, and delivers");
}

/// Why the source misses an event that it does not deliver after its program is back, or `None` if the event waits for it.
fn missing_after_return(before_the_run: bool, first: Command) -> Option<MissingReason> {
    let mut unit = unstarted(|_| {});
    unit.wait_for_source(SourceId(1));
    unit.handle_source_gone(Timestamp(0), SourceId(1), true);
    if before_the_run {
        unit.handle_source_gone(Timestamp(0), SourceId(1), false);
    }
    command(&mut unit, first);
    if !before_the_run {
        unit.handle_source_gone(Timestamp(0), SourceId(1), false);
    }
    give(&mut unit, 9, 0, 10);
    ask(&mut unit, 0, 9, 1, 1);
    for timeouts in 1..100 {
        unit.handle_timeout(Timestamp(timeouts * TIMEOUT.0));
    }
    let answers = answers(&mut unit, Timestamp(100 * TIMEOUT.0));
    answers.first().map(|(_, answer)| answer.missing[0].reason)
}

#[test]
fn events_do_not_wait_without_limit_for_a_client_that_may_lack_them() {
    assert_eq!(missing_after_return(true, Command::Start), None, "it has all events of the run");
    assert_eq!(missing_after_return(false, Command::Start), Some(MissingReason::SourceGone));
    for before_the_run in [true, false] {
        let reason = missing_after_return(before_the_run, JOIN);
        assert_eq!(reason, Some(MissingReason::ReadoutRestarted), "the session before had accepted them");
    }
}

#[test]
fn a_node_that_was_held_up_has_no_opinion_on_that_time() {
    let mut unit = unit(|_| {});
    give(&mut unit, 9, 0, 10);
    ask(&mut unit, 0, 9, 1, 1);
    let _ = answers(&mut unit, Timestamp(0));
    let held_up = Nanos::from_secs(60);
    unit.handle_stall(held_up);
    let end = LATER + held_up;
    unit.handle_timeout(Timestamp(end.0 - 1));
    assert_eq!(answers(&mut unit, Timestamp(end.0 - 1)), []);
    unit.handle_timeout(end);
    assert_eq!(answers(&mut unit, end)[0].1.missing[0].source, SourceId(1));
}

#[test]
fn the_policy_to_wait_waits_for_required_sources_only() {
    let mut unit = unit(|config| {
        config.wait_for_required = true;
        config.sources[1].optional = true;
    });
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 2, 1, 10);
    ask(&mut unit, 0, 1, 2, 1);
    unit.handle_timeout(LATER);
    let answer = &answers(&mut unit, LATER)[0].1;
    assert_eq!(answer.entries.len(), 1, "event 2 waits for its required source");
    assert_eq!(answer.entries[0].event, EventId(1));
}

/// Source 1 is silent. A later event waits for source 0, whose fragment has no room until the first event is answered, and gives up
/// source 1 at each of its timeouts. That must not be taken for the beginning of the wait for source 1.
#[test]
fn a_source_that_a_later_event_gives_up_again_and_again_is_silent() {
    let mut unit = unit(|config| config.buffer_events = 2);
    give(&mut unit, 1, 1, 10);
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 2, 0, 10);
    assert!(
        unit.handle_fragment(Timestamp(0), fragment(3, 0, 10)).is_err(),
        "the share of a source is limited"
    );
    ask_at(&mut unit, Timestamp(0), 3);
    ask_at(&mut unit, Timestamp(TIMEOUT.0 / 2), 2);
    let mut answered = Vec::new();
    for half in 1..20 {
        let now = Timestamp(half * TIMEOUT.0 / 2);
        unit.handle_timeout(now);
        answered.extend(answers(&mut unit, now).into_iter().flat_map(|(_, answer)| answer.missing));
    }
    assert_eq!(answered.first().map(|missing| missing.source), Some(SourceId(1)), "event 2 is answered");
}

#[test]
fn a_source_is_behind_while_a_fragment_of_it_is_requested() {
    let mut unit = unit(|_| {});
    let behind = |unit: &ReadoutUnit<Size>| unit.behind().collect::<Vec<_>>();
    assert_eq!(behind(&unit), [false, false], "nobody asks for anything");
    ask(&mut unit, 0, 1, 2, 1);
    assert_eq!(behind(&unit), [true, true]);
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 2, 0, 10);
    give(&mut unit, 1, 1, 10);
    assert_eq!(behind(&unit), [false, true]);
    give(&mut unit, 2, 1, 10);
    give(&mut unit, 3, 1, 10);
    assert_eq!(behind(&unit), [false, false], "event 3 is not requested");
}

/// A source that begins anew with its unit is behind, sends, and may never reach the run.
#[test]
fn a_source_that_was_left_behind_when_its_unit_joined_is_not_waited_for() {
    for (floor, waits) in [(8, true), (10, false)] {
        let mut unit = unstarted(|_| {});
        let manager = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
        let join = Command::Join { floor: EventId(floor) };
        unit.handle_input(Timestamp(0), manager.plain(Body::Command(join)));
        ask(&mut unit, 0, 12, 1, 1);
        for source in 0..2 {
            let late = Timestamp(LATER.0 - 1);
            unit.handle_fragment(late, fragment(9, source, 10)).expect("there is room");
        }
        unit.handle_timeout(LATER);
        let answers = answers(&mut unit, LATER);
        assert_eq!(answers.is_empty(), waits, "{answers:?}");
        let missing = answers.iter().flat_map(|(_, answer)| &answer.missing);
        assert!(missing.into_iter().all(|missing| missing.reason == MissingReason::ReadoutRestarted));
    }
}
