//! Tests of assignment, books, dead time, and builders that die.

mod deaths;
mod desertion;
mod draining;
mod excluding;
mod live_time;
mod pausing;
mod requirements;
mod rooms;
mod runs;
mod shaping;
mod shifting;
mod starting;
mod succession;
mod suspects;

use super::*;
use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use sheaf_wire::message::{
    Announcement, Assignment, Command, Finished, Header, ReadoutStatus, Recorded, Release, Request, Work,
};
use sheaf_wire::run_record::{RecordAnswer, RecordKind, RunRecord};
use sheaf_wire::trigger_link::{BusyCause, BusyReason};
use sheaf_wire::{DropReason, Nanos, Outcome, Role, RunNumber, SourceId, TriggerMix};
use std::sync::Arc;

const START: Timestamp = Timestamp(0);

#[test]
fn free_triggers_follow_credit_and_stop_at_the_limit() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(10));
    world.grant(0, 3);
    assert_eq!(world.assigned(0), [1, 2, 3]);
    world.grant(1, 20);
    let second = world.assigned(1);
    assert_eq!(second, (4..=10).collect::<Vec<_>>());
    assert_eq!((world.manager.ledger().received, world.manager.ledger().in_flight), (10, 10));
    assert!(!world.manager.is_running());
}

#[test]
fn every_end_is_one_bin() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(4));
    world.grant(0, 4);
    let _ = world.assigned(0);
    world.finish(0, 1, 1, Outcome::Stored, None);
    world.finish(0, 2, 1, Outcome::Rejected, None);
    world.finish(0, 3, 1, Outcome::Dropped, Some(DropReason::Incomplete));
    let ledger = world.manager.ledger();
    let dropped = BTreeMap::from([(DropReason::Incomplete, 1)]);
    assert_eq!(ledger, Ledger { received: 4, stored: 1, rejected: 1, dropped, in_flight: 1 });
    assert!(ledger.is_balanced());
    // Repeated reports, and reports of events that were not assigned, change nothing.
    world.finish(0, 1, 1, Outcome::Stored, None);
    world.finish(0, 99, 1, Outcome::Stored, None);
    assert_eq!(world.manager.ledger(), ledger);
}

#[test]
fn an_event_given_back_goes_to_another_builder_and_has_its_chances_counted() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
    world.grant(0, 1);
    assert_eq!(world.assigned(0), [1]);
    world.grant(1, 1);
    let memory = Some(DropReason::BuilderOutOfMemory);
    world.finish(0, 1, 1, Outcome::GivenBack, memory);
    assert_eq!(world.assigned(1), [1]);
    world.grant(0, 1);
    world.finish(1, 1, 2, Outcome::GivenBack, memory);
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::BuilderOutOfMemory, 1)]));
    assert!(world.manager.ledger().is_balanced());
}

#[test]
fn sources_that_ran_ahead_of_the_triggers_do_not_end_the_run() {
    for triggers in [Triggers::Free, Triggers::Driven] {
        let mut world = World::new(triggers, |config| config.max_events = Some(4));
        world.grant(0, 2);
        for readout in 0..2 {
            let status = ReadoutStatus { sources: 2, sources_ended: 2, ..ReadoutStatus::default() };
            world.say(NodeId::readout(readout), Body::ReadoutStatus(status));
        }
        assert!(world.manager.is_running(), "{triggers:?}");
    }
}

/// If the event manager itself was stalled, silence of others is no sign of death: their messages may be in flight.
#[test]
fn an_event_manager_that_was_held_up_gives_nobody_up() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(2));
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    world.now = Timestamp(5_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    assert!(!world.events().iter().any(|event| matches!(event, ManagerEvent::BuilderLost { .. })));
    world.finish(0, 1, 1, Outcome::Stored, None);
    assert_eq!(world.manager.ledger().stored, 1);
    // From here on silence counts again.
    for _ in 0..6 {
        world.now += Nanos::from_millis(250);
        world.manager.handle_timeout(world.now);
    }
    world.drain();
    assert!(world.events().iter().any(|event| matches!(event, ManagerEvent::BuilderLost { .. })));
}

#[test]
fn an_event_manager_that_was_held_up_at_the_beginning_gives_nobody_up() {
    for held_up in [900, 1_100, 1_240, 1_300, 9_000] {
        let mut world = World::new(Triggers::Free, |config| config.max_events = Some(2));
        world.grant(0, 2);
        assert_eq!(world.assigned(0), [1, 2]);
        world.now += Nanos::from_millis(held_up);
        world.manager.handle_timeout(world.now);
        world.drain();
        let is_lost = world.events().iter().any(|event| matches!(event, ManagerEvent::BuilderLost { .. }));
        assert!(!is_lost, "stalled for {held_up} ms");
    }
}

