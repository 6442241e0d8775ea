//! Shifts: sources whose fragments have been in the wrong events since some event.
//!
//! Builder units report fragments whose check value disagrees, with the value of the event. If the fragments of a source are `k`
//! events too early, its value in event `n` is that of event `n + k`. While the shift lasts, every event is reported, and with it
//! its right value. So the event manager looks up each reported value among the right values of the neighbours. A shift is
//! recognised if the same `k` explains [`ShiftConfig::events`] reports in a row, and no smaller `k` does.

use crate::numbering::{Quantity, Shift, ShiftConfig, ShiftPolicy};
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Disagreement, Renumber, Renumbered};
use sheaf_wire::shift_record::ShiftRecord;
use sheaf_wire::{EventId, SourceId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Right values that are kept of each quantity.
const KEPT_VALUES: usize = 4_096;

/// Unexplained reports that are kept of each source and quantity.
const KEPT_REPORTS: usize = 1_024;

/// Shifts that a source had before the current one, of which reports are awaited.
const PAST_SHIFTS: usize = 16;

/// Shifts that are remembered. Later ones are repaired, but not listed.
const MOST_SHIFTS: usize = 4_096;

/// See the [module](self).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Shifts {
    config: ShiftConfig,
    /// Index of the readout unit of each source.
    readout_of: BTreeMap<SourceId, u16>,
    values: Vec<Values>,
    sources: BTreeMap<SourceId, Source>,
    found: Vec<Shift>,
    /// Number of the found ones that have been announced.
    announced: usize,
    /// The announced ones as run records have them.
    recorded: Vec<Shift>,
    orders: VecDeque<Renumber>,
}

/// Right values of a quantity, by event and by value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Values {
    of_event: BTreeMap<u64, u64>,
    events_of: BTreeMap<u64, BTreeSet<u64>>,
}

/// The shift that an answer of a readout unit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Nothing was ordered.
    Unexpected,
    /// It has not been announced.
    Unannounced,
    /// It has been announced.
    Announced(Shift),
}

/// State of a source.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Source {
    /// Since the last repair, or the beginning.
    now: Era,
    /// The time before the last repair, of which reports may still come.
    before: Era,
    /// First event of `now`.
    since: u64,
    /// Whether its readout unit has been told to renumber it, and has not answered.
    is_ordered: bool,
}

/// Time of a source with one numbering.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Era {
    current: Option<Current>,
    /// Shifts that it had before, of which reports may still come.
    past: VecDeque<Current>,
    tracks: BTreeMap<u16, Track>,
}

/// The shift that a source has.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Current {
    shift: i64,
    /// Its place in the list of shifts, if that had room.
    place: Option<usize>,
    /// First event that it explains.
    explained_from: u64,
    /// Earlier events that it explains, with others in between that may still be reported.
    earlier: BTreeSet<u64>,
    /// Values of the latest reports that it explains, by event and quantity, if its repair was ordered: reports from the repair on are
    /// about an equal shift after it.
    taken: Option<BTreeMap<(u64, u16), u64>>,
}

/// Reports of a source for one quantity that its shift does not explain, by event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Track {
    reports: BTreeMap<u64, Report>,
    /// Number of the reports that each shift would explain.
    explains: BTreeMap<i64, usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    value: u64,
    /// Shifts that would explain it.
    shifts: BTreeSet<i64>,
}

impl Shifts {
    pub(super) fn new(config: ShiftConfig, readout_of: BTreeMap<SourceId, u16>) -> Self {
        Self {
            values: vec![Values::default(); config.quantities.len()],
            config,
            readout_of,
            sources: BTreeMap::new(),
            found: Vec::new(),
            announced: 0,
            recorded: Vec::new(),
            orders: VecDeque::new(),
        }
    }

    /// Returns the shifts found so far, in the order in which they were found.
    pub(super) fn found(&self) -> &[Shift] {
        &self.found
    }

