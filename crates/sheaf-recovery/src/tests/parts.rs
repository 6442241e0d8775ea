//! Sets of bytes and of numbers, against plain ones.

use crate::coverage::Coverage;
use crate::numbers::{Arrival, Numbers};
use crate::{SPAN, expand, expand_message, low_bits, low_half};
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn coverage_is_a_set_of_bytes(ranges in prop::collection::vec((0..60_u32, 0..20_u32), 0..40)) {
        let (mut coverage, mut plain) = (Coverage::default(), BTreeSet::new());
        for (start, bytes) in ranges {
            let before = plain.len();
            plain.extend(start..start + bytes);
            prop_assert_eq!(coverage.add(start, start + bytes) as usize, plain.len() - before);
            for total in 0..90 {
                prop_assert_eq!(coverage.is_whole(total), (0..total).all(|byte| plain.contains(&byte)));
            }
        }
    }

    #[test]
    fn numbers_report_what_is_missing(arrivals in prop::collection::vec((0..80_u64, 0..100_u64), 1..120)) {
        let (mut numbers, mut plain, mut oldest) = (Numbers::default(), BTreeSet::new(), 0);
        for (number, behind) in arrivals {
            let number = number + oldest;
            let arrival = numbers.look(number);
            prop_assert_eq!(arrival == Arrival::Duplicate, plain.contains(&number));
            if arrival != Arrival::New {
                continue;
            }
            // A sender never waits for less than it did.
            oldest = oldest.max(number.saturating_sub(behind)).min(number);
            plain.extend(0..oldest);
            plain.insert(number);
            numbers.add(number, oldest);
            let end = plain.last().map_or(0, |last| last + 1);
            let missing: Vec<u64> = (0..end).filter(|number| !plain.contains(number)).collect();
            let report = numbers.report(0, usize::MAX);
            let told = report.gaps.iter().flat_map(|gap| gap.first..gap.first + gap.count);
            prop_assert_eq!(told.map(u64::from).collect::<Vec<_>>(), missing);
            prop_assert_eq!(u64::from(report.end), end);
            let short = numbers.report(0, 1);
            let below = u64::from(short.end);
            let told = short.gaps.iter().flat_map(|gap| gap.first..gap.first + gap.count).map(u64::from);
            prop_assert!((0..below).filter(|number| !plain.contains(number)).eq(told), "up to its end it is all");
        }
    }

    #[test]
    fn the_lower_half_of_a_number_is_enough_near_it(number in any::<u32>(), high in 0..1000_u64, off in -1_000_000_i64..1_000_000) {
        let number = high << 32 | u64::from(number);
        if let Some(near) = number.checked_add_signed(off) {
            prop_assert_eq!(expand(low_half(number), near), number);
        }
    }

    #[test]
    fn sixteen_bits_tell_a_message_from_all_that_the_other_end_may_mean(number in 0..1_u64 << 40, off in -(SPAN as i64)..=SPAN as i64) {
        if let Some(near) = number.checked_add_signed(off) {
            prop_assert_eq!(expand_message(low_bits(number), near), number);
        }
    }
}
