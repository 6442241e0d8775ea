//! Standard output: text, and values as JSON.

use anyhow::Context as _;
use serde::Serialize;
use std::io::{Write as _, stdout};

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Prints a value as one JSON object on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot convert the result to JSON")?;
    text.push('\n');
    print(&text)
}

/// Prints JSON on a single line, for commands that print several objects.
pub(crate) fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(value).context("cannot convert the result to JSON")?;
    text.push('\n');
    print(&text)
}
