//! Every row of the table in the module's documentation, and the super-fragments that come of it.

mod exclusions;
mod handover;
mod merger;
mod parts;
mod progress;
mod records;
mod room;
mod silence;
mod together;
mod windows;

use super::*;
use crate::channel::ChannelTimes;
use crate::ledger::Ledger;
use sheaf_wire::message::{EventRange, Header, PartRequest, Release, Shape, SuperFragments};
use sheaf_wire::{
    DropReason, EventId, MissingReason, NumberMark, Outcome, RunNumber, SessionId, SuperFragment,
};
use std::collections::BTreeMap;

/// A payload that is only a size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Size(usize);

impl Payload for Size {
    fn len(&self) -> usize {
        self.0
    }
}

const TIMEOUT: Nanos = Nanos::from_millis(100);
const LATER: Timestamp = Timestamp(100_000_000);

#[test]
fn merges_its_sources_and_answers_when_all_are_in() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    ask(&mut unit, 0, 1, 1, 1);
    assert_eq!(answers(&mut unit, Timestamp(0)), []);
    give(&mut unit, 1, 1, 20);
    let answer = &answers(&mut unit, Timestamp(0))[0];
    assert_eq!(answer.0, NodeId::builder(0));
    assert_eq!(sources(&answer.1), [0, 1]);
    assert_eq!(
        answer.1.entries,
        [SuperFragment { event: EventId(1), count: 1, attempt: 0, part: 0, fragments: 2, missing: 0 }]
    );
    release(&mut unit, 1, 1, Outcome::Stored, None);
    assert_eq!(ledger(&unit), Ledger { received: 2, stored: 2, ..Ledger::default() });
}

#[test]
fn a_unit_that_joins_a_run_under_way_waits_for_nothing_that_is_lost() {
    for wait_for_required in [false, true] {
        let mut unit = unstarted(|config| config.wait_for_required = wait_for_required);
        // The request arrives before the unit knows that it has joined late: its sources have not sent yet, but are not silent.
        ask(&mut unit, 0, 1, 1, 1);
        unit.handle_timeout(LATER);
        assert_eq!(answers(&mut unit, LATER), []);
        let join = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
        unit.handle_input(LATER, join.plain(Body::Command(Command::Join { floor: EventId(0) })));
        assert_eq!(unit.poll_event(), Some(ReadoutEvent::Started { floor: Some(EventId(0)) }));
        let end = LATER + TIMEOUT;
        unit.handle_timeout(Timestamp(end.0 - 1));
        assert_eq!(answers(&mut unit, Timestamp(end.0 - 1)), []);
        unit.handle_timeout(end);
        let answer = &answers(&mut unit, end)[0].1;
        assert!(answer.missing.iter().all(|missing| missing.reason == MissingReason::ReadoutRestarted));
    }
}

#[test]
fn duplicates_late_ones_strangers_and_giants_are_dropped_by_name() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 0, 10);
    give(&mut unit, 1, 7, 10);
    give(&mut unit, 2, 1, 1_001);
    ask(&mut unit, 0, 1, 1, 1);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    give(&mut unit, 1, 1, 10);
    let dropped = BTreeMap::from([
        (DropReason::Duplicate, 1),
        (DropReason::UnknownSource, 1),
        (DropReason::TooLarge, 1),
        (DropReason::Late, 1),
    ]);
    assert_eq!(ledger(&unit), Ledger { received: 5, stored: 1, dropped, ..Ledger::default() });
    // The refused giant does not make its event wait.
    give(&mut unit, 2, 0, 10);
    ask(&mut unit, 0, 2, 1, 1);
    let answer = &answers(&mut unit, Timestamp(0))[0].1;
    assert_eq!(answer.missing[0].reason, MissingReason::FragmentRefused);
}

