//! Invariants at the end of a run of the drivers.

mod causes;
mod mirrors;
mod replicas;
mod supervision;

use super::disk::{DriverDisks, Record};
use super::net::Net;
use super::options::{DriverFault, DriverFaultKind, DriverOptions};
use super::twins::Twins;
use crate::dice::Ratio;
use crate::violation::{Violation, violation};
use causes::Causes;
pub(super) use replicas::replica_that_ended;
use sheaf_node::NodeError;
use sheaf_node::builder::BuilderReport;
use sheaf_node::report::RunReport;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_protocol::mirror::MirrorEvent;
use sheaf_wire::{DropReason, EventId, MissingReason, NodeId, Role, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

/// Result of a run without violations.
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
    /// Take-overs by a standby of the event manager.
    pub take_overs: u64,
    /// Replicas of the event manager that were started during the run and have joined.
    pub joined: u64,
    /// Readout units whose mirrors have taken over.
    pub mirrored: u64,
    /// Messages that readout units and their mirrors have both sent.
    pub repeated: u64,
    /// Time at which it ended.
    pub end: Timestamp,
    /// Number of rounds of all nodes.
    pub rounds: u64,
    /// Number of frames on the network.
    pub frames: u64,
    /// Hash of all frames, their arrival times, and the written events.
    pub hash: u64,
    /// Faults of nodes.
    pub log: String,
}

/// Result of a run with violations.
#[derive(Clone, Debug)]
pub struct DriverFailure {
    /// Options of the run.
    pub options: DriverOptions,
    /// Violated invariants, in sentences.
    pub violations: Vec<Violation>,
    /// Time of the violation.
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

/// Observations of a run.
pub(super) struct DriverEvidence<'a> {
    pub(super) options: &'a DriverOptions,
    /// Reports of all replicas of the event manager that have ended.
    pub(super) managers: &'a [(NodeId, RunReport)],
    /// The replica that has ended the run, and its report.
    pub(super) manager: Option<NodeId>,
    pub(super) report: Option<&'a RunReport>,
    pub(super) disks: &'a DriverDisks,
    /// Reports of the builder sessions that made one.
    pub(super) reports: &'a [BuilderReport],
    pub(super) errors: &'a [(Timestamp, NodeError)],
    /// Faults that hit a live node.
    pub(super) happened: &'a [DriverFault],
    /// Reasons why mirrors have no more part in the run.
    pub(super) retirements: &'a [(NodeId, MirrorEvent)],
    pub(super) manager_ended: Option<Timestamp>,
    pub(super) now: Timestamp,
    pub(super) rounds: u64,
    /// Violations found during the run.
    pub(super) violations: &'a [Violation],
    pub(super) net: &'a Net,
    /// Number of triggers of a supervisor that found no room when they arrived, and of lives of it that ended early.
    pub(super) supervision: Option<(u64, u64)>,
    pub(super) log: &'a str,
}

/// Returns the failure of a run that did not end.
pub(super) fn stuck(options: &DriverOptions, what: String, at: Timestamp, log: String) -> Box<DriverFailure> {
    Box::new(DriverFailure { options: options.clone(), violations: vec![what.into()], at, log })
}

/// Checks all invariants at the end of a run.
///
/// # Errors
/// Returns the violated invariants.
pub(super) fn at_the_end(evidence: &DriverEvidence<'_>) -> Result<DriverReport, Box<DriverFailure>> {
    let mut violations = evidence.disks.violations.clone();
    violations.extend_from_slice(evidence.violations);
    violations.extend_from_slice(evidence.net.order_of_frames.violations());
    let Some(report) = evidence.report else {
        violations.push(violation!("the event manager has no report: {:?}", evidence.errors));
        return Err(failure(evidence, violations));
    };
    // A readout unit that returns after the end of the run has no books.
    let may_lack_books = evidence.causes().killed(Role::Readout) > 0;
    let imbalances = report.imbalances(evidence.options.readouts).into_iter();
    let unexplained = imbalances.filter(|what| !(may_lack_books && what.starts_with("no books of")));
    violations.extend(unexplained.map(Violation::from));
    check_disks(evidence, report, &mut violations);
    check_losses(evidence, report, &mut violations);
    check_triggers(evidence, report, &mut violations);
    check_errors(evidence, &mut violations);
    check_dropped_frames(evidence, &mut violations);
    replicas::check(evidence, report, &mut violations);
    mirrors::check(evidence, report, &mut violations);
    let (bad, forged) = (report.outbox.bad_messages, evidence.net.forged(NodeId::MANAGER));
    if bad > forged {
        violations.push(violation!("the event manager could not read {bad} messages, {forged} were forged"));
    }
    evidence.reports.iter().for_each(|report| check_builder(evidence, report, &mut violations));
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
        take_overs: report.take_overs,
        joined: evidence.net.terms.joined(),
        mirrored: report.mirrored.len() as u64,
        repeated: evidence.net.twins.as_ref().map_or(0, Twins::repeated),
        end: evidence.now,
        rounds: evidence.rounds,
        frames: evidence.net.frames,
        hash: evidence.net.hash(),
        log: evidence.log.to_owned(),
    })
}

