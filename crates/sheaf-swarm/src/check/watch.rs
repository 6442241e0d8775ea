//! Observations during the run.

use crate::check::blame::{MissingRecord, NodeFaults};
use crate::check::exclusions::BuiltSources;
use crate::check::feeds::FeedRecord;
use crate::check::live_time::Onlooker;
use crate::check::lives::LifeRecord;
use crate::check::numbers::{NumberRecord, check_marks};
use crate::check::operator::OperatorCounts;
use crate::check::outputs::{check_event, check_part};
use crate::check::readouts::{ReadoutLife, ReadoutRecords};
use crate::check::records::RecordLog;
use crate::check::windows::WindowRecord;
use crate::options::{Options, TriggerOptions};
use crate::payload::SimPayload;
use crate::source::Planned;
use crate::violation::Violation;
use sheaf_protocol::Deadline;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::ledger::Ledger;
use sheaf_protocol::manager::{DeadTimeCause, Ended, ManagerEvent};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_wire::message::SuperFragments;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{
    ByteCount, Event, EventId, MissingReason, MissingSource, Nanos, NodeId, Outcome, SessionId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A life of a node.
type Life = (NodeId, SessionId);

/// Counts of faults of nodes and links that actually occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Readout units that crashed.
    pub readout_crashes: u64,
    /// Builders that crashed.
    pub builder_crashes: u64,
    /// Output nodes that crashed.
    pub output_crashes: u64,
    /// Processors that were killed deliberately.
    pub processor_kills: u64,
    /// Nodes that stalled.
    pub stalls: u64,
    /// Stalls of all nodes together.
    pub freezes: u64,
    /// Programs that feed sources and had a fault.
    pub programs: u64,
    /// Links that were cut or clogged by plan.
    pub links: u64,
    /// Builders that received the message that their session has ended.
    pub fences: u64,
    /// Builder sessions that the event manager gave up.
    pub given_up: u64,
    /// Stops by the operator.
    pub stops: u64,
    /// Ends of the run because nodes that it requires were missing.
    pub requirement_stops: u64,
    /// Whether the run could not begin.
    pub failed_starts: u64,
    /// Nodes that were absent when the run began.
    pub absent_at_start: u64,
}

impl FaultCounts {
    /// Returns the number of planned faults, without their consequences.
    #[must_use]
    pub fn injected(&self) -> u64 {
        let crashes = self.readout_crashes + self.builder_crashes + self.output_crashes;
        crashes + self.processor_kills + self.programs + self.stalls + self.freezes + self.links + self.stops
    }
}

/// End of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Number of its fragments, as counted by its builder.
    pub fragments: u32,
    /// Whether it lacks a required source.
    pub incomplete: bool,
}

/// Record of a run in progress, and the first rule that it violated.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// First violated rule.
    pub violation: Option<Violation>,
    /// End of each event.
    pub ended: BTreeMap<EventId, Ending>,
    /// Books that readout units reported at the end.
    pub reported: BTreeMap<NodeId, Ledger>,
    /// Faults of nodes and links.
    pub faults: FaultCounts,
    /// Holds and pauses.
    pub operator: OperatorCounts,
    /// Sources of built events.
    pub(crate) built_sources: BuiltSources,
    /// Payload of stored events according to the reports of their ends.
    pub stored_bytes: ByteCount,
    /// Number of times that a source was held back.
    pub held_back: u64,
    /// Of these, those at readout units that the event manager did not take for lost.
    pub held_back_unforeseen: u64,
    /// Triggers that were offered during the run.
    pub offered: u64,
    /// Offered triggers that were vetoed.
    pub vetoes: u64,
    /// Events whose ids sources announced to readout units.
    pub announced: BTreeSet<EventId>,
    /// Signs of life between nodes.
    pub lives: LifeRecord,
    /// Current life of each readout unit.
    pub readout_lives: ReadoutRecords,
    /// Fragments of the sources that programs feed.
    pub feeds: FeedRecord,
    /// Builder units whose processors could not load their filter.
    pub(crate) declined: BTreeSet<NodeId>,
    /// Windows of hits that were requested.
    pub windows: WindowRecord,
    /// Run records of programs.
    pub records: RecordLog,
    /// Check values that disagree, and shifts.
    pub numbers: NumberRecord,
    /// Live and dead time, measured independently.
    pub live_time: Onlooker,
    /// Builder sessions begun.
    pub sessions: u64,
    /// Fragments that readout units took.
    pub taken: u64,
    /// Taken fragments of sources that the unit does not read.
    pub strangers: u64,
    /// Faults by node, with their first times.
    pub troubles: NodeFaults,
    /// Missing sources in built events, one by one.
    pub missing_at: Vec<MissingRecord>,
    /// Builders that were given up, with the time.
    pub given_up: Vec<(NodeId, Timestamp)>,
    /// Dropped events, with the time.
    pub dropped: BTreeMap<EventId, Timestamp>,
    /// Missing sources in built events.
    pub missing: BTreeMap<MissingReason, u64>,
    /// Parts of events that were judged.
    pub parts: u64,
    /// Whether a readout unit was silent in such a part.
    pub silent_in_parts: bool,
    /// Longest time from a trigger to its end.
    pub latency_max: Nanos,
    /// Verdicts of farms: each event has one in a builder's session.
    pub verdicts: BTreeSet<(NodeId, SessionId, EventId)>,
    /// Events in the order in which each builder session sent them to output nodes.
    pub handed: BTreeMap<(NodeId, SessionId), Vec<EventId>>,
    /// Position that each session of an output node has reached in that order.
    stored_up_to: BTreeMap<(Life, Life), usize>,
    /// Events without a verdict of a farm, which are stored regardless of the filter's decision.
    pub quarantined: BTreeSet<EventId>,
}

