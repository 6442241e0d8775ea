//! Fragment sizes of a recording.

use sheaf_store::fragment_stream::{EXTENSION, StreamOpenError, StreamReadError, StreamReader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the sizes of a recording cannot be read.
#[derive(Debug, Error)]
pub(super) enum StreamsError {
    #[error("cannot list {path}: {error}")]
    List { path: PathBuf, error: std::io::Error },
    #[error("{path} has no fragment streams (files named *.{EXTENSION})")]
    NoStreams { path: PathBuf },
    #[error(transparent)]
    Open(#[from] StreamOpenError),
    #[error(transparent)]
    Read(#[from] StreamReadError),
    #[error("the fragment streams in {path} have no fragments")]
    NoFragments { path: PathBuf },
}

impl StreamsError {
    /// The remedy.
    pub(super) fn right(&self) -> String {
        match self {
            Self::List { .. } | Self::NoStreams { .. } | Self::NoFragments { .. } => {
                "a directory of fragment streams, from the directory of the scenario; `sheaf import` makes one".into()
            }
            Self::Open(_) | Self::Read(_) => "streams without damage; `sheaf verify` tells what is wrong".into(),
        }
    }
}

/// Fragment sizes in bytes: a row for each of the first `limit` events, by id, a column for each stream, by source.
/// A source without a fragment in an event has 0 there; of several fragments of one source the sizes are added.
pub(super) fn sizes(directory: &Path, limit: usize) -> Result<Vec<Vec<u32>>, StreamsError> {
    let list = |error| StreamsError::List { path: directory.to_owned(), error };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(list)? {
        let path = entry.map_err(list)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            let source = StreamReader::open(&path)?.header().source;
            files.push((source, path));
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(StreamsError::NoStreams { path: directory.to_owned() });
    }
    let mut events: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (column, (_, path)) in files.iter().enumerate() {
        let mut reader = StreamReader::open(path)?;
        reader.check_payloads(false);
        for (taken, fragment) in reader.enumerate() {
            let fragment = fragment?;
            // Streams are in the order of their events but for a few; a margin catches those.
            if taken >= limit.saturating_mul(2) {
                break;
            }
            let row = events.entry(fragment.event.0).or_insert_with(|| vec![0; files.len()]);
            let bytes = u32::try_from(fragment.payload.len()).unwrap_or(u32::MAX);
            row[column] = row[column].saturating_add(bytes);
        }
    }
    if events.is_empty() {
        return Err(StreamsError::NoFragments { path: directory.to_owned() });
    }
    Ok(events.into_values().take(limit).collect())
}
