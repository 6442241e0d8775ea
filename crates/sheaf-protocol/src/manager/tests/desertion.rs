//! A run that no node of a role is left for ends, and not before its time.

use super::*;

const BUILDERS: [NodeId; 2] = [NodeId::builder(0), NodeId::builder(1)];
const READOUTS: [NodeId; 2] = [NodeId::readout(0), NodeId::readout(1)];

/// A node whose link is down is given up after one second, a silent one after five.
fn world() -> World {
    World::new(Triggers::Driven, |config| {
        config.patience = Patience { absence: Nanos::from_secs(1), silence: Nanos::from_secs(5) };
    })
}

impl World {
    pub(super) fn link(&mut self, node: NodeId, link: LinkStatus) {
        self.manager.handle_link(self.now, node, link);
    }

    /// Lets some seconds pass in which these nodes send messages.
    pub(super) fn seconds(&mut self, seconds: u64, speakers: &[NodeId]) {
        for _ in 0..10 * seconds {
            self.now += Nanos::from_millis(100);
            for node in speakers {
                match node.role {
                    Role::Readout => {
                        let status = self.manager.readouts.status(node.index).unwrap_or_default();
                        self.say(*node, Body::ReadoutStatus(status));
                    }
                    _ => self.grant(node.index, 0),
                }
            }
            self.manager.handle_timeout(self.now);
            self.drain();
        }
    }

    fn ends_of(&mut self) -> Vec<ManagerEvent> {
        let is_end = |event: &ManagerEvent| {
            matches!(event, ManagerEvent::Deserted { .. } | ManagerEvent::GivenUp { .. })
        };
        self.events().into_iter().filter(is_end).collect()
    }
}

#[test]
fn a_run_without_builder_units_stays_in_dead_time_and_ends_after_the_time_for_silence() {
    let (role, limit) = (Role::Builder, Nanos::from_secs(5));
    let mut world = world();
    BUILDERS.iter().for_each(|node| world.link(*node, LinkStatus::Down));
    world.seconds(2, &READOUTS);
    assert_eq!(world.ends_of(), [ManagerEvent::Deserted { role, limit }]);
    assert_eq!(world.manager.gate(), None, "the queue has room");
    world.seconds(3, &READOUTS);
    assert!(world.manager.is_running());
    world.seconds(2, &READOUTS);
    assert!(!world.manager.is_running());
    assert_eq!(world.ends_of(), [ManagerEvent::GivenUp { role, limit }]);
}

#[test]
fn a_builder_unit_that_comes_back_keeps_the_run() {
    let mut world = world();
    BUILDERS.iter().for_each(|node| world.link(*node, LinkStatus::Down));
    world.seconds(5, &READOUTS);
    world.sessions.insert(BUILDERS[1], (2, 0));
    let all = [READOUTS[0], READOUTS[1], BUILDERS[1]];
    world.seconds(20, &all);
    assert!(world.manager.is_running());
    assert_eq!(world.ends_of().len(), 1, "it was only warned of");
}

#[test]
fn readout_units_that_are_silent_have_not_ended() {
    let mut world = world();
    READOUTS.iter().for_each(|node| world.link(*node, LinkStatus::Up));
    let ended = ReadoutStatus { sources: 2, sources_ended: 2, ..ReadoutStatus::default() };
    world.say(READOUTS[0], Body::ReadoutStatus(ended));
    world.seconds(60, &[READOUTS[0], BUILDERS[0], BUILDERS[1]]);
    assert!(world.manager.is_running(), "the other one is frozen, and may have data");
    world.link(READOUTS[1], LinkStatus::Down);
    world.seconds(2, &[READOUTS[0], BUILDERS[0], BUILDERS[1]]);
    assert!(!world.manager.is_running(), "it has died, and all sources that are left have ended");
}

/// After a stall of the event manager a message may be handled before the timeouts that are due.
#[test]
fn readout_units_have_not_ended_because_the_event_manager_was_stalled() {
    for stall in [2, 5, 60] {
        let mut world = world();
        let ended = ReadoutStatus { sources: 2, sources_ended: 2, ..ReadoutStatus::default() };
        world.say(READOUTS[0], Body::ReadoutStatus(ended));
        world.seconds(1, &[READOUTS[0], READOUTS[1], BUILDERS[0], BUILDERS[1]]);
        world.now += Nanos::from_secs(stall);
        world.say(READOUTS[0], Body::ReadoutStatus(ended));
        assert!(world.manager.is_running(), "the other one had no time to speak after {stall} s");
        world.seconds(3, &[READOUTS[0], BUILDERS[0], BUILDERS[1]]);
        assert!(world.manager.is_running(), "its silence counts from the end of the stall");
        world.seconds(3, &[READOUTS[0], BUILDERS[0], BUILDERS[1]]);
        assert!(!world.manager.is_running());
    }
}

#[test]
fn a_run_whose_readout_units_died_ends_after_the_time_for_silence() {
    let mut world = world();
    READOUTS.iter().for_each(|node| world.link(*node, LinkStatus::Down));
    world.seconds(5, &BUILDERS);
    assert!(world.manager.is_running(), "they may be started again");
    world.seconds(2, &BUILDERS);
    let (role, limit) = (Role::Readout, Nanos::from_secs(5));
    assert_eq!(
        world.ends_of(),
        [ManagerEvent::Deserted { role, limit }, ManagerEvent::GivenUp { role, limit }]
    );
}
