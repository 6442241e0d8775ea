//! The log of a run, in its directory.

use super::message::Message;
use anyhow::Context as _;
use sheaf_telemetry::TALLY;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Room that is kept for the line that says what was left out, in bytes.
const LAST_LINE: u64 = 1_024;

/// A file of JSON lines that has an upper limit. Each line is written by one system call, so that processes can share the file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes that may still be written.
    room: u64,
    /// The rest of a line of which a full disk has taken a part.
    rest: Vec<u8>,
    /// Messages that were left out since the last that was written.
    left_out: u64,
}

/// A message was left out. The first of several has the reason.
#[derive(Debug)]
pub(super) struct LeftOut(pub(super) Option<String>);

impl LogFile {
    /// Opens the file for more lines.
    pub(super) fn open(path: &Path, max_bytes: u64) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let room = max_bytes.saturating_sub(length);
        Ok(Self { path: path.to_owned(), file, room, rest: Vec::new(), left_out: 0 })
    }

    /// Writes a message.
    pub(super) fn write(&mut self, message: &Message) -> Result<(), LeftOut> {
        let line = message.json_line();
        let written = if line.len() as u64 + LAST_LINE > self.room {
            Err(format!("{} has reached `log.max_bytes`", self.path.display()))
        } else {
            self.append(line.as_bytes())
                .map_err(|error| format!("cannot write {}: {error}", self.path.display()))
        };
        let Err(why) = written else { return Ok(()) };
        TALLY.count_dropped(1);
        self.left_out += 1;
        Err(LeftOut(Some(why).filter(|_| self.left_out == 1)))
    }

    /// Returns the number of messages that were left out, if some were and there is room again to say so.
    pub(super) fn take_left_out(&mut self) -> Option<u64> {
        (self.left_out > 0).then(|| std::mem::take(&mut self.left_out))
    }

    /// Writes the message that says what was left out, into the room that is kept for it.
    pub(super) fn write_last(&mut self, message: &Message) {
        let line = message.json_line();
        if line.len() as u64 <= self.room {
            // If this cannot be written either, the count is in the metrics.
            let _ = self.append(line.as_bytes());
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        while !self.rest.is_empty() {
            let written = self.file.write(&self.rest)?;
            self.rest.drain(..written);
        }
        let written = self.file.write(line)?;
        self.room -= line.len() as u64;
        self.rest.extend_from_slice(&line[written..]);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Origin;
    use super::*;
    use log::Level;

    #[test]
    fn a_log_is_bounded_and_says_what_it_leaves_out() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log.jsonl");
        let mut log = LogFile::open(&path, 4_000).unwrap();
        let message = |text: &str| Message::new(Level::Info, "other", text, &Origin::default());
        let write = |number| log.write(&message(&format!("message {number}"))).err();
        let refused: Vec<_> = (0..100).filter_map(write).collect();
        assert_eq!(
            refused.iter().filter(|refused| refused.0.is_some()).count(),
            1,
            "the reason is said once"
        );
        let left_out = log.take_left_out().unwrap();
        log.write_last(&message(&format!("{left_out} messages are left out")));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Message> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(text.len() <= 4_000, "{}", text.len());
        assert_eq!(lines.len() as u64 - 1 + left_out, 100);
        assert!(LogFile::open(&path, 4_000).unwrap().write(&message("one more")).is_err());
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_once() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return eprintln!("skipped: there is no /dev/full");
        }
        let mut log = LogFile::open(full, 1 << 20).unwrap();
        let message = Message::new(Level::Info, "other", "text", &Origin::default());
        let why = log.write(&message).unwrap_err().0.unwrap();
        assert!(why.contains("No space left"), "{why}");
        assert_eq!(log.write(&message).unwrap_err().0, None);
        assert_eq!(log.take_left_out(), Some(2));
    }
}