    /// Takes reports of a builder unit.
    pub(super) fn note(&mut self, disagreements: &[Disagreement]) {
        let mut concerned = BTreeSet::new();
        for disagreement in disagreements {
            let Disagreement { event, source, quantity, .. } = *disagreement;
            let is_known = self.readout_of.contains_key(&source);
            let Some(kind) = self.config.quantities.get(usize::from(quantity)).filter(|_| is_known) else {
                continue;
            };
            let (kind, longest) = (*kind, self.config.longest);
            let reference = kind.cut(disagreement.reference);
            let values = &mut self.values[usize::from(quantity)];
            if values.insert(event.0, reference) {
                let eras = self.sources.values_mut().flat_map(|source| [&mut source.now, &mut source.before]);
                for track in eras.filter_map(|era| era.tracks.get_mut(&quantity)) {
                    track.note_value(event.0, reference, kind, longest);
                }
            }
            let source = self.sources.entry(source).or_default();
            let era = if event.0 < source.since { &mut source.before } else { &mut source.now };
            let track = era.tracks.entry(quantity).or_default();
            track.note_report(event.0, kind.cut(disagreement.value), values, kind, longest);
            concerned.insert((disagreement.source, quantity));
        }
        for (source, quantity) in concerned {
            self.look(source, quantity, false);
        }
    }

    /// Looks for shifts in what has come, since nothing more follows.
    pub(super) fn finish(&mut self) {
        let all: Vec<_> = self
            .sources
            .iter()
            .flat_map(|(id, source)| source.now.tracks.keys().map(|quantity| (*id, *quantity)))
            .collect();
        for (source, quantity) in all {
            // Nothing near the end was looked at before, and a source may have had several shifts there. Each one that is found takes
            // reports out, so this ends.
            while self.look(source, quantity, true) {}
        }
    }

    /// Takes the answer of a readout unit: from this event on, its source is renumbered. Reports about these events may have come
    /// before the answer: they are about a later shift.
    pub(super) fn note_renumbered(&mut self, answer: Renumbered) -> Answered {
        let source = self.sources.get_mut(&answer.source).filter(|source| source.is_ordered);
        let Some(source) = source else { return Answered::Unexpected };
        let mut before = std::mem::take(&mut source.now);
        let mut tracks = before.split_off(answer.first.0);
        for ((event, quantity), value) in before.take_back(answer.first.0) {
            let (kind, longest) = (self.config.quantities[usize::from(quantity)], self.config.longest);
            let track = tracks.entry(quantity).or_default();
            track.note_report(event, value, &self.values[usize::from(quantity)], kind, longest);
        }
        let place = before.current.as_ref().and_then(|current| current.place);
        let now = Era { tracks, ..Era::default() };
        *source = Source { since: answer.first.0, before, now, ..Source::default() };
        let Some(place) = place else { return Answered::Unannounced };
        let shift = &mut self.found[place];
        shift.repaired_from = Some(answer.first);
        if place < self.announced { Answered::Announced(*shift) } else { Answered::Unannounced }
    }

    /// Takes note that a readout unit has begun anew: it renumbers nothing.
    pub(super) fn note_restart(&mut self, readout: u16) {
        let Self { sources, readout_of, orders, .. } = self;
        let is_its = |source: &SourceId| readout_of.get(source) == Some(&readout);
        sources.retain(|source, _| !is_its(source));
        orders.retain(|order| !is_its(&order.source));
    }

    /// Returns the next order for a readout unit for which `is_open` holds, with its index.
    pub(super) fn next_order(&mut self, is_open: impl Fn(u16) -> bool) -> Option<(u16, Renumber)> {
        let readout_of = |order: &Renumber| self.readout_of.get(&order.source).copied();
        let place = self.orders.iter().position(|order| readout_of(order).is_some_and(&is_open))?;
        let order = self.orders.remove(place)?;
        Some((readout_of(&order)?, order))
    }

    /// Returns whether a shift has not been announced.
    pub(super) fn has_news(&self) -> bool {
        self.announced < self.found.len()
    }

    /// Returns the next shift to announce. It waits while it may turn out to have begun earlier, since reports are missing that
    /// would tell: `oldest` is the oldest event in flight.
    pub(super) fn announce(&mut self, oldest: Option<EventId>) -> Option<Shift> {
        let Shift { source, quantity, first, .. } = *self.found.get(self.announced)?;
        let known = first.0.saturating_add(self.config.longest);
        if oldest.is_some_and(|oldest| oldest.0 <= known) {
            return None;
        }
        // Reports of other sources have come since the last one of this source, and their right values may explain its earlier ones.
        self.explain(source, quantity);
        let shift = self.found.get(self.announced).copied();
        self.announced += 1;
        shift
    }

