//! The lock of a run: a file in its directory that the process of the run keeps locked.
//!
//! The lock is the kernel's (`flock`), so that it ends with the process, however that ends; the file's contents
//! identify the process. So a run in progress can be distinguished from one whose process died.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The name of the lock in a run directory.
pub const LOCK_NAME: &str = "running";

/// The process that writes a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number on its host.
    pub process: u32,
    /// Its host.
    pub host: String,
    /// Whether another run follows this one in the same process.
    pub makes_more: bool,
}

/// The lock of a run, removed when dropped.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    /// Keeps the lock.
    _file: File,
}

impl RunLock {
    /// Locks a run that has no lock.
    ///
    /// # Errors
    /// Returns the error of the operating system; [`ErrorKind::AlreadyExists`] if another process writes the run or
    /// did. A file system without locks is used without.
    pub fn take(directory: &Path, holder: &Holder) -> io::Result<Self> {
        let path = directory.join(LOCK_NAME);
        let mut file = File::options().write(true).create_new(true).open(&path)?;
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let lock = Self { path, _file: file.try_clone()? };
        let mut text = serde_json::to_vec(holder)?;
        text.push(b'\n');
        file.write_all(&text)?;
        Ok(lock)
    }

    /// The process that writes the run now; none where the run is over, or its process died.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn holder(directory: &Path) -> io::Result<Option<Holder>> {
        let path = directory.join(LOCK_NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            // The owner has died. The lock taken for this check ends with `file`.
            Ok(()) => Ok(None),
            // Without support for locks, the file exists as long as the run, unless its process died.
            Err(Errno::WOULDBLOCK | Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Ok(Some(serde_json::from_slice(&fs::read(&path)?)?))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // A file that remains has no consequence: without its lock it means nothing.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder { process: 7, host: "daq1".into(), makes_more: true }
    }

    #[test]
    fn a_run_has_one_writer_and_everybody_sees_whom() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(RunLock::holder(directory.path()).unwrap(), None);
        let lock = RunLock::take(directory.path(), &holder()).unwrap();
        assert_eq!(RunLock::holder(directory.path()).unwrap(), Some(holder()));
        assert_eq!(RunLock::take(directory.path(), &holder()).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(lock);
        assert_eq!(RunLock::holder(directory.path()).unwrap(), None);
    }

    #[test]
    fn what_a_dead_process_left_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(LOCK_NAME), serde_json::to_vec(&holder()).unwrap()).unwrap();
        assert_eq!(RunLock::holder(directory.path()).unwrap(), None);
    }
}
