//! Compares the results of a run with the promises for its fault: exit status, ledger, files, `sheaf verify`.

use super::run::{Ended, run_directory};
use super::trial::Trial;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Promises of the documentation for a run with a certain fault.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// Exit status of the command.
    pub(super) status: Status,
    /// Fate of accepted triggers.
    pub(super) kept: Kept,
    /// Exit statuses of `sheaf verify`.
    pub(super) verify: &'static [i32],
    /// Texts that the command prints on standard error.
    pub(super) says: Vec<String>,
}

/// An exit status.
#[derive(Clone, Debug)]
pub(super) enum Status {
    /// One of these.
    Codes(&'static [i32]),
    /// 3 if an accepted trigger or one of its fragments was lost, otherwise 0.
    ByLoss,
    /// Status of a killed process.
    Killed,
}

/// Fate of accepted triggers.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// Each is stored whole, or rejected by the filter.
    Everything,
    /// As `Everything`, but events may lack these sources.
    ButSources(Vec<u64>),
    /// As `Everything`, but events may be dropped for one of these reasons.
    ButDropped(&'static [&'static str]),
    /// There are no books, so only the contents of the files can be checked.
    Unbooked,
}

impl Promise {
    /// Returns the promise that nothing is lost and nothing is wrong, which holds for slowness.
    pub(super) fn nothing_lost() -> Self {
        Self { status: Status::Codes(&[0]), kept: Kept::Everything, verify: &[0], says: Vec::new() }
    }

    /// Returns the promise for a run whose event manager died: there are no books, and `sheaf verify` reports that the run was
    /// not closed.
    pub(super) fn no_books(status: Status) -> Self {
        Self { status, kept: Kept::Unbooked, verify: &[3], says: Vec::new() }
    }

    pub(super) fn saying(mut self, words: &str) -> Self {
        self.says.push(words.to_owned());
        self
    }
}

/// Sources of each event in the files, in the order of the dump.
type Events = BTreeMap<u64, Vec<u64>>;

impl Trial {
    /// Checks everything that the run has left. `sources` is the number of fragments of a complete event.
    pub(super) fn check(&mut self, ended: &Ended, promise: &Promise, sources: u64) -> Result<Option<Value>> {
        self.check_words(ended, promise);
        self.collect_processes();
        self.check_left_overs(promise);
        let run = run_directory(&self.output)?;
        let verify = self.verify(&run, promise)?;
        let events = self.events(&run, promise)?;
        if matches!(promise.kept, Kept::Unbooked) {
            return Ok(None);
        }
        let Ok(summary) = serde_json::from_str::<Value>(&ended.stdout) else {
            self.problem(format!("the run printed no summary: {:?}", ended.stdout));
            return Ok(None);
        };
        self.check_books(&run, &summary, &verify, &events)?;
        self.check_kept(&summary, promise, &events, sources);
        self.check_status(ended, promise, lost(&summary));
        Ok(Some(summary))
    }

    /// Checks a run that could not begin or had no directory: there must be no panic, a reason, and nothing left.
    pub(super) fn check_refusal(&mut self, ended: &Ended, words: &[&str]) {
        let promise = Promise { status: Status::Codes(&[1]), ..Promise::nothing_lost() };
        self.check_words(ended, &promise);
        if !words.is_empty() && !words.iter().any(|word| ended.stderr.contains(word)) {
            self.problem(format!("standard error contains none of {words:?}"));
        }
        self.collect_processes();
    }

    fn check_words(&mut self, ended: &Ended, promise: &Promise) {
        for words in ["panicked", "this is a bug in sheaf", "NOT BALANCED"] {
            let is_booked = words != "NOT BALANCED" || matches!(promise.kept, Kept::Everything);
            if is_booked && (ended.stderr.contains(words) || ended.stdout.contains(words)) {
                self.problem(format!("the run printed `{words}`"));
            }
        }
        for words in promise.says.iter().filter(|words| !ended.stderr.contains(*words)) {
            self.problem(format!("standard error does not contain `{words}`"));
        }
        if !matches!(promise.status, Status::ByLoss) {
            self.check_status(ended, promise, false);
        }
    }

    fn check_status(&mut self, ended: &Ended, promise: &Promise, is_lost: bool) {
        let codes: &[i32] = match promise.status {
            Status::Codes(codes) => codes,
            Status::ByLoss if is_lost => &[3],
            Status::ByLoss => &[0],
            Status::Killed => return,
        };
        if !ended.status.code().is_some_and(|code| codes.contains(&code)) {
            let problem = format!("the run ended with {}, expected one of {codes:?}", ended.status);
            if !self.problems.contains(&problem) {
                self.problem(problem);
            }
        }
    }

    /// Checks that no sockets and files remain that only a run in progress has. Killed processes cannot remove them.
    fn check_left_overs(&mut self, promise: &Promise) {
        if matches!(promise.status, Status::Killed) {
            return;
        }
        let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut left: Vec<String> = Vec::new();
        if let Ok(run) = run_directory(&self.output) {
            let is_left =
                |name: &String| name.ends_with(".tap") || name.ends_with(".farm") || name == "reserve";
            let names = below(&run).map(|entry| entry.file_name().to_string_lossy().into_owned());
            left.extend(names.filter(is_left));
        }
        let temporary = below(&self.directory.join("tmp"));
        left.extend(temporary.map(|entry| format!("tmp/{}", entry.file_name().to_string_lossy())));
        if !left.is_empty() {
            self.problem(format!("left over: {}", left.join(", ")));
        }
    }

