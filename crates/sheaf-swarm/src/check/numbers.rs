//! Event numbers that do not agree, observed independently: the defects of the sources determine which fragments are marked, and
//! which shifts may, or must, be found.

use super::Evidence;
use crate::options::{NumberOptions, Options};
use crate::payload::SimPayload;
use crate::violation::{Violation, violation};
use sheaf_protocol::ledger::Counter;
use sheaf_protocol::numbering::{Quantity, Shift};
use sheaf_wire::{Event, EventId, Fragment, SourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Observations of check values.
#[derive(Clone, Debug, Default)]
pub struct NumberRecord {
    /// Shifts that the event manager has announced.
    pub found: Vec<Shift>,
    /// Repairs that it has announced.
    pub repaired: Vec<Shift>,
    /// Distance of marked fragments from the event that they belong to, by source and event.
    marked: BTreeMap<SourceId, BTreeMap<u64, i64>>,
    /// Events with marked fragments: their values are reported.
    reported: BTreeSet<u64>,
    /// Number of events that were built with marked fragments, however often each, and of these fragments.
    events: u64,
    fragments: u64,
    /// Events of each source whose fragment belongs elsewhere.
    off_again: BTreeMap<SourceId, BTreeSet<u64>>,
    /// First event of each source whose fragment is renumbered by this number.
    renumbered: BTreeMap<(SourceId, i64), u64>,
    /// The last restart of each readout unit, which renumbers nothing from then on.
    restarts: BTreeMap<u16, Restart>,
}

/// State of a run when the event manager received that a readout unit had restarted.
#[derive(Clone, Copy, Debug)]
struct Restart {
    /// Number of shifts found before.
    found: usize,
    /// Number of triggers before. All fragments of later ones are those of the new session.
    triggers: u64,
}

/// Returns the event that a fragment belongs to.
///
/// # Errors
/// Returns the violated rule.
pub(super) fn check_origin(
    options: &Options,
    event: EventId,
    fragment: &Fragment<SimPayload>,
) -> Result<EventId, Violation> {
    let (source, origin, mark) = (fragment.source, fragment.payload.event, fragment.mark);
    if mark.is_renumbered() && !options.may_be_renumbered(source) {
        return Err(violation!("the fragment of source {source} is renumbered, and the source is not off"));
    }
    let moved_by = match (mark.is_renumbered(), mark.shift()) {
        (false, _) => 0,
        (true, Some(shift)) => shift,
        // Its mark holds the difference instead.
        (true, None) => return Ok(origin),
    };
    let number = event.0.checked_add_signed(-moved_by).map(EventId);
    if number.and_then(|number| options.origin(number, source)) != Some(origin) {
        return Err(violation!(
            "the fragment of source {source} is that of event {origin}, moved by {moved_by}, which is not its number"
        ));
    }
    Ok(origin)
}

/// Checks that those fragments of an event are marked whose check values disagree, with the difference.
pub(crate) fn check_marks(options: &Options, event: &Event<SimPayload>) -> Result<(), Violation> {
    let wanted = options.numbers.as_ref().map(|numbers| differences(options, numbers, event));
    let wanted = wanted.unwrap_or_default();
    for fragment in &event.fragments {
        let (source, difference) = (fragment.source, fragment.mark.difference());
        let right = wanted.get(&source).copied();
        if difference != right {
            return Err(violation!(
                "source {source} is marked with {difference:?}, and differs by {right:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the differences of the check values that disagree with that of their event.
fn differences(
    options: &Options,
    numbers: &NumberOptions,
    event: &Event<SimPayload>,
) -> BTreeMap<SourceId, i64> {
    let quantity = numbers.quantity;
    let with_value = event.fragments.iter().filter(|fragment| !fragment.processed);
    let value = |fragment: &Fragment<SimPayload>| {
        let source = fragment.source;
        let raw = options.check_value(fragment.payload.event, source);
        quantity.cut(raw.wrapping_sub(Options::check_offset(source).cast_unsigned()))
    };
    let values: Vec<(SourceId, u64)> = with_value.map(|it| (it.source, value(it))).collect();
    let given =
        values.iter().find(|(source, _)| numbers.reference.is_some_and(|it| u32::from(it) == source.0));
    let agree = |one: u64, other: u64| distance(quantity, one, other).unsigned_abs() <= quantity.tolerance;
    let votes = |one: u64| values.iter().filter(|(_, other)| agree(one, *other)).count();
    let most = values.iter().map(|(_, value)| votes(*value)).max();
    let elected = values.iter().find(|(_, value)| Some(votes(*value)) == most);
    let Some((_, right)) = given.or(elected) else { return BTreeMap::new() };
    let differs = values.iter().filter(|(_, value)| !agree(*value, *right));
    differs.map(|(source, value)| (*source, distance(quantity, *value, *right))).collect()
}

/// Returns by how much a value is larger than another one, the shorter way round.
fn distance(quantity: Quantity, value: u64, other: u64) -> i64 {
    let modulus = if quantity.modulus == 0 { 1_i128 << 64 } else { i128::from(quantity.modulus) };
    let forward = (i128::from(value) - i128::from(other)).rem_euclid(modulus);
    let shorter = if forward > modulus - forward { forward - modulus } else { forward };
    i64::try_from(shorter).unwrap_or(i64::MAX)
}

impl NumberRecord {
    /// Records a restart of a readout unit.
    pub(crate) fn see_restart(&mut self, readout: u16, found: usize, triggers: u64) {
        self.restarts.insert(readout, Restart { found, triggers });
    }

    /// Records a built event, whose marks are right.
    pub(crate) fn see_built(&mut self, options: &Options, event: &Event<SimPayload>) {
        let mut marked = 0;
        for fragment in &event.fragments {
            let (source, origin) = (fragment.source, fragment.payload.event.0);
            if fragment.mark.disagrees() {
                marked += 1;
                let distance =
                    i64::try_from(origin).unwrap_or(i64::MAX) - i64::try_from(event.id.0).unwrap_or(0);
                self.marked.entry(source).or_default().insert(event.id.0, distance);
            }
            if let Some(shift) = fragment.mark.shift() {
                let first = self.renumbered.entry((source, shift)).or_insert(event.id.0);
                *first = event.id.0.min(*first);
            }
            if options.is_off(source) && origin != event.id.0 {
                self.off_again.entry(source).or_default().insert(event.id.0);
            }
        }
        if marked > 0 {
            self.events += 1;
            self.fragments += marked;
            self.reported.insert(event.id.0);
        }
    }

    /// Returns whether an event in which a source is marked is explained by a shift: the right value of the event that its fragment
    /// belongs to is reported.
    fn is_explained(&self, marked: &BTreeMap<u64, i64>, event: u64, shift: i64) -> bool {
        let other = event.checked_add_signed(shift);
        marked.get(&event) == Some(&shift) && other.is_some_and(|other| self.reported.contains(&other))
    }
}

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let options = evidence.options;
    for (_, event) in evidence.counting() {
        if let Err(what) = check_marks(options, event) {
            violations.push(violation!("event {} on a disk: {what}", event.id));
        }
    }
    let Some(numbers) = &options.numbers else { return };
    let shifts = evidence.manager.shifts();
    let record = &evidence.watch.numbers;
    let announced: Vec<_> = record.found.iter().map(identify).collect();
    let booked: Vec<_> = shifts.iter().map(identify).collect();
    if announced != booked {
        violations.push(violation!("the shifts {announced:?} were announced, and {booked:?} are booked"));
    }
    if !numbers.is_clear(options.source_count()) {
        return;
    }
    for (place, shift) in shifts.iter().enumerate() {
        if let Err(what) = check_shift(evidence, numbers, &shifts[..place], shift) {
            violations.push(violation!("{shift:?} was found, and {what}"));
        }
    }
    let faults = evidence.watch.faults;
    let lost = faults.builder_crashes + faults.fences + faults.given_up + faults.failed_starts;
    if lost > 0 {
        return;
    }
    let counters = evidence.counters();
    let counted = |counter| counters.get(&counter).copied().unwrap_or_default();
    let pair = (counted(Counter::DisagreeingEvents), counted(Counter::DisagreeingFragments));
    if pair != (record.events, record.fragments) {
        let right = (record.events, record.fragments);
        violations.push(violation!("(events, fragments) that disagree: {right:?}; {pair:?} are booked"));
    }
    if faults.readout_crashes + faults.absent_at_start == 0 {
        for number in 0..options.source_count() {
            let found = check_source(evidence, numbers, SourceId(u32::from(number)));
            violations.extend(found.err());
        }
    }
    for (readout, restart) in &record.restarts {
        let its = |source: &SourceId| options.readout_of(*source).index == *readout;
        for source in (0..options.source_count()).map(|number| SourceId(u32::from(number))).filter(its) {
            violations.extend(check_found_again(evidence, numbers, source, *restart).err());
        }
    }
}

/// Checks that a shift of a source is found again that lasts after the restart of its readout unit.
fn check_found_again(
    evidence: &Evidence<'_>,
    numbers: &NumberOptions,
    source: SourceId,
    restart: Restart,
) -> Result<(), Violation> {
    let record = &evidence.watch.numbers;
    let Some(marked) = record.marked.get(&source) else { return Ok(()) };
    let since = crate::source::FIRST_EVENT.0 + restart.triggers;
    let later: BTreeMap<u64, i64> = marked.range(since..).map(|(event, shift)| (*event, *shift)).collect();
    let shifts = &evidence.manager.shifts()[restart.found..];
    must_be_found(evidence, numbers, source, &later, shifts)
        .map_err(|what| violation!("after a restart: {what}"))
}

fn identify(shift: &Shift) -> (SourceId, EventId, i64) {
    (shift.source, shift.first, shift.shift)
}

/// Checks that a source was off by that, at the first event. Where it was repaired later of `earlier` shifts, it was off by those as well.
fn check_shift(
    evidence: &Evidence<'_>,
    numbers: &NumberOptions,
    earlier: &[Shift],
    shift: &Shift,
) -> Result<(), Violation> {
    let none = BTreeMap::new();
    let record = &evidence.watch.numbers;
    let marked = record.marked.get(&shift.source).unwrap_or(&none);
    let is_repaired_later = |it: &&Shift| it.source == shift.source && it.repaired_from > Some(shift.first);
    let unrepaired: i64 = earlier.iter().filter(is_repaired_later).map(|it| it.shift).sum();
    match marked.get(&shift.first.0) {
        Some(distance) if *distance == shift.shift || *distance == shift.shift + unrepaired => {}
        other => return Err(violation!("the source was off by {other:?} there")),
    }
    let faults = numbers.faults_of(shift.source);
    let begin = faults.map(|fault| crate::source::FIRST_EVENT.0 + fault.event).min();
    if begin.is_none_or(|begin| shift.first.0 < begin) {
        return Err(violation!("the source is off from {begin:?} on"));
    }
    Ok(())
}

/// Checks in a run in which no node lost its state that the shifts of a source are found, from their first event on, and that what is
/// repaired is right from then on.
fn check_source(evidence: &Evidence<'_>, numbers: &NumberOptions, source: SourceId) -> Result<(), Violation> {
    let record = &evidence.watch.numbers;
    let shifts: Vec<&Shift> = evidence.manager.shifts().iter().filter(|it| it.source == source).collect();
    let Some(marked) = record.marked.get(&source) else { return Ok(()) };
    let is_explained = |event: u64, shift: i64| record.is_explained(marked, event, shift);
    let reach = 2 * numbers.events as u64 + numbers.longest;
    for (place, shift) in shifts.iter().enumerate() {
        let before = shifts[..place].iter().filter_map(|before| before.repaired_from).max();
        let since = before.unwrap_or_default().0;
        let earlier = shift.first.0.saturating_sub(reach).max(since)..shift.first.0;
        if let Some(event) = earlier.rev().find(|event| is_explained(*event, shift.shift)) {
            return Err(violation!("{shift:?} has begun at event {event}"));
        }
    }
    must_be_found(evidence, numbers, source, marked, evidence.manager.shifts())?;
    check_last_repair(numbers, &shifts, marked, &is_explained)?;
    let has_one = numbers.has_one_fault(source);
    let sources = &evidence.options.sources;
    let late = if sources.out_of_order.is_possible() { sources.disorder + 1 } else { 0 };
    if !sources.duplicate.is_possible() {
        check_repairs(record, &shifts, late)?;
    }
    let repaired = shifts.last().and_then(|shift| shift.repaired_from);
    if let (true, Some(from), Some(off)) = (has_one, repaired, record.off_again.get(&source))
        && let Some(event) = off.range(from.0..).next()
    {
        return Err(violation!(
            "source {source} is repaired from event {from} on, and is off in event {event}"
        ));
    }
    Ok(())
}

/// Checks that a source that was repaired, and of which no later shift was found, has none.
fn check_last_repair(
    numbers: &NumberOptions,
    shifts: &[&Shift],
    marked: &BTreeMap<u64, i64>,
    is_explained: &impl Fn(u64, i64) -> bool,
) -> Result<(), Violation> {
    let Some((last, from)) = shifts.last().and_then(|last| Some((last, last.repaired_from?))) else {
        return Ok(());
    };
    let later: BTreeMap<u64, i64> = marked.range(from.0..).map(|(event, shift)| (*event, *shift)).collect();
    match first_of_row(&later, numbers.events, is_explained) {
        None => Ok(()),
        Some(first) => Err(violation!(
            "{last:?} was the last shift found, and the source is off by {} from event {first} on",
            later[&first]
        )),
    }
}

/// Checks that the first row of events with the same shift of a source is found, if it is long enough.
fn must_be_found(
    evidence: &Evidence<'_>,
    numbers: &NumberOptions,
    source: SourceId,
    marked: &BTreeMap<u64, i64>,
    shifts: &[Shift],
) -> Result<(), Violation> {
    let is_explained = |event, shift| evidence.watch.numbers.is_explained(marked, event, shift);
    let Some(first) = first_of_row(marked, numbers.events, &is_explained) else { return Ok(()) };
    let shift = marked[&first];
    let is_found = shifts.iter().any(|found| found.source == source && found.shift == shift);
    // One that is repaired may hide the next one.
    if is_found || evidence.options.repairs() && !numbers.has_one_fault(source) {
        return Ok(());
    }
    Err(violation!("source {source} is off by {shift} from event {first} on, and is not found"))
}

/// Checks that no fragment was renumbered before the event that its repair is said to begin at. Fragments of at most `late` events
/// before may come after the repair.
fn check_repairs(record: &NumberRecord, shifts: &[&Shift], late: u64) -> Result<(), Violation> {
    let mut moved_by = 0;
    let mut repairs: BTreeMap<i64, u64> = BTreeMap::new();
    for shift in shifts {
        let Some(from) = shift.repaired_from else { break };
        moved_by += shift.shift;
        let first = repairs.entry(moved_by).or_insert(from.0);
        *first = from.0.min(*first);
    }
    for (moved_by, from) in repairs {
        let first = shifts.first().and_then(|shift| record.renumbered.get(&(shift.source, moved_by)));
        if let Some(first) = first.filter(|first| **first + late < from) {
            return Err(violation!(
                "event {first} is renumbered by {moved_by}, and the repair begins at {from}"
            ));
        }
    }
    Ok(())
}

/// Returns the first of so many consecutive events with the same shift, by which all are explained.
fn first_of_row(
    marked: &BTreeMap<u64, i64>,
    events: usize,
    is_explained: &impl Fn(u64, i64) -> bool,
) -> Option<u64> {
    let rows = marked.iter().map(|(first, shift)| (*first, *shift));
    let mut rows = rows.filter(|(first, shift)| {
        (0..events as u64).all(|number| is_explained(first.saturating_add(number), *shift))
    });
    rows.next().map(|(first, _)| first)
}
