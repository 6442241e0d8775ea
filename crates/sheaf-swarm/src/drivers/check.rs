//! Invariants at the end of a run of the drivers.

use super::hardware::{DriverDisks, Record};
use super::options::{DriverFaultKind, DriverOptions};
use sheaf_node::NodeError;
use sheaf_node::report::RunReport;
use sheaf_wire::{DropReason, EventId, MissingReason, NodeId, Role, SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A run that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverReport {
    /// Accepted triggers.
    pub accepted: u64,
    /// Events stored.
    pub stored: u64,
    /// Events rejected by the filter.
    pub rejected: u64,
    /// Events dropped.
    pub dropped: u64,
    /// Triggers vetoed.
    pub vetoed: u64,
    /// Stored events without one of their sources.
    pub incomplete: u64,
    /// Builder sessions that were given up.
    pub lost_builders: u64,
    /// When it ended.
    pub end: Timestamp,
    /// Rounds of all nodes.
    pub rounds: u64,
    /// Frames on the network.
    pub frames: u64,
    /// Of all that was sent, when it arrived, and what was written.
    pub hash: u64,
    /// Faults of nodes.
    pub log: String,
}

/// A run that broke a rule.
#[derive(Clone, Debug)]
pub struct DriverFailure {
    /// The options that led to it.
    pub options: DriverOptions,
    /// The rules that were broken, in sentences.
    pub violations: Vec<String>,
    /// When.
    pub at: Timestamp,
    /// Faults of nodes.
    pub log: String,
}

impl fmt::Display for DriverFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "drivers with seed {} failed at {}", self.options.seed, self.at)?;
        for violation in &self.violations {
            writeln!(f, "- {violation}")?;
        }
        write!(f, "{}{:#?}", self.log, self.options)
    }
}

impl std::error::Error for DriverFailure {}

/// All that there is to see.
pub(super) struct DriverEvidence<'a> {
    pub(super) options: &'a DriverOptions,
    pub(super) report: Option<&'a RunReport>,
    pub(super) disks: &'a DriverDisks,
    pub(super) errors: &'a [(Timestamp, NodeError)],
    pub(super) now: Timestamp,
    pub(super) rounds: u64,
    pub(super) frames: u64,
    pub(super) hash: u64,
    pub(super) log: &'a str,
}

/// A run that did not end.
pub(super) fn stuck(options: &DriverOptions, what: String, at: Timestamp, log: String) -> Box<DriverFailure> {
    Box::new(DriverFailure { options: options.clone(), violations: vec![what], at, log })
}

/// Closes the books of a run.
///
/// # Errors
/// Every rule that was broken.
pub(super) fn at_the_end(evidence: &DriverEvidence<'_>) -> Result<DriverReport, Box<DriverFailure>> {
    let mut violations = evidence.disks.violations.clone();
    let Some(report) = evidence.report else {
        violations.push(format!("the event manager has no report: {:?}", evidence.errors));
        return Err(failure(evidence, violations));
    };
    // A readout unit that comes back when the run is over has no books of it.
    let may_lack_books = evidence.has_killed(Role::Readout) > 0;
    let imbalances = report.imbalances(evidence.options.readouts).into_iter();
    violations.extend(imbalances.filter(|what| !(may_lack_books && what.starts_with("no books of"))));
    check_disks(evidence, report, &mut violations);
    check_losses(evidence, report, &mut violations);
    check_errors(evidence, &mut violations);
    if !violations.is_empty() {
        return Err(failure(evidence, violations));
    }
    let ledger = &report.ledger;
    Ok(DriverReport {
        accepted: ledger.received,
        stored: ledger.stored,
        rejected: ledger.rejected,
        dropped: ledger.dropped_total(),
        vetoed: report.dead_time.vetoed.values().sum(),
        incomplete: report.incomplete,
        lost_builders: report.lost_builders,
        end: evidence.now,
        rounds: evidence.rounds,
        frames: evidence.frames,
        hash: evidence.hash,
        log: evidence.log.to_owned(),
    })
}

fn failure(evidence: &DriverEvidence<'_>, violations: Vec<String>) -> Box<DriverFailure> {
    let (options, log) = (evidence.options.clone(), evidence.log.to_owned());
    Box::new(DriverFailure { options, violations, at: evidence.now, log })
}

/// The records that count, each with whose file it is in.
fn counting<'a>(
    evidence: &'a DriverEvidence<'_>,
    report: &RunReport,
    violations: &mut Vec<String>,
) -> Vec<((NodeId, SessionId), &'a Record)> {
    let mut all = Vec::new();
    let empty: &[Record] = &[];
    let of = |owner| evidence.disks.sessions.get(owner).map_or(empty, |files| files.written.as_slice());
    for (owner, committed) in &report.committed {
        let files = of(owner);
        if *committed > files.len() as u64 {
            let have = files.len();
            violations
                .push(format!("{committed} events of {}/{} count, its disk has {have}", owner.0, owner.1));
        }
        let counts = usize::try_from(*committed).unwrap_or(usize::MAX);
        all.extend(files.iter().take(counts).map(|record| (*owner, record)));
    }
    for (owner, places) in &report.kept {
        let files = of(owner);
        if places.end() > files.len() as u64 {
            let (end, have) = (places.end(), files.len());
            violations
                .push(format!("places up to {end} of {}/{} count, its disk has {have}", owner.0, owner.1));
        }
        let counting = (0..).zip(files).filter(|(number, _)| places.contains(*number));
        all.extend(counting.map(|(_, record)| (*owner, record)));
    }
    all
}

