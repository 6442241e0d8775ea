//! `sheaf ctl sequence`: starts, shows and directs the runs of a table.

use super::{Desk, PERIOD};
use crate::Verdict;
use crate::print::{print, print_json};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use sheaf_key::make_token;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub(super) struct SequenceArguments {
    #[command(subcommand)]
    command: SequenceCommand,
}

#[derive(Debug, Subcommand)]
enum SequenceCommand {
    /// Make the runs of a table, one after the other.
    Start(StartArguments),
    /// Show the rows of the table and what became of them.
    Status,
    /// Begin no other row. A run in progress goes on to its end.
    Pause,
    /// Begin the next row, or repeat the one that failed.
    Resume,
    /// Leave out a row. A run of it is stopped.
    Skip(SkipArguments),
    /// End the sequence. A run in progress is stopped.
    Stop,
}

#[derive(Debug, Args)]
struct StartArguments {
    /// Table (CSV): keys of the configuration in the first line, then a run in each line. The column `comment` is for records.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Name of the sequence [default: name of the file].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    begin: BeginArguments,
}

#[derive(Debug, Default, Args)]
pub(super) struct BeginArguments {
    /// Leave out rows that an earlier sequence of this name has done with the same settings.
    #[arg(long)]
    resume: bool,
    /// Reaction to a run that was not good: pause, continue with the next row, or repeat the row.
    #[arg(long, value_enum, value_name = "pause|continue|repeat", default_value_t)]
    on_failure: OnFailure,
    /// Most repetitions of a row with `--on-failure repeat`; then the sequence pauses.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=100))]
    repeats: u32,
    /// Wait until the sequence has ended. Exit status 3 if rows are left or have failed.
    #[arg(long)]
    until_end: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    #[default]
    Pause,
    Continue,
    Repeat,
}

#[derive(Debug, Args)]
struct SkipArguments {
    /// Number of the row, from 1, which must be in progress or the next one [default: that one].
    #[arg(value_name = "ROW", value_parser = clap::value_parser!(u32).range(1..))]
    row: Option<u32>,
}

impl Desk {
    pub(super) fn sequence(&self, arguments: &SequenceArguments) -> anyhow::Result<Verdict> {
        match &arguments.command {
            SequenceCommand::Start(StartArguments { table, name, begin }) => {
                let text = std::fs::read_to_string(table)
                    .with_context(|| format!("cannot read the table {}", table.display()))?;
                let stem = table.file_stem().unwrap_or_default().to_string_lossy();
                self.begin_sequence(name.as_deref().unwrap_or(&stem), &text, begin)
            }
            SequenceCommand::Status => self.show_sequence(),
            SequenceCommand::Pause => self.direct("pause", None),
            SequenceCommand::Resume => self.direct("resume", None),
            SequenceCommand::Skip(SkipArguments { row }) => self.skip(*row),
            SequenceCommand::Stop => self.direct("stop", None),
        }
    }

    pub(super) fn begin_sequence(
        &self,
        name: &str,
        table: &str,
        begin: &BeginArguments,
    ) -> anyhow::Result<Verdict> {
        let rule = begin.on_failure.to_possible_value();
        let body = json!({
            "request": make_token()?,
            "name": name,
            "table": table,
            "resume": begin.resume,
            "on_failure": rule.as_ref().map(clap::builder::PossibleValue::get_name),
            "repeats": begin.repeats,
        });
        let sequence = self.client.post("/api/v1/sequence", &body)?["sequence"].take();
        if begin.until_end {
            return self.wait_for_sequence(sequence);
        }
        self.tell(&sequence)
    }

    fn tell(&self, sequence: &Value) -> anyhow::Result<Verdict> {
        if self.json {
            print_json(sequence)?;
        } else {
            log::info!("sequence {}", describe(sequence));
        }
        Ok(Verdict::Good)
    }

    /// Gives a command, and waits until it is carried out. Giving it again because an answer was lost does no harm.
    fn direct(&self, action: &str, row: Option<u64>) -> anyhow::Result<Verdict> {
        let mut body = json!({ "action": action });
        if let Some(row) = row {
            body["row"] = row.into();
        }
        let mut sequence = self.client.post("/api/v1/sequence/actions", &body)?["sequence"].take();
        let launch = sequence["launch"].clone();
        // These two are done when the run has ended.
        while ["skip", "stop"].contains(&action) && !launch.is_null() && sequence["launch"] == launch {
            std::thread::sleep(PERIOD);
            sequence = self.control()?["sequence"].take();
        }
        self.tell(&sequence)
    }

    /// Skips a row, which is named in any case: given twice, the command must not skip two.
    fn skip(&self, row: Option<u32>) -> anyhow::Result<Verdict> {
        let row = match row {
            Some(row) => Some(row.into()),
            None => self.control()?["sequence"]["row"].as_u64(),
        };
        self.direct("skip", row)
    }

