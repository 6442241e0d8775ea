//! Counts of ticks as times, without rounding errors that accumulate.

use num_rational::Ratio;
use num_traits::{CheckedDiv, ToPrimitive};
use sheaf_wire::ExactNanos;

/// Converts counts of ticks to whole units of time: `offset + ticks * tick`, rounded down. The arithmetic before is exact, whatever
/// the tick and the count, so that times of ascending counts never go back.
#[derive(Clone, Copy, Debug)]
pub struct TickScale {
    /// Whole part of the tick, and of the offset (rounded down).
    slope: u128,
    offset: i128,
    /// The rest of both, as numerators of fractions below 1.
    slope_rest: u128,
    offset_rest: u128,
    /// Their denominator, at most [`MAX_DENOMINATOR`].
    denominator: u128,
}

/// Bound of the denominator: the product of two numbers below it, and the sum of that with a third one, fit into 128 bits.
const MAX_DENOMINATOR: u128 = 1 << 62;

impl TickScale {
    /// Returns the scale of a clock. `None`: the tick or the unit is not longer than zero, or tick and offset have no common
    /// denominator of up to 2^62 in this unit.
    #[must_use]
    pub fn new(tick: ExactNanos, offset: ExactNanos, unit: ExactNanos) -> Option<Self> {
        if tick <= ExactNanos::ZERO || unit <= ExactNanos::ZERO {
            return None;
        }
        let unit = unit.ratio();
        let (slope, offset) = (tick.ratio().checked_div(&unit)?, offset.ratio().checked_div(&unit)?);
        let (of_slope, of_offset) = (slope.denom().to_u128()?, offset.denom().to_u128()?);
        let common = of_slope.checked_mul(of_offset / gcd(of_slope, of_offset))?;
        (common <= MAX_DENOMINATOR).then_some(())?;
        let numerator_of_rest = |number: Ratio<i128>| {
            let rest = number.numer().rem_euclid(*number.denom());
            Some(rest.to_u128()? * (common / number.denom().to_u128()?))
        };
        Some(Self {
            slope: slope.numer().div_euclid(*slope.denom()).unsigned_abs(),
            offset: offset.numer().div_euclid(*offset.denom()),
            slope_rest: numerator_of_rest(slope)?,
            offset_rest: numerator_of_rest(offset)?,
            denominator: common,
        })
    }

    /// Returns the time of a count of ticks. `None`: it is negative, or does not fit into 64 bits.
    #[must_use]
    pub fn at(&self, ticks: u128) -> Option<u64> {
        self.since(0, ticks)
    }

    /// Returns the time of a count of ticks that begins at the time `origin`. `None`: it is negative, or does not fit into 64 bits.
    #[must_use]
    #[inline]
    pub fn since(&self, origin: u64, ticks: u128) -> Option<u64> {
        self.of_few(origin, ticks).or_else(|| self.of_many(origin, ticks))
    }

    /// As [`Self::since`], where 64 bits are enough for each step: mostly. `None`: they are not.
    #[inline]
    fn of_few(&self, origin: u64, ticks: u128) -> Option<u64> {
        if self.denominator != 1 {
            return None;
        }
        let whole = u64::try_from(ticks).ok()?.checked_mul(u64::try_from(self.slope).ok()?)?;
        whole.checked_add(origin)?.checked_add_signed(i64::try_from(self.offset).ok()?)
    }

    fn of_many(&self, origin: u64, ticks: u128) -> Option<u64> {
        u64::try_from(self.signed(ticks)?.checked_add(i128::from(origin))?).ok()
    }

    /// Returns the time of a count of ticks, which may be negative. `None`: it does not fit.
    #[must_use]
    pub fn signed(&self, ticks: u128) -> Option<i128> {
        let whole = ticks.checked_mul(self.slope)?;
        let more = if self.denominator == 1 {
            0
        } else if let Ok(ticks) = u64::try_from(ticks) {
            // Less than 2^126 + 2^62. A division of 64 bits is much faster than one of 128.
            let numerator = u128::from(ticks) * self.slope_rest + self.offset_rest;
            match (u64::try_from(numerator), u64::try_from(self.denominator)) {
                (Ok(numerator), Ok(denominator)) => u128::from(numerator / denominator),
                _ => numerator / self.denominator,
            }
        } else {
            // Two parts, because the product of many ticks and a numerator may exceed 128 bits.
            let (often, rest) = (ticks / self.denominator, ticks % self.denominator);
            let of_rest = (rest * self.slope_rest + self.offset_rest) / self.denominator;
            often.checked_mul(self.slope_rest)?.checked_add(of_rest)?
        };
        i128::try_from(whole.checked_add(more)?).ok()?.checked_add(self.offset)
    }
}

/// Returns the greatest common divisor of two numbers, the second of which is not zero.
fn gcd(one: u128, other: u128) -> u128 {
    if one == 0 { other } else { gcd(other % one, one) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_those_of_big_integers(
            tick in (1..=i64::MAX, 1..=1_i64 << 20),
            offset in (any::<i64>(), 1..=1_i64 << 20),
            unit in (1..=1_i64 << 10, 1..=1_i64 << 10),
            ticks in prop_oneof![any::<u64>().prop_map(u128::from), any::<u128>(), 0..100_u128],
        ) {
            let duration = |(numerator, denominator): (i64, i64)| {
                ExactNanos::from_ratio(Ratio::new(i128::from(numerator), i128::from(denominator)))
            };
            let scale = TickScale::new(duration(tick), duration(offset), duration(unit)).unwrap();
            // Over the common denominator of all three.
            let numerator = (BigInt::from(ticks) * tick.0 * offset.1 + BigInt::from(offset.0) * tick.1) * unit.1;
            let denominator = BigInt::from(tick.1) * offset.1 * unit.0;
            let signed = num_traits::Euclid::div_euclid(&numerator, &denominator);
            if let Some(time) = scale.signed(ticks) {
                prop_assert_eq!(&signed, &BigInt::from(time));
            }
            let expected = (signed >= BigInt::ZERO).then_some(signed);
            prop_assert_eq!(scale.at(ticks), expected.and_then(|time| u64::try_from(time).ok()));
        }
    }

    #[test]
    fn what_has_no_length_or_is_too_fine_is_refused() {
        let (zero, nano) = (ExactNanos::ZERO, ExactNanos::from_nanos(1));
        assert!(TickScale::new(zero, zero, nano).is_none());
        assert!(TickScale::new(nano, zero, zero).is_none());
        let fine: ExactNanos = "1/4611686018427387847 ns".parse().unwrap();
        assert!(TickScale::new(fine, zero, nano).is_some());
        assert!(TickScale::new(fine, "1/3 ns".parse().unwrap(), nano).is_none());
    }
}
