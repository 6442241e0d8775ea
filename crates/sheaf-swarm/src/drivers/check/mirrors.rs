//! Invariants of readout units and their mirrors.

use super::DriverEvidence;
use crate::drivers::options::DriverFaultKind;
use crate::violation::{Violation, violation};
use sheaf_node::report::RunReport;
use sheaf_protocol::mirror::MirrorEvent;
use sheaf_wire::{Nanos, Role};

/// Time after the death of one of the two within which the other one acts alone.
const LINGER: Nanos = Nanos::from_secs(3);

/// Checks what readout units and mirrors have done about one another.
pub(super) fn check(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    violations.extend(evidence.net.twins.iter().flat_map(|twins| twins.violations().iter().cloned()));
    for (node, why) in evidence.retirements {
        if *why == MirrorEvent::Diverged {
            violations.push(violation!("{node} had other books than its readout unit"));
        }
    }
    for unit in &report.mirrored {
        let times = report.mirrored.iter().filter(|other| *other == unit).count();
        if times > 1 {
            violations.push(violation!("the mirror of {unit} has taken over {times} times"));
        }
    }
    let crashes = evidence.happened.iter().filter(|fault| fault.kind == DriverFaultKind::Crash);
    for crash in crashes {
        let until = crash.at + LINGER + evidence.causes().slowness();
        let is_over = evidence.manager_ended.is_none_or(|ended| ended <= until);
        match crash.node.role {
            Role::Readout if !is_over && !report.mirrored.contains(&crash.node) => {
                violations.push(violation!("{} was killed, and its mirror did not take over", crash.node));
            }
            Role::Mirror if !is_over && report.lost_mirrors == 0 => {
                violations.push(violation!("{} was killed, and nobody has noticed", crash.node));
            }
            _ => {}
        }
    }
}
