//! Mixing of numbers: a deterministic stand-in for random bits, the same on every machine.
//!
//! The function is the finaliser of `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
//! 2014). It is not cryptographic: where an adversary could gain from guessing, use random bytes of the operating system.

/// The increment of `SplitMix64`: odd, near 2^64 divided by the golden ratio.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of `value`. The function is a bijection; each bit of the input changes about half of the bits of the output,
/// and 0 stays 0.
#[must_use]
pub const fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the number that `SplitMix64` draws first from the state `state`. The generator's next state is
/// `state.wrapping_add(GOLDEN_GAMMA)`.
#[must_use]
pub const fn splitmix64(state: u64) -> u64 {
    mix64(state.wrapping_add(GOLDEN_GAMMA))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation with the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        let states =
            std::iter::successors(Some(1_234_567_u64), |state| Some(state.wrapping_add(GOLDEN_GAMMA)));
        assert_eq!(states.map(splitmix64).take(5).collect::<Vec<_>>(), expected);
    }
}
