//! Room for closing a run on a disk that is full.

use anyhow::Context as _;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use sheaf_telemetry::log_as;
use std::fs;
use std::path::{Path, PathBuf};

/// Room that is kept in the directory of a run while it lasts, so that the run can be closed when the disk has become
/// full: the index of every file, and the manifest. Given back when dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

pub(super) const RESERVE_NAME: &str = "reserve";

/// Enough for the index of 250,000 events in files that are not closed yet.
const RESERVE_BYTES: u64 = 4 << 20;

impl Reserve {
    pub(super) fn create(directory: &Path) -> anyhow::Result<Self> {
        let reserve = Self { path: directory.join(RESERVE_NAME) };
        let file = fs::File::create(&reserve.path)
            .with_context(|| format!("cannot write into {}", directory.display()))?;
        match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            // A file system that cannot reserve is used as it is.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(reserve),
            Err(error) => Err(error).with_context(|| {
                format!("cannot reserve {} MiB in {}", RESERVE_BYTES >> 20, directory.display())
            }),
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log_as!(FILE_NOT_REMOVED; "cannot remove {}: {error}", self.path.display());
        }
    }
}
