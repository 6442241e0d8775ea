//! Handling many events at once has the same outcome as handling them one after the other.

use super::*;
use proptest::prelude::*;

const EVENTS: u32 = 60;

/// Outcomes that must be equal for a message and for its parts.
#[derive(Debug, PartialEq)]
struct Outcomes {
    ledger: Ledger,
    stored: StoredTotals,
    committed: BTreeMap<(NodeId, SessionId), u64>,
    mean_event: Option<u64>,
    outstanding: usize,
    stale: NodeBooks,
    /// Each event with its outcome, latency, fragments, and whether it is incomplete, in the order of the reports.
    ended: Vec<(EventId, Outcome, Nanos, u32, bool)>,
    bytes: ByteCount,
    /// Outcome of each event as reported to the first readout unit.
    released: BTreeMap<EventId, (Outcome, Option<DropReason>)>,
}

/// Events of one builder, and their outcomes as it reports them, in messages of a given number.
fn outcomes(triggers: Triggers, finished: &[Finished], at_once: usize) -> Outcomes {
    let mut world = World::new(triggers, |config| {
        // An event that is returned for a reason has used its only attempt, and ends between the others.
        (config.max_events, config.max_attempts) = (Some(u64::from(EVENTS)), 1);
    });
    if triggers == Triggers::Driven {
        for event in 0..EVENTS {
            // Several events have one time.
            let time = Timestamp(u64::from(event / 3));
            world.manager.handle_trigger(world.now, time, TriggerType(0)).expect("the queue is long enough");
        }
    }
    world.grant(0, EVENTS);
    assert_eq!(world.assigned(0), (1..=u64::from(EVENTS)).collect::<Vec<_>>());
    world.now = Timestamp(1_000);
    for finished in finished.chunks(at_once) {
        let request = Request { finished: finished.to_vec(), ..Request::default() };
        world.say(NodeId::builder(0), Body::Request(request));
    }
    world.now += Nanos::from_millis(1);
    world.drain();
    let mut released = BTreeMap::new();
    for body in world.said_to(NodeId::readout(0)) {
        let Body::Release(ranges) = body else { continue };
        for range in ranges {
            for event in 0..u64::from(range.count) {
                let before = released.insert(EventId(range.first.0 + event), (range.outcome, range.reason));
                assert_eq!(before, None, "an event is released once");
            }
        }
    }
    let (mut ended_events, mut bytes) = (Vec::new(), ByteCount::ZERO);
    for event in world.events() {
        let ManagerEvent::Ended(ended) = event else { continue };
        let Ended { outcome, latency, fragments, incomplete, .. } = ended;
        ended_events.extend(ended.events().map(|event| (event, outcome, latency, fragments, incomplete)));
        bytes += ended.bytes;
    }
    let manager = &world.manager;
    Outcomes {
        ledger: manager.ledger(),
        stored: manager.stored(),
        committed: manager.committed(),
        mean_event: manager.flow.builders().mean_event(),
        outstanding: manager.flow.builders().get(0).outstanding(),
        stale: manager.books(),
        ended: ended_events,
        bytes,
        released,
    }
}

fn finished() -> impl Strategy<Value = Vec<Finished>> {
    let outcome = prop::sample::select(vec![
        (Outcome::Stored, None),
        (Outcome::Stored, None),
        (Outcome::Rejected, None),
        (Outcome::Dropped, Some(DropReason::Incomplete)),
        (Outcome::Dropped, Some(DropReason::ContentMismatch)),
        (Outcome::GivenBack, None),
        (Outcome::GivenBack, Some(DropReason::BuilderOutOfMemory)),
    ]);
    // Mostly consecutive events; some twice, some that are not assigned, some of another attempt.
    let run = (1..70_u64, 1..20_u64, outcome, prop::collection::vec((0..600_u64, 0..20_u32), 20));
    let events = |(first, count, (outcome, reason), sizes): (u64, u64, _, Vec<(u64, u32)>)| {
        let finished = move |(event, (bytes, kind)): (u64, (u64, u32))| Finished {
            event: EventId(event),
            attempt: if kind == 7 { 2 } else { 1 },
            outcome,
            reason,
            bytes: ByteCount(bytes),
            fragments: 4 + kind / 18,
            missing: 0,
            incomplete: kind == 19,
        };
        (first..first + count).zip(sizes).map(finished).collect::<Vec<_>>()
    };
    prop::collection::vec(run.prop_map(events), 1..8).prop_map(|runs| runs.concat())
}

proptest! {
    #[test]
    fn a_message_of_many_ends_leads_to_what_one_message_for_each_does(
        finished in finished(), at_once in 2..200_usize, driven in any::<bool>(),
    ) {
        let triggers = if driven { Triggers::Driven } else { Triggers::Free };
        prop_assert_eq!(outcomes(triggers, &finished, at_once), outcomes(triggers, &finished, 1));
    }
}

#[test]
fn events_that_ended_alike_are_told_in_one_piece() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(9));
    world.grant(0, 9);
    assert_eq!(world.assigned(0).len(), 9);
    let finished = |event| Finished {
        event: EventId(event),
        attempt: 1,
        outcome: if event < 6 { Outcome::Stored } else { Outcome::Rejected },
        reason: None,
        bytes: ByteCount(event),
        fragments: 4,
        missing: 0,
        incomplete: event == 3,
    };
    let request = Request { finished: (1..=9).map(finished).collect(), ..Request::default() };
    world.say(NodeId::builder(0), Body::Request(request));
    let ended = |event| match event {
        ManagerEvent::Ended(ended) => Some((ended.first.0, ended.count, ended.bytes.0)),
        _ => None,
    };
    let ended: Vec<_> = world.events().into_iter().filter_map(ended).collect();
    assert_eq!(ended, [(1, 2, 3), (3, 1, 3), (4, 2, 9), (6, 4, 30)]);
    let release =
        |first, count, outcome| Release { first: EventId(first), count, outcome, reason: None, parts: 0 };
    let released = [release(1, 5, Outcome::Stored), release(6, 4, Outcome::Rejected)];
    assert!(world.said_to(NodeId::readout(0)).contains(&Body::Release(released.to_vec())));
}
