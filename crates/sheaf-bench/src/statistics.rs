//! Median and spread of repetitions.

use serde::{Deserialize, Serialize};

/// Minimum, median and maximum of the repetitions of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Computes the statistics of these values; `None` if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }

    /// Half the distance from least to greatest, as a fraction of the median; 0 for a median of 0.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_an_even_number_the_median_is_between_the_two_in_the_middle() {
        let spread = Spread::of([4.0, 1.0, 2.0, 100.0]);
        assert_eq!(spread, Some(Spread { median: 3.0, min: 1.0, max: 100.0 }));
        assert_eq!(Spread::of([]), None);
    }

    proptest! {
        #[test]
        fn at_least_half_of_the_values_are_on_each_side_of_the_median(
            values in prop::collection::vec(-1e9..1e9_f64, 1..30),
        ) {
            let spread = Spread::of(values.iter().copied()).expect("there are values");
            let below = values.iter().filter(|value| **value <= spread.median).count();
            let above = values.iter().filter(|value| **value >= spread.median).count();
            prop_assert!(below * 2 >= values.len() && above * 2 >= values.len());
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
        }
    }
}
