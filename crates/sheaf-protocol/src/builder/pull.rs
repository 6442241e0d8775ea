//! Paced pull: requests to readout units in turn, for at most the credit in bytes at a time.
//!
//! A request is charged to the credit with the expected size of the answer, a running mean of its readout unit. The
//! charge ends when the answer arrives, or when it is no longer needed. Requests beyond the credit wait in the unit's
//! queue. The charge of a repeated request ends first, and the request then waits like any other: repetition does not
//! exceed the credit either.
//!
//! - **In turn**: builders begin at different readout units, so that they do not all send requests to the same one.
//! - **Small batches**: a request is for an eighth of the credit. About eight readout units answer at a time, and a late
//!   answer delays only its own share.
//! - **A silent readout unit** holds at most a quarter of the credit, or its fair share if that is more. The others
//!   continue.
//! - **At least one event**: if nothing is in flight, one event larger than the credit may be requested.
//! - **The oldest event never waits for credit**: its fragments may not have arrived yet, because readout units are
//!   full of older events. If such requests held all credit, and an older event waited for credit, the system would
//!   deadlock. So if no answer for the oldest event under construction is pending, it is requested beyond the credit,
//!   from one readout unit at a time.

use super::append;
use super::assembly::{Assemblies, TO_REPEAT};
use super::scope::{Ask, Question};
use sheaf_wire::message::EventRange;
use sheaf_wire::{ByteCount, EventId, Payload, Timestamp};
use std::collections::VecDeque;

/// Overhead of a super-fragment of one fragment in bytes, including its share of the message and frame heads.
const HEAD_BYTES: u64 = 64;

/// Inverse of the fraction of the credit that one request may use.
const PARTS: u64 = 8;

/// Inverse of the fraction of the credit that one readout unit may hold.
const HOLDERS: u64 = 4;

/// Inverse of the weight of a new value in the running mean of sizes.
const MEAN_PARTS: u64 = 16;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pull {
    credit: u64,
    in_flight: u64,
    readouts: Vec<Asked>,
    /// Number of events in all queues.
    queued: u64,
    /// Index of the readout unit that receives the next request.
    turn: usize,
}

/// State of the requests to a readout unit.
#[derive(Debug, Default)]
struct Asked {
    /// Requests that wait, in order.
    queue: VecDeque<(Ask, EventRange)>,
    queued: u64,
    in_flight: u64,
    /// Mean sizes of its super-fragments, times [`MEAN_PARTS`]. The first is of whole events and first parts, the second
    /// of later parts.
    means: [Option<u64>; 2],
}

/// Returns the index of the mean size that applies to a part.
fn mean_of(part: u16) -> usize {
    usize::from(part > 1)
}

impl Asked {
    /// Returns the charge for one of the next events.
    fn expected(&self) -> u64 {
        self.size_of(self.queue.front().map_or(0, |(ask, _)| ask.part))
    }

    /// Returns the expected size of the unit's super-fragment for a part of an event.
    fn size_of(&self, part: u16) -> u64 {
        self.means[mean_of(part)].map_or(0, |mean| mean / MEAN_PARTS) + HEAD_BYTES
    }

    fn charge_of(&self, part: u16) -> u32 {
        u32::try_from(self.size_of(part)).unwrap_or(TO_REPEAT - 1)
    }
}

impl Pull {
    /// Creates queues for `readouts` readout units. The number of builder `me` decides with which it begins.
    pub(super) fn new(readouts: usize, me: u16, credit: ByteCount) -> Self {
        Self {
            credit: credit.0,
            in_flight: 0,
            readouts: (0..readouts).map(|_| Asked::default()).collect(),
            queued: 0,
            turn: usize::from(me) % readouts.max(1),
        }
    }

    /// Changes the credit.
    pub(super) fn set_credit(&mut self, credit: ByteCount) {
        self.credit = credit.0;
    }

    /// Returns the requested bytes that have not been answered.
    pub(super) fn in_flight(&self) -> ByteCount {
        ByteCount(self.in_flight)
    }

    /// Adds events to request from all readout units. `expected` is the expected size of an event.
    pub(super) fn add(&mut self, ranges: &[EventRange], expected: u64) {
        let events: u64 = ranges.iter().map(|range| u64::from(range.count)).sum();
        self.expect(expected);
        for readout in &mut self.readouts {
            readout.queue.extend(ranges.iter().map(|range| (Ask::default(), *range)));
            readout.queued += events;
        }
        self.queued += events * self.readouts.len() as u64;
    }

    /// Derives expected sizes of super-fragments from that of an event, for readout units without a measured size.
    pub(super) fn expect(&mut self, expected: u64) {
        let mean = expected / (self.readouts.len() as u64).max(1) * MEAN_PARTS;
        for known in self.readouts.iter_mut().flat_map(|readout| &mut readout.means) {
            known.get_or_insert(mean);
        }
    }

    /// Adds an event, or a part of one, to request from one readout unit.
    pub(super) fn add_one(&mut self, readout: u16, ask: Ask, range: EventRange) {
        let asked = &mut self.readouts[usize::from(readout)];
        asked.queued += u64::from(range.count);
        self.queued += u64::from(range.count);
        let last = asked.queue.back_mut().filter(|(last, _)| *last == ask);
        if !last.is_some_and(|(_, ranges)| ranges.join(range)) {
            asked.queue.push_back((ask, range));
        }
    }

