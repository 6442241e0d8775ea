//! Events under construction.

mod key;
mod waiting;

pub(super) use key::AssemblyKey;

mod visits;

use super::answered::Answered;
use super::scope::{Ask, Selection};
use crate::event_range::EventIdRange;
use crate::event_window::EventWindow;
use sheaf_wire::HitInterval;
use sheaf_wire::message::Assignment;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, MissingSource, Payload, SourceId, SuperFragment, Timestamp,
    TriggerType,
};
use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Longest wait before an unanswered request is repeated, as a multiple of the first wait.
const LONGEST_PATIENCE: u32 = 16;

/// Maximum number of places in the index for each event. The ids of one builder's events are far apart, because the events
/// between them belong to other builders.
const SPREAD: usize = 64;

/// Length of `by_age` below which ended events are not removed from it.
const BY_AGE_FLOOR: usize = 64;

/// Marks a readout unit without a request for an event, in place of its charge.
pub(super) const NOT_ASKED: u32 = u32::MAX;

/// Marks a readout unit whose repeated request waits for credit, in place of its charge. All charges are less.
pub(super) const TO_REPEAT: u32 = NOT_ASKED - 1;

/// State of an assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The assembly is free.
    Free,
    /// The event is under construction.
    Building,
    /// The event is built and waits for the driver's decision.
    Built,
}

/// An event under construction. Thousands of them are used in turn, more than the first-level cache holds. The fields are
/// therefore ordered by use, in cache lines of 64 bytes: those used for every super-fragment, those used for every event,
/// and the rest.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Assembly<P> {
    pub(super) event: EventId,
    pub(super) fragments: Vec<Fragment<P>>,
    pub(super) bytes: ByteCount,
    /// The readout units that have answered.
    answered: Answered,
    /// Number of readout units that have not answered.
    pub(super) awaited: u16,
    pub(super) attempt: u16,
    /// Number of the part under construction, from 1, or 0 if the event is built as a whole.
    pub(super) part: u16,
    stage: Stage,
    /// Whether the driver has the part and will decide on it.
    pub(super) at_driver: bool,

    pub(super) missing: Vec<MissingSource>,
    pub(super) time: Timestamp,
    /// When the part under construction was begun.
    pub(super) begun_at: Timestamp,
    pub(super) charged: u32,
    /// Number of fragments of an ended event.
    pub(super) fragment_count: u32,
    /// Number of missing sources of an ended event.
    pub(super) missing_count: u32,
    /// Number of unanswered waits since this part began.
    silences: u32,
    readouts: u16,
    pub(super) trigger_type: TriggerType,
    /// Whether this is the last part on which the driver decides.
    pub(super) is_last: bool,
    /// Whether an ended event lacks a required source.
    pub(super) incomplete: bool,

    /// Paced pull: the charge for each readout unit's answer, [`NOT_ASKED`] without a request, or [`TO_REPEAT`] while
    /// the repeated request waits. Otherwise empty.
    charges: Vec<u32>,
    /// Paced pull: number of readout units with a charge.
    charged_readouts: usize,
    /// Paced pull: time of the last request.
    pub(super) asked_at: Timestamp,
    /// Sources requested in this part.
    pub(super) selection: Option<Arc<Selection>>,
    /// Readout units that did not answer, and the number of parts that they had answered before.
    pub(super) absent: Vec<(u16, u16)>,
    /// Windows of time that were found in earlier parts, and whose hits are requested in this one.
    pub(super) windows: Vec<HitInterval>,
}

impl<P: Payload> Assembly<P> {
    /// Returns the key of this assembly, which is at `place`.
    pub(super) fn key(&self, place: u32) -> AssemblyKey {
        AssemblyKey::new(self.event, place, self.attempt, self.part)
    }

    /// Returns whether a super-fragment answers the current request. An answer for a whole event is valid in every
    /// attempt; an answer for a part only in its own.
    #[inline]
    pub(super) fn takes(&self, entry: &SuperFragment) -> bool {
        entry.part == self.part && (self.part == 0 || entry.attempt == self.attempt)
    }

    /// Records an answer. Returns `false` if the readout unit had answered before or does not exist.
    #[inline]
    pub(super) fn note_answer(&mut self, readout: u16) -> bool {
        let is_new = self.answered.insert(usize::from(readout));
        self.awaited -= u16::from(is_new);
        is_new
    }

    /// Begins a part, and awaits the readout units for which `is_asked` returns true.
    pub(super) fn begin_part(&mut self, part: u16, is_asked: impl Fn(usize) -> bool) {
        (self.part, self.silences) = (part, 0);
        self.awaited = 0;
        let readouts = usize::from(self.readouts);
        self.answered.clear(readouts);
        for readout in 0..readouts {
            if is_asked(readout) {
                self.awaited += 1;
            } else {
                self.answered.insert(readout);
            }
        }
    }

