//! The real drivers with mirrors of readout units.

use crate::drivers::fault;
use sheaf_swarm::drivers::{DriverFaultKind, DriverOptions, DriverReport, Family, run};
use sheaf_wire::{Nanos, NodeId};

/// Runs a world with mirrors and these faults, with a trigger each 20 ms for 4 s.
#[track_caller]
fn good(faults: &[(Nanos, NodeId, DriverFaultKind)]) -> DriverReport {
    let options = DriverOptions {
        mirrors: true,
        trigger_period: Some(Nanos::from_millis(20)),
        faults: faults.iter().map(|(after, node, kind)| fault(*after, *node, *kind)).collect(),
        ..DriverOptions::default()
    };
    let report = run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.stored, report.incomplete), (report.accepted, 0));
    report
}

#[test]
fn without_faults_mirrors_only_follow() {
    let report = good(&[]);
    assert_eq!((report.stored, report.mirrored, report.repeated), (200, 0, 0));
}

#[test]
fn a_mirror_acts_for_a_readout_unit_that_is_killed_or_frozen() {
    for lasts in [None, Some(Nanos::from_secs(1)), Some(Nanos::from_secs(30))] {
        let kind = lasts.map_or(DriverFaultKind::Crash, |lasts| DriverFaultKind::Freeze { lasts });
        let report = good(&[(Nanos::from_secs(1), NodeId::readout(0), kind)]);
        assert_eq!(report.mirrored, 1, "{kind:?}");
    }
}

#[test]
fn a_mirror_on_a_busy_machine_acts_for_a_frozen_readout_unit() {
    let starve = DriverFaultKind::Starve { lasts: Nanos::from_secs(60), gap: Nanos::from_millis(40) };
    let freeze = DriverFaultKind::Freeze { lasts: Nanos::from_secs(30) };
    let report =
        good(&[(Nanos::ZERO, NodeId::mirror(0), starve), (Nanos::from_secs(1), NodeId::readout(0), freeze)]);
    assert_eq!(report.mirrored, 1);
}

#[test]
fn all_readout_units_may_be_killed_at_once() {
    let kill = |index| (Nanos::from_secs(1), NodeId::readout(index), DriverFaultKind::Crash);
    assert_eq!(good(&[kill(0), kill(1)]).mirrored, 2);
}

#[test]
fn a_readout_unit_goes_on_without_a_mirror_that_is_gone_or_cannot_be_reached() {
    let (unit, mirror) = (NodeId::readout(0), NodeId::mirror(0));
    let cut = DriverFaultKind::Cut { peer: unit, is_both: true, lasts: Nanos::from_secs(30) };
    for kind in [DriverFaultKind::Crash, cut] {
        assert_eq!(good(&[(Nanos::from_secs(1), mirror, kind)]).mirrored, 0, "{kind:?}");
    }
}

/// Worlds that have failed: frames that waited for a unit whose mirror acts were not counted; builder units gave up a unit when a frozen
/// event manager, which was to let its mirror act, woke up, or while a filter had held them up; a source was booked as silent that the
/// unit did not read because its mirror was behind; a full unit and its mirror kept each other busy with fragments that were refused.
#[test]
fn worlds_with_mirrors_that_have_failed() {
    for seed in [6, 280, 655, 697, 954, 1_001, 1_309] {
        let options = DriverOptions::random(Family::Mirrors, seed);
        run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
