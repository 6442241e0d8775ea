//! Pauses of a run.

use super::*;
use proptest::prelude::*;

const PAUSE: Body<()> = Body::Command(Command::Pause);
const RESUME: Body<()> = Body::Command(Command::Resume);

impl World {
    fn trigger(&mut self) -> Result<EventId, Veto> {
        self.manager.handle_trigger(self.now, self.now, TriggerType(0))
    }

    fn pause(&mut self, paused: bool) {
        self.manager.handle_pause(self.now, paused);
        self.drain();
    }

    /// Returns the commands sent to a readout unit since the last call.
    fn commands_to(&mut self, readout: u16) -> Vec<Body<()>> {
        let mut said = self.said_to(NodeId::readout(readout));
        said.retain(|body| matches!(body, Body::Command(_)));
        said
    }
}

#[test]
fn a_paused_run_vetoes_triggers_and_builds_those_before() {
    let mut world = World::new(Triggers::Driven, |_| {});
    world.grant(0, 10);
    world.now = Timestamp(100);
    assert!(world.trigger().is_ok());
    world.pause(true);
    assert!(world.manager.is_paused() && world.manager.is_running());
    world.now = Timestamp(250);
    assert_eq!(world.trigger(), Err(Veto::Busy(DeadTimeCause::Paused)));
    assert_eq!(world.assigned(0), [1]);
    world.finish(0, 1, 1, Outcome::Stored, None);
    world.now = Timestamp(400);
    world.pause(false);
    assert_eq!(world.trigger(), Ok(EventId(2)));
    world.now = Timestamp(1_000);
    let dead_time = world.manager.dead_time(world.now);
    assert_eq!(dead_time.time, BTreeMap::from([(DeadTimeCause::Paused, Nanos(300))]));
    assert_eq!(dead_time.vetoed, BTreeMap::from([(DeadTimeCause::Paused, 1)]));
    assert_eq!((dead_time.live, dead_time.run()), (Nanos(700), Nanos(1_000)));
    assert!(dead_time.culprits.is_empty() && world.manager.ledger().is_balanced());
    assert_eq!(world.manager.ledger().stored, 1);
}

/// The cause of a full queue comes back when the run is resumed.
#[test]
fn a_pause_covers_every_other_cause() {
    let mut world = World::new(Triggers::Driven, |config| config.queue_events = 1);
    assert!(world.trigger().is_ok());
    world.drain();
    for (at, paused) in [(100, true), (150, false), (190, true)] {
        world.now = Timestamp(at);
        world.pause(paused);
    }
    world.now = Timestamp(200);
    let time = [(DeadTimeCause::BuilderCredit, Nanos(140)), (DeadTimeCause::Paused, Nanos(60))];
    assert_eq!(world.manager.dead_time(world.now).time, BTreeMap::from(time));
}

#[test]
fn free_triggers_stop_during_a_pause() {
    let mut world = World::new(Triggers::Free, |_| {});
    world.pause(true);
    world.grant(0, 3);
    assert_eq!(world.assigned(0), []);
    world.now = Timestamp(500);
    world.pause(false);
    assert_eq!(world.assigned(0), [1, 2, 3]);
    let dead_time = world.manager.dead_time(world.now);
    assert_eq!(dead_time.time, BTreeMap::from([(DeadTimeCause::Paused, Nanos(500))]));
}

#[test]
fn a_run_whose_data_announce_its_triggers_cannot_be_paused() {
    let mut world = World::new(Triggers::Announced, |_| {});
    world.grant(0, 1);
    world.pause(true);
    assert!(!world.manager.can_pause() && !world.manager.is_paused());
    let announcement = Announcement { event: EventId(7), time: START };
    world.say(NodeId::readout(0), Body::Announce(vec![announcement]));
    assert_eq!(world.assigned(0), [7]);
    assert!(!world.commands_to(0).contains(&PAUSE));
}

#[test]
fn a_pause_has_no_effect_before_the_start_and_after_the_end() {
    let mut world = World::empty(Triggers::Driven, |_| {});
    world.pause(true);
    for index in 0..2 {
        world.say(NodeId::readout(index), Body::ReadoutStatus(present()));
        world.grant(index, 1);
    }
    assert!(world.manager.is_running() && !world.manager.is_paused());
    assert!(world.trigger().is_ok());
    world.manager.handle_end_of_triggers(world.now, world.now);
    world.pause(true);
    assert!(!world.manager.is_paused());
    world.finish(0, 1, 1, Outcome::Stored, None);
    assert!((0..2).all(|readout| !world.commands_to(readout).contains(&PAUSE)));
}

#[test]
fn a_stop_ends_a_paused_run() {
    let mut world = World::new(Triggers::Driven, |_| {});
    world.grant(0, 1);
    assert!(world.trigger().is_ok());
    world.now = Timestamp(40);
    world.pause(true);
    world.now = Timestamp(100);
    world.manager.handle_stop(world.now);
    world.drain();
    assert!(!world.manager.is_running() && !world.manager.is_paused());
    world.now = Timestamp(200);
    world.finish(0, 1, 1, Outcome::Stored, None);
    let dead_time = world.manager.dead_time(world.now);
    assert_eq!((dead_time.live, dead_time.dead(), dead_time.run()), (Nanos(40), Nanos(60), Nanos(100)));
    assert_eq!(world.commands_to(0), [Command::Start, Command::Pause, Command::Close].map(Body::Command));
}

/// A unit that has lost its state joins first, and then hears of the pause.
#[test]
fn a_readout_unit_that_comes_back_during_a_pause_is_told_of_it() {
    let mut world = World::new(Triggers::Free, |_| {});
    world.pause(true);
    assert_eq!(world.commands_to(0), [Body::Command(Command::Start), PAUSE]);
    world.sessions.insert(NodeId::readout(0), (2, 0));
    world.say(NodeId::readout(0), Body::ReadoutStatus(present()));
    assert_eq!(world.commands_to(0), [Body::Command(Command::Join { floor: EventId(1) }), PAUSE]);
    world.pause(false);
    assert_eq!((world.commands_to(0), world.commands_to(1).pop()), (vec![RESUME], Some(RESUME)));
}

proptest! {
    /// However quickly pauses follow each other, and whenever a unit restarts: the last command of its session says the state, commands
    /// alternate, and their number is bounded while nothing is acknowledged.
    #[test]
    fn each_session_of_a_readout_unit_knows_the_state(
        steps in prop::collection::vec(prop_oneof![8 => any::<bool>().prop_map(Some), 1 => Just(None)], 1..600),
    ) {
        let mut world = World::new(Triggers::Driven, |_| {});
        let (mut knows, mut told, mut session) = (false, 0, 1);
        prop_assert_eq!(world.commands_to(0), [Body::Command(Command::Start)]);
        for step in steps {
            match step {
                Some(paused) => world.pause(paused),
                None => {
                    session += 1;
                    world.sessions.insert(NodeId::readout(0), (session, 0));
                    world.say(NodeId::readout(0), Body::ReadoutStatus(present()));
                    (knows, told) = (false, 1);
                }
            }
            for command in world.commands_to(0) {
                if !matches!(command, Body::Command(Command::Join { .. })) {
                    prop_assert_eq!(command, if knows { RESUME } else { PAUSE });
                    (knows, told) = (!knows, told + 1);
                }
            }
            prop_assert!(told <= crate::channel::WINDOW);
            prop_assert!(knows == world.manager.is_paused() || told >= crate::channel::WINDOW - 1);
        }
    }
}