    /// Stops waiting for a readout unit that is given up, and lists it as absent.
    pub(super) fn end_wait(&mut self, readout: u16) {
        if self.note_answer(readout) {
            self.absent.push((readout, self.part.saturating_sub(1)));
        }
    }

    /// Stops waiting for a readout unit that is excluded. The event manager knows that it is.
    pub(super) fn pass_over(&mut self, readout: u16) {
        let _ = self.note_answer(readout);
    }

    /// Drops the remaining fragments. Usually the driver has taken them.
    #[inline]
    pub(super) fn clear_event(&mut self) {
        self.fragments.clear();
        self.missing.clear();
    }

    /// Drops everything that the assembly holds.
    pub(super) fn clear(&mut self) {
        self.clear_event();
        self.absent.clear();
        self.selection = None;
    }

    pub(super) fn is_awaited(&self, readout: usize) -> bool {
        !self.answered.contains(readout)
    }

    /// Returns the request to a readout unit.
    pub(super) fn ask(&self, readout: usize) -> Ask {
        Ask {
            part: self.part,
            sources: self.selection.as_ref().map(|selection| selection.of(readout).clone()),
        }
    }

    /// Records that the time for an answer has passed, and returns whether to repeat the request. Requests
    /// are repeated after 1, 2, 4, ... times this time, and then every [`LONGEST_PATIENCE`] times. The
    /// interval doubles because slow answers are usually caused by load: repeating at a constant rate would
    /// increase the load without limit.
    pub(super) fn note_silence(&mut self) -> bool {
        self.silences = self.silences.saturating_add(1);
        self.silences.is_power_of_two() || self.silences.is_multiple_of(LONGEST_PATIENCE)
    }

    /// Returns the sources that have a fragment or are listed as missing.
    pub(super) fn named_sources(&self) -> impl Iterator<Item = SourceId> {
        let here = self.fragments.iter().map(|fragment| fragment.source);
        here.chain(self.missing.iter().map(|missing| missing.source))
    }

    /// Returns whether a request was sent to a readout unit that has not answered. Always `true` without paced pull, where
    /// every request is sent at once.
    pub(super) fn was_asked(&self, readout: u16) -> bool {
        self.charges.get(usize::from(readout)).is_none_or(|charge| *charge < TO_REPEAT)
    }

    /// Charges a request that is sent at `now`, and returns the former mark, [`NOT_ASKED`] or [`TO_REPEAT`]. Returns `None`
    /// if no request is needed.
    pub(super) fn charge(&mut self, readout: usize, bytes: u32, now: Timestamp) -> Option<u32> {
        let is_awaited = self.is_awaited(readout);
        let charge = self.charges.get_mut(readout).filter(|charge| is_awaited && **charge >= TO_REPEAT)?;
        self.charged_readouts += 1;
        self.asked_at = now;
        Some(std::mem::replace(charge, bytes))
    }

    /// Removes the charge for a readout unit and returns it.
    pub(super) fn uncharge(&mut self, readout: u16) -> u32 {
        let charge = self.charges.get_mut(usize::from(readout));
        let charge = charge.map_or(NOT_ASKED, |charge| std::mem::replace(charge, NOT_ASKED));
        self.charged_readouts -= usize::from(charge < TO_REPEAT);
        charge
    }

    /// Removes the charge for a readout unit that is to be asked again, and returns it.
    pub(super) fn uncharge_to_repeat(&mut self, readout: u16) -> u32 {
        let charge = self.uncharge(readout);
        if let Some(place) = self.charges.get_mut(usize::from(readout)) {
            *place = TO_REPEAT;
        }
        charge
    }

    /// Returns the first readout unit that has no request and has not answered, if all requests so far are
    /// answered.
    pub(super) fn blocked_at(&self) -> Option<usize> {
        let not_asked = |readout: &usize| self.charges[*readout] >= TO_REPEAT && self.is_awaited(*readout);
        let is_blocked = self.charged_readouts == 0 && self.awaited > 0;
        is_blocked.then(|| (0..self.charges.len()).find(not_asked)).flatten()
    }

    /// Removes all charges and returns them with their readout units.
    pub(super) fn take_charges(&mut self) -> impl Iterator<Item = (usize, u32)> {
        self.charged_readouts = 0;
        let charges = self.charges.iter_mut().map(|charge| std::mem::replace(charge, NOT_ASKED));
        charges.enumerate().filter(|(_, charge)| *charge < TO_REPEAT)
    }

