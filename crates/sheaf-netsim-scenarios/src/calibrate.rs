//! Calibration: properties of hosts from measurements of a small system, for the simulation of a large one.
//!
//! The model of a measurement: a node needs `overhead + size / rate` for a fragment, nodes work at the same time, but a
//! share of the work is done one after the other because nodes share processors and memory:
//!
//! ```text
//! bytes per second = size / ((overhead + size / rate) * ((1 - sharing) / ports + sharing))
//! ```
//!
//! where `ports` is the smaller of readouts and builders. Sharing is a property of the machine that was measured on: in
//! a large system every node has its own host. It is only fitted where points differ in `ports`.

use crate::fit::{least_squares, student};
use crate::measurements::Measurement;
use crate::result::Spread;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// One in this number of points is held out of the fit.
const HELD_OUT: usize = 3;

/// Half of the widest interval, in logarithms: a factor of 5 x 10^21.
const WIDEST: f64 = 50.0;

/// Result of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Time per message that does not depend on its size, in nanoseconds.
    pub overhead_ns: Interval,
    /// Bytes per second beyond that.
    pub rate_bytes_per_second: Interval,
    /// The share of the work that nodes of the measured system do one after the other; `None`: all points have the same
    /// number of ports, so that it cannot be determined.
    pub sharing: Option<Interval>,
    /// The points, those of the fit and those held out.
    pub points: Vec<Residual>,
    /// Root mean square of the relative errors at points of the fit.
    pub fitted_error: f64,
    /// The same at points that were held out: how far to trust the model between the measurements.
    pub held_out_error: f64,
    /// The largest of these, without its sign.
    pub held_out_largest: f64,
}

/// A value and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// A value that is known.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }
}

/// A point and the model's value for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Mean fragment size in bytes.
    pub size_bytes: f64,
    /// Readout units.
    pub readouts: u32,
    /// Builder units.
    pub builders: u32,
    /// Measured bytes per second.
    pub measured_bytes_per_second: f64,
    /// The model's.
    pub model_bytes_per_second: f64,
    /// Model over measurement, less one.
    pub relative_error: f64,
    /// Whether it was held out of the fit.
    pub held_out: bool,
}

/// Reason why a calibration is not possible.
#[derive(Debug, Error)]
pub enum CalibrateError {
    /// Too few points.
    #[error(
        "{points} measured points are too few; at least {needed} are needed, of several sizes, to hold some out"
    )]
    TooFew {
        /// The number of them.
        points: usize,
        /// Number that it takes.
        needed: usize,
    },
    /// All of one size.
    #[error("all measured points have fragments of {size_bytes} bytes; overhead and rate need several sizes")]
    OneSize {
        /// The size.
        size_bytes: f64,
    },
    /// The file of a calibration cannot be read.
    #[error("cannot read the calibration {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// It is not one.
    #[error("{path} is not a calibration: {error}; `sheaf sim calibrate` writes one")]
    Format {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// It has impossible values.
    #[error("{path} is not a calibration: {what}")]
    Values {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: &'static str,
    },
}

/// The parameters as the fit sees them: logarithms, so that they stay positive, and sharing as a logit, so that it
/// stays between 0 and 1.
#[derive(Clone, Copy)]
struct Model {
    overhead_seconds: f64,
    rate: f64,
    sharing: f64,
}

impl Model {
    fn new(log_overhead: f64, log_rate: f64, logit_sharing: Option<f64>) -> Self {
        Self {
            overhead_seconds: log_overhead.exp(),
            rate: log_rate.exp(),
            sharing: logit_sharing.map_or(0.0, logistic),
        }
    }

    fn bytes_per_second(&self, point: &Measurement) -> f64 {
        let time = self.overhead_seconds + point.size_bytes / self.rate;
        point.size_bytes / (time * ((1.0 - self.sharing) / point.parallel() + self.sharing))
    }

