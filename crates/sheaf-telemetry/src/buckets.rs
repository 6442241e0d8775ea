//! Histograms of durations, with bounds in steps of 1, 2 and 5 from 10 microseconds to 100 seconds.

use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets, in nanoseconds. Another bucket holds what is longer.
pub const BOUNDS_NS: [u64; 22] = bounds();

/// Number of values that a histogram publishes: its buckets, and the sum in nanoseconds.
pub const VALUES: usize = BOUNDS_NS.len() + 2;

const fn bounds() -> [u64; 22] {
    let mut bounds = [0; 22];
    let (mut index, mut decade) = (0, 10_000);
    while index < bounds.len() {
        bounds[index] = decade * [1, 2, 5][index % 3];
        if index % 3 == 2 {
            decade *= 10;
        }
        index += 1;
    }
    bounds
}

/// Durations counted by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    counts: [u64; BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { counts: [0; BOUNDS_NS.len() + 1], sum_ns: 0 }
    }
}

impl Buckets {
    /// Counts `count` durations of this length.
    #[inline]
    pub fn add(&mut self, duration_ns: u64, count: u64) {
        let index = BOUNDS_NS.partition_point(|bound| *bound < duration_ns);
        self.counts[index] += count;
        self.sum_ns = self.sum_ns.saturating_add(duration_ns.saturating_mul(count));
    }

    /// Returns the values to publish: the count of each bucket, the last one without a bound, and the sum in nanoseconds.
    #[must_use]
    pub fn values(&self) -> [u64; VALUES] {
        let mut values = [0; VALUES];
        values[..self.counts.len()].copy_from_slice(&self.counts);
        values[VALUES - 1] = self.sum_ns;
        values
    }
}

/// Returns the duration in nanoseconds that the given fraction of all durations does not exceed, interpolated within its bucket; `None`
/// of no durations. `values` are those of [`Buckets::values`], or differences of them.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an estimate within a bucket")]
pub fn quantile_ns(values: &[u64], fraction: f64) -> Option<f64> {
    let counts = values.get(..=BOUNDS_NS.len())?;
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = fraction.clamp(0.0, 1.0) * total as f64;
    let mut before = 0.0;
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let below = if index == 0 { 0 } else { BOUNDS_NS[index - 1] } as f64;
        // Nothing is known of the durations in the last bucket but that they are longer than its lower bound.
        let Some(bound) = BOUNDS_NS.get(index) else { return Some(below) };
        let count = *count as f64;
        if before + count >= wanted {
            return Some(below + (*bound as f64 - below) * ((wanted - before) / count).max(0.0));
        }
        before += count;
    }
    Some(BOUNDS_NS[BOUNDS_NS.len() - 1] as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_go_from_ten_microseconds_to_a_hundred_seconds() {
        assert_eq!(
            (BOUNDS_NS[0], BOUNDS_NS[1], BOUNDS_NS[2], BOUNDS_NS[3]),
            (10_000, 20_000, 50_000, 100_000)
        );
        assert_eq!(BOUNDS_NS[21], 100_000_000_000);
        assert!(BOUNDS_NS.is_sorted());
    }

    #[test]
    fn a_duration_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut buckets = Buckets::default();
        buckets.add(10_000, 1);
        buckets.add(10_001, 2);
        buckets.add(u64::MAX, 3);
        let values = buckets.values();
        assert_eq!((values[0], values[1], values[BOUNDS_NS.len()]), (1, 2, 3));
        assert_eq!(values[VALUES - 1], u64::MAX, "a sum that is too large stays at its limit");
    }

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_duration() {
        let mut buckets = Buckets::default();
        assert_eq!(quantile_ns(&buckets.values(), 0.5), None);
        buckets.add(15_000, 99);
        buckets.add(30_000_000_000, 1);
        let of = |fraction| quantile_ns(&buckets.values(), fraction).expect("there are durations");
        assert!((10_000.0..=20_000.0).contains(&of(0.5)));
        assert!((20e9..=50e9).contains(&of(1.0)));
        assert!(of(0.5) < of(0.9));
    }
}