    /// Returns the readout units that have not answered, in ascending order.
    pub(super) fn awaited_readouts(&self) -> impl Iterator<Item = u16> + use<P> {
        let answered = self.answered.clone();
        let readouts = if self.awaited == 0 { 0 } else { self.readouts };
        (0..readouts).filter(move |readout| !answered.contains(usize::from(*readout)))
    }

    /// Adds an answer. Returns its payload in bytes.
    #[inline]
    pub(super) fn add(
        &mut self,
        fragments: impl Iterator<Item = Fragment<P>>,
        missing: impl Iterator<Item = MissingSource>,
    ) -> ByteCount {
        let mut bytes = ByteCount::ZERO;
        for fragment in fragments {
            bytes += ByteCount::from(fragment.payload.len());
            self.fragments.push(fragment);
        }
        self.bytes += bytes;
        // Not `extend`: the iterator is usually empty, and then the list is not touched.
        for missing in missing {
            self.missing.push(missing);
        }
        bytes
    }

    /// Returns whether a required source is missing that an operator has not excluded.
    #[inline]
    pub(super) fn is_incomplete(&self, optional: &BTreeSet<SourceId>) -> bool {
        self.missing.iter().any(|missing| missing.reason.is_loss() && !optional.contains(&missing.source))
    }

    /// Sorts fragments and missing sources by source id, because readout units answer in any order.
    #[inline(always)]
    pub(super) fn sort(&mut self) {
        if !self.fragments.is_sorted_by_key(|fragment| fragment.source) {
            self.fragments.sort_unstable_by_key(|fragment| fragment.source);
        }
        if self.missing.len() > 1 {
            self.missing.sort_unstable();
        }
    }

    /// Records the number of fragments and missing sources when the event ends.
    #[inline]
    pub(super) fn sum_up(&mut self, incomplete: bool) {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        (self.fragment_count, self.missing_count) = (count(self.fragments.len()), count(self.missing.len()));
        self.incomplete = incomplete;
    }

    /// Takes the event as far as it is built.
    pub(super) fn take_event(&mut self) -> Event<P> {
        let mut event = no_event();
        self.swap_event(&mut event);
        event
    }

    /// Moves the event into `lent`, and takes the vectors of `lent` for reuse.
    #[inline]
    pub(super) fn swap_event(&mut self, lent: &mut Event<P>) {
        (lent.id, lent.time, lent.trigger_type) = (self.event, self.time, self.trigger_type);
        (lent.attempt, lent.incomplete) = (self.attempt, self.incomplete);
        std::mem::swap(&mut lent.fragments, &mut self.fragments);
        std::mem::swap(&mut lent.missing, &mut self.missing);
    }
}

/// Returns the assembly of an event that is under construction or built.
#[inline]
fn at<P>(assemblies: &mut [Assembly<P>], key: AssemblyKey) -> &mut Assembly<P> {
    let assembly = &mut assemblies[key.index() as usize];
    debug_assert!(assembly.event == key.event && assembly.stage != Stage::Free, "event {}", key.event);
    assembly
}

/// Returns an event without any content.
fn no_event<P>() -> Event<P> {
    Event {
        id: EventId(0),
        time: Timestamp::ZERO,
        trigger_type: TriggerType(0),
        attempt: 0,
        incomplete: false,
        fragments: Vec::new(),
        missing: Vec::new(),
    }
}

/// All assemblies, found by event in constant time. An assembly keeps its place until its event is decided,
/// and is then reused with its vectors. The index is used only to look up single events.
#[derive(Debug)]
pub(super) struct Assemblies<P> {
    readouts: u16,
    /// Number of built events without a decision.
    built: usize,
    assemblies: Vec<Assembly<P>>,
    free: Vec<u32>,
    /// Whether charges are recorded (paced pull).
    keeps_charges: bool,
    by_event: EventWindow<u32>,
    /// Paced pull: events under construction in ascending order, and some that have ended.
    by_age: VecDeque<EventId>,
    /// Event that is lent to the driver; otherwise empty.
    lent: Event<P>,
    /// Empty vectors for events whose own vector was taken.
    spares: Vec<Vec<Fragment<P>>>,
    most_spares: usize,
}

impl<P: Payload> Assemblies<P> {
    pub(super) fn new(readouts: usize, slots: usize, keeps_charges: bool) -> Self {
        let readouts = u16::try_from(readouts).expect("the configuration has at most 65,535 nodes of a role");
        Self {
            readouts,
            built: 0,
            assemblies: Vec::with_capacity(slots),
            free: Vec::new(),
            keeps_charges,
            by_event: EventWindow::new(slots, SPREAD),
            by_age: VecDeque::new(),
            lent: no_event(),
            spares: Vec::new(),
            most_spares: slots,
        }
    }

