//! What the readout units are yet to be told about ended events.

use crate::event_set::EventSet;
use sheaf_wire::message::{AbsentReadout, Release};
use sheaf_wire::{DropReason, EventId, Outcome, Timestamp};
use std::collections::BTreeMap;

/// A batch is closed at this many events at the latest, ...
const MOST_BATCH_EVENTS: usize = 512;

/// ... at this many at the earliest, where time does not close it, ...
const FEWEST_BATCH_EVENTS: usize = 16;

/// ... and between them when it is this part of the events in flight: readout units that wait for room are not to wait
/// for a batch that small systems never fill.
const IN_FLIGHT_PART: usize = 4;

/// One message tells of at most this many ranges.
const RANGES_A_MESSAGE: usize = 2048;

/// A readout unit that does not listen is kept this many ranges. Then they are forgotten, and it is told the history
/// instead when it listens again: its fragments are then booked as `late`, whatever became of their events.
const MAX_PENDING_RANGES: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Ended {
    event: EventId,
    outcome: Outcome,
    reason: Option<DropReason>,
}

#[derive(Debug)]
pub(super) struct Releases {
    /// Ended since the last batch was closed.
    batch: Vec<Ended>,
    /// The batch that is being closed, as ranges; used again.
    ranges: Vec<Release>,
    close_at: Option<Timestamp>,
    /// By readout unit: events that were built without it, or with so many parts of what it was asked for.
    absent: BTreeMap<u16, BTreeMap<EventId, u16>>,
    /// By readout unit: closed batches, as ranges.
    pending: Vec<Vec<Release>>,
    /// By readout unit: `pending` was too long and is void.
    overflowed: Vec<bool>,
}

impl Releases {
    pub(super) fn new(readouts: usize) -> Self {
        Self {
            batch: Vec::new(),
            ranges: Vec::new(),
            close_at: None,
            absent: BTreeMap::new(),
            pending: vec![Vec::new(); readouts],
            overflowed: vec![false; readouts],
        }
    }

    /// Adds an ended event. `close_at` is when its batch is closed at the latest; `in_flight` is how many events have not
    /// ended.
    pub(super) fn add(
        &mut self,
        close_at: Timestamp,
        event: EventId,
        outcome: Outcome,
        reason: Option<DropReason>,
        in_flight: usize,
    ) {
        self.batch.push(Ended { event, outcome, reason });
        self.close_at.get_or_insert(close_at);
        if self.batch.len() >= (in_flight / IN_FLIGHT_PART).clamp(FEWEST_BATCH_EVENTS, MOST_BATCH_EVENTS) {
            self.flush();
        }
    }

    /// Notes, before the event itself is added, that only so many parts of it have the answer of a readout unit.
    pub(super) fn note_absent(&mut self, absent: &AbsentReadout) {
        if usize::from(absent.readout) < self.pending.len() {
            self.absent.entry(absent.readout).or_default().insert(absent.event, absent.parts);
        }
    }

    pub(super) fn due_at(&self) -> Option<Timestamp> {
        self.close_at
    }

    pub(super) fn close_batch(&mut self, now: Timestamp) {
        if self.close_at.is_some_and(|at| at <= now) {
            self.flush();
        }
    }

    /// Closes the batch: turns it into ranges, in order of event id.
    pub(super) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.close_at = None;
        self.batch.sort_unstable_by_key(|ended| ended.event);
        self.ranges.clear();
        for ended in &self.batch {
            append(&mut self.ranges, ended.release(0));
        }
        for (index, pending) in self.pending.iter_mut().enumerate() {
            let absent = u16::try_from(index).ok().and_then(|readout| self.absent.get(&readout));
            if let Some(absent) = absent {
                let release = |ended: &Ended| match absent.get(&ended.event) {
                    Some(0) => ended.not_built().release(0),
                    Some(parts) => ended.release(*parts),
                    None => ended.release(0),
                };
                self.batch.iter().for_each(|ended| append(pending, release(ended)));
            } else {
                self.ranges.iter().for_each(|release| append(pending, *release));
            }
            if self.overflowed[index] || pending.len() > MAX_PENDING_RANGES {
                self.overflowed[index] = true;
                pending.clear();
            }
        }
        for events in self.absent.values_mut() {
            for ended in &self.batch {
                events.remove(&ended.event);
            }
        }
        self.absent.retain(|_, events| !events.is_empty());
        self.batch.clear();
    }

    pub(super) fn has_pending(&self, readout: usize) -> bool {
        self.overflowed[readout] || !self.pending[readout].is_empty()
    }

    /// The next message to a readout unit. `ended` is the history of the run.
    pub(super) fn take(&mut self, readout: usize, ended: &EventSet) -> Vec<Release> {
        if self.overflowed[readout] {
            self.replace_with_history(readout, ended);
        }
        let pending = &mut self.pending[readout];
        if pending.len() <= RANGES_A_MESSAGE {
            return std::mem::take(pending);
        }
        let rest = pending.split_off(RANGES_A_MESSAGE);
        std::mem::replace(pending, rest)
    }

    /// A readout unit begins a new life: it is told all that has ended. What it holds of those events came too late.
    pub(super) fn replace_with_history(&mut self, readout: usize, ended: &EventSet) {
        self.flush();
        self.overflowed[readout] = false;
        let pending = &mut self.pending[readout];
        pending.clear();
        for (first, last) in ended.ranges() {
            let mut next = first.0;
            loop {
                let left = last.0 - next;
                let count = u32::try_from(left.saturating_add(1)).unwrap_or(u32::MAX);
                let first = EventId(next);
                let reason = Some(DropReason::Late);
                pending.push(Release { first, count, outcome: Outcome::Dropped, reason, parts: 0 });
                if u64::from(count) > left {
                    break;
                }
                next += u64::from(count);
            }
        }
    }
}

