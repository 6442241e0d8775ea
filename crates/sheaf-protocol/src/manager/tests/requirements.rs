//! Runs that have fewer nodes than they require.

use super::*;

const READOUTS: [NodeId; 2] = [NodeId::readout(0), NodeId::readout(1)];
const BUILDERS: [NodeId; 2] = [NodeId::builder(0), NodeId::builder(1)];
const ALL: [NodeId; 4] = [READOUTS[0], READOUTS[1], BUILDERS[0], BUILDERS[1]];
const WITHOUT_ONE: [NodeId; 3] = [READOUTS[0], BUILDERS[0], BUILDERS[1]];

/// Both readout units are required.
fn requires(on_loss: LossAction) -> impl FnOnce(&mut ManagerConfig) {
    move |config| {
        config.requirements =
            vec![Requirement { name: "both".into(), nodes: READOUTS.into(), least: 2, on_loss }];
    }
}

fn unmet() -> ManagerEvent {
    ManagerEvent::RequirementUnmet { requirement: 0, missing: vec![READOUTS[1]] }
}

fn met() -> ManagerEvent {
    ManagerEvent::RequirementMet { requirement: 0 }
}

impl World {
    fn lose_one(&mut self) {
        self.link(READOUTS[1], LinkStatus::Down);
        self.seconds(2, &WITHOUT_ONE);
    }

    fn return_it(&mut self) {
        self.sessions.insert(READOUTS[1], (2, 0));
        self.seconds(1, &ALL);
    }

    fn news(&mut self) -> Vec<ManagerEvent> {
        let is_news = |event: &ManagerEvent| {
            matches!(event, ManagerEvent::RequirementUnmet { .. } | ManagerEvent::RequirementMet { .. })
        };
        self.events().into_iter().filter(is_news).collect()
    }
}

#[test]
fn a_run_does_not_begin_without_the_nodes_that_it_requires() {
    let mut world = World::empty(Triggers::Free, requires(LossAction::Continue));
    world.say(READOUTS[0], Body::ReadoutStatus(present()));
    world.grant(0, 0);
    world.grant(1, 0);
    world.seconds(12, &WITHOUT_ONE);
    assert!(!world.manager.is_running());
    let failed = ManagerEvent::StartFailed { absent: vec![READOUTS[1]], requirement: Some(0) };
    assert!(world.events().contains(&failed));
}

/// A node that has gone again while others are awaited is awaited, too.
#[test]
fn a_run_waits_for_a_required_node_that_was_there_before() {
    let mut world = World::empty(Triggers::Free, requires(LossAction::Continue));
    READOUTS.iter().for_each(|node| world.say(*node, Body::ReadoutStatus(present())));
    world.grant(0, 0);
    world.link(READOUTS[1], LinkStatus::Down);
    world.seconds(2, &[READOUTS[0], BUILDERS[0]]);
    world.grant(1, 0);
    assert!(!world.manager.is_running());
    world.return_it();
    assert!(world.manager.is_running() && world.manager.requirements.unmet().next().is_none());
}

#[test]
fn a_run_goes_on_and_reports_what_it_lacks() {
    let mut world = World::new(Triggers::Driven, requires(LossAction::Continue));
    world.lose_one();
    assert_eq!(world.news(), [unmet()]);
    assert!(world.manager.is_running() && !world.manager.is_paused());
    assert_eq!(world.manager.requirements.unmet().collect::<Vec<_>>(), [0]);
    world.return_it();
    assert_eq!(world.news(), [met()]);
}

