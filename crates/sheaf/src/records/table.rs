//! Records of runs as text.

use super::commands;
use super::compare::{ComparedHistogram, Comparison, Differences, Number};
use super::record::{Record, State};
use super::values::{self, change};
use crate::console::count;
use sheaf_histogram::{HistogramComparison, HistogramSummary};
use sheaf_store::run::{ConfigurationOrigin, HookRecord};
use sheaf_wire::UtcTime;
use std::fmt::Write as _;

/// Longest text of a comment in the list.
const COMMENT: usize = 40;

/// A list with one line for each run. Partitions and rows of sequences have columns of their own, if there are any.
pub(super) fn list(records: &[Record]) -> String {
    let rows: Vec<_> = records.iter().map(|record| record.row().unwrap_or_default()).collect();
    let width = rows.iter().map(|row| row.chars().count() + 2).filter(|width| *width > 2).max();
    let width = width.map_or(0, |width| width.max("sequence  ".len()));
    let head = if width > 0 { "sequence" } else { "" };
    let partitions = records.iter().filter_map(|record| Some(record.partition.as_ref()?.len() + 2)).max();
    let of_partition = partitions.map_or(0, |width| width.max("partition  ".len()));
    let partition = if of_partition > 0 { "partition" } else { "" };
    let configurations: Vec<_> = records.iter().map(|record| record.configuration.shown()).collect();
    let of_configuration = configurations.iter().map(|shown| shown.chars().count() + 2).max();
    let of_configuration = of_configuration.unwrap_or(0).max("configuration  ".len());
    let mut text = format!(
        "{:>7}  {:<20}  {:>9}  {:>13}  {:>13}  {:>9}  {:>6}  {:>9}  {:<11}  {:<14}  {:<of_configuration$}{partition:<of_partition$}{head:<width$}{}\n",
        "run",
        "began (UTC)",
        "seconds",
        "triggers",
        "stored",
        "lost",
        "dead",
        "size",
        "state",
        "end",
        "configuration",
        "quality"
    );
    for ((record, row), configuration) in records.iter().zip(&rows).zip(&configurations) {
        let ledger = record.ledger.as_ref();
        let partition = record.partition.as_deref().unwrap_or_default();
        let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), count);
        let dead =
            record.dead_fraction().map_or_else(|| "-".to_owned(), |dead| format!("{:.1}%", 100.0 * dead));
        let end = record.end.as_ref().map_or("-", |end| &*end.reason);
        let quality = record.quality().map_or("", super::comments::Quality::name);
        let comment = record.comments.iter().rev().find(|comment| !comment.text.is_empty());
        let comment = comment.map_or_else(String::new, |comment| shortened(&comment.text));
        let line = format!(
            "{:>7}  {:<20}  {:>9}  {:>13}  {:>13}  {:>9}  {:>6}  {:>9}  {:<11}  {:<14}  {configuration:<of_configuration$}{partition:<of_partition$}{row:<width$}{quality} {comment}",
            record.run,
            utc(record.created_ns),
            seconds(record).map_or_else(|| "-".to_owned(), |time| format!("{time:.1}")),
            number(ledger.map(|ledger| ledger.triggers)),
            number(ledger.map(|ledger| ledger.stored)),
            number(ledger.map(|_| record.lost())),
            dead,
            size(record.bytes()),
            record.state.words(),
            end,
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The whole record of a run.
pub(super) fn record(record: &Record) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<18}{value}");
    };
    line("run", &record.run.to_string());
    line("state", record.state.words());
    line("began", &utc(record.created_ns));
    match (record.ended_ns, record.state) {
        (Some(ended), _) => line("closed", &utc(ended)),
        (None, State::InProgress) => line("closed", "not yet"),
        (None, _) => line("closed", "never: its process died; `sheaf verify` says which events count"),
    }
    if let Some(end) = &record.end {
        line(
            "end",
            &format!(
                "{}{}",
                end.reason,
                end.detail.as_ref().map_or_else(String::new, |why| format!(": {why}"))
            ),
        );
    }
    if let Some(quality) = record.quality() {
        line("quality", quality.name());
    }
    line("directory", &record.directory.display().to_string());
    line("software", &record.software);
    line("configuration", &configuration(record));
    if let Some(partition) = &record.partition {
        line("partition", partition);
    }
    if let Some(ledger) = &record.ledger {
        line(
            "triggers",
            &format!("{} accepted of {} offered", count(ledger.triggers), count(ledger.offered)),
        );
        line("  stored", &count(ledger.stored));
        line("  rejected", &count(ledger.rejected));
        for (reason, number) in &ledger.dropped {
            line("  dropped", &format!("{}: {reason}", count(*number)));
        }
        line("lost", &count(record.lost()));
        line("balanced", if ledger.balanced { "yes" } else { "NO" });
        ledger.problems.iter().for_each(|problem| line("  problem", problem));
        for (cause, ns) in &ledger.time.dead_ns {
            let (dead, run) = (in_seconds(*ns), in_seconds(ledger.time.run_ns));
            let culprits = ledger.time.culprits.iter().filter(|culprit| culprit.cause == *cause);
            let culprits: String = culprits
                .map(|culprit| format!("; {} alone for {:.3} s", culprit.node, in_seconds(culprit.dead_ns)))
                .collect();
            line("dead time", &format!("{dead:.3} s of {run:.3} s: {cause}{culprits}"));
        }
    }
    for file in &record.files {
        line(
            "file",
            &format!(
                "{}  {} events, {}, stream {}",
                file.file,
                count(file.events),
                size(file.bytes),
                file.stream
            ),
        );
    }
    for code in &record.code {
        line("code", &format!("{}: {} (CRC-32C {})", code.table, code.path.display(), code.crc32c));
    }
    for histogram in &record.histograms {
        line("histogram", &histogram_line(histogram));
    }
    if let Some(row) = record.row() {
        line("sequence", &row);
    }
    for HookRecord { name, transition, seconds, status, .. } in &record.hooks {
        line("hook", &format!("{name} ({transition}): {status}, {seconds:.3} s"));
    }
    for value in &record.values {
        line("value", &values::line(value));
    }
    for comment in &record.comments {
        let quality = comment.quality.map_or_else(String::new, |quality| format!("[{}] ", quality.name()));
        line("comment", &format!("{} {}: {quality}{}", utc(comment.time_ns), comment.author, comment.text));
    }
    text.push_str(&commands::table(record));
    text
}

