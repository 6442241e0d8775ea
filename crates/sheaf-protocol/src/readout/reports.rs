//! Reports of a readout unit to the event manager: new events, and its status.

use super::config::ReadoutConfig;
use sheaf_wire::message::{Announcement, Body, Exclusion, ReadoutStatus, Renumbered};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reports {
    announcements: VecDeque<Announcement>,
    renumbered: VecDeque<Renumbered>,
    excluded: VecDeque<Exclusion>,
    /// Maximum number of events announced in one message.
    message_events: usize,
    /// When the status is due; `None` after the run has closed.
    status_at: Option<Timestamp>,
    /// Whether all events of which there was a fragment were announced before the next status, for another run to follow.
    has_divided: bool,
    /// Whether no status has said so.
    owes_division: bool,
    heartbeat: Nanos,
}

impl Reports {
    /// Creates the reports. The first status is due at `now`.
    pub(super) fn new(config: &ReadoutConfig, now: Timestamp) -> Self {
        Self {
            announcements: VecDeque::new(),
            renumbered: VecDeque::new(),
            excluded: VecDeque::new(),
            message_events: config.request_events,
            status_at: Some(now),
            has_divided: false,
            owes_division: false,
            heartbeat: config.heartbeat,
        }
    }

    pub(super) fn announce(&mut self, announcement: Announcement) {
        self.announcements.push_back(announcement);
    }

    /// Reports the first fragment of a source with another number.
    pub(super) fn renumbered(&mut self, answer: Renumbered) {
        self.renumbered.push_back(answer);
    }

    /// Reports the first event without a source, or with it again.
    pub(super) fn excluded(&mut self, answer: Exclusion) {
        self.excluded.push_back(answer);
    }

    /// Makes the status due at `at` at the latest.
    pub(super) fn report_at(&mut self, at: Timestamp) {
        self.status_at = self.status_at.map(|_| at);
    }

    /// Makes a status due at `now`. It says that all events of which there is a fragment were announced: it follows them.
    pub(super) fn divide(&mut self, now: Timestamp) {
        (self.has_divided, self.owes_division) = (true, true);
        self.report_at(now);
    }

    /// Returns whether a status is due that may not be left out.
    pub(super) fn owes_division(&self) -> bool {
        self.owes_division
    }

    /// Ends the status reports. Pending announcements are still sent.
    pub(super) fn close(&mut self) {
        self.status_at = None;
    }

    /// Returns when the next message is due, unless it is due at once.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        let answers = self.renumbered.len() + self.excluded.len();
        self.status_at.filter(|_| self.announcements.is_empty() && answers == 0)
    }

    /// Returns whether only the status is due.
    pub(super) fn is_status_due(&self, now: Timestamp) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }

    /// Postpones the status report to the next interval.
    pub(super) fn skip_status(&mut self, now: Timestamp) {
        self.status_at = self.status_at.map(|_| now + self.heartbeat);
    }

    /// Returns the next message that is due.
    pub(super) fn next<P>(
        &mut self,
        now: Timestamp,
        status: impl FnOnce() -> ReadoutStatus,
    ) -> Option<Body<P>> {
        if let Some(answer) = self.renumbered.pop_front() {
            return Some(Body::Renumbered(answer));
        }
        if let Some(answer) = self.excluded.pop_front() {
            return Some(Body::Excluded(answer));
        }
        if !self.announcements.is_empty() {
            let count = self.announcements.len().min(self.message_events);
            return Some(Body::Announce(self.announcements.drain(..count).collect()));
        }
        self.status_at.filter(|at| *at <= now)?;
        self.status_at = Some(now + self.heartbeat);
        self.owes_division = false;
        Some(Body::ReadoutStatus(ReadoutStatus { has_divided: self.has_divided, ..status() }))
    }
}