#[test]
fn driven_triggers_are_vetoed_when_the_queue_is_full_and_dead_time_runs() {
    let mut world = World::new(Triggers::Driven, |config| config.queue_events = 2);
    let trigger = |world: &mut World| world.manager.handle_trigger(world.now, world.now, TriggerType(0));
    assert!(trigger(&mut world).is_ok() && trigger(&mut world).is_ok());
    assert_eq!(trigger(&mut world), Err(Veto::Busy(DeadTimeCause::BuilderCredit)));
    world.now = Timestamp(500);
    world.grant(0, 1);
    assert_eq!(world.assigned(0).len(), 1);
    let dead = world.manager.dead_time(Timestamp(9_999));
    assert_eq!(dead.time, BTreeMap::from([(DeadTimeCause::BuilderCredit, Nanos(500))]));
    assert_eq!(dead.vetoed, BTreeMap::from([(DeadTimeCause::BuilderCredit, 1)]));
    assert_eq!(world.manager.ledger().received, 2, "a vetoed trigger is no event");
}

#[test]
fn dead_time_is_the_outputs_while_a_living_builder_says_that_its_output_is_behind() {
    let mut world = World::new(Triggers::Driven, |config| config.queue_events = 1);
    let trigger = |world: &mut World| world.manager.handle_trigger(world.now, world.now, TriggerType(0));
    assert!(trigger(&mut world).is_ok());
    for (behind, cause) in
        [(true, DeadTimeCause::Output), (true, DeadTimeCause::Output), (false, DeadTimeCause::BuilderCredit)]
    {
        let request = Request { output_behind: behind, ..Request::default() };
        world.say(NodeId::builder(0), Body::Request(request));
        assert_eq!(trigger(&mut world), Err(Veto::Busy(cause)));
        world.now += Nanos(100);
    }
    let dead = world.manager.dead_time(world.now);
    let time = [(DeadTimeCause::Output, Nanos(200)), (DeadTimeCause::BuilderCredit, Nanos(100))];
    assert_eq!(dead.time, BTreeMap::from(time));
    assert_eq!(dead.vetoed, BTreeMap::from([(DeadTimeCause::Output, 2), (DeadTimeCause::BuilderCredit, 1)]));
}

#[test]
fn announced_events_are_triggered_once() {
    let mut world = World::new(Triggers::Announced, |_| {});
    world.grant(0, 10);
    for readout in 0..2 {
        let announcement = |event| Announcement { event: EventId(event), time: START };
        world.say(NodeId::readout(readout), Body::Announce([7, 3, 11].map(announcement).to_vec()));
    }
    assert_eq!(world.assigned(0), [3, 7, 11]);
    world.finish(0, 7, 1, Outcome::Stored, None);
    world.say(NodeId::readout(0), Body::Announce(vec![Announcement { event: EventId(7), time: START }]));
    assert_eq!(world.manager.ledger().received, 3);
}

#[test]
fn latency_is_told_by_one_clock_whatever_the_time_base_of_the_sources() {
    let mut world = World::new(Triggers::Announced, |_| {});
    world.grant(0, 10);
    world.now = Timestamp(500);
    let announcement = Announcement { event: EventId(7), time: Timestamp(123_456_789_000) };
    world.say(NodeId::readout(0), Body::Announce(vec![announcement]));
    world.now = Timestamp(800);
    world.finish(0, 7, 1, Outcome::Stored, None);
    let latency = world.events().into_iter().find_map(|event| match event {
        ManagerEvent::Ended(ended) => Some(ended.latency),
        _ => None,
    });
    assert_eq!(latency, Some(Nanos(300)));
}

