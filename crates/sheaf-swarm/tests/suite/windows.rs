//! Sources that give windows of their hits on request. Every run is checked as random runs are; the tests assert what is particular to
//! them.

use sheaf_protocol::builder::{IncompletePolicy, WindowExtent};
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::ledger::Counter;
use sheaf_swarm::cluster::Sabotage;
use sheaf_swarm::dice::Ratio;
use sheaf_swarm::options::{FaultKind, StepOptions, TriggerOptions, WindowOptions};
use sheaf_swarm::{Cluster, Options, Report, violation};
use sheaf_wire::{MissingReason, Nanos, NodeId, Timestamp};

fn windows() -> WindowOptions {
    let extent = WindowExtent { before_ps: 1_000_000, after_ps: 1_000_000 };
    WindowOptions {
        delay: Nanos::from_micros(100),
        late: Ratio::NEVER,
        late_time: Nanos::from_millis(200),
        expired: Ratio::NEVER,
        zero: Timestamp::ZERO,
        extent,
        of_type: None,
    }
}

/// Three readout units with two sources each, three builders, and triggers that stand for windows.
fn world(change: impl FnOnce(&mut Options)) -> Cluster {
    let triggers = TriggerOptions::Driven { period: Nanos::from_micros(100), poisson: true };
    let mut options = Options { triggers, windows: Some(windows()), ..Options::default() };
    options.times.stop = Nanos::from_secs(10);
    change(&mut options);
    Cluster::new(options)
}

#[track_caller]
fn good(cluster: &mut Cluster) -> Report {
    cluster.run().unwrap_or_else(|failure| panic!("{failure}"))
}

fn windows_of(options: &mut Options) -> &mut WindowOptions {
    options.windows.as_mut().expect("sources give on request")
}

#[test]
fn every_source_is_asked_once_for_each_event_and_nothing_is_lost() {
    let mut cluster = world(|_| {});
    let report = good(&mut cluster);
    assert_eq!((report.ledger.stored, report.incomplete, report.fragments.stored), (200, 0, 1_200));
    assert_eq!((cluster.watch().windows.asked, cluster.watch().windows.withdrawn), (1_200, 0));
}

#[test]
fn hits_that_come_later_than_every_time_limit_are_awaited() {
    let mut cluster = world(|options| windows_of(options).late = Ratio::percent(10));
    let report = good(&mut cluster);
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
    assert!(report.counters[&Counter::RetriedRequests] > 0);
    assert_eq!(cluster.watch().windows.asked, 1_200, "requests are repeated, and sources are asked once");
}

#[test]
fn requests_that_are_lost_repeated_and_overtaken_are_answered() {
    let mut cluster = world(|options| {
        options.policy = IncompletePolicy::Wait;
        options.network.loss = Ratio::percent(5);
        options.network.duplicate = Ratio::percent(20);
        options.network.reorder = Ratio::percent(20);
        options.faults_until = Timestamp(1_000_000_000);
    });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.dropped_total(), report.incomplete), (0, 0));
}

#[test]
fn hits_that_are_gone_and_windows_off_the_timeline_are_named() {
    let mut cluster = world(|options| {
        windows_of(options).expired = Ratio::percent(10);
        windows_of(options).zero = Timestamp(5_000_000);
    });
    let report = good(&mut cluster);
    assert_eq!(report.ledger.stored, 200);
    let reasons: Vec<_> = report.missing.keys().copied().collect();
    assert_eq!(reasons, [MissingReason::WindowExpired, MissingReason::WindowOffTimeline]);
}

/// Each builder unit has other events, and the units give them in different orders.
#[test]
fn readout_units_with_less_room_than_builders_have_events_do_not_wait_for_each_other() {
    let mut cluster = world(|options| {
        options.system.builders = 5;
        options.bounds.buffer_events = 4;
        windows_of(options).delay = Nanos::from_millis(2);
    });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.stored, report.incomplete, report.held_back), (200, 0, 0));
}

#[test]
fn a_readout_unit_that_dies_is_asked_again() {
    let mut cluster = world(|options| windows_of(options).delay = Nanos::from_millis(1));
    assert!(cluster.run_until(|cluster| cluster.watch().windows.asked >= 600));
    cluster.inject(FaultKind::Crash { node: NodeId::readout(1), back_after: Some(Nanos::from_millis(1)) });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.dropped_total(), report.incomplete), (0, 0), "{:?}", report.missing);
    assert!(cluster.watch().windows.asked > 1_200);
}

#[test]
fn events_of_a_builder_that_dies_are_not_asked_for_again() {
    let mut cluster = world(|options| windows_of(options).delay = Nanos::from_millis(1));
    assert!(cluster.run_until(|cluster| cluster.watch().windows.asked >= 600));
    cluster.inject(FaultKind::Crash { node: NodeId::builder(1), back_after: None });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.stored, report.incomplete, report.faults.given_up), (200, 0, 1));
    assert_eq!(cluster.watch().windows.asked, 1_200);
}

#[test]
fn requests_of_a_run_that_is_stopped_at_once_are_withdrawn() {
    let mut cluster = world(|options| windows_of(options).late = Ratio::percent(100));
    assert!(cluster.run_until(|cluster| cluster.watch().windows.asked >= 60));
    cluster.stop();
    cluster.stop();
    let report = good(&mut cluster);
    assert!(report.ledger.dropped_total() > 0);
    assert!(cluster.watch().windows.withdrawn >= 60);
    assert_eq!(cluster.watch().windows.too_late, 0);
}

#[test]
fn the_first_step_finds_the_windows_of_the_other_sources() {
    let mut cluster = world(|options| {
        options.steps = StepOptions { first: 3, reject: Ratio::percent(40), ..StepOptions::default() };
        options.triggers = TriggerOptions::Announced { reference_only: false, stride: 1 };
        windows_of(options).late = Ratio::percent(5);
        options.gathering = Gathering::Paced { credit: sheaf_wire::ByteCount(20_000) };
    });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.received, report.incomplete), (200, 0));
    let asked = cluster.watch().windows.asked;
    assert_eq!(asked, 3 * report.ledger.stored, "nothing is asked for an event that is rejected");
}

/// The time limit of an event also covers the events before it, whose late hits hold the credit one after the other.
#[test]
fn requests_beyond_the_credit_wait_for_late_hits_before_them() {
    let mut cluster = world(|options| {
        options.gathering = Gathering::Paced { credit: sheaf_wire::ByteCount(1) };
        windows_of(options).late = Ratio::percent(40);
        options.times.event = Nanos(2 * options.patience().0 + 1);
    });
    let report = good(&mut cluster);
    assert_eq!((report.ledger.stored, report.incomplete), (200, 0));
}

#[test]
fn a_window_that_changes_on_the_way_is_noticed() {
    let mut cluster = world(|_| {});
    cluster.sabotage(Sabotage::MoveWindow);
    let failure = cluster.run().expect_err("what is broken on purpose is noticed");
    let text = violation::list(&failure.violations);
    assert!(text.contains("the windows of event"), "{text}");
}
