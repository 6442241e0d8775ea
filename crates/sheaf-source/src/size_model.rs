//! Sizes of fragments.
//!
//! A model is a quantile function: it turns a number between 0 and 1 into a size. A fragment's size is that function
//! of the source's draw at the event ([`Draws`]), hence a pure function of seed, source and event.
//!
//! | shape | made for | size at probability `u` |
//! |---|---|---|
//! | [`SizeShape::Fixed`] | waveforms without zero suppression | the size |
//! | [`SizeShape::LogNormal`] | zero-suppressed calorimeters, rms/mean near 1 | `exp(mu + sigma z(u))` |
//! | [`SizeShape::Normal`] | streams driven by a rate, rms/mean 0.2 to 0.4 | `mean + rms z(u')`, cut at the minimum |
//! | [`SizeShape::MinimumPeaked`] | hit streams: mostly empty, with a long tail | minimum, or minimum + exponential |
//!
//! A drawn size is within 0.03 % of that function, for an rms of at most four times the mean.
//!
//! `z` is the quantile of the standard normal distribution. `docs/concepts/sources.md` helps to choose a model.

mod moments;
mod table;

use crate::exp2::exp2;
use crate::normal;
use crate::random::Draws;
pub use moments::Moments;
use sheaf_wire::{ByteCount, EventId};
use std::f64::consts::LOG2_E;
use table::Table;

/// The largest size that a model may give: 1 GiB, the largest payload that a fragment stream holds.
pub const MAX_SIZE: ByteCount = ByteCount::mib(1024);

/// The distribution of the sizes. Mean and rms are of the distribution itself, in bytes; rms is the standard
/// deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeShape {
    /// Always the same.
    Fixed {
        /// The size.
        size: ByteCount,
    },
    /// The logarithm of the size is normal, with `sigma^2 = ln(1 + (rms/mean)^2)` and
    /// `mu = ln(mean) - sigma^2 / 2`.
    LogNormal {
        /// The mean of the sizes, not of their logarithms.
        mean_bytes: f64,
        /// The standard deviation of the sizes, not of their logarithms.
        rms_bytes: f64,
    },
    /// Normal, truncated at the minimum: smaller sizes are redrawn, not set to the minimum.
    ///
    /// The parameters are of the whole normal distribution. The cut raises the mean by
    /// `rms * density(a) / (1 - below(a))` with `a = (minimum - mean) / rms`: for a minimum of 0 by 0.00003 % of the
    /// mean at rms/mean = 0.2 and by 0.7 % at 0.4. [`SizeModel::moments`] gives the result.
    Normal {
        /// The mean before the cut.
        mean_bytes: f64,
        /// The standard deviation before the cut.
        rms_bytes: f64,
    },
    /// The minimum with probability `at_minimum`, otherwise the minimum plus an exponential excess of mean
    /// `(mean - minimum) / (1 - at_minimum)`.
    MinimumPeaked {
        /// The mean over all fragments.
        mean_bytes: f64,
        /// The share of fragments that have the minimum size.
        at_minimum: f64,
    },
}

/// A shape and its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeConfig {
    /// The distribution.
    pub shape: SizeShape,
    /// No fragment is smaller.
    pub min: ByteCount,
    /// Maximum size: larger sizes are set to it.
    pub max: ByteCount,
}

/// Reason why a [`SizeConfig`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SizeModelError {
    /// The bounds are in the wrong order.
    #[error("smallest fragment size {min} is above the largest, {max}")]
    MinAboveMax {
        /// The configured minimum.
        min: ByteCount,
        /// The configured maximum.
        max: ByteCount,
    },
    /// The upper bound exceeds the limit of a fragment.
    #[error("largest fragment size {max} is above the limit of {MAX_SIZE}")]
    MaxTooLarge {
        /// The configured maximum.
        max: ByteCount,
    },
    /// The size or its mean is outside the bounds.
    #[error("fragment size {mean_bytes} B is outside the bounds {min} to {max}")]
    MeanOutOfBounds {
        /// The configured size or mean.
        mean_bytes: f64,
        /// The configured minimum.
        min: ByteCount,
        /// The configured maximum.
        max: ByteCount,
    },
    /// A log-normal distribution has no zero.
    #[error("a log-normal fragment size needs a mean above 0 B")]
    MeanNotPositive,
    /// The spread is not a finite number, or below zero.
    #[error("fragment size rms {rms_bytes} B must be a number that is not negative")]
    BadRms {
        /// The configured rms.
        rms_bytes: f64,
    },
    /// The share at the minimum leaves no tail or is no share.
    #[error("share of fragments at the minimum {at_minimum} must be at least 0 and below 1")]
    BadShare {
        /// The configured share.
        at_minimum: f64,
    },
}

/// A distribution of sizes, checked and prepared for drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeModel {
    form: Form,
    /// The size, if all are the same. Known beforehand, because it is asked for with every fragment.
    fixed: Option<ByteCount>,
    min: f64,
    max: f64,
    /// Of the forms whose formula takes long.
    table: Option<Table>,
}

/// The parameters as the quantile functions use them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Fixed {
        size: f64,
    },
    /// The formulas' `mu` and `sigma`, in logarithms to base 2.
    LogNormal {
        log2_mu: f64,
        log2_sigma: f64,
    },
    /// `cut`: the probability below the minimum.
    Normal {
        mean: f64,
        rms: f64,
        cut: f64,
    },
    /// `tail`: the mean excess of those above the minimum.
    MinimumPeaked {
        at_minimum: f64,
        tail: f64,
    },
}