    /// Returns the next announced shift of which run records say something else, or nothing. They say this from now on.
    pub(super) fn next_to_record(&mut self) -> Option<ShiftRecord> {
        let announced = self.found.iter().take(self.announced);
        let (index, shift) =
            announced.enumerate().find(|(index, shift)| self.recorded.get(*index) != Some(*shift))?;
        match self.recorded.get_mut(index) {
            Some(recorded) => *recorded = *shift,
            None => self.recorded.push(*shift),
        }
        let quantity = self.config.names.get(usize::from(shift.quantity)).cloned().unwrap_or_default();
        Some(ShiftRecord {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            source: shift.source,
            quantity,
            first: shift.first,
            shift: shift.shift,
            repaired_from: shift.repaired_from,
            policy: self.config.on_shift,
        })
    }

    /// Returns whether the run ends because of a shift.
    pub(super) fn stops(&self) -> bool {
        self.config.on_shift == ShiftPolicy::Stop
    }

    /// Takes out the reports of a source that its known shifts explain.
    fn explain(&mut self, id: SourceId, quantity: u16) {
        let Self { config, values, sources, found, .. } = self;
        let Some(source) = sources.get_mut(&id) else { return };
        for era in [&mut source.before, &mut source.now] {
            era.explain(quantity, &values[usize::from(quantity)], config.reach(), found);
        }
    }

    /// Looks for a shift of a source in the reports of a quantity. Returns whether there is one.
    fn look(&mut self, id: SourceId, quantity: u16, is_final: bool) -> bool {
        self.explain(id, quantity);
        let Self { config, values, sources, found, .. } = self;
        let values = &values[usize::from(quantity)];
        let Some(source) = sources.get_mut(&id) else { return false };
        let Some(track) = source.now.tracks.get(&quantity).filter(|_| !source.is_ordered) else {
            return false;
        };
        let Some((explained_from, shift)) = track.find(values, config, is_final) else { return false };
        if source.now.current.as_ref().is_none_or(|current| current.shift != shift) {
            let place = (found.len() < MOST_SHIFTS).then_some(found.len());
            if place.is_some() {
                let first = EventId(explained_from);
                found.push(Shift { source: id, quantity, first, shift, repaired_from: None });
            }
            source.now.end_current();
            source.is_ordered = config.on_shift == ShiftPolicy::Repair && !is_final;
            let taken = source.is_ordered.then(BTreeMap::new);
            let earlier = BTreeSet::new();
            source.now.current = Some(Current { shift, place, explained_from, earlier, taken });
            if source.is_ordered {
                self.orders.push_back(Renumber { source: id, shift });
            }
        }
        source.now.explain(quantity, values, config.reach(), found);
        true
    }
}

impl Era {
    /// Makes the current shift a past one.
    fn end_current(&mut self) {
        self.past.extend(self.current.take());
        if self.past.len() > PAST_SHIFTS {
            self.past.pop_front();
        }
    }

    /// Takes out the unexplained reports about the events from `first` on.
    fn split_off(&mut self, first: u64) -> BTreeMap<u16, Track> {
        let later = self.tracks.iter_mut().map(|(quantity, track)| (*quantity, track.split_off(first)));
        later.filter(|(_, track)| !track.reports.is_empty()).collect()
    }

    /// Takes out the values of explained reports about the events from `first` on.
    fn take_back(&mut self, first: u64) -> BTreeMap<(u64, u16), u64> {
        let taken = self.current.as_mut().and_then(|current| current.taken.take());
        taken.unwrap_or_default().split_off(&(first, 0))
    }

    /// Takes out the reports that its shifts explain. Those of a past shift are about events before the next one.
    fn explain(&mut self, quantity: u16, values: &Values, reach: u64, found: &mut [Shift]) {
        let Some(track) = self.tracks.get_mut(&quantity) else { return };
        let mut end = u64::MAX;
        for shift in self.current.iter_mut().chain(self.past.iter_mut().rev()) {
            let explained = track.remove_explained(shift.shift, end);
            shift.keep(quantity, &explained);
            shift.note_earlier(explained.keys(), reach);
            end = shift.explained_from;
            if let Some(found) = shift.place.and_then(|place| found.get_mut(place))
                && found.quantity == quantity
            {
                found.first = EventId(track.begin(shift.explained_from, shift.shift, values));
            }
        }
    }
}

