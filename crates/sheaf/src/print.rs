//! Standard output: text, and values as JSON.

use crate::console::named;
use anyhow::Context as _;
use serde::Serialize;
use std::io::{Write as _, stdout};

/// Prints text for people on standard output, with the names of sources.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_exactly(&named(text))
}

fn print_exactly(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Prints a value as one JSON object on standard output.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot convert the result to JSON")?;
    text.push('\n');
    print_exactly(&text)
}

/// Prints JSON on a single line, for commands that print several objects.
pub(crate) fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string(value).context("cannot convert the result to JSON")?;
    text.push('\n');
    print_exactly(&text)
}
