//! The normal distribution: density, distribution function and quantile.
//!
//! Everything here and in [`crate::size_model`] computes with IEEE arithmetic and the `libm` crate, never with the
//! platform's mathematics library: those differ in the last bit, and a size that differs by one byte between two
//! hosts would look like a damaged event.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The standard normal density at `z`.
pub(crate) fn density(z: f64) -> f64 {
    libm::exp(-0.5 * z * z) / libm::sqrt(2.0 * PI)
}

/// The probability that a standard normal number is below `z`.
pub(crate) fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The `z` that a standard normal number is below with `probability`, in (0, 1): algorithm AS 241, PPND16, of
/// Wichura, Applied Statistics 37 (1988) 477; relative error about 1e-16. It takes one uniform number and, in 85 % of the
/// cases, no logarithm.
pub(crate) fn quantile(probability: f64) -> f64 {
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        let r = 0.425 * 0.425 - centred * centred;
        return centred * polynomial(&CENTRE.0, r) / polynomial(&CENTRE.1, r);
    }
    tail_quantile(probability)
}

/// The quantile outside of the central 85 %; apart, so that the common case stays short.
#[inline(never)]
fn tail_quantile(probability: f64) -> f64 {
    let r = libm::sqrt(-libm::log(probability.min(1.0 - probability)));
    let z = if r <= 5.0 {
        polynomial(&TAIL.0, r - 1.6) / polynomial(&TAIL.1, r - 1.6)
    } else {
        polynomial(&FAR_TAIL.0, r - 5.0) / polynomial(&FAR_TAIL.1, r - 5.0)
    };
    if probability < 0.5 { -z } else { z }
}

/// Numerator and denominator, highest power first.
type Rational = ([f64; 8], [f64; 8]);

const CENTRE: Rational = (
    [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    [
        5.226_495_278_852_854e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_66e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
);

const TAIL: Rational = (
    [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
);

const FAR_TAIL: Rational = (
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        2.965_605_718_285_048_7e-1,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        1.369_298_809_227_358e-1,
        5.998_322_065_558_88e-1,
        1.0,
    ],
);

/// A polynomial of degree 7, highest power first. Evaluated in pairs (Estrin's scheme): half as long a chain of
/// dependent operations as Horner's.
pub(crate) fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    let &[c7, c6, c5, c4, c3, c2, c1, c0] = coefficients;
    let (x2, x4) = (x * x, (x * x) * (x * x));
    ((c0 + c1 * x) + (c2 + c3 * x) * x2) + ((c4 + c5 * x) + (c6 + c7 * x) * x2) * x4
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_match_the_published_values() {
        for (probability, z) in [
            (0.5, 0.0),
            (0.25, -0.674_489_750_196_081_7),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
            (1e-20, -9.262_340_089_798_408),
        ] {
            assert!((quantile(probability) - z).abs() <= 1e-14 * z.abs(), "{probability}");
        }
    }

    proptest! {
        #[test]
        fn the_quantile_inverts_the_distribution_function(z in -8.0..8.0_f64) {
            // Above zero, probabilities are too close to 1 to distinguish quantiles: use the symmetry.
            let back = -quantile(below(-z.abs()));
            prop_assert!((back - z.abs()).abs() < 1e-9, "{z} {back}");
        }

        #[test]
        fn the_quantile_grows_with_the_probability(a in 1e-18..1.0_f64, b in 1e-18..1.0_f64) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assume!(high < 1.0);
            prop_assert!(quantile(low) <= quantile(high));
        }
    }
}
