//! `time = offset + size / speed`, with a plateau below.
//!
//! The description of a link by three numbers, as the CMS event builder studies of 2000 have it for Gigabit Ethernet and
//! Myrinet: above some size the time of a message grows linearly, below it the time is that of handling any message at
//! all. So the curve is `max(plateau, offset + size / speed)`. Deviations count relative to the measured time:
//! microseconds of small messages weigh as much as milliseconds of large ones.

use serde::{Deserialize, Serialize};

/// The parameters of a link or a system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Time of a message of no length, from the straight line, in nanoseconds; never below 0.
    pub offset_ns: f64,
    /// Slope of the straight line: bytes per second that long messages approach.
    pub speed_bytes_per_second: f64,
    /// Time of a short message in nanoseconds; 0 where the straight line holds down to the least size.
    pub plateau_ns: f64,
    /// From which size on the straight line holds, in bytes.
    pub linear_from_bytes: f64,
    /// Root of the mean square of the relative deviations.
    pub rms_deviation: f64,
}

impl Fit {
    /// The best curve through `points`, each a size in bytes and a time per message in nanoseconds. `None` where there
    /// are fewer than three, or no straight line that rises fits any three of them.
    #[must_use]
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let mut points: Vec<(f64, f64)> =
            points.iter().copied().filter(|&(size, time)| size > 0.0 && time > 0.0).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let cuts = 0..=points.len().checked_sub(3)?;
        let fits = cuts.filter_map(|cut| Self::with_cut(&points, cut));
        // A plateau is one more parameter: it has to earn its place.
        fits.min_by(|one, other| one.cost().total_cmp(&other.cost()))
    }

    /// The curve whose plateau is made of the first `cut` points and whose straight line of the others.
    fn with_cut(points: &[(f64, f64)], cut: usize) -> Option<Self> {
        let (short, long) = points.split_at(cut);
        let (offset, slope) = line(long)?;
        // The mean that makes relative deviations least.
        let sums =
            short.iter().fold((0.0, 0.0), |sums, &(_, time)| (sums.0 + 1.0 / time, sums.1 + time.powi(-2)));
        let plateau = if short.is_empty() { 0.0 } else { sums.0 / sums.1 };
        let mut fit = Self {
            offset_ns: offset,
            speed_bytes_per_second: 1e9 / slope,
            plateau_ns: plateau,
            linear_from_bytes: ((plateau - offset) / slope).max(points[0].0),
            rms_deviation: 0.0,
        };
        let squares = points.iter().map(|&(size, time)| ((fit.time_ns(size) - time) / time).powi(2));
        fit.rms_deviation = (squares.sum::<f64>() / count(points.len())).sqrt();
        Some(fit)
    }

    fn cost(&self) -> f64 {
        if self.plateau_ns > 0.0 { self.rms_deviation * 1.1 + 1e-6 } else { self.rms_deviation }
    }

    /// Time of a message of `size` bytes, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self, size: f64) -> f64 {
        (self.offset_ns + size / self.speed_bytes_per_second * 1e9).max(self.plateau_ns)
    }

    /// Bytes per second with messages of `size` bytes.
    #[must_use]
    pub fn bytes_per_second(&self, size: f64) -> f64 {
        size / self.time_ns(size) * 1e9
    }
}

/// Offset and slope of the straight line with the least relative deviations; an offset below 0 becomes 0. `None` where
/// the line does not rise.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    // Weights 1/t^2 in the normal equations make deviations relative.
    let (mut s, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(size, time) in points {
        let weight = time.powi(-2);
        s += weight;
        sx += weight * size;
        sy += weight * time;
        sxx += weight * size * size;
        sxy += weight * size * time;
    }
    let determinant = s * sxx - sx * sx;
    let slope = (s * sxy - sx * sy) / determinant;
    let offset = (sy - slope * sx) / s;
    let (offset, slope) = if offset < 0.0 { (0.0, sxy / sxx) } else { (offset, slope) };
    (slope.is_finite() && slope > 0.0 && offset.is_finite()).then_some((offset, slope))
}

#[expect(clippy::cast_precision_loss, reason = "a few points")]
fn count(points: usize) -> f64 {
    points as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes() -> impl Iterator<Item = f64> {
        (6..=20).map(|power| 2f64.powi(power))
    }

    #[test]
    fn the_documents_parameters_of_myrinet_are_found_again() {
        // CMS 2000: 164 MB/s, 0.61 us, plateau 2.7 us.
        let truth = |size: f64| f64::max(2700.0, 610.0 + size / 164e6 * 1e9);
        let points: Vec<_> = sizes().map(|size| (size, truth(size))).collect();
        let fit = Fit::of(&points).expect("there are fifteen points");
        assert!((fit.speed_bytes_per_second / 164e6 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.offset_ns / 610.0 - 1.0).abs() < 1e-6 && (fit.plateau_ns / 2700.0 - 1.0).abs() < 1e-6);
        assert!(
            (300.0..400.0).contains(&fit.linear_from_bytes),
            "the document says above 400 bytes: {fit:?}"
        );
    }

    #[test]
    fn two_points_and_a_falling_line_are_no_fit() {
        assert_eq!(Fit::of(&[(64.0, 100.0), (128.0, 110.0)]), None);
        assert_eq!(Fit::of(&[(1e6, 1.0), (2e6, 0.5), (4e6, 0.1), (8e6, 0.05)]), None);
    }

    proptest! {
        #[test]
        fn a_straight_line_is_found_without_a_plateau(offset in 10.0..1e5_f64, speed in 1e7..1e11_f64) {
            let points: Vec<_> = sizes().map(|size| (size, offset + size / speed * 1e9)).collect();
            let fit = Fit::of(&points).expect("there are fifteen points");
            prop_assert!((fit.speed_bytes_per_second / speed - 1.0).abs() < 1e-3);
            prop_assert!(fit.rms_deviation < 1e-3);
            prop_assert!((fit.time_ns(64.0) / (offset + 64.0 / speed * 1e9) - 1.0).abs() < 1e-2);
        }

        #[test]
        fn noise_of_some_percent_moves_the_parameters_by_little(
            noise in prop::collection::vec(0.97..1.03_f64, 15), speed in 1e8..1e10_f64,
        ) {
            let truth = |size: f64| f64::max(2000.0, 500.0 + size / speed * 1e9);
            let points: Vec<_> = sizes().zip(noise).map(|(size, noise)| (size, truth(size) * noise)).collect();
            let fit = Fit::of(&points).expect("there are fifteen points");
            prop_assert!((fit.speed_bytes_per_second / speed - 1.0).abs() < 0.15, "{:?}", fit);
            prop_assert!(fit.rms_deviation < 0.05, "{:?}", fit);
        }
    }
}