#[test]
fn a_second_fragment_of_an_event_with_other_content_is_counted() {
    let mut unit = unit(|_| {});
    let with = |checksum, bytes| Fragment { checksum, ..fragment(1, 0, bytes) };
    let mut second = |checksum, bytes| {
        unit.handle_fragment(Timestamp(0), with(checksum, bytes)).expect("there is room");
        unit.books().counters.get(&Counter::ConflictingFragments).copied().unwrap_or(0)
    };
    assert_eq!(second(Some(7), 10), 0, "the first one");
    assert_eq!(second(Some(7), 10), 0);
    assert_eq!(second(None, 10), 0, "nobody can know");
    assert_eq!(second(Some(8), 10), 1);
    assert_eq!(second(None, 11), 2);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::Duplicate, 4)]));
}

#[test]
fn ids_that_go_back_are_counted_and_built() {
    let mut unit = unit(|_| {});
    for event in [366, 368, 364] {
        give(&mut unit, event, 0, 1);
        give(&mut unit, event, 1, 1);
    }
    ask(&mut unit, 0, 364, 1, 1);
    assert_eq!(answers(&mut unit, Timestamp(0))[0].1.entries[0].event, EventId(364));
    assert_eq!(unit.books().counters[&Counter::OutOfOrder], 2);
}

#[test]
fn a_full_share_is_back_pressure_on_its_source_alone() {
    let mut unit = unit(|config| config.buffer = ByteCount(200));
    give(&mut unit, 1, 0, 60);
    let refused = unit.handle_fragment(Timestamp(0), fragment(2, 0, 60)).unwrap_err();
    give(&mut unit, 1, 1, 60);
    // An event that a builder waits for goes in above the share: else it could wait for ever.
    ask(&mut unit, 0, 2, 1, 1);
    assert!(unit.handle_fragment(Timestamp(0), refused).is_ok());
    assert_eq!(ledger(&unit).received, 3, "a refused fragment is not received");
    assert_eq!(ledger(&unit).in_flight, 3);
}

#[test]
fn a_source_that_is_held_back_is_not_silent() {
    let mut unit = unit(|config| config.buffer_events = 1);
    give(&mut unit, 1, 0, 1);
    for event in 1..=3 {
        let _ = unit.handle_fragment(Timestamp(0), fragment(event, 1, 1));
    }
    let refused = unit.handle_fragment(Timestamp(0), fragment(2, 0, 1)).unwrap_err();
    assert!(unit.handle_fragment(Timestamp(0), fragment(3, 1, 1)).is_err());
    // Source 0 has event 2 and may not give it; source 1 has passed it by and is refused event 3.
    ask(&mut unit, 0, 2, 1, 1);
    ask(&mut unit, 0, 3, 1, 1);
    unit.handle_timeout(LATER);
    assert_eq!(answers(&mut unit, LATER), []);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    assert!(unit.handle_fragment(LATER, refused).is_ok());
    unit.handle_timeout(Timestamp(2 * LATER.0));
    let answer = &answers(&mut unit, Timestamp(2 * LATER.0))[0].1;
    assert_eq!((answer.entries[0].event, sources(answer)), (EventId(2), vec![0]));
    assert_eq!(answer.missing[0].reason, MissingReason::SourceSilent, "source 1 gave event 3");
}

/// A source that repeats a fragment must not wait with it for room: what it has for events that are asked for lies behind.
#[test]
fn what_is_dropped_in_any_case_waits_for_no_room() {
    let mut unit = unit(|config| config.buffer_events = 1);
    give(&mut unit, 1, 0, 1);
    ask(&mut unit, 0, 1, 1, 1);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    give(&mut unit, 2, 0, 1);
    give(&mut unit, 1, 0, 1);
    give(&mut unit, 2, 0, 1);
    let dropped = BTreeMap::from([(DropReason::Late, 1), (DropReason::Duplicate, 1)]);
    assert_eq!(ledger(&unit).dropped, dropped);
    assert!(unit.handle_fragment(Timestamp(0), fragment(3, 0, 1)).is_err(), "this one takes room");
}

