//! Kind of a path's contents: an event file, a run directory, a fragment stream or a directory of streams.

use crate::regular;
use serde::Serialize;
use sheaf_wire::{event_file, stream_file};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The name of the manifest in a run directory.
pub const MANIFEST_NAME: &str = "run.json";

/// Signature at the start of an HDF5 file.
const HDF5_MAGIC: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Kind of a path's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A single event file, or an HDF5 file of events.
    EventFile,
    /// A directory of event files.
    Run,
    /// A single fragment stream.
    FragmentStream,
    /// A directory of fragment streams.
    StreamDirectory,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EventFile => "event file",
            Self::Run => "run directory",
            Self::FragmentStream => "fragment stream",
            Self::StreamDirectory => "directory of fragment streams",
        })
    }
}

/// Reason why the kind of a path is unknown.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// The operating system refused.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file of another kind.
    #[error("{0} is neither an event file nor a fragment stream; those are named *.sheaf, *.h5 and *.sfrag")]
    UnknownFile(PathBuf),
    /// A file without content, and without the name of an event file or a fragment stream.
    #[error("{0} is empty: it is neither an event file nor a fragment stream")]
    EmptyFile(PathBuf),
    /// A directory of other things.
    #[error("directory {0} has neither event files (*.sheaf, run.json) nor fragment streams (*.sfrag)")]
    UnknownDirectory(PathBuf),
}

impl Kind {
    /// Determines the kind of `path`: by the first bytes of a file, or by its name if these are damaged; by the names
    /// in a directory.
    ///
    /// # Errors
    /// A [`KindError`] if it cannot be read or is of another kind.
    pub fn of(path: &Path) -> Result<Self, KindError> {
        let io_error = |error| KindError::Io { path: path.to_owned(), error };
        if path.is_dir() {
            return if !files_with(path, event_file::EXTENSION).map_err(io_error)?.is_empty()
                || path.join(MANIFEST_NAME).exists()
            {
                Ok(Self::Run)
            } else if !files_with(path, stream_file::EXTENSION).map_err(io_error)?.is_empty() {
                Ok(Self::StreamDirectory)
            } else {
                Err(KindError::UnknownDirectory(path.to_owned()))
            };
        }
        let mut magic = Vec::new();
        regular::open(path).and_then(|file| file.take(8).read_to_end(&mut magic)).map_err(io_error)?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        if magic == event_file::MAGIC || magic == *HDF5_MAGIC {
            Ok(Self::EventFile)
        } else if magic == stream_file::MAGIC {
            Ok(Self::FragmentStream)
        } else if extension == Some(event_file::EXTENSION) {
            Ok(Self::EventFile)
        } else if extension == Some(stream_file::EXTENSION) {
            Ok(Self::FragmentStream)
        } else if magic.is_empty() {
            Err(KindError::EmptyFile(path.to_owned()))
        } else {
            Err(KindError::UnknownFile(path.to_owned()))
        }
    }
}

/// The files with this extension in a directory, by name; numbers in names count as numbers, so that `source-10`
/// follows `source-9`.
pub(crate) fn files_with(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| natural_key(path));
    Ok(files)
}

fn natural_key(path: &Path) -> (Vec<(String, u64)>, PathBuf) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut words = vec![(String::new(), 0_u64)];
    let mut in_number = false;
    for character in name.chars() {
        if in_number && !character.is_ascii_digit() {
            words.push((String::new(), 0));
        }
        in_number = character.is_ascii_digit();
        if let Some((text, number)) = words.last_mut() {
            match character.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(u64::from(digit)),
                None => text.push(character),
            }
        }
    }
    (words, path.to_owned())
}

/// The source in a stream's conventional name, for a stream whose header is damaged; 0 for another name.
pub(crate) fn source_in_name(path: &Path) -> sheaf_wire::SourceId {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let source = stem.strip_prefix("source-").and_then(|source| source.parse().ok());
    sheaf_wire::SourceId(source.unwrap_or(0))
}
