//! Powers of two, for sizes.

use crate::normal::polynomial;
use std::f64::consts::LN_2;

/// Returns `2^y` with a relative error below 1e-8, for `y` from -2 to 40; values beyond are clamped: a quarter of a
/// byte counts as none, and no fragment has 2^40 bytes. `libm::exp`, exact to the last bit for every argument, took
/// half of the time of a log-normal size.
pub(crate) fn exp2(y: f64) -> f64 {
    #[expect(clippy::manual_clamp, reason = "clamp lets NaN through")]
    let y = y.max(-2.0).min(40.0);
    #[expect(clippy::cast_possible_truncation, reason = "from -2 to 40")]
    let nearest = (y + 2.5) as i32 - 2;
    let rest = (y - f64::from(nearest)) * LN_2;
    #[expect(clippy::cast_sign_loss, reason = "the exponent's bias makes it positive")]
    let power = f64::from_bits(((nearest + 1_023) as u64) << 52);
    power * polynomial(&TAYLOR, rest)
}

/// First terms of the exponential series, highest power first; the argument is at most ln(2)/2, so that the first term
/// left out is below `0.3466^8 / 8!` = 5e-9.
const TAYLOR: [f64; 8] =
    [1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0, 1.0, 1.0];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn powers_agree_with_those_of_libm(y in -2.0..40.0_f64) {
            let exact = libm::exp2(y);
            prop_assert!((exp2(y) - exact).abs() <= 1e-8 * exact, "2^{y}");
        }
    }

    #[test]
    fn powers_of_whole_numbers_are_exact() {
        for whole in 0..=40 {
            assert_eq!(exp2(f64::from(whole)), (1_u64 << whole) as f64);
        }
    }

    #[test]
    fn what_no_size_can_be_is_moved_to_the_ends() {
        for y in [-2.0, -3.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(exp2(y), 0.25);
        }
        for y in [40.0, 41.0, 1e300, f64::INFINITY] {
            assert_eq!(exp2(y), 1_099_511_627_776.0);
        }
    }
}
