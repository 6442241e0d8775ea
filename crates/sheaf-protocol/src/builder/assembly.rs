//! Events under construction.

use super::pull::NOT_ASKED;
use super::scope::{Ask, Selection};
use crate::event_index::EventIndex;
use sheaf_wire::message::Assignment;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, MissingSource, Payload, SourceId, SuperFragment, Timestamp,
    TriggerType,
};
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Names an assembly. Event, attempt and part are in the key, so that one that outlived its assembly, or its part, is
/// recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssemblyKey {
    pub(super) event: EventId,
    attempt: u16,
    part: u16,
    index: u32,
}

impl AssemblyKey {
    /// Whether a super-fragment answers what was asked for. The whole of an event is the same in every attempt, its parts are
    /// not.
    pub(super) fn takes(&self, entry: &SuperFragment) -> bool {
        entry.part == self.part && (entry.part == 0 || entry.attempt == self.attempt)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Assembly<P> {
    pub(super) event: EventId,
    pub(super) time: Timestamp,
    pub(super) trigger_type: TriggerType,
    pub(super) attempt: u16,
    pub(super) charged: u32,
    pub(super) fragments: Vec<Fragment<P>>,
    pub(super) missing: Vec<MissingSource>,
    pub(super) bytes: ByteCount,
    /// How many readout units have not answered.
    pub(super) awaited: usize,
    /// A bit a readout unit: answered.
    answered: Vec<u64>,
    readouts: usize,
    /// Paced pull: what is charged for each readout unit's part, [`NOT_ASKED`] where it was not asked. Else empty.
    charges: Vec<u32>,
    /// Paced pull: when a readout unit was last asked.
    pub(super) asked_at: Timestamp,
    /// Which part is under construction, from 1; 0 where the event is built as a whole.
    pub(super) part: u16,
    /// What is asked for in this part.
    pub(super) selection: Option<Arc<Selection>>,
    /// The event is not judged any more after this part.
    pub(super) is_last: bool,
    /// The driver has what there is, and judges it.
    pub(super) at_driver: bool,
    /// Readout units that did not answer, and how many parts of the event have their answer.
    pub(super) absent: Vec<(u16, u16)>,
}

impl<P: Payload> Assembly<P> {
    /// Notes that a readout unit has answered. False if it had before, or does not exist.
    pub(super) fn note_answer(&mut self, readout: u16) -> bool {
        let (word, bit) = (usize::from(readout) / 64, 1_u64 << (readout % 64));
        if usize::from(readout) >= self.readouts || self.answered[word] & bit != 0 {
            return false;
        }
        self.answered[word] |= bit;
        self.awaited -= 1;
        true
    }

    /// Begins a part: the readout units that `is_asked` says are awaited.
    pub(super) fn begin_part(&mut self, part: u16, is_asked: impl Fn(usize) -> bool) {
        self.part = part;
        self.awaited = 0;
        self.answered.fill(0);
        for readout in 0..self.readouts {
            if is_asked(readout) {
                self.awaited += 1;
            } else {
                self.answered[readout / 64] |= 1 << (readout % 64);
            }
        }
    }

    /// Ends a part: who is awaited now has no part in the event from here on.
    pub(super) fn end_part(&mut self) {
        let parts = self.part.saturating_sub(1);
        let silent: Vec<_> = self.awaited_readouts().map(|readout| (readout, parts)).collect();
        self.absent.extend(silent);
        self.awaited = 0;
        self.answered.fill(u64::MAX);
    }

    pub(super) fn is_awaited(&self, readout: usize) -> bool {
        self.answered[readout / 64] & (1 << (readout % 64)) == 0
    }

    /// What a readout unit is asked for.
    pub(super) fn ask(&self, readout: usize) -> Ask {
        Ask {
            part: self.part,
            sources: self.selection.as_ref().map(|selection| selection.of(readout).clone()),
        }
    }

    /// The sources that have been asked for in the parts that have ended.
    pub(super) fn named_sources(&self) -> impl Iterator<Item = SourceId> {
        let here = self.fragments.iter().map(|fragment| fragment.source);
        here.chain(self.missing.iter().map(|missing| missing.source))
    }

    /// Whether a readout unit that has not answered was asked; true where that is not kept.
    pub(super) fn was_asked(&self, readout: u16) -> bool {
        self.charges.get(usize::from(readout)).is_none_or(|charge| *charge != NOT_ASKED)
    }

    /// Takes note that a readout unit is asked at `now`. False if it need not be.
    pub(super) fn charge(&mut self, readout: usize, bytes: u32, now: Timestamp) -> bool {
        let is_awaited = self.is_awaited(readout);
        let Some(charge) = self.charges.get_mut(readout).filter(|charge| is_awaited && **charge == NOT_ASKED)
        else {
            return false;
        };
        *charge = bytes;
        self.asked_at = now;
        true
    }

    /// What is charged for a readout unit, which it is no more.
    pub(super) fn uncharge(&mut self, readout: u16) -> u32 {
        let charge = self.charges.get_mut(usize::from(readout));
        charge.map_or(NOT_ASKED, |charge| std::mem::replace(charge, NOT_ASKED))
    }

    /// The readout units that are charged, and what; they are no more.
    pub(super) fn take_charges(&mut self) -> impl Iterator<Item = (usize, u32)> {
        let charges = self.charges.iter_mut().map(|charge| std::mem::replace(charge, NOT_ASKED));
        charges.enumerate().filter(|(_, charge)| *charge != NOT_ASKED)
    }

    /// The readout units that have not answered, ascending.
    pub(super) fn awaited_readouts(&self) -> impl Iterator<Item = u16> + use<P> {
        let answered = self.answered.clone();
        let readouts = if self.awaited == 0 { 0 } else { self.readouts };
        (0..readouts)
            .filter(move |readout| answered[readout / 64] & (1 << (readout % 64)) == 0)
            .filter_map(|readout| u16::try_from(readout).ok())
    }

    pub(super) fn add(
        &mut self,
        fragments: impl Iterator<Item = Fragment<P>>,
        missing: impl Iterator<Item = MissingSource>,
    ) {
        for fragment in fragments {
            self.bytes += ByteCount::from(fragment.payload.len());
            self.fragments.push(fragment);
        }
        self.missing.extend(missing);
    }

    /// Whether a source is missing that is not optional.
    pub(super) fn is_incomplete(&self, optional: &BTreeSet<SourceId>) -> bool {
        self.missing.iter().any(|missing| !optional.contains(&missing.source))
    }

    /// Brings fragments and missing sources into the order of source ids; readout units answer in any order.
    pub(super) fn sort(&mut self) {
        if !self.fragments.is_sorted_by_key(|fragment| fragment.source) {
            self.fragments.sort_unstable_by_key(|fragment| fragment.source);
        }
        self.missing.sort_unstable();
    }

    /// The event as far as it is built.
    pub(super) fn take_event(&mut self, incomplete: bool) -> Event<P> {
        Event {
            id: self.event,
            time: self.time,
            trigger_type: self.trigger_type,
            attempt: self.attempt,
            incomplete,
            fragments: std::mem::take(&mut self.fragments),
            missing: std::mem::take(&mut self.missing),
        }
    }
}

/// All assemblies, found by event in constant time. The map is only asked for single events.
#[derive(Debug)]
pub(super) struct Assemblies<P> {
    readouts: usize,
    assemblies: Vec<Option<Assembly<P>>>,
    free: Vec<u32>,
    spare_masks: Vec<Vec<u64>>,
    /// Whether it is kept what readout units are charged.
    keeps_charges: bool,
    spare_charges: Vec<Vec<u32>>,
    by_event: EventIndex,
}

impl<P: Payload> Assemblies<P> {
    pub(super) fn new(readouts: usize, slots: usize, keeps_charges: bool) -> Self {
        Self {
            readouts,
            assemblies: Vec::with_capacity(slots),
            free: Vec::new(),
            spare_masks: Vec::new(),
            keeps_charges,
            spare_charges: Vec::new(),
            by_event: EventIndex::new(slots),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_event.len()
    }

    /// Begins an event; `None` if it is being built already. `spare` is an empty vector to use again.
    pub(super) fn open(
        &mut self,
        assignment: &Assignment,
        spare: Option<Vec<Fragment<P>>>,
    ) -> Option<AssemblyKey> {
        if self.by_event.get(assignment.event).is_some() {
            return None;
        }
        let mut answered = self.spare_masks.pop().unwrap_or_default();
        answered.clear();
        answered.resize(self.readouts.div_ceil(64), 0);
        let mut charges = Vec::new();
        if self.keeps_charges {
            charges = self.spare_charges.pop().unwrap_or_default();
            charges.clear();
            charges.resize(self.readouts, NOT_ASKED);
        }
        let assembly = Assembly {
            event: assignment.event,
            time: assignment.time,
            trigger_type: assignment.trigger_type,
            attempt: assignment.attempt,
            charged: assignment.charged,
            fragments: spare.unwrap_or_default(),
            missing: Vec::new(),
            bytes: ByteCount::ZERO,
            awaited: self.readouts,
            answered,
            readouts: self.readouts,
            charges,
            asked_at: Timestamp::ZERO,
            part: 0,
            selection: None,
            is_last: false,
            at_driver: false,
            absent: Vec::new(),
        };
        let index = if let Some(index) = self.free.pop() {
            self.assemblies[index as usize] = Some(assembly);
            index
        } else {
            self.assemblies.push(Some(assembly));
            u32::try_from(self.assemblies.len() - 1).expect("slots are bounded by a u32")
        };
        self.by_event.insert(assignment.event, index);
        Some(AssemblyKey { event: assignment.event, attempt: assignment.attempt, part: 0, index })
    }

    pub(super) fn find(&self, event: EventId) -> Option<AssemblyKey> {
        let index = self.by_event.get(event)?;
        let Assembly { attempt, part, .. } = self.assemblies[index as usize].as_ref()?;
        Some(AssemblyKey { event, attempt: *attempt, part: *part, index })
    }

    /// The assembly of an event, if this is its attempt, and the part that it has come to.
    pub(super) fn of_attempt(&mut self, event: EventId, attempt: u16, part: u16) -> Option<&mut Assembly<P>> {
        let index = self.by_event.get(event)?;
        let assembly = self.assemblies[index as usize].as_mut();
        assembly.filter(|assembly| assembly.attempt == attempt && assembly.part == part)
    }

    /// Whether answers are awaited.
    pub(super) fn is_open(&self, key: AssemblyKey) -> bool {
        self.get(key).is_some_and(|assembly| !assembly.at_driver)
    }

    pub(super) fn close(&mut self, key: AssemblyKey) -> Assembly<P> {
        let mut assembly = self.assemblies[key.index as usize].take().expect("an assembly is closed once");
        assert_eq!(assembly.event, key.event, "a key outlived its assembly");
        self.by_event.remove(key.event);
        self.free.push(key.index);
        if assembly.awaited == 0 {
            self.spare_masks.push(std::mem::take(&mut assembly.answered));
        }
        if self.keeps_charges {
            self.spare_charges.push(std::mem::take(&mut assembly.charges));
        }
        assembly
    }

    fn get(&self, key: AssemblyKey) -> Option<&Assembly<P>> {
        let assembly = self.assemblies[key.index as usize].as_ref();
        assembly.filter(|assembly| {
            assembly.event == key.event && assembly.attempt == key.attempt && assembly.part == key.part
        })
    }
}

impl<P: Payload> Index<AssemblyKey> for Assemblies<P> {
    type Output = Assembly<P>;
    fn index(&self, key: AssemblyKey) -> &Assembly<P> {
        self.get(key).expect("the key's assembly lives")
    }
}

impl<P: Payload> IndexMut<AssemblyKey> for Assemblies<P> {
    fn index_mut(&mut self, key: AssemblyKey) -> &mut Assembly<P> {
        let assembly = self.assemblies[key.index as usize].as_mut();
        assembly.filter(|assembly| assembly.event == key.event).expect("the key's assembly lives")
    }
}
