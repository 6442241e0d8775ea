//! State of the builders at the event manager: their sessions, their credit, and the order in which they receive events.

use super::builder_node;
use super::credit::Credit;
use super::entry::Entry;
use super::suspects::Suspects;
use crate::liveness::Patience;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Readiness, Request, Work};
use sheaf_wire::{ByteCount, NodeId, SessionId, Timestamp};
use std::collections::BTreeMap;

/// One builder in its current session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct BuilderState {
    credit: Credit,
    /// Current session. `None` before its first message.
    session: Option<SessionId>,
    /// The latest session given up.
    fenced: Option<SessionId>,
    /// Events of this session booked as stored.
    committed: u64,
    outstanding: usize,
    suspects: Suspects,
    /// Whether its output delays it.
    output_behind: bool,
    /// Work in progress on the events that it has built.
    work: Work,
    /// Whether its events can be judged. `None` before its first request.
    readiness: Option<Readiness>,
    /// Time at which it last ended an event, or received one after it had none.
    moved_at: Timestamp,
    reported: bool,
    /// Whether an operator has excluded it, for all its sessions.
    excluded: bool,
}

impl BuilderState {
    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    pub(super) fn lives(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the number of its events.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn is_output_behind(&self) -> bool {
        self.lives() && self.output_behind
    }

    /// Returns the work in progress on built events, by its last request.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Returns whether it has workers that load their filters, by its last request.
    pub(super) fn is_loading(&self) -> bool {
        self.lives() && self.readiness == Some(Readiness::Loading)
    }

    /// Returns the time at which it last ended an event, or received one after it had none.
    pub(super) fn moved_at(&self) -> Timestamp {
        self.moved_at
    }

    pub(super) fn has_reported(&self) -> bool {
        self.reported
    }

    /// Returns whether this event, which may be a suspect, may be assigned to it.
    pub(super) fn may_take(&self, entry: &Entry) -> bool {
        self.suspects.may_take(entry)
    }

    /// Returns whether it has ended no event for a long time. Its suspects may wait for fragments that a full readout unit
    /// accepts only after an older event was released, while that older event waits for the suspects to end. Then the older
    /// event is assigned to it beside them.
    pub(super) fn is_stuck(&self, now: Timestamp, patience: Patience) -> bool {
        now.since(self.moved_at) >= patience.absence
    }
}

/// A session that has ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct EndedSession {
    pub(super) session: SessionId,
    /// Number of its events that are booked as stored.
    pub(super) committed: u64,
}

/// Events in a builder's report.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReportedEvents {
    /// Number of events that the builder had and has returned.
    pub(super) returned: usize,
    /// Number of events that it reports as stored.
    pub(super) stored: u64,
    /// Whether some of the returned events have ended: the builder makes progress.
    pub(super) some_ended: bool,
}

/// See the [module](self).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Builders {
    states: Vec<BuilderState>,
    /// Index of the builder that receives the next events.
    turn: usize,
    /// Whether builders that an operator has excluded get no events, because another one lives.
    some_aside: bool,
    /// Mean size of an event, which is charged to the credit.
    mean_event: Option<u64>,
    /// Number of events stored by each session that has ended.
    past: BTreeMap<(NodeId, SessionId), u64>,
}

