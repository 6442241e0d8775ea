//! Causes at their place and time: anything missing, given up or dropped must have an earlier cause at the node, link or source
//! concerned.

use super::Evidence;
use crate::filter::decide;
use crate::options::{Options, TriggerOptions, UNKNOWN_EVENTS};
use crate::source::{SourcePlan, plan_sources};
use crate::violation::{Violation, violation};
use sheaf_protocol::builder::{Decision, IncompletePolicy};
use sheaf_wire::{DropReason, EventId, MissingReason, NodeId, SourceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of violations in a report, because one cause produces many.
const VIOLATIONS_MAX: usize = 10;

/// A source that is missing in a built event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingRecord {
    /// Time at which the event was built.
    pub at: Timestamp,
    /// Builder of the event.
    pub builder: NodeId,
    /// The event.
    pub event: EventId,
    /// The source.
    pub source: SourceId,
    /// Reported reason.
    pub reason: MissingReason,
}

/// Time of the first fault of each node.
#[derive(Clone, Debug, Default)]
pub struct NodeFaults {
    nodes: BTreeMap<NodeId, Timestamp>,
    crashed: BTreeMap<NodeId, Timestamp>,
    /// Time of the first stall of all nodes together.
    pub(crate) frozen: Option<Timestamp>,
    /// Sources whose program had a fault.
    programs: BTreeMap<SourceId, Timestamp>,
    /// Nodes that were absent when the run began.
    pub(crate) absent: BTreeSet<NodeId>,
    /// Readout units that held a source back, with the time since when.
    pub(crate) full: BTreeMap<NodeId, Timestamp>,
}

impl NodeFaults {
    /// Records a stall of a node.
    pub(crate) fn note_stall(&mut self, node: NodeId, now: Timestamp) {
        self.nodes.entry(node).or_insert(now);
    }

    /// Records the loss of a node's state.
    pub(crate) fn note_crash(&mut self, node: NodeId, now: Timestamp) {
        self.nodes.entry(node).or_insert(now);
        self.crashed.entry(node).or_insert(now);
    }

    /// Records a fault of the program that feeds a source.
    pub(crate) fn note_program(&mut self, source: SourceId, now: Timestamp) {
        self.programs.entry(source).or_insert(now);
    }

    fn of_program(&self, source: SourceId, at: Timestamp) -> bool {
        self.programs.get(&source).is_some_and(|since| *since <= at)
    }

    fn of(&self, node: NodeId, at: Timestamp) -> bool {
        self.absent.contains(&node) || self.nodes.get(&node).is_some_and(|since| *since <= at)
    }

    pub(super) fn has_crashed(&self, node: NodeId, at: Timestamp) -> bool {
        self.absent.contains(&node) || self.crashed.get(&node).is_some_and(|since| *since <= at)
    }
}

/// Defects of the sources, by source and event.
struct Defects {
    /// Fragments that are sent without defects.
    sent: BTreeSet<(SourceId, EventId)>,
    oversize: BTreeSet<(SourceId, EventId)>,
    /// Sources that pause, or send out of order.
    uneven: BTreeSet<SourceId>,
    /// Readout units that receive a fragment twice.
    duplicated: BTreeSet<u16>,
}

impl Defects {
    fn new(options: &Options) -> Self {
        let SourcePlan { sources, .. } = plan_sources(options);
        let (mut sent, mut oversize) = (BTreeSet::new(), BTreeSet::new());
        let (mut uneven, mut duplicated) = (BTreeSet::new(), BTreeSet::new());
        for source in sources {
            let mut latest = EventId(0);
            for planned in &source.script {
                let is_right = u64::from(planned.bytes) <= options.bounds.max_fragment.0;
                let key = (planned.source, planned.event);
                if !if is_right { &mut sent } else { &mut oversize }.insert(key) {
                    duplicated.insert(u16::try_from(source.readout).unwrap_or(u16::MAX));
                }
                if planned.event < latest || planned.pause.0 > 0 {
                    uneven.insert(source.id);
                }
                latest = latest.max(planned.event);
            }
        }
        Self { sent, oversize, uneven, duplicated }
    }
}

