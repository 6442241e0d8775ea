//! Runs that the database does not have yet: a file with a line for each, of the time at which it was added and its directory.

use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;

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
        let added = || -> io::Result<()> {
            self.locked()?.write_all(format!("{} {}\n", since.as_nanos(), directory.display()).as_bytes())
        };
        added().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Opens and locks the file, to append to it.
    fn locked(&self) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            file.lock()?;
            // Another process may have replaced the file while this one waited for the lock.
            let (locked, named) = (file.metadata()?, fs::metadata(&self.path)?);
            if (locked.dev(), locked.ino()) == (named.dev(), named.ino()) {
                return Ok(file);
            }
        }
    }

    /// Returns the lines of the file: the directories of [`Self::directory`]. The beginning of a line that is being added is none yet.
    pub(crate) fn read(&self) -> anyhow::Result<BTreeSet<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                let whole = |line: &str| line.strip_suffix('\n').map(str::to_owned);
                Ok(text.split_inclusive('\n').filter_map(whole).collect())
            }
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
        let removed = || -> io::Result<()> {
            let locked = self.locked()?;
            let text = fs::read_to_string(&self.path)?;
            let rest = text.split_inclusive('\n').filter(|line| !lines.contains(line.trim_end_matches('\n')));
            // A full disk or a crash leaves the file as it was.
            let directory = self.path.parent().unwrap_or(Path::new(""));
            let mut next = NamedTempFile::new_in(directory)?;
            next.as_file().set_permissions(locked.metadata()?.permissions())?;
            next.write_all(rest.collect::<String>().as_bytes())?;
            next.as_file().sync_all()?;
            next.persist(&self.path)?;
            Ok(())
        };
        removed().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that add and remove lines at the same time lose none.
    #[test]
    fn a_line_that_is_added_while_the_file_is_replaced_stays() {
        const LINES: usize = 200;
        let place = tempfile::tempdir().unwrap();
        let waiting = Waiting::beside(place.path());
        let taken = std::thread::scope(|scope| {
            let adders: Vec<_> = (0..2)
                .map(|adder| {
                    let waiting = &waiting;
                    scope.spawn(move || {
                        for line in 0..LINES {
                            waiting.add(&PathBuf::from(format!("/runs/{adder}/{line}"))).unwrap();
                        }
                    })
                })
                .collect();
            let mut taken = BTreeSet::new();
            while !adders.iter().all(|adder| adder.is_finished()) {
                let lines = waiting.read().unwrap();
                waiting.remove(&lines).unwrap();
                taken.extend(lines);
            }
            taken
        });
        let left = waiting.read().unwrap();
        assert!(taken.is_disjoint(&left));
        let directories: BTreeSet<_> =
            taken.union(&left).filter_map(|line| Waiting::directory(line)).collect();
        assert_eq!(directories.len(), 2 * LINES);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn the_beginning_of_a_line_is_no_line() {
        let place = tempfile::tempdir().unwrap();
        let waiting = Waiting::beside(place.path());
        fs::write(&waiting.path, "17 /runs/run000017\n18 /runs/run0000").unwrap();
        assert_eq!(waiting.read().unwrap(), BTreeSet::from(["17 /runs/run000017".to_owned()]));
    }

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