fn failure(evidence: &DriverEvidence<'_>, violations: Vec<Violation>) -> Box<DriverFailure> {
    let (options, log) = (evidence.options.clone(), evidence.log.to_owned());
    Box::new(DriverFailure { options, violations, at: evidence.now, log })
}

/// Returns the records that count, each with the session that has written it.
fn counting<'a>(
    evidence: &'a DriverEvidence<'_>,
    report: &RunReport,
    violations: &mut Vec<Violation>,
) -> Vec<((NodeId, SessionId), &'a Record)> {
    let mut all = Vec::new();
    let empty: &[Record] = &[];
    let of = |owner| evidence.disks.sessions.get(owner).map_or(empty, |files| files.written.as_slice());
    for (owner, committed) in &report.committed {
        let files = of(owner);
        if *committed > files.len() as u64 {
            let have = files.len();
            violations.push(violation!(
                "{committed} events of {}/{} count, its disk has {have}",
                owner.0,
                owner.1
            ));
        }
        let counts = usize::try_from(*committed).unwrap_or(usize::MAX);
        all.extend(files.iter().take(counts).map(|record| (*owner, record)));
    }
    for (owner, places) in &report.kept {
        let files = of(owner);
        if places.end() > files.len() as u64 {
            let (end, have) = (places.end(), files.len());
            violations.push(violation!(
                "places up to {end} of {}/{} count, its disk has {have}",
                owner.0,
                owner.1
            ));
        }
        let counting = (0..).zip(files).filter(|(number, _)| places.contains(*number));
        all.extend(counting.map(|(_, record)| (*owner, record)));
    }
    all
}

/// Checks that each stored event counts once, and that the books of stored events agree with the disks.
fn check_disks(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let counting = counting(evidence, report, violations);
    let mut found: BTreeMap<EventId, (NodeId, SessionId)> = BTreeMap::new();
    for (owner, record) in &counting {
        if let Some(other) = found.insert(record.event, *owner) {
            violations.push(violation!("event {} counts in {other:?} and in {owner:?}", record.event));
        }
        let beyond = evidence.options.is_beyond_judging(record.event);
        if record.is_quarantined != beyond {
            let word = if beyond { "has a verdict" } else { "has no verdict" };
            violations.push(violation!("event {} {word}, and nothing injected explains it", record.event));
        }
        if evidence.options.is_unwanted(record.event) {
            violations.push(violation!("event {} must not be stored", record.event));
        }
        if record.missing.is_empty() && evidence.options.is_bad(record.event) {
            violations.push(violation!("event {} was stored with a corrupt fragment", record.event));
        }
    }
    let (stored, fragments) =
        (report.ledger.stored, counting.iter().map(|(_, record)| record.fragments as u64));
    let fragments: u64 = fragments.sum();
    if found.len() as u64 != stored || fragments != report.stored_fragments {
        violations.push(violation!(
            "{} events with {fragments} fragments count on disks; {stored} with {} are booked",
            found.len(),
            report.stored_fragments
        ));
    }
    check_rejected(evidence, report, violations);
    check_missing(evidence, &counting, violations);
    let is_whole = |report: &RunReport| report.incomplete == 0 && report.ledger.dropped_total() == 0;
    if is_whole(report) {
        let events = (0..report.ledger.received).map(EventId);
        let bytes_of = |event| {
            let wanted = evidence.options.wanted(event).into_iter();
            wanted.map(|source| evidence.options.length(event, source)).sum::<usize>() as u64
        };
        let (bytes, booked) = (events.map(bytes_of).sum::<u64>(), report.bytes.0);
        if bytes != booked {
            violations
                .push(violation!("{booked} bytes of built events are booked, but sources sent {bytes}"));
        }
    }
}

/// Checks that unwanted events are rejected, unless a corrupt fragment of theirs was found first.
fn check_rejected(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let options = evidence.options;
    let count = |is: &dyn Fn(EventId) -> bool| {
        (0..options.events).map(EventId).filter(|event| options.is_unwanted(*event) && is(*event)).count()
            as u64
    };
    let (most, least) = (count(&|_| true), count(&|event| !options.is_bad(event)));
    let is_whole = report.ledger.received == options.events
        && report.ledger.dropped_total() == dropped_for_content(report);
    let rejected = report.ledger.rejected;
    if rejected > most || (is_whole && rejected < least) {
        violations
            .push(violation!("{rejected} events are booked as rejected, but must be {least} to {most}"));
    }
}