struct Blame<'a> {
    evidence: &'a Evidence<'a>,
    defects: Defects,
    is_patient: bool,
}

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let (watch, options) = (evidence.watch, evidence.options);
    let has_drops = !evidence.manager.ledger().dropped.is_empty();
    if watch.missing_at.is_empty() && watch.given_up.is_empty() && !has_drops {
        return;
    }
    let blame = Blame { evidence, defects: Defects::new(options), is_patient: options.is_patient() };
    for missing in &watch.missing_at {
        if !blame.explains_missing(missing) {
            let MissingRecord { at, builder, event, source, reason } = missing;
            violations.push(violation!(
                "source {source} is missing in event {event} of {builder} at {at} as {reason}, and nothing happened there \
                 before"
            ));
        }
    }
    for (builder, at) in &watch.given_up {
        if !blame.explains_loss(*builder, *at) {
            violations.push(violation!("{builder} was given up at {at}, and nothing happened there before"));
        }
    }
    let reasons: Vec<DropReason> = evidence.manager.ledger().dropped.keys().copied().collect();
    for (event, at) in &watch.dropped {
        if !reasons.iter().any(|reason| blame.explains_drop(*event, *reason, *at)) {
            violations.push(violation!(
                "event {event} was dropped at {at}, and nothing happened to it before: {reasons:?}"
            ));
        }
    }
    blame.duplicates(violations);
    violations.truncate(VIOLATIONS_MAX);
}

