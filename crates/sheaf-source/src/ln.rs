//! The natural logarithm, for times between hits.

use crate::normal::polynomial;
use std::f64::consts::LN_2;

/// Bits of the mantissa of a double.
const MANTISSA_BITS: u32 = 52;

/// Returns the natural logarithm of a normal positive number, with a relative error below 1e-13. `libm::log`, exact to the last bit for
/// every argument, took more time than all else of a hit.
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
    // x = 2^power * mantissa, with a mantissa from sqrt(1/2) to sqrt(2).
    let bits = x.to_bits().wrapping_sub(SQRT_HALF);
    let power = bits.cast_signed() >> MANTISSA_BITS;
    let mantissa = f64::from_bits((bits & MANTISSA) + SQRT_HALF);
    // ln((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + s^5 / 5 + ...), with an s of at most 0.1716.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    #[expect(clippy::cast_precision_loss, reason = "an exponent")]
    let whole = power as f64 * LN_2;
    whole + s * polynomial(&SERIES, s * s)
}

/// The first terms of the series, highest power first. The first term left out is below 2 x 0.1716^16 / 17 = 7e-14.
const SERIES: [f64; 8] =
    [2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn logarithms_agree_with_those_of_libm(
            x in prop_oneof![0.0..1.0_f64, 0.999..1.001_f64, 0.0..1e300_f64, 1e-300..1e-290_f64, 0.70..0.71_f64],
        ) {
            prop_assume!(x >= f64::MIN_POSITIVE);
            let exact = libm::log(x);
            prop_assert!((ln(x) - exact).abs() <= 1e-13 * exact.abs(), "{x}: {} {exact}", ln(x));
        }
    }

    #[test]
    fn logarithms_of_powers_of_two_are_multiples() {
        for power in -1_000..1_000_i32 {
            assert_eq!(ln(2.0_f64.powi(power)), f64::from(power) * LN_2, "{power}");
        }
    }
}
