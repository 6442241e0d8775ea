//! Next request to the event manager: ended events, and credit for new ones.

use super::BuilderConfig;
use super::assembly::Assembly;
use crate::output::StoragePlace;
use crate::output::places::note_kept;
use sheaf_wire::message::{AbsentReadout, Finished, Readiness, Request, Work};
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
    /// Room of events that were given back for lack of memory. It is granted again when another event has ended, so that
    /// events that do not fit are not tried again in the meantime.
    withheld: Room,
    /// Credit that the assigned events have used, in bytes.
    charged: ByteCount,
    batch_events: usize,
    batch_time: Nanos,
    heartbeat: Nanos,
}

impl Returns {
    /// Creates a first request for all slots, due at `now`.
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

    /// Records whether the output delays the builder.
    pub(super) fn note_output(&mut self, now: Timestamp, behind: bool) {
        if self.request.output_behind != behind {
            self.request.output_behind = behind;
            self.request_at.get_or_insert(now + self.batch_time);
        }
    }

    /// Records the work in progress on built events.
    pub(super) fn note_work(&mut self, work: Work) {
        self.request.work = work;
    }

    /// Records whether events can be judged. A change is reported at once.
    pub(super) fn note_readiness(&mut self, now: Timestamp, readiness: Readiness) {
        if self.request.readiness != readiness {
            self.request.readiness = readiness;
            self.hurry(now);
        }
    }

    /// Records an event that an output node has stored.
    pub(super) fn note_kept(&mut self, place: StoragePlace) {
        note_kept(&mut self.request.kept, place);
    }

    /// Adds an ended event and its credit to the next request. Returns the bytes that it held.
    // Called for every event: a function call would be a noticeable part of its cost.
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
        // In the same message as the end of the event: the event manager informs readout units when it receives the
        // end.
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

    /// Records the credit that the event manager has charged for an assigned event.
    #[inline]
    pub(super) fn charge(&mut self, charged: u32) {
        self.charged += ByteCount(u64::from(charged));
    }

    /// Returns the memory for which the event manager has no credit: charged for assigned events, or withheld.
    pub(super) fn taken(&self) -> ByteCount {
        self.charged + self.withheld.bytes
    }

    /// Returns the room that is withheld for lack of memory.
    pub(super) fn withheld(&self) -> Room {
        self.withheld
    }

    /// Takes room out of the next request, until another event has ended.
    pub(super) fn withhold(&mut self, room: Room) {
        self.withheld = room;
        self.request.slots -= room.slots;
        self.request.bytes -= room.bytes;
    }

    /// Makes the next request due at once.
    pub(super) fn hurry(&mut self, now: Timestamp) {
        self.request_at = Some(now);
    }

    /// Ends the heartbeats. Returns that are pending are still sent.
    pub(super) fn close(&mut self) {
        self.heartbeat_at = None;
    }

    /// Returns the times at which the next request is due for its content and as a heartbeat.
    pub(super) fn due_at(&self) -> [Option<Timestamp>; 2] {
        [self.request_at, self.heartbeat_at]
    }

    /// Returns whether the next request is due because of its content.
    fn is_content_due(&self, now: Timestamp, idle: bool) -> bool {
        let finished = self.request.finished.len();
        let is_full = finished >= self.batch_events || (idle && finished > 0);
        is_full || self.request_at.is_some_and(|at| at <= now)
    }

    fn is_heartbeat_due(&self, now: Timestamp) -> bool {
        self.heartbeat_at.is_some_and(|at| at <= now)
    }

    /// Returns whether the next request is due only as a heartbeat.
    pub(super) fn is_mere_heartbeat(&self, now: Timestamp, idle: bool) -> bool {
        self.is_heartbeat_due(now) && !self.is_content_due(now, idle)
    }

    /// Skips the next heartbeat because another message replaces it.
    pub(super) fn skip_heartbeat(&mut self, now: Timestamp) {
        self.heartbeat_at = self.heartbeat_at.map(|_| now + self.heartbeat);
    }

    /// Makes the next heartbeat due at once.
    pub(super) fn send_heartbeat_at_once(&mut self, now: Timestamp) {
        self.heartbeat_at = self.heartbeat_at.map(|at| at.min(now));
    }

    /// Takes the next request if it is due. A builder that is `idle` does not wait for more events to return.
    pub(super) fn next(&mut self, now: Timestamp, idle: bool) -> Option<Request> {
        if !self.is_content_due(now, idle) && !self.is_heartbeat_due(now) {
            return None;
        }
        let finished = self.request.finished.len();
        self.request_at = None;
        self.heartbeat_at = self.heartbeat_at.map(|_| now + self.heartbeat);
        let Request { output_behind, work, readiness, .. } = self.request;
        // Same capacity as before, so that the list does not grow in a steady state.
        let finished = Vec::with_capacity(finished);
        let next = Request { output_behind, work, readiness, finished, ..Request::default() };
        let mut request = std::mem::replace(&mut self.request, next);
        if readiness == Readiness::Loading {
            // Granted with the first request after the workers have loaded their filters. Meanwhile events go to others.
            self.request.slots = std::mem::take(&mut request.slots);
            self.request.bytes = std::mem::take(&mut request.bytes);
        }
        Some(request)
    }
}