#[test]
fn what_nobody_asks_for_is_unknown_after_the_orphan_time() {
    let mut unit = unit(|config| config.orphan_timeout = Some(TIMEOUT));
    give(&mut unit, 1, 0, 1);
    give(&mut unit, 2, 0, 1);
    ask(&mut unit, 0, 2, 1, 1);
    unit.handle_timeout(LATER);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::UnknownEvent, 1)]));
    assert_eq!(ledger(&unit).in_flight, 1);
}

#[test]
fn back_pressure_makes_no_orphans() {
    let mut unit = unit(|config| config.orphan_timeout = Some(TIMEOUT));
    for event in 1..=3 {
        give(&mut unit, event, 0, 1);
    }
    ask(&mut unit, 0, 1, 1, 1);
    unit.handle_timeout(LATER);
    unit.handle_timeout(Timestamp(LATER.0 * 1_000));
    assert_eq!(ledger(&unit).in_flight, 3, "the builders have not come as far yet");
}

#[test]
fn what_fills_the_buffer_while_builders_go_on_is_unknown() {
    let mut unit = unit(|config| {
        (config.orphan_timeout, config.buffer_events) = (Some(TIMEOUT), 2);
    });
    give(&mut unit, 900, 0, 1);
    give(&mut unit, 901, 0, 1);
    ask(&mut unit, 0, 1, 1, 1);
    give(&mut unit, 1, 0, 1);
    unit.handle_timeout(LATER);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::UnknownEvent, 2)]));
}

#[test]
fn nobody_waits_without_limit_for_what_was_dropped_as_unknown() {
    let mut unit = unit(|config| {
        (config.orphan_timeout, config.wait_for_required) = (Some(TIMEOUT), true);
    });
    give(&mut unit, 1, 0, 1);
    give(&mut unit, 2, 0, 1);
    ask(&mut unit, 0, 2, 1, 1);
    unit.handle_timeout(LATER);
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::UnknownEvent, 1)]));
    ask_at(&mut unit, LATER, 1);
    unit.handle_timeout(Timestamp(10 * LATER.0));
    let answer = &answers(&mut unit, Timestamp(10 * LATER.0))[0].1;
    assert_eq!((answer.entries[0].event, answer.missing.len()), (EventId(1), 2));
}

#[test]
fn events_that_were_answered_and_not_released_do_not_fill_the_memory() {
    let mut unit = unit(|config| config.buffer = ByteCount(200));
    ask(&mut unit, 0, 1, 100, 1);
    let mut fits = |event| unit.handle_fragment(Timestamp(0), fragment(event, 0, 10)).is_ok();
    assert_eq!((1..=100).take_while(|event| fits(*event)).count(), 20, "two shares of 100 bytes");
}

#[test]
fn a_full_channel_leaves_no_deadline_in_the_past() {
    let mut unit = unit(|config| (config.announce, config.buffer_events) = (Announce::All, 1_000));
    let mut now = Timestamp(0);
    for event in 0..300 {
        give(&mut unit, event, 0, 1);
        while unit.poll_transmit(now).is_some() {}
        let deadline = unit.poll_timeout().expect("something is always due some time");
        now = now.max(deadline.at);
        unit.handle_timeout(now);
    }
    while unit.poll_transmit(now).is_some() {}
    assert!(unit.poll_timeout().is_some_and(|deadline| deadline.at > now), "nothing was acknowledged");
}

/// An event manager that is slow would have to read all of them before anything else.
#[test]
fn a_status_is_not_followed_by_another_while_it_is_on_its_way() {
    let mut unit = unit(|config| config.heartbeat = Nanos::from_millis(1));
    let sent: Vec<Body<Size>> = (0..5)
        .filter_map(|round| unit.poll_transmit(Timestamp(round * 1_000_000)))
        .map(|transmit| transmit.message.body)
        .collect();
    assert!(matches!(sent[0], Body::ReadoutStatus(_)), "{sent:?}");
    assert_eq!(sent[1..], [const { Body::Acknowledge }; 4], "it says that it lives");
}