    /// Lends an event to `see`, which may move fragments out of it. The others are dropped.
    #[inline]
    pub(super) fn lend<R>(&mut self, key: AssemblyKey, see: impl FnOnce(&mut Event<P>) -> R) -> R {
        let Self { assemblies, lent, .. } = self;
        at(assemblies, key).swap_event(lent);
        let seen = see(lent);
        lent.fragments.clear();
        lent.missing.clear();
        seen
    }

    /// Takes back the vectors of an event.
    #[inline]
    pub(super) fn recycle(&mut self, event: Event<P>) {
        let mut fragments = event.fragments;
        fragments.clear();
        if fragments.capacity() > 0 && self.spares.len() < self.most_spares {
            self.spares.push(fragments);
        }
    }

    /// Returns the number of events under construction.
    pub(super) fn len(&self) -> usize {
        self.by_event.len() - self.built
    }

    /// Returns the number of built events that wait for a decision.
    pub(super) fn built(&self) -> usize {
        self.built
    }

    /// Begins an event. Returns `None` if it was begun before.
    #[inline]
    pub(super) fn open(&mut self, now: Timestamp, assignment: &Assignment) -> Option<AssemblyKey> {
        if self.by_event.get(assignment.event).is_some() {
            return None;
        }
        let Assignment { event, time, trigger_type, attempt, charged } = *assignment;
        let index = self.free.pop().unwrap_or_else(|| self.make());
        let readouts = self.readouts;
        let assembly = &mut self.assemblies[index as usize];
        (assembly.event, assembly.time, assembly.trigger_type) = (event, time, trigger_type);
        (assembly.attempt, assembly.charged, assembly.awaited) = (attempt, charged, readouts);
        if assembly.fragments.capacity() == 0
            && let Some(spare) = self.spares.pop()
        {
            assembly.fragments = spare;
        }
        assembly.bytes = ByteCount::ZERO;
        assembly.answered.clear(usize::from(readouts));
        (assembly.part, assembly.silences, assembly.begun_at) = (0, 0, now);
        (assembly.is_last, assembly.at_driver, assembly.stage) = (false, false, Stage::Building);
        self.by_event.insert(event, index);
        if self.keeps_charges {
            assembly.charges.fill(NOT_ASKED);
            assembly.charged_readouts = 0;
            assembly.asked_at = Timestamp::ZERO;
            self.note_age(event);
        }
        Some(AssemblyKey::new(event, index, attempt, 0))
    }

    /// Inserts an event into `by_age`. Usually it is the youngest.
    fn note_age(&mut self, event: EventId) {
        let Self { by_age, by_event, assemblies, .. } = self;
        if by_age.len() > BY_AGE_FLOOR + 2 * by_event.len() {
            by_age.retain(|event| building(by_event, assemblies, *event).is_some());
        }
        if by_age.back().is_none_or(|youngest| *youngest < event) {
            by_age.push_back(event);
            return;
        }
        let place = by_age.partition_point(|other| *other < event);
        if by_age.get(place) != Some(&event) {
            by_age.insert(place, event);
        }
    }

    /// Returns the oldest event under construction, which has the lowest id. Only with paced pull.
    pub(super) fn oldest(&mut self) -> Option<&mut Assembly<P>> {
        while let Some(event) = self.by_age.front() {
            if let Some(index) = building(&self.by_event, &self.assemblies, *event) {
                return Some(&mut self.assemblies[index as usize]);
            }
            self.by_age.pop_front();
        }
        None
    }

    /// Adds a free assembly and returns its index.
    fn make(&mut self) -> u32 {
        self.assemblies.push(Assembly {
            event: EventId(0),
            time: Timestamp::ZERO,
            begun_at: Timestamp::ZERO,
            trigger_type: TriggerType(0),
            attempt: 0,
            charged: 0,
            fragments: Vec::new(),
            missing: Vec::new(),
            bytes: ByteCount::ZERO,
            awaited: 0,
            answered: Answered::new(usize::from(self.readouts)),
            readouts: self.readouts,
            charges: vec![NOT_ASKED; if self.keeps_charges { usize::from(self.readouts) } else { 0 }],
            charged_readouts: 0,
            asked_at: Timestamp::ZERO,
            silences: 0,
            part: 0,
            selection: None,
            is_last: false,
            at_driver: false,
            absent: Vec::new(),
            windows: Vec::new(),
            stage: Stage::Free,
            fragment_count: 0,
            missing_count: 0,
            incomplete: false,
        });
        u32::try_from(self.assemblies.len() - 1).expect("slots are bounded by a u32")
    }