    /// Logarithms of model over measurement: relative errors have equal weight at all sizes.
    fn residuals(&self, points: &[Measurement]) -> Vec<f64> {
        points.iter().map(|point| (self.bytes_per_second(point) / point.bytes_per_second).ln()).collect()
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Fits the model to all points but every third, by size.
///
/// # Errors
/// If the points do not determine the parameters.
pub fn calibrate(measurements: &[Measurement]) -> Result<Calibration, CalibrateError> {
    let mut points = measurements.to_vec();
    points.sort_by(|a, b| {
        let key = |point: &Measurement| (point.readouts, point.builders);
        key(a).cmp(&key(b)).then(a.size_bytes.total_cmp(&b.size_bytes))
    });
    // The smallest and the largest sizes stay in the fit: held-out points lie between.
    let is_held_out = |index: usize| index % HELD_OUT == 1;
    let fitted: Vec<Measurement> = points
        .iter()
        .enumerate()
        .filter(|(index, _)| !is_held_out(*index))
        .map(|(_, point)| *point)
        .collect();
    let has_sharing = fitted.iter().any(|point| point.parallel() > fitted[0].parallel());
    let needed = if has_sharing { 6 } else { 5 };
    if points.len() < needed {
        return Err(CalibrateError::TooFew { points: points.len(), needed });
    }
    let size_bytes = fitted[0].size_bytes;
    if fitted.iter().all(|point| (point.size_bytes - size_bytes).abs() < 1e-9 * size_bytes) {
        return Err(CalibrateError::OneSize { size_bytes });
    }
    let (overhead, rate) = start(&fitted);
    let (parameters, errors) = if has_sharing {
        let fit = least_squares([overhead, rate, 0.0], |p: &[f64; 3]| {
            Model::new(p[0], p[1], Some(p[2])).residuals(&fitted)
        });
        (fit.parameters.to_vec(), fit.errors.to_vec())
    } else {
        let fit =
            least_squares([overhead, rate], |p: &[f64; 2]| Model::new(p[0], p[1], None).residuals(&fitted));
        (fit.parameters.to_vec(), fit.errors.to_vec())
    };
    let factor = student(fitted.len().saturating_sub(parameters.len()));
    let interval = |index: usize, back: fn(f64) -> f64| {
        // An undetermined parameter has a very wide interval, which is still a number in JSON.
        let half = (factor * errors[index]).min(WIDEST);
        Interval {
            value: back(parameters[index]),
            low: back(parameters[index] - half),
            high: back(parameters[index] + half),
        }
    };
    let model = Model::new(parameters[0], parameters[1], parameters.get(2).copied());
    let residuals =
        points.iter().enumerate().map(|(index, point)| residual(&model, point, is_held_out(index)));
    let residuals: Vec<Residual> = residuals.collect();
    let errors_of = |held_out: bool| {
        residuals
            .iter()
            .filter(move |residual| residual.held_out == held_out)
            .map(|residual| residual.relative_error)
    };
    let rms = |held_out| Spread::of(errors_of(held_out).map(|error| error * error)).mean.sqrt();
    Ok(Calibration {
        overhead_ns: interval(0, |log| log.exp() * 1e9),
        rate_bytes_per_second: interval(1, f64::exp),
        sharing: has_sharing.then(|| interval(2, logistic)),
        fitted_error: rms(false),
        held_out_error: rms(true),
        held_out_largest: errors_of(true).fold(0.0, |largest, error| largest.max(error.abs())),
        points: residuals,
    })
}

/// Start values of the fit: overhead from the smallest size, rate from the largest, as logarithms.
fn start(points: &[Measurement]) -> (f64, f64) {
    let per_port = |point: &Measurement| point.bytes_per_second / point.parallel();
    let by_size = |a: &&Measurement, b: &&Measurement| a.size_bytes.total_cmp(&b.size_bytes);
    let smallest = points.iter().min_by(by_size).map_or(1e-6, |point| point.size_bytes / per_port(point));
    let largest = points.iter().max_by(by_size).map_or(1e9, per_port);
    (smallest.ln(), largest.ln())
}

fn residual(model: &Model, point: &Measurement, held_out: bool) -> Residual {
    let said = model.bytes_per_second(point);
    Residual {
        size_bytes: point.size_bytes,
        readouts: point.readouts,
        builders: point.builders,
        measured_bytes_per_second: point.bytes_per_second,
        model_bytes_per_second: said,
        relative_error: said / point.bytes_per_second - 1.0,
        held_out,
    }
}

impl Calibration {
    /// Reads a calibration that [`calibrate`] made and the command wrote.
    ///
    /// # Errors
    /// If the file cannot be read or is not a calibration.
    pub fn load(path: &Path) -> Result<Self, CalibrateError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| CalibrateError::Io { path: path.to_owned(), error })?;
        let calibration: Self = serde_json::from_str(&text)
            .map_err(|error| CalibrateError::Format { path: path.to_owned(), error })?;
        let is_good = |interval: &Interval| {
            interval.value.is_finite()
                && interval.low >= 0.0
                && interval.low <= interval.value
                && interval.value <= interval.high
        };
        let what = match (is_good(&calibration.overhead_ns), is_good(&calibration.rate_bytes_per_second)) {
            (true, true) if calibration.rate_bytes_per_second.value > 0.0 => return Ok(calibration),
            (false, _) => "`overhead_ns` must be a non-negative value within its interval",
            _ => "`rate_bytes_per_second` must be a positive value within its interval",
        };
        Err(CalibrateError::Values { path: path.to_owned(), what })
    }
}

impl std::fmt::Display for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::table::{rate, time};
        use sheaf_plot::TextTable;
        let Interval { value, low, high } = self.overhead_ns;
        writeln!(f, "overhead per message  {:>10}  95 %: {} to {}", time(value), time(low), time(high))?;
        let Interval { value, low, high } = self.rate_bytes_per_second;
        writeln!(f, "rate                  {:>10}  95 %: {} to {}", rate(value), rate(low), rate(high))?;
        match self.sharing {
            Some(Interval { value, low, high }) => writeln!(
                f,
                "sharing               {value:>10.3}  95 %: {low:.3} to {high:.3}; 0: nodes work at the same time, 1: \
                 one after the other"
            )?,
            None => {
                writeln!(f, "sharing                  not told  all points have the same number of ports")?
            }
        }
        writeln!(
            f,
            "\nerror at points of the fit {:.1} %, at points held out {:.1} % (largest {:.1} %)\n",
            self.fitted_error * 100.0,
            self.held_out_error * 100.0,
            self.held_out_largest * 100.0
        )?;
        let mut columns = TextTable::with_text_columns(0);
        columns.push(["size", "readouts", "builders", "measured", "model", "error", ""]);
        for point in &self.points {
            columns.push([
                format!("{:.0}", point.size_bytes),
                point.readouts.to_string(),
                point.builders.to_string(),
                rate(point.measured_bytes_per_second),
                rate(point.model_bytes_per_second),
                format!("{:+.1} %", point.relative_error * 100.0),
                if point.held_out { "held out".into() } else { String::new() },
            ]);
        }
        write!(f, "{columns}")
    }
}

#[cfg(test)]
mod tests;
