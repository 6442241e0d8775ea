//! `sheaf log`: the messages of a run, out of the files in its directory.

use crate::Verdict;
use crate::console::message::{Message, level_name};
use crate::console::{LOG_NAME, plural, time};
use crate::print::{print, print_json_line};
use crate::records;
use crate::values::number_of_units;
use anyhow::{Context as _, bail};
use clap::Args;
use log::Level;
use sheaf_telemetry::codes;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Run: its number or its directory, or a directory of runs (its newest) [default: the newest].
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Directory of runs in which a number is looked up.
    #[arg(long = "in", value_name = "DIR", default_value = "runs")]
    directory: PathBuf,
    #[command(flatten)]
    wanted: Wanted,
    /// Only the last N messages.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    json: bool,
}

/// Conditions that a message must meet, all of them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Wanted {
    /// Only messages of this node; `run` or `controller` for the process that has started the nodes.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only messages with this code.
    #[arg(long, value_name = "CODE", value_parser = known_code)]
    code: Option<String>,
    /// Only messages of this severity, or worse.
    #[arg(long, value_name = "info|warning|error", value_parser = severity)]
    severity: Option<Level>,
    /// Only messages from this time on: UTC (2026-11-27T01:10:20), or how long ago (90s, 10m, 2h).
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<u64>,
    /// Only messages with this text in any of their fields, whatever its case.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

fn known_code(text: &str) -> Result<String, String> {
    match codes::find(text) {
        Some(code) => Ok(code.name.to_owned()),
        None => Err("there is no such code; docs/operating/troubleshooting.md lists all".to_owned()),
    }
}

fn severity(text: &str) -> Result<Level, String> {
    let level = level_name::parse(text).filter(|level| *level <= Level::Info);
    level.ok_or_else(|| "must be info, warning or error".to_owned())
}

/// Reads a time, or a duration before now.
fn since(text: &str) -> Result<u64, String> {
    let ago = number_of_units(text)
        .and_then(|(number, seconds)| number.checked_mul(seconds)?.checked_mul(1_000_000));
    let ago = ago.map(|ago| time::unix_us().saturating_sub(ago));
    ago.or_else(|| time::parse(text)).ok_or_else(|| {
        "must be a time in UTC, such as 2026-11-27T01:10:20, or how long ago, such as 10m".to_owned()
    })
}

impl Wanted {
    /// Returns whether a message meets all conditions.
    pub(crate) fn has(&self, message: &Message) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.node, &message.node)
            && is(&self.code, &message.code)
            && self.severity.is_none_or(|severity| message.severity <= severity)
            && self.since.is_none_or(|since| message.time_us >= since)
            && self.text.as_deref().is_none_or(|text| contains(&message.listed(), text))
    }
}

fn contains(whole: &str, part: &str) -> bool {
    whole.to_lowercase().contains(&part.to_lowercase())
}

pub(crate) fn command(arguments: &LogArguments) -> anyhow::Result<Verdict> {
    let run = records::find_run(arguments.run.as_deref(), &arguments.directory)?;
    let mut found = read(&run, &arguments.wanted)?;
    if let Some(last) = arguments.last {
        found.messages.drain(..found.messages.len().saturating_sub(last));
    }
    for message in &found.messages {
        if arguments.json {
            print_json_line(message)?;
        } else {
            print(&format!("{}\n", message.listed()))?;
        }
    }
    if found.unreadable > 0 {
        log::warn!(
            "{} of the log cannot be read and {} left out",
            plural(found.unreadable, "line"),
            if found.unreadable == 1 { "is" } else { "are" }
        );
    }
    Ok(Verdict::Good)
}

/// Messages of a run, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) messages: Vec<Message>,
    /// Lines that are no message, such as the last one of a process that was killed.
    pub(crate) unreadable: u64,
}

/// Reads the messages of a run. Nodes that were started by hand have a file each.
pub(crate) fn read(run: &Path, wanted: &Wanted) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let files = files(run)?;
    if files.is_empty() {
        bail!("{} has no {LOG_NAME}: the run is of a release without logs, or did not begin", run.display());
    }
    for path in files {
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        for line in BufReader::new(file).split(b'\n') {
            let line = line.with_context(|| format!("cannot read {}", path.display()))?;
            match serde_json::from_slice::<Message>(&line) {
                Ok(message) if wanted.has(&message) => found.messages.push(message),
                Ok(_) => {}
                Err(_) => found.unreadable += u64::from(!line.is_empty()),
            }
        }
    }
    // Within a file, the order is that in which messages were stored.
    found.messages.sort_by_key(|message| message.time_us);
    Ok(found)
}

fn files(run: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(run).with_context(|| format!("cannot read directory {}", run.display()))?;
    let is_log = |name: &str| {
        name == LOG_NAME
            || (name.starts_with("log-") && Path::new(name).extension().is_some_and(|end| end == "jsonl"))
    };
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_log))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::message::Origin;

    fn message(time_us: u64, severity: Level, code: &'static str, text: &str) -> Message {
        let origin = Origin { node: "bu0".into(), run: Some(7) };
        Message { time_us, ..Message::new(severity, code, text, &origin) }
    }

    #[test]
    fn messages_of_all_files_are_found_in_the_order_of_time() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, messages: &[Message]| {
            let text: String = messages.iter().map(Message::json_line).collect();
            std::fs::write(place.path().join(name), format!("{text}{{\"time\": torn")).unwrap();
        };
        write(
            "log.jsonl",
            &[message(1, Level::Info, "other", "first"), message(3, Level::Error, "loss", "Third")],
        );
        write("log-ru0.jsonl", &[message(2, Level::Warn, "link-down", "second")]);
        write("other.jsonl", &[message(2, Level::Warn, "link-down", "not of the log")]);
        let texts = |wanted: Wanted| {
            let found = read(place.path(), &wanted).unwrap();
            assert_eq!(found.unreadable, 2);
            found.messages.into_iter().map(|message| message.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(Wanted::default()), ["first", "second", "Third"]);
        assert_eq!(texts(Wanted { severity: Some(Level::Warn), ..Wanted::default() }), ["second", "Third"]);
        assert_eq!(texts(Wanted { code: Some("loss".into()), ..Wanted::default() }), ["Third"]);
        assert_eq!(texts(Wanted { since: Some(2), ..Wanted::default() }), ["second", "Third"]);
        assert_eq!(texts(Wanted { text: Some("third".into()), ..Wanted::default() }), ["Third"]);
        assert_eq!(texts(Wanted { text: Some("LINK-DOWN".into()), ..Wanted::default() }), ["second"]);
        assert_eq!(texts(Wanted { node: Some("bu1".into()), ..Wanted::default() }), [""; 0]);
    }

    #[test]
    fn times_are_absolute_or_ago() {
        assert_eq!(since("1970-01-01T00:00:01"), Ok(1_000_000));
        let hour_ago = since("1h").unwrap();
        let hour = time::unix_us() - hour_ago;
        assert!((3_600_000_000..3_700_000_000).contains(&hour), "{hour}");
        assert!(since("soon").is_err() && since("99999999999999999999h").is_err());
    }
}
