//! Mark of a fragment whose event number is in doubt, or was changed.

use std::fmt;

/// Result of the comparison of a fragment's event number with those of the other sources of its event.
///
/// It takes three bytes, so that a fragment is no larger for it. Numbers beyond [`NumberMark::MOST`] are stored as that.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NumberMark([u8; 3]);

/// Bits of the number that are no part of the number.
const BITS: u32 = 2;
const DISAGREES: i32 = 1;
const RENUMBERED: i32 = 2;

impl NumberMark {
    /// Mark of almost all fragments: the number agrees or was not compared, and is the source's own.
    pub const NONE: Self = Self([0; 3]);

    /// Largest number that a mark can hold, of either sign.
    pub const MOST: i64 = (1 << 21) - 1;

    /// Bits of a fragment's flags that a mark takes.
    pub(crate) const FLAGS: u32 = 0xffff_ff00;

    fn of(number: i64, bits: i32) -> Self {
        let number = i32::try_from(number.clamp(-Self::MOST, Self::MOST)).unwrap_or_default();
        let [first, second, third, _] = (number << BITS | bits).to_le_bytes();
        Self([first, second, third])
    }

    /// Returns the mark of a fragment that the readout unit has moved by `shift` events.
    #[must_use]
    pub fn renumbered(shift: i64) -> Self {
        if shift == 0 { Self::NONE } else { Self::of(shift, RENUMBERED) }
    }

    /// Returns the mark of the same fragment whose check value is by `difference` larger than that of its event. The difference
    /// is not 0.
    #[must_use]
    pub fn disagreeing(self, difference: i64) -> Self {
        debug_assert_ne!(difference, 0, "equal numbers agree");
        Self::of(difference, DISAGREES | (self.signed() & RENUMBERED))
    }

    /// The three bytes as a number, with their sign.
    const fn signed(self) -> i32 {
        let Self([first, second, third]) = self;
        i32::from_le_bytes([0, first, second, third]) >> 8
    }

    /// Returns whether the fragment has no mark.
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self.0, [0, 0, 0])
    }

    /// Returns whether the check value of the fragment disagrees with that of its event.
    #[must_use]
    pub const fn disagrees(self) -> bool {
        self.signed() & DISAGREES != 0
    }

    /// Returns whether the readout unit has changed the event number that the source gave.
    #[must_use]
    pub const fn is_renumbered(self) -> bool {
        self.signed() & RENUMBERED != 0
    }

    /// Returns the check value of the fragment minus that of its event, where they disagree.
    #[must_use]
    pub fn difference(self) -> Option<i64> {
        self.disagrees().then(|| i64::from(self.signed() >> BITS))
    }

    /// Returns the number of events by which the fragment was moved. `None` also where it disagrees: the mark holds one number.
    #[must_use]
    pub fn shift(self) -> Option<i64> {
        (self.is_renumbered() && !self.disagrees()).then(|| i64::from(self.signed() >> BITS))
    }

    /// Returns the bits of the mark among the flags of a fragment.
    #[inline]
    #[must_use]
    pub const fn to_flags(self) -> u32 {
        let Self([first, second, third]) = self;
        u32::from_le_bytes([0, first, second, third])
    }

    /// Returns the mark among the flags of a fragment. `None`: no mark has these bits.
    #[inline]
    #[must_use]
    pub fn from_flags(flags: u32) -> Option<Self> {
        let [_, first, second, third] = flags.to_le_bytes();
        let mark = Self([first, second, third]);
        if mark.is_none() {
            return Some(mark);
        }
        let (number, bits) = (mark.signed() >> BITS, mark.signed() & (DISAGREES | RENUMBERED));
        (number != 0 && bits != 0 && i64::from(number) >= -Self::MOST).then_some(mark)
    }
}

impl fmt::Debug for NumberMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.difference(), self.is_renumbered()) {
            (None, false) => write!(f, "none"),
            (None, true) => write!(f, "renumbered by {:+}", self.signed() >> BITS),
            (Some(difference), false) => write!(f, "disagrees by {difference:+}"),
            (Some(difference), true) => write!(f, "renumbered, and disagrees by {difference:+}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fragment_is_no_larger_with_a_mark() {
        assert_eq!(size_of::<crate::Fragment<bytes::Bytes>>(), 64);
    }

    proptest! {
        #[test]
        fn a_mark_has_its_number_also_after_the_way_through_the_flags(number in any::<i64>(), small in -9..9_i64) {
            for number in [number, small, i64::MIN, i64::MAX].into_iter().filter(|number| *number != 0) {
                let held = number.clamp(-NumberMark::MOST, NumberMark::MOST);
                let moved = NumberMark::renumbered(number);
                prop_assert_eq!((moved.shift(), moved.difference()), (Some(held), None));
                let differs = NumberMark::NONE.disagreeing(number);
                prop_assert_eq!((differs.shift(), differs.difference()), (None, Some(held)));
                prop_assert!(differs.disagrees() && !differs.is_renumbered() && !differs.is_none());
                let both = moved.disagreeing(number);
                prop_assert!(both.disagrees() && both.is_renumbered());
                for mark in [moved, differs, both] {
                    prop_assert_eq!(mark.to_flags() & !NumberMark::FLAGS, 0);
                    prop_assert_eq!(NumberMark::from_flags(mark.to_flags() | 3), Some(mark));
                }
            }
        }

        #[test]
        fn flags_that_no_mark_has_are_refused(flags in any::<u32>()) {
            if let Some(mark) = NumberMark::from_flags(flags) {
                prop_assert_eq!(mark.to_flags(), flags & NumberMark::FLAGS);
                prop_assert_eq!(mark.is_none(), flags & NumberMark::FLAGS == 0);
            }
        }
    }

    #[test]
    fn fragments_without_a_mark_have_no_bits() {
        assert_eq!(NumberMark::NONE.to_flags(), 0);
        assert_eq!(NumberMark::renumbered(0), NumberMark::NONE);
        for flags in [1 << 8, 2 << 8, 4 << 8, 3 << 8, 1 << 31 | 1 << 8] {
            assert_eq!(NumberMark::from_flags(flags), None, "{flags:#x}");
        }
    }
}