impl Ended {
    /// Its end as a readout unit is told, of whose answers these parts were built.
    fn release(self, parts: u16) -> Release {
        let Self { event: first, outcome, reason } = self;
        Release { first, count: 1, outcome, reason, parts }
    }

    fn not_built(self) -> Self {
        match self.outcome {
            Outcome::Stored | Outcome::Rejected => {
                Self { outcome: Outcome::Dropped, reason: Some(DropReason::NotBuilt), ..self }
            }
            Outcome::Dropped | Outcome::GivenBack => self,
        }
    }
}

/// Adds a range behind others, as part of the last one where it goes on with that.
fn append(ranges: &mut Vec<Release>, next: Release) {
    if let Some(last) = ranges.last_mut()
        && last.first.0.checked_add(u64::from(last.count)) == Some(next.first.0)
        && (last.outcome, last.reason, last.parts) == (next.outcome, next.reason, next.parts)
        && let Some(count) = last.count.checked_add(next.count)
    {
        last.count = count;
        return;
    }
    ranges.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(first: u64, count: u32, outcome: Outcome, reason: Option<DropReason>) -> Release {
        Release { first: EventId(first), count, outcome, reason, parts: 0 }
    }

    #[test]
    fn consecutive_events_of_one_outcome_become_one_range() {
        let ended = EventSet::new(8);
        let mut releases = Releases::new(2);
        for event in [5, 3, 4, 9, 6] {
            let outcome = if event == 6 { Outcome::Rejected } else { Outcome::Stored };
            releases.add(Timestamp(7), EventId(event), outcome, None, 0);
        }
        releases.note_absent(&AbsentReadout { event: EventId(4), readout: 1, parts: 0 });
        releases.note_absent(&AbsentReadout { event: EventId(6), readout: 1, parts: 2 });
        assert_eq!(releases.due_at(), Some(Timestamp(7)));
        releases.close_batch(Timestamp(7));
        let six = release(6, 1, Outcome::Rejected, None);
        let nine = release(9, 1, Outcome::Stored, None);
        assert_eq!(releases.take(0, &ended), [release(3, 3, Outcome::Stored, None), six, nine]);
        let not_built = release(4, 1, Outcome::Dropped, Some(DropReason::NotBuilt));
        let (three, five) = (release(3, 1, Outcome::Stored, None), release(5, 1, Outcome::Stored, None));
        let six = Release { parts: 2, ..six };
        assert_eq!(releases.take(1, &ended), [three, not_built, five, six, nine]);
        assert!(!releases.has_pending(0) && !releases.has_pending(1));
    }

    #[test]
    fn a_batch_that_is_closed_in_between_forgets_no_absence() {
        let ended = EventSet::new(8);
        let mut releases = Releases::new(1);
        let last = MOST_BATCH_EVENTS as u64 + 1;
        releases.note_absent(&AbsentReadout { event: EventId(last), readout: 0, parts: 0 });
        for event in 1..=last {
            releases.add(Timestamp(0), EventId(event), Outcome::Stored, None, usize::MAX);
        }
        releases.flush();
        let stored = release(1, MOST_BATCH_EVENTS as u32, Outcome::Stored, None);
        let not_built = release(last, 1, Outcome::Dropped, Some(DropReason::NotBuilt));
        assert_eq!(releases.take(0, &ended), [stored, not_built]);
        assert!(releases.absent.is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_unit_that_never_listens_does_not_fill_the_memory() {
        let mut ended = EventSet::new(1 << 20);
        let mut releases = Releases::new(1);
        for event in (0..4 * MAX_PENDING_RANGES as u64).step_by(2) {
            ended.insert_range(EventId(event), 1);
            releases.add(Timestamp(0), EventId(event), Outcome::Stored, None, usize::MAX);
            assert!(releases.pending[0].len() <= MAX_PENDING_RANGES);
        }
        let mut told = 0;
        while releases.has_pending(0) {
            told += releases.take(0, &ended).iter().map(|range| range.count as usize).sum::<usize>();
        }
        assert_eq!(told, 2 * MAX_PENDING_RANGES);
    }

    #[test]
    fn a_new_life_is_told_all_that_has_ended() {
        let mut ended = EventSet::new(8);
        ended.insert_range(EventId(1), 3);
        ended.insert_range(EventId(10), u32::MAX);
        ended.insert_range(EventId(10 + u64::from(u32::MAX)), 5);
        let mut releases = Releases::new(1);
        releases.replace_with_history(0, &ended);
        let late = Some(DropReason::Late);
        assert_eq!(
            releases.take(0, &ended),
            [
                release(1, 3, Outcome::Dropped, late),
                release(10, u32::MAX, Outcome::Dropped, late),
                release(10 + u64::from(u32::MAX), 5, Outcome::Dropped, late),
            ]
        );
    }
}