    pub(super) fn verify(&mut self, run: &Path, promise: &Promise) -> Result<Value> {
        let output = Command::new(&self.sheaf).args(["verify", "--json"]).arg(run).output()?;
        let report: Value =
            serde_json::from_slice(&output.stdout).context("`sheaf verify` printed no JSON")?;
        if !output.status.code().is_some_and(|code| promise.verify.contains(&code)) {
            let problems = report["problems"].to_string();
            let expected = promise.verify;
            self.problem(format!("verify ended with {}, expected {expected:?}: {problems}", output.status));
        }
        self.tally.twice += number(&report["duplicates"]);
        if report["duplicates"] != 0 {
            self.problem(format!("verify finds {} events twice", report["duplicates"]));
        }
        Ok(report)
    }

    pub(super) fn events(&mut self, run: &Path, promise: &Promise) -> Result<Events> {
        let output = Command::new(&self.sheaf).args(["dump", "--csv"]).arg(run).output()?;
        if !output.status.success() && !matches!(promise.kept, Kept::Unbooked) {
            self.problem(format!("dump ended with {}", output.status));
        }
        let text = String::from_utf8(output.stdout).context("`sheaf dump` printed no UTF-8")?;
        let mut events = Events::new();
        for line in text.lines().skip(1) {
            let mut cells = line.split(',').map(str::parse::<u64>);
            let (Some(Ok(event)), Some(Ok(source))) = (cells.next(), cells.next()) else {
                self.problem(format!("dump has the line {line:?}"));
                continue;
            };
            events.entry(event).or_default().push(source);
        }
        for (event, sources) in &mut events {
            sources.sort_unstable();
            if sources.windows(2).any(|pair| pair[0] == pair[1]) {
                self.tally.twice += 1;
                self.problems.push(format!("event {event} is stored twice"));
            }
        }
        Ok(events)
    }

    /// Checks that the summary adds up and agrees with the manifest, `verify` and the files.
    pub(super) fn check_books(
        &mut self,
        run: &Path,
        summary: &Value,
        verify: &Value,
        events: &Events,
    ) -> Result<()> {
        let ledger = &summary["ledger"];
        let (triggers, stored) = (number(&ledger["triggers"]), number(&ledger["stored"]));
        let bins = stored + number(&ledger["rejected"]) + dropped(ledger);
        self.tally.lost += triggers.saturating_sub(bins) + stored.saturating_sub(events.len() as u64);
        if triggers != bins || number(&ledger["in_flight"]) != 0 {
            self.problem(format!("{triggers} triggers, but {bins} ended events: {ledger}"));
        }
        let manifest: Value = serde_json::from_slice(&std::fs::read(run.join("run.json"))?)?;
        for name in ["triggers", "stored", "rejected", "dropped"] {
            if manifest["ledger"][name] != ledger[name] {
                let (file, said) = (&manifest["ledger"][name], &ledger[name]);
                self.problem(format!("run.json has {name} {file}, but the summary {said}"));
            }
        }
        if !manifest["ended_ns"].is_u64() {
            self.problem("run.json has no `ended_ns`");
        }
        if verify["events"] != ledger["stored"] {
            self.problem(format!("verify counts {} events, but {stored} are stored", verify["events"]));
        }
        let in_files = events.len() as u64;
        if in_files != stored {
            self.problem(format!("{in_files} events are in the files, but {stored} are stored"));
        }
        let fragments = events.values().map(Vec::len).sum::<usize>() as u64;
        // The fragments of a readout unit that died are not in any books.
        let is_booked = ledger["balanced"] == true && summary["trouble"]["restarted_readouts"] == 0;
        if is_booked && fragments != number(&ledger["fragments"]["stored"]) {
            let booked = &ledger["fragments"]["stored"];
            self.problem(format!("{fragments} fragments are in the files, but {booked} are stored"));
        }
        if let Some(last) = events.keys().next_back().filter(|last| **last >= triggers) {
            self.problem(format!("event {last} is stored, but there were only {triggers} triggers"));
        }
        Ok(())
    }

    /// Checks that only losses occurred that the promise permits.
    pub(super) fn check_kept(&mut self, summary: &Value, promise: &Promise, events: &Events, sources: u64) {
        let ledger = &summary["ledger"];
        let may_drop: &[&str] = match &promise.kept {
            Kept::ButDropped(reasons) => reasons,
            _ => &[],
        };
        for (reason, count) in ledger["dropped"].as_object().into_iter().flatten() {
            if !may_drop.contains(&reason.as_str()) {
                self.problem(format!("{count} of {} events are dropped as {reason}", ledger["triggers"]));
            }
        }
        let may_lack: &[u64] = match &promise.kept {
            Kept::ButSources(sources) => sources,
            _ => &[],
        };
        let is_whole = |has: &Vec<u64>| (0..sources).all(|it| may_lack.contains(&it) || has.contains(&it));
        let torn = events.values().filter(|has| !is_whole(has)).count();
        if torn > 0 {
            self.problem(format!("{torn} of {} stored events lack sources", events.len()));
        }
        if summary["trouble"]["content_mismatches"] != 0 {
            self.problem(format!("{} events have wrong content", summary["trouble"]["content_mismatches"]));
        }
        let is_balanced = ledger["balanced"] == true;
        if !is_balanced && matches!(promise.kept, Kept::Everything | Kept::ButDropped(_)) {
            self.problem(format!("the ledger does not balance: {}", ledger["problems"]));
        }
    }
}

/// Returns whether an accepted trigger or one of its fragments was lost.
fn lost(summary: &Value) -> bool {
    dropped(&summary["ledger"]) > 0 || number(&summary["events_incomplete"]) > 0
}

fn dropped(ledger: &Value) -> u64 {
    ledger["dropped"].as_object().into_iter().flatten().map(|(_, count)| number(count)).sum()
}

/// Returns a number of a summary; 0 if it is missing.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
