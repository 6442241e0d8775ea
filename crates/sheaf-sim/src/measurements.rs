//! Measurements of a small system, as `sheaf bench` writes them or as a person does.
//!
//! Either a list, or an object that has it as `points`. Each point is an object with `size_bytes` (mean fragment size)
//! and `bytes_per_second` (payload of all builders together), and may have `readouts` and `builders` (1 where not
//! given). What else is in it is not looked at.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Mean fragment size in bytes.
    pub size_bytes: f64,
    /// Payload bytes per second of all builders together.
    pub bytes_per_second: f64,
    /// Readout units.
    pub readouts: u32,
    /// Builder units.
    pub builders: u32,
}

impl Measurement {
    /// How many senders and receivers work at the same time at most.
    #[must_use]
    pub fn parallel(&self) -> f64 {
        f64::from(self.readouts.min(self.builders))
    }
}

/// Why measurements cannot be used.
#[derive(Debug, Error)]
pub enum MeasurementsError {
    /// The file cannot be read.
    #[error("cannot read the measurements {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// Not JSON, or not of the right shape.
    #[error("{path} has no measurements: {error}; it should be a list of points, or an object with `points`")]
    Format {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        error: serde_json::Error,
    },
    /// A point that no measurement gives.
    #[error("point {index} of {path}: {what}")]
    Point {
        /// The file.
        path: PathBuf,
        /// Which point, from 0.
        index: usize,
        /// What is wrong and what would be right.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    List(Vec<Entry>),
    Object { points: Vec<Entry> },
}

#[derive(Deserialize)]
struct Entry {
    size_bytes: Option<f64>,
    bytes_per_second: Option<f64>,
    readouts: Option<u32>,
    builders: Option<u32>,
}

/// Reads a file of measurements.
///
/// # Errors
/// Where it cannot be read, has another shape, or a point is impossible.
pub fn load(path: &Path) -> Result<Vec<Measurement>, MeasurementsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| MeasurementsError::Io { path: path.to_owned(), error })?;
    parse(&text, path)
}

/// Reads the text of a file of measurements. `path` is for messages.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, path: &Path) -> Result<Vec<Measurement>, MeasurementsError> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| MeasurementsError::Format { path: path.to_owned(), error })?;
    let entries = match document {
        Document::List(entries) | Document::Object { points: entries } => entries,
    };
    let point = |(index, entry): (usize, Entry)| {
        measurement(&entry).map_err(|what| MeasurementsError::Point { path: path.to_owned(), index, what })
    };
    entries.into_iter().enumerate().map(point).collect()
}

fn measurement(entry: &Entry) -> Result<Measurement, &'static str> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    let size_bytes = entry.size_bytes.ok_or("there is no `size_bytes`")?;
    let bytes_per_second = entry.bytes_per_second.ok_or("there is no `bytes_per_second`")?;
    let (readouts, builders) = (entry.readouts.unwrap_or(1), entry.builders.unwrap_or(1));
    match (is_positive(size_bytes), is_positive(bytes_per_second), readouts > 0 && builders > 0) {
        (true, true, true) => Ok(Measurement { size_bytes, bytes_per_second, readouts, builders }),
        (false, ..) => Err("`size_bytes` should be a positive number"),
        (_, false, _) => Err("`bytes_per_second` should be a positive number"),
        _ => Err("`readouts` and `builders` should be at least 1"),
    }
}
