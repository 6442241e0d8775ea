//! The end of a run waits only for nodes that work.

use super::*;

fn report(world: &mut World, builder: u16, work: Work) {
    world.say(NodeId::builder(builder), Body::Request(Request { work, ..Request::default() }));
}

/// Lets `seconds` pass in which the builders report their work.
fn pass(world: &mut World, seconds: u64, work: [Work; 2]) {
    for _ in 0..4 * seconds {
        pass_quarter(world, work);
    }
}

fn pass_quarter(world: &mut World, work: [Work; 2]) {
    world.now += Nanos::from_millis(250);
    for (builder, work) in (0..2).zip(work) {
        report(world, builder, work);
    }
    world.manager.handle_timeout(world.now);
    world.drain();
}

fn draining() -> World {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(2));
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    world.grant(1, 0);
    world
}

#[test]
fn events_that_somebody_judges_or_writes_are_waited_for_without_limit() {
    for work in [Work::Judging, Work::Storing] {
        let mut world = draining();
        pass(&mut world, 3_600, [work, Work::None]);
        assert_eq!(world.manager.ledger().in_flight, 2, "{work:?}");
        let awaited = world.manager.awaited().expect("a builder unit has events");
        assert_eq!((awaited.builder, awaited.work, awaited.events), (NodeId::builder(0), work, 2));
        assert_eq!(awaited.since, START, "since they were assigned");
        world.finish(0, 1, 1, Outcome::Stored, None);
        world.finish(0, 2, 1, Outcome::Stored, None);
        assert_eq!(world.manager.ledger().stored, 2);
        assert_eq!(world.manager.awaited(), None);
    }
}

/// A source that runs ahead of the others announces events alone. The fragments of the others are behind those of earlier events.
#[test]
fn events_that_sources_deliver_before_one_in_flight_are_triggered_until_that_one_ends() {
    let mut world = World::new(Triggers::Announced, |_| {});
    let announce = |world: &mut World, readout, events: &[u64]| {
        let announcement = |event: &u64| Announcement { event: EventId(*event), time: START };
        world.say(NodeId::readout(readout), Body::Announce(events.iter().map(announcement).collect()));
    };
    world.grant(0, 10);
    announce(&mut world, 0, &[3, 9]);
    assert_eq!(world.assigned(0), [3, 9]);
    world.manager.handle_stop(world.now);
    announce(&mut world, 1, &[4, 10]);
    assert_eq!(world.assigned(0), [4], "event 10 is none of the run");
    world.finish(0, 9, 1, Outcome::Stored, None);
    announce(&mut world, 1, &[5]);
    assert_eq!(world.manager.ledger().received, 3, "no event in flight is behind event 5");
    [3, 4].into_iter().for_each(|event| world.finish(0, event, 1, Outcome::Stored, None));
    announce(&mut world, 1, &[2]);
    assert_eq!((world.manager.ledger().received, world.manager.ledger().stored), (3, 3));
}

/// A source that once sends a number far ahead has its event built like any other, and does not prolong the run to that number.
#[test]
fn a_wrong_number_far_ahead_triggers_no_events_at_the_end_of_a_run() {
    let mut world = World::new(Triggers::Announced, |_| {});
    let announce = |world: &mut World, event| {
        let announcement = Announcement { event: EventId(event), time: START };
        world.say(NodeId::readout(0), Body::Announce(vec![announcement]));
    };
    world.grant(0, 10);
    [3, 1 << 40].into_iter().for_each(|event| announce(&mut world, event));
    world.manager.handle_stop(world.now);
    announce(&mut world, 4);
    assert_eq!(world.manager.ledger().received, 2);
}

/// Lets `seconds` pass in which both builders gather and this readout unit reports whether it processes fragments.
fn pass_processing(world: &mut World, seconds: u64, readout: u16, processing: bool) {
    for _ in 0..4 * seconds {
        let status = ReadoutStatus { sources: 2, processing, ..ReadoutStatus::default() };
        world.say(NodeId::readout(readout), Body::ReadoutStatus(status));
        pass_quarter(world, [Work::None, Work::None]);
    }
}

