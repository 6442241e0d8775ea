//! Warm-up and error by batch means.
//!
//! The warm-up ends where the standard error of the mean of the rest is smallest (MSER, White 1997): cutting more loses
//! data, cutting less keeps the bias. At most half of the run is cut. The error is that of the means of some twenty
//! batches, which in a long run are long compared with any memory of the network.

/// Batches for the error: few enough to be long, enough for a variance.
const BATCHES: usize = 20;
/// Groups of slices among which the warm-up is found.
const GROUPS: usize = 128;

/// Steady state of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Number of warm-up values at the start.
    pub cut: usize,
    /// The mean of the others.
    pub mean: f64,
    /// Half width of the 95 % interval of the mean; 0 if there are too few values.
    pub half_width: f64,
}

/// The steady part of a series of equal slices.
#[must_use]
pub fn steady(series: &[f64]) -> Steady {
    let group = series.len().div_ceil(GROUPS).max(1);
    let groups: Vec<f64> = series.chunks_exact(group).map(mean).collect();
    let cut = warm_up(&groups) * group;
    let rest = &series[cut..];
    let batch = rest.len() / BATCHES;
    let half_width = if batch == 0 {
        0.0
    } else {
        // The first values are left out if the rest is not a multiple of the batches.
        let batches: Vec<f64> = rest[rest.len() % BATCHES..].chunks_exact(batch).map(mean).collect();
        t_95(batches.len() - 1) * (variance(&batches) / count(batches.len())).sqrt()
    };
    Steady { cut, mean: mean(rest), half_width }
}

/// Returns the number of values to cut. It searches from the back, so that sums are updated and one pass is enough.
fn warm_up(values: &[f64]) -> usize {
    let most = values.len() / 2;
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // Squares of small deviations lose no digits: all values are taken relative to the last ones.
    let origin = mean(&values[most..]);
    for (index, value) in values.iter().enumerate().rev() {
        sum += value - origin;
        squares += (value - origin) * (value - origin);
        let rest = count(values.len() - index);
        let error = (squares - sum * sum / rest).max(0.0) / (rest * rest);
        if index <= most && error <= best.0 {
            best = (error, index);
        }
    }
    best.1
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count(values.len()) }
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.len() < 2 { 0.0 } else { squares / count(values.len() - 1) }
}

/// Student's t for a two-sided 95 % interval, by the first terms of its expansion around the normal distribution
/// (Abramowitz and Stegun 26.7.5); within 0.1 % from 10 degrees of freedom on.
fn t_95(degrees: usize) -> f64 {
    let z: f64 = 1.959_964;
    let n = count(degrees);
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n)
}

#[expect(clippy::cast_precision_loss, reason = "there are a few hundred")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
