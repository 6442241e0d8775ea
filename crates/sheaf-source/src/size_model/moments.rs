//! Mean and rms of a size model after its bounds, in closed form.

use super::{Form, SizeModel};
use crate::normal::{below, density};
use std::f64::consts::LN_2;

/// The first two moments of a distribution of sizes. Rounding to whole bytes, which adds at most 1/12 to the
/// variance, is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The mean, in bytes.
    pub mean_bytes: f64,
    /// The standard deviation, in bytes.
    pub rms_bytes: f64,
}

pub(super) fn of(model: &SizeModel) -> Moments {
    let &SizeModel { form, min, max, .. } = model;
    let (mean, mean_square) = match form {
        Form::Fixed { size } => (size, size * size),
        Form::LogNormal { log2_mu, log2_sigma } => log_normal(log2_mu * LN_2, log2_sigma * LN_2, min, max),
        Form::Normal { mean, rms, .. } => normal(mean, rms, min, max),
        Form::MinimumPeaked { at_minimum, tail } => {
            let (excess, excess_square) = exponential(tail, max - min);
            let (excess, excess_square) = (excess * (1.0 - at_minimum), excess_square * (1.0 - at_minimum));
            (min + excess, min * min + 2.0 * min * excess + excess_square)
        }
    };
    Moments { mean_bytes: mean, rms_bytes: libm::sqrt((mean_square - mean * mean).max(0.0)) }
}

/// Mean and mean square of a log-normal number that is moved to `min` where it is below and to `max` where above.
fn log_normal(mu: f64, sigma: f64, min: f64, max: f64) -> (f64, f64) {
    if sigma == 0.0 {
        let size = libm::exp(mu);
        return (size, size * size);
    }
    let low = (libm::log(min) - mu) / sigma;
    let high = (libm::log(max) - mu) / sigma;
    let (at_min, at_max) = (below(low), below(-high));
    let within = |power: f64| {
        let whole = libm::exp(power * mu + power * power * sigma * sigma / 2.0);
        whole * (below(high - power * sigma) - below(low - power * sigma))
    };
    (min * at_min + within(1.0) + max * at_max, min * min * at_min + within(2.0) + max * max * at_max)
}

/// Mean and mean square of a normal number that is redrawn where it is below `min` and moved to `max` where above.
fn normal(mean: f64, rms: f64, min: f64, max: f64) -> (f64, f64) {
    let (low, high) = ((min - mean) / rms, (max - mean) / rms);
    let (kept, within, at_max) = (below(-low), below(high) - below(low), below(-high));
    let slope = density(low) - density(high);
    let curve = low * density(low) - high * density(high);
    let first = mean * within + rms * slope + max * at_max;
    let second = (mean * mean + rms * rms) * within
        + 2.0 * mean * rms * slope
        + rms * rms * curve
        + max * max * at_max;
    (first / kept, second / kept)
}

/// Mean and mean square of an exponential number of mean `tail` that is moved to `limit` where it is above.
fn exponential(tail: f64, limit: f64) -> (f64, f64) {
    if tail == 0.0 {
        return (0.0, 0.0);
    }
    let beyond = libm::exp(-limit / tail);
    (tail * (1.0 - beyond), 2.0 * tail * (tail * (1.0 - beyond) - limit * beyond))
}
