//! Room for triggers of a trigger supervisor.

use super::*;
use crate::trigger_link::{Buffer, Room};

fn status(until: u64, events: u32) -> Body<()> {
    Body::ReadoutStatus(ReadoutStatus {
        sources: 2,
        room_until: EventId(until),
        room_events: events,
        ..ReadoutStatus::default()
    })
}

/// Free room in each readout unit that limits the triggers.
fn readouts(world: &World) -> Vec<(u16, u64)> {
    let room = |room: Room| match room.buffer {
        Buffer::Readout(index) => {
            let reason =
                BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(NodeId::readout(index)) };
            assert_eq!(room.reason, reason);
            Some((index, room.free))
        }
        _ => None,
    };
    world.manager.rooms(world.now).filter_map(room).collect()
}

fn trigger(world: &mut World, event: u64) {
    let taken =
        world.manager.handle_external_trigger(world.now, EventId(event), world.now, TriggerType::default());
    assert_eq!(taken, Ok(()));
}

#[test]
fn triggers_take_room_in_readout_units_before_these_say_so() {
    let mut world = World::new(Triggers::External, |_| {});
    assert_eq!(readouts(&world), [], "none has stated any");
    world.say(NodeId::readout(0), status(49, 40));
    assert_eq!(readouts(&world), [(0, 49)], "the first event is 1");
    (1..=10).for_each(|event| trigger(&mut world, event));
    assert_eq!(readouts(&world), [(0, 39)]);
    trigger(&mut world, 30);
    assert_eq!(readouts(&world), [(0, 19)], "ids that are left out may have fragments");
    trigger(&mut world, 60);
    assert_eq!(readouts(&world), [(0, 0)]);
    world.say(NodeId::readout(0), status(u64::MAX, u32::MAX));
    assert_eq!(readouts(&world), [], "nothing limits it");
    world.say(NodeId::readout(0), status(60, 7));
    assert_eq!(readouts(&world), [], "it is too small for events that wait for later ones");
}

#[test]
fn a_readout_unit_that_has_died_or_is_new_has_no_say() {
    let mut world = World::new(Triggers::External, |_| {});
    let node = NodeId::readout(0);
    world.say(node, status(49, 40));
    world.manager.handle_link(world.now, node, LinkStatus::Down);
    assert_eq!(readouts(&world), []);
    world.manager.handle_link(world.now, node, LinkStatus::Up);
    (1..=100).for_each(|event| trigger(&mut world, event));
    assert_eq!(readouts(&world), [(0, 0)]);
    world.sessions.insert(node, (2, 0));
    world.say(node, Body::Acknowledge);
    assert_eq!(readouts(&world), [], "the new session has stated none");
}

#[test]
fn events_that_a_builder_unit_returned_do_not_use_the_room_of_triggers_in_flight() {
    let mut world = World::new(Triggers::External, |config| config.queue_events = 4);
    let queue = |world: &World| {
        let room = world
            .manager
            .rooms(world.now)
            .find(|room| room.buffer == Buffer::Queue)
            .expect("it limits triggers");
        (room.free, room.accepts)
    };
    (1..=4).for_each(|event| trigger(&mut world, event));
    assert_eq!(queue(&world), (0, 0));
    world.grant(0, 4);
    assert_eq!(queue(&world), (4, 4));
    (5..=6).for_each(|event| trigger(&mut world, event));
    // The builder unit dies, and its four events wait again.
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.say(NodeId::builder(0), Body::Acknowledge);
    assert_eq!(queue(&world), (0, 2), "busy is raised, and triggers that were sent before are taken");
    (7..=8).for_each(|event| trigger(&mut world, event));
    assert_eq!(queue(&world), (0, 0));
}

#[test]
fn a_readout_unit_whose_events_wait_for_later_ones_lets_triggers_through() {
    let long = Nanos::from_secs(100);
    let mut world = World::new(Triggers::External, |config| {
        config.patience = Patience { absence: long, silence: long };
    });
    world.say(NodeId::readout(0), status(8, 8));
    (1..=3).for_each(|event| trigger(&mut world, event));
    assert_eq!(readouts(&world), [(0, 5)]);
    let second = Nanos::from_secs(1);
    world.now += second;
    assert_eq!(readouts(&world), [], "nothing has moved for a second");
    trigger(&mut world, 4);
    assert_eq!(readouts(&world), [(0, 4)], "one trigger is enough for the sources to deliver");
    world.now += Nanos(second.0 / 2);
    world.say(NodeId::readout(0), status(9, 8));
    world.now += Nanos(second.0 / 2);
    assert_eq!(readouts(&world), [(0, 5)], "the room has grown since");
    (5..=6).for_each(|event| trigger(&mut world, event));
    world.now += second;
    assert_eq!(readouts(&world), [(0, 3)], "there is room for triggers in flight only");
}