    /// Returns the key of an event that is under construction.
    #[inline]
    pub(super) fn find(&self, event: EventId) -> Option<AssemblyKey> {
        let place = self.place_of(event)?;
        Some(self.assemblies[place as usize].key(place))
    }

    /// Returns the place of an event that is under construction. It is valid until the event ends.
    #[inline]
    pub(super) fn place_of(&self, event: EventId) -> Option<u32> {
        building(&self.by_event, &self.assemblies, event)
    }

    /// Returns the assembly at a place that [`Self::place_of`] has returned.
    #[inline]
    pub(super) fn at_place(&mut self, place: u32) -> &mut Assembly<P> {
        let assembly = &mut self.assemblies[place as usize];
        debug_assert!(assembly.stage == Stage::Building, "event {}: not under construction", assembly.event);
        assembly
    }

    /// Returns the assembly of an event if its attempt and current part match.
    pub(super) fn of_attempt(&mut self, event: EventId, attempt: u16, part: u16) -> Option<&mut Assembly<P>> {
        let index = building(&self.by_event, &self.assemblies, event)?;
        let assembly = &mut self.assemblies[index as usize];
        (assembly.attempt == attempt && assembly.part == part).then_some(assembly)
    }

    /// Returns the number of events at the beginning of a range that do not wait for answers to this part of this attempt.
    /// Part 0 is the whole event.
    #[inline]
    pub(super) fn count_answered(&self, events: EventIdRange, (attempt, part): (u16, u16)) -> u64 {
        self.by_event.count_until(events, |index| {
            let assembly = &self.assemblies[*index as usize];
            assembly.stage == Stage::Building
                && assembly.attempt == attempt
                && assembly.part == part
                && !assembly.at_driver
        })
    }

    /// Returns the assembly of an event that is under construction or built.
    pub(super) fn at(&mut self, key: AssemblyKey) -> &mut Assembly<P> {
        at(&mut self.assemblies, key)
    }

    /// Records that an event is built. Its assembly stays until [`Self::decide`].
    #[inline]
    pub(super) fn hand_over(&mut self, key: AssemblyKey) {
        self.assemblies[key.index() as usize].stage = Stage::Built;
        self.built += 1;
    }

    /// Ends the assembly of a built event. Returns `None` if the event is not built here.
    #[inline]
    pub(super) fn decide(&mut self, event: EventId) -> Option<&mut Assembly<P>> {
        let is_built = |index: &u32| self.assemblies[*index as usize].stage == Stage::Built;
        let index = self.by_event.remove_if(event, is_built)?;
        self.built -= 1;
        Some(self.free(index))
    }

    /// Ends an assembly that is under construction. Its content stays, to be taken or cleared.
    pub(super) fn close(&mut self, key: AssemblyKey) -> &mut Assembly<P> {
        assert!(self.get(key).is_some(), "event {}: an assembly is closed once", key.event);
        self.by_event.remove(key.event);
        self.free(key.index())
    }

    // Called for every event: a function call would cost as much as the body.
    #[inline(always)]
    fn free(&mut self, index: u32) -> &mut Assembly<P> {
        self.free.push(index);
        let assembly = &mut self.assemblies[index as usize];
        assembly.stage = Stage::Free;
        assembly
    }

    fn get(&self, key: AssemblyKey) -> Option<&Assembly<P>> {
        let assembly = &self.assemblies[key.index() as usize];
        (assembly.stage == Stage::Building && assembly.key(key.index()) == key).then_some(assembly)
    }
}

/// Returns the place of an event that is under construction.
#[inline]
fn building<P>(by_event: &EventWindow<u32>, assemblies: &[Assembly<P>], event: EventId) -> Option<u32> {
    let index = *by_event.get(event)?;
    (assemblies[index as usize].stage == Stage::Building).then_some(index)
}

impl<P: Payload> Index<AssemblyKey> for Assemblies<P> {
    type Output = Assembly<P>;
    fn index(&self, key: AssemblyKey) -> &Assembly<P> {
        self.get(key).expect("the key's assembly lives")
    }
}

impl<P: Payload> IndexMut<AssemblyKey> for Assemblies<P> {
    fn index_mut(&mut self, key: AssemblyKey) -> &mut Assembly<P> {
        let assembly = &mut self.assemblies[key.index() as usize];
        let lives = assembly.stage == Stage::Building && assembly.event == key.event;
        assert!(lives, "the key's assembly lives");
        assembly
    }
}
