//! Runs that the database does not have yet: a file with a line for each, of the time at which it was added and its directory.

use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let added = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            file.lock()?;
            file.write_all(format!("{} {}\n", since.as_nanos(), directory.display()).as_bytes())
        };
        added().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Returns the lines of the file: the directories of [`Self::directory`].
    pub(crate) fn read(&self) -> anyhow::Result<BTreeSet<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        }
    }

    /// Returns the directory of a line.
    pub(crate) fn directory(line: &str) -> Option<PathBuf> {
        line.split_once(' ').map(|(_, directory)| directory.into())
    }

    /// Removes lines. What others have added since they were read stays: no line has the time of another.
    pub(crate) fn remove(&self, lines: &BTreeSet<String>) -> anyhow::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let removed = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().append(true).open(&self.path)?;
            file.lock()?;
            let text = fs::read_to_string(&self.path)?;
            let rest = text.split_inclusive('\n').filter(|line| !lines.contains(line.trim_end_matches('\n')));
            let rest: String = rest.collect();
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
        assert_eq!(waiting.read().unwrap(), BTreeSet::new());
        waiting.add(Path::new("/runs/run 1")).unwrap();
        let taken = waiting.read().unwrap();
        let directories: Vec<_> = taken.iter().filter_map(|line| Waiting::directory(line)).collect();
        assert_eq!(directories, [PathBuf::from("/runs/run 1")]);
        // Two processes have read the first line, and something is added before each removes it.
        for _ in 0..2 {
            waiting.add(Path::new("/runs/run 1")).unwrap();
            let before = waiting.read().unwrap();
            waiting.remove(&taken).unwrap();
            let left: BTreeSet<_> = before.difference(&taken).cloned().collect();
            assert_eq!(waiting.read().unwrap(), left);
        }
    }
}