#[test]
fn events_whose_fragments_are_processed_are_waited_for_without_limit() {
    let mut world = draining();
    pass_processing(&mut world, 3_600, 1, true);
    assert_eq!(world.manager.ledger().in_flight, 2);
    pass_processing(&mut world, 21, 1, false);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

/// The node that processes the fragments is done just before the time to finish would have ended without that work. The
/// builder unit has not reported its own work on them yet.
#[test]
fn the_time_to_finish_runs_from_the_last_work() {
    let mut world = draining();
    pass_processing(&mut world, 9, 1, true);
    pass_processing(&mut world, 9, 1, false);
    assert_eq!(world.manager.ledger().in_flight, 2, "fragments were processed 9 s ago");
    pass(&mut world, 9, [Work::Judging, Work::None]);
    pass(&mut world, 9, [Work::None, Work::None]);
    assert_eq!(world.manager.ledger().in_flight, 2, "events were judged 9 s ago");
    pass(&mut world, 2, [Work::None, Work::None]);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn a_lost_readout_unit_processes_nothing() {
    let mut world = draining();
    pass_processing(&mut world, 100, 1, true);
    assert_eq!(world.manager.ledger().in_flight, 2);
    for _ in 0..30 {
        pass_processing(&mut world, 1, 0, false);
    }
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn events_on_which_nobody_works_are_given_up_when_none_ends_for_the_time_to_stop() {
    let mut world = draining();
    pass(&mut world, 9, [Work::None, Work::Judging]);
    assert_eq!(world.manager.ledger().in_flight, 2, "the builder that works has no events");
    pass(&mut world, 2, [Work::None, Work::Judging]);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn work_that_was_done_no_longer_counts() {
    let mut world = draining();
    pass(&mut world, 100, [Work::Judging, Work::None]);
    pass(&mut world, 21, [Work::None, Work::None]);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn a_second_stop_cuts_also_who_works() {
    let mut world = draining();
    world.manager.handle_stop(world.now);
    pass(&mut world, 100, [Work::Judging, Work::None]);
    assert_eq!(world.manager.ledger().in_flight, 2);
    world.manager.handle_stop(world.now);
    world.drain();
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
    assert!(world.said_to(NodeId::builder(0)).contains(&Body::Fence(SessionId(1))));
}

#[test]
fn the_work_of_a_lost_builder_unit_is_not_waited_for() {
    let mut world = draining();
    pass(&mut world, 1, [Work::Judging, Work::None]);
    // Builder unit 0 sends nothing any more, and builder unit 1 has no credit.
    for _ in 0..80 {
        world.now += Nanos::from_millis(250);
        report(&mut world, 1, Work::None);
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn events_of_a_builder_unit_that_is_lost_as_the_time_ends_are_built_elsewhere() {
    let mut world = World::new(Triggers::Free, |config| {
        config.max_events = Some(2);
        config.patience = Patience { absence: config.stop_timeout, silence: config.stop_timeout };
    });
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    // Builder unit 0 sends nothing any more. It is given up at the moment in which the time to finish ends.
    for _ in 0..60 {
        world.now += Nanos::from_millis(250);
        report(&mut world, 1, Work::None);
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    assert_eq!(world.manager.ledger().in_flight, 2);
    world.grant(1, 2);
    assert_eq!(world.assigned(1), [1, 2]);
}

/// No event can end and no message can arrive while the event manager is stalled.
#[test]
fn time_in_which_the_event_manager_was_held_up_does_not_count() {
    let mut world = draining();
    pass(&mut world, 6, [Work::None, Work::None]);
    let stall = Nanos::from_secs(30);
    world.now += stall;
    world.manager.handle_stall(stall);
    pass(&mut world, 3, [Work::None, Work::None]);
    assert_eq!(world.manager.ledger().in_flight, 2, "it was awake for nine of ten seconds");
    pass(&mut world, 2, [Work::None, Work::None]);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}

#[test]
fn a_stall_does_not_put_off_a_cut() {
    let mut world = draining();
    world.manager.handle_stop(world.now);
    world.manager.handle_stop(world.now);
    world.manager.handle_stall(Nanos::from_secs(30));
    world.manager.handle_timeout(world.now);
    world.drain();
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
}
