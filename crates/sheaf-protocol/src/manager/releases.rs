//! Releases of ended events that have not been sent to the readout units yet.

use crate::event_set::EventSet;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{AbsentReadout, Assignment, Release};
use sheaf_wire::{DropReason, EventId, Outcome, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Maximum number of events in a batch.
const MOST_BATCH_EVENTS: usize = 512;

/// Minimum number of events in a batch, unless it is closed because of its time limit.
const FEWEST_BATCH_EVENTS: usize = 16;

/// Between these limits, a batch is closed when it reaches this fraction of the events in flight. Otherwise readout units that wait
/// for room would wait for a batch that small systems never fill.
const IN_FLIGHT_PART: usize = 4;

/// Maximum number of ranges in one message.
const RANGES_A_MESSAGE: usize = 2048;

/// Maximum number of ranges kept for a readout unit that does not acknowledge. Beyond it, they are dropped, and the unit gets the
/// history when it acknowledges again. Its fragments are then booked as `late`, regardless of the outcome of their events.
const MAX_PENDING_RANGES: usize = 65_536;

/// Events from which a readout unit is excluded: the first one, and the first one with it again.
pub(super) type ExcludedRange = (EventId, Option<EventId>);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Releases {
    /// Events that ended since the last batch was closed, as ranges, in the order in which they ended.
    batch: Vec<Release>,
    /// Number of events in the batch.
    batch_events: u32,
    close_at: Option<Timestamp>,
    /// By readout unit: events that were built without it, or with only some of the requested parts, and the number of these.
    absent: BTreeMap<u16, BTreeMap<EventId, u16>>,
    /// By readout unit: events of which an operator has excluded it.
    excluded: BTreeMap<u16, Vec<ExcludedRange>>,
    /// Readout units, and events that were assigned before the unit was excluded and have wrong numbers far above the first event without
    /// it. They have it.
    excepted: BTreeSet<(u16, EventId)>,
    /// Readout units, and events that were assigned while the unit was excluded and have wrong numbers far above the first event with it
    /// again. They do not have it.
    built_without: BTreeSet<(u16, EventId)>,
    /// By readout unit: closed batches, as ranges.
    pending: Vec<Vec<Release>>,
    /// By readout unit: whether `pending` was too long and is void.
    overflowed: Vec<bool>,
}

impl Releases {
    pub(super) fn new(readouts: usize) -> Self {
        Self {
            batch: Vec::new(),
            batch_events: 0,
            close_at: None,
            absent: BTreeMap::new(),
            excluded: BTreeMap::new(),
            excepted: BTreeSet::new(),
            built_without: BTreeSet::new(),
            pending: vec![Vec::new(); readouts],
            overflowed: vec![false; readouts],
        }
    }

    /// Adds events with the same outcome. `close_at` is the latest time at which their batch is closed. `in_flight` is the number of
    /// events in flight before these ended.
    pub(super) fn add(&mut self, close_at: Timestamp, mut ended: Release, mut in_flight: usize) {
        while ended.count > 0 {
            let count = ended.count.min(self.events_until_full(in_flight));
            append(&mut self.batch, take_first(&mut ended, count));
            self.batch_events += count;
            in_flight = in_flight.saturating_sub(count as usize);
            self.close_at.get_or_insert(close_at);
            if self.batch_events as usize >= full_batch(in_flight) {
                self.flush();
            }
        }
    }

    /// Returns the number of events that may still end before the batch is full, given the number in flight; at least 1. Each
    /// event that ends makes the batch longer and reduces the number in flight.
    fn events_until_full(&self, in_flight: usize) -> u32 {
        let events = self.batch_events as usize;
        // The first number at which (events + number) * IN_FLIGHT_PART > in_flight - number - IN_FLIGHT_PART.
        let short_of_part = in_flight.saturating_sub((events + 1) * IN_FLIGHT_PART);
        let number = short_of_part / (IN_FLIGHT_PART + 1) + 1;
        let number = number.clamp(FEWEST_BATCH_EVENTS.saturating_sub(events), MOST_BATCH_EVENTS - events);
        u32::try_from(number.max(1)).unwrap_or(u32::MAX)
    }

    /// Records, before the event itself is added, the number of its parts that a readout unit has answered.
    pub(super) fn note_absent(&mut self, absent: &AbsentReadout) {
        if usize::from(absent.readout) < self.pending.len() {
            self.absent.entry(absent.readout).or_default().insert(absent.event, absent.parts);
        }
    }

    /// Records the events of which a readout unit is excluded, as far as they have not ended. Events that are `assigned` have it if it was
    /// not excluded before, and do not have it if it was, whatever their numbers.
    pub(super) fn exclude(
        &mut self,
        readout: u16,
        ranges: &[ExcludedRange],
        assigned: impl Iterator<Item = EventId>,
    ) {
        // Those that have ended are of earlier ranges.
        self.flush();
        let was_excluded = self.excluded.get(&readout).and_then(|ranges| ranges.last()).is_some_and(is_open);
        match ranges.last() {
            Some((first, None)) if !was_excluded => {
                let has_it = |event: &EventId| !self.built_without.contains(&(readout, *event));
                let assigned = assigned.filter(|event| event >= first).filter(has_it);
                self.excepted.extend(assigned.map(|event| (readout, event)));
            }
            Some((_, Some(end))) if was_excluded => {
                let lacks_it = |event: &EventId| !self.excepted.contains(&(readout, *event));
                let assigned = assigned.filter(|event| event >= end).filter(lacks_it);
                self.built_without.extend(assigned.map(|event| (readout, event)));
            }
            _ => {}
        }
        self.excluded.insert(readout, ranges.to_vec());
        self.excluded.retain(|_, ranges| !ranges.is_empty());
    }

    /// Records that events are assigned. They are of the exclusions of which their builder unit was told before.
    #[inline]
    pub(super) fn note_assigned(&mut self, assignments: &[Assignment]) {
        for special in [&mut self.excepted, &mut self.built_without] {
            if !special.is_empty() {
                special.retain(|(_, event)| assignments.iter().all(|assignment| assignment.event != *event));
            }
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

    /// Closes the batch, in order of event id.
    pub(super) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.close_at = None;
        self.batch_events = 0;
        self.batch.sort_unstable_by_key(|range| range.first);
        self.batch.dedup_by(|next, last| goes_on(last, next));
        for (index, pending) in self.pending.iter_mut().enumerate() {
            let readout = u16::try_from(index).unwrap_or(u16::MAX);
            let excluded = self.excluded.get(&readout).map_or(&[][..], |ranges| &ranges[..]);
            let absent = self.absent.get(&readout);
            let special = [of_readout(&self.excepted, readout), of_readout(&self.built_without, readout)];
            for range in self.batch.iter().flat_map(|range| split_excluded(*range, excluded, &special)) {
                match absent {
                    None => append(pending, range),
                    Some(absent) => append_with_absent(pending, range, absent),
                }
            }
            if self.overflowed[index] || pending.len() > MAX_PENDING_RANGES {
                self.overflowed[index] = true;
                pending.clear();
            }
        }
        if !self.absent.is_empty() {
            self.forget_absent();
        }
        for special in [&mut self.excepted, &mut self.built_without] {
            if !special.is_empty() {
                special.retain(|(_, event)| self.batch.iter().all(|range| !ids(range).contains(event)));
            }
        }
        self.batch.clear();
    }

    /// Removes the absence records of the batch once they have been sent.
    fn forget_absent(&mut self) {
        for events in self.absent.values_mut() {
            for range in &self.batch {
                while let Some(event) = events.range(ids(range)).next().map(|(event, _)| *event) {
                    events.remove(&event);
                }
            }
        }
        self.absent.retain(|_, events| !events.is_empty());
    }

    pub(super) fn has_pending(&self, readout: usize) -> bool {
        self.overflowed[readout] || !self.pending[readout].is_empty()
    }

    /// Returns the next message to a readout unit. `ended` is the history of the run.
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

    /// Queues all ended events for a readout unit that has begun a new session. Its fragments of those events were too late.
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

/// Returns the number of events at which a batch is closed, given the number of events in flight.
fn full_batch(in_flight: usize) -> usize {
    (in_flight / IN_FLIGHT_PART).clamp(FEWEST_BATCH_EVENTS, MOST_BATCH_EVENTS)
}

/// Returns the ids of a range, which must not be empty.
fn ids(range: &Release) -> RangeInclusive<EventId> {
    range.first..=EventId(range.first.0 + u64::from(range.count - 1))
}

/// Removes and returns the first events of a range.
fn take_first(range: &mut Release, count: u32) -> Release {
    let first = Release { count, ..*range };
    range.first = EventId(range.first.0.wrapping_add(u64::from(count)));
    range.count -= count;
    first
}

/// Appends `next` to the previous range if it continues that. Returns whether it does.
fn goes_on(last: &mut Release, next: &Release) -> bool {
    let goes_on = last.first.0.checked_add(u64::from(last.count)) == Some(next.first.0)
        && (last.outcome, last.reason, last.parts) == (next.outcome, next.reason, next.parts);
    let count = last.count.checked_add(next.count).filter(|_| goes_on);
    last.count = count.unwrap_or(last.count);
    count.is_some()
}

/// Appends a range to a list. It is merged with the last one if it continues that.
fn append(ranges: &mut Vec<Release>, next: Release) {
    if !ranges.last_mut().is_some_and(|last| goes_on(last, &next)) {
        ranges.push(next);
    }
}

/// Appends a range for a readout unit that has contributed nothing to some of the events, or only to their first parts.
fn append_with_absent(ranges: &mut Vec<Release>, range: Release, absent: &BTreeMap<EventId, u16>) {
    let mut rest = range;
    for (event, parts) in absent.range(ids(&range)) {
        let before = u32::try_from(event.0 - rest.first.0).expect("the event is in the range");
        if before > 0 {
            append(ranges, take_first(&mut rest, before));
        }
        let event = take_first(&mut rest, 1);
        append(ranges, if *parts == 0 { not_built(event) } else { Release { parts: *parts, ..event } });
    }
    if rest.count > 0 {
        append(ranges, rest);
    }
}

/// Returns whether an exclusion has not ended.
const fn is_open((_, end): &ExcludedRange) -> bool {
    end.is_none()
}

/// Returns the events of a readout unit.
fn of_readout(all: &BTreeSet<(u16, EventId)>, readout: u16) -> BTreeSet<EventId> {
    let its = all.range((readout, EventId(0))..=(readout, EventId(u64::MAX)));
    its.map(|(_, event)| *event).collect()
}

/// Splits a range into events from which the readout unit is excluded, and the others, in ascending order. Events that are `excepted` have it
/// although their numbers are of an exclusion, and those `built_without` it lack it although they are not.
fn split_excluded(
    range: Release,
    excluded: &[ExcludedRange],
    [excepted, built_without]: &[BTreeSet<EventId>; 2],
) -> impl Iterator<Item = Release> {
    let mut rest = range;
    std::iter::from_fn(move || {
        if rest.count == 0 {
            return None;
        }
        let first = rest.first;
        let is_in = |(begin, end): &&ExcludedRange| *begin <= first && end.is_none_or(|end| first < end);
        let after = Some(EventId(first.0.saturating_add(1)));
        let next_of = |special: &BTreeSet<EventId>| special.range(first..).next().copied();
        let begins = || excluded.iter().map(|(begin, _)| *begin).filter(|begin| *begin > first);
        let (is_excluded, next) = match excluded.iter().find(is_in) {
            Some(_) if next_of(excepted) == Some(first) => (false, after),
            Some((_, end)) => (true, end.iter().copied().chain(next_of(excepted)).min()),
            None if next_of(built_without) == Some(first) => (true, after),
            None => (false, begins().chain(next_of(built_without)).min()),
        };
        let most = next.map_or(u64::MAX, |next| next.0 - first.0);
        let count = u32::try_from(most).unwrap_or(u32::MAX).min(rest.count);
        let part = take_first(&mut rest, count);
        Some(if is_excluded { without(part, DropReason::Excluded) } else { part })
    })
}

fn not_built(ended: Release) -> Release {
    without(ended, DropReason::NotBuilt)
}

/// Returns ended events as they are for a readout unit without whose fragments they were built.
fn without(ended: Release, reason: DropReason) -> Release {
    match ended.outcome {
        Outcome::Stored | Outcome::Rejected => {
            Release { outcome: Outcome::Dropped, reason: Some(reason), ..ended }
        }
        Outcome::Dropped | Outcome::GivenBack => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_range::EventIdRange;
    use proptest::prelude::*;
    use sheaf_wire::TriggerType;

    fn release(first: u64, count: u32, outcome: Outcome, reason: Option<DropReason>) -> Release {
        Release { first: EventId(first), count, outcome, reason, parts: 0 }
    }

    /// Reference model of the messages to one readout unit: events are added one by one, and a batch is sorted when it
    /// is full.
    #[derive(Default)]
    struct Plain {
        batch: Vec<Release>,
        absent: BTreeMap<EventId, u16>,
        reported: Vec<Release>,
    }

    impl Plain {
        fn add(&mut self, event: Release, in_flight: usize) {
            self.batch.push(event);
            if self.batch.len() >= (in_flight / IN_FLIGHT_PART).clamp(FEWEST_BATCH_EVENTS, MOST_BATCH_EVENTS)
            {
                self.flush();
            }
        }

        fn flush(&mut self) {
            self.batch.sort_by_key(|event| event.first);
            for event in self.batch.drain(..) {
                let reported = match self.absent.remove(&event.first) {
                    Some(0) => not_built(event),
                    Some(parts) => Release { parts, ..event },
                    None => event,
                };
                append(&mut self.reported, reported);
            }
        }
    }

    #[test]
    fn events_without_an_excluded_unit_are_told_apart() {
        let excluded = [(EventId(3), Some(EventId(5))), (EventId(5), Some(EventId(6))), (EventId(9), None)];
        let special = [BTreeSet::from([EventId(10)]), BTreeSet::from([EventId(7)])];
        let split = |first, count, outcome| {
            split_excluded(release(first, count, outcome, None), &excluded, &special).collect::<Vec<_>>()
        };
        let dropped = |first, count| release(first, count, Outcome::Dropped, Some(DropReason::Excluded));
        let stored = |first, count| release(first, count, Outcome::Stored, None);
        assert_eq!(
            split(1, 11, Outcome::Stored),
            [
                stored(1, 2),
                dropped(3, 2),
                dropped(5, 1),
                stored(6, 1),
                dropped(7, 1),
                stored(8, 1),
                dropped(9, 1),
                stored(10, 1),
                dropped(11, 1)
            ]
        );
        let counts = split(1, 11, Outcome::Dropped);
        assert!(counts.iter().all(|part| part.outcome == Outcome::Dropped && part.reason.is_none()));
        assert_eq!(counts.iter().map(|part| part.count).sum::<u32>(), 11);
    }

    /// Numbers far ahead do not count for the beginning and the end of an exclusion, which both are event 3.
    #[test]
    fn events_with_numbers_far_ahead_have_a_unit_that_was_not_excluded_when_they_were_assigned() {
        let ended = EventSet::new(8);
        let mut releases = Releases::new(3);
        let (open, over) = ([(EventId(3), None)], [(EventId(3), Some(EventId(3)))]);
        let far = |numbers: &[u64]| numbers.iter().map(|number| EventId(*number)).collect::<Vec<_>>();
        let reassigned = Assignment {
            event: EventId(300),
            time: Timestamp(1),
            trigger_type: TriggerType(0),
            attempt: 2,
            charged: 0,
        };
        releases.exclude(1, &open, far(&[100]).into_iter());
        // Assigned while the unit is excluded: 200, 300 and 400; then while another one is as well: 500.
        releases.exclude(2, &open, far(&[100, 200, 300, 400]).into_iter());
        releases.exclude(1, &over, far(&[100, 200, 300, 400, 500]).into_iter());
        releases.note_assigned(&[reassigned]);
        releases.exclude(1, &open, far(&[100, 200, 300, 400, 500]).into_iter());
        releases.exclude(2, &over, far(&[100, 200, 300, 400, 500]).into_iter());
        for event in [100, 200, 300, 400, 500] {
            releases.add(Timestamp(0), release(event, 1, Outcome::Stored, None), 9);
        }
        releases.flush();
        let mut has = |readout| {
            let its = releases.take(readout, &ended);
            its.into_iter()
                .filter(|range| range.reason.is_none())
                .map(|range| range.first.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(has(0), [100, 200, 300, 400, 500]);
        assert_eq!(has(1), [100, 300]);
        assert_eq!(has(2), [100, 200, 400]);
        assert!(releases.excepted.is_empty() && releases.built_without.is_empty(), "nothing remains");
    }

    proptest! {
        #[test]
        fn ranges_give_the_same_messages_as_their_events_one_by_one(
            runs in prop::collection::vec((1..700_u32, 0..3_u64, any::<bool>(), 0..3_usize), 1..40),
            absent in prop::collection::vec((0..4_000_u64, 0..3_u16), 0..20),
            (new, stride) in (0..800_usize, 1..8_usize),
        ) {
            let (mut releases, mut plain) = (Releases::new(1), Plain::default());
            // Ranges in mixed order, with gaps between some of them.
            let mut first = 0;
            let mut all: Vec<_> = runs.into_iter().map(|(count, gap, stored, closes)| {
                first += gap;
                let (outcome, reason) = if stored { (Outcome::Stored, None) } else { (Outcome::Dropped, Some(DropReason::Late)) };
                let run = release(first, count, outcome, reason);
                first += u64::from(count);
                (run, closes == 0)
            }).collect();
            let length = all.len();
            all.rotate_left(stride % length);
            for (event, parts) in absent {
                releases.note_absent(&AbsentReadout { event: EventId(event), readout: 0, parts });
                plain.absent.insert(EventId(event), parts);
            }
            let mut in_flight: usize = all.iter().map(|(run, _)| run.count as usize).sum();
            for (run, closes) in all {
                // Other events have begun in the meantime.
                in_flight += new;
                releases.add(Timestamp(3), run, in_flight);
                for event in 0..u64::from(run.count) {
                    in_flight -= 1;
                    plain.add(Release { first: EventId(run.first.0 + event), count: 1, ..run }, in_flight);
                }
                prop_assert_eq!(releases.batch_events as usize, plain.batch.len());
                prop_assert_eq!(releases.due_at().is_some(), !plain.batch.is_empty());
                if closes {
                    releases.close_batch(Timestamp(3));
                    plain.flush();
                }
                prop_assert_eq!(&releases.pending[0], &plain.reported);
            }
            releases.flush();
            plain.flush();
            prop_assert_eq!(&releases.pending[0], &plain.reported);
            prop_assert_eq!(releases.absent.get(&0).cloned().unwrap_or_default(), plain.absent);
        }
    }

    #[test]
    fn consecutive_events_of_one_outcome_become_one_range() {
        let ended = EventSet::new(8);
        let mut releases = Releases::new(2);
        for event in [5, 3, 4, 9, 6] {
            let outcome = if event == 6 { Outcome::Rejected } else { Outcome::Stored };
            releases.add(Timestamp(7), release(event, 1, outcome, None), 0);
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
    fn an_absence_is_kept_if_a_batch_is_closed_in_between() {
        let ended = EventSet::new(8);
        let mut releases = Releases::new(1);
        let last = MOST_BATCH_EVENTS as u64 + 1;
        releases.note_absent(&AbsentReadout { event: EventId(last), readout: 0, parts: 0 });
        for event in 1..=last {
            releases.add(Timestamp(0), release(event, 1, Outcome::Stored, None), usize::MAX);
        }
        releases.flush();
        let stored = release(1, MOST_BATCH_EVENTS as u32, Outcome::Stored, None);
        let not_built = release(last, 1, Outcome::Dropped, Some(DropReason::NotBuilt));
        assert_eq!(releases.take(0, &ended), [stored, not_built]);
        assert!(releases.absent.is_empty(), "nothing remains");
    }

    #[test]
    fn a_unit_that_never_acknowledges_does_not_fill_the_memory() {
        let mut ended = EventSet::new(1 << 20);
        let mut releases = Releases::new(1);
        for event in (0..4 * MAX_PENDING_RANGES as u64).step_by(2) {
            ended.insert(EventIdRange::new(EventId(event), 1));
            releases.add(Timestamp(0), release(event, 1, Outcome::Stored, None), usize::MAX);
            assert!(releases.pending[0].len() <= MAX_PENDING_RANGES);
        }
        let mut reported = 0;
        while releases.has_pending(0) {
            reported += releases.take(0, &ended).iter().map(|range| range.count as usize).sum::<usize>();
        }
        assert_eq!(reported, 2 * MAX_PENDING_RANGES);
    }

    #[test]
    fn a_new_session_is_sent_all_ended_events() {
        let mut ended = EventSet::new(8);
        ended.insert(EventIdRange::new(EventId(1), 3));
        ended.insert(EventIdRange::new(EventId(10), u64::from(u32::MAX)));
        ended.insert(EventIdRange::new(EventId(10 + u64::from(u32::MAX)), 5));
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
