//! Runs that follow one another in the same nodes.

use super::*;

/// Ends the triggers and all events, and lets both readout units report.
fn end(world: &mut World, at: Timestamp) {
    world.manager.handle_end_of_triggers(world.now, at);
    world.drain();
    world.now += Nanos::from_millis(10);
    world.manager.handle_timeout(world.now);
    world.drain();
}

fn commands(world: &mut World, node: NodeId) -> Vec<Command> {
    let command = |body| match body {
        Body::Command(command) => Some(command),
        _ => None,
    };
    world.said_to(node).into_iter().filter_map(command).collect()
}

#[test]
fn nodes_are_told_that_another_run_follows_and_readout_units_with_which_event() {
    let mut world = World::new(Triggers::Driven, |config| config.first_event = EventId(7));
    world.grant(0, 10);
    for at in [100, 200] {
        world.now = Timestamp(at);
        assert!(world.manager.handle_trigger(world.now, world.now, TriggerType(0)).is_ok());
    }
    world.drain();
    assert_eq!(world.manager.next_event(), EventId(9));
    let _ = (commands(&mut world, NodeId::readout(0)), world.assigned(0));
    world.manager.set_handover(true);
    world.finish(0, 7, 1, Outcome::Stored, None);
    world.finish(0, 8, 1, Outcome::Rejected, None);
    world.now = Timestamp(300);
    end(&mut world, Timestamp(250));
    let hand_over = Command::HandOver { first: EventId(9) };
    assert_eq!(commands(&mut world, NodeId::readout(0)), [hand_over]);
    for readout in 0..2 {
        world.say(NodeId::readout(readout), Body::Report(NodeBooks::default().to_counts()));
    }
    assert_eq!(commands(&mut world, NodeId::builder(1)).last(), Some(&hand_over));
    assert_eq!(world.manager.triggers_ended_at(), Some(Timestamp(250)));
}

#[test]
fn a_run_that_is_stopped_meanwhile_closes_as_the_last_one() {
    let mut world = World::new(Triggers::Driven, |_| {});
    world.manager.set_handover(true);
    world.manager.set_handover(false);
    end(&mut world, Timestamp(10));
    assert_eq!(commands(&mut world, NodeId::readout(0)).last(), Some(&Command::Close));
}

fn announce(world: &mut World, readout: u16, events: &[u64]) {
    let announcement = |event: &u64| Announcement { event: EventId(*event), time: START };
    world.say(NodeId::readout(readout), Body::Announce(events.iter().map(announcement).collect()));
}

fn answer_division(world: &mut World, readout: u16) {
    let status = ReadoutStatus { sources: 2, has_divided: true, ..ReadoutStatus::default() };
    world.say(NodeId::readout(readout), Body::ReadoutStatus(status));
}

/// Units are at different events when the triggers end. The run takes what belongs to it, and no more, until both say that this was all.
#[test]
fn a_run_that_the_data_trigger_takes_its_events_of_units_that_are_behind() {
    let mut world = World::new(Triggers::Announced, |config| config.max_events = Some(2));
    world.manager.set_handover(true);
    world.grant(0, 10);
    announce(&mut world, 0, &[4, 7, 9]);
    assert!(!world.manager.is_running());
    assert_eq!((world.assigned(0), world.manager.next_event()), (vec![4, 7], EventId(8)));
    announce(&mut world, 1, &[5, 8]);
    assert_eq!(world.assigned(0), [5]);
    for event in [4, 5, 7] {
        assert!(!commands(&mut world, NodeId::readout(0)).contains(&Command::Divide));
        world.finish(0, event, 1, Outcome::Stored, None);
    }
    for readout in 0..2 {
        assert_eq!(commands(&mut world, NodeId::readout(readout)).last(), Some(&Command::Divide));
    }
    answer_division(&mut world, 0);
    announce(&mut world, 1, &[6, 10]);
    answer_division(&mut world, 1);
    assert_eq!(world.assigned(0), [6]);
    assert_eq!(commands(&mut world, NodeId::readout(0)), []);
    world.finish(0, 6, 1, Outcome::Stored, None);
    for readout in 0..2 {
        let hand_over = Command::HandOver { first: EventId(8) };
        assert_eq!(commands(&mut world, NodeId::readout(readout)), [hand_over]);
    }
    assert_eq!((world.manager.ledger().received, world.manager.ledger().stored), (4, 4));
}

#[test]
fn a_unit_that_is_lost_does_not_keep_the_next_run_waiting() {
    let mut world = World::new(Triggers::Announced, |_| {});
    world.manager.set_handover(true);
    world.manager.handle_end_of_triggers(world.now, world.now);
    world.drain();
    answer_division(&mut world, 0);
    assert_eq!(commands(&mut world, NodeId::readout(0)).last(), Some(&Command::Divide));
    world.manager.handle_link(world.now, NodeId::readout(1), LinkStatus::Down);
    for _ in 0..20 {
        world.now += Nanos::from_millis(100);
        answer_division(&mut world, 0);
        world.manager.handle_timeout(world.now);
        world.drain();
    }
    let hand_over = Command::HandOver { first: EventId(1) };
    assert_eq!(commands(&mut world, NodeId::readout(0)), [hand_over]);
}

#[test]
fn no_run_follows_one_whose_data_have_ended() {
    for triggers in [Triggers::Announced, Triggers::Driven] {
        let mut world = World::new(triggers, |_| {});
        world.manager.set_handover(true);
        for readout in 0..2 {
            let status = ReadoutStatus { sources: 2, sources_ended: 2, ..ReadoutStatus::default() };
            world.say(NodeId::readout(readout), Body::ReadoutStatus(status));
        }
        world.manager.set_handover(true);
        assert!(!world.manager.hands_over());
        world.drain();
        assert_eq!(commands(&mut world, NodeId::readout(0)).last(), Some(&Command::Close));
    }
}

/// The time between the two is of the second run, and its triggers are taken with their times.
#[test]
fn the_time_of_a_run_begins_where_that_of_the_run_before_has_ended() {
    let mut world = World::empty(Triggers::Driven, |config| config.queue_events = 2);
    world.now = Timestamp(1_000);
    world.manager.begin_at(Timestamp(400));
    for index in 0..2 {
        world.say(NodeId::readout(index), Body::ReadoutStatus(present()));
        world.grant(index, 0);
    }
    assert!(world.manager.is_running());
    let mut trigger = |at| world.manager.handle_trigger(Timestamp(1_000), Timestamp(at), TriggerType(0));
    assert!(trigger(500).is_ok() && trigger(600).is_ok());
    assert_eq!(trigger(700), Err(Veto::Busy(DeadTimeCause::BuilderCredit)));
    let dead_time = world.manager.dead_time(Timestamp(1_000));
    assert_eq!((dead_time.live, dead_time.run()), (Nanos(200), Nanos(600)));
    assert_eq!(dead_time.time, BTreeMap::from([(DeadTimeCause::BuilderCredit, Nanos(400))]));
}
