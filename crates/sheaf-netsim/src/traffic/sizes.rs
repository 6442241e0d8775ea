//! Fragment sizes: drawn from a model, or as they were recorded.

use super::chance::{Purpose, bits, normal, unit};
use crate::scenario::SizeModel;
use std::f64::consts::FRAC_1_SQRT_2;
use thiserror::Error;

/// Sizes that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SizeError {
    /// A size, mean or spread that is no size.
    #[error("{what} is {value}: it must be {right}")]
    Value {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The remedy.
        right: &'static str,
    },
    /// A recording without events.
    #[error("the recording holds no events: there is nothing to replay")]
    NoEvents,
    /// A recorded event that does not fit the sources.
    #[error("event {event} of the recording has {columns} fragments: there are {sources} sources")]
    Columns {
        /// The row, from 0.
        event: usize,
        /// Its length.
        columns: usize,
        /// Number of values that are needed.
        sources: usize,
    },
}

/// The size of every fragment: a function of event and source.
#[derive(Clone, Debug)]
pub enum FragmentSizes {
    /// From a model.
    Drawn(DrawnSizes),
    /// As recorded: one row for each event, one column for each source. After the last row comes the first again.
    Recorded(Vec<Vec<u32>>),
}

impl FragmentSizes {
    /// Sizes from `model`; `correlation` between 0 (independent) and 1 (all sources of an event alike).
    ///
    /// # Errors
    /// Sizes that cannot be.
    pub fn drawn(model: SizeModel, correlation: f64, seed: u64) -> Result<Self, SizeError> {
        Ok(Self::Drawn(DrawnSizes::new(model, correlation, seed)?))
    }

    /// Sizes from a recording for `sources` sources.
    ///
    /// # Errors
    /// No events, or an event with another number of fragments.
    pub fn recorded(events: Vec<Vec<u32>>, sources: usize) -> Result<Self, SizeError> {
        if events.is_empty() {
            return Err(SizeError::NoEvents);
        }
        for (event, row) in events.iter().enumerate() {
            if row.len() != sources {
                return Err(SizeError::Columns { event, columns: row.len(), sources });
            }
        }
        Ok(Self::Recorded(events))
    }

    /// The size in bytes of one fragment: at least 1, because an empty fragment is a message too.
    #[must_use]
    pub fn bytes(&self, event: u64, source: u32) -> u32 {
        match self {
            Self::Drawn(drawn) => drawn.bytes(event, source),
            Self::Recorded(rows) => {
                let row = usize::try_from(event % rows.len() as u64).unwrap_or(0);
                rows[row][source as usize].max(1)
            }
        }
    }

    /// The mean size in bytes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for reports and time limits")]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Drawn(drawn) => mean(drawn.model),
            Self::Recorded(rows) => {
                let fragments: usize = rows.iter().map(Vec::len).sum();
                let bytes: u64 = rows.iter().flatten().map(|bytes| u64::from((*bytes).max(1))).sum();
                bytes as f64 / fragments.max(1) as f64
            }
        }
    }
}

/// The mean size of a model in bytes.
#[must_use]
pub fn mean(model: SizeModel) -> f64 {
    match model {
        SizeModel::Fixed(bytes) => f64::from(bytes),
        SizeModel::Uniform(least, most) => f64::midpoint(f64::from(least), f64::from(most)),
        SizeModel::Exponential(mean) | SizeModel::LogNormal { mean, .. } | SizeModel::Normal { mean, .. } => {
            mean
        }
    }
}

/// Sizes drawn from a model.
///
/// Correlation is that of a Gaussian copula: a fragment's normal deviate is `sqrt(c)` parts the event's and
/// `sqrt(1 - c)` parts its own, and the model's distribution is laid over it. So every fragment has exactly the
/// model's distribution whatever `c`, and for normal and log-normal sizes `c` is the correlation of the sizes or of
/// their logarithms.
#[derive(Clone, Debug)]
pub struct DrawnSizes {
    model: SizeModel,
    seed: u64,
    correlation: f64,
    /// Weights of the event's and of the fragment's own deviate.
    shared: f64,
    own: f64,
    /// Log-normal: mean and standard deviation of the logarithm.
    log_mean: f64,
    log_rms: f64,
}

