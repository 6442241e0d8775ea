//! Rows of a run, from its record.

use super::record::Record;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_config::Config;
use sheaf_database::{RunRow, Table, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The record of a run as the database keeps it: as `sheaf runs show --json` prints it, with all settings.
#[derive(Serialize, Deserialize)]
pub(crate) struct IndexedRecord<'a> {
    #[serde(flatten)]
    record: Cow<'a, Record>,
    settings: Cow<'a, BTreeMap<String, String>>,
}

impl IndexedRecord<'_> {
    /// Reads a record of the database.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Record> {
        let IndexedRecord { record, settings } =
            serde_json::from_str(text).context("a record in the database is one of another version")?;
        Ok(Record { settings: settings.into_owned(), ..record.into_owned() })
    }
}

/// Returns the rows of a run.
pub(crate) fn row(record: &Record, host: &str) -> anyhow::Result<RunRow> {
    let end = record.end.as_ref();
    let time = record.ledger.as_ref().map(|ledger| &ledger.time);
    let directory = std::path::absolute(&record.directory)?;
    let state = serde_json::to_value(record.state)?;
    let mut kept = record.clone();
    kept.directory.clone_from(&directory);
    let kept = IndexedRecord { record: Cow::Owned(kept), settings: Cow::Borrowed(&record.settings) };
    Ok(RunRow {
        run: record.run.into(),
        created_ns: record.created_ns,
        host: host.to_owned(),
        directory: directory.to_string_lossy().into_owned(),
        state: state.as_str().unwrap_or_default().to_owned(),
        software: record.software.clone(),
        configuration_name: record.configuration.name.clone(),
        configuration_id: record.configuration.id.clone(),
        started_ns: time.and_then(|time| time.started_ns),
        triggers_ended_ns: time.and_then(|time| time.triggers_ended_ns),
        ended_ns: record.ended_ns,
        end_reason: end.map(|end| end.reason.clone()),
        end_detail: end.and_then(|end| end.detail.clone()),
        lost: record.lost(),
        run_ns: time.map(|time| time.run_ns),
        live_ns: time.map(|time| time.live_ns),
        quality: record.quality().map(|quality| quality.name().to_owned()),
        record: serde_json::to_string(&kept)?,
        parts: parts(record)?,
    })
}

fn parts(record: &Record) -> anyhow::Result<Vec<(Table, Vec<Value>)>> {
    let mut parts = Vec::new();
    if let Some(ledger) = &record.ledger {
        let fixed = [
            ("offered", ledger.offered),
            ("triggers", ledger.triggers),
            ("stored", ledger.stored),
            ("rejected", ledger.rejected),
            ("in_flight", ledger.in_flight),
        ];
        let fixed = fixed.map(|(bin, events)| (bin.to_owned(), events));
        let vetoed = ledger.vetoed.iter().map(|(cause, events)| (format!("vetoed: {cause}"), *events));
        let dropped = ledger.dropped.iter().map(|(reason, events)| (format!("dropped: {reason}"), *events));
        for (bin, events) in fixed.into_iter().chain(vetoed).chain(dropped) {
            parts.push((Table::Ledger, vec![(&*bin).into(), events.into()]));
        }
        for (cause, ns) in &ledger.time.dead_ns {
            parts.push((Table::DeadTime, vec![(&**cause).into(), (*ns).into()]));
        }
        for culprit in &ledger.time.culprits {
            let values = vec![(&*culprit.cause).into(), (&*culprit.node).into(), culprit.dead_ns.into()];
            parts.push((Table::Culprit, values));
        }
        for exclusion in &ledger.exclusions {
            parts.push((Table::Exclusion, vec![(&*serde_json::to_string(exclusion)?).into()]));
        }
    }
    for file in &record.files {
        let crc32c = file.crc32c.as_deref().into();
        let (name, stream) = ((&*file.file).into(), (&*file.stream).into());
        parts.push((Table::File, vec![name, stream, file.events.into(), file.bytes.into(), crc32c]));
    }
    for code in &record.code {
        let path = code.path.to_string_lossy();
        let (part, crc32c) = ((&*code.table).into(), (&*code.crc32c).into());
        parts.push((Table::Code, vec![part, (&*path).into(), code.bytes.into(), crc32c]));
    }
    let defaults = Config::default().values();
    // Those that have their default are in the record: each run has hundreds.
    for (key, value) in record.settings.iter().filter(|(key, value)| defaults.get(*key) != Some(value)) {
        parts.push((Table::Setting, vec![(&**key).into(), (&**value).into()]));
    }
    for comment in &record.comments {
        let quality = comment.quality.map(|quality| quality.name()).into();
        let (author, text) = ((&*comment.author).into(), (&*comment.text).into());
        parts.push((Table::Comment, vec![comment.time_ns.into(), author, text, quality]));
    }
    for command in &record.commands {
        parts.push((
            Table::Command,
            vec![
                command.time.0.into(),
                (&*command.by).into(),
                command.via.as_deref().into(),
                (&*command.command).into(),
                command.target.as_deref().into(),
                command.comment.as_deref().into(),
                command.result.as_deref().into(),
                command.text.as_deref().into(),
                command.ended.map(|ended| ended.0).into(),
            ],
        ));
    }
    Ok(parts)
}
