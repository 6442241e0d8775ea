//! Draws check values, and sources that are off. It uses dice of its own, so that the rest of a seed's run does not depend on it.

use super::Swarm;
use crate::dice::{Dice, Ratio};
use crate::options::{NumberFault, NumberOptions, TriggerOptions};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::numbering::{Quantity, ShiftPolicy};
use sheaf_wire::{Nanos, SourceId};

impl Swarm {
    pub(super) fn numbers(&mut self) {
        let mut dice = Dice::new(self.options.seed, 22);
        if dice.below(3) > 0 || self.options.slices.is_some() {
            return;
        }
        let step = dice.pick(&[1, 1, 1_000]);
        let (modulus, tolerance) = match step {
            1 => (dice.pick(&[0, 256, 3_564, 1 << 15]), 0),
            _ => (dice.pick(&[0, 1 << 32, 400_000_000]), dice.pick(&[0, 1, 400])),
        };
        let mut numbers = NumberOptions {
            quantity: Quantity { modulus, tolerance },
            step,
            reference: None,
            on_shift: dice.pick(&[
                ShiftPolicy::Mark,
                ShiftPolicy::Repair,
                ShiftPolicy::Repair,
                ShiftPolicy::Repair,
                ShiftPolicy::Stop,
            ]),
            events: dice.pick(&[4, 4, 8, 16]),
            longest: dice.pick(&[8, 16, 64]),
            faults: Vec::new(),
        };
        let count = self.options.source_count();
        let reference = u16::try_from(dice.below(count.into())).unwrap_or(0);
        let has_reference = dice.below(3) == 0;
        if !self.is_calm && self.may_be_off() {
            numbers.faults = self.number_faults(&mut dice, numbers.on_shift);
        }
        if self.options.events > 100 && dice.below(3) == 0 {
            self.restart_of_one_that_is_off(&mut dice, &mut numbers);
        }
        if !numbers.faults.is_empty() && numbers.on_shift == ShiftPolicy::Repair {
            self.keep_repairs_possible(&mut numbers);
        }
        let is_right = numbers.faults_of(SourceId(reference.into())).next().is_none();
        numbers.reference = (has_reference && is_right).then_some(reference);
        if !numbers.faults.is_empty() {
            // Numbers that no trigger has would stay in the buffers.
            self.options.times.orphan.get_or_insert(Nanos::from_millis(300));
        }
        self.options.numbers = Some(numbers);
    }

    /// Keeps to the limits of a repair: it begins after the highest id of the source, and takes more reports than fragments overtake one
    /// another.
    fn keep_repairs_possible(&mut self, numbers: &mut NumberOptions) {
        let sources = &mut self.options.sources;
        sources.unknown_event = Ratio::NEVER;
        if sources.out_of_order.is_possible() {
            numbers.events = numbers.events.max(2 * usize::try_from(sources.disorder).unwrap_or(8));
        }
    }

    /// Lets the readout unit of a source that is off early restart, and nothing else happen: the shift must be found again.
    fn restart_of_one_that_is_off(&mut self, dice: &mut Dice, numbers: &mut NumberOptions) {
        numbers.faults.truncate(1);
        let Some(fault) = numbers.faults.first_mut() else { return };
        fault.event = dice.below(20);
        let node = self.options.readout_of(SourceId(fault.source.into()));
        self.options.faults = vec![self.short_crash(dice, node)];
    }

    /// Returns whether sources can be off: their events are consecutive, and no event waits for them without limit.
    fn may_be_off(&self) -> bool {
        let is_in_steps =
            !matches!(self.options.triggers, TriggerOptions::Announced { stride, .. } if stride != 1);
        is_in_steps && self.options.policy != IncompletePolicy::Wait && self.options.source_count() > 1
    }

    /// Draws one or two sources that are off. They are the last ones, so that it is certain which ones are off, even if others are missing; in
    /// a third of the runs in which nothing follows from that, they are any.
    fn number_faults(&self, dice: &mut Dice, on_shift: ShiftPolicy) -> Vec<NumberFault> {
        let count = self.options.source_count();
        let last = match on_shift {
            ShiftPolicy::Repair => count - 1,
            _ if dice.below(3) > 0 => count - 1,
            _ => u16::try_from(dice.below(count.into())).unwrap_or(0),
        };
        let events = self.options.events;
        let mut fault = |source, shifts: &[i64], first| NumberFault {
            source,
            event: dice.between(first, events.max(first)),
            shift: dice.pick(shifts),
        };
        let mut faults = vec![fault(last, &[1, 1, -1, 2, -2], 0)];
        match fault(0, &[0, 1, 2], 0).shift {
            0 if last > 1 => faults.push(fault(last - 1, &[3, -3, 4, -4], 0)),
            1 => {
                let NumberFault { event, shift, .. } = faults[0];
                let again: &[i64] = if shift > 0 { &[1, 1, 2] } else { &[-1, -1, -2] };
                let mut second = fault(last, again, event + 20);
                if on_shift == ShiftPolicy::Repair && second.event % 2 == 0 {
                    // While the answer of the readout unit is on its way, where the event manager attributes reports to the first shift.
                    second.event = event + 20 + (second.event - event) % 100;
                }
                faults.push(second);
            }
            _ => {}
        }
        faults.retain(|fault| !self.options.is_fed(SourceId(fault.source.into())));
        faults
    }
}
