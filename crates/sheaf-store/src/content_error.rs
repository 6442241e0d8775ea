//! Errors of the tools that read a path of any kind: `inspect`, `verify` and `dump`.

use crate::fragment_stream::StreamOpenError;
use crate::kind::{KindError, files_with};
use crate::run::RunReadError;
use sheaf_wire::stream_file::EXTENSION;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why the contents of a path cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The kind of the path is unknown.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] RunReadError),
    /// A fragment stream cannot be read.
    #[error(transparent)]
    Stream(#[from] StreamOpenError),
    /// A directory cannot be listed.
    #[error("cannot read directory {path}: {error}")]
    List {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
}

/// Returns the fragment streams in a directory, by name.
pub(crate) fn streams_in(path: &Path) -> Result<Vec<PathBuf>, ContentError> {
    files_with(path, EXTENSION).map_err(|error| ContentError::List { path: path.to_owned(), error })
}
