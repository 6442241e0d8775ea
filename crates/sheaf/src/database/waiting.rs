//! Runs that the database does not have yet: a file with one directory in each line.

use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Name of the file beside the runs.
const NAME: &str = "runs.waiting";

/// See the [module](self).
#[derive(Clone)]
pub(crate) struct Waiting {
    path: PathBuf,
}

impl Waiting {
    pub(crate) fn beside(runs: &Path) -> Self {
        Self { path: runs.join(NAME) }
    }

    /// Adds the directory of a run.
    pub(crate) fn add(&self, directory: &Path) -> anyhow::Result<()> {
        let added = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            file.lock()?;
            file.write_all(format!("{}\n", directory.display()).as_bytes())
        };
        added().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Returns the directories, and how many bytes of the file name them.
    pub(crate) fn read(&self) -> anyhow::Result<(BTreeSet<PathBuf>, usize)> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok((text.lines().map(PathBuf::from).collect(), text.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((BTreeSet::new(), 0)),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        }
    }

    /// Removes the first bytes, which were read: what others have added since stays.
    pub(crate) fn remove(&self, bytes: usize) -> anyhow::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let removed = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().append(true).open(&self.path)?;
            file.lock()?;
            let text = fs::read_to_string(&self.path)?;
            // Another process may have removed them already; written twice is as good as once.
            let rest = text.get(bytes..).unwrap_or_default();
            file.set_len(0)?;
            file.write_all(rest.as_bytes())
        };
        removed().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_while_others_are_written_stays() {
        let place = tempfile::tempdir().unwrap();
        let waiting = Waiting::beside(place.path());
        assert_eq!(waiting.read().unwrap(), (BTreeSet::new(), 0));
        waiting.add(Path::new("/runs/run000001")).unwrap();
        let (directories, taken) = waiting.read().unwrap();
        assert_eq!(directories, BTreeSet::from([PathBuf::from("/runs/run000001")]));
        waiting.add(Path::new("/runs/run000001")).unwrap();
        waiting.remove(taken).unwrap();
        assert_eq!(waiting.read().unwrap().0, directories);
        waiting.remove(taken).unwrap();
        assert_eq!(waiting.read().unwrap().1, 0);
    }
}
