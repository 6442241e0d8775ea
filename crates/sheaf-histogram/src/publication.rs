//! A message of a publisher, and its receipt.

use crate::histogram::Histogram;
use crate::values;
use serde::{Deserialize, Serialize};

/// Longest name of a session, in bytes.
const MAX_SESSION: usize = 32;

/// Snapshots of histograms that a publisher has filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Name that differs between any two publishers, also between one and the same program started again: digits and letters from a to f.
    pub session: String,
    /// Number that grows with each publication of the session.
    #[serde(deserialize_with = "values::whole")]
    pub sequence: u64,
    /// Whether it is the last one of the session.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// Whole snapshots, also of those histograms only that have changed.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
}

impl Publication {
    /// Parses a publication from JSON. Its histograms are not checked yet: each is taken or refused by itself.
    ///
    /// # Errors
    /// If it is not a publication.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let invalid = |text: String| Refusal { name: None, reason: RefusalReason::Invalid, text };
        // An array of its members would make a value, too.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(invalid("the publication is not a JSON object".to_owned()));
        }
        let publication: Self = serde_json::from_slice(bytes)
            .map_err(|error| invalid(format!("the publication cannot be read: {error}")))?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let session = &publication.session;
        if !(1..=MAX_SESSION).contains(&session.len()) || !session.bytes().all(is_digit) {
            return Err(invalid(format!("a session has 1 to {MAX_SESSION} digits and letters from a to f")));
        }
        Ok(publication)
    }
}

/// Result of a publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Number of snapshots that were taken.
    pub taken: u32,
    /// Number of snapshots that are not newer than those that are known.
    pub stale: u32,
    /// Histograms that were refused.
    pub refused: Vec<Refusal>,
}

/// A histogram or a publication that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Histogram; `None` where the whole publication is refused.
    pub name: Option<String>,
    /// Reason, which is counted.
    #[serde(rename = "code")]
    pub reason: RefusalReason,
    /// Text about it.
    pub text: String,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// It has a defect.
    Invalid,
    /// Another histogram of the run has the name, with another kind or other bins.
    OtherBins,
    /// The run has too many histograms.
    TooManyHistograms,
    /// The histograms of the run are too large together.
    TooManyBytes,
    /// Too many publishers are at work.
    TooManyPublishers,
    /// The session has published its last.
    SessionEnded,
}

impl RefusalReason {
    /// Returns the name, as in counters and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::OtherBins => "other_bins",
            Self::TooManyHistograms => "too_many_histograms",
            Self::TooManyBytes => "too_many_bytes",
            Self::TooManyPublishers => "too_many_publishers",
            Self::SessionEnded => "session_ended",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Invalid => "docs/reference/histograms.md describes the format",
            Self::OtherBins => "choose another name, or the same kind and bins",
            Self::TooManyHistograms => "publish fewer histograms; a map has one quantity of many sources",
            Self::TooManyBytes => "use fewer bins, or raise `monitor.histogram_bytes`",
            Self::TooManyPublishers => "end publishers with `close`, or let one program fill all histograms",
            Self::SessionEnded => "connect again",
        }
    }
}
