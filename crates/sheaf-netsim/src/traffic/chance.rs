//! Random numbers as a function of their purpose.
//!
//! A fragment's size, the builder of an event or a source's clock error is a hash of the seed and of its identifying
//! numbers. So it does not depend on the order in which an engine asks, two engines see the same workload, and nothing
//! is drawn ahead or kept.

use sheaf_wire::mix::{GOLDEN_GAMMA, mix64};
use std::f64::consts::TAU;

/// Purpose of a random number: different purposes draw independent numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Properties that all sources of one event share.
    EventSize = 1,
    /// The size of one fragment.
    FragmentSize = 2,
    /// The builder of an event.
    Assignment = 3,
    /// The time between two triggers.
    Trigger = 4,
    /// When a source starts.
    StartSkew = 5,
    /// Rate error of a source's clock.
    ClockRate = 6,
}

/// Even bits for `purpose` and two numbers.
#[must_use]
pub(crate) const fn bits(seed: u64, purpose: Purpose, first: u64, second: u64) -> u64 {
    let key = mix64(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(purpose as u64)));
    mix64(
        mix64(key.wrapping_add(GOLDEN_GAMMA.wrapping_mul(first.wrapping_add(1))))
            .wrapping_add(second.wrapping_mul(GOLDEN_GAMMA)),
    )
}

/// Evenly between 0 and 1, both excluded.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "52 bits are exact")]
pub(crate) fn unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * (1.0 / 4_503_599_627_370_496.0)
}

/// One of `count`, evenly: the error of the multiplication is below `count` / 2^64.
#[must_use]
pub(crate) fn one_of(bits: u64, count: u32) -> u32 {
    let scaled = (u128::from(bits) * u128::from(count)) >> 64;
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// Normally distributed, mean 0 and variance 1 (Box and Muller 1958).
#[must_use]
pub(crate) fn normal(bits: u64) -> f64 {
    let (radius, angle) = (unit(bits), unit(mix64(bits ^ 0x5851_f42d_4c95_7f2d)));
    libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle)
}
