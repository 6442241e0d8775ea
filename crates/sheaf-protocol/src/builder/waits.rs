//! Waits for the answers of readout units.

use super::BuilderConfig;
use super::assembly::{Assemblies, AssemblyKey};
use crate::event_range::EventIdRange;
use crate::machine::{Deadline, EventDeadlines, Why};
use sheaf_wire::message::EventRange;
use sheaf_wire::{EventId, Nanos, Payload, Timestamp};

/// Attempt and part of an event whose answers are awaited.
type Wait = (u16, u16);

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Times of the next check whether the readout units that an event waits for are alive.
    lives: EventDeadlines<Wait>,
    /// Times at which the builder repeats its requests.
    answers: EventDeadlines<Wait>,
    /// Interval of liveness checks.
    life_interval: Nanos,
    retry: Nanos,
}

impl Waits {
    pub(super) fn new(config: &BuilderConfig) -> Self {
        Self {
            lives: EventDeadlines::new(),
            answers: EventDeadlines::new(),
            life_interval: config.event_timeout,
            retry: config.request_retry,
        }
    }

    /// Begins to wait for the answers of consecutive whole events: schedules their liveness checks and retries.
    pub(super) fn begin_all<P: Payload>(
        &mut self,
        now: Timestamp,
        events: &EventRange,
        assemblies: &Assemblies<P>,
    ) {
        let wait = (events.attempt, 0);
        let events = super::to_ids(events);
        self.limit_life(now, events, wait, assemblies);
        self.limit_silence(now, events, wait, assemblies);
    }

    /// Begins to wait for the answers of one event, or of the part of it that is under construction.
    pub(super) fn begin<P: Payload>(&mut self, now: Timestamp, key: AssemblyKey, assemblies: &Assemblies<P>) {
        self.check_life_again(now, key, assemblies);
        self.retry_again(now, key, assemblies);
    }

    /// Schedules the next liveness check of the readout units that an event waits for.
    pub(super) fn check_life_again<P: Payload>(
        &mut self,
        now: Timestamp,
        key: AssemblyKey,
        assemblies: &Assemblies<P>,
    ) {
        self.limit_life(now, EventIdRange::one(key.event), key.wait(), assemblies);
    }

    /// Schedules the next retry of the requests that an event waits for.
    pub(super) fn retry_again<P: Payload>(
        &mut self,
        now: Timestamp,
        key: AssemblyKey,
        assemblies: &Assemblies<P>,
    ) {
        self.limit_silence(now, EventIdRange::one(key.event), key.wait(), assemblies);
    }

    fn limit_life<P: Payload>(
        &mut self,
        now: Timestamp,
        events: EventIdRange,
        wait: Wait,
        assemblies: &Assemblies<P>,
    ) {
        let count_over = |events, wait| assemblies.count_answered(events, wait);
        self.lives.push(now + self.life_interval, events, wait, count_over);
    }

    fn limit_silence<P: Payload>(
        &mut self,
        now: Timestamp,
        events: EventIdRange,
        wait: Wait,
        assemblies: &Assemblies<P>,
    ) {
        let count_over = |events, wait| assemblies.count_answered(events, wait);
        self.answers.push(now + self.retry, events, wait, count_over);
    }

    /// Returns the next event whose liveness check is due.
    pub(super) fn pop_life_check<P: Payload>(
        &mut self,
        now: Timestamp,
        assemblies: &Assemblies<P>,
    ) -> Option<EventId> {
        let (event, _) = self.lives.pop_due(now, |events, wait| assemblies.count_answered(events, wait))?;
        Some(event)
    }

    /// Returns the next event whose retry is due.
    pub(super) fn pop_retry<P: Payload>(
        &mut self,
        now: Timestamp,
        assemblies: &Assemblies<P>,
    ) -> Option<EventId> {
        let (event, _) = self.answers.pop_due(now, |events, wait| assemblies.count_answered(events, wait))?;
        Some(event)
    }

    /// Returns the times of the next liveness check and the next retry.
    pub(super) fn deadlines<P: Payload>(&mut self, assemblies: &Assemblies<P>) -> [Option<Deadline>; 2] {
        let count_over = |events, wait| assemblies.count_answered(events, wait);
        let (life, answer) = (self.lives.peek(count_over), self.answers.peek(count_over));
        [
            life.map(|(at, event, _)| Deadline { at, why: Why::EventTimeout(event) }),
            answer.map(|(at, event, _)| Deadline { at, why: Why::RequestRetry(event) }),
        ]
    }
}
