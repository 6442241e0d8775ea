//! Next request to the event manager: events that are over, and credit for others.

use super::BuilderConfig;
use super::assembly::Assembly;
use crate::output::StoragePlace;
use crate::output::places::note_kept;
use sheaf_wire::message::{AbsentReadout, Finished, Request, Work};
use sheaf_wire::{ByteCount, DropReason, Nanos, Outcome, Timestamp};

/// Slots and bytes for events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) slots: u32,
    pub(super) bytes: ByteCount,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Returns {
    /// Next request under construction.
    request: Request,
    request_at: Option<Timestamp>,
    /// Time of the next heartbeat. `None` after the run has closed.
    heartbeat_at: Option<Timestamp>,
    /// Room of events that went back for lack of memory: granted anew when another event here has ended, so that what did not
    /// fit is not tried again and again meanwhile.
    withheld: Room,
    /// Credit that the events here have taken, in bytes.
    charged: ByteCount,
    batch_events: usize,
    batch_time: Nanos,
    heartbeat: Nanos,
}

impl Returns {
    /// A first request for all slots, at `now`.
    pub(super) fn new(config: &BuilderConfig, now: Timestamp) -> Self {
        Self {
            request: Request { slots: config.slots, bytes: config.memory, ..Request::default() },
            request_at: Some(now),
            heartbeat_at: Some(now),
            withheld: Room::default(),
            charged: ByteCount::ZERO,
            batch_events: config.batch_events,
            batch_time: config.batch_time,
            heartbeat: config.heartbeat,
        }
    }

    /// Takes note of whether the output holds the builder up.
    pub(super) fn note_output(&mut self, now: Timestamp, behind: bool) {
        if self.request.output_behind != behind {
            self.request.output_behind = behind;
            self.request_at.get_or_insert(now + self.batch_time);
        }
    }

    /// Takes note of the work that is under way on built events.
    pub(super) fn note_work(&mut self, work: Work) {
        self.request.work = work;
    }

    /// Takes note of an event that an output node has stored.
    pub(super) fn note_kept(&mut self, place: StoragePlace) {
        note_kept(&mut self.request.kept, place);
    }

    /// Takes an event that is over into the next request, and gives its credit back with it: there is room for another. Returns what
    /// it held. Every event comes along here: a call would cost as much as a part of it.
    #[inline(always)]
    pub(super) fn finish<P>(
        &mut self,
        now: Timestamp,
        assembly: &mut Assembly<P>,
        outcome: Outcome,
        reason: Option<DropReason>,
    ) -> ByteCount {
        let request = &mut self.request;
        let event = assembly.event;
        let charged = ByteCount(u64::from(assembly.charged));
        request.slots += 1;
        request.bytes += charged;
        self.charged -= charged;
        // Sent in the same message as the end of the event, not before: the event manager informs readout
        // units when it receives the end.
        if !assembly.absent.is_empty() {
            let absent = |(readout, parts)| AbsentReadout { event, readout, parts };
            request.absent.extend(assembly.absent.drain(..).map(absent));
        }
        request.finished.push(Finished {
            event,
            attempt: assembly.attempt,
            outcome,
            reason,
            bytes: assembly.bytes,
            fragments: assembly.fragment_count,
            missing: assembly.missing_count,
            incomplete: assembly.incomplete,
        });
        if self.withheld.slots > 0 {
            request.slots += std::mem::take(&mut self.withheld.slots);
            request.bytes += std::mem::take(&mut self.withheld.bytes);
        }
        self.request_at.get_or_insert(now + self.batch_time);
        assembly.bytes
    }

    /// Takes note of an event that was assigned, and of what the event manager has charged for it.
    #[inline]
    pub(super) fn charge(&mut self, charged: u32) {
        self.charged += ByteCount(u64::from(charged));
    }

    /// Memory for which the event manager has no credit: it is charged for events here, or withheld.
    pub(super) fn taken(&self) -> ByteCount {
        self.charged + self.withheld.bytes
    }

    /// Room that is withheld for lack of memory.
    pub(super) fn withheld(&self) -> Room {
        self.withheld
    }

    /// Takes room out of the next request, until another event has ended.
    pub(super) fn withhold(&mut self, room: Room) {
        self.withheld = room;
        self.request.slots -= room.slots;
        self.request.bytes -= room.bytes;
    }

    /// Has the next request sent at once.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.request_at = Some(now);
    }

    /// Ends the heartbeats. Returns that are pending are still sent.
    pub(super) fn close(&mut self) {
        self.heartbeat_at = None;
    }

    /// When a request is due for its events, and when for a heartbeat.
    pub(super) fn due_at(&self) -> [Option<Timestamp>; 2] {
        [self.request_at, self.heartbeat_at]
    }

    /// Returns whether the next request is due because it carries new information.
    fn has_news(&self, now: Timestamp, idle: bool) -> bool {
        let finished = self.request.finished.len();
        let is_full = finished >= self.batch_events || (idle && finished > 0);
        is_full || self.request_at.is_some_and(|at| at <= now)
    }

    fn is_heartbeat_due(&self, now: Timestamp) -> bool {
        self.heartbeat_at.is_some_and(|at| at <= now)
    }

    /// Returns whether the next request is due only as a heartbeat.
    pub(super) fn is_mere_heartbeat(&self, now: Timestamp, idle: bool) -> bool {
        self.is_heartbeat_due(now) && !self.has_news(now, idle)
    }

    /// Skips the next heartbeat because another message replaces it.
    pub(super) fn skip_heartbeat(&mut self, now: Timestamp) {
        self.heartbeat_at = self.heartbeat_at.map(|_| now + self.heartbeat);
    }

    /// Makes the next heartbeat due at once.
    pub(super) fn speak_at_once(&mut self, now: Timestamp) {
        self.heartbeat_at = self.heartbeat_at.map(|at| at.min(now));
    }

    /// The next request, if it is due. A builder that is `idle` does not wait for more events to return.
    pub(super) fn next(&mut self, now: Timestamp, idle: bool) -> Option<Request> {
        if !self.has_news(now, idle) && !self.is_heartbeat_due(now) {
            return None;
        }
        let finished = self.request.finished.len();
        self.request_at = None;
        self.heartbeat_at = self.heartbeat_at.map(|_| now + self.heartbeat);
        let Request { output_behind, work, .. } = self.request;
        // Room for as many events as there were: in a steady state the list never grows.
        let finished = Vec::with_capacity(finished);
        let next = Request { output_behind, work, finished, ..Request::default() };
        Some(std::mem::replace(&mut self.request, next))
    }
}
