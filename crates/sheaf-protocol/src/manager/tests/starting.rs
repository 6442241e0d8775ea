//! When a run starts.

use super::*;
use sheaf_wire::message::Readiness;

#[test]
fn a_run_without_any_builder_does_not_begin() {
    let mut world = World::empty(Triggers::Free, |_| {});
    world.say(NodeId::readout(0), Body::ReadoutStatus(ReadoutStatus::default()));
    world.now = Timestamp(60_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    let absent = vec![NodeId::readout(1), NodeId::builder(0), NodeId::builder(1)];
    assert!(world.events.contains(&ManagerEvent::StartFailed { absent, requirement: None }));
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

impl World {
    /// A builder unit without credit states whether its workers have loaded their filters.
    fn state(&mut self, builder: u16, readiness: Readiness) {
        self.say(NodeId::builder(builder), Body::Request(Request { readiness, ..Request::default() }));
    }
}

#[test]
fn a_run_starts_when_the_workers_have_loaded_their_filters_however_long_that_takes() {
    let mut world = World::empty(Triggers::Free, |_| {});
    for quarter in 0..400 {
        world.now = Timestamp(quarter * 250_000_000);
        (0..2).for_each(|index| world.say(NodeId::readout(index), Body::ReadoutStatus(present())));
        world.state(0, Readiness::Loading);
        world.state(1, Readiness::Ready);
        world.manager.handle_timeout(world.now);
        world.drain();
        assert!(!world.manager.is_running() && world.events.is_empty(), "at {}", world.now);
        let awaited = AwaitedNodes { loading: vec![NodeId::builder(0)], ..AwaitedNodes::default() };
        assert_eq!(world.manager.awaited_nodes(), Some(awaited));
    }
    world.state(0, Readiness::Ready);
    assert!(world.manager.is_running());
    assert_eq!(world.manager.dead_time(world.now).run(), Nanos::ZERO);
}

#[test]
fn a_builder_whose_workers_cannot_load_their_filters_declines_the_start() {
    let mut world = World::empty(Triggers::Free, |_| {});
    (0..2).for_each(|index| world.say(NodeId::readout(index), Body::ReadoutStatus(present())));
    world.state(1, Readiness::Failed);
    assert!(world.events.contains(&ManagerEvent::StartDeclined { node: NodeId::builder(1) }));
    let mut running = World::new(Triggers::Free, |_| {});
    running.state(1, Readiness::Failed);
    assert!(running.manager.is_running(), "the worker of a run in progress is started again");
}

/// An acknowledgement arrived before the first request.
#[test]
fn a_run_does_not_start_before_each_builder_has_stated_whether_its_events_can_be_judged() {
    let mut world = World::empty(Triggers::Free, |_| {});
    (0..2).for_each(|index| world.say(NodeId::readout(index), Body::ReadoutStatus(present())));
    world.grant(0, 0);
    let header = Header {
        run: RunNumber(1),
        sender: NodeId::builder(1),
        session: SessionId(1),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
        term: sheaf_wire::Term(0),
    };
    world.manager.handle_input(world.now, Message { header, body: Body::Acknowledge });
    world.drain();
    assert!(!world.manager.is_running(), "its workers may load their filters");
    world.grant(1, 0);
    assert!(world.manager.is_running());
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
        term: sheaf_wire::Term(0),
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
    assert!(world.events.contains(&ManagerEvent::StartDeclined { node: NodeId::readout(1) }));
}

/// A run with both readout units and as many of its two builder units, whose start is held.
fn held(builders: u16) -> World {
    let mut world = World::empty(Triggers::Free, |_| {});
    world.manager.handle_hold(world.now, true);
    for index in 0..2 {
        world.say(NodeId::readout(index), Body::ReadoutStatus(present()));
    }
    (0..builders).for_each(|builder| world.grant(builder, 0));
    world
}

impl World {
    /// Lets time pass, in which all nodes stay alive.
    fn pass(&mut self, seconds: u64, builders: u16) {
        for _ in 0..4 * seconds {
            self.now += Nanos::from_millis(250);
            for index in 0..2 {
                self.say(NodeId::readout(index), Body::ReadoutStatus(present()));
            }
            (0..builders).for_each(|builder| self.grant(builder, 0));
            self.manager.handle_timeout(self.now);
            self.drain();
        }
    }
}

#[test]
fn a_start_that_is_held_begins_when_it_is_released() {
    let mut world = held(2);
    world.pass(100, 2);
    assert!(world.manager.is_ready(world.now) && !world.manager.is_running());
    assert_eq!(world.manager.dead_time(world.now).run(), Nanos::ZERO);
    world.manager.handle_hold(world.now, false);
    world.drain();
    assert!(world.manager.is_running() && !world.manager.is_ready(world.now));
    assert!(world.events.contains(&ManagerEvent::Started { absent: vec![] }), "{:?}", world.events);
    world.manager.handle_hold(world.now, true);
    assert!(world.manager.is_running(), "it has begun");
}

#[test]
fn the_time_limit_of_a_start_begins_when_it_is_released() {
    let mut world = held(1);
    world.pass(100, 1);
    assert!(!world.manager.is_ready(world.now), "a builder unit is absent");
    world.manager.handle_hold(world.now, false);
    let limit = world.now + world.manager.config.start_timeout;
    assert_eq!(world.manager.phase.deadline(), Some(Deadline { at: limit, why: Why::Start }));
    while world.now < limit {
        assert!(!world.manager.is_running());
        world.pass(1, 1);
    }
    assert!(world.events.contains(&ManagerEvent::Started { absent: vec![NodeId::builder(1)] }));
}

#[test]
fn a_node_that_dies_while_the_start_is_held_is_awaited_again() {
    let mut world = held(2);
    assert!(world.manager.is_ready(world.now));
    world.pass(100, 1);
    assert!(!world.manager.is_ready(world.now));
    world.sessions.insert(NodeId::builder(1), (2, 0));
    world.pass(1, 2);
    assert!(world.manager.is_ready(world.now));
}

#[test]
fn a_run_that_is_stopped_while_its_start_is_held_never_begins() {
    let mut world = held(2);
    world.manager.handle_stop(world.now);
    world.drain();
    world.manager.handle_hold(world.now, false);
    world.drain();
    assert!(!world.manager.is_running());
    assert!(!world.events.iter().any(|event| matches!(event, ManagerEvent::Started { .. })));
    assert!(world.said_to(NodeId::readout(0)).contains(&Body::Command(Command::Close)));
}
