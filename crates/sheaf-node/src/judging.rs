//! Duty cycle of a worker, be it a thread of a builder unit's process or a process of its own: take events, ask the
//! filter, answer, and keep account of the time that the filter took.

use crate::clock::thread_cpu_time;
use crate::filter::{Filter, FilterFailure};
use bytes::Bytes;
use sheaf_protocol::farm::Ticket;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{Event, Nanos, Timestamp, Verdict};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of events that a worker filters before it answers.
const LARGEST_BATCH: usize = 32;

/// A worker answers at once after an event whose verdict takes longer than this: reading the clock is then cheap in
/// comparison, and no finished verdict is delayed.
const SLOW: Nanos = Nanos::from_micros(20);

/// Number of times that a worker without events checks again before it sleeps.
const IDLE_LOOKS: u32 = 64;

/// Longest sleep of a worker. Work wakes it earlier; the limit bounds the delay of a stop flag.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(100);

/// Times of a worker, as it reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTimes {
    /// Events judged.
    pub judged: u64,
    /// Processor time of the filter.
    pub filter: Nanos,
    /// Processor time of the worker, the filter's included.
    pub worker: Nanos,
    /// Processor time of checks and sleeps that found nothing: a worker checks for events a little before it sleeps.
    /// Time for reading events from a network does not count as idle, even if no event was complete afterwards.
    pub idle: Nanos,
}

impl WorkerTimes {
    /// Returns the worker's processor time per event in addition to the filter's: receiving, answering, accounting.
    /// `None` before the first event.
    #[must_use]
    pub fn overhead(&self) -> Option<Nanos> {
        let beside = self.worker.0.saturating_sub(self.filter.0).saturating_sub(self.idle.0);
        beside.checked_div(self.judged).map(Nanos)
    }
}

/// The times of a worker, for others to see: four numbers.
#[derive(Debug, Default)]
pub(crate) struct SharedTimes([AtomicU64; 4]);

impl SharedTimes {
    pub(crate) fn read(&self) -> WorkerTimes {
        from_numbers(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }

    pub(crate) fn show(&self, times: &WorkerTimes) {
        for (shown, value) in self.0.iter().zip(numbers(times)) {
            shown.store(value, Ordering::Relaxed);
        }
    }
}

pub(crate) fn numbers(times: &WorkerTimes) -> [u64; 4] {
    [times.judged, times.filter.0, times.worker.0, times.idle.0]
}

pub(crate) fn from_numbers([judged, filter, worker, idle]: [u64; 4]) -> WorkerTimes {
    WorkerTimes { judged, filter: Nanos(filter), worker: Nanos(worker), idle: Nanos(idle) }
}

/// Source of a worker's events and destination of its answers.
pub(crate) trait EventExchange {
    /// An event, or a handle to one.
    type Event: AsRef<Event<Bytes>>;
    /// Reason why the work ended early.
    type Error;

