//! Triggers of a supervisor: none finds a full buffer, and both sides agree.

use super::Evidence;
use crate::options::{FaultKind, Options};
use crate::violation::{Violation, violation};
use sheaf_wire::{ByteCount, NodeId, Role};

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let Some((report, late)) = &evidence.supervision else { return };
    let triggers = &report.triggers;
    let Some(setup) = evidence.options.supervisor else { return };
    // A busy message that was lost comes later than the reserve is meant for, and so does busy after the welcome of a supervisor that
    // starts again: triggers wait, and are not lost.
    let is_late = *late > 0 && setup.datagrams.is_none() && setup.deaths.is_none();
    if is_late || triggers.lost > 0 {
        violations.push(violation!("{late} triggers found no room, and {} were lost", triggers.lost));
    }
    if !report.is_balanced() || triggers.accepted != evidence.manager.ledger().received {
        violations
            .push(violation!("{} events, and the link has {triggers:?}", evidence.manager.ledger().received));
    }
    let invalid = report.datagrams.map_or(0, |counts| counts.invalid);
    // Datagrams of an earlier life may arrive after those of the next.
    let strangers = report.datagrams.filter(|_| setup.deaths.is_none()).map_or(0, |counts| counts.strangers);
    let odd = report.skipped
        + report.steps_back
        + triggers.repeated
        + triggers.out_of_order
        + report.undelivered
        + invalid
        + strangers;
    if odd > 0 || !report.differences.is_empty() {
        violations.push(violation!("the two sides of the trigger link differ: {report:?}"));
    }
    let held_back = evidence.watch.held_back_unforeseen;
    if held_back > 0 && fragments_have_room(evidence) {
        violations.push(violation!(
            "{held_back} fragments found no room in a readout unit, and busy kept none for them"
        ));
    }
}

/// Returns whether a fault keeps releases away from a readout unit, which then stays full. Busy ends after a while although nothing moves.
fn delays_releases(fault: &FaultKind) -> bool {
    matches!(fault, FaultKind::Link { from: NodeId::MANAGER, to, .. } if to.role == Role::Readout)
}

/// Returns whether busy keeps room for the fragments of each trigger: the number of fragments limits it, sources deliver each event
/// once, and the reserve is not cut.
fn fragments_have_room(evidence: &Evidence<'_>) -> bool {
    let Options { sources, bounds, supervisor: Some(supervisor), .. } = evidence.options else {
        return false;
    };
    let faults = evidence.watch.faults;
    let share = bounds.buffer.0 / u64::from(evidence.options.system.sources_per_readout);
    let fits = ByteCount(share).0 >= 2 * bounds.max_fragment.0 * bounds.buffer_events as u64;
    let is_plain = ![
        sources.duplicate,
        sources.out_of_order,
        sources.oversize,
        sources.unknown_event,
        sources.optional_silent,
    ]
    .into_iter()
    .any(|ratio| ratio.is_possible());
    let reserve = evidence.options.trigger_reserve(*supervisor);
    let is_punctual = supervisor.datagrams.is_none() && supervisor.deaths.is_none();
    fits && is_punctual && is_plain
        && faults.readout_crashes == 0
        && !evidence.options.faults.iter().any(|fault| delays_releases(&fault.kind))
        && evidence.options.system.optional_sources == 0
        && evidence.options.feed.is_none()
        && evidence.options.numbers.is_none()
        && 2 * reserve <= bounds.buffer_events as u64
        // Smaller units do not hold triggers back.
        && bounds.buffer_events >= 8
}