impl DrawnSizes {
    fn new(model: SizeModel, correlation: f64, seed: u64) -> Result<Self, SizeError> {
        check(model)?;
        if !(0.0..=1.0).contains(&correlation) {
            let (what, right) = ("the correlation of fragment sizes", "between 0 and 1");
            return Err(SizeError::Value { what, value: correlation, right });
        }
        let (log_mean, log_rms) = match model {
            // From mean m and standard deviation r: sigma^2 = ln(1 + r^2 / m^2), mu = ln m - sigma^2 / 2.
            SizeModel::LogNormal { mean, rms } => {
                let variance = libm::log1p((rms / mean) * (rms / mean));
                (libm::log(mean) - variance / 2.0, libm::sqrt(variance))
            }
            _ => (0.0, 0.0),
        };
        let (shared, own) = (libm::sqrt(correlation), libm::sqrt(1.0 - correlation));
        Ok(Self { model, seed, correlation, shared, own, log_mean, log_rms })
    }

    fn bytes(&self, event: u64, source: u32) -> u32 {
        let size = match self.model {
            SizeModel::Fixed(bytes) => return bytes,
            SizeModel::Uniform(least, most) => {
                let values = f64::from(most - least) + 1.0;
                libm::floor(f64::from(least) + values * self.even(event, source))
            }
            SizeModel::Exponential(mean) => -mean * libm::log(self.even(event, source)),
            SizeModel::LogNormal { .. } => {
                libm::exp(self.log_mean + self.log_rms * self.deviate(event, source))
            }
            SizeModel::Normal { mean, rms } => mean + rms * self.deviate(event, source),
        };
        to_bytes(size)
    }

    /// A normal deviate.
    fn deviate(&self, event: u64, source: u32) -> f64 {
        let mut value = 0.0;
        if self.correlation > 0.0 {
            value += self.shared * normal(bits(self.seed, Purpose::EventSize, event, 0));
        }
        if self.correlation < 1.0 {
            value += self.own * normal(bits(self.seed, Purpose::FragmentSize, event, u64::from(source)));
        }
        value
    }

    /// An even deviate between 0 and 1.
    fn even(&self, event: u64, source: u32) -> f64 {
        if self.correlation <= 0.0 {
            unit(bits(self.seed, Purpose::FragmentSize, event, u64::from(source)))
        } else {
            let tail = 0.5 * libm::erfc(-self.deviate(event, source) * FRAC_1_SQRT_2);
            tail.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)
        }
    }
}

fn to_bytes(size: f64) -> u32 {
    let rounded = libm::round(size).clamp(1.0, f64::from(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped just above")]
    let bytes = rounded as u32;
    bytes
}

fn check(model: SizeModel) -> Result<(), SizeError> {
    let positive = |what, value: f64| {
        let right = "at least 1 byte and below 4 GiB";
        let fits = (1.0..=f64::from(u32::MAX)).contains(&value);
        if fits { Ok(()) } else { Err(SizeError::Value { what, value, right }) }
    };
    let spread = |value: f64| {
        let (what, right) = ("the standard deviation of sizes", "zero or more");
        if value >= 0.0 && value.is_finite() { Ok(()) } else { Err(SizeError::Value { what, value, right }) }
    };
    match model {
        SizeModel::Fixed(bytes) => positive("the size", f64::from(bytes)),
        SizeModel::Uniform(least, most) => {
            positive("the least size", f64::from(least))?;
            if most < least {
                let (what, right) = ("the greatest size", "not below the least");
                return Err(SizeError::Value { what, value: f64::from(most), right });
            }
            Ok(())
        }
        SizeModel::Exponential(mean) => positive("the mean size", mean),
        SizeModel::LogNormal { mean, rms } | SizeModel::Normal { mean, rms } => {
            positive("the mean size", mean)?;
            spread(rms)
        }
    }
}

#[cfg(test)]
mod tests;