#[test]
fn the_run_ends_when_all_sources_have_and_everything_is_released() {
    let mut world = World::new(Triggers::Announced, |_| {});
    world.grant(0, 10);
    let announcement = Announcement { event: EventId(7), time: START };
    world.say(NodeId::readout(0), Body::Announce(vec![announcement]));
    assert_eq!(world.assigned(0), [7]);
    for readout in 0..2 {
        let status = ReadoutStatus { sources: 2, sources_ended: 2, ..ReadoutStatus::default() };
        world.say(NodeId::readout(readout), Body::ReadoutStatus(status));
    }
    assert!(!world.said_to(NodeId::readout(0)).contains(&Body::Command(Command::Close)));
    world.finish(0, 7, 1, Outcome::Stored, None);
    let said = world.said_to(NodeId::readout(0));
    let release = said.iter().position(|body| matches!(body, Body::Release(_)));
    let close = said.iter().position(|body| *body == Body::Command(Command::Close));
    assert!(release.is_some() && release < close, "released before closed: {said:?}");
    for node in [NodeId::readout(0), NodeId::readout(1), NodeId::builder(0), NodeId::builder(1)] {
        world.say(node, Body::Report(vec![]));
    }
    assert!(world.manager.is_finished());
    assert!(world.events().contains(&ManagerEvent::Closed));
}

#[test]
fn a_stop_that_nobody_follows_still_ends_with_balanced_books() {
    let mut world = World::new(Triggers::Free, |_| {});
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    world.manager.handle_stop(world.now);
    world.now = Timestamp(60_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    let ledger = world.manager.ledger();
    assert_eq!(ledger.dropped, BTreeMap::from([(DropReason::Stopped, 2)]));
    assert!(ledger.is_balanced() && ledger.in_flight == 0);
    // Events that the builder may have stored in the meantime do not count.
    assert_eq!(world.manager.committed()[&(NodeId::builder(0), SessionId(1))], 0);
    // Readout units do not report, so builder units are closed late, and have time to report.
    world.now = Timestamp(120_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    assert!(world.said_to(NodeId::builder(1)).contains(&Body::Command(Command::Close)));
    assert!(!world.manager.is_finished());
    world.now = Timestamp(180_000_000_000);
    world.manager.handle_timeout(world.now);
    assert!(world.manager.is_finished());
}

#[test]
fn a_builder_that_comes_back_gets_its_events_again_where_no_other_has_credit() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(4));
    world.grant(0, 2);
    world.grant(1, 2);
    assert_eq!((world.assigned(0), world.assigned(1)), (vec![1, 2], vec![3, 4]));
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2], "builder 1 may depend on the events of builder 0");
}

#[test]
fn the_youngest_event_makes_way_where_the_oldest_of_all_waits_for_a_builder() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(6));
    world.grant(0, 3);
    world.grant(1, 3);
    assert_eq!((world.assigned(0), world.assigned(1)), (vec![1, 2, 3], vec![4, 5, 6]));
    let gives_way = |world: &mut World, builder| {
        world.said_to(NodeId::builder(builder)).contains(&Body::Command(Command::GiveWay))
    };
    // Event 2 waits and is not the oldest: 1 will end and make room.
    world.finish(0, 2, 1, Outcome::GivenBack, None);
    assert!(!gives_way(&mut world, 0) && !gives_way(&mut world, 1));
    world.finish(0, 1, 1, Outcome::GivenBack, None);
    assert!(!gives_way(&mut world, 0) && gives_way(&mut world, 1), "builder 1 has the youngest");
    world.drain();
    assert!(!gives_way(&mut world, 1), "the request is sent once");
    world.finish(1, 6, 1, Outcome::GivenBack, None);
    world.grant(1, 1);
    assert_eq!(world.assigned(1), [1], "the oldest first");
    assert!(!gives_way(&mut world, 0) && !gives_way(&mut world, 1));
}

#[test]
fn an_event_that_makes_way_again_and_again_loses_no_chance() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
    world.grant(0, 1);
    assert_eq!(world.assigned(0), [1]);
    for attempt in 1..50 {
        world.finish(0, 1, attempt, Outcome::GivenBack, None);
        world.grant(0, 1);
        assert_eq!(world.assigned(0), [1]);
    }
    world.finish(0, 1, 50, Outcome::Stored, None);
    assert_eq!(world.manager.ledger().stored, 1);
}

#[test]
fn events_that_are_announced_late_go_first() {
    let mut world = World::new(Triggers::Announced, |_| {});
    let announce = |event| Announcement { event: EventId(event), time: START };
    world.say(NodeId::readout(0), Body::Announce([5, 9, 10].map(announce).to_vec()));
    world.say(NodeId::readout(1), Body::Announce([7, 4].map(announce).to_vec()));
    world.grant(0, 4);
    assert_eq!(world.assigned(0), [4, 5, 7, 9]);
}