    /// Waits until the sequence has ended, or another one has begun.
    fn wait_for_sequence(&self, begun: Value) -> anyhow::Result<Verdict> {
        let (mut sequence, mut told) = (begun, String::new());
        let id = sequence["id"].clone();
        loop {
            let counts = ["state", "row", "done", "failed", "skipped"].map(|key| sequence[key].to_string());
            if told != counts.concat() {
                told = counts.concat();
                let hint = if sequence["state"] == "paused" {
                    "; `sheaf ctl sequence resume`, `skip` or `stop`"
                } else {
                    ""
                };
                log::info!("sequence {}{hint}", describe(&sequence));
            }
            if sequence["id"] != id {
                bail!("another sequence has begun: {}", describe(&sequence));
            }
            if sequence["state"] == "ended" {
                if self.json {
                    print_json(&self.client.get("/api/v1/sequence")?)?;
                }
                let count = |key: &str| sequence[key].as_u64().unwrap_or(0);
                let is_done = count("done") + count("skipped") == count("rows");
                return Ok(if is_done { Verdict::Good } else { Verdict::NotGood });
            }
            std::thread::sleep(PERIOD);
            sequence = self.control()?["sequence"].take();
        }
    }

    fn show_sequence(&self) -> anyhow::Result<Verdict> {
        let table = self.client.get("/api/v1/sequence")?;
        if self.json {
            print_json(&table)?;
        } else {
            print(&show(&table))?;
        }
        Ok(Verdict::Good)
    }
}

/// Returns a sequence in one line.
pub(super) fn describe(sequence: &Value) -> String {
    let text = |key: &str| sequence[key].as_str().unwrap_or_default();
    let count = |key: &str| sequence[key].as_u64().unwrap_or(0);
    let mut line = format!("{} of {}: {}", text("name"), text("by"), text("state"));
    if let Some(row) = sequence["row"].as_u64() {
        line += &format!(", row {row} of {}", count("rows"));
    }
    line += &format!(", {} done", count("done"));
    for key in ["failed", "skipped"] {
        if count(key) > 0 {
            line += &format!(", {} {key}", count(key));
        }
    }
    if let Some(left) = left_s(sequence) {
        line += &format!(", about {left} s left");
    }
    if let Some(reason) = sequence["reason"].as_str() {
        line += &format!(" ({reason})");
    }
    line
}

/// Returns the time that the rows in progress and to come will take, as the rows that are done did, in seconds.
fn left_s(sequence: &Value) -> Option<u64> {
    let count = |key: &str| sequence[key].as_u64().unwrap_or(0);
    let mean_ms = sequence["mean_ms"].as_u64().filter(|_| sequence["state"] != "ended")?;
    let rows = count("rows").saturating_sub(count("done") + count("failed") + count("skipped"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let began = sequence["row_began_ms"].as_u64();
    let passed = began.map_or(0, |began| u64::try_from(now).unwrap_or(0).saturating_sub(began)).min(mean_ms);
    Some((rows * mean_ms).saturating_sub(passed).div_ceil(1_000))
}

/// Returns the rows of a sequence as a table.
fn show(table: &Value) -> String {
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let mut keys: Vec<&String> = Vec::new();
    for key in rows.iter().filter_map(|row| row["values"].as_object()).flat_map(|values| values.keys()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let head = ["row", "state", "run", "triggers"].map(str::to_owned).into_iter();
    let mut lines: Vec<Vec<String>> =
        vec![head.chain(keys.iter().map(|key| (*key).clone())).chain(["remarks".to_owned()]).collect()];
    for row in rows {
        let shown = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut line: Vec<_> =
            ["row", "state", "run", "triggers"].iter().map(|key| shown(&row[key])).collect();
        line.extend(keys.iter().map(|key| shown(&row["values"][key.as_str()])));
        let mut remarks = Vec::new();
        remarks
            .extend(row["attempts"].as_u64().filter(|many| *many > 1).map(|many| format!("{many} attempts")));
        let is_text_of_use = !["done", "waiting"].contains(&row["state"].as_str().unwrap_or_default());
        remarks.extend(row["text"].as_str().filter(|_| is_text_of_use).map(str::to_owned));
        remarks.extend(row["comment"].as_str().map(str::to_owned));
        line.push(remarks.join("; "));
        lines.push(line);
    }
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = format!("{}\n", describe(&table["sequence"]));
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            1 => format!("{cell:<width$}"),
            _ if column + 1 == columns => cell.clone(),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_a_table() {
        let sequence = json!({
            "name": "scan", "by": "alice", "state": "paused", "reason": "bob gave `stop` for run 8", "rows": 2, "row": 2, "done": 1,
            "failed": 0, "skipped": 0, "mean_ms": 1500, "row_began_ms": null,
        });
        let rows = json!([
            { "row": 1, "state": "done", "run": 7, "triggers": 100, "attempts": 2, "text": "x", "comment": "low", "values": { "a.b": "10" } },
            { "row": 2, "state": "waiting", "run": 8, "triggers": null, "attempts": 1, "text": "x", "comment": null, "values": { "c": "long" } },
        ]);
        assert_eq!(
            show(&json!({ "sequence": sequence, "rows": rows })),
            "scan of alice: paused, row 2 of 2, 1 done, about 2 s left (bob gave `stop` for run 8)\n\
             row  state    run  triggers  a.b     c  remarks\n\
             \u{20}\u{20}1  done       7       100   10     -  2 attempts; low\n\
             \u{20}\u{20}2  waiting    8         -    -  long\n"
        );
    }
}
