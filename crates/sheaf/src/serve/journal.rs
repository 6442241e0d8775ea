//! Who has asked for what, and what came of it: one line of JSON each, added and never changed.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_node::Clock;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// Entries that are kept in memory, for the page. The file has all.
const KEPT: usize = 1_000;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) at_ms: u64,
    /// Name of the operator; `controller` for what nobody has asked for.
    pub(super) by: String,
    /// The command, or what happened.
    pub(super) action: String,
    /// `accepted`, `refused`, or how it ended.
    pub(super) answer: String,
    pub(super) text: String,
}

impl Entry {
    pub(super) fn new(by: &str, action: &str, answer: &str, text: impl Into<String>) -> Self {
        let (by, action, answer) = (by.to_owned(), action.to_owned(), answer.to_owned());
        Self { at_ms: Clock::new().now().as_millis(), by, action, answer, text: text.into() }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    last: VecDeque<Entry>,
}

impl Journal {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).read(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        let mut last = VecDeque::new();
        for line in BufReader::new(&file).lines() {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            // A line that a power cut has left incomplete is no reason not to begin.
            if let Ok(entry) = serde_json::from_str(&line) {
                keep(&mut last, entry);
            }
        }
        Ok(Self { path: path.to_owned(), file, last })
    }

    /// Adds an entry, and returns when it is on disk.
    pub(super) fn add(&mut self, entry: Entry) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write {}", self.path.display()))?;
        keep(&mut self.last, entry);
        Ok(())
    }

    /// Returns the last entries, the newest last.
    pub(super) fn last(&self, count: usize) -> Vec<&Entry> {
        self.last.iter().skip(self.last.len().saturating_sub(count)).collect()
    }
}

fn keep(last: &mut VecDeque<Entry>, entry: Entry) {
    last.push_back(entry);
    if last.len() > KEPT {
        last.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_there_again_and_a_broken_line_is_left_out() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("journal.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.add(Entry::new("alice", "start", "accepted", "operation 1")).unwrap();
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_ms\": 3,\n").unwrap();
        journal.add(Entry::new("bob", "stop", "refused", "alice has the lock")).unwrap();
        let journal = Journal::open(&path).unwrap();
        let names: Vec<_> = journal.last(10).into_iter().map(|entry| entry.by.as_str()).collect();
        assert_eq!(names, ["alice", "bob"]);
        assert_eq!(journal.last(1)[0].text, "alice has the lock");
    }
}
