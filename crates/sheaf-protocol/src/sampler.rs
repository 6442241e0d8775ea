//! Selection of accepted events for each consumer: a bounded sample, so that consumers never slow down the run.
//!
//! A consumer joins with a [`Selection`]: tags, a prescale and a maximum rate. For every accepted event, [`Sampler::offer`] returns
//! the consumers that get it. The [`Bounds`] are set by the run: the size of a consumer's queue, its maximum rate, and the
//! maximum rate of bytes copied for all consumers together. Every event that a consumer did not get is in one of its [`Counts`],
//! so that its sample can be scaled to the whole run.
//!
//! The sampler holds no events and no queues: its driver reports events that leave a consumer's queue
//! ([`Sampler::left_queue`]). It reads no clock, and allocates only when a consumer joins.

pub use sheaf_wire::tap::{Counts, Selection};
use sheaf_wire::verdict::Tags;
use sheaf_wire::{ByteCount, ByteRate, Nanos, Timestamp};

/// Tolerance of a rate: an event may be early by this time. Events arrive in batches; with a smaller tolerance, a consumer
/// would get one event of each batch and not reach its rate.
const BURST: Nanos = Nanos::from_millis(100);

/// Bounds that the run sets for every consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of events that wait for one consumer.
    pub queue_events: u64,
    /// Maximum number of bytes that wait for one consumer.
    pub queue_bytes: ByteCount,
    /// Minimum average interval between events for each consumer; zero: no limit.
    pub interval: Nanos,
    /// Maximum rate of bytes copied for consumers; `None`: no limit. An event that goes to several is copied once.
    pub copy_rate: Option<ByteRate>,
}

/// A consumer, identified by a number assigned by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u32);

/// A rate limit, stored as one instant: the time at which the next event would be due at an even rate.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    due: Timestamp,
}

impl Pace {
    fn has_room(self, now: Timestamp) -> bool {
        self.due.since(now) <= BURST
    }

    fn take(&mut self, now: Timestamp, span: Nanos) {
        self.due = self.due.max(now) + span;
    }
}

#[derive(Debug)]
struct Consumer {
    id: ConsumerId,
    selection: Selection,
    interval: Nanos,
    pace: Pace,
    /// Number of matching events until the next one that passes the prescale.
    until_next: u32,
    waiting_events: u64,
    waiting_bytes: u64,
    counts: Counts,
}

/// Decides which consumers get which events.
#[derive(Debug)]
pub struct Sampler {
    bounds: Bounds,
    consumers: Vec<Consumer>,
    budget: Pace,
    chosen: Vec<ConsumerId>,
}

impl Sampler {
    /// Creates a sampler without consumers.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, consumers: Vec::new(), budget: Pace::default(), chosen: Vec::new() }
    }

    /// Adds a consumer. If it has joined already, its state is reset with the new selection.
    pub fn join(&mut self, id: ConsumerId, selection: Selection) {
        self.leave(id);
        let interval = selection.interval.max(self.bounds.interval);
        let consumer = Consumer {
            id,
            selection,
            interval,
            pace: Pace::default(),
            until_next: 1,
            waiting_events: 0,
            waiting_bytes: 0,
            counts: Counts::default(),
        };
        self.consumers.push(consumer);
        self.chosen.reserve(self.consumers.len());
    }

    /// Removes a consumer. Returns its counts, if it had joined.
    pub fn leave(&mut self, id: ConsumerId) -> Option<Counts> {
        let at = self.consumers.iter().position(|consumer| consumer.id == id)?;
        Some(self.consumers.remove(at).counts)
    }

    /// Returns the number of consumers.
    #[must_use]
    pub fn consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Returns the counts of a consumer, if it has joined.
    #[must_use]
    pub fn counts(&self, id: ConsumerId) -> Option<Counts> {
        self.consumers.iter().find(|consumer| consumer.id == id).map(|consumer| consumer.counts)
    }

    /// Offers an accepted event with these tags, which would take `bytes` in a queue. Returns the consumers that get it, in the
    /// order in which they joined; it counts as waiting in their queues.
    pub fn offer(&mut self, now: Timestamp, tags: Tags, bytes: ByteCount) -> &[ConsumerId] {
        self.chosen.clear();
        let (bounds, within_budget) = (self.bounds, self.budget.has_room(now));
        for consumer in &mut self.consumers {
            if consumer.wants(now, tags, bytes, &bounds) {
                if within_budget {
                    consumer.take(now, bytes);
                    self.chosen.push(consumer.id);
                } else {
                    consumer.counts.over_budget += 1;
                }
            }
        }
        if let Some(rate) = self.bounds.copy_rate.filter(|_| !self.chosen.is_empty()) {
            self.budget.take(now, rate.time_for(bytes));
        }
        &self.chosen
    }

    /// Records events and bytes that have left a consumer's queue since the last call.
    pub fn left_queue(&mut self, id: ConsumerId, events: u64, bytes: ByteCount) {
        if let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.id == id) {
            debug_assert!(consumer.waiting_events >= events, "only waiting events can leave a queue");
            consumer.waiting_events = consumer.waiting_events.saturating_sub(events);
            consumer.waiting_bytes = consumer.waiting_bytes.saturating_sub(bytes.0);
        }
    }
}

impl Consumer {
    /// Returns whether this consumer gets the event. If not, counts the reason.
    fn wants(&mut self, now: Timestamp, tags: Tags, bytes: ByteCount, bounds: &Bounds) -> bool {
        self.counts.seen += 1;
        if !self.selection.tags.is_empty() && !self.selection.tags.intersects(tags) {
            self.counts.other_tags += 1;
            return false;
        }
        self.until_next -= 1;
        if self.until_next > 0 {
            self.counts.prescaled += 1;
            return false;
        }
        self.until_next = self.selection.prescale.max(1);
        if self.interval > Nanos::ZERO && !self.pace.has_room(now) {
            self.counts.over_rate += 1;
            return false;
        }
        let fits = self.waiting_events < bounds.queue_events
            && self.waiting_bytes.saturating_add(bytes.0) <= bounds.queue_bytes.0;
        if !fits {
            self.counts.queue_full += 1;
        }
        fits
    }

    fn take(&mut self, now: Timestamp, bytes: ByteCount) {
        self.counts.taken += 1;
        self.waiting_events += 1;
        self.waiting_bytes += bytes.0;
        self.pace.take(now, self.interval);
    }
}

#[cfg(test)]
mod tests;