impl Watch {
    /// Records the violation of a rule. The first one counts; the run ends there.
    pub fn fail(&mut self, violation: impl Into<Violation>) {
        self.violation.get_or_insert_with(|| violation.into());
    }

    /// Returns the current life of a readout unit.
    pub(crate) fn readout_life(&mut self, node: NodeId) -> &mut ReadoutLife {
        self.readout_lives.entry(node).or_default()
    }

    /// Records that a readout unit has no room for a fragment.
    pub(crate) fn note_held_back(&mut self, now: Timestamp, options: &Options, readout: NodeId) {
        self.held_back += 1;
        // The room of a unit that is taken for lost does not hold triggers back.
        let may_be_lost = self.lives.may_be_lost(now, options, NodeId::MANAGER, readout);
        self.held_back_unforeseen += u64::from(!may_be_lost);
        self.troubles.full.entry(readout).or_insert(now);
    }

    /// Records that a readout unit has taken a fragment, and holds it from now on or has dropped it.
    pub(crate) fn see_fragment(&mut self, options: &Options, node: NodeId, planned: &Planned, is_held: bool) {
        let has_ended = self.ended.contains_key(&planned.event);
        self.readout_life(node).see_fragment(options, planned, is_held, has_ended);
        self.taken += 1;
        let is_stranger = planned.source.0 >= u32::from(options.source_count());
        self.strangers += u64::from(is_stranger);
        let is_right = !is_stranger && u64::from(planned.bytes) <= options.bounds.max_fragment.0;
        if let TriggerOptions::Announced { reference_only, .. } = options.triggers
            && is_right
            && !options.may_be_renumbered(planned.source)
            && !options.may_be_excluded(planned.source)
            && (!reference_only || planned.source.0 == 0)
        {
            self.announced.insert(planned.event);
        }
    }