#[test]
fn events_that_builders_give_back_take_the_place_of_new_triggers() {
    let mut world = World::new(Triggers::Driven, |config| config.queue_events = 2);
    let trigger = |world: &mut World| world.manager.handle_trigger(world.now, world.now, TriggerType(0));
    world.grant(0, 2);
    assert!(trigger(&mut world).is_ok() && trigger(&mut world).is_ok());
    world.drain();
    assert_eq!(world.assigned(0), [1, 2]);
    let memory = Some(DropReason::BuilderOutOfMemory);
    world.finish(0, 1, 1, Outcome::GivenBack, memory);
    world.finish(0, 2, 1, Outcome::GivenBack, memory);
    assert_eq!(trigger(&mut world), Err(Veto::Busy(DeadTimeCause::BuilderCredit)));
    world.grant(1, 1);
    assert!(trigger(&mut world).is_ok());
}

#[test]
fn a_readout_unit_is_told_to_close_last_of_all() {
    let mut world = World::new(Triggers::Free, |config| {
        (config.max_events, config.batch_time) = (Some(300), Nanos::ZERO);
    });
    let unit = NodeId::readout(0);
    world.acknowledged = u64::MAX;
    for event in 1..=300 {
        world.grant(0, 1);
        world.finish(0, event, 1, Outcome::Stored, None);
    }
    // Only the builder has sent and acknowledged messages: the channel to the readout unit is full.
    let said = world.said_to(unit);
    assert!(!said.contains(&Body::Command(Command::Close)));
    let released = |said: &[Body<()>]| said.iter().filter(|body| matches!(body, Body::Release(_))).count();
    assert_eq!(released(&said), crate::channel::WINDOW - 1, "and one message to start");
    world.acknowledged = crate::channel::WINDOW as u64;
    world.say(unit, Body::ReadoutStatus(ReadoutStatus::default()));
    let said = world.said_to(unit);
    assert!(released(&said) > 0, "{said:?}");
    assert_eq!(said.last(), Some(&Body::Command(Command::Close)));
}

#[test]
fn a_node_that_was_never_heard_of_is_told_nothing() {
    let mut world = World::empty(Triggers::Free, |config| config.max_events = Some(1));
    world.say(NodeId::readout(0), Body::ReadoutStatus(ReadoutStatus::default()));
    world.now = Timestamp(10_000_000_000);
    world.grant(0, 1);
    world.finish(0, 1, 1, Outcome::Stored, None);
    assert!(world.said_to(NodeId::readout(0)).iter().any(|body| matches!(body, Body::Release(_))));
    assert_eq!(world.said_to(NodeId::readout(1)), []);
    // When it connects at last, it receives all releases and then the close command.
    world.say(NodeId::readout(1), Body::ReadoutStatus(ReadoutStatus::default()));
    let said = world.said_to(NodeId::readout(1));
    assert!(matches!(said[..], [Body::Release(_), Body::Command(Command::Close)]), "{said:?}");
}

#[test]
fn a_builder_that_has_reported_is_not_lost_while_others_are_awaited() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
    world.grant(0, 1);
    world.finish(0, 1, 1, Outcome::Stored, None);
    for node in [NodeId::readout(0), NodeId::builder(0), NodeId::builder(1)] {
        world.say(node, Body::Report(vec![]));
    }
    world.now = Timestamp(1_000_000_000);
    world.manager.handle_timeout(world.now);
    world.drain();
    let events = world.events();
    assert!(events.contains(&ManagerEvent::Closed));
    assert!(!events.iter().any(|event| matches!(event, ManagerEvent::BuilderLost { .. })), "{events:?}");
}

#[test]
fn who_comes_after_the_end_is_told_to_close() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
    world.grant(0, 1);
    world.finish(0, 1, 1, Outcome::Stored, None);
    for node in [NodeId::readout(0), NodeId::readout(1), NodeId::builder(0), NodeId::builder(1)] {
        world.say(node, Body::Report(vec![]));
    }
    assert!(world.manager.is_finished());
    world.sessions.insert(NodeId::builder(1), (2, 0));
    let _ = world.said_to(NodeId::builder(1));
    world.grant(1, 1);
    assert_eq!(world.said_to(NodeId::builder(1)), [Body::Command(Command::Close)]);
}

#[test]
fn the_time_to_finish_begins_anew_with_every_event_that_ends() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(3));
    world.grant(0, 3);
    assert_eq!(world.assigned(0), [1, 2, 3]);
    for event in 1..=2 {
        world.now += Nanos::from_secs(9);
        world.finish(0, event, 1, Outcome::Stored, None);
        assert_eq!(world.manager.ledger().in_flight, 3 - event);
    }
    world.now += Nanos::from_secs(10);
    world.manager.handle_timeout(world.now);
    world.drain();
    assert_eq!(world.manager.ledger().dropped, BTreeMap::from([(DropReason::Stopped, 1)]));
}

