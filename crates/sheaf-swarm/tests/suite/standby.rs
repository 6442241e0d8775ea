//! The real drivers with two replicas of the event manager.

use crate::drivers::fault;
use sheaf_swarm::drivers::{DriverFaultKind, DriverOptions, DriverReport, Family, run};
use sheaf_wire::{Nanos, NodeId};

/// Runs a world with a standby and these faults, with a trigger each 20 ms for 4 s.
#[track_caller]
fn good(faults: &[(Nanos, NodeId, DriverFaultKind)]) -> DriverReport {
    let options = DriverOptions {
        standby: true,
        readouts: 3,
        trigger_period: Some(Nanos::from_millis(20)),
        faults: faults.iter().map(|(after, node, kind)| fault(*after, *node, *kind)).collect(),
        ..DriverOptions::default()
    };
    run(&options).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn without_faults_the_standby_only_follows() {
    let report = good(&[]);
    assert_eq!((report.stored, report.incomplete, report.take_overs), (200, 0, 0));
}

#[test]
fn the_standby_takes_over_and_no_accepted_event_is_lost() {
    for lasts in [None, Some(Nanos::from_secs(1)), Some(Nanos::from_secs(30))] {
        let kind = lasts.map_or(DriverFaultKind::Crash, |lasts| DriverFaultKind::Freeze { lasts });
        let report = good(&[(Nanos::from_secs(1), NodeId::MANAGER, kind)]);
        assert_eq!(
            (report.stored, report.incomplete, report.take_overs),
            (report.accepted, 0, 1),
            "{kind:?}"
        );
    }
}

/// Each of its late rounds extends the time after which it suspects the event manager, and none restarts it.
#[test]
fn a_standby_on_a_busy_machine_takes_over_from_a_frozen_event_manager() {
    let starve = DriverFaultKind::Starve { lasts: Nanos::from_secs(60), gap: Nanos::from_millis(40) };
    let freeze = DriverFaultKind::Freeze { lasts: Nanos::from_secs(5) };
    let report =
        good(&[(Nanos::ZERO, NodeId::manager(1), starve), (Nanos::from_secs(1), NodeId::MANAGER, freeze)]);
    assert_eq!((report.stored, report.incomplete, report.take_overs), (report.accepted, 0, 1));
}

#[test]
fn an_event_manager_steps_down_when_it_is_asked_to_and_joins_again() {
    let at = |seconds| (Nanos::from_secs(seconds), NodeId::MANAGER, DriverFaultKind::StepDown);
    let report = good(&[at(1), at(2), at(3)]);
    assert_eq!((report.stored, report.incomplete, report.take_overs), (report.accepted, 0, 3));
    assert!(report.joined >= 2, "{report:?}");
}

/// It goes on: there is nobody to take over.
#[test]
fn an_event_manager_without_a_standby_does_not_step_down() {
    let report = good(&[
        (Nanos::from_secs(1), NodeId::manager(1), DriverFaultKind::Crash),
        (Nanos::from_secs(2), NodeId::MANAGER, DriverFaultKind::StepDown),
    ]);
    assert_eq!((report.stored, report.incomplete, report.take_overs), (200, 0, 0));
}

#[test]
fn a_replica_that_reaches_nobody_is_succeeded_or_struck_off() {
    let lasts = Nanos::from_secs(5);
    let nodes = (0..3).map(NodeId::readout).chain((0..2).map(NodeId::builder));
    let nodes: Vec<NodeId> = nodes.collect();
    for replica in [0, 1] {
        let others = nodes.iter().copied().chain([NodeId::manager(1 - replica)]);
        let cut = |peer| {
            let kind = DriverFaultKind::Cut { peer, is_both: true, lasts };
            (Nanos::from_secs(1), NodeId::manager(replica), kind)
        };
        let report = good(&others.map(cut).collect::<Vec<_>>());
        let take_overs = u64::from(replica == 0);
        assert_eq!((report.stored, report.incomplete, report.take_overs), (report.accepted, 0, take_overs));
    }
}

/// A majority of the voters knows the replicas, but the standby does not know that yet.
#[test]
fn an_event_manager_that_is_killed_as_the_run_begins_is_succeeded() {
    let report = good(&[(Nanos::ZERO, NodeId::MANAGER, DriverFaultKind::Crash)]);
    assert_eq!((report.stored, report.take_overs), (report.accepted, 1));
}

/// Worlds that have failed: the active replica was killed as the voters had just noted the replicas; voters had left while the end of the
/// run waited for a slow node; signs of life displaced messages to a slow voter; requests for votes waited behind their own
/// repetitions; a replica span while no voter answered; a replica was started while it was cut off; a hello waited for room; the standby
/// that took over after a suspension had let the time for the last events pass.
#[test]
fn worlds_with_a_standby_that_have_failed() {
    for seed in [17, 19, 139, 192, 265, 493, 1_605] {
        let options = DriverOptions::random(Family::Standby, seed);
        run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
