//! Errors when reading a run.

use super::manifest::ManifestError;
use crate::event_file::{EventOpenError, EventReadError, FileFormatError};
use sheaf_wire::TimeBase;
use std::io;
use std::path::PathBuf;

/// Reason why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunReadError {
    /// The directory cannot be listed.
    #[error("cannot read run directory {path}: {error}")]
    List {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file cannot be opened.
    #[error(transparent)]
    Open(#[from] EventOpenError),
    /// A file's header is damaged; its events are read nevertheless.
    #[error("header of event file {path} is damaged: {error}")]
    Header {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        error: FileFormatError,
    },
    /// The times of two files have different meanings.
    #[error(
        "times in {path} are {base}, those in {first} are {first_base}; a run has one time base: read the files one by one"
    )]
    TimeBases {
        /// A file.
        path: PathBuf,
        /// Unit and epoch of its times.
        base: TimeBase,
        /// The first file.
        first: PathBuf,
        /// Unit and epoch of its times.
        first_base: TimeBase,
    },
    /// A file is damaged or cannot be read.
    #[error(transparent)]
    Read(#[from] EventReadError),
    /// An HDF5 file cannot be read, or an event in it.
    #[error("cannot read HDF5 file {path}: {error}")]
    Hdf5 {
        /// The file.
        path: PathBuf,
        /// Error of libhdf5, or of the contents.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is an HDF5 file.
    #[error(
        "{path} is an HDF5 file, which this build cannot read; build with the feature `hdf5`, or use h5py"
    )]
    NoHdf5 {
        /// The file.
        path: PathBuf,
    },
}

#[cfg(feature = "hdf5")]
impl From<crate::hdf5_file::ReadError> for RunReadError {
    fn from(crate::hdf5_file::ReadError { path, error }: crate::hdf5_file::ReadError) -> Self {
        Self::Hdf5 { path, error: Box::new(error) }
    }
}