/// Each stored event counts once, and what is booked of stored events is what is on the disks.
fn check_disks(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<String>) {
    let counting = counting(evidence, report, violations);
    let mut found: BTreeMap<EventId, (NodeId, SessionId)> = BTreeMap::new();
    for (owner, record) in &counting {
        if let Some(other) = found.insert(record.event, *owner) {
            violations.push(format!("event {} counts in {other:?} and in {owner:?}", record.event));
        }
        let beyond = evidence.options.is_beyond_judging(record.event);
        if record.is_quarantined != beyond {
            let word = if beyond { "has a verdict" } else { "has no verdict" };
            violations.push(format!("event {} {word}, and nothing injected explains it", record.event));
        }
        if !beyond && evidence.options.is_rejected(record.event) {
            violations.push(format!("event {} was not to be stored", record.event));
        }
    }
    let (stored, fragments) =
        (report.ledger.stored, counting.iter().map(|(_, record)| record.fragments as u64));
    let fragments: u64 = fragments.sum();
    if found.len() as u64 != stored || fragments != report.stored_fragments {
        violations.push(format!(
            "{} events with {fragments} fragments count on disks; {stored} with {} are booked",
            found.len(),
            report.stored_fragments
        ));
    }
    let is_rejected =
        |event| evidence.options.is_rejected(event) && !evidence.options.is_beyond_judging(event);
    let rejected = (0..evidence.options.events).filter(|event| is_rejected(EventId(*event)));
    let rejected = rejected.count() as u64;
    if report.ledger.rejected > rejected
        || (report.ledger.dropped_total() == 0
            && report.ledger.received == evidence.options.events
            && report.ledger.rejected != rejected)
    {
        violations.push(format!("{} events are booked as rejected, of {rejected}", report.ledger.rejected));
    }
    let explained = |reason: MissingReason| match reason {
        MissingReason::ReadoutRestarted | MissingReason::ReadoutSilent | MissingReason::ReadoutLost => {
            evidence.has_killed(Role::Readout) > 0
        }
        _ => false,
    };
    let missing: BTreeSet<MissingReason> =
        counting.iter().flat_map(|(_, record)| record.missing.iter().copied()).collect();
    for reason in missing.into_iter().filter(|reason| !explained(*reason)) {
        let lack = counting.iter().filter(|(_, record)| record.missing.contains(&reason)).count();
        violations.push(format!("{lack} events miss sources as {reason}, and nothing injected explains it"));
    }
}

/// Accepted means kept.
fn check_losses(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<String>) {
    let explained = |reason: DropReason| match reason {
        // As many builders died as may try an event.
        DropReason::BuilderLost => evidence.has_killed(Role::Builder) >= 3,
        _ => false,
    };
    for (reason, count) in report.ledger.dropped.iter().filter(|(reason, _)| !explained(**reason)) {
        violations.push(format!("{count} events were dropped as {reason}, and nothing injected explains it"));
    }
    let harmless = |reason: DropReason| match reason {
        // Sources run ahead of the triggers.
        DropReason::NeverTriggered => report.ledger.received < evidence.options.events,
        DropReason::Late | DropReason::NotRequested | DropReason::NotBuilt | DropReason::EventDropped => {
            evidence.has_killed(Role::Readout) > 0 || report.ledger.dropped_total() > 0
        }
        _ => false,
    };
    let fragments = report.fragment_ledger();
    for (reason, count) in fragments.dropped.iter().filter(|(reason, _)| !harmless(**reason)) {
        violations
            .push(format!("{count} fragments were dropped as {reason}, and nothing injected explains it"));
    }
    if report.ledger.received != evidence.options.events && evidence.has_killed(Role::Readout) == 0 {
        let (received, events) = (report.ledger.received, evidence.options.events);
        violations.push(format!("the run ended after {received} of {events} triggers"));
    }
    if report.lost_builders > 0 && evidence.has_killed(Role::Builder) == 0 {
        violations.push(format!("{} builder sessions were given up, and none died", report.lost_builders));
    }
    if !report.absent.is_empty() && evidence.options.is_slowness_only() {
        violations.push(format!("the run began without {:?}", report.absent));
    }
}

/// Nodes end in good order, but for those that came back when the run was over.
fn check_errors(evidence: &DriverEvidence<'_>, violations: &mut Vec<String>) {
    for (at, error) in evidence.errors {
        let came_late = match error {
            NodeError::ManagerSilent { node, .. } | NodeError::ManagerGone { node, .. } => {
                evidence.was_killed(*node)
            }
            // What it had not made durable does not count.
            NodeError::Output { node, .. } => evidence.has_full_disk(*node),
            _ => false,
        };
        if !came_late {
            violations.push(format!("at {at}: {error}"));
        }
    }
}

impl DriverEvidence<'_> {
    /// Number of nodes of a role that were to be killed.
    fn has_killed(&self, role: Role) -> usize {
        let is_kill = |kind| matches!(kind, DriverFaultKind::Kill { .. });
        self.options.faults.iter().filter(|fault| is_kill(fault.kind) && fault.node.role == role).count()
    }

    fn has_full_disk(&self, node: NodeId) -> bool {
        let is_full = |kind| matches!(kind, DriverFaultKind::DiskFails { .. });
        self.options.faults.iter().any(|fault| is_full(fault.kind) && fault.node == node)
    }

    fn was_killed(&self, node: NodeId) -> bool {
        let is_kill = |kind| matches!(kind, DriverFaultKind::Kill { .. });
        self.options.faults.iter().any(|fault| is_kill(fault.kind) && fault.node == node)
    }
}
