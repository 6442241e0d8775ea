//! Messages of the event manager to readout units that push or send in time slots.

use super::*;

fn dispatched(world: &mut World, readout: u16) -> Vec<(u64, u32, u16, u16)> {
    let destinations = |body| match body {
        Body::Dispatch(list) => list,
        _ => vec![],
    };
    let said = world.said_to(NodeId::readout(readout)).into_iter().flat_map(destinations);
    said.map(|to| (to.events.first.0, to.events.count, to.events.attempt, to.builder)).collect()
}

fn shapes(world: &mut World, node: NodeId) -> Vec<(bool, Timestamp)> {
    let shape = |body| match body {
        Body::Shape(shape) => Some((shape.turning, shape.epoch)),
        _ => None,
    };
    world.said_to(node).into_iter().filter_map(shape).collect()
}

#[test]
fn readout_units_are_told_who_builds_what_and_again_when_it_is_another() {
    let mut world = World::new(Triggers::Free, |config| {
        config.shaping = Shaping::Push;
        config.max_events = Some(5);
    });
    world.grant(0, 3);
    world.grant(1, 2);
    for readout in 0..2 {
        assert_eq!(dispatched(&mut world, readout), [(1, 3, 1, 0), (4, 2, 1, 1)]);
    }
    world.grant(1, 1);
    world.finish(0, 2, 1, Outcome::GivenBack, Some(DropReason::BuilderOutOfMemory));
    assert_eq!(dispatched(&mut world, 1), [(2, 1, 2, 1)]);
}

#[test]
fn a_message_to_a_readout_unit_is_of_no_more_events_than_it_takes() {
    let mut world = World::new(Triggers::Free, |config| {
        config.shaping = Shaping::Push;
        config.batch_events = 3_000;
        config.max_events = Some(10_000);
    });
    world.grant(0, 10_000);
    let said = world.said_to(NodeId::readout(0));
    let sizes = said.iter().filter_map(|body| match body {
        Body::Dispatch(list) => Some(list.iter().map(|to| u64::from(to.events.count)).sum::<u64>()),
        _ => None,
    });
    let sizes: Vec<u64> = sizes.collect();
    assert_eq!(sizes.iter().sum::<u64>(), 10_000);
    assert!(sizes.iter().all(|events| *events <= DISPATCH_EVENTS), "{sizes:?}");
}

#[test]
fn the_barrel_turns_while_all_nodes_are_there() {
    let tick = Nanos::from_millis(100);
    let mut world = World::empty(Triggers::Free, |config| config.shaping = Shaping::Barrel { tick });
    let status = ReadoutStatus { sources: 2, ..ReadoutStatus::default() };
    world.say(NodeId::readout(0), Body::ReadoutStatus(status));
    world.say(NodeId::readout(1), Body::ReadoutStatus(status));
    world.grant(0, 3);
    assert!(!world.manager.is_barrel_turning());
    world.now = Timestamp(1_000);
    world.grant(1, 3);
    for node in [NodeId::readout(0), NodeId::builder(1)] {
        assert_eq!(shapes(&mut world, node), [(true, Timestamp(1_000))], "{node}");
    }
    // Builder 0 falls silent; the others continue.
    for step in 1..8 {
        world.now = Timestamp(step * 250_000_000);
        world.grant(1, 0);
        world.say(NodeId::readout(0), Body::ReadoutStatus(status));
        world.say(NodeId::readout(1), Body::ReadoutStatus(status));
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    assert!(!world.manager.is_barrel_turning());
    assert_eq!(shapes(&mut world, NodeId::builder(1)).last(), Some(&(false, Timestamp(1_000))));
    // Its new session connects: time slots have a new epoch.
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 1);
    assert!(world.manager.is_barrel_turning());
    let now = world.now;
    assert_eq!(shapes(&mut world, NodeId::readout(1)).last(), Some(&(true, now)));
    assert_eq!(shapes(&mut world, NodeId::builder(0)).last(), Some(&(true, now)));
}

#[test]
fn readout_units_are_told_the_time_at_every_tick_and_builders_are_not() {
    let tick = Nanos::from_millis(100);
    let mut world = World::new(Triggers::Free, |config| config.shaping = Shaping::Barrel { tick });
    let _ = (shapes(&mut world, NodeId::readout(0)), shapes(&mut world, NodeId::builder(0)));
    for step in 1..=5 {
        world.now = Timestamp(step * tick.0);
        assert!(world.manager.poll_timeout().is_some_and(|deadline| deadline.at <= world.now));
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    assert_eq!(shapes(&mut world, NodeId::readout(0)).len(), 5);
    assert_eq!(shapes(&mut world, NodeId::builder(0)).len(), 0);
}
