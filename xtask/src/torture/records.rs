//! Checks of runs that a controller has made: each by its record, its files and `sheaf verify`.

use super::books::Promise;
use super::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

impl Trial {
    /// Returns the directory of a run.
    pub(super) fn run(&self, number: u64) -> PathBuf {
        self.output.join(format!("run{number:06}"))
    }

    /// Returns the numbers of all runs that have a directory.
    pub(super) fn runs(&self) -> BTreeSet<u64> {
        let entries = std::fs::read_dir(&self.output).into_iter().flatten().flatten();
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("run")?.parse().ok();
        entries.filter_map(number).collect()
    }

    /// Returns what a command of Sheaf prints as JSON.
    pub(super) fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(&self.sheaf).args(arguments).current_dir(&self.directory).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`sheaf {}` printed no JSON: {said}", arguments.join(" ")))
    }

    /// Runs a command of Sheaf that must succeed.
    pub(super) fn ask_nothing(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(&self.sheaf).args(arguments).current_dir(&self.directory).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`sheaf {}`: {said}", arguments.join(" "));
        Ok(())
    }

    /// Returns the record of a run.
    pub(super) fn record(&self, number: u64) -> Result<Value> {
        self.ask(&["runs", "show", &number.to_string(), "--json"])
    }

    /// Checks the files and the books of a run against its record, and that it lost only what the promise permits. `sources` is the
    /// number of fragments of a complete event.
    pub(super) fn check_recorded(&mut self, number: u64, promise: &Promise, sources: u64) -> Result<Value> {
        let run = self.run(number);
        let verify = self.verify(&run, promise)?;
        let events = self.events(&run, promise)?;
        let mut record = self.record(number)?;
        // As in a summary. A run with events of wrong content is not good.
        let restarted = record["ledger"]["fragments"]["restarted_readouts"].clone();
        record["trouble"] = json!({ "restarted_readouts": restarted, "content_mismatches": 0 });
        self.check_books(&run, &record, &verify, &events)?;
        self.check_kept(&record, promise, &events, sources);
        Ok(record)
    }

    /// Checks a run that lost nothing.
    pub(super) fn check_good(&mut self, number: u64, sources: u64) -> Result<Value> {
        let record = self.check_recorded(number, &Promise::nothing_lost(), sources)?;
        if record["state"] != "good" {
            self.problem(format!("run {number} is {}, not good", record["state"]));
        }
        Ok(record)
    }

    /// Checks that exactly the runs from 1 to `last` were made: no number was used twice or left out.
    pub(super) fn check_numbers(&mut self, last: u64) {
        let (runs, expected) = (self.runs(), (1..=last).collect());
        if runs != expected {
            self.problem(format!("there are the runs {runs:?}, expected 1 to {last}"));
        }
    }
}

/// Output of the process of a run.
#[derive(Clone, Debug)]
pub(super) struct LaunchLog {
    /// Number of the launch.
    pub(super) number: u64,
    pub(super) text: String,
}

impl LaunchLog {
    /// Number of launches whose logs a controller keeps beside the newest.
    pub(super) const KEPT: u64 = 21;

    /// Returns the logs in the directory of a controller.
    pub(super) fn all(directory: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let log = |entry: std::fs::DirEntry| {
            let number = entry.file_name().to_str()?.strip_prefix("launch-")?.parse().ok()?;
            let text = std::fs::read_to_string(entry.path().join("log")).ok()?;
            Some(Self { number, text })
        };
        entries.filter_map(log).collect()
    }
}
