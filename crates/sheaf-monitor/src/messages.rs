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
    pub(crate) fn add(&mut self, time_ms: u64, level: Level, node: Option<String>, text: &str) {
        self.last += 1;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        let text = shortened(text);
        self.entries.push_back(LogEntry { number: self.last, time_ms, level, node, text });
    }

    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(LONGEST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_are_kept_and_numbered() {
        let mut messages = Messages::default();
        for number in 1..=KEPT as u64 + 5 {
            messages.add(number, Level::Info, None, &format!("message {number}"));
        }
        let entries = messages.entries();
        assert_eq!((entries.len(), entries[0].number), (KEPT, 6));
        assert_eq!(entries[0].text, "message 6");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let mut messages = Messages::default();
        messages.add(0, Level::Error, None, &"ä".repeat(LONGEST));
        let text = &messages.entries()[0].text;
        assert!(text.len() <= LONGEST + 3 && text.ends_with("ä..."));
    }
}