/// The configuration of a run, and where it comes from.
fn configuration(record: &Record) -> String {
    let shown = record.configuration.shown();
    match &record.configuration_from {
        None => shown,
        Some(ConfigurationOrigin { run, name: Some(name), version: Some(version) }) => {
            format!("{shown}, from {name} version {version}, which is that of run {run}")
        }
        Some(ConfigurationOrigin { run, .. }) => format!("{shown}, from run {run}"),
    }
}

/// Two configurations side by side.
pub(super) fn configurations(names: &[String; 2], differences: &Differences) -> String {
    let [one, other] = names;
    let mut text = format!("{one}, then {other}\n");
    settings(&mut text, differences);
    text
}

/// Two runs side by side.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let [before, after] = comparison.runs;
    let mut text =
        format!("{:<34}{:>18}{:>18}{:>12}\n", "", format!("run {before}"), format!("run {after}"), "change");
    for Number { name, unit, values } in &comparison.numbers {
        let shown = values.map(|value| value.map_or_else(|| "-".to_owned(), |value| number(value, unit)));
        let _ = writeln!(text, "{:<34}{:>18}{:>18}{:>12}", name, shown[0], shown[1], change(*values));
    }
    if let Some([one, other]) = &comparison.software {
        let _ = writeln!(text, "\nsoftware: {one}, then {other}");
    }
    settings(&mut text, &comparison.differences);
    text.push_str(&values::comparison(&comparison.values));
    histograms(&mut text, &comparison.histograms);
    text
}

/// Settings and code that differ.
fn settings(text: &mut String, differences: &Differences) {
    text.push_str(if differences.settings.is_empty() {
        "\nno setting differs\n"
    } else {
        "\nsettings that differ:\n"
    });
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    for (key, [one, other]) in &differences.settings {
        let _ = writeln!(text, "  {key:<32}{}  ->  {}", value(one), value(other));
    }
    for (table, [one, other]) in &differences.code {
        let shown = |code: &Option<super::code::Code>| {
            code.as_ref().map_or_else(
                || "none".to_owned(),
                |code| format!("{} ({})", code.path.display(), code.crc32c),
            )
        };
        let _ = writeln!(text, "code of {table}: {}  ->  {}", shown(one), shown(other));
    }
}

fn histogram_line(histogram: &HistogramSummary) -> String {
    let HistogramSummary { name, kind, entries, mean, rms, .. } = histogram;
    let mut text = format!("{name}  {}, {} entries", kind.name(), count(*entries));
    for (mean, rms) in mean.iter().zip(rms) {
        let _ = write!(text, ", mean {mean:.4}, RMS {rms:.4}");
    }
    text
}

fn histograms(text: &mut String, compared: &[ComparedHistogram]) {
    if compared.is_empty() {
        return;
    }
    let differ =
        compared.iter().filter(|one| one.comparison.is_some_and(|comparison| comparison.differs)).count();
    let _ = writeln!(text, "\nhistograms, {differ} of {} differ:", compared.len());
    for ComparedHistogram { name, entries, comparison, not_compared } in compared {
        let [before, after] = entries.map(|entries| entries.map_or_else(|| "-".to_owned(), count));
        let result = match comparison {
            Some(HistogramComparison { chi2, ndf, probability, kolmogorov, differs }) => {
                let distance =
                    kolmogorov.map_or_else(String::new, |distance| format!(", Kolmogorov {distance:.4}"));
                let verdict = if *differs { "  DIFFERS" } else { "" };
                format!("chi2 {chi2:.1}/{ndf}, p {probability:.2e}{distance}{verdict}")
            }
            None => format!("not compared: {}", not_compared.as_deref().unwrap_or_default()),
        };
        let _ = writeln!(text, "  {name:<32}{before:>18}{after:>18}  {result}");
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "s" | "%" => format!("{value:.3} {unit}"),
        "" => crate::console::count_f64(value),
        _ => format!("{} {unit}", crate::console::count_f64(value)),
    }
}

fn seconds(record: &Record) -> Option<f64> {
    record.ledger.as_ref().map(|ledger| in_seconds(ledger.time.run_ns))
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// UTC to the second.
pub(crate) fn utc(ns: u64) -> String {
    let seconds = i64::try_from(ns).unwrap_or(i64::MAX) / 1_000_000_000;
    UtcTime::from_nanos(seconds * 1_000_000_000).to_string()
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let fitting = units.into_iter().find(|(unit, _)| bytes as f64 >= *unit);
    fitting.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit))
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() <= COMMENT && line.len() == text.len() {
        return line.to_owned();
    }
    format!("{}...", &line[..line.floor_char_boundary(COMMENT.min(line.len()))])
}
