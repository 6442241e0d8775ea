//! When a run starts.

use super::*;

#[test]
fn a_run_without_any_builder_does_not_begin() {
    let mut world = World::empty(Triggers::Free, |_| {});
    world.say(NodeId::readout(0), Body::ReadoutStatus(ReadoutStatus::default()));
    world.now = Timestamp(60_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    let absent = vec![NodeId::readout(1), NodeId::builder(0), NodeId::builder(1)];
    assert!(world.events.contains(&ManagerEvent::StartFailed { absent }));
}

/// No node can connect while the event manager is stalled.
#[test]
fn time_in_which_the_event_manager_was_held_up_does_not_count_at_the_start() {
    let mut world = World::empty(Triggers::Free, |_| {});
    let stall = Nanos::from_secs(60);
    world.now += stall;
    world.manager.handle_stall(stall);
    world.manager.handle_timeout(world.now);
    for index in 0..2 {
        let status = ReadoutStatus { sources: 2, ..ReadoutStatus::default() };
        world.say(NodeId::readout(index), Body::ReadoutStatus(status));
        world.grant(index, 0);
    }
    assert!(world.manager.is_running());
    assert!(world.events.contains(&ManagerEvent::Started { absent: vec![] }), "{:?}", world.events);
}

#[test]
fn a_run_starts_when_the_programs_that_feed_sources_are_there_however_long_that_takes() {
    let mut world = World::empty(Triggers::Free, |_| {});
    let status =
        |waiting| Body::ReadoutStatus(ReadoutStatus { sources: 2, waiting, ..ReadoutStatus::default() });
    world.say(NodeId::readout(0), status(true));
    world.say(NodeId::readout(1), status(false));
    world.grant(0, 0);
    for second in 0..100 {
        world.now = Timestamp(second * 1_000_000_000);
        world.say(NodeId::readout(0), status(true));
        world.manager.handle_timeout(world.now);
        world.drain();
        assert!(!world.manager.is_running() && world.events.is_empty(), "second {second}");
    }
    world.say(NodeId::readout(0), status(false));
    assert!(!world.manager.is_running(), "a builder has the whole time to connect from now on");
    world.grant(1, 0);
    assert!(world.manager.is_running());
    assert!(world.said_to(NodeId::readout(0)).contains(&Body::Command(Command::Start)));
}

/// The first status of a readout unit was lost, but an acknowledgement was not.
#[test]
fn a_run_does_not_start_before_the_status_of_each_readout_unit_is_known() {
    let mut world = World::empty(Triggers::Free, |_| {});
    let status =
        |waiting| Body::ReadoutStatus(ReadoutStatus { sources: 2, waiting, ..ReadoutStatus::default() });
    world.say(NodeId::readout(0), status(false));
    (0..2).for_each(|builder| world.grant(builder, 0));
    let header = Header {
        run: RunNumber(1),
        sender: NodeId::readout(1),
        session: SessionId(1),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
    };
    world.manager.handle_input(world.now, Message { header, body: Body::Acknowledge });
    world.manager.handle_timeout(world.now);
    world.drain();
    assert!(!world.manager.is_running(), "it may wait for programs");
    world.say(NodeId::readout(1), status(false));
    assert!(world.manager.is_running());
}

#[test]
fn a_start_that_crosses_a_decline_is_taken_back() {
    let mut world = World::new(Triggers::Free, |_| {});
    let status = ReadoutStatus { sources: 2, declines: true, ..ReadoutStatus::default() };
    world.say(NodeId::readout(1), Body::ReadoutStatus(status));
    assert!(!world.manager.is_running());
    assert!(world.events.contains(&ManagerEvent::StartDeclined { readout: NodeId::readout(1) }));
}
