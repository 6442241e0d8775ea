//! Amounts of work and samples for the tests of all crates.

use crate::shift_record::{ShiftPolicy, ShiftRecord};
use crate::{EventId, SourceId};

/// Number of inputs that a property test without a number of its own is tried with for every change.
const DEFAULT_CASES: u32 = 256;

/// Returns the number of inputs of a property test that is tried with `usual` ones for every change, where one without
/// a number of its own is tried with `others`.
#[must_use]
pub fn cases(usual: u32, others: u32) -> u32 {
    let cases = u64::from(usual) * u64::from(others) / u64::from(DEFAULT_CASES);
    u32::try_from(cases).unwrap_or(u32::MAX).max(1)
}

/// Configures a property test that is tried with this many inputs for every change.
///
/// The environment variable `PROPTEST_CASES` has the number for tests without one of their own, 256 by default. It
/// scales this one by the same factor, so that a test with few costly inputs gets more of them at night too. A literal
/// `ProptestConfig::with_cases` would override the variable.
#[doc(hidden)]
#[macro_export]
macro_rules! property_cases {
    ($usual:expr) => {{
        let others = ::proptest::test_runner::Config::default();
        let cases = $crate::testing::cases($usual, others.cases);
        ::proptest::test_runner::Config { cases, ..others }
    }};
}

/// Returns a sample of a shift.
#[must_use]
pub fn shift_record(index: u32, repaired_from: Option<u64>) -> ShiftRecord {
    ShiftRecord {
        index,
        source: SourceId(2),
        quantity: "trigger".to_owned(),
        first: EventId(5_000),
        shift: -1,
        repaired_from: repaired_from.map(EventId),
        policy: ShiftPolicy::Repair,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_properties_get_more_inputs_by_the_factor_of_the_others() {
        assert_eq!(cases(12, 256), 12);
        assert_eq!(cases(12, 4096), 192);
        assert_eq!(cases(12, 1), 1);
        assert_eq!(cases(u32::MAX, 4096), u32::MAX);
    }

    #[test]
    fn the_number_of_all_properties_scales_the_number_of_one() {
        let others = proptest::test_runner::Config::default().cases;
        assert_eq!(property_cases!(24).cases, cases(24, others));
    }
}