#[test]
fn where_one_source_makes_the_triggers_its_end_is_the_end() {
    let ended = |announce, source: Option<u32>| {
        let mut unit = unit(|config| config.announce = announce);
        if let Some(source) = source {
            unit.handle_source_end(Timestamp(0), SourceId(source));
        }
        let statuses = std::iter::from_fn(|| unit.poll_transmit(Timestamp(0)));
        let status = statuses.filter_map(|transmit| match transmit.message.body {
            Body::ReadoutStatus(status) => Some(status),
            _ => None,
        });
        status.last().is_some_and(|status| status.sources_ended >= status.sources)
    };
    assert!(ended(Announce::Source(SourceId(1)), Some(1)));
    assert!(!ended(Announce::Source(SourceId(1)), Some(0)));
    assert!(ended(Announce::Source(SourceId(77)), None), "it is another unit's");
    assert!(!ended(Announce::All, Some(1)));
}

#[test]
fn an_ended_source_makes_nobody_wait() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 1);
    ask(&mut unit, 0, 1, 2, 1);
    unit.handle_source_end(Timestamp(0), SourceId(1));
    assert_eq!(answers(&mut unit, Timestamp(0))[0].1.missing[0].reason, MissingReason::SourceAbsent);
    unit.handle_source_end(Timestamp(0), SourceId(0));
    let answer = &answers(&mut unit, Timestamp(0))[0].1;
    assert_eq!((answer.entries[0].event, answer.missing.len()), (EventId(2), 2));
    assert_eq!(answer.missing[0].reason, MissingReason::SourceEnded, "source 0 gave event 1");
}

#[test]
fn a_repeated_request_is_answered_again_and_a_higher_attempt_wins() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 1);
    give(&mut unit, 1, 1, 1);
    ask(&mut unit, 0, 1, 1, 1);
    ask(&mut unit, 1, 1, 1, 2);
    ask(&mut unit, 0, 1, 1, 1);
    let all = answers(&mut unit, Timestamp(0));
    assert_eq!(all.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [NodeId::builder(1)]);
    assert_eq!(unit.books().counters[&Counter::StaleRequests], 1);
    ask(&mut unit, 1, 1, 1, 2);
    assert_eq!(answers(&mut unit, Timestamp(0)).len(), 1);
    assert_eq!(unit.books().counters[&Counter::Resent], 1);
    release(&mut unit, 1, 1, Outcome::Stored, None);
    ask(&mut unit, 1, 1, 1, 2);
    assert_eq!(answers(&mut unit, Timestamp(0)), []);
}

#[test]
fn messages_are_closed_at_their_size() {
    let mut unit = unit(|config| config.message_bytes = ByteCount(100));
    for event in 1..=4 {
        give(&mut unit, event, 0, 20);
        give(&mut unit, event, 1, 30);
    }
    ask(&mut unit, 0, 1, 4, 1);
    let sizes: Vec<_> =
        answers(&mut unit, Timestamp(0)).iter().map(|(_, parts)| parts.entries.len()).collect();
    assert_eq!(sizes, [2, 2]);
}

#[test]
fn the_run_closes_with_balanced_books() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 1);
    command(&mut unit, Command::Close);
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Closed));
    assert_eq!(ledger(&unit).dropped, BTreeMap::from([(DropReason::NeverTriggered, 1)]));
    assert!(ledger(&unit).is_balanced());
    let report = std::iter::from_fn(|| unit.poll_transmit(Timestamp(0)))
        .find_map(|transmit| match transmit.message.body {
            Body::Report(counts) => Some(NodeBooks::from_counts(&counts)),
            _ => None,
        })
        .expect("a closed unit reports");
    assert_eq!(report.fragments, ledger(&unit));
    assert!(unit.handle_fragment(Timestamp(0), fragment(2, 0, 1)).is_err());
}

