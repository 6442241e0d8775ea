//! The place of segments: an interface that lets tests simulate a full disk.

use sheaf_store::event_file::{Directory, DirectoryFile, PartFile, Storage};
use std::io;
use std::path::{Path, PathBuf};

/// A place for the segments of one spool.
pub trait SpoolDisk: Send + 'static {
    /// An open segment.
    type File: PartFile + Send;

    /// Creates the file `name`, which must not exist.
    ///
    /// # Errors
    /// The error of the operating system.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Removes the file `name`.
    ///
    /// # Errors
    /// The error of the operating system.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Makes the names of the files created so far durable.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sync_names(&mut self) -> io::Result<()>;

    /// Returns the number of free bytes; `None` if the disk does not report it.
    fn free_bytes(&self) -> Option<u64>;

    /// Returns the path of the file `name`.
    fn path(&self, name: &str) -> PathBuf;
}

/// A directory of a file system.
#[derive(Debug)]
pub struct SpoolDirectory {
    path: PathBuf,
    storage: Directory,
}

impl SpoolDirectory {
    /// Uses the directory `path`, which is created if it does not exist.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), storage: Directory::new(path)? })
    }
}

impl SpoolDisk for SpoolDirectory {
    type File = DirectoryFile;

    fn create(&mut self, name: &str) -> io::Result<DirectoryFile> {
        self.storage.create(name)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.storage.sync_names()
    }

    fn free_bytes(&self) -> Option<u64> {
        let statistics = rustix::fs::statvfs(&self.path).ok()?;
        Some(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
