//! Measurements of a small system, written by `sheaf bench` or by hand.
//!
//! Reader of measurements: an object with `curves`, as `sheaf bench --json` prints it, each of which has `points` and
//! may have `readouts` and `builders`; or one such curve, as `sheaf lab run --json` prints it; or a list of points.
//! Each point is an object with `size_bytes` (mean fragment size) and `bytes_per_second` (payload of all builders
//! together), and may have `readouts` and `builders` of its own (1 by default). Of a lab's point
//! `steady_bytes_per_second` is used, which excludes the beginning and the end of the run. A point whose `limited_by`
//! is `cpu` says nothing about a network and is left out. Other members of a point are ignored.

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
    /// Returns the maximum number of senders or receivers that work at the same time.
    #[must_use]
    pub fn parallel(&self) -> f64 {
        f64::from(self.readouts.min(self.builders))
    }
}

/// Reason why measurements cannot be used.
#[derive(Debug, Error)]
pub enum MeasurementsError {
    /// The file cannot be read.
    #[error("cannot read the measurements {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Not JSON, or not of the right shape.
    #[error(
        "{path} has no measurements: {error}; it must be the output of `sheaf bench --json`, a list of points, or an object with `points`"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with line and column.
        error: serde_json::Error,
    },
    /// A point that no measurement gives.
    #[error("point {index} of {path}: {what}")]
    Point {
        /// The file.
        path: PathBuf,
        /// Which point, from 0.
        index: usize,
        /// The problem and its remedy.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    List(Vec<Entry>),
    Curves { curves: Vec<Curve> },
    Curve(Curve),
}

#[derive(Deserialize)]
struct Curve {
    points: Vec<Entry>,
    readouts: Option<u32>,
    builders: Option<u32>,
}

impl Curve {
    /// Returns its points, each with the values common to the curve.
    fn into_entries(self) -> impl Iterator<Item = Entry> {
        let Self { points, readouts, builders } = self;
        points.into_iter().map(move |entry| Entry {
            readouts: entry.readouts.or(readouts),
            builders: entry.builders.or(builders),
            ..entry
        })
    }
}

#[derive(Deserialize)]
struct Entry {
    size_bytes: Option<f64>,
    bytes_per_second: Option<f64>,
    steady_bytes_per_second: Option<f64>,
    readouts: Option<u32>,
    builders: Option<u32>,
    limited_by: Option<String>,
}

impl Entry {
    /// Returns whether a lab reports that the machine was the limit instead of its network.
    fn is_of_the_machine(&self) -> bool {
        self.limited_by.as_deref() == Some("cpu")
    }
}

/// Reads a file of measurements.
///
/// # Errors
/// If it cannot be read, has another format, or a point is impossible.
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
    let entries: Vec<Entry> = match document {
        Document::List(entries) => entries,
        Document::Curve(curve) => curve.into_entries().collect(),
        Document::Curves { curves } => curves.into_iter().flat_map(Curve::into_entries).collect(),
    };
    let point = |(index, entry): (usize, Entry)| {
        measurement(&entry).map_err(|what| MeasurementsError::Point { path: path.to_owned(), index, what })
    };
    // The places are those in the file, also where one before was left out.
    entries.into_iter().enumerate().filter(|(_, entry)| !entry.is_of_the_machine()).map(point).collect()
}

fn measurement(entry: &Entry) -> Result<Measurement, &'static str> {
    let is_positive = |value: f64| value.is_finite() && value > 0.0;
    let size_bytes = entry.size_bytes.ok_or("there is no `size_bytes`")?;
    let bytes_per_second =
        entry.steady_bytes_per_second.or(entry.bytes_per_second).ok_or("there is no `bytes_per_second`")?;
    let (readouts, builders) = (entry.readouts.unwrap_or(1), entry.builders.unwrap_or(1));
    match (is_positive(size_bytes), is_positive(bytes_per_second), readouts > 0 && builders > 0) {
        (true, true, true) => Ok(Measurement { size_bytes, bytes_per_second, readouts, builders }),
        (false, ..) => Err("`size_bytes` must be a positive number"),
        (_, false, _) => Err("`bytes_per_second` must be a positive number"),
        _ => Err("`readouts` and `builders` must be at least 1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Vec<(u32, u32, f64)> {
        let measured = parse(text, Path::new("measured.json")).expect("these are measurements");
        measured.iter().map(|point| (point.readouts, point.builders, point.size_bytes)).collect()
    }

    #[test]
    fn what_the_test_programs_print_is_understood_and_so_are_simple_lists() {
        let point = r#"{ "size_bytes": 64, "bytes_per_second": 1e9, "latency_ns": { "p50": 7 } }"#;
        assert_eq!(points(&format!("[{point}]")), [(1, 1, 64.0)]);
        assert_eq!(points(&format!(r#"{{ "points": [{point}] }}"#)), [(1, 1, 64.0)]);
        let curves = format!(
            r#"{{ "bench": "builder", "curves": [
                {{ "readouts": 2, "builders": 4, "points": [{point}, {point}], "fit": null }},
                {{ "name": "1 to 1", "points": [{point}] }} ] }}"#
        );
        assert_eq!(points(&curves), [(2, 4, 64.0), (2, 4, 64.0), (1, 1, 64.0)]);
    }

    #[test]
    fn of_a_lab_the_steady_part_counts_and_what_its_machine_limited_does_not() {
        let text = r#"{ "name": "scaling", "points": [
            { "readouts": 4, "builders": 4, "size_bytes": 2048.0, "bytes_per_second": 1e6,
              "steady_bytes_per_second": 2e6, "limited_by": "network" },
            { "readouts": 8, "builders": 8, "size_bytes": 2048.0, "bytes_per_second": 1e6,
              "steady_bytes_per_second": 2e6, "limited_by": "cpu" } ] }"#;
        let measured = parse(text, Path::new("lab.json")).expect("these are measurements");
        let expected = Measurement { size_bytes: 2048.0, bytes_per_second: 2e6, readouts: 4, builders: 4 };
        assert_eq!(measured, [expected]);
    }

    #[test]
    fn what_is_no_measurement_is_refused_with_what_would_be_right() {
        for (text, said) in [
            ("{}", "sheaf bench --json"),
            (r#"[{ "bytes_per_second": 1 }]"#, "`size_bytes`"),
            (r#"[{ "size_bytes": 1, "bytes_per_second": 0 }]"#, "positive number"),
        ] {
            let error = parse(text, Path::new("measured.json")).expect_err(text).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