impl Blame<'_> {
    fn readout_of(&self, source: SourceId) -> NodeId {
        self.evidence.options.readout_of(source)
    }

    fn link(&self, one: NodeId, other: NodeId, at: Timestamp) -> bool {
        let since = self.evidence.links.disturbed_since(one, other);
        since.is_some_and(|since| since <= at)
    }

    fn node(&self, node: NodeId, at: Timestamp) -> bool {
        self.evidence.watch.troubles.of(node, at)
    }

    fn frozen(&self, at: Timestamp) -> bool {
        self.evidence.watch.troubles.frozen.is_some_and(|since| since <= at)
    }

    /// Returns whether a readout unit or its links had a fault.
    fn readout(&self, readout: NodeId, at: Timestamp) -> bool {
        let options = self.evidence.options;
        let mut builders = (0..options.system.builders).map(NodeId::builder);
        self.node(readout, at)
            || self.link(readout, NodeId::MANAGER, at)
            || builders.any(|builder| self.link(readout, builder, at))
    }

    /// Returns whether a source may be too late for an event, or missing.
    fn explains_silence(&self, event: EventId, source: SourceId, at: Timestamp) -> bool {
        let readout = self.readout_of(source);
        let is_full = self.evidence.watch.troubles.full.get(&readout).is_some_and(|since| *since <= at);
        !self.defects.sent.contains(&(source, event))
            || self.evidence.options.is_off(source)
            || self.evidence.options.may_be_renumbered(source)
            || self.defects.uneven.contains(&source)
            || is_full
            || !self.is_patient
            || self.evidence.watch.troubles.of_program(source, at)
            || self.frozen(at)
            || self.readout(readout, at)
            || self.expires(readout)
    }

    /// Returns whether a source that gives on request may be missing in an event.
    fn explains_refusal(&self, event: EventId, source: SourceId, at: Timestamp) -> bool {
        let has_refused = |reason| self.evidence.watch.windows.has_refused((source, event), reason, at);
        has_refused(MissingReason::WindowExpired)
            || has_refused(MissingReason::WindowOffTimeline)
            || self.readout(self.readout_of(source), at)
            || self.frozen(at)
    }

    /// Returns whether a source may have ended without a fragment for an event.
    fn explains_end(&self, event: EventId, source: SourceId, at: Timestamp) -> bool {
        let (options, readout) = (self.evidence.options, self.readout_of(source));
        let ends = matches!(options.triggers, TriggerOptions::Announced { .. })
            || options.sources.end
            || options.is_fed(source);
        let ends_early = options.sources.early_end.is_some_and(|(it, _)| u32::from(it) == source.0);
        let is_lost = !self.defects.sent.contains(&(source, event))
            || options.is_off(source)
            || options.may_be_renumbered(source)
            || self.has_wrong_number_while_excluded(event, source)
            || self.expires(readout);
        let program = self.evidence.watch.troubles.of_program(source, at);
        (ends || ends_early) && (is_lost || program || self.readout(readout, at))
    }

    /// Returns whether a fragment with a wrong number far ahead may have been dropped because its source was excluded. The event is in no
    /// range of the exclusion, and the source is missing in it for another reason.
    fn has_wrong_number_while_excluded(&self, event: EventId, source: SourceId) -> bool {
        event.0 >= UNKNOWN_EVENTS && self.evidence.options.may_be_excluded(source)
    }

    /// Returns whether a readout unit gave up waiting for the request of a fragment.
    fn expires(&self, readout: NodeId) -> bool {
        let unit = self.evidence.readouts.get(usize::from(readout.index)).copied().flatten();
        unit.is_some_and(|unit| unit.books().fragments.dropped.contains_key(&DropReason::UnknownEvent))
    }

    fn explains_missing(&self, missing: &MissingRecord) -> bool {
        let MissingRecord { at, builder, event, source, reason } = *missing;
        let readout = self.readout_of(source);
        let options = self.evidence.options;
        // A source that gives on request is never silent or behind, and has no end: it says why it has nothing.
        let is_answer = !matches!(reason, MissingReason::ReadoutSilent | MissingReason::Excluded);
        if options.is_on_request(source) && is_answer {
            return self.evidence.watch.windows.has_refused((source, event), reason, at);
        }
        match reason {
            MissingReason::SourceSilent => self.explains_silence(event, source, at),
            MissingReason::FragmentRefused => {
                let renumbered = options.may_be_renumbered(source);
                let is_of = |key: &(SourceId, EventId)| key.0 == source && (renumbered || key.1 == event);
                self.defects.oversize.iter().any(is_of)
            }
            MissingReason::SourceEnded | MissingReason::SourceAbsent => self.explains_end(event, source, at),
            // Sources that give on request are examined above.
            MissingReason::WindowExpired | MissingReason::WindowOffTimeline => false,
            // The source has ended, or its data wait and its program has passed the event.
            MissingReason::SourceSkipped => {
                self.explains_end(event, source, at) || self.explains_silence(event, source, at)
            }
            MissingReason::ReadoutSilent => {
                self.readout(readout, at)
                    || self.node(builder, at)
                    || self.link(builder, NodeId::MANAGER, at)
                    || self.node(NodeId::MANAGER, at)
                    || self.frozen(at)
                    || options.was_excluded_for(readout, at)
            }
            MissingReason::ReadoutRestarted => {
                // The run begins without waiting for a unit that is excluded, which then joins late.
                self.evidence.watch.troubles.has_crashed(readout, at) || options.may_leave_out(readout)
            }
            MissingReason::SourceGone => {
                let troubles = &self.evidence.watch.troubles;
                troubles.of_program(source, at) || troubles.has_crashed(readout, at)
            }
            MissingReason::Renumbered => options.may_be_renumbered(source),
            // Compared with the exclusions of the run.
            MissingReason::Excluded => true,
            MissingReason::ReadoutLost => false,
        }
    }

    /// Returns whether a builder may be given up. A stall of all nodes is no reason.
    fn explains_loss(&self, builder: NodeId, at: Timestamp) -> bool {
        let (options, faults) = (self.evidence.options, self.evidence.watch.faults);
        let stops =
            !options.stops.is_empty() || faults.stops + faults.requirement_stops + faults.failed_starts > 0;
        stops
            || self.node(builder, at)
            || self.node(NodeId::MANAGER, at)
            || self.link(builder, NodeId::MANAGER, at)
    }

    fn explains_drop(&self, event: EventId, reason: DropReason, at: Timestamp) -> bool {
        let options = self.evidence.options;
        match reason {
            DropReason::Incomplete => {
                let sources = (0..options.source_count()).filter(|number| !options.is_optional(*number));
                let mut sources = sources.map(|number| SourceId(u32::from(number)));
                options.policy == IncompletePolicy::Drop
                    && sources.any(|source| {
                        if options.is_on_request(source) {
                            return self.explains_refusal(event, source, at)
                                || options.was_excluded_for(self.readout_of(source), at);
                        }
                        let readout = self.readout_of(source);
                        self.explains_silence(event, source, at)
                            || self.defects.oversize.contains(&(source, event))
                            || self.readout(readout, at)
                            || self.frozen(at)
                            || options.was_excluded_for(readout, at)
                    })
            }
            DropReason::BuilderLost => self.evidence.watch.given_up.iter().any(|(_, lost)| *lost <= at),
            DropReason::StorageFailed | DropReason::ContentMismatch => {
                decide(options, event) == Decision::Dropped(reason)
            }
            // These belong to the whole run and are checked elsewhere.
            _ => true,
        }
    }

    /// Checks that a duplicate fragment was sent twice.
    fn duplicates(&self, violations: &mut Vec<Violation>) {
        let options = self.evidence.options;
        for unit in self.evidence.readouts.iter().flatten() {
            let node = unit.identity().node;
            let dropped = unit.books().fragments.dropped.contains_key(&DropReason::Duplicate);
            // A fragment that comes late after a repair may meet one that came early before it.
            let overlap = options.is_renumbered_at(node) && options.sources.out_of_order.is_possible();
            if dropped && !overlap && !self.defects.duplicated.contains(&node.index) {
                violations.push(violation!("{node} dropped duplicates, and none was sent there"));
            }
        }
    }
}
