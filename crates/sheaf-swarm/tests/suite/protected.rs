//! The real drivers with a standby of the event manager and mirrors of readout units.

use crate::drivers::fault;
use sheaf_swarm::drivers::{DriverFaultKind, DriverOptions, DriverReport, Family, run};
use sheaf_wire::{Nanos, NodeId};

/// Runs a world with both and these faults, with a trigger each 20 ms for 4 s. Nothing may be lost.
#[track_caller]
fn good(readouts: u16, faults: &[(u64, NodeId, DriverFaultKind)]) -> DriverReport {
    let after = |(after_ms, node, kind): &_| fault(Nanos::from_millis(*after_ms), *node, *kind);
    let options = DriverOptions {
        standby: true,
        mirrors: true,
        readouts,
        trigger_period: Some(Nanos::from_millis(20)),
        faults: faults.iter().map(after).collect(),
        ..DriverOptions::default()
    };
    let report = run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((report.stored, report.incomplete), (report.accepted, 0));
    report
}

const CRASH: DriverFaultKind = DriverFaultKind::Crash;
const STEP_DOWN: DriverFaultKind = DriverFaultKind::StepDown;
const EVM: NodeId = NodeId::MANAGER;

/// Their mirrors vote in their place, one after the other.
#[test]
fn an_event_manager_is_succeeded_after_most_voters_have_died() {
    for readouts in [2, 3] {
        let kill = |index: u16| (1_000 + 500 * u64::from(index), NodeId::readout(index), CRASH);
        let mut faults: Vec<_> = (0..readouts).map(kill).collect();
        faults.push((3_000, EVM, CRASH));
        let report = good(readouts, &faults);
        assert_eq!((report.mirrored, report.take_overs), (u64::from(readouts), 1));
    }
}

/// The standby of the time may be one that has joined after a mirror began to act.
#[test]
fn faults_of_both_may_follow_one_another() {
    let freeze = DriverFaultKind::Freeze { lasts: Nanos::from_secs(3) };
    let report = good(
        2,
        &[
            (500, EVM, STEP_DOWN),
            (1_000, EVM, STEP_DOWN),
            (1_500, NodeId::readout(1), CRASH),
            (2_000, NodeId::readout(0), freeze),
            (3_100, EVM, STEP_DOWN),
            (3_400, EVM, CRASH),
            (3_600, NodeId::manager(1), DriverFaultKind::Kill { back_after: Nanos::from_millis(100) }),
        ],
    );
    assert_eq!(report.mirrored, 2);
    assert!(report.take_overs >= 3, "{report:?}");
}

/// Nobody but the mirror knows that its unit has no more part in the run: the event manager of that time has died.
#[test]
fn a_readout_unit_that_wakes_up_beside_another_event_manager_leaves() {
    let freeze = DriverFaultKind::Freeze { lasts: Nanos::from_secs(30) };
    let report = good(3, &[(1_000, NodeId::readout(2), freeze), (2_500, EVM, CRASH)]);
    assert_eq!((report.mirrored, report.take_overs), (1, 1));
}

/// Worlds that have failed: mirrors did not vote for their units; a mirror did not tell the standby that it acts; the answer to a readout
/// unit which its mirror had just succeeded went to the mirror, and both left; a standby repeated inputs of an event manager that was
/// started again before the voters had told it of the run.
#[test]
fn worlds_with_both_that_have_failed() {
    for seed in [55, 97, 118, 742, 2_554] {
        let options = DriverOptions::random(Family::Protected, seed);
        run(&options).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