#[test]
fn a_request_for_absurdly_many_events_is_cut() {
    let mut unit = unit(|_| {});
    ask(&mut unit, 0, 0, u32::MAX, 1);
    assert_eq!(unit.books().counters[&Counter::UnexpectedMessages], 1);
    ask(&mut unit, 0, u64::MAX, 5, 1);
    release(&mut unit, 0, u32::MAX, Outcome::Dropped, Some(DropReason::Stopped));
    assert_eq!(unit.held().1, 1, "only the request at the end of the number range is left");
}

#[test]
fn what_is_dispatched_goes_to_its_builder_unasked_as_soon_as_it_is_complete() {
    let mut unit = unit(|_| {});
    give(&mut unit, 1, 0, 10);
    dispatch(&mut unit, 2, 1, 1);
    assert_eq!(answers(&mut unit, Timestamp(0)), []);
    give(&mut unit, 1, 1, 20);
    assert_eq!(answers(&mut unit, Timestamp(0))[0].0, NodeId::builder(2));
    // Another builder has the event now; then one of an absurd number of events, which is not believed.
    let event = |first, count, attempt| EventRange { first: EventId(first), count, attempt };
    from_manager(&mut unit, Body::Dispatch(vec![Destination { events: event(1, 1, 2), builder: 3 }]));
    assert_eq!(answers(&mut unit, Timestamp(0))[0].0, NodeId::builder(3));
    from_manager(&mut unit, Body::Dispatch(vec![Destination { events: event(5, u32::MAX, 1), builder: 3 }]));
    assert_eq!(unit.held().1, 1);
    assert_eq!(unit.books().counters[&Counter::UnexpectedMessages], 1);
}

#[test]
fn who_asks_again_for_what_is_not_there_yet_hears_that_the_unit_lives() {
    let mut unit = unit(|_| {});
    ask(&mut unit, 3, 5, 1, 1);
    let said_to_builders = |unit: &mut ReadoutUnit<Size>| -> Vec<_> {
        let said = std::iter::from_fn(|| unit.poll_transmit(Timestamp(0)));
        said.filter(|it| it.to.role == Role::Builder).map(|it| (it.to.index, it.message.body)).collect()
    };
    assert_eq!(said_to_builders(&mut unit), [], "an answer is all that a builder wants");
    ask(&mut unit, 3, 5, 1, 1);
    ask(&mut unit, 3, 5, 1, 1);
    assert_eq!(said_to_builders(&mut unit), [(3, Body::Acknowledge)]);
}

#[test]
fn the_driver_is_told_of_slots_in_its_own_time() {
    let mut unit = unit(|_| {});
    let shape = Shape { turning: true, epoch: Timestamp(500), clock: Timestamp(2_000) };
    // `from_manager` comes at 0: this clock is 2 us behind.
    from_manager(&mut unit, Body::Shape(shape));
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Shape { turning: true, epoch: Timestamp(0) }));
    let older = Shape { turning: false, clock: Timestamp(1_000), ..shape };
    from_manager(&mut unit, Body::Shape(older));
    assert_eq!(unit.poll_event(), None);
}

/// A unit in a run that has begun.
fn unit(adjust: impl FnOnce(&mut ReadoutConfig)) -> ReadoutUnit<Size> {
    started(unstarted(adjust))
}

fn started(mut unit: ReadoutUnit<Size>) -> ReadoutUnit<Size> {
    command(&mut unit, Command::Start);
    assert_eq!(unit.poll_event(), Some(ReadoutEvent::Started { floor: None }));
    unit
}

fn unstarted(adjust: impl FnOnce(&mut ReadoutConfig)) -> ReadoutUnit<Size> {
    let mut config = config();
    adjust(&mut config);
    with_config(config)
}

// Most tests adjust the configuration: what does not depend on how is compiled once.

