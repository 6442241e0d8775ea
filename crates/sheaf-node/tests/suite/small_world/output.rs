//! An output that fails temporarily or permanently.

use super::world::{EVENTS, World};
use sheaf_node::NodeError;
use sheaf_node::sink::SinkError;
use sheaf_node::trigger::TriggerRate;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_wire::{DropReason, NodeId};
use std::collections::BTreeMap;

/// Events wait while the output fails. None is lost or written twice, and the order is preserved.
#[test]
fn an_output_that_recovers_loses_nothing() {
    let mut world = World::new(|_| {});
    world.run_until(|world| world.disk().events().len() > 30);
    world.disk().broken = true;
    let before = world.disk().events().len();
    for _ in 0..2_000 {
        world.step();
    }
    assert_eq!(world.disk().events().len(), before);
    assert!(world.disk().failures > 1, "it was tried again");
    world.disk().broken = false;
    world.run_to_end();
    assert_eq!(world.errors, []);
    assert_eq!(world.disk().events(), (0..EVENTS).collect::<Vec<_>>());
    assert_eq!(world.report().ledger.stored, EVENTS);
    assert_eq!(world.report().ledger.dropped, BTreeMap::new());
}

/// The same if the output accepts events but fails to make them durable.
#[test]
fn an_output_that_cannot_make_events_durable_is_tried_again() {
    let mut world = World::new(|setup| setup.durable_every = 4);
    world.run_until(|world| world.disk().durable() > 30);
    world.disk().cannot_sync = true;
    for _ in 0..1_000 {
        world.step();
    }
    let durable = world.disk().durable();
    assert!(world.gauges.snapshot().ended <= durable);
    world.disk().cannot_sync = false;
    world.run_to_end();
    assert_eq!(world.errors, []);
    assert_eq!(world.disk().events(), (0..EVENTS).collect::<Vec<_>>());
    assert_eq!(world.report().ledger.stored, EVENTS);
}

/// A stop always ends the run: events that cannot be written are dropped after the time limit, and the builder reports the reason.
#[test]
fn an_output_that_stays_broken_does_not_keep_the_run_from_ending() {
    let mut world = World::new(|setup| setup.events = None);
    world.run_until(|world| world.disk().events().len() > 30);
    world.disk().broken = true;
    for _ in 0..500 {
        world.step();
    }
    world.interrupt();
    world.run_to_end();
    let error = SinkError::Other("the disk is full".to_owned());
    assert_eq!(world.errors, [NodeError::Output { node: NodeId::builder(0), error }]);
    let report = world.report();
    assert_eq!(report.imbalances(1), [""; 0]);
    let dropped = report.ledger.received - report.ledger.stored;
    assert!(dropped > 0);
    assert_eq!(report.ledger.dropped, BTreeMap::from([(DropReason::Stopped, dropped)]));
    // The events that are booked as stored are the first ones that were written.
    let events = world.disk().events();
    assert!(report.ledger.stored <= events.len() as u64);
    assert_eq!(events, (0..events.len() as u64).collect::<Vec<_>>());
}

/// While events wait for the output, credit runs out and no further event is triggered: memory is bounded.
#[test]
fn a_broken_output_holds_the_triggers_back() {
    let mut world = World::new(|setup| setup.events = None);
    world.disk().broken = true;
    for _ in 0..3_000 {
        world.step();
    }
    let in_flight = world.gauges.snapshot().in_flight;
    assert_eq!(in_flight, u64::from(World::SLOTS), "as many events as the builder has slots");
}

/// Triggers at a fixed rate: if an output fails for a while or is slow, the vetoes are attributed to it, and nothing is lost.
#[test]
fn the_dead_time_of_an_output_that_is_behind_has_its_name() {
    for fails in [true, false] {
        let mut world = World::new(|setup| {
            setup.events = None;
            setup.rate = Some(TriggerRate::Fixed { rate_hz: 2_000.0 });
            // Without failures, it makes the contents of the builder's slots durable every 40 ms: 400 events per second.
            setup.durable_every = if fails { 1 } else { 40 };
        });
        world.run_until(|world| world.disk().events().len() > 30);
        world.disk().broken = fails;
        for _ in 0..2_000 {
            world.step();
        }
        world.disk().broken = false;
        world.disk().durable_every = 1;
        for _ in 0..500 {
            world.step();
        }
        world.interrupt();
        world.run_to_end();
        assert_eq!(world.errors, []);
        let report = world.report();
        let vetoed = report.dead_time.vetoed.get(&DeadTimeCause::Output).copied().unwrap_or_default();
        let all: u64 = report.dead_time.vetoed.values().sum();
        assert!(vetoed > 500 && 10 * vetoed > 9 * all, "fails {fails}: {vetoed} of {all} vetoes");
        assert_eq!(report.ledger.stored, report.ledger.received);
        let events = world.disk().events();
        assert_eq!(events, (0..report.ledger.received).collect::<Vec<_>>());
    }
}