impl Builders {
    pub(super) fn new(count: u16, expected_event: Option<ByteCount>) -> Self {
        Self {
            states: (0..count).map(|_| BuilderState::default()).collect(),
            turn: 0,
            some_aside: false,
            mean_event: expected_event.map(|bytes| bytes.0),
            past: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn get(&self, builder: u16) -> &BuilderState {
        &self.states[usize::from(builder)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &BuilderState)> {
        self.states.iter().enumerate().map(|(index, state)| (builder_node(index), state))
    }

    /// Returns the only builder that satisfies `matches`. `None` if there is none or several.
    pub(super) fn the_only(&self, matches: impl Fn(&BuilderState) -> bool) -> Option<NodeId> {
        super::the_only(&self.states, matches).map(builder_node)
    }

    /// Returns whether a living builder that is not `lost` waits for workers that load their filters, by its last request, or may
    /// wait: another message arrived before its first request.
    pub(super) fn some_wait(&self, lost: impl Fn(NodeId) -> bool) -> bool {
        let waits = |state: &BuilderState| state.is_loading() || (state.lives() && state.readiness.is_none());
        self.iter().any(|(node, state)| waits(state) && !lost(node))
    }

    /// Returns the builders that wait for workers that load their filters, by their last request.
    pub(super) fn loading(&self) -> impl Iterator<Item = NodeId> {
        self.iter().filter(|(_, state)| state.is_loading()).map(|(node, _)| node)
    }

    /// Returns the living builders whose workers cannot load their filters.
    pub(super) fn declining(&self) -> impl Iterator<Item = NodeId> {
        let declines = |state: &BuilderState| state.lives() && state.readiness == Some(Readiness::Failed);
        self.iter().filter(move |(_, state)| declines(state)).map(|(node, _)| node)
    }

    /// Returns the builder whose turn it is, and advances the turn.
    pub(super) fn next_in_turn(&mut self) -> u16 {
        let builder = self.turn;
        self.turn = (builder + 1) % self.states.len();
        super::index_u16(builder)
    }

    /// Records that an operator has excluded a builder, or has included it again.
    pub(super) fn set_aside(&mut self, builder: u16, excluded: bool) {
        self.states[usize::from(builder)].excluded = excluded;
        self.compare();
    }

    /// Takes note of the builders that live.
    fn compare(&mut self) {
        let excluded = self.states.iter().any(|state| state.excluded);
        self.some_aside = excluded && self.states.iter().any(|state| state.lives() && !state.excluded);
    }

    /// Returns whether a builder is alive and may be assigned events. One that is excluded may, if no other one lives.
    pub(super) fn takes_events(&self, state: &BuilderState) -> bool {
        state.lives() && !(state.excluded && self.some_aside)
    }

    /// Returns whether one of the `wanted` builders may be assigned events and has credit for another one.
    pub(super) fn some_have_credit(&self, wanted: impl Fn(NodeId) -> bool) -> bool {
        self.iter().any(|(node, state)| {
            self.takes_events(state)
                && state.credit.offer(self.mean_event, state.outstanding).is_some()
                && wanted(node)
        })
    }

    /// Returns the charge of each of the next events at a builder, and the number of events for which it has credit.
    pub(super) fn offer_many(&self, builder: u16) -> Option<(u32, u64)> {
        let state = self.get(builder);
        state.credit.offer_many(self.mean_event, state.outstanding)
    }

    /// Records events that are assigned to a builder, with the charge of each to its credit.
    pub(super) fn give(&mut self, now: Timestamp, builder: u16, charged: u32, events: usize) {
        let state = &mut self.states[usize::from(builder)];
        state.credit.take(charged, events as u64);
        if state.outstanding == 0 {
            state.moved_at = now;
        }
        state.outstanding += events;
    }

    /// Records that a returned event is assigned to a builder. It may be a suspect.
    pub(super) fn add_suspect(&mut self, builder: u16, entry: &Entry) {
        self.states[usize::from(builder)].suspects.add(entry);
    }

    /// Records that a builder has returned an event. It may be a suspect.
    #[inline]
    pub(super) fn remove_suspect(&mut self, builder: u16, entry: &Entry) {
        self.states[usize::from(builder)].suspects.remove(entry);
    }

    /// Records the credit, output state and work of a builder's request.
    pub(super) fn note_request(&mut self, builder: u16, request: &Request) {
        let state = &mut self.states[usize::from(builder)];
        state.credit.grant(request.slots, request.bytes);
        (state.output_behind, state.work) = (request.output_behind, request.work);
        state.readiness = Some(request.readiness);
    }

    /// Records a builder's report of events.
    pub(super) fn take_back(&mut self, now: Timestamp, builder: u16, events: ReportedEvents) {
        let ReportedEvents { returned, stored, some_ended } = events;
        let state = &mut self.states[usize::from(builder)];
        // Every report counts, even for an event that was reassigned in the meantime: the order of a session's output is
        // the order of its reports.
        state.committed += stored;
        state.outstanding -= returned;
        if some_ended {
            state.moved_at = now;
        }
    }

    pub(super) fn note_report(&mut self, builder: u16) {
        self.states[usize::from(builder)].reported = true;
    }

    /// Updates the running mean of event sizes, over about 16 events.
    #[inline]
    pub(super) fn learn_size(&mut self, bytes: ByteCount) {
        let mean = self.mean_event.unwrap_or(bytes.0);
        self.mean_event = Some(mean - mean / 16 + bytes.0 / 16);
    }

    #[cfg(test)]
    pub(super) fn mean_event(&self) -> Option<u64> {
        self.mean_event
    }

    /// Returns whether a node is a builder whose session was given up.
    pub(super) fn is_fenced(&self, node: NodeId, session: SessionId) -> bool {
        let state =
            self.states.get(usize::from(node.index)).filter(|_| node.role == sheaf_wire::Role::Builder);
        state.and_then(|state| state.fenced).is_some_and(|fenced| session <= fenced)
    }

    /// Begins a builder's session. The previous one has ended.
    pub(super) fn begin_session(&mut self, builder: u16, session: SessionId) {
        let state = &mut self.states[usize::from(builder)];
        let BuilderState { fenced, excluded, .. } = *state;
        *state = BuilderState { session: Some(session), fenced, excluded, ..BuilderState::default() };
        self.compare();
    }

    /// Ends a builder's session, if it has one, and fences it.
    pub(super) fn end_session(&mut self, builder: u16) -> Option<EndedSession> {
        let state = &mut self.states[usize::from(builder)];
        let session = state.session?;
        let committed = state.committed;
        let BuilderState { reported, excluded, .. } = *state;
        *state = BuilderState { fenced: Some(session), reported, excluded, ..BuilderState::default() };
        self.compare();
        self.past.insert((NodeId::builder(builder), session), committed);
        Some(EndedSession { session, committed })
    }

    /// Returns the slots and bytes that a living builder has granted and that no event has taken.
    pub(super) fn credit(&self, builder: u16) -> Option<(u64, ByteCount)> {
        let state = self.states.get(usize::from(builder)).filter(|state| state.lives())?;
        Some(state.credit.rest())
    }

    /// Returns the number of events of each session that are booked as stored, including living sessions.
    pub(super) fn committed(&self) -> BTreeMap<(NodeId, SessionId), u64> {
        let mut sessions = self.past.clone();
        let living = |(node, state): (NodeId, &BuilderState)| Some(((node, state.session?), state.committed));
        sessions.extend(self.iter().filter_map(living));
        sessions
    }
}