    /// Puts a repeated request before all others of a readout unit. Its former charge must have been settled.
    pub(super) fn add_again(&mut self, readout: u16, ask: Ask, range: EventRange) {
        let asked = &mut self.readouts[usize::from(readout)];
        asked.queue.push_front((ask, range));
        asked.queued += u64::from(range.count);
        self.queued += u64::from(range.count);
    }

    /// Ends the charge for an event of a readout unit.
    pub(super) fn settle(&mut self, readout: usize, charge: u32) {
        if charge < TO_REPEAT {
            self.readouts[readout].in_flight -= u64::from(charge);
            self.in_flight -= u64::from(charge);
        }
    }

    /// Updates the expected size of a super-fragment.
    pub(super) fn learn(&mut self, readout: u16, part: u16, bytes: u64) {
        if let Some(asked) = self.readouts.get_mut(usize::from(readout)) {
            let known = &mut asked.means[mean_of(part)];
            let mean = known.unwrap_or(bytes * MEAN_PARTS);
            *known = Some(mean - mean / MEAN_PARTS + bytes);
        }
    }

    /// Returns the next request that the credit allows.
    pub(super) fn next<P: Payload>(
        &mut self,
        now: Timestamp,
        assemblies: &mut Assemblies<P>,
    ) -> Option<Question> {
        if self.queued == 0 {
            return None;
        }
        if self.in_flight >= self.credit && self.in_flight > 0 {
            return self.ask_for_oldest(now, assemblies);
        }
        let readouts = self.readouts.len();
        for step in 0..readouts {
            let readout = (self.turn + step) % readouts;
            let Some(events) = self.allowed(readout) else {
                continue;
            };
            let question = self.take(now, readout, events, assemblies);
            if question.as_ref().is_some_and(|question| !question.ranges.is_empty()) {
                self.turn = (readout + 1) % readouts;
                return question;
            }
        }
        self.ask_for_oldest(now, assemblies)
    }

    /// Returns a request for the oldest event beyond the credit, if that event would otherwise wait for it. Its entries in
    /// the queues are skipped later.
    fn ask_for_oldest<P: Payload>(
        &mut self,
        now: Timestamp,
        assemblies: &mut Assemblies<P>,
    ) -> Option<Question> {
        let oldest = assemblies.oldest()?;
        let readout = oldest.blocked_at()?;
        let asked = &mut self.readouts[readout];
        let charge = asked.charge_of(oldest.part);
        let is_repeat = oldest.charge(readout, charge, now) == Some(TO_REPEAT);
        asked.in_flight += u64::from(charge);
        self.in_flight += u64::from(charge);
        let range = EventRange::one(oldest.event, oldest.attempt);
        Some(Question {
            readout: u16::try_from(readout).ok()?,
            ask: oldest.ask(readout),
            is_repeat,
            ranges: vec![range],
        })
    }

    /// Returns the number of events that may be requested from a readout unit now.
    fn allowed(&self, readout: usize) -> Option<u64> {
        let asked = &self.readouts[readout];
        if asked.queued == 0 {
            return None;
        }
        let expected = asked.expected();
        let part = (self.credit / PARTS).max(expected);
        let own = (self.credit / HOLDERS).max(self.credit / self.readouts.len() as u64).max(expected);
        let wanted = part.min(asked.queued.saturating_mul(expected));
        let free = self.credit.saturating_sub(self.in_flight);
        let own_free = own.saturating_sub(asked.in_flight);
        let fits = wanted <= free && wanted <= own_free;
        // A batch that does not fit waits until it does: smaller ones would make a message for each event.
        if fits || self.in_flight == 0 { Some((wanted.min(free) / expected).max(1)) } else { None }
    }

    /// Removes up to `events` events with equal requests from the queue and charges them. Skips events that no longer
    /// need this readout unit's answer.
    fn take<P: Payload>(
        &mut self,
        now: Timestamp,
        readout: usize,
        events: u64,
        assemblies: &mut Assemblies<P>,
    ) -> Option<Question> {
        let asked = &mut self.readouts[readout];
        let charge = u32::try_from(asked.expected()).unwrap_or(TO_REPEAT - 1);
        let mut ranges: Vec<EventRange> = Vec::new();
        let mut left = events;
        let (wanted, _) = asked.queue.front().cloned()?;
        let mut is_repeat = false;
        while left > 0 {
            let Some((_, range)) = asked.queue.front_mut().filter(|(ask, _)| *ask == wanted) else {
                break;
            };
            let event = range.first;
            let attempt = range.attempt;
            range.first = EventId(event.0.wrapping_add(1));
            range.count -= 1;
            if range.count == 0 {
                asked.queue.pop_front();
            }
            asked.queued -= 1;
            self.queued -= 1;
            let Some(assembly) = assemblies.of_attempt(event, attempt, wanted.part) else {
                continue;
            };
            let Some(before) = assembly.charge(readout, charge, now) else {
                continue;
            };
            is_repeat |= before == TO_REPEAT;
            asked.in_flight += u64::from(charge);
            self.in_flight += u64::from(charge);
            left -= 1;
            append(&mut ranges, EventRange::one(event, attempt));
        }
        Some(Question { readout: u16::try_from(readout).ok()?, ask: wanted, is_repeat, ranges })
    }
}