    /// The next event.
    fn take(&mut self) -> Result<Option<(Ticket, Self::Event)>, Self::Error>;
    /// Gives an event back with its answer.
    fn answer(
        &mut self,
        ticket: Ticket,
        event: Self::Event,
        answer: Result<Verdict, FilterFailure>,
    ) -> Result<(), Self::Error>;
    /// Returns the number of fetches that took time, whether or not they completed an event.
    fn fetched(&self) -> u64 {
        0
    }
    /// Makes the answers visible to the other side.
    fn flush(&mut self) -> Result<(), Self::Error>;
    /// Returns whether no more events follow.
    fn is_over(&mut self) -> bool;
    /// Sleeps until there may be something.
    fn sleep(&mut self, longest: Nanos);
    /// Shows the times.
    fn show(&mut self, times: &WorkerTimes);
}

/// Works until the exchange is over.
pub(crate) fn work<D: EventExchange>(
    exchange: &mut D,
    filter: &mut dyn Filter,
) -> Result<WorkerTimes, D::Error> {
    let begun = thread_cpu_time();
    let mut times = WorkerTimes::default();
    let mut size = 1;
    let mut batch: Vec<(Ticket, D::Event)> = Vec::with_capacity(LARGEST_BATCH);
    let mut answers: Vec<Result<Verdict, FilterFailure>> = Vec::with_capacity(LARGEST_BATCH);
    let mut idle_looks = 0;
    let mut watch = IdleWatch::default();
    loop {
        while batch.len() < size
            && let Some(next) = exchange.take()?
        {
            batch.push(next);
        }
        if batch.is_empty() {
            let now = thread_cpu_time();
            times.idle = times.idle + watch.found_nothing(now, exchange.fetched());
            if exchange.is_over() {
                times.worker = now.since(begun);
                exchange.show(&times);
                return Ok(times);
            }
            idle_looks += 1;
            if idle_looks < IDLE_LOOKS {
                std::hint::spin_loop();
            } else {
                exchange.flush()?;
                exchange.sleep(LONGEST_SLEEP);
                times.idle = times.idle + watch.found_nothing(thread_cpu_time(), exchange.fetched());
            }
            continue;
        }
        idle_looks = 0;
        watch = IdleWatch::default();
        let before = thread_cpu_time();
        answers.extend(batch.iter().map(|(_, event)| judge(filter, event.as_ref())));
        let after = thread_cpu_time();
        let judged = batch.len();
        for ((ticket, event), answer) in batch.drain(..).zip(answers.drain(..)) {
            exchange.answer(ticket, event, answer)?;
        }
        exchange.flush()?;
        let took = after.since(before);
        times.judged += judged as u64;
        times.filter = times.filter + took;
        times.worker = after.since(begun);
        exchange.show(&times);
        size = next_size(judged, took);
    }
}

/// Separates idle time from work while there are no events: time between two checks that found nothing is idle, unless
/// data was fetched meanwhile. A check that finds an event is work.
#[derive(Default)]
struct IdleWatch {
    /// The last such moment, and how much had been fetched.
    since: Option<(Timestamp, u64)>,
}

impl IdleWatch {
    /// Records that there is no event, with the amount fetched so far. Returns the part of the time since the last call
    /// that was idle.
    fn found_nothing(&mut self, now: Timestamp, fetched: u64) -> Nanos {
        match self.since.replace((now, fetched)) {
            Some((since, before)) if before == fetched => now.since(since),
            _ => Nanos::ZERO,
        }
    }
}

/// Calls the filter, and checks that its verdict can be stored.
fn judge(filter: &mut dyn Filter, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
    let verdict = filter.judge(event)?;
    let bytes = verdict.payload.len();
    if bytes > MAX_VERDICT_PAYLOAD_BYTES {
        let text =
            format!("the filter's payload has {bytes} bytes; at most {MAX_VERDICT_PAYLOAD_BYTES} are stored");
        return Err(FilterFailure(text));
    }
    Ok(verdict)
}

/// As many events as are judged in about [`SLOW`].
fn next_size(judged: usize, took: Nanos) -> usize {
    let each = (took.0 / judged.max(1) as u64).max(1);
    usize::try_from(SLOW.0 / each).unwrap_or(LARGEST_BATCH).clamp(1, LARGEST_BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_filters_answer_event_by_event_and_fast_ones_in_batches() {
        assert_eq!(next_size(1, Nanos::from_micros(100)), 1);
        assert_eq!(next_size(1, Nanos::from_micros(5)), 4);
        assert_eq!(next_size(32, Nanos(0)), LARGEST_BATCH);
    }

    #[test]
    fn only_looks_that_find_and_fetch_nothing_are_idle() {
        let mut watch = IdleWatch::default();
        assert_eq!(watch.found_nothing(Timestamp(100), 3), Nanos::ZERO, "the first look was after work");
        assert_eq!(watch.found_nothing(Timestamp(130), 3), Nanos(30));
        assert_eq!(watch.found_nothing(Timestamp(170), 4), Nanos::ZERO, "it has read a part of an event");
        assert_eq!(watch.found_nothing(Timestamp(175), 4), Nanos(5));
    }

    #[test]
    fn the_overhead_is_what_a_worker_takes_beside_its_filter_and_its_waiting() {
        let times = WorkerTimes {
            judged: 10,
            filter: Nanos::from_micros(100),
            worker: Nanos::from_micros(150),
            idle: Nanos::from_micros(30),
        };
        assert_eq!(times.overhead(), Some(Nanos::from_micros(2)));
        assert_eq!(WorkerTimes::default().overhead(), None);
        assert_eq!(from_numbers(numbers(&times)), times);
    }
}
