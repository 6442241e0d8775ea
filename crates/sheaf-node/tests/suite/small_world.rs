//! The three drivers together, over the memory transport, in one thread and with a clock that only the test advances: one
//! readout unit, one builder unit, one event manager.

mod controls;
mod outbox;
mod output;
mod stalls;
mod world;

use bytes::Bytes;
use sheaf_node::NodeError;
use sheaf_node::content::ContentCheck;
use sheaf_node::filter::{Filter, FilterFailure, Prescale};
use sheaf_protocol::ledger::Ledger;
use sheaf_wire::{DropReason, Event, Nanos, NodeId, Verdict};
use std::collections::BTreeMap;
use world::{EVENTS, LEFT_OUT, MANAGER_PATIENCE, World};

#[test]
fn a_run_ends_by_itself_with_every_event_stored_in_order() {
    let mut world = World::new(|_| {});
    world.run_to_end();
    assert_eq!(world.errors, []);
    assert_eq!(world.disk().events(), (0..EVENTS).collect::<Vec<_>>());
    let report = world.report();
    let expected = Ledger { received: EVENTS, stored: EVENTS, ..Ledger::default() };
    assert_eq!((report.ledger, report.built, report.interrupted), (expected.clone(), EVENTS, false));
    assert_eq!(report.nodes[&NodeId::readout(0)].fragments, expected, "one source, one fragment an event");
    assert_eq!(report.committed.into_values().collect::<Vec<_>>(), [EVENTS]);
}

#[test]
fn rejected_events_keep_their_place_among_stored_ones() {
    // Stored events become durable late, and the decisions after them wait in order.
    let mut world = World::new(|setup| {
        setup.filter = Box::new(Prescale { factor: 3 });
        setup.durable_every = 5;
    });
    world.run_to_end();
    assert_eq!(world.errors, []);
    let wanted = (0..EVENTS).step_by(3);
    assert_eq!(world.disk().events(), wanted.clone().collect::<Vec<_>>());
    let stored = wanted.count() as u64;
    let ledger = world.report().ledger;
    assert_eq!((ledger.stored, ledger.rejected), (stored, EVENTS - stored));
    assert!(ledger.is_balanced());
}

/// An event is booked as stored only when the output reports that it is as durable as configured.
#[test]
fn an_event_counts_as_stored_when_it_is_durable() {
    let mut world = World::new(|setup| setup.durable_every = 7);
    while world.is_running() {
        world.step();
        assert!(world.gauges.snapshot().ended <= world.disk().durable());
    }
    assert_eq!(world.report().ledger.stored, EVENTS);
}

#[test]
fn an_event_with_wrong_content_is_dropped_by_name() {
    let mut world = World::new(|setup| {
        setup.check = ContentCheck::Pattern;
        setup.damaged = vec![7, 20];
    });
    world.run_to_end();
    assert_eq!(world.errors, []);
    let good: Vec<_> = (0..EVENTS).filter(|event| ![7, 20].contains(event)).collect();
    assert_eq!(world.disk().events(), good);
    let ledger = world.report().ledger;
    assert_eq!(ledger.dropped, BTreeMap::from([(DropReason::ContentMismatch, 2)]));
    assert!(ledger.is_balanced());
    assert_eq!(world.builder_report().bad_events, 2);
}

/// Fails for every fifth event, rejects the next one, and tags the one after that for a stream that omits it.
struct Failing;

impl Filter for Failing {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        match event.id.0 % 5 {
            0 => Err(FilterFailure("the pedestals are missing".to_owned())),
            1 => Ok(Verdict::reject()),
            2 => Ok(Verdict::accept().with_tags(LEFT_OUT)),
            _ => Ok(Verdict::accept()),
        }
    }
}

#[test]
fn an_event_that_the_filter_fails_at_is_stored_and_marked_and_one_that_no_stream_takes_is_rejected() {
    let mut world = World::new(|setup| setup.filter = Box::new(Failing));
    world.run_to_end();
    assert_eq!(world.errors, []);
    let failed: Vec<_> = (0..EVENTS).step_by(5).collect();
    assert_eq!(world.disk().quarantined(), failed);
    assert_eq!(
        world.disk().events(),
        (0..EVENTS).filter(|event| ![1, 2].contains(&(event % 5))).collect::<Vec<_>>()
    );
    assert_eq!(world.builder_report().quarantined, failed.len() as u64);
    let ledger = world.report().ledger;
    assert_eq!(ledger.rejected, (0..EVENTS).filter(|event| [1, 2].contains(&(event % 5))).count() as u64);
    assert!(ledger.is_balanced());
}

