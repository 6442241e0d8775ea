//! The record of a run: the file `histograms.json` in its directory.

use crate::histogram::{Histogram, HistogramError};
use crate::publication::RefusalReason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reason why a record cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// It is not JSON of this shape.
    #[error("it is not a record of histograms: {0}")]
    Shape(String),
    /// It has another format or version.
    #[error(
        "it has the format `{format}`, version {version}; this version of Sheaf reads `{}`, version {}; read it with the \
         version that made it, or a later one",
        HistogramRecord::FORMAT,
        HistogramRecord::VERSION
    )]
    Version {
        /// Its format.
        format: String,
        /// Its version.
        version: u32,
    },
    /// A histogram has a defect.
    #[error("histogram `{name}`: {error}")]
    Histogram {
        /// Name of the histogram.
        name: String,
        /// Defect.
        error: HistogramError,
    },
}

/// The histograms of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramRecord {
    /// `"sheaf-histograms"`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Number of the run.
    pub run: u32,
    /// Time of writing, in milliseconds since 1970.
    pub written_ms: u64,
    /// Whether the run took no more when it was written.
    pub complete: bool,
    /// Publishers that had not published their last.
    pub publishers: Vec<PublisherRecord>,
    /// Number of snapshots that were taken.
    pub taken: u64,
    /// Number of snapshots that were not newer than those known.
    pub stale: u64,
    /// Number of refused histograms and publications, by reason.
    pub refused: BTreeMap<RefusalReason, u64>,
    /// The histograms, in the order of their names: each the sum of its publishers.
    pub histograms: Vec<RecordedHistogram>,
}

/// A publisher that had not published its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublisherRecord {
    /// Name that it gave itself.
    pub name: String,
    /// Time of its last publication, in milliseconds since 1970.
    pub updated_ms: u64,
}

/// A histogram of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedHistogram {
    /// The sum of all publishers.
    pub histogram: Histogram,
    /// Number of publishers; all that have ended are one.
    pub publishers: usize,
    /// Time at which one of its publishers published last, in milliseconds since 1970.
    pub updated_ms: u64,
}

impl HistogramRecord {
    /// Format of the file.
    pub const FORMAT: &'static str = "sheaf-histograms";
    /// Version of the format.
    pub const VERSION: u32 = 1;
    /// Name of the file in the directory of a run.
    pub const FILE: &'static str = "histograms.json";

    /// Returns the record as JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Lists, texts and finite numbers always become JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses a record.
    ///
    /// # Errors
    /// If it is not a valid record.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: Self =
            serde_json::from_slice(bytes).map_err(|error| RecordError::Shape(error.to_string()))?;
        if (&*record.format, record.version) != (Self::FORMAT, Self::VERSION) {
            return Err(RecordError::Version { format: record.format, version: record.version });
        }
        for RecordedHistogram { histogram, .. } in &record.histograms {
            histogram
                .check()
                .map_err(|error| RecordError::Histogram { name: histogram.name.clone(), error })?;
        }
        Ok(record)
    }

    /// Returns a histogram by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&RecordedHistogram> {
        self.histograms.iter().find(|one| one.histogram.name == name)
    }
}
