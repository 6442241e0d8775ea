//! The directory for a run's temporary files.

use super::RunDirectory;
use anyhow::Context as _;
use sheaf_wire::RunNumber;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

/// Directory for a run's temporary files: its own directory, or a temporary one that is removed at the end.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    temporary: bool,
}

impl Scratch {
    pub(crate) fn new(directory: Option<&RunDirectory>) -> anyhow::Result<Self> {
        if let Some(directory) = directory {
            return Ok(Self { path: directory.path.clone(), temporary: false });
        }
        Self::temporary(&format!("sheaf-{}", std::process::id()))
    }

    /// The directory of a run, which stays.
    pub(super) fn in_directory(path: PathBuf) -> Self {
        Self { path, temporary: false }
    }

    /// A temporary one, of a process that takes part in a run.
    pub(crate) fn of_run(run: RunNumber) -> anyhow::Result<Self> {
        Self::temporary(&format!("sheaf-{}-run{run}", std::process::id()))
    }

    fn temporary(name: &str) -> anyhow::Result<Self> {
        // The name can be guessed and anyone may write in this directory: only a new directory is private to this user.
        let mut path = std::env::temp_dir().join(name);
        for number in 1.. {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => {
                    path = std::env::temp_dir().join(format!("{name}-{number}"));
                }
                created => {
                    created.with_context(|| format!("cannot create {}", path.display()))?;
                    break;
                }
            }
        }
        Ok(Self { path, temporary: true })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