#[test]
fn a_run_is_paused_until_enough_nodes_are_back() {
    let mut world = World::new(Triggers::Driven, requires(LossAction::Pause));
    world.lose_one();
    assert!(world.manager.is_paused() && !world.manager.is_paused_by_operator());
    let reason = BusyReason { cause: BusyCause::TooFewNodes, culprit: Some(READOUTS[1]) };
    assert_eq!(world.manager.pause_reason(), Some(reason));
    let veto = world.manager.handle_trigger(world.now, world.now, TriggerType(0));
    assert_eq!(veto, Err(Veto::Busy(DeadTimeCause::TooFewNodes)));
    let lost = world.manager.dead_time(world.now);
    world.seconds(7, &WITHOUT_ONE);
    world.return_it();
    assert!(!world.manager.is_paused());
    assert_eq!(world.news(), [unmet(), met()]);
    let cause = DeadTimeCause::TooFewNodes;
    let dead_time = world.manager.dead_time(world.now);
    assert!(dead_time.time[&cause] >= lost.time[&cause] + Nanos::from_secs(7));
    assert_eq!(dead_time.culprits[&(cause, READOUTS[1])], dead_time.time[&cause]);
    assert!(dead_time.is_balanced());
    assert!(world.manager.handle_trigger(world.now, world.now, TriggerType(0)).is_ok());
}

/// Triggers are taken when the operator has resumed the run and the nodes are back, in either order.
#[test]
fn a_pause_of_the_operator_and_one_for_lost_nodes_are_independent() {
    for operator_first in [false, true] {
        let mut world = World::new(Triggers::Driven, requires(LossAction::Pause));
        world.manager.handle_pause(world.now, true);
        world.lose_one();
        assert_eq!(world.manager.gate(), Some(DeadTimeCause::Paused));
        if operator_first {
            world.manager.handle_pause(world.now, false);
            assert_eq!(world.manager.gate(), Some(DeadTimeCause::TooFewNodes));
            world.return_it();
        } else {
            world.return_it();
            assert_eq!(world.manager.gate(), Some(DeadTimeCause::Paused));
            world.manager.handle_pause(world.now, false);
        }
        assert!(!world.manager.is_paused() && world.manager.gate().is_none());
    }
}

/// Readout units would stop at different events.
#[test]
fn a_run_whose_data_announce_the_triggers_is_not_paused() {
    let mut world = World::new(Triggers::Announced, requires(LossAction::Pause));
    world.lose_one();
    assert!(world.manager.is_running() && !world.manager.is_paused());
    assert_eq!(world.news(), [unmet()]);
}

#[test]
fn a_run_ends_and_builds_the_events_in_flight() {
    let mut world = World::new(Triggers::Driven, requires(LossAction::Stop));
    world.grant(0, 4);
    assert!(world.manager.handle_trigger(world.now, world.now, TriggerType(0)).is_ok());
    world.drain();
    assert_eq!(world.assigned(0), [1]);
    world.lose_one();
    assert_eq!(world.news(), [unmet()]);
    assert!(!world.manager.is_running());
    world.finish(0, 1, 1, Outcome::Stored, None);
    let ledger = world.manager.ledger();
    assert_eq!((ledger.stored, ledger.in_flight), (1, 0));
}

#[test]
fn a_node_that_restarts_in_time_was_never_missing() {
    let mut world = World::new(Triggers::Driven, requires(LossAction::Stop));
    world.link(READOUTS[1], LinkStatus::Down);
    world.sessions.insert(READOUTS[1], (2, 0));
    world.seconds(5, &ALL);
    assert!(world.manager.is_running());
    assert_eq!(world.news(), []);
}

#[test]
fn the_last_nodes_to_go_are_named_together() {
    let mut world = World::new(Triggers::Driven, |config| {
        config.requirements = vec![Requirement {
            name: "most".into(),
            nodes: ALL.into(),
            least: 3,
            on_loss: LossAction::Pause,
        }];
    });
    world.link(READOUTS[1], LinkStatus::Down);
    world.seconds(2, &WITHOUT_ONE);
    assert_eq!(world.news(), [], "three are left");
    world.link(BUILDERS[0], LinkStatus::Down);
    world.seconds(2, &[READOUTS[0], BUILDERS[1]]);
    let missing = vec![READOUTS[1], BUILDERS[0]];
    assert_eq!(world.news(), [ManagerEvent::RequirementUnmet { requirement: 0, missing }]);
    assert_eq!(world.manager.pause_reason().unwrap().culprit, None, "no single node is the reason");
}
