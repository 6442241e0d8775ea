//! Messages for people: how each is declared, logged and counted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Course of the run.
    Info,
    /// Something that an operator may want to look at.
    Warning,
    /// A failure.
    Error,
}

impl Severity {
    /// All severities, the mildest first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Error];

    /// Returns the name, as in JSON and in front of a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Returns the severity with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name() == name)
    }

    /// Returns the level at which messages of this severity are logged.
    #[must_use]
    pub const fn level(self) -> log::Level {
        match self {
            Self::Info => log::Level::Info,
            Self::Warning => log::Level::Warn,
            Self::Error => log::Level::Error,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Info => 0,
            Self::Warning => 1,
            Self::Error => 2,
        }
    }
}

impl From<log::Level> for Severity {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Self::Error,
            log::Level::Warn => Self::Warning,
            log::Level::Info | log::Level::Debug | log::Level::Trace => Self::Info,
        }
    }
}

/// Declaration of a kind of message.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Name, which stays the same in all releases: `link-down`.
    pub name: &'static str,
    /// Severity of every message with this code.
    pub severity: Severity,
    /// Meaning, as a sentence.
    pub title: &'static str,
    /// Remedy, as a sentence. Empty if there is nothing to do.
    pub remedy: &'static str,
}

/// Numbers of messages of this process.
#[derive(Debug, Default)]
pub struct Tally {
    messages: [AtomicU64; 3],
    dropped: AtomicU64,
    /// Node that publishes these numbers: in a process of several nodes, the first that begins to publish.
    publisher: OnceLock<String>,
}

/// The tally of this process: as the log, there is one for each process.
pub static TALLY: Tally = Tally::new();

impl Tally {
    const fn new() -> Self {
        Self {
            messages: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
            dropped: AtomicU64::new(0),
            publisher: OnceLock::new(),
        }
    }

    /// Returns whether this node is the one of this process that publishes the numbers.
    pub fn is_published_by(&self, node: &str) -> bool {
        self.publisher.get_or_init(|| node.to_owned()) == node
    }

    /// Counts a message.
    pub fn count(&self, severity: Severity) {
        self.messages[severity.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts messages that were left out because the log did not keep up or was full.
    pub fn count_dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Relaxed);
    }

    /// Returns the number of messages of this severity.
    #[must_use]
    pub fn messages(&self, severity: Severity) -> u64 {
        self.messages[severity.index()].load(Ordering::Relaxed)
    }

    /// Returns the number of messages that were left out.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
