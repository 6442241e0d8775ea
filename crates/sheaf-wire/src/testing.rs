//! Amounts of work of the tests of all crates.

/// Number of inputs that a property test without a number of its own is tried with.
const DEFAULT_CASES: u32 = 256;

/// Returns the number of inputs for a property test that is tried with `usual` ones for every change.
///
/// The environment variable `PROPTEST_CASES` has the number for tests without one of their own, 256 by default. It
/// scales `usual` by the same factor, so that a test with few costly inputs gets more of them at night too. (A literal
/// number of cases would override the variable.)
#[must_use]
pub fn cases(usual: u32) -> u32 {
    scaled(usual, std::env::var("PROPTEST_CASES").ok().as_deref())
}

fn scaled(usual: u32, asked: Option<&str>) -> u32 {
    let asked = asked.and_then(|asked| asked.parse::<u32>().ok()).unwrap_or(DEFAULT_CASES);
    let cases = u64::from(usual) * u64::from(asked) / u64::from(DEFAULT_CASES);
    u32::try_from(cases).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_scales_the_number_of_inputs() {
        assert_eq!(scaled(12, None), 12);
        assert_eq!(scaled(12, Some("256")), 12);
        assert_eq!(scaled(12, Some("4096")), 192);
        assert_eq!(scaled(12, Some("1")), 1);
        assert_eq!(scaled(12, Some("many")), 12);
        assert_eq!(scaled(u32::MAX, Some("4096")), u32::MAX);
    }
}
