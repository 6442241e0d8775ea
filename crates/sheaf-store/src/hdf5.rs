//! Runs as HDF5 files, for analysis.
//!
//! A file is written under a temporary name and renamed when it is complete. [`export`] converts a whole run;
//! [`replace()`] converts each closed event file during a run, and [`settle`] the rest when the run has ended. Until
//! then events are stored in event files, see `docs/decisions/0038-hdf5-as-output.md`.

mod replace;

pub use crate::hdf5_file::{Compression, FORMAT, VERSION};
pub use replace::{SettleReport, replace, settle};

use crate::event_file::StreamName;
use crate::hdf5_file::{self, About, Writer, ZSTD_FILTER};
use crate::run::{RunReadError, RunReader};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl Compression {
    /// Makes sure that libhdf5 can do it.
    ///
    /// # Errors
    /// [`ExportError::NoZstd`].
    pub fn check(self) -> Result<(), ExportError> {
        if self.is_available() { Ok(()) } else { Err(ExportError::NoZstd) }
    }
}

/// Reason why a run could not be written as HDF5.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read at all.
    #[error(transparent)]
    Read(#[from] RunReadError),
    /// There is a file of that name.
    #[error("{path} already exists; choose another name or remove it")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// libhdf5 lacks the filter.
    #[error(
        "libhdf5 finds no zstd filter (number {ZSTD_FILTER}); set HDF5_PLUGIN_PATH to the directory of its plugin, or use deflate"
    )]
    NoZstd,
    /// libhdf5 refused.
    #[error("cannot write {path}: {error}")]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// The error of libhdf5.
        error: String,
    },
    /// The operating system refused.
    #[error("cannot write {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// An event file is damaged. It is kept, since it contains more than its conversion would.
    #[error("{path} is not converted to HDF5, because it is damaged: {error}")]
    Damaged {
        /// The event file.
        path: PathBuf,
        /// Its first damage.
        error: String,
    },
    /// The contents read back differ from those written.
    #[error("{path} differs from {source_path}: {what}")]
    Different {
        /// The HDF5 file, which was removed.
        path: PathBuf,
        /// Path of the event file that it was made from.
        source_path: PathBuf,
        /// The first difference.
        what: String,
    },
    /// The work was ended.
    #[error("{path} was not converted before the end")]
    Ended {
        /// The event file.
        path: PathBuf,
    },
}

impl From<hdf5_file::ReadError> for ExportError {
    fn from(error: hdf5_file::ReadError) -> Self {
        Self::Read(error.into())
    }
}

/// Contents of the written file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportSummary {
    /// Events.
    pub events: u64,
    /// Fragments.
    pub fragments: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Run records.
    pub records: u64,
    /// Number of damaged records of the run, which are missing in the file.
    pub damaged: u64,
    /// The first of them.
    pub first_damage: Option<String>,
}

/// Writes the events and run records of the run or event file at `source`, or those of one stream, into the HDF5 file `target`, which
/// must not exist.
///
/// # Errors
/// An [`ExportError`]; nothing is then at `target`.
pub fn export(
    source: &Path,
    stream: Option<&StreamName>,
    target: &Path,
    compression: Compression,
) -> Result<ExportSummary, ExportError> {
    if target.exists() {
        return Err(ExportError::Exists { path: target.to_owned() });
    }
    compression.check()?;
    let mut reader = RunReader::open(source)?;
    if let Some(stream) = stream {
        reader = reader.only(stream);
    }
    let draft = draft_of(target);
    let written = write(reader, &draft, compression);
    move_into_place(&draft, target, written)
}

/// Extension of an incomplete file.
const DRAFT_EXTENSION: &str = "h5.draft";

/// Returns the temporary path of a file.
fn draft_of(target: &Path) -> PathBuf {
    target.with_extension(DRAFT_EXTENSION)
}

/// Gives a file that was written, and is made durable first, its name. Where that cannot be, or it was not written, the draft is
/// removed.
fn move_into_place<T>(
    draft: &Path,
    target: &Path,
    written: Result<T, ExportError>,
) -> Result<T, ExportError> {
    let moved = written.and_then(|written| {
        let moved =
            fs::File::open(draft).and_then(|file| file.sync_all()).and_then(|()| fs::rename(draft, target));
        moved.map_err(|error| ExportError::Io { path: target.to_owned(), error })?;
        Ok(written)
    });
    if moved.is_err() {
        // The draft is useless; the caller reports the error.
        let _ = fs::remove_file(draft);
    }
    moved
}

fn write(reader: RunReader, draft: &Path, compression: Compression) -> Result<ExportSummary, ExportError> {
    let mut summary = ExportSummary::default();
    let about = about(&reader);
    let records = reader.records()?;
    summary.records = records.len() as u64;
    let mut writer = Writer::create(draft, &about, compression).map_err(|error| failed(draft, &error))?;
    for stored in reader {
        match stored {
            Ok(stored) => {
                writer.add(&stored).map_err(|error| failed(draft, &error))?;
                summary.events += 1;
                summary.fragments += stored.event.fragments.len() as u64;
                summary.payload_bytes += stored.event.payload_bytes();
            }
            Err(error) => {
                summary.damaged += 1;
                summary.first_damage.get_or_insert_with(|| error.to_string());
            }
        }
    }
    writer.finish(&records).map_err(|error| failed(draft, &error))?;
    Ok(summary)
}

/// The metadata of all that a reader reads.
fn about(reader: &RunReader) -> About {
    let header = reader.first_header().copied();
    About {
        header: header.filter(|_| reader.files().count() == 1),
        run: header.map(|header| header.run),
        time_base: reader.time_base(),
        metadata: reader.first_metadata().to_owned(),
        tags: reader.tag_names().to_vec(),
    }
}

fn failed(path: &Path, error: &hdf5_metno::Error) -> ExportError {
    ExportError::Hdf5 { path: path.to_owned(), error: error.to_string() }
}

#[cfg(test)]
mod tests;