impl Current {
    /// Keeps the values of reports that it explains, while these may be about a later shift.
    fn keep(&mut self, quantity: u16, explained: &BTreeMap<u64, u64>) {
        let Some(taken) = &mut self.taken else { return };
        taken.extend(explained.iter().map(|(event, value)| ((*event, quantity), *value)));
        while taken.len() > KEPT_REPORTS {
            taken.pop_first();
        }
    }

    /// Takes events that it explains. It may turn out to have begun earlier, since a builder unit that is behind has reported the
    /// beginning.
    fn note_earlier<'a>(&mut self, explained: impl Iterator<Item = &'a u64>, reach: u64) {
        self.earlier.extend(explained.filter(|event| **event < self.explained_from));
        while let Some(last) = self.earlier.pop_last() {
            if self.explained_from - last > reach {
                self.earlier.insert(last);
                break;
            }
            self.explained_from = last;
        }
        if self.earlier.len() > KEPT_REPORTS {
            self.earlier.pop_first();
        }
    }
}

impl Values {
    /// Takes the value of an event. Returns whether it is new.
    fn insert(&mut self, event: u64, value: u64) -> bool {
        match self.of_event.insert(event, value) {
            Some(before) if before == value => return false,
            Some(before) => self.forget(event, before),
            None => {}
        }
        self.events_of.entry(value).or_default().insert(event);
        if self.of_event.len() > KEPT_VALUES
            && let Some((event, value)) = self.of_event.pop_first()
        {
            self.forget(event, value);
        }
        true
    }

    fn forget(&mut self, event: u64, value: u64) {
        if let Some(events) = self.events_of.get_mut(&value) {
            events.remove(&event);
            if events.is_empty() {
                self.events_of.remove(&value);
            }
        }
    }

    /// Returns the last event with a value.
    fn highest(&self) -> u64 {
        self.of_event.last_key_value().map_or(0, |(event, _)| *event)
    }

    fn has(&self, event: Option<u64>) -> bool {
        event.is_some_and(|event| self.of_event.contains_key(&event))
    }

    /// Returns the events from `first` to `last` whose value agrees.
    fn with(&self, value: u64, quantity: Quantity, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let Quantity { modulus, tolerance } = quantity;
        let (low, is_below) = value.overflowing_sub(tolerance);
        let (high, is_above) = value.overflowing_add(tolerance);
        let most = modulus.wrapping_sub(1);
        let is_above = is_above || high > most;
        let (low, high) = match modulus {
            0 => (low, high),
            _ => (
                if is_below { low.wrapping_add(modulus) } else { low },
                if is_above { high.wrapping_sub(modulus) } else { high },
            ),
        };
        let ranges = match is_below || is_above {
            true => [Some(0..=high), Some(low..=most)],
            false => [Some(low..=high), None],
        };
        let sets = ranges.into_iter().flatten().flat_map(|range| self.events_of.range(range));
        sets.flat_map(move |(_, events)| events.range(first..=last).copied())
    }
}

