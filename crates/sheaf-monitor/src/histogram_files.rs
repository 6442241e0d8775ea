//! Files of histograms of the present run and of others, as they were read last.

use sheaf_histogram::HistogramRecord;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of records that are kept.
const KEPT: usize = 4;

/// Largest file that is read, in bytes: more than any run writes.
const LARGEST: u64 = 1 << 30;

/// State of a file: another one has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    inode: u64,
    bytes: u64,
    changed_ns: i128,
}

impl FileStamp {
    /// Returns a text that differs where the stamp does.
    pub(crate) fn tag(&self) -> String {
        format!("{:x}-{:x}-{:x}", self.inode, self.bytes, self.changed_ns)
    }
}

/// A record, and the state of its file.
pub(crate) type Found = (FileStamp, Arc<HistogramRecord>);

/// The records that were read last.
#[derive(Debug, Default)]
pub(crate) struct HistogramFiles {
    known: VecDeque<(PathBuf, Found)>,
}

impl HistogramFiles {
    /// Returns the record in a file, if there is one.
    pub(crate) fn read(&mut self, path: &Path) -> io::Result<Option<Found>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stamp = stamp_of(&file.metadata()?);
        let known = self.known.iter().find(|(known, (of, _))| known == path && *of == stamp);
        if let Some((_, found)) = known {
            return Ok(Some(found.clone()));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let record = HistogramRecord::parse(&bytes);
        let record = record.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        self.known.retain(|(known, _)| known != path);
        self.known.truncate(KEPT - 1);
        let found = (stamp, Arc::new(record));
        self.known.push_front((path.to_owned(), found.clone()));
        Ok(Some(found))
    }
}

fn stamp_of(metadata: &fs::Metadata) -> FileStamp {
    let changed_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    FileStamp { inode: metadata.ino(), bytes: metadata.len(), changed_ns }
}
