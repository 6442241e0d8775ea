//! Invariants of two replicas of the event manager.

use super::DriverEvidence;
use crate::drivers::options::DriverFaultKind;
use crate::violation::{Violation, violation};
use sheaf_node::report::RunReport;
use sheaf_protocol::standby::Retirement;
use sheaf_wire::{Nanos, NodeId};

/// Time after the end of the run at the active replica within which the standby ends without a take-over.
const LINGER: Nanos = Nanos::from_secs(3);

/// Returns the replica that has ended the run, with its report. If both have, the one that took over.
pub(in super::super) fn replica_that_ended(reports: &[(NodeId, RunReport)]) -> Option<&(NodeId, RunReport)> {
    let ended = |(_, report): &&(NodeId, RunReport)| report.retired.is_none();
    reports
        .iter()
        .filter(ended)
        .max_by_key(|(node, report)| (report.take_overs, node.index == 0))
        .or_else(|| reports.last())
}

/// Checks what the replicas and the nodes have done about one another.
pub(super) fn check(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    if !evidence.options.standby {
        return;
    }
    violations.extend_from_slice(evidence.net.terms.violations());
    for (node, report) in evidence.managers {
        if report.retired == Some(Retirement::Diverged) {
            violations.push(violation!("{node} had other messages than the active replica"));
        }
        if report.retired == Some(Retirement::Unreadable) {
            violations.push(violation!("{node} could not read the state of the active replica"));
        }
    }
    if let Some(why) = report.retired {
        violations.push(violation!("no replica has ended the run, the last one retired: {why:?}"));
        return;
    }
    let ended = evidence.managers.iter().filter(|(_, report)| report.retired.is_none());
    for (node, other) in ended {
        if other.take_overs == report.take_overs
            && (&other.ledger, &other.committed) != (&report.ledger, &report.committed)
        {
            violations.push(violation!(
                "{node} has ended the run with other books than the other replica: {:?}, {:?}",
                other.ledger,
                report.ledger
            ));
        }
    }
    check_take_over(evidence, report, violations);
    check_refusals(evidence, violations);
}

/// Checks that the standby took over if the active replica was killed before the end of the run.
fn check_take_over(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let is_crash = |kind: DriverFaultKind, node| kind == DriverFaultKind::Crash && node == NodeId::MANAGER;
    let crash = evidence.happened.iter().find(|fault| is_crash(fault.kind, fault.node));
    let Some(crash) = crash.filter(|_| report.take_overs == 0) else { return };
    let until = crash.at + LINGER + evidence.causes().slowness();
    if evidence.manager_ended.is_some_and(|ended| ended > until) {
        violations.push(violation!("{} was killed, and its standby did not take over", crash.node));
    }
}

/// Checks that builder units refuse the messages of a replica that was succeeded.
fn check_refusals(evidence: &DriverEvidence<'_>, violations: &mut Vec<Violation>) {
    for node in (0..evidence.options.builders).map(NodeId::builder) {
        let reports = evidence.reports.iter().filter(|report| report.node == node);
        let booked: u64 = reports.map(|report| report.outbox.superseded_messages).sum();
        let least = evidence.net.terms.least_refused(node);
        if booked < least {
            violations.push(violation!(
                "{node} has refused {booked} messages of a replica that was succeeded, {least} came"
            ));
        }
    }
}
