//! The file in which a controller keeps the last values that programs have sent it, for the process of a run and for the next controller.

use super::book::SentReadings;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Most bytes of the file: all values with all readings that are kept.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    values: SentReadings,
}

/// State of a file: another one has taken its place, or it has changed, if it differs.
pub(super) type Stamp = (u64, u64, i64, i64);

/// Writes the file. A reader finds the old one or the new one.
pub(super) fn write(path: &Path, values: SentReadings) -> io::Result<()> {
    let new = path.with_extension("new");
    let bytes = serde_json::to_vec(&Content { values })?;
    File::create(&new)?.write_all(&bytes)?;
    fs::rename(&new, path)
}

/// Reads the file if it is not the one with this stamp. A file that is not there is one that has not changed.
pub(super) fn read(path: &Path, known: Option<Stamp>) -> io::Result<Option<(Stamp, SentReadings)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let stamp = (metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    if known == Some(stamp) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let content: Content = serde_json::from_slice(&bytes)?;
    Ok(Some((stamp, content.values)))
}
