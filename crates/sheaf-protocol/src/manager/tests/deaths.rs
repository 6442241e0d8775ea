//! Builder units that fall silent, freeze or die with events.

use super::*;

#[test]
fn silence_takes_no_chance_from_an_event_and_death_does() {
    for (dies, outcome) in [(false, BTreeMap::new()), (true, BTreeMap::from([(DropReason::BuilderLost, 1)]))]
    {
        let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
        // Two attempts. Every session falls silent with the event, or dies of it.
        for session in 2..=3 {
            world.sessions.insert(NodeId::builder(0), (session, 0));
            world.grant(0, 1);
            assert_eq!(world.assigned(0), [1]);
            let link = if dies { LinkStatus::Down } else { LinkStatus::Up };
            world.manager.handle_link(world.now, NodeId::builder(0), link);
            for _ in 0..8 {
                world.now += Nanos::from_millis(250);
                world.say(NodeId::readout(0), Body::Acknowledge);
                world.manager.handle_timeout(world.now);
                world.drain();
            }
            assert!(world.events().iter().any(|event| matches!(event, ManagerEvent::BuilderLost { .. })));
        }
        assert_eq!(world.manager.ledger().dropped, outcome);
    }
}

#[test]
fn the_end_of_a_run_waits_for_a_builder_that_is_frozen_until_it_is_given_up() {
    let mut world = World::new(Triggers::Free, |config| {
        config.max_events = Some(1);
        config.patience.silence = Nanos::from_secs(60);
    });
    world.grant(0, 1);
    assert_eq!(world.assigned(0), [1]);
    for step in 1..295 {
        world.now = Timestamp(step * 200_000_000);
        world.say(NodeId::readout(0), Body::Acknowledge);
        world.manager.handle_timeout(world.now);
        world.drain();
        assert_eq!(world.manager.ledger().in_flight, 1, "step {step}");
    }
    for step in 295..450 {
        world.now = Timestamp(step * 200_000_000);
        world.say(NodeId::readout(0), Body::Acknowledge);
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 1)]));
}

#[test]
fn a_builder_that_falls_silent_loses_its_events_and_its_later_words() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(3));
    world.grant(0, 3);
    assert_eq!(world.assigned(0), [1, 2, 3]);
    world.finish(0, 1, 1, Outcome::Stored, None);
    world.now = Timestamp(999_000_000);
    world.grant(1, 3);
    for step in 1..8 {
        world.now = Timestamp(1_000_000_000 + step * 250_000_000);
        world.grant(1, 0);
        world.manager.handle_timeout(world.now);
    }
    assert_eq!(world.assigned(1), [2, 3], "both, in order");
    let lost = world.events().into_iter().find_map(|event| match event {
        ManagerEvent::BuilderLost { builder, committed, reassigned, .. } => {
            Some((builder, committed, reassigned))
        }
        _ => None,
    });
    assert_eq!(lost, Some((NodeId::builder(0), 1, 2)));
    // The fenced session sends again: it receives a fence, and its report does not count.
    world.finish(0, 2, 1, Outcome::Stored, None);
    assert_eq!(world.manager.ledger().stored, 1);
    assert!(world.said_to(NodeId::builder(0)).iter().any(|body| matches!(body, Body::Fence(SessionId(1)))));
    // A new session is accepted.
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 1);
    assert!(world.said_to(NodeId::builder(0)).contains(&Body::Command(Command::Start)));
}

#[test]
fn a_builder_that_has_events_when_the_time_to_finish_is_over_is_told_that_it_is_given_up() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(2));
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    world.manager.handle_stop(world.now);
    world.manager.handle_stop(world.now);
    world.drain();
    assert!(world.said_to(NodeId::builder(0)).contains(&Body::Fence(SessionId(1))));
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}
