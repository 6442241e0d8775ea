//! Where event files are kept: the seam that lets tests fill a disk without one.

use sheaf_wire::checksum::crc32c_append;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// So many bytes are written again at a time.
const AGAIN_BYTES: u64 = 1 << 20;

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
    /// Whatever the operating system says. Then what was appended since the last time may be forgotten, although a further call
    /// says that all is well.
    fn sync(&mut self) -> io::Result<()>;

    /// Writes the bytes of a range once more, as they are read back, where the next [`sync`](Self::sync) finds them new. Gives
    /// their CRC-32C, which goes on from `checksum`. The next append goes on at the end of the range.
    ///
    /// # Errors
    /// Whatever the operating system says.
    fn write_again(&mut self, range: Range<u64>, checksum: u32) -> io::Result<u32>;
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
        OpenOptions::new().read(true).write(true).create_new(true).open(self.0.join(name))
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

    fn write_again(&mut self, range: Range<u64>, mut checksum: u32) -> io::Result<u32> {
        let mut block = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let bytes = (range.end - at).min(AGAIN_BYTES);
            self.seek(SeekFrom::Start(at))?;
            block.clear();
            Read::by_ref(self).take(bytes).read_to_end(&mut block)?;
            if block.len() as u64 != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            checksum = crc32c_append(checksum, &block);
            self.seek(SeekFrom::Start(at))?;
            self.write_all(&block)?;
            at += bytes;
        }
        self.seek(SeekFrom::Start(range.end))?;
        Ok(checksum)
    }
}
