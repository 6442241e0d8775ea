//! Commands in the record of a run: as a table, and those of a run whose process has died.

use super::find_number;
use super::record::Record;
use crate::commands::fill;
use crate::console::{count, plural};
use anyhow::{Context as _, bail};
use sheaf_control::CommandLog;
use sheaf_store::run::{CommandRecord, Manifest, RunLock};
use sheaf_wire::SourceNames;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Records the commands of a run that its process could not record, because it has died. Returns its directory if they were recorded: a run
/// that was closed has them, and one that never began has no directory.
pub(crate) fn record_commands(
    run: u32,
    runs: &Path,
    log: &CommandLog,
    names: &SourceNames,
) -> anyhow::Result<Option<PathBuf>> {
    if !runs.is_dir() {
        return Ok(None);
    }
    let Ok(path) = find_number(run, runs) else { return Ok(None) };
    let manifest = Manifest::read(&path)?;
    let Some(mut manifest) = manifest.filter(|manifest| manifest.ended.is_none()) else { return Ok(None) };
    let holder = RunLock::holder(&path)
        .with_context(|| format!("cannot tell which process writes {}", path.display()))?;
    if let Some(holder) = holder {
        bail!("{} is written by process {} of host {}", path.display(), holder.process, holder.host);
    }
    if !fill(&mut manifest, log, names) {
        return Ok(None);
    }
    manifest.write(&path)?;
    Ok(Some(path))
}

/// Returns the commands of a run as a table, with times since its start.
pub(super) fn table(record: &Record) -> String {
    if record.commands.is_empty() {
        return String::new();
    }
    let started = record.ledger.as_ref().and_then(|ledger| ledger.time.started_ns);
    let zero = started.unwrap_or(record.created_ns);
    let rows: Vec<_> = record.commands.iter().map(|command| row(command, zero)).collect();
    let heads = ["time (s)", "by", "via", "command"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let [time, by, via, command] = [0, 1, 2, 3].map(width);
    let mut text = String::from("\ncommands, times since the ");
    text.push_str(if started.is_some() { "start of the run:\n" } else { "directory was made:\n" });
    let [head_time, head_by, head_via, head_command] = heads;
    let _ = writeln!(
        text,
        "  {head_time:>time$}  {head_by:<by$}  {head_via:<via$}  {head_command:<command$}  result"
    );
    for [at, who, from, what, result] in &rows {
        let line = format!("  {at:>time$}  {who:<by$}  {from:<via$}  {what:<command$}  {result}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if record.commands_left_out > 0 {
        let more = plural(record.commands_left_out, "command");
        let _ = writeln!(text, "  {more} between the first and the last {} are left out", rows.len() / 2);
    }
    text
}

fn row(command: &CommandRecord, zero: u64) -> [String; 5] {
    let CommandRecord { time, by, via, command: name, target, comment, result, text, .. } = command;
    let mut what = name.clone();
    if let Some(target) = target {
        what = format!("{what} {target}");
    }
    if let Some(comment) = comment {
        // A comment of several lines would break the table.
        let line: Vec<_> = comment.split_whitespace().collect();
        what = format!("{what} \"{}\"", line.join(" "));
    }
    let result = match (result, text) {
        (Some(result), Some(text)) => format!("{result}: {text}"),
        (Some(result), None) => result.clone(),
        (None, _) => "not known".to_owned(),
    };
    [relative(time.0, zero), by.clone(), via.clone().unwrap_or_default(), what, result]
}

/// Returns a time since another one, in seconds.
fn relative(ns: u64, zero: u64) -> String {
    let (sign, distance) = if ns < zero { ('-', zero - ns) } else { ('+', ns - zero) };
    // Commands have times in milliseconds.
    let ms = (distance + 500_000) / 1_000_000;
    format!("{sign}{}.{:03}", count(ms / 1_000), ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_before_and_after_the_start() {
        assert_eq!(relative(10_000_000_000, 11_234_000_000), "-1.234");
        assert_eq!(relative(3_611_000_400_000, 1_000_000_000), "+3,610.000");
        assert_eq!(relative(7, 7), "+0.000");
    }
}