/// Checks that a source is missing in an event only because of an earlier fault of its readout unit.
fn check_missing(
    evidence: &DriverEvidence<'_>,
    counting: &[((NodeId, SessionId), &Record)],
    violations: &mut Vec<Violation>,
) {
    let causes = evidence.causes();
    let mut unexplained: BTreeMap<MissingReason, u64> = BTreeMap::new();
    for (_, record) in counting {
        for missing in record.missing.iter().filter(|missing| !causes.explain_missing(missing, record.at)) {
            *unexplained.entry(missing.reason).or_default() += 1;
        }
    }
    for (reason, count) in unexplained {
        violations
            .push(violation!("{count} sources are missing as {reason}, and nothing injected explains it"));
    }
}

/// Checks that no accepted event is lost without an injected cause.
fn check_losses(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let causes = evidence.causes();
    for (reason, count) in &report.ledger.dropped {
        if !causes.explain_drop(*reason, *count) {
            violations.push(violation!(
                "{count} events were dropped as {reason}, and nothing injected explains it"
            ));
        }
    }
    let is_short = report.ledger.received < evidence.options.events;
    for (node, books) in &report.nodes {
        for (reason, count) in &books.fragments.dropped {
            if !causes.explain_fragments(*node, *reason, is_short) {
                violations.push(violation!(
                    "{node} dropped {count} fragments as {reason}, and nothing injected explains it"
                ));
            }
        }
    }
    check_corrupt(evidence, report, violations);
    check_dead_time(evidence, report, violations);
    // A run that is cut while it closes does not wait for more books.
    let may_lack = |node: &NodeId| causes.was_cut() || causes.was_killed(*node);
    let lacks_books = |node: &NodeId| !report.nodes.contains_key(node) && !may_lack(node);
    for node in (0..evidence.options.outputs).map(NodeId::output).filter(lacks_books) {
        violations.push(violation!("no books of {node}"));
    }
    let waited = causes.kills_for_good().filter(|fault| {
        let others = evidence.options.nodes().into_iter().filter(|node| node.role == fault.node.role);
        others.filter(|node| !causes.was_killed(*node)).count() > 0
            && evidence.manager_ended.is_none_or(|ended| ended >= fault.at + fault.kind.lasts())
    });
    violations
        .extend(waited.map(|fault| violation!("the run waited for {}, which does not return", fault.node)));
    violations.extend(causes.waits_for_full_disks(evidence.manager_ended));
    if is_short && !causes.explain_early_end() {
        let (received, events) = (report.ledger.received, evidence.options.events);
        violations.push(violation!("the run ended after {received} of {events} triggers"));
    }
    let killed = causes.killed(Role::Builder) as u64;
    let ended_with_events = causes.was_cut() || causes.full_disks().next().is_some();
    if report.lost_builders > killed && !ended_with_events {
        let lost = report.lost_builders;
        violations.push(violation!("{lost} builder sessions were given up, but only {killed} died"));
    }
    if !report.absent.is_empty() && evidence.options.is_slowness_only() {
        violations.push(violation!("the run began without {:?}", report.absent));
    }
}

fn dropped_for_content(report: &RunReport) -> u64 {
    report.ledger.dropped.get(&DropReason::ContentMismatch).copied().unwrap_or_default()
}

/// Checks that exactly the events with a corrupt fragment are dropped for their content.
fn check_corrupt(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let events = (0..report.ledger.received).map(EventId);
    let bad = events.filter(|event| evidence.options.is_bad(*event)).count() as u64;
    let dropped = dropped_for_content(report);
    let is_exact = evidence.options.is_slowness_only();
    if dropped > bad || (is_exact && dropped != bad) {
        violations.push(violation!(
            "{dropped} events were dropped for wrong content, but {bad} have wrong content"
        ));
    }
}

/// Checks that frames that waited for a peer which disconnected are counted.
fn check_dropped_frames(evidence: &DriverEvidence<'_>, violations: &mut Vec<Violation>) {
    let of_builder = |node| {
        let reports = evidence.reports.iter().filter(|report| report.node == node);
        (node, reports.map(|report| report.outbox.dropped_frames).sum::<u64>())
    };
    let of_manager = |node| {
        let reports = evidence.managers.iter().filter(|(replica, _)| *replica == node);
        (node, reports.map(|(_, report)| report.outbox.dropped_frames).sum())
    };
    let builders = (0..evidence.options.builders).map(NodeId::builder).map(of_builder);
    for (node, booked) in builders.chain(evidence.manager.map(of_manager)) {
        let least = evidence.net.order_of_frames.least_dropped(node);
        if booked < least {
            violations.push(violation!(
                "{node} has counted {booked} dropped frames, but {least} links with waiting frames went down"
            ));
        }
    }
}

