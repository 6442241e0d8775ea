//! Where event files are kept: the seam that lets tests fill a disk without one.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A place for the files of one writer.
pub trait Storage {
    /// An open file.
    type File: PartFile;

    /// Creates the file `name`, which must not exist: recorded data are never overwritten.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn create(&mut self, name: &str) -> io::Result<Self::File>;

    /// Makes the names of the files created so far durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync_names(&mut self) -> io::Result<()>;

    /// What errors call the file `name`.
    fn path(&self, name: &str) -> PathBuf;
}

/// An event file that is being written, from its start to its end.
pub trait PartFile {
    /// Appends some of `slices` and says how many bytes.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Cuts the file at `bytes`, where the next append goes on.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Makes the content durable.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of a file system.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory `path`, which is created where it does not exist.
    ///
    /// # Errors
    /// Whatever the operating system says.
    pub fn new(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Storage for Directory {
    type File = File;

    fn create(&mut self, name: &str) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    fn sync_names(&mut self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl PartFile for File {
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored(slices)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
