//! Comments on runs: a file beside the manifest, with one JSON object for each comment. Comments are added and never changed.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_node::Clock;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::str::FromStr;

/// Name of the file.
const NAME: &str = "comments.jsonl";

/// A comment on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Comment {
    /// Nanoseconds since 1970.
    pub(crate) time_ns: u64,
    pub(crate) author: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quality: Option<Quality>,
}

/// Judgement of the data of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Quality {
    Good,
    Bad,
    Unknown,
}

impl Quality {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }
}

impl FromStr for Quality {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Good, Self::Bad, Self::Unknown];
        let found = all.into_iter().find(|quality| quality.name() == text);
        found.ok_or_else(|| "must be good, bad or unknown".to_owned())
    }
}

impl Comment {
    pub(crate) fn new(author: Option<&str>, text: Option<&str>, quality: Option<Quality>) -> Self {
        let user = || {
            std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".into())
        };
        Self {
            time_ns: Clock::new().now().0,
            author: author.map_or_else(user, str::to_owned),
            text: text.unwrap_or_default().to_owned(),
            quality,
        }
    }
}

/// Adds a comment with a single write, so that those of two people do not mix.
pub(crate) fn add(directory: &Path, comment: &Comment) -> anyhow::Result<()> {
    let path = directory.join(NAME);
    let mut line = serde_json::to_string(comment).context("cannot encode the comment")?;
    line.push('\n');
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| {
        file.write_all(line.as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the comments on a run, in the order of writing.
pub(super) fn read(directory: &Path) -> anyhow::Result<Vec<Comment>> {
    let path = directory.join(NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let comment = |(number, line)| {
        serde_json::from_str(line)
            .with_context(|| format!("line {} of {} is no comment", number + 1, path.display()))
    };
    text.lines().enumerate().map(comment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_come_back_in_order_and_a_broken_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), []);
        let comments = [
            Comment::new(Some("ann"), Some("beam was off\nfor a minute"), None),
            Comment::new(Some("bob"), None, Some(Quality::Bad)),
        ];
        for comment in &comments {
            add(directory.path(), comment).unwrap();
        }
        assert_eq!(read(directory.path()).unwrap(), comments);
        fs::write(directory.path().join(NAME), "{}\n").unwrap();
        assert!(read(directory.path()).unwrap_err().to_string().contains("line 1"));
    }
}
