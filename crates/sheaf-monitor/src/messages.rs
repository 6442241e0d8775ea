//! The last messages of the log.

use serde::Serialize;
use std::collections::VecDeque;

/// Number of messages that are kept. Older ones are in the log itself.
const KEPT: usize = 200;

/// Longest text of a message that is kept, in bytes.
const LONGEST: usize = 2_000;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Course of the run.
    Info,
    /// Something that an operator may want to look at.
    Warning,
    /// A failure.
    Error,
}

/// A message of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// Its number, from 1. A gap shows that messages were left out.
    pub number: u64,
    /// When it was written, in milliseconds since 1970.
    pub time_ms: u64,
    /// Severity.
    pub level: Level,
    /// Its code, by which troubleshooting has an entry for it.
    pub code: String,
    /// Node that wrote it, if it is of one.
    pub node: Option<String>,
    /// The message.
    pub text: String,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Messages {
    last: u64,
    entries: VecDeque<LogEntry>,
}

impl Messages {
    pub(crate) fn add(&mut self, mut entry: LogEntry) {
        self.last += 1;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        (entry.number, entry.text) = (self.last, shortened(entry.text));
        self.entries.push_back(entry);
    }

    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> LogEntry {
        let (level, code, text) = (Level::Info, "other".to_owned(), text.to_owned());
        LogEntry { number: 0, time_ms: 0, level, code, node: None, text }
    }

    #[test]
    fn the_last_messages_are_kept_and_numbered() {
        let mut messages = Messages::default();
        for number in 1..=KEPT as u64 + 5 {
            messages.add(entry(&format!("message {number}")));
        }
        let entries = messages.entries();
        assert_eq!((entries.len(), entries[0].number), (KEPT, 6));
        assert_eq!(entries[0].text, "message 6");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let mut messages = Messages::default();
        messages.add(entry(&"ä".repeat(LONGEST)));
        let text = &messages.entries()[0].text;
        assert!(text.len() <= LONGEST + 3 && text.ends_with("ä..."));
    }
}
