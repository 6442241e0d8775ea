//! One event file with a name of the user's choice, instead of a directory with names of Sheaf's.

use sheaf_store::event_file::{DirectoryFile, Storage};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Storage of one file.
#[derive(Debug)]
pub(crate) struct OneFile(pub(crate) PathBuf);

impl Storage for OneFile {
    type File = DirectoryFile;

    fn create(&mut self, _name: &str) -> io::Result<DirectoryFile> {
        DirectoryFile::create(&self.0)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let directory = self.0.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn path(&self, _name: &str) -> PathBuf {
        self.0.clone()
    }
}
