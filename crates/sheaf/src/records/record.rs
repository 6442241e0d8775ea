//! The record of a run.

use super::code::Code;
use super::comments::{self, Comment};
use super::configuration::ConfigurationId;
use crate::histograms;
use crate::summary::LedgerSummary;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sheaf_config::Config;
use sheaf_control::request::SequenceRow;
use sheaf_histogram::HistogramSummary;
use sheaf_store::run::{
    CommandRecord, ConfigurationOrigin, EndRecord, HookRecord, Manifest, RunLock, SequenceRecord, ValueRecord,
};
use sheaf_wire::DropReason;
use sheaf_wire::reason::Account;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// A process writes it.
    InProgress,
    /// It ended, its books balanced, and nothing was lost.
    Good,
    /// It ended, and something was lost or did not balance.
    NotGood,
    /// No process writes it, and it was not closed: its process died.
    NotClosed,
}

impl State {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::InProgress => "in progress",
            Self::Good => "good",
            Self::NotGood => "not good",
            Self::NotClosed => "not closed",
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) run: u32,
    pub(crate) directory: PathBuf,
    pub(crate) state: State,
    pub(crate) software: String,
    pub(crate) configuration: ConfigurationId,
    /// Partition of the system; none if it is a run of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<String>,
    /// Nanoseconds since 1970.
    pub(crate) created_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    pub(crate) end: Option<EndRecord>,
    /// `null` until the run is closed.
    pub(crate) ledger: Option<LedgerSummary>,
    pub(crate) files: Vec<FileRecord>,
    pub(crate) code: Vec<Code>,
    pub(crate) comments: Vec<Comment>,
    /// Numbers of its histograms, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub(crate) histograms: Vec<HistogramSummary>,
    /// Row of a sequence that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sequence: Option<SequenceRecord>,
    /// Where its configuration comes from, if it was started like another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) configuration_from: Option<ConfigurationOrigin>,
    /// Hooks that were called for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hooks: Vec<HookRecord>,
    /// Commands that were given for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) commands: Vec<CommandRecord>,
    /// Number of commands that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) commands_left_out: u64,
    /// Values from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<ValueRecord>,
    /// Every setting by its full key.
    #[serde(skip)]
    pub(crate) settings: BTreeMap<String, String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A closed file of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) file: String,
    pub(crate) stream: String,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// CRC-32C, in hexadecimal digits; not known where a write failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) crc32c: Option<String>,
}

impl Record {
    /// Reads the record of the run in a directory.
    pub(crate) fn read(directory: &Path) -> anyhow::Result<Self> {
        let shown = directory.display();
        let manifest = Manifest::read(directory)?;
        let manifest = manifest
            .with_context(|| format!("{shown} has no manifest: it is not a run, or not one of this host"))?;
        let holder = RunLock::holder(directory)
            .with_context(|| format!("cannot tell which process writes {shown}"))?;
        let ledger: Option<LedgerSummary> = serde_json::from_value(manifest.ledger.clone()).ok();
        let state = match (&manifest.ended, holder.is_some(), &manifest.end, &ledger) {
            (None, true, ..) => State::InProgress,
            (None, false, ..) => State::NotClosed,
            (Some(_), _, Some(end), _) => {
                if end.good {
                    State::Good
                } else {
                    State::NotGood
                }
            }
            // A run of an earlier version: only its ledger tells.
            (Some(_), _, None, Some(ledger)) if ledger.balanced && lost(ledger) == 0 => State::Good,
            (Some(_), _, None, _) => State::NotGood,
        };
        let config = Config::parse(&manifest.configuration, "configuration").ok();
        let code: Vec<_> = manifest.code.into_iter().map(Code::of).collect();
        let text = &manifest.configuration;
        let configuration = ConfigurationId::of(manifest.configuration_name, config.as_ref(), text, &code);
        Ok(Self {
            run: manifest.run.0,
            directory: directory.to_owned(),
            state,
            software: manifest.software,
            configuration,
            partition: config.as_ref().and_then(|config| config.run.partition.clone()),
            created_ns: manifest.created.0,
            ended_ns: manifest.ended.map(|ended| ended.0),
            end: manifest.end,
            ledger,
            files: manifest.files.iter().map(FileRecord::of).collect(),
            code,
            comments: comments::read(directory)?,
            histograms: Vec::new(),
            sequence: manifest.sequence,
            configuration_from: manifest.configuration_from,
            hooks: manifest.hooks,
            commands: manifest.commands,
            commands_left_out: manifest.commands_left_out,
            values: manifest.values,
            settings: config.map_or_else(|| unparsed(text), |config| config.values()),
        })
    }

    /// Adds the numbers of its histograms.
    pub(super) fn with_histograms(mut self) -> anyhow::Result<Self> {
        let found = histograms::read(&self.directory)?;
        self.histograms =
            found.iter().flat_map(|found| &found.histograms).map(HistogramSummary::of).collect();
        Ok(self)
    }

    /// Returns the row of a sequence that it was made for, in words.
    pub(super) fn row(&self) -> Option<String> {
        let SequenceRecord { name, row, values } = self.sequence.clone()?;
        Some(SequenceRow { name, row, values }.to_string())
    }

    /// Returns the accepted events that were lost.
    pub(crate) fn lost(&self) -> u64 {
        let of_end = self.end.as_ref().map(|end| end.lost);
        of_end.or_else(|| self.ledger.as_ref().map(lost)).unwrap_or(0)
    }

    /// Returns the size of all files, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the last judgement of its quality.
    pub(crate) fn quality(&self) -> Option<comments::Quality> {
        self.comments.iter().rev().find_map(|comment| comment.quality)
    }

    /// Returns the fraction of dead time.
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    pub(super) fn dead_fraction(&self) -> Option<f64> {
        let time = &self.ledger.as_ref()?.time;
        (time.run_ns > 0).then(|| 1.0 - time.live_ns as f64 / time.run_ns as f64)
    }
}

/// Returns the dropped events of a ledger that were lost.
fn lost(ledger: &LedgerSummary) -> u64 {
    let is_loss =
        |name: &str| DropReason::from_name(name).is_none_or(|reason| reason.account() == Account::Loss);
    ledger.dropped.iter().filter(|(name, _)| is_loss(name)).map(|(_, count)| count).sum()
}

/// Returns the lines of a configuration of another version, whose keys this version does not know.
fn unparsed(configuration: &str) -> BTreeMap<String, String> {
    let mut table = String::new();
    let mut settings = BTreeMap::new();
    for line in configuration.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_matches(['[', ']']).to_owned();
        } else if let Some((key, value)) = line.split_once(" = ") {
            settings.insert(format!("{table}.{key}"), value.to_owned());
        }
    }
    settings
}

impl FileRecord {
    fn of(file: &sheaf_store::event_file::ClosedFile) -> Self {
        Self {
            file: file.file.to_string(),
            stream: file.stream.to_string(),
            events: file.events,
            bytes: file.bytes,
            crc32c: file.crc32c.map(|sum| format!("{sum:08x}")),
        }
    }
}
