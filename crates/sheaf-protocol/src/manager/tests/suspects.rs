//! When builder units die, one event among hundreds may be the cause. The others must not be dropped for it.

use super::*;

/// Runs two builders that return fifty events in a round. One dies when it has the poison, or for another reason in every
/// third round. Returns the ledger and the number of deaths.
fn deaths(events: u64, poison: Option<u64>, other_deaths: u64) -> (Ledger, u64) {
    const SLOTS: u32 = 200;
    let mut world = World::new(Triggers::Driven, |config| {
        (config.max_attempts, config.queue_events, config.batch_events) = (3, 10_000, 1_000);
    });
    for _ in 0..events {
        world.manager.handle_trigger(world.now, world.now, TriggerType(0)).expect("the queue is long enough");
    }
    let (mut died, mut held) = (0, [Vec::new(), Vec::new()]);
    (0..2).for_each(|builder| world.grant(builder, SLOTS));
    for round in 0..200_u64 {
        for builder in [0_u16, 1] {
            let had: &mut Vec<Assignment> = &mut held[usize::from(builder)];
            for body in world.said_to(NodeId::builder(builder)) {
                if let Body::Assign(list) = body {
                    had.extend(list);
                }
            }
            let is_hit = round % 6 == 2 + 3 * u64::from(builder) && died < other_deaths;
            if is_hit || had.iter().any(|assignment| Some(assignment.event.0) == poison) {
                died += 1;
                had.clear();
                let (session, _) = world.sessions[&NodeId::builder(builder)];
                world.sessions.insert(NodeId::builder(builder), (session + 1, 0));
                world.grant(builder, SLOTS);
                continue;
            }
            let finished: Vec<_> = had
                .drain(..had.len().min(50))
                .map(|Assignment { event, attempt, .. }| Finished {
                    event,
                    attempt,
                    outcome: Outcome::Stored,
                    reason: None,
                    bytes: ByteCount(500),
                    fragments: 4,
                    missing: 0,
                    incomplete: false,
                })
                .collect();
            if !finished.is_empty() {
                let slots = finished.len() as u32;
                let bytes = ByteCount(u64::from(slots) * 1_000);
                world.say(
                    NodeId::builder(builder),
                    Body::Request(Request { slots, bytes, finished, ..Request::default() }),
                );
            }
        }
    }
    (world.manager.ledger(), died)
}

#[test]
fn deaths_for_other_reasons_cost_no_event() {
    let (ledger, died) = deaths(2_000, None, 10);
    assert_eq!((ledger.stored, died), (2_000, 10));
}

#[test]
fn an_event_that_kills_every_builder_is_found_and_dropped_alone() {
    for poison in [1, 150, 999] {
        let (ledger, died) = deaths(1_000, Some(poison), 0);
        assert_eq!(ledger.stored, 999, "poison {poison}");
        assert_eq!(ledger.dropped, BTreeMap::from([(DropReason::BuilderLost, 1)]));
        assert!(died <= 8, "{died} builders died of event {poison}");
    }
}

#[test]
fn an_event_that_is_always_alone_has_its_attempts() {
    let (ledger, died) = deaths(1, Some(1), 0);
    assert_eq!((ledger.stored, died), (0, 3));
}

/// Kills builder unit 1 three times while it has events 1 and 2, which then must not be in a builder unit together. Both wait,
/// and as many younger events wait for the first time.
fn two_suspects(younger: u64) -> World {
    let mut world = World::new(Triggers::Driven, |config| config.max_attempts = 10);
    for _ in 0..2 + younger {
        world.manager.handle_trigger(world.now, world.now, TriggerType(0)).expect("the queue is long enough");
    }
    for session in 2..=4 {
        world.grant(1, 2);
        assert_eq!(world.assigned(1), [1, 2]);
        world.sessions.insert(NodeId::builder(1), (session, 0));
        world.grant(1, 0);
    }
    world
}

/// Builder unit 1 has event 2 and the youngest. Event 1 must not go there, but to the other one.
#[test]
fn way_is_made_where_the_oldest_may_go() {
    let mut world = two_suspects(2);
    world.grant(0, 2);
    world.grant(1, 2);
    assert_eq!((world.assigned(0), world.assigned(1)), (vec![1, 3], vec![2, 4]));
    world.finish(0, 1, 4, Outcome::GivenBack, None);
    let give_way = Body::Command(Command::GiveWay);
    assert!(!world.said_to(NodeId::builder(1)).contains(&give_way));
    assert!(world.said_to(NodeId::builder(0)).contains(&give_way));
    world.finish(0, 3, 1, Outcome::GivenBack, None);
    world.grant(0, 1);
    assert_eq!(world.assigned(0), [1]);
}

/// Events 1 and 2 must not be in a builder unit together, and the only one left has event 2. The slot of the youngest event is
/// for event 1, not for the youngest again.
#[test]
fn what_makes_way_for_the_oldest_does_not_take_its_place() {
    let mut world = two_suspects(1);
    world.grant(0, 1);
    world.grant(1, 2);
    assert_eq!((world.assigned(0), world.assigned(1)), (vec![1], vec![2, 3]));
    // Builder unit 0 sends nothing any more, and the other ends no event.
    let mut steps = 0..40;
    while !world.said_to(NodeId::builder(1)).contains(&Body::Command(Command::GiveWay)) {
        steps.next().expect("the youngest makes way");
        world.now += Nanos::from_millis(250);
        world.grant(1, 0);
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    world.finish(1, 3, 1, Outcome::GivenBack, None);
    world.grant(1, 1);
    assert_eq!(world.assigned(1), [1]);
}
