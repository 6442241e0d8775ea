//! The real drivers in a simulated world.

use sheaf_protocol::gathering::Gathering;
use sheaf_swarm::dice::Ratio;
use sheaf_swarm::drivers::{DriverFault, DriverFaultKind, DriverOptions, DriverReport, Family, START, run};
use sheaf_wire::{ByteCount, EventId, Nanos, NodeId};

#[track_caller]
fn good(options: &DriverOptions) -> DriverReport {
    run(options).unwrap_or_else(|failure| panic!("{failure}"))
}

pub(crate) fn fault(after: Nanos, node: NodeId, kind: DriverFaultKind) -> DriverFault {
    DriverFault { at: START + after, node, kind }
}

#[test]
fn where_nothing_goes_wrong_every_event_is_stored_whole() {
    let credit = ByteCount(2_000);
    for gathering in [Gathering::Pull, Gathering::Paced { credit }, Gathering::Push] {
        for outputs in [0, 2] {
            for trigger_period in [None, Some(Nanos::from_micros(300))] {
                let options =
                    DriverOptions { gathering, outputs, trigger_period, ..DriverOptions::default() };
                let report = good(&options);
                assert_eq!((report.accepted, report.stored, report.incomplete), (200, 200, 0));
            }
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    for seed in 0..3 {
        let once = || match run(&DriverOptions::random(Family::Faults, seed)) {
            Ok(report) => format!("{report:?}"),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(once(), once(), "seed {seed}");
    }
}

#[test]
fn a_builder_that_is_killed_takes_nothing_with_it() {
    let kind = DriverFaultKind::Kill { back_after: Nanos::from_secs(1) };
    let options = DriverOptions {
        trigger_period: Some(Nanos::from_millis(20)),
        faults: vec![fault(Nanos::from_secs(2), NodeId::builder(1), kind)],
        ..DriverOptions::default()
    };
    let report = good(&options);
    assert_eq!((report.stored, report.incomplete, report.lost_builders), (200, 0, 1));
}

#[test]
fn a_disk_that_is_full_for_a_while_holds_the_run_up_and_costs_nothing() {
    let kind = DriverFaultKind::DiskFails { lasts: Nanos::from_secs(10) };
    let options = DriverOptions {
        trigger_period: Some(Nanos::from_millis(20)),
        faults: vec![fault(Nanos::from_secs(2), NodeId::builder(1), kind)],
        ..DriverOptions::default()
    };
    let report = good(&options);
    assert_eq!((report.stored, report.incomplete), (200, 0));
    assert!(report.end.since(START) > Nanos::from_secs(4));
}

/// Events that a full disk does not take are no work in progress: the stop timeout ends them.
#[test]
fn the_end_of_a_run_does_not_wait_for_a_disk_that_stays_full() {
    for (outputs, node) in [(0, NodeId::builder(0)), (1, NodeId::output(0))] {
        for is_beside in [false, true] {
            let mut options = DriverOptions { builders: 1, outputs, slots: 512, ..DriverOptions::default() };
            options.trigger_period = Some(Nanos::from_millis(5));
            options.disk.is_beside = is_beside;
            let kind = DriverFaultKind::DiskFails { lasts: Nanos::from_secs(400) };
            options.faults = vec![fault(Nanos::from_millis(500), node, kind)];
            let report = good(&options);
            assert!(report.stored > 0 && report.dropped > 0, "{report:?}");
            assert!(report.end.since(START) < Nanos::from_secs(100), "{report:?}");
        }
    }
}

/// The machine sleeps, and nobody counts the time.
#[test]
fn a_machine_that_sleeps_costs_nothing_at_the_start_in_the_run_or_at_its_end() {
    for outputs in [0, 1] {
        for millis in [0, 100, 1_000, 3_990] {
            let mut options = DriverOptions { outputs, ..DriverOptions::default() };
            options.trigger_period = Some(Nanos::from_millis(20));
            let kind = DriverFaultKind::Suspend { lasts: Nanos::from_secs(100) };
            let after = Nanos::from_micros(1) + Nanos::from_millis(millis);
            options.faults = vec![fault(after, NodeId::MANAGER, kind)];
            let report = good(&options);
            assert_eq!((report.stored, report.incomplete, report.lost_builders), (200, 0, 0), "{millis} ms");
            assert!(report.end.since(START) > Nanos::from_secs(100), "{report:?}");
        }
    }
}

/// Events that wait for the disk have the memory, long before they have the slots.
#[test]
fn where_memory_binds_dead_time_names_the_disk_that_holds_the_run_up() {
    let lasts = Nanos::from_secs(10);
    for kind in [DriverFaultKind::DiskHangs { lasts }, DriverFaultKind::DiskFails { lasts }] {
        for outputs in [0, 1] {
            let mut options =
                DriverOptions { builders: 1, outputs, queue_events: 8, ..DriverOptions::default() };
            options.trigger_period = Some(Nanos::from_millis(5));
            options.memory = ByteCount(3 * options.largest_event().0);
            options.disk.is_beside = true;
            let node = if outputs > 0 { NodeId::output(0) } else { NodeId::builder(0) };
            options.faults = vec![fault(Nanos::from_millis(200), node, kind)];
            let report = good(&options);
            assert!(report.stored == 200 && report.vetoed > 1_000, "{report:?}");
        }
    }
}

/// The filter of a farm judges beside its builder unit, for as long as it takes.
#[test]
fn an_event_that_takes_a_minute_holds_nobody_up_but_its_worker() {
    let mut options = DriverOptions { outputs: 1, ..DriverOptions::default() };
    options.filter.workers = 2;
    options.filter.long = Some((EventId(70), Nanos::from_secs(60)));
    // Triggers go on until long after it.
    options.events = 400;
    options.trigger_period = Some(Nanos::from_millis(200));
    let report = good(&options);
    assert_eq!((report.stored, report.vetoed, report.lost_builders), (400, 0, 0));
}

#[test]
fn workers_that_die_cost_a_verdict_and_no_event() {
    let mut options = DriverOptions { seed: 5, ..DriverOptions::default() };
    options.filter.workers = 2;
    options.filter.dies = Ratio::percent(5);
    options.trigger_period = Some(Nanos::from_millis(20));
    let hopeless = (0..options.events).filter(|event| options.is_beyond_judging(EventId(*event))).count();
    assert!(hopeless > 5, "{hopeless}");
    let report = good(&options);
    assert_eq!((report.accepted, report.stored), (200, 200));
}

/// A part is judged in microseconds, an event in a second: a turn of parts is no measure for one of events.
#[test]
fn a_builder_that_builds_in_steps_is_slow_and_not_deaf() {
    let mut options = DriverOptions { slots: 128, ..DriverOptions::default() };
    options.steps.first = 1;
    options.filter.time = Nanos::from_secs(1);
    let report = good(&options);
    assert_eq!((report.stored, report.lost_builders), (200, 0));
}

/// Builder units that judge when the run is cut hear of it when they look again, and begin no new session.
#[test]
fn a_run_that_is_cut_leaves_nobody_behind() {
    let mut options =
        DriverOptions { trigger_period: Some(Nanos::from_millis(20)), ..DriverOptions::default() };
    options.filter.time = Nanos::from_secs(2);
    let kind = DriverFaultKind::Stop { again: Some(Nanos::from_secs(3)) };
    options.faults = vec![fault(Nanos::from_secs(2), NodeId::MANAGER, kind)];
    let report = good(&options);
    assert!(report.dropped > 0 && report.end.since(START) < Nanos::from_secs(10), "{report:?}");
}

/// An output node that gets a turn every other second makes durable what it has written as often as it is to.
#[test]
fn a_disk_beside_a_starved_thread_keeps_its_pace() {
    let kind = DriverFaultKind::Starve { lasts: Nanos::from_secs(110), gap: Nanos::from_secs(3) };
    let mut options = DriverOptions {
        builders: 1,
        outputs: 1,
        events: 9,
        slots: 4,
        batch_events: 2,
        faults: vec![fault(Nanos::from_millis(2_998), NodeId::output(0), kind)],
        ..DriverOptions::default()
    };
    options.disk.write = Nanos::from_millis(50);
    options.disk.sync_interval = Nanos::from_secs(1);
    let report = good(&options);
    assert_eq!(report.stored, 9);
}

/// Slow nodes, filters, disks and threads, some for half a minute: nothing is lost, incomplete or given up.
/// CI runs 250 seeds by `sheaf-swarm --drivers slowness`.
#[test]
fn slowness_costs_nothing() {
    for seed in 0..6 {
        good(&DriverOptions::random(Family::Slowness, seed));
    }
}
