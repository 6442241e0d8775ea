//! Tests of every row of the table in the module's documentation.

mod asking;
mod liveness;
mod pairs;
mod parts;

use super::*;
use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use sheaf_wire::Nanos;
use sheaf_wire::message::{AbsentReadout, EventRange, Request, SuperFragments};
use sheaf_wire::{
    Fragment, MissingReason, MissingSource, NumberMark, RunNumber, SessionId, SuperFragment, TriggerType,
};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Size(usize);

impl Payload for Size {
    fn len(&self) -> usize {
        self.0
    }
}

const START: Timestamp = Timestamp(0);
const TIMEOUT: Nanos = Nanos::from_millis(100);
const LATER: Timestamp = Timestamp(100_000_000);

#[test]
fn builds_when_every_readout_unit_has_answered_and_returns_what_was_decided() {
    let mut builder = builder(|_| {});
    assert_eq!(requests(&mut builder, START)[0].slots, 4);
    assign(&mut builder, 5, 2, 1);
    assert_eq!(asked(&mut builder, START), [(0, 5, 2), (1, 5, 2)], "one message for both events");
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    let event = built(&mut builder).expect("all have answered");
    assert_eq!(event.fragments.iter().map(|fragment| fragment.source.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(!event.incomplete);
    builder.handle_decision(START, EventId(5), Decision::Stored);
    assert_eq!(requests(&mut builder, START), [], "a batch waits while there is other work");
    let request = requests(&mut builder, LATER).remove(0);
    assert_eq!((request.slots, request.bytes), (1, ByteCount(50)));
    let finished = request.finished[0];
    assert_eq!((finished.event, finished.outcome, finished.fragments), (EventId(5), Outcome::Stored, 4));
}

#[test]
fn a_builder_grants_no_credit_before_its_workers_have_loaded_their_filters() {
    let mut builder = builder(|_| {});
    builder.handle_readiness(START, Readiness::Loading);
    let first = requests(&mut builder, START).remove(0);
    assert_eq!((first.slots, first.bytes, first.readiness), (0, ByteCount::ZERO, Readiness::Loading));
    assert_eq!(requests(&mut builder, START), []);
    builder.handle_readiness(START, Readiness::Ready);
    let granted = requests(&mut builder, START).remove(0);
    assert_eq!((granted.slots, granted.readiness), (4, Readiness::Ready));
    assert_eq!(granted.bytes, config().memory);
    builder.handle_readiness(START, Readiness::Ready);
    assert_eq!(requests(&mut builder, START), [], "nothing has changed");
}

#[test]
fn a_builder_whose_workers_cannot_load_their_filters_takes_events_of_a_run_in_progress() {
    let mut builder = builder(|_| {});
    builder.handle_readiness(START, Readiness::Failed);
    assert_eq!(requests(&mut builder, START)[0].slots, 4);
}

#[test]
fn an_idle_builder_returns_its_last_event_at_once() {
    let mut builder = builder(|_| {});
    let _ = requests(&mut builder, START);
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    assert!(built(&mut builder).is_some());
    builder.handle_decision(START, EventId(5), Decision::Rejected);
    assert_eq!(requests(&mut builder, START)[0].finished[0].outcome, Outcome::Rejected);
}

#[test]
fn events_are_decided_in_any_order() {
    let mut builder = builder(|_| {});
    let _ = requests(&mut builder, START);
    assign(&mut builder, 5, 3, 1);
    for event in 5..8 {
        answer(&mut builder, 0, event, &[0, 1], &[]);
        answer(&mut builder, 1, event, &[2, 3], &[]);
    }
    for event in [7, 5, 6] {
        builder.handle_decision(START, EventId(event), Decision::Stored);
    }
    let finished = requests(&mut builder, START).remove(0).finished;
    assert_eq!(finished.iter().map(|it| it.event.0).collect::<Vec<_>>(), [7, 5, 6], "as they were decided");
    assert_eq!(builder.held(), (0, 0, ByteCount(0)));
}

#[test]
#[should_panic(expected = "a decision follows a built event")]
fn an_event_is_decided_once() {
    let mut builder = builder(|_| {});
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    builder.handle_decision(START, EventId(5), Decision::Stored);
    builder.handle_decision(START, EventId(5), Decision::Stored);
}

#[test]
fn a_silent_readout_unit_is_missing_by_policy() {
    for (policy, stored) in [(IncompletePolicy::Store, true), (IncompletePolicy::Drop, false)] {
        let mut builder = builder(|config| config.incomplete = policy);
        assign(&mut builder, 5, 1, 1);
        let _ = requests(&mut builder, START);
        answer(&mut builder, 0, 5, &[0, 1], &[]);
        let end = ask_again_in_vain(&mut builder, LATER);
        let event = built(&mut builder);
        assert_eq!(event.is_some(), stored);
        if let Some(event) = event {
            assert!(event.incomplete);
            let missing =
                |source| MissingSource { source: SourceId(source), reason: MissingReason::ReadoutSilent };
            assert_eq!(event.missing, [missing(2), missing(3)]);
            builder.handle_decision(end, EventId(5), Decision::Stored);
        }
        let request = requests(&mut builder, end + TIMEOUT).remove(0);
        assert_eq!(request.absent, [AbsentReadout { event: EventId(5), readout: 1, parts: 0 }]);
        assert!(request.finished[0].incomplete);
        let reason = (!stored).then_some(DropReason::Incomplete);
        assert_eq!(request.finished[0].reason, reason);
        // The event has ended when the late answer arrives.
        answer(&mut builder, 1, 5, &[2, 3], &[]);
        assert_eq!(builder.books().counters[&Counter::StaleSuperFragments], 1);
    }
}

#[test]
fn a_readout_unit_that_was_never_heard_of_is_given_up_only_after_it_was_asked_again() {
    let mut builder = builder(|config| config.request_retry = Nanos(5 * TIMEOUT.0));
    assign(&mut builder, 5, 1, 1);
    let _ = requests(&mut builder, START);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    let again = Timestamp(5 * LATER.0);
    let mut now = START;
    while now < again + TIMEOUT {
        now += Nanos(TIMEOUT.0 / 2);
        builder.handle_timeout(now);
        let is_asked = asked(&mut builder, now) == [(1, 5, 1)];
        assert_eq!(is_asked, now == again);
        let is_given_up = built(&mut builder).is_some();
        assert_eq!(is_given_up, now == again + TIMEOUT, "at {now}: it is not lost before");
    }
}

#[test]
fn an_absent_readout_unit_is_named_with_the_end_of_its_event_not_before() {
    let mut builder = builder(|_| {});
    assign(&mut builder, 5, 2, 1);
    let _ = requests(&mut builder, START);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    ask_again_in_vain(&mut builder, LATER);
    assert_eq!(built(&mut builder).map(|event| event.missing.len()), Some(2));
    // While the events are being stored, a heartbeat goes out.
    let heartbeat = Timestamp(20_000_000_000);
    let request = requests(&mut builder, heartbeat).remove(0);
    assert_eq!((request.finished, request.absent), (vec![], vec![]));
    builder.handle_decision(heartbeat, EventId(5), Decision::Stored);
    let request = requests(&mut builder, Timestamp(40_000_000_000)).remove(0);
    assert_eq!(request.finished.len(), 1);
    assert_eq!(request.absent, [AbsentReadout { event: EventId(5), readout: 1, parts: 0 }]);
}

#[test]
fn the_policy_to_wait_waits_and_asks_again() {
    let mut builder = builder(|config| config.incomplete = IncompletePolicy::Wait);
    assign(&mut builder, 5, 2, 1);
    let _ = asked(&mut builder, START);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    builder.handle_timeout(LATER);
    assert_eq!(built(&mut builder), None);
    assert_eq!(asked(&mut builder, LATER), [(1, 5, 2), (0, 6, 1)]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    assert!(built(&mut builder).is_some());
}

#[test]
fn a_missing_optional_source_leaves_the_event_complete() {
    let mut builder = builder(|config| config.optional = BTreeSet::from([SourceId(3)]));
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2], &[3]);
    let event = built(&mut builder).unwrap();
    assert_eq!((event.incomplete, event.missing.len()), (false, 1));
}

#[test]
fn duplicates_and_strangers_do_no_harm() {
    let mut builder = builder(|_| {});
    assign(&mut builder, 5, 1, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 9, 5, &[0, 1], &[]);
    answer(&mut builder, 0, 77, &[0, 1], &[]);
    let books = builder.books();
    assert_eq!(books.counters[&Counter::DuplicateSuperFragments], 2);
    assert_eq!(books.counters[&Counter::StaleSuperFragments], 1);
    assert_eq!(builder.held().2, ByteCount(20));
}

#[test]
fn beyond_the_memory_the_youngest_event_makes_way_whichever_was_answered() {
    for order in [[5, 6], [6, 5]] {
        let mut builder = builder(|config| config.memory = ByteCount(35));
        let _ = requests(&mut builder, START);
        assign(&mut builder, 5, 2, 1);
        for event in order {
            answer(&mut builder, 0, event, &[0, 1], &[]);
        }
        assert_eq!(builder.held(), (1, 0, ByteCount(20)));
        let request = requests(&mut builder, LATER).remove(0);
        let finished = request.finished[0];
        assert_eq!((finished.event, finished.outcome), (EventId(6), Outcome::GivenBack));
        assert_eq!(finished.reason, None, "it is not too large");
        assert_eq!((request.slots, request.bytes), (0, ByteCount::ZERO), "there is no room for it yet");
        // The older event continues; the rest of the one given back is stale.
        answer(&mut builder, 1, 6, &[2, 3], &[]);
        assert_eq!(builder.books().counters[&Counter::StaleSuperFragments], 1);
        answer(&mut builder, 1, 5, &[2], &[3]);
        assert_eq!(built(&mut builder).map(|event| event.id), Some(EventId(5)));
        builder.handle_decision(LATER, EventId(5), Decision::Stored);
        let request = requests(&mut builder, LATER).remove(0);
        assert_eq!((request.slots, request.bytes), (2, ByteCount(100)), "now there is room");
    }
}

#[test]
fn a_builder_is_filled_by_half_of_the_slots_or_by_half_of_the_events_that_have_its_memory() {
    let mut builder = builder(|config| (config.memory, config.slots) = (ByteCount(200), 8));
    assign(&mut builder, 5, 1, 1);
    assert_eq!([1, 3, 4].map(|events| builder.is_filled_by(events)), [false, false, true]);
    // Each is charged a quarter of the memory.
    assign(&mut builder, 6, 1, 1);
    assert_eq!([0, 1].map(|events| builder.is_filled_by(events)), [false, true]);
    assign(&mut builder, 7, 2, 1);
    assert_eq!([1, 2].map(|events| builder.is_filled_by(events)), [false, true]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    assert!(built(&mut builder).is_some() && builder.is_filled_by(2));
    builder.handle_decision(LATER, EventId(5), Decision::Stored);
    from_manager(&mut builder, Body::Command(Command::GiveWay));
    from_manager(&mut builder, Body::Command(Command::GiveWay));
    assert!(!builder.is_filled_by(1), "one event is left, with a quarter");
}

#[test]
fn an_event_that_is_too_large_by_itself_is_out_of_memory_whoever_else_is_there() {
    let mut builder = builder(|config| config.memory = ByteCount(35));
    let _ = requests(&mut builder, START);
    // No fragments of the others have arrived yet.
    assign(&mut builder, 5, 3, 1);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    let request = requests(&mut builder, LATER).remove(0);
    let finished = request.finished[0];
    assert_eq!((finished.event, finished.outcome), (EventId(5), Outcome::GivenBack));
    assert_eq!(finished.reason, Some(DropReason::BuilderOutOfMemory));
    assert_eq!((request.slots, request.bytes), (1, ByteCount(50)));
}

#[test]
fn a_builder_that_is_told_to_give_way_gives_back_its_youngest_event_at_once() {
    let mut builder = builder(|_| {});
    let _ = requests(&mut builder, START);
    assign(&mut builder, 5, 2, 1);
    answer(&mut builder, 0, 6, &[0, 1], &[]);
    answer(&mut builder, 0, 5, &[0, 1], &[]);
    answer(&mut builder, 1, 5, &[2, 3], &[]);
    from_manager(&mut builder, Body::Command(Command::GiveWay));
    let request = requests(&mut builder, START).remove(0);
    let finished = request.finished[0];
    assert_eq!((finished.event, finished.outcome, finished.reason), (EventId(6), Outcome::GivenBack, None));
    assert_eq!((request.slots, request.bytes), (1, ByteCount(50)));
    // Built events stay: they end without further messages.
    from_manager(&mut builder, Body::Command(Command::GiveWay));
    assert_eq!(requests(&mut builder, START), []);
    assert_eq!(built(&mut builder).map(|event| event.id), Some(EventId(5)));
}

#[test]
fn a_full_channel_leaves_no_deadline_in_the_past() {
    let mut builder = builder(|config| config.heartbeat = Nanos::from_millis(1));
    let mut now = START;
    for round in 0..300 {
        builder.handle_output(now, round % 2 == 0);
        while builder.poll_transmit(now).is_some() {}
        let deadline = builder.poll_timeout().expect("a deadline is always set");
        now = now.max(deadline.at);
        builder.handle_timeout(now);
    }
    while builder.poll_transmit(now).is_some() {}
    assert!(builder.poll_timeout().is_some_and(|deadline| deadline.at > now), "nothing was acknowledged");
}

/// A slow event manager would have to read all empty requests before the next one with content.
#[test]
fn a_heartbeat_is_no_message_of_its_own_while_an_earlier_one_is_on_its_way() {
    let mut builder = builder(|config| config.heartbeat = Nanos::from_millis(1));
    let mut sent = Vec::new();
    for round in 0..5 {
        sent.extend(bodies(&mut builder, START + Nanos::from_millis(round)));
    }
    assert!(matches!(sent[0].1, Body::Request(_)), "{sent:?}");
    assert!(sent[1..].iter().all(|(_, body)| *body == Body::Acknowledge), "{sent:?}");
    assert_eq!(sent.len(), 5, "it sends signs of life");
    builder.handle_output(START + Nanos::from_millis(5), true);
    let second = START + Nanos::from_secs(1);
    assert_eq!(requests(&mut builder, second).len(), 2, "a request with content, and the first once more");
}

#[test]
fn a_builder_that_was_held_up_says_at_once_that_it_lives() {
    let mut builder = builder(|config| config.heartbeat = Nanos::from_secs(1));
    assert_eq!(bodies(&mut builder, START).len(), 1);
    assert_eq!(bodies(&mut builder, START), []);
    builder.handle_stall(START);
    assert_eq!(bodies(&mut builder, START), [(NodeId::MANAGER, Body::Acknowledge)]);
}

#[test]
fn a_fenced_builder_is_silent() {
    let mut builder = builder(|_| {});
    assign(&mut builder, 5, 1, 1);
    from_manager(&mut builder, Body::Fence(SessionId(99)));
    assert!(!builder.is_finished(), "another session's fence");
    from_manager(&mut builder, Body::Fence(SessionId(1)));
    assert!(builder.is_finished());
    assert_eq!(builder.poll_event(), Some(BuilderEvent::Fenced));
    assert_eq!(builder.poll_transmit(LATER), None);
    assert_eq!(builder.poll_timeout(), None);
}

fn builder(adjust: impl FnOnce(&mut BuilderConfig)) -> BuilderUnit<Size> {
    let mut config = config();
    adjust(&mut config);
    with_config(config)
}

// Most tests adjust the configuration: what does not depend on how is compiled once.

fn config() -> BuilderConfig {
    let readout = |sources: [u32; 2]| ReadoutSources { sources: sources.map(SourceId).to_vec() };
    BuilderConfig {
        mirrored: false,
        readouts: vec![readout([0, 1]), readout([2, 3])],
        optional: BTreeSet::new(),
        slots: 4,
        memory: ByteCount(1_000),
        incomplete: IncompletePolicy::Store,
        event_timeout: TIMEOUT,
        patience: Patience { absence: TIMEOUT, silence: TIMEOUT },
        request_retry: TIMEOUT,
        asking: Asking::AtOnce,
        scope: Scope::default(),
        windows: None,
        batch_events: 3,
        batch_time: TIMEOUT,
        heartbeat: Nanos::from_secs(10),
        channel: ChannelTimes { retransmit: Nanos::from_secs(1), acknowledge: Nanos::from_secs(1) },
    }
}

fn with_config(config: BuilderConfig) -> BuilderUnit<Size> {
    let me = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };
    BuilderUnit::new(me, config, START)
}

/// Makes the builder repeat its requests at `now` and check for answers when its patience has ended. Returns that time.
fn ask_again_in_vain(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Timestamp {
    builder.handle_timeout(now);
    assert!(!readouts_asked(builder, now).is_empty(), "no request is repeated");
    builder.handle_timeout(now + TIMEOUT);
    now + TIMEOUT
}

fn from_manager(builder: &mut BuilderUnit<Size>, body: Body<Size>) {
    let manager = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
    builder.handle_input(START, manager.plain(body));
}

fn assign(builder: &mut BuilderUnit<Size>, first: u64, count: u64, attempt: u16) {
    let assignment = |event| Assignment {
        event: EventId(event),
        time: START,
        trigger_type: TriggerType(0),
        attempt,
        charged: 50,
    };
    from_manager(builder, Body::Assign((first..first + count).map(assignment).collect()));
}

fn answer(builder: &mut BuilderUnit<Size>, readout: u16, event: u64, sources: &[u32], missing: &[u32]) {
    let readout = Identity { node: NodeId::readout(readout), run: RunNumber(1), session: SessionId(1) };
    let event = EventId(event);
    let fragment = |source: &u32| Fragment {
        event,
        source: SourceId(*source),
        time: START,
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Size(10),
    };
    let missing_source =
        |source: &u32| MissingSource { source: SourceId(*source), reason: MissingReason::SourceSilent };
    let parts = SuperFragments {
        entries: vec![SuperFragment {
            count: 1,
            event,
            attempt: 0,
            part: 0,
            fragments: sources.len() as u16,
            missing: missing.len() as u16,
        }],
        fragments: sources.iter().map(fragment).collect(),
        missing: missing.iter().map(missing_source).collect(),
    };
    builder.handle_input(START, readout.plain(Body::SuperFragments(parts)));
}

fn built(builder: &mut BuilderUnit<Size>) -> Option<Event<Size>> {
    let built = std::iter::from_fn(|| builder.poll_event()).find_map(|event| match event {
        BuilderEvent::Built(built) => Some(built),
        _ => None,
    })?;
    let event = builder.take(built);
    assert_eq!(event.id, built.event());
    Some(event)
}

fn bodies(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Vec<(NodeId, Body<Size>)> {
    std::iter::from_fn(|| builder.poll_transmit(now))
        .map(|transmit| (transmit.to, transmit.message.body))
        .collect()
}

fn requests(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Vec<Request> {
    let request = |(_, body)| match body {
        Body::Request(request) => Some(request),
        _ => None,
    };
    bodies(builder, now).into_iter().filter_map(request).collect()
}

/// Returns the readout units that receive requests for events or parts.
fn readouts_asked(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Vec<NodeId> {
    let asks = |body: &Body<Size>| matches!(body, Body::FragmentRequest(_) | Body::PartRequest(_));
    bodies(builder, now).into_iter().filter(|(_, body)| asks(body)).map(|(to, _)| to).collect()
}

/// Returns requests for fragments as readout unit, first event, count.
fn asked(builder: &mut BuilderUnit<Size>, now: Timestamp) -> Vec<(u16, u64, u32)> {
    let ranges = |(to, body): (NodeId, _)| match body {
        Body::FragmentRequest(ranges) => {
            ranges.into_iter().map(|range| (to.index, range.first.0, range.count)).collect()
        }
        _ => vec![],
    };
    bodies(builder, now).into_iter().flat_map(ranges).collect()
}