    /// Records super-fragments that a readout unit sends.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_super_fragments(
        &mut self,
        options: &Options,
        readout: NodeId,
        answer: &SuperFragments<SimPayload>,
    ) -> Result<(), Violation> {
        self.readout_life(readout).see_answer(options, answer)?;
        if options.windows.is_some() {
            self.windows.check_answer(options, readout, answer)?;
        }
        Ok(())
    }

    pub(crate) fn see_built(
        &mut self,
        now: Timestamp,
        options: &Options,
        builder: NodeId,
        event: &Event<SimPayload>,
    ) {
        self.built_sources.see_built(event);
        if let Err(what) = check_event(options, event) {
            self.fail(format!("{builder} built event {}: {what}", event.id));
        }
        match check_marks(options, event) {
            Ok(()) => self.numbers.see_built(options, event),
            Err(what) => self.fail(format!("{builder} built event {}: {what}", event.id)),
        }
        for MissingSource { source, reason } in event.missing.iter().copied() {
            *self.missing.entry(reason).or_default() += 1;
            let readout = options.readout_of(source);
            if reason == MissingReason::ReadoutSilent
                && !self.lives.may_be_lost(now, options, builder, readout)
                && !options.was_excluded_for(readout, now)
            {
                self.fail(format!(
                    "{builder} has given up {readout} for event {} at {now}, and was not to judge it",
                    event.id
                ));
            }
            self.missing_at.push(MissingRecord { at: now, builder, event: event.id, source, reason });
        }
    }

    pub(crate) fn see_part(&mut self, options: &Options, builder: NodeId, part: &Event<SimPayload>) {
        self.parts += 1;
        if let Err(what) = check_part(options, part) {
            self.fail(format!("{builder} built a part of event {}: {what}", part.id));
        }
        self.silent_in_parts |=
            part.missing.iter().any(|missing| missing.reason == MissingReason::ReadoutSilent);
    }

    pub(crate) fn see_manager_event(&mut self, now: Timestamp, event: &ManagerEvent) {
        match event {
            ManagerEvent::Ended(ended) => self.see_ended(now, ended),
            ManagerEvent::BuilderLost { builder, .. } => {
                self.faults.given_up += 1;
                self.given_up.push((*builder, now));
            }
            ManagerEvent::StartDeclined { node } => {
                self.faults.failed_starts += 1;
                if !self.feeds.declined.contains(node) && !self.declined.contains(node) {
                    self.fail(format!("{node} is said to decline the start, and has not"));
                }
            }
            ManagerEvent::StartFailed { .. } => self.faults.failed_starts += 1,
            ManagerEvent::Started { absent } => {
                self.faults.absent_at_start += absent.len() as u64;
                self.troubles.absent.extend(absent.iter().copied());
            }
            ManagerEvent::Reported { node, books } => {
                self.reported.insert(*node, books.fragments.clone());
            }
            ManagerEvent::ReadoutRestarted { .. }
            | ManagerEvent::MirrorTookOver { .. }
            | ManagerEvent::MirrorLost { .. }
            | ManagerEvent::Deserted { .. }
            | ManagerEvent::GivenUp { .. }
            | ManagerEvent::OutputRestarted { .. }
            | ManagerEvent::SourceExcluded { .. }
            | ManagerEvent::SourceIncluded { .. }
            | ManagerEvent::NodeExcluded { .. }
            | ManagerEvent::RequirementUnmet { .. }
            | ManagerEvent::RequirementMet { .. }
            | ManagerEvent::Closed => {}
            ManagerEvent::ShiftFound(shift) => self.numbers.found.push(*shift),
            ManagerEvent::ShiftRepaired(shift) => self.numbers.repaired.push(*shift),
        }
    }

    /// Records a violation: the event manager never restarts here.
    pub(crate) fn see_manager_restart(&mut self, node: NodeId) {
        self.fail(format!("{node} believes that the event manager restarted"));
    }

    /// Checks what a readout unit knows when it closes. The channel has delivered everything before, unless the unit has lost its state.
    pub(crate) fn check_knows_pause(&mut self, session: SessionId, node: NodeId, knows: bool) {
        let Some(is_paused) = self.operator.ended_paused else { return };
        if session == SessionId(1) && self.faults.absent_at_start == 0 && knows != is_paused {
            self.fail(format!("the run ended paused: {is_paused}, and {node} was told: {knows}"));
        }
    }

    pub(crate) fn see_veto(&mut self, cause: DeadTimeCause) {
        self.vetoes += 1;
        if self.live_time.shut() != Some(cause) {
            self.fail(format!(
                "a trigger was vetoed because {cause}, and before it came the gate was {:?}",
                self.live_time.shut()
            ));
        }
    }

    /// The event manager has checked its peers: it has given up every builder that is lost.
    pub(crate) fn see_nobody_overdue(&mut self, now: Timestamp, options: &Options) {
        let overdue = self.lives.overdue(now, options);
        // One that has reported has nothing more to say.
        if let Some((builder, session)) = overdue.into_iter().find(|it| !self.reported.contains_key(&it.0)) {
            self.fail(format!("{builder}/{session} is lost at {now}, and is not given up"));
        }
    }

    /// Records that an output node begins to write an event. It must not belong to a builder session that the node knows to have
    /// ended, because its place would not count.
    pub(crate) fn see_taken_up(&mut self, output: NodeId, from: (NodeId, SessionId), event: EventId) {
        let (builder, session) = from;
        let latest = self.lives.latest_session(output, builder);
        if latest > session {
            self.fail(format!(
                "{output} writes event {event} of {builder}/{session}, and {builder}/{latest} has spoken to it"
            ));
        }
    }

    /// Checks that an output node stores the events of a builder in the order in which they were sent. With several output nodes,
    /// events of one that was given up are sent to others.
    pub(crate) fn see_order(
        &mut self,
        options: &Options,
        to: (NodeId, SessionId),
        from: (NodeId, SessionId),
        event: EventId,
    ) {
        let place = self.handed.get(&from).and_then(|events| events.iter().rposition(|it| *it == event));
        let Some(place) = place else {
            return self.fail(format!("{} stores event {event}, which {} has not given", to.0, from.0));
        };
        if let Some(before) = self.stored_up_to.insert((to, from), place)
            && before >= place
            && options.system.outputs == 1
        {
            self.fail(format!("{} stores event {event} of {} after later ones", to.0, from.0));
        }
    }

    fn see_ended(&mut self, now: Timestamp, ended: &Ended) {
        let Ended { outcome, fragments, incomplete, .. } = *ended;
        let ending = Ending { outcome, fragments, incomplete };
        for event in ended.events() {
            if let Some(before) = self.ended.insert(event, ending) {
                self.fail(format!("event {event} ended twice: {before:?}, then {ending:?}"));
            }
            if outcome == Outcome::GivenBack {
                self.fail(format!("event {event} ended as given back"));
            }
            if outcome == Outcome::Dropped {
                self.dropped.insert(event, now);
            }
        }
        if outcome == Outcome::Stored {
            self.stored_bytes += ended.bytes;
        }
        self.latency_max = self.latency_max.max(ended.latency);
    }

    /// Checks the bounds of a readout unit that [`sheaf_protocol::readout::ReadoutConfig`] promises.
    pub(crate) fn see_readout(&mut self, options: &Options, node: NodeId, unit: &ReadoutUnit<SimPayload>) {
        let (bytes, events) = unit.held();
        let sources = u64::from(options.system.sources_per_readout);
        let bounds = &options.bounds;
        let share = (2 * bounds.buffer.0 / sources).max(bounds.max_fragment.0);
        // What was requested of a source that gives on request is never refused.
        let bytes_max = sources * share + bounds.max_fragment.0 * self.windows.asked_of(node);
        if bytes.0 > bytes_max {
            self.fail(format!("{node} holds {events} events of {bytes}; its bound is {bytes_max} B"));
        }
    }

    /// Checks the bounds of a builder: its slots and its memory.
    pub(crate) fn see_builder(&mut self, options: &Options, node: NodeId, unit: &BuilderUnit<SimPayload>) {
        let (building, pending, bytes) = unit.held();
        let (slots, memory) = (options.bounds.slots as usize, options.bounds.memory);
        if building + pending > slots || bytes > memory {
            self.fail(format!(
                "{node} builds {building} events, {pending} wait for a decision, {bytes}; it has {slots} slots, {memory}"
            ));
        }
    }

    /// Checks the bound of events in flight with driven triggers: the queue, and the events assigned to builder sessions, live or
    /// dead.
    pub(crate) fn see_queue(&mut self, options: &Options, in_flight: u64) {
        let slots = u64::from(options.bounds.slots) * self.sessions;
        let bound = options.bounds.queue_events as u64 + slots;
        if in_flight > bound {
            self.fail(format!("{in_flight} events are in flight, {bound} may be"));
        }
    }

    /// Records a run record at a node that writes event files.
    pub(crate) fn see_record(&mut self, writer: (NodeId, SessionId), record: &Arc<RunRecord>) {
        if let Err(what) = self.records.see_stored(writer, record) {
            self.fail(what);
        }
    }

    /// Checks that a machine that has handled a deadline has no other at the same instant, so that its driver does not spin.
    pub(crate) fn see_no_spin(&mut self, node: NodeId, now: Timestamp, deadline: Option<Deadline>) {
        if let Some(deadline) = deadline
            && deadline.at <= now
        {
            self.fail(format!(
                "{node} spins at {now}: it has done what was due and is still due for {}",
                deadline.why
            ));
        }
    }
}