/// Checks that triggers are vetoed because of the output if the only disk hangs until the system is full.
fn check_dead_time(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    let options = evidence.options;
    let Some(period) = options.trigger_period.filter(|_| options.disk.is_beside) else { return };
    if evidence.causes().hits_the_supervisor() {
        // A supervisor that is dead or frozen vetoes nothing.
        return;
    }
    let room = options.room() * u64::from(options.builders) + options.queue_events as u64;
    for fault in evidence.happened {
        let (DriverFaultKind::DiskHangs { lasts } | DriverFaultKind::DiskFails { lasts }) = fault.kind else {
            continue;
        };
        let is_only = match fault.node.role {
            Role::Output => options.outputs == 1,
            _ => options.builders == 1,
        };
        let end = fault.at + lasts;
        let records = evidence.disks.sessions.iter().filter(|((node, _), _)| *node == fault.node);
        let after = records.flat_map(|(_, files)| &files.written).filter(|record| record.at >= end).count();
        let is_full = is_only && lasts.0 > 4 * room * period.0 && after as u64 > 2 * room;
        let vetoed = report.dead_time.vetoed.get(&DeadTimeCause::Output).copied().unwrap_or_default();
        let is_paused = report.dead_time.time.contains_key(&DeadTimeCause::Paused);
        // While the machine is suspended, no triggers come.
        let is_suspended = evidence.happened.iter().any(|other| {
            let suspends = matches!(other.kind, DriverFaultKind::Suspend { .. });
            suspends && other.at < end && fault.at < other.at + other.kind.lasts()
        });
        if is_full && vetoed == 0 && !is_paused && !is_suspended {
            violations.push(violation!("the only disk hung for {lasts}, but no trigger was vetoed for it"));
        }
    }
}

/// Checks that the number of offered triggers is that of the clock in the time of the run.
fn check_triggers(evidence: &DriverEvidence<'_>, report: &RunReport, violations: &mut Vec<Violation>) {
    if let Some(counts) = evidence.supervision {
        return supervision::check(report, counts, &evidence.causes(), violations);
    }
    let Some(period) = evidence.options.trigger_period else { return };
    let (run, offered) = (report.dead_time.run(), report.offered());
    let due = run.0 / period.0.max(1);
    if offered.abs_diff(due) > 1 {
        violations.push(violation!("{offered} triggers were offered in {run}, but {due} happened"));
    }
}

/// Checks that a builder unit's own report agrees with its filter and is balanced.
fn check_builder(evidence: &DriverEvidence<'_>, report: &BuilderReport, violations: &mut Vec<Violation>) {
    let node = report.node;
    let forged = evidence.net.forged(node);
    let bad_events = if evidence.options.corrupt == Ratio::NEVER { report.bad_events } else { 0 };
    if bad_events + report.quarantined + report.outbox.too_large_frames > 0
        || report.outbox.bad_messages > forged
    {
        violations.push(violation!("{node} reports defects that were not injected: {report:?}"));
    }
    let Some(counts) = report.farm.as_ref().map(|farm| farm.counts) else { return };
    let filter = &evidence.options.filter;
    let may_die = filter.dies.per_million > 0;
    let may_hang = filter.hangs.per_million > 0;
    // A session that was given up, or cut, has events left.
    let adds_up = counts.offered >= counts.judged + counts.quarantined
        && counts.given >= counts.judged + counts.failed + counts.abandoned + counts.returned;
    if !adds_up {
        violations.push(violation!("{node}: the counts of the farm do not add up: {counts:?}"));
    }
    let strange = [
        ("answers without a verdict", counts.failed, false),
        ("events without any worker", counts.unattended, false),
        ("refused workers", counts.refused, false),
        ("invalid messages", counts.nonsense, false),
        ("dead workers", counts.died, may_die),
        ("silent workers", counts.silent, may_hang),
        ("abandoned events", counts.abandoned, may_die || may_hang),
        ("events without a verdict", counts.quarantined, may_die || may_hang),
    ];
    for (what, count, is_explained) in strange {
        if count > 0 && !is_explained {
            violations.push(violation!("{node}: {count} {what}, and nothing injected explains it"));
        }
    }
}

/// Checks that nodes end without an error, except for those that returned after the end of the run.
fn check_errors(evidence: &DriverEvidence<'_>, violations: &mut Vec<Violation>) {
    let causes = evidence.causes();
    for (at, error) in evidence.errors {
        if !causes.explain_error(*at, error, evidence.manager_ended) {
            violations.push(violation!("at {at}: {error}"));
        }
    }
}

impl<'a> DriverEvidence<'a> {
    fn causes(&self) -> Causes<'a> {
        Causes { options: self.options, happened: self.happened }
    }
}
