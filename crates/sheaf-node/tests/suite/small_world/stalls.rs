//! Nodes that are stalled by a slow disk, or because the whole process was stopped for a while.

use super::world::{EVENTS, World};
use sheaf_node::NodeError;
use sheaf_node::trigger::TriggerRate;
use sheaf_wire::{Nanos, NodeId};
use std::collections::BTreeMap;

/// A run that is suspended with Ctrl-Z continues as if nothing had happened.
#[test]
fn a_process_that_is_stopped_for_a_while_goes_on() {
    let mut world = World::new(|_| {});
    for events in [20, 80, 140] {
        world.run_until(|world| world.disk().events().len() >= events);
        world.pause(Nanos::from_secs(100));
    }
    world.run_to_end();
    assert_eq!(world.errors, []);
    let report = world.report();
    assert_eq!((report.ledger.stored, report.lost_builders, report.incomplete), (EVENTS, 0, 0));
    assert_eq!(world.disk().events(), (0..EVENTS).collect::<Vec<_>>());
}

/// A write takes a builder longer than the timeout of events: fragments that arrived meanwhile are not considered missing.
#[test]
fn a_builder_that_is_held_up_for_a_while_marks_nothing_incomplete() {
    let mut world = World::new(|_| {});
    world.run_until(|world| world.disk().events().len() >= 50);
    for _ in 0..1_900 {
        world.step_without(Some(NodeId::builder(0)));
    }
    world.run_to_end();
    assert_eq!(world.errors, []);
    let report = world.report();
    assert_eq!((report.ledger.stored, report.lost_builders, report.incomplete), (EVENTS, 0, 0));
}

/// A builder that is stalled for longer is given up. It begins a new session, and every event counts exactly once in both together.
#[test]
fn a_builder_that_was_given_up_begins_a_new_session() {
    let mut world = World::new(|_| {});
    world.run_until(|world| world.disk().events().len() >= 50);
    for _ in 0..3_000 {
        world.step_without(Some(NodeId::builder(0)));
    }
    assert_eq!(world.gauges.snapshot().lost_builders, 1);
    world.run_to_end();
    assert_eq!(world.errors, []);
    let report = world.report();
    assert_eq!((report.ledger.stored, report.lost_builders), (EVENTS, 1));
    assert_eq!(report.ledger.dropped, BTreeMap::new());
    let committed: Vec<_> = report.committed.into_values().collect();
    assert_eq!(committed.len(), 2);
    let mut events = world.disk().committed_events(&committed);
    events.sort_unstable();
    assert_eq!(events, (0..EVENTS).collect::<Vec<_>>());
}

/// A node that was stalled itself does not give up the event manager.
#[test]
fn a_readout_unit_that_is_held_up_does_not_give_up() {
    let mut world = World::new(|setup| setup.events = None);
    world.run_until(|world| world.disk().events().len() >= 50);
    for _ in 0..2_500 {
        world.step_without(Some(NodeId::readout(0)));
    }
    world.interrupt();
    world.run_to_end();
    let blames = |error: &NodeError| matches!(error, NodeError::ManagerSilent { .. });
    assert!(!world.errors.iter().any(blames), "{:?}", world.errors);
}

/// While a run ends, the event manager is stopped for longer than the stop timeout. Accepted events that wait for a builder unit are
/// kept.
#[test]
fn an_event_manager_that_is_held_up_while_a_run_ends_cuts_nothing() {
    let mut world = World::new(|setup| {
        setup.rate = Some(TriggerRate::Fixed { rate_hz: 100_000.0 });
        setup.events = None;
    });
    world.run_until(|world| world.disk().events().len() >= 50);
    world.interrupt();
    world.step();
    for _ in 0..1_500 {
        world.step_without(Some(NodeId::MANAGER));
    }
    world.run_to_end();
    assert_eq!(world.errors, []);
    let ledger = world.report().ledger;
    assert_eq!((ledger.dropped, ledger.stored), (BTreeMap::new(), ledger.received));
}

/// An idle event manager sends heartbeats, also to nodes that only wait: a run whose events are further apart than any timeout ends
/// in an orderly way.
#[test]
fn an_output_node_outlives_every_silence_of_the_run() {
    let mut world = World::new(|setup| {
        setup.has_output = true;
        setup.rate = Some(TriggerRate::Fixed { rate_hz: 0.1 });
        setup.events = Some(5);
    });
    world.run_to_end();
    assert_eq!(world.errors, []);
    assert_eq!((world.report().ledger.stored, world.disk().events()), (5, vec![0, 1, 2, 3, 4]));
}
