//! Event numbers that do not agree: check values of sources, and shifts of a source against the others.
//!
//! A board that misses a trigger numbers all later events one too low. Its fragments have a value that tells: the trigger number,
//! a bunch counter, a time. The driver of a builder unit reads these values and compares them ([`Quantity::reference_of`]). The
//! builder unit reports what disagrees ([`BuilderUnit::handle_disagreements`](crate::builder::BuilderUnit::handle_disagreements)),
//! and the event manager, which has the reports of all builder units, recognises a steady [`Shift`] (`manager/shifts.rs`).

use serde::{Deserialize, Serialize};
pub use sheaf_wire::shift_record::ShiftPolicy;
use sheaf_wire::{EventId, SourceId};

/// Distance between events in flight that is credible. An event that is further ahead has a wrong number, and says nothing about the
/// events in between.
pub(crate) const MOST_IN_FLIGHT: u64 = 1 << 20;

/// A quantity of which several sources have a value in each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    /// Number of different values, after which they begin again at 0; 0: 2^64.
    pub modulus: u64,
    /// Difference up to which two values agree.
    pub tolerance: u64,
}

impl Quantity {
    /// Returns a number modulo the modulus.
    #[inline]
    #[must_use]
    pub fn cut(&self, value: u64) -> u64 {
        if self.modulus == 0 { value } else { value % self.modulus }
    }

    /// Returns `value` minus `reference`, the shorter way round. Both are less than the modulus.
    #[must_use]
    pub fn difference(&self, value: u64, reference: u64) -> i64 {
        let (modulus, span) = match self.modulus {
            0 => (1 << 64, i128::from(value.wrapping_sub(reference))),
            modulus => (
                i128::from(modulus),
                (i128::from(value) - i128::from(reference)).rem_euclid(i128::from(modulus)),
            ),
        };
        let difference = if span * 2 > modulus { span - modulus } else { span };
        i64::try_from(difference).unwrap_or(i64::MAX)
    }

    /// Returns whether two values agree. Both are less than the modulus.
    #[inline]
    #[must_use]
    pub fn agrees(&self, value: u64, reference: u64) -> bool {
        value == reference
            || (self.tolerance > 0 && self.difference(value, reference).unsigned_abs() <= self.tolerance)
    }

    /// Returns the value of the event, given those of its sources: the one that agrees with most of them, and of several such the
    /// one of the first source. `None` if there are no values.
    #[must_use]
    pub fn reference_of(&self, values: &[u64]) -> Option<u64> {
        let mut best: Option<(usize, u64)> = None;
        for (index, value) in values.iter().enumerate() {
            let is_new = !values[..index].contains(value);
            if is_new {
                let supporters = values.iter().filter(|other| self.agrees(**other, *value)).count();
                if best.is_none_or(|(most, _)| supporters > most) {
                    best = Some((supporters, *value));
                }
                if 2 * supporters > values.len() && self.tolerance == 0 {
                    break;
                }
            }
        }
        best.map(|(_, value)| value)
    }
}

/// Recognition of shifts by the event manager.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShiftConfig {
    /// The quantities that are checked.
    pub quantities: Vec<Quantity>,
    /// Their names, in the same order, for the records of shifts in event files.
    pub names: Vec<String>,
    /// Reaction to a shift.
    pub on_shift: ShiftPolicy,
    /// Number of consecutive events that must have the same shift.
    pub events: usize,
    /// Largest shift that is recognised, in events.
    pub longest: u64,
}

impl ShiftConfig {
    /// Distance of two reports that belong to one row, in events.
    pub(crate) fn reach(&self) -> u64 {
        2 * self.events as u64 + self.longest
    }
}

/// A source whose fragments are in other events than they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shift {
    /// The source.
    pub source: SourceId,
    /// The quantity by which it was recognised, in the order of the configuration.
    pub quantity: u16,
    /// First event with a fragment of the source that belongs elsewhere.
    pub first: EventId,
    /// Number of events by which these fragments are too early: a source that missed one trigger has 1, one that counted a
    /// trigger twice -1.
    pub shift: i64,
    /// First event with a renumbered fragment, which is right again. `None`: not repaired.
    pub repaired_from: Option<EventId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_value_of_most_sources_counts_and_of_two_the_first() {
        let exact = Quantity::default();
        assert_eq!(exact.reference_of(&[]), None);
        assert_eq!(exact.reference_of(&[7, 8]), Some(7));
        assert_eq!(exact.reference_of(&[7, 8, 8]), Some(8));
        assert_eq!(exact.reference_of(&[7, 8, 9, 8, 7]), Some(7));
        let clock = Quantity { modulus: 1000, tolerance: 5 };
        assert_eq!(clock.reference_of(&[100, 998, 2, 996, 104]), Some(998), "it agrees across the roll-over");
    }

    proptest! {
        #[test]
        fn differences_are_the_shorter_way_round(modulus in 1..u64::MAX, value in any::<u64>(), step in -1000..1000_i64) {
            for modulus in [0, modulus.max(2001)] {
                let quantity = Quantity { modulus, tolerance: step.unsigned_abs() };
                let (value, moved) = match modulus {
                    0 => (value, value.wrapping_add_signed(step)),
                    _ => {
                        let value = value % modulus;
                        let moved = (i128::from(value) + i128::from(step)).rem_euclid(i128::from(modulus));
                        (value, u64::try_from(moved).expect("less than the modulus"))
                    }
                };
                prop_assert_eq!(quantity.difference(moved, value), step);
                prop_assert!(quantity.agrees(moved, value));
                let stricter = Quantity { tolerance: step.unsigned_abs().saturating_sub(1), ..quantity };
                prop_assert_eq!(stricter.agrees(moved, value), step == 0);
            }
        }

        #[test]
        fn sources_that_agree_outvote_fewer_that_do_not(right in 1..9_usize, wrong in prop::collection::vec(1..100_u64, 0..8)) {
            prop_assume!(wrong.len() < right);
            let mut values = wrong;
            values.extend(vec![0; right]);
            prop_assert_eq!(Quantity { modulus: 100, tolerance: 0 }.reference_of(&values), Some(0));
        }
    }
}