#[test]
fn a_rejected_event_does_not_wait_for_the_disk_behind_stored_ones() {
    let mut world = World::new(|setup| {
        setup.filter = Box::new(Failing);
        setup.durable_every = u32::MAX;
    });
    // Event 0 is to be stored, and its disk is slow.
    world.run_until(|world| world.gauges.snapshot().ended >= 8);
    assert_eq!(world.disk().durable(), 0);
    world.disk().durable_every = 1;
    world.run_to_end();
    assert_eq!(world.errors, []);
    assert!(world.report().ledger.is_balanced());
}

#[test]
fn content_is_ignored_without_the_check() {
    let mut world = World::new(|setup| setup.damaged = vec![7]);
    world.run_to_end();
    assert_eq!(world.report().ledger.stored, EVENTS);
    assert_eq!(world.builder_report().bad_events, 0);
}

#[test]
fn an_interrupt_lets_events_in_flight_end() {
    let mut world = World::new(|setup| setup.events = None);
    world.run_until(|world| world.disk().events().len() > 50);
    world.interrupt();
    world.run_to_end();
    assert_eq!(world.errors, []);
    let report = world.report();
    assert!(report.interrupted && report.ledger.stored > 50);
    assert_eq!(report.ledger.dropped, BTreeMap::new());
    assert_eq!(world.disk().events(), (0..report.ledger.stored).collect::<Vec<_>>());
    assert_eq!(report.imbalances(1), [""; 0]);
}

#[test]
fn a_run_of_a_duration_ends_then() {
    let mut world = World::new(|setup| {
        setup.events = None;
        setup.duration = Some(Nanos::from_millis(200));
    });
    world.run_to_end();
    let report = world.report();
    let duration = report.measured_time();
    assert!(duration >= Nanos::from_millis(199) && duration < Nanos::from_millis(300), "{duration}");
    assert_eq!(report.imbalances(1), [""; 0]);
    assert!(!report.interrupted);
}

#[test]
fn nodes_without_an_event_manager_give_up() {
    let mut world = World::new(|_| {});
    world.kill(NodeId::MANAGER);
    world.run_to_end();
    let mut silent: Vec<_> = std::mem::take(&mut world.errors)
        .into_iter()
        .map(|error| match error {
            NodeError::ManagerGone { node, absence } => {
                let limit = MANAGER_PATIENCE.absence;
                assert!(absence >= limit && absence < limit + Nanos::from_millis(100));
                node
            }
            other => panic!("{other}"),
        })
        .collect();
    silent.sort();
    assert_eq!(silent, [NodeId::readout(0), NodeId::builder(0)]);
}

#[test]
fn an_event_manager_without_builders_names_the_absent_nodes() {
    let mut world = World::new(|_| {});
    world.kill(NodeId::builder(0));
    world.run_to_end();
    let absent = vec![NodeId::builder(0)];
    assert_eq!(world.errors, [NodeError::StartFailed { absent, refused: vec![], requirement: None }]);
    assert_eq!(world.report().imbalances(1), [""; 0], "a run that did not begin owes no books");
}

/// The run continues without the readout unit; its fragments and books are lost.
#[test]
fn a_readout_unit_that_dies_leaves_a_gap_in_the_books() {
    let mut world = World::new(|setup| setup.events = None);
    world.run_until(|world| world.disk().events().len() > 20);
    world.kill(NodeId::readout(0));
    world.run_until(|world| world.disk().incomplete() > 0);
    world.interrupt();
    world.run_to_end();
    let report = world.report();
    assert!(report.ledger.is_balanced() && report.ledger.in_flight == 0);
    assert_eq!(report.imbalances(1), ["no books of ru0"]);
    assert_eq!(world.disk().incomplete(), report.incomplete);
}

#[test]
fn the_latency_is_from_trigger_to_end() {
    let mut world = World::new(|_| {});
    world.run_to_end();
    let report = world.report();
    assert_eq!(report.latency.len(), EVENTS);
    assert!(report.latency.min() >= World::STEP.0 && report.latency.max() < 1_000_000_000);
}
