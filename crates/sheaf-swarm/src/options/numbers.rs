//! Options of check values, and of sources whose event numbers are off.

use super::{Options, TriggerOptions};
use crate::dice::mix;
use sheaf_protocol::numbering::{Quantity, ShiftPolicy};
use sheaf_wire::{EventId, NodeId, SourceId};

/// The first event of a run.
pub const FIRST_EVENT: EventId = EventId(1);

/// First of the ids that the event manager never triggers by itself.
pub(crate) const UNKNOWN_EVENTS: u64 = 1 << 40;

/// Check values of all sources, of one quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberOptions {
    /// Modulus and tolerance of the values.
    pub quantity: Quantity,
    /// Difference of the values of consecutive triggers, larger than twice the tolerance: 1 for a counter, more for a clock.
    pub step: u64,
    /// Source whose value is right, where an event has it.
    pub reference: Option<u16>,
    /// Reaction to a shift.
    pub on_shift: ShiftPolicy,
    /// See [`sheaf_protocol::numbering::ShiftConfig::events`].
    pub events: usize,
    /// See [`sheaf_protocol::numbering::ShiftConfig::longest`].
    pub longest: u64,
    /// Faults of sources, for each source in ascending order of the events.
    pub faults: Vec<NumberFault>,
}

/// A source that numbers its fragments wrongly from some event on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFault {
    /// The source.
    pub source: u16,
    /// Index of the first number that is concerned.
    pub event: u64,
    /// Number of triggers that it misses there; less than 0: it leaves out so many numbers.
    pub shift: i64,
}

impl NumberFault {
    /// Returns whether the source leaves out a number.
    fn leaves_out(&self, number: u64) -> bool {
        self.shift < 0 && (self.event..self.event + self.shift.unsigned_abs()).contains(&number)
    }
}

impl NumberOptions {
    /// Returns the faults of a source.
    pub fn faults_of(&self, source: SourceId) -> impl Iterator<Item = &NumberFault> {
        self.faults.iter().filter(move |fault| u32::from(fault.source) == source.0)
    }

    /// Returns the index of the trigger whose fragment a source gives this number. `None`: no fragment has it.
    #[must_use]
    pub fn trigger_of(&self, source: SourceId, number: u64) -> Option<u64> {
        let mut faults = self.faults_of(source).take_while(|fault| fault.event <= number);
        faults.try_fold(number, |trigger, fault| {
            (!fault.leaves_out(number)).then(|| trigger.checked_add_signed(fault.shift)).flatten()
        })
    }

    /// Returns whether in every event that has a source with right numbers, these are found to be right: with equal votes the source
    /// with the lowest id decides, so only the last source may be off.
    #[must_use]
    pub fn is_clear(&self, sources: u16) -> bool {
        let off = (0..sources).filter(|number| self.faults_of(SourceId(u32::from(*number))).next().is_some());
        let off: Vec<u16> = off.collect();
        let is_right = |number: u16| !off.contains(&number);
        self.reference.is_none_or(is_right) && (off.is_empty() || off == [sources - 1])
    }

    /// Returns whether a source is wrong in one place only.
    #[must_use]
    pub fn has_one_fault(&self, source: SourceId) -> bool {
        self.faults_of(source).count() == 1
    }
}

impl Options {
    /// Returns whether a source has wrong numbers somewhere.
    #[must_use]
    pub fn is_off(&self, source: SourceId) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| numbers.faults_of(source).next().is_some())
    }

    /// Returns whether sources have wrong numbers.
    #[must_use]
    pub fn has_sources_off(&self) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| !numbers.faults.is_empty())
    }

    /// Returns whether readout units renumber sources.
    #[must_use]
    pub fn repairs(&self) -> bool {
        self.has_sources_off() && self.numbers.as_ref().is_some_and(|it| it.on_shift == ShiftPolicy::Repair)
    }

    /// Returns whether a source may be renumbered: it is off, or it is right and events without the other right sources leave it in a tie,
    /// in which the source with the lowest id decides.
    #[must_use]
    pub fn may_be_renumbered(&self, source: SourceId) -> bool {
        let is_clear = self.numbers.as_ref().is_none_or(|numbers| numbers.is_clear(self.source_count()));
        self.repairs() && (self.is_off(source) || !is_clear)
    }

    /// Returns whether the run ends when a source is off.
    #[must_use]
    pub fn stops_on_shift(&self) -> bool {
        self.has_sources_off() && self.numbers.as_ref().is_some_and(|it| it.on_shift == ShiftPolicy::Stop)
    }

    /// Returns whether a readout unit may renumber a source.
    #[must_use]
    pub fn is_renumbered_at(&self, readout: NodeId) -> bool {
        let sources = (0..self.source_count()).map(|number| SourceId(u32::from(number)));
        sources.filter(|source| self.may_be_renumbered(*source)).any(|it| self.readout_of(it) == readout)
    }

    /// Returns the numbers that a source gives to its fragments of the first `total` triggers, with the indices of these triggers.
    pub(crate) fn numbering(&self, source: SourceId, total: u64) -> Vec<(u64, u64)> {
        let Some(numbers) = self.numbers.as_ref() else { return (0..total).map(|it| (it, it)).collect() };
        let left_out: u64 = numbers.faults_of(source).map(|fault| fault.shift.unsigned_abs()).sum();
        let of_trigger = |number| Some((number, numbers.trigger_of(source, number)?));
        (0..total + left_out).filter_map(of_trigger).filter(|(_, trigger)| *trigger < total).collect()
    }

    /// Returns the event of the trigger whose fragment a source gives to an event. `None`: it gives none to it.
    #[must_use]
    pub fn origin(&self, event: EventId, source: SourceId) -> Option<EventId> {
        // Ids that no trigger has are not numbers of a counter.
        if !self.is_off(source) || event.0 >= UNKNOWN_EVENTS {
            return Some(event);
        }
        let first = FIRST_EVENT.0;
        let trigger = self.numbers.as_ref()?.trigger_of(source, event.0.checked_sub(first)?)?;
        Some(EventId(first + trigger))
    }

    /// Returns the check value in the payload of a source for a trigger. It has an offset that differs from source to source.
    #[must_use]
    pub fn check_value(&self, trigger: EventId, source: SourceId) -> u64 {
        let Some(numbers) = &self.numbers else { return 0 };
        let noise = mix(mix(self.seed ^ trigger.0) ^ u64::from(source.0)) % (numbers.quantity.tolerance + 1);
        let value = trigger.0.wrapping_mul(numbers.step).wrapping_add(noise);
        numbers.quantity.cut(value).wrapping_add(Self::check_offset(source).cast_unsigned())
    }

    /// Returns the offset of the check values of a source.
    #[must_use]
    pub fn check_offset(source: SourceId) -> i64 {
        i64::from(source.0) * 7
    }

    pub(super) fn numbers_may_be(&self) -> bool {
        let Some(numbers) = &self.numbers else { return true };
        let is_in_steps = !matches!(self.triggers, TriggerOptions::Announced { stride, .. } if stride != 1);
        let no_program = |fault: &NumberFault| !self.is_fed(SourceId(u32::from(fault.source)));
        let is_possible = is_in_steps && self.slices.is_none() && numbers.faults.iter().all(no_program);
        numbers.step > 2 * numbers.quantity.tolerance && (numbers.faults.is_empty() || is_possible)
    }
}