#[test]
fn a_readout_unit_that_comes_back_is_told_to_join() {
    let mut world = World::new(Triggers::Free, |_| {});
    let unit = NodeId::readout(0);
    assert!(world.said_to(unit).contains(&Body::Command(Command::Start)));
    world.sessions.insert(unit, (2, 0));
    world.say(unit, Body::ReadoutStatus(ReadoutStatus { sources: 2, ..ReadoutStatus::default() }));
    assert!(world.said_to(unit).iter().any(|body| matches!(body, Body::Command(Command::Join { .. }))));
    assert!(world.events().contains(&ManagerEvent::ReadoutRestarted { readout: unit }));
}

#[test]
fn the_first_stop_of_a_run_that_is_ending_cuts_nothing_short() {
    let mut world = World::new(Triggers::Free, |config| {
        (config.max_events, config.max_attempts) = (Some(2), 1);
    });
    world.grant(0, 2);
    assert_eq!(world.assigned(0), [1, 2]);
    assert!(!world.manager.is_running(), "it has all its events");
    world.manager.handle_stop(world.now);
    world.drain();
    world.finish(0, 1, 1, Outcome::Stored, None);
    assert_eq!((world.manager.ledger().stored, world.manager.ledger().in_flight), (1, 1));
    world.manager.handle_stop(world.now);
    world.drain();
    let dropped = BTreeMap::from([(DropReason::Stopped, 1)]);
    assert_eq!(world.manager.ledger().dropped, dropped, "not because its builder is lost");
}

fn record(number: u64) -> Arc<RunRecord> {
    let (source, kind, time) = (SourceId(4), RecordKind::Begin, Timestamp(7));
    RunRecord { number, source, kind, time, name: "config".into(), content: "gain = 3".into() }.into()
}

#[test]
fn a_record_is_answered_and_goes_to_every_writer_and_again_to_its_next_session() {
    let mut world = World::new(Triggers::Free, |_| {});
    let (_, _) = (world.said_to(NodeId::builder(0)), world.said_to(NodeId::readout(1)));
    world.say(NodeId::readout(1), Body::Record(record(1)));
    world.say(NodeId::readout(1), Body::Record(record(1)));
    let kept = Body::Recorded(Recorded { number: 1, source: SourceId(4), answer: RecordAnswer::Kept });
    assert_eq!(world.said_to(NodeId::readout(1)), [kept.clone(), kept], "a repeat is answered again");
    assert_eq!(world.said_to(NodeId::builder(0)), [Body::Record(record(1))], "once");
    world.sessions.insert(NodeId::builder(0), (2, 0));
    world.grant(0, 0);
    assert_eq!(world.said_to(NodeId::builder(0)), [Body::Command(Command::Start), Body::Record(record(1))]);
}

#[test]
fn writers_are_closed_after_the_last_record_of_the_readout_units() {
    let mut world = World::new(Triggers::Free, |config| config.max_events = Some(1));
    world.grant(0, 1);
    world.finish(0, 1, 1, Outcome::Stored, None);
    let closed = |said: Vec<Body<()>>| said.contains(&Body::Command(Command::Close));
    assert!(closed(world.said_to(NodeId::readout(0))) && closed(world.said_to(NodeId::readout(1))));
    world.say(NodeId::readout(0), Body::Report(vec![]));
    assert!(!closed(world.said_to(NodeId::builder(1))), "a record may follow");
    world.say(NodeId::readout(1), Body::Record(record(2)));
    world.say(NodeId::readout(1), Body::Report(vec![]));
    let said = world.said_to(NodeId::builder(1));
    assert_eq!(said, [Body::Record(record(2)), Body::Command(Command::Close)]);
    let _ = world.said_to(NodeId::readout(1));
    for (number, answer) in [(2, RecordAnswer::Kept), (3, RecordAnswer::TooLate)] {
        world.say(NodeId::readout(1), Body::Record(record(number)));
        let answer = Recorded { number, source: SourceId(4), answer };
        assert_eq!(world.said_to(NodeId::readout(1)), [Body::Recorded(answer)], "a repeat is not late");
    }
}

/// Returns the status of a readout unit whose sources have not ended.
fn present() -> ReadoutStatus {
    ReadoutStatus { sources: 2, ..ReadoutStatus::default() }
}