impl SizeModel {
    /// Checks a configuration and prepares it for drawing.
    ///
    /// # Errors
    /// If bounds or parameters contradict each other.
    pub fn new(config: &SizeConfig) -> Result<Self, SizeModelError> {
        let &SizeConfig { shape, min, max } = config;
        if min > max {
            return Err(SizeModelError::MinAboveMax { min, max });
        }
        if max > MAX_SIZE {
            return Err(SizeModelError::MaxTooLarge { max });
        }
        let (lower, upper) = (to_f64(min), to_f64(max));
        let mean_in_bounds = |mean_bytes: f64| {
            if (lower..=upper).contains(&mean_bytes) {
                Ok(mean_bytes)
            } else {
                Err(SizeModelError::MeanOutOfBounds { mean_bytes, min, max })
            }
        };
        let form = match shape {
            SizeShape::Fixed { size } => Form::Fixed { size: mean_in_bounds(to_f64(size))? },
            SizeShape::LogNormal { mean_bytes, rms_bytes } => {
                log_normal(mean_in_bounds(mean_bytes)?, checked_rms(rms_bytes)?)?
            }
            SizeShape::Normal { mean_bytes, rms_bytes } => {
                normal_above(lower, mean_in_bounds(mean_bytes)?, checked_rms(rms_bytes)?)
            }
            SizeShape::MinimumPeaked { mean_bytes, at_minimum } => {
                if !(0.0..1.0).contains(&at_minimum) {
                    return Err(SizeModelError::BadShare { at_minimum });
                }
                let tail = (mean_in_bounds(mean_bytes)? - lower) / (1.0 - at_minimum);
                Form::MinimumPeaked { at_minimum, tail }
            }
        };
        let fixed = match form {
            Form::Fixed { size } => Some(to_bytes(size)),
            _ => None,
        };
        let model = Self { form, fixed, min: lower, max: upper, table: None };
        let takes_long = matches!(form, Form::LogNormal { .. } | Form::Normal { .. });
        let table = takes_long.then(|| Table::of(|probability| model.exact(probability)));
        Ok(Self { table, ..model })
    }

    /// The size of the fragment that the source of `draws` has of `event`.
    #[must_use]
    #[inline]
    pub fn size(&self, draws: &Draws, event: EventId) -> ByteCount {
        self.fixed.unwrap_or_else(|| self.drawn(draws.uniform(event)))
    }

    fn drawn(&self, probability: f64) -> ByteCount {
        let size = self.table.as_ref().and_then(|table| table.size(probability));
        size.map_or_else(|| self.quantile(probability), to_bytes)
    }

    /// The size that a fragment is at most with this probability, which lies in (0, 1).
    #[must_use]
    pub fn quantile(&self, probability: f64) -> ByteCount {
        to_bytes(self.exact(probability))
    }

    fn exact(&self, probability: f64) -> f64 {
        let size = match self.form {
            Form::Fixed { size } => size,
            Form::LogNormal { log2_mu, log2_sigma } => {
                exp2(log2_mu + log2_sigma * normal::quantile(probability))
            }
            Form::Normal { mean, rms, cut } => {
                let above_cut = cut + probability * (1.0 - cut);
                // With the minimum far above the mean nothing but the end of the interval is left.
                mean + rms * normal::quantile(above_cut.min(1.0 - f64::EPSILON))
            }
            Form::MinimumPeaked { at_minimum, tail } => {
                let left = (1.0 - probability) / (1.0 - at_minimum);
                if left >= 1.0 { self.min } else { self.min - tail * libm::log(left) }
            }
        };
        size.max(self.min).min(self.max)
    }

    /// The smallest size that the model gives.
    #[must_use]
    pub fn min(&self) -> ByteCount {
        to_bytes(self.min)
    }

    /// The largest size that the model gives.
    #[must_use]
    pub fn max(&self) -> ByteCount {
        to_bytes(self.max)
    }

    /// The mean and rms of the sizes as they come out, with the effect of the bounds.
    #[must_use]
    pub fn moments(&self) -> Moments {
        moments::of(self)
    }
}

fn log_normal(mean: f64, rms: f64) -> Result<Form, SizeModelError> {
    if mean <= 0.0 {
        return Err(SizeModelError::MeanNotPositive);
    }
    let variance = libm::log1p((rms / mean) * (rms / mean));
    Ok(Form::LogNormal {
        log2_mu: (libm::log(mean) - variance / 2.0) * LOG2_E,
        log2_sigma: libm::sqrt(variance) * LOG2_E,
    })
}

fn normal_above(min: f64, mean: f64, rms: f64) -> Form {
    // A spread of zero would make the cut 0/0; it is a fixed size.
    if rms == 0.0 {
        return Form::Fixed { size: mean };
    }
    let cut = normal::below((min - mean) / rms);
    Form::Normal { mean, rms, cut }
}

fn checked_rms(rms_bytes: f64) -> Result<f64, SizeModelError> {
    if rms_bytes.is_finite() && rms_bytes >= 0.0 {
        Ok(rms_bytes)
    } else {
        Err(SizeModelError::BadRms { rms_bytes })
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are bounded by MAX_SIZE, far below 2^53")]
fn to_f64(size: ByteCount) -> f64 {
    size.0 as f64
}

/// The nearest whole number of bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is within the bounds, at most MAX_SIZE"
)]
#[inline]
fn to_bytes(size: f64) -> ByteCount {
    ByteCount(u64::from((size + 0.5) as u32))
}

#[cfg(test)]
mod tests;