impl Track {
    /// Takes the value of a source in an event.
    fn note_report(&mut self, event: u64, value: u64, values: &Values, quantity: Quantity, longest: u64) {
        self.remove(event);
        let (first, last) = (event.saturating_sub(longest), event.saturating_add(longest));
        let others = values.with(value, quantity, first, last).filter(|other| *other != event);
        let shifts: BTreeSet<i64> = others.map(|other| distance(event, other)).collect();
        self.insert(event, Report { value, shifts });
        if self.reports.len() > KEPT_REPORTS
            && let Some((oldest, _)) = self.reports.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    /// Takes the right value of an event, which may explain reports of its neighbours.
    fn note_value(&mut self, event: u64, value: u64, quantity: Quantity, longest: u64) {
        let near = event.saturating_sub(longest)..=event.saturating_add(longest);
        for (other, report) in self.reports.range_mut(near).filter(|(other, _)| **other != event) {
            let shift = distance(*other, event);
            if quantity.agrees(report.value, value) && report.shifts.insert(shift) {
                *self.explains.entry(shift).or_default() += 1;
            }
        }
    }

    /// Returns the first event with a shift that explains the reports from some event on. The values of good events are not
    /// reported, and so none that would explain the first events of a negative shift.
    fn begin(&self, explained_from: u64, shift: i64, values: &Values) -> u64 {
        let is_unexplained =
            |event: &u64| self.reports.contains_key(event) && !values.has(event.checked_add_signed(shift));
        let most = usize::try_from(shift.saturating_neg()).unwrap_or(0);
        (0..explained_from).rev().take(most).take_while(is_unexplained).last().unwrap_or(explained_from)
    }

    fn remove(&mut self, event: u64) {
        if let Some(report) = self.reports.remove(&event) {
            self.forget(&report);
        }
    }

    /// Reduces the counts of the shifts that explain a report which was taken out.
    fn forget(&mut self, report: &Report) {
        for shift in &report.shifts {
            if let Some(count) = self.explains.get_mut(shift) {
                *count -= 1;
                if *count == 0 {
                    self.explains.remove(shift);
                }
            }
        }
    }

    fn insert(&mut self, event: u64, report: Report) {
        for shift in &report.shifts {
            *self.explains.entry(*shift).or_default() += 1;
        }
        self.reports.insert(event, report);
    }

    /// Takes out the reports about the events from `first` on.
    fn split_off(&mut self, first: u64) -> Self {
        let mut later = Self::default();
        for (event, report) in self.reports.split_off(&first) {
            self.forget(&report);
            later.insert(event, report);
        }
        later
    }

    /// Removes the reports about events before `end` that a shift explains. Returns their values by event.
    fn remove_explained(&mut self, shift: i64, end: u64) -> BTreeMap<u64, u64> {
        if !self.explains.contains_key(&shift) {
            return BTreeMap::new();
        }
        let is_explained = |(event, report): (&u64, &Report)| {
            report.shifts.contains(&shift).then_some((*event, report.value))
        };
        let explained: BTreeMap<u64, u64> = self.reports.range(..end).filter_map(is_explained).collect();
        explained.keys().for_each(|event| self.remove(*event));
        explained
    }

    /// Returns the smallest shift that explains enough reports in a row, and the first event of these.
    fn find(&self, values: &Values, config: &ShiftConfig, is_final: bool) -> Option<(u64, i64)> {
        let is_frequent = |(shift, count): (&i64, &usize)| (*count >= config.events).then_some(*shift);
        let mut shifts: Vec<i64> = self.explains.iter().filter_map(is_frequent).collect();
        shifts.sort_unstable_by_key(|shift| (shift.unsigned_abs(), *shift < 0));
        // A larger shift may be explained earlier than a smaller one, since its values came first.
        let last = if is_final { u64::MAX } else { values.highest().saturating_sub(config.longest) };
        let first_of = |shift: i64| self.find_run(shift, values, config.events, last);
        shifts.into_iter().find_map(|shift| Some((first_of(shift)?, shift)))
    }

    /// Returns the first event of a row of reports up to event `last` that a shift explains.
    fn find_run(&self, shift: i64, values: &Values, events: usize, last: u64) -> Option<u64> {
        let mut run: Option<(u64, u64, usize)> = None;
        for (event, report) in self.reports.range(..=last) {
            if report.shifts.contains(&shift) {
                let follows = |last: u64| event - last <= 2 * events as u64;
                let (first, _, count) =
                    run.filter(|(_, last, _)| follows(*last)).unwrap_or((*event, *event, 0));
                if count + 1 >= events {
                    return Some(first);
                }
                run = Some((first, *event, count + 1));
            } else if values.has(event.checked_add_signed(shift)) {
                run = None;
            }
        }
        None
    }
}

/// Returns the number of events from one event to another.
fn distance(from: u64, to: u64) -> i64 {
    let distance = i64::try_from(from.abs_diff(to)).unwrap_or(i64::MAX);
    if to > from { distance } else { -distance }
}

#[cfg(test)]
mod tests;