/// An event manager and all its messages.
struct World {
    manager: EventManager<()>,
    now: Timestamp,
    said: Vec<(NodeId, Body<()>)>,
    events: Vec<ManagerEvent>,
    /// Session and last sequence number of each peer.
    sessions: BTreeMap<NodeId, (u64, u64)>,
    /// Sequence number that all peers acknowledge.
    acknowledged: u64,
}

impl World {
    /// Two readout units and two builders, all present.
    fn new(triggers: Triggers, adjust: impl FnOnce(&mut ManagerConfig)) -> Self {
        let mut world = Self::empty(triggers, adjust);
        for index in 0..2 {
            let status = ReadoutStatus { sources: 2, ..ReadoutStatus::default() };
            world.say(NodeId::readout(index), Body::ReadoutStatus(status));
            world.grant(index, 0);
        }
        assert!(world.manager.is_running());
        world
    }

    fn empty(triggers: Triggers, adjust: impl FnOnce(&mut ManagerConfig)) -> Self {
        let mut config = ManagerConfig {
            readouts: 2,
            outputs: 0,
            builders: 2,
            readout_of: BTreeMap::new(),
            triggers,
            first_event: EventId(1),
            max_events: None,
            trigger_type: TriggerType(0),
            trigger_mix: TriggerMix::default(),
            queue_events: 100,
            batch_events: 32,
            max_attempts: 2,
            expected_event: None,
            requirements: Vec::new(),
            start_timeout: Nanos::from_secs(10),
            stop_timeout: Nanos::from_secs(10),
            desertion_timeout: Nanos::from_secs(5),
            patience: Patience { absence: Nanos::from_secs(1), silence: Nanos::from_secs(1) },
            heartbeat: Nanos::from_millis(100),
            batch_time: Nanos::from_millis(1),
            shaping: Shaping::Pull,
            channel: ChannelTimes { retransmit: Nanos::from_secs(100), acknowledge: Nanos::from_millis(1) },
            shifts: None,
        };
        adjust(&mut config);
        let me = Identity { node: NodeId::MANAGER, run: RunNumber(1), session: SessionId(1) };
        let manager = EventManager::new(me, config, START);
        let sessions = BTreeMap::new();
        Self { manager, now: START, said: vec![], events: vec![], sessions, acknowledged: 0 }
    }

    fn say(&mut self, from: NodeId, body: Body<()>) {
        let (session, sequence) = self.sessions.entry(from).or_insert((1, 0));
        *sequence += 1;
        let header = Header {
            run: RunNumber(1),
            sender: from,
            session: SessionId(*session),
            sequence: *sequence,
            acknowledged: self.acknowledged,
            acknowledged_session: SessionId(1),
            term: sheaf_wire::Term(0),
        };
        self.manager.handle_input(self.now, Message { header, body });
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.manager.poll_transmit(self.now) {
            self.said.push((transmit.to, transmit.message.body));
        }
        self.events.extend(std::iter::from_fn(|| self.manager.poll_event()));
    }

    fn grant(&mut self, builder: u16, slots: u32) {
        let bytes = ByteCount(u64::from(slots) * 1_000);
        self.say(NodeId::builder(builder), Body::Request(Request { slots, bytes, ..Request::default() }));
    }

    fn finish(
        &mut self,
        builder: u16,
        event: u64,
        attempt: u16,
        outcome: Outcome,
        reason: Option<DropReason>,
    ) {
        let finished = Finished {
            event: EventId(event),
            attempt,
            outcome,
            reason,
            bytes: ByteCount(500),
            fragments: 4,
            missing: 0,
            incomplete: false,
        };
        let request = Request { finished: vec![finished], ..Request::default() };
        self.say(NodeId::builder(builder), Body::Request(request));
    }

    /// Takes the messages sent to a node since the last call.
    fn said_to(&mut self, node: NodeId) -> Vec<Body<()>> {
        let (to_node, rest) = std::mem::take(&mut self.said).into_iter().partition(|(to, _)| *to == node);
        self.said = rest;
        let to_node: Vec<_> = to_node;
        to_node.into_iter().map(|(_, body)| body).collect()
    }

    fn assigned(&mut self, builder: u16) -> Vec<u64> {
        let events = |body| match body {
            Body::Assign(list) => list.into_iter().map(|assignment| assignment.event.0).collect(),
            _ => vec![],
        };
        self.said_to(NodeId::builder(builder)).into_iter().flat_map(events).collect()
    }

    fn events(&mut self) -> Vec<ManagerEvent> {
        std::mem::take(&mut self.events)
    }
}