fn config() -> ReadoutConfig {
    let source = |id| SourceConfig { id: SourceId(id), optional: false };
    ReadoutConfig {
        sources: vec![source(0), source(1)],
        buffer: ByteCount(100_000),
        buffer_events: 100,
        max_fragment: ByteCount(1_000),
        announce: Announce::Never,
        merge_timeout: TIMEOUT,
        longest_merge: Nanos(100 * TIMEOUT.0),
        wait_for_required: false,
        orphan_timeout: None,
        room_from: None,
        size_window: ReadoutConfig::SIZE_WINDOW,
        message_bytes: ByteCount(65_536),
        message_events: 64,
        request_events: 1_000,
        heartbeat: Nanos::from_secs(1),
        channel: ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_secs(1) },
    }
}

fn with_config(config: ReadoutConfig) -> ReadoutUnit<Size> {
    let me = Identity { node: NodeId::readout(0), run: RunNumber(1), session: SessionId(1) };
    ReadoutUnit::new(me, config, Timestamp(0))
}

fn fragment(event: u64, source: u32, bytes: usize) -> Fragment<Size> {
    Fragment {
        event: EventId(event),
        source: SourceId(source),
        time: Timestamp(0),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Size(bytes),
    }
}

fn give(unit: &mut ReadoutUnit<Size>, event: u64, source: u32, bytes: usize) {
    unit.handle_fragment(Timestamp(0), fragment(event, source, bytes)).expect("there is room");
}

fn ask(unit: &mut ReadoutUnit<Size>, builder: u16, first: u64, count: u32, attempt: u16) {
    let builder = Identity { node: NodeId::builder(builder), run: RunNumber(1), session: SessionId(1) };
    let range = EventRange { first: EventId(first), count, attempt };
    unit.handle_input(Timestamp(0), builder.plain(Body::FragmentRequest(vec![range])));
}

/// A builder asks for one event at a certain time.
fn ask_at(unit: &mut ReadoutUnit<Size>, now: Timestamp, event: u64) {
    let builder = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };
    let range = EventRange { first: EventId(event), count: 1, attempt: 1 };
    unit.handle_input(now, builder.plain(Body::FragmentRequest(vec![range])));
}

fn dispatch(unit: &mut ReadoutUnit<Size>, builder: u16, first: u64, count: u32) {
    let events = EventRange { first: EventId(first), count, attempt: 1 };
    from_manager(unit, Body::Dispatch(vec![Destination { events, builder }]));
}

fn from_manager(unit: &mut ReadoutUnit<Size>, body: Body<Size>) {
    let header = Header {
        run: RunNumber(1),
        sender: NodeId::MANAGER,
        session: SessionId(1),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
        term: sheaf_wire::Term(0),
    };
    unit.handle_input(Timestamp(0), Message { header, body });
}

fn release(
    unit: &mut ReadoutUnit<Size>,
    first: u64,
    count: u32,
    outcome: Outcome,
    reason: Option<DropReason>,
) {
    let release = Release { first: EventId(first), count, outcome, reason, parts: 0 };
    from_manager(unit, Body::Release(vec![release]));
}

fn command(unit: &mut ReadoutUnit<Size>, command: Command) {
    from_manager(unit, Body::Command(command));
}

fn answers(unit: &mut ReadoutUnit<Size>, now: Timestamp) -> Vec<(NodeId, SuperFragments<Size>)> {
    std::iter::from_fn(|| unit.poll_transmit(now))
        .filter_map(|transmit| match transmit.message.body {
            Body::SuperFragments(parts) => Some((transmit.to, one_by_one(parts))),
            _ => None,
        })
        .collect()
}

/// With an entry for each event.
fn one_by_one(mut parts: SuperFragments<Size>) -> SuperFragments<Size> {
    let single = |entry: &SuperFragment| {
        let entry = *entry;
        entry.events().map(move |event| SuperFragment { event, count: 1, ..entry })
    };
    parts.entries = parts.entries.iter().flat_map(single).collect();
    parts
}

fn sources(parts: &SuperFragments<Size>) -> Vec<u32> {
    parts.fragments.iter().map(|fragment| fragment.source.0).collect()
}

fn ledger(unit: &ReadoutUnit<Size>) -> Ledger {
    let ledger = unit.books().fragments;
    assert!(ledger.is_balanced(), "{ledger:?}");
    ledger
}
