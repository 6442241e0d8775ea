//! The database of runs cannot be used for a while. The run of that time is not held up and is good, and a later one brings its record in.

use super::{Case, Outcome, always, nightly, or_skip};
use crate::torture::machine::Disk;
use crate::torture::postgresql::Postgresql;
use crate::torture::run::{Ended, Run};
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(super) const CASES: &[Case] = &[
    always("database-locked", locked),
    nightly("database-removed", removed),
    nightly("database-read-only", read_only),
    nightly("database-full", full),
    always("kill-postgresql", kill_postgresql),
];

/// Time that a run waits for a database that works, also on a busy machine.
const PATIENT_MS: u64 = 60_000;

/// Time that a run waits for one that does not.
const HASTY_MS: u64 = 1_000;

/// Consecutive runs with a database.
struct Runs {
    system: System,
    url: String,
    made: u64,
}

impl Runs {
    fn new(trial: &Trial, url: String) -> Self {
        let mut system = System::new(trial.by_scale(8_000, 40_000));
        system.transport = "shm";
        Self { system, url, made: 0 }
    }

    /// Makes the next run, with trouble that comes before or during it and is over at its end or later. Checks that it is good.
    fn make<T>(
        &mut self,
        trial: &mut Trial,
        patience_ms: u64,
        trouble: impl FnOnce() -> Result<T>,
    ) -> Result<(Ended, T)> {
        let is_early = trial.dice.below(2) == 0;
        let moment = if is_early { "before" } else { "in" };
        trial.note(format!("the trouble came {moment} run {}", self.made + 1));
        if is_early {
            let caused = trouble()?;
            let run = self.begin(trial, patience_ms)?;
            return Ok((self.end(trial, run)?, caused));
        }
        let mut run = self.begin(trial, patience_ms)?;
        ensure!(run.reaches_part(2 * self.made - 1, 2 * self.made)?, "the run ended early");
        let caused = trouble()?;
        Ok((self.end(trial, run)?, caused))
    }

    fn begin(&mut self, trial: &Trial, patience_ms: u64) -> Result<Run> {
        self.made += 1;
        let mut system = self.system.clone();
        system.set("database", format!("url = {:?}\ntimeout_ms = {patience_ms}", self.url));
        std::fs::write(trial.directory.join("run.toml"), system.to_toml(&trial.output))?;
        let arguments = ["run", "run.toml", "--json", "--processes"];
        let mut run = trial.sheaf(&format!("run-{}", self.made), &arguments)?;
        run.expect_bytes(self.system.stored_bytes() * self.made);
        Ok(run)
    }

    fn end(&self, trial: &mut Trial, run: Run) -> Result<Ended> {
        let ended = run.end()?;
        if ended.status.code() != Some(0) {
            trial.problem(format!("run {} ended with {}: {}", self.made, ended.status, ended.stderr));
        }
        trial.check_good(self.made, self.system.readouts)?;
        Ok(ended)
    }

    /// Makes a run with a database that works.
    fn make_well(&mut self, trial: &mut Trial) -> Result<()> {
        let run = self.begin(trial, PATIENT_MS)?;
        let ended = self.end(trial, run)?;
        if ended.stderr.contains("[database-behind]") {
            trial.problem(format!("run {} was not written: {}", self.made, ended.stderr));
        }
        Ok(())
    }

    /// Checks that the database has all runs, and that none waits.
    fn check(&self, trial: &mut Trial) -> Result<()> {
        let list = trial.ask(&["runs", "list", "--json", "--database", &self.url])?;
        let states: Vec<&str> =
            list["runs"].as_array().into_iter().flatten().filter_map(|run| run["state"].as_str()).collect();
        if states.len() as u64 != self.made || states.iter().any(|state| *state != "good") {
            trial.problem(format!("the database has {states:?} of {} good runs", self.made));
        }
        let waiting = std::fs::read_to_string(trial.output.join("runs.waiting")).unwrap_or_default();
        if !waiting.is_empty() {
            trial.problem(format!("runs wait although all were written: {waiting}"));
        }
        trial.check_numbers(self.made);
        trial.collect_processes();
        Ok(())
    }
}

/// Checks that a run has said that the database lacks it, and that it waits.
fn check_waits(trial: &mut Trial, ended: &Ended, run: u64) {
    if !ended.stderr.contains("[database-behind]") {
        trial.problem(format!("run {run} does not say that the database lacks it: {}", ended.stderr));
    }
    let waiting = std::fs::read_to_string(trial.output.join("runs.waiting")).unwrap_or_default();
    if !waiting.lines().any(|line| line.ends_with(&format!("run{run:06}"))) {
        trial.problem(format!("run {run} is not in runs.waiting: {waiting:?}"));
    }
}

fn sqlite(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

/// A process that has locked a SQLite file.
struct Locker(Child);

impl Locker {
    fn lock(file: &Path) -> Result<Self> {
        let script = "import sqlite3, sys\n\
                      runs = sqlite3.connect(sys.argv[1], timeout=60)\n\
                      runs.execute('BEGIN EXCLUSIVE')\n\
                      print('locked', flush=True)\n\
                      sys.stdin.read()";
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().context("cannot start python3")?;
        let mut line = String::new();
        BufReader::new(python.stdout.take().context("it has a pipe")?).read_line(&mut line)?;
        let locker = Self(python);
        ensure!(line == "locked\n", "python3 cannot lock {}", file.display());
        Ok(locker)
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn locked(trial: &mut Trial) -> Result<Outcome> {
    let file = trial.output.join("runs.db");
    let mut runs = Runs::new(trial, sqlite(&file));
    runs.make_well(trial)?;
    drop(or_skip!(Locker::lock(&file)));
    let (ended, locker) = runs.make(trial, HASTY_MS, || Locker::lock(&file))?;
    check_waits(trial, &ended, 2);
    drop(locker);
    runs.make_well(trial)?;
    runs.check(trial)?;
    Ok(Outcome::Done)
}

/// The file disappears. The run makes another one, and the directories have what it lacks.
fn removed(trial: &mut Trial) -> Result<Outcome> {
    let file = trial.output.join("runs.db");
    let mut runs = Runs::new(trial, sqlite(&file));
    runs.make_well(trial)?;
    runs.make(trial, PATIENT_MS, || Ok(std::fs::remove_file(&file)?))?;
    let list = trial.ask(&["runs", "list", "--json", "--database", &runs.url])?;
    if list["runs"][0]["run"] != 2 {
        trial.problem(format!("the run after the loss of the file is not in the next one: {list}"));
    }
    trial.ask_nothing(&["runs", "rebuild"])?;
    runs.make_well(trial)?;
    runs.check(trial)?;
    Ok(Outcome::Done)
}

fn read_only(trial: &mut Trial) -> Result<Outcome> {
    let disk = or_skip!(Disk::small(&trial.directory.join("disk"), 4));
    let mut runs = Runs::new(trial, sqlite(&disk.path.join("runs.db")));
    runs.make_well(trial)?;
    // Nobody may have a file open there at that moment.
    let (ended, ()) = runs.make(trial, HASTY_MS, || disk.make_read_only())?;
    check_waits(trial, &ended, 2);
    disk.make_writable()?;
    runs.make_well(trial)?;
    runs.check(trial)?;
    Ok(Outcome::Done)
}

fn full(trial: &mut Trial) -> Result<Outcome> {
    let disk = or_skip!(Disk::small(&trial.directory.join("disk"), 4));
    let mut runs = Runs::new(trial, sqlite(&disk.path.join("runs.db")));
    runs.make_well(trial)?;
    let (ended, ballast) = runs.make(trial, HASTY_MS, || fill(&disk))?;
    check_waits(trial, &ended, 2);
    std::fs::remove_file(ballast)?;
    runs.make_well(trial)?;
    runs.check(trial)?;
    Ok(Outcome::Done)
}

/// Fills a disk to its last byte. Returns the file.
fn fill(disk: &Disk) -> Result<PathBuf> {
    let path = disk.path.join("ballast");
    let mut file = std::fs::File::create(&path)?;
    while std::io::Write::write(&mut file, &[0; 512]).is_ok() {}
    Ok(path)
}

/// The server is killed, before a run or during one, and started again after it. Its numbers come from the reserve meanwhile.
fn kill_postgresql(trial: &mut Trial) -> Result<Outcome> {
    let server = or_skip!(Postgresql::start(&trial.mark));
    let mut runs = Runs::new(trial, server.url());
    let support = Command::new(&trial.sheaf).args(["runs", "list", "--database", &runs.url]).output()?;
    if String::from_utf8_lossy(&support.stderr).contains("--features postgres") {
        return Ok(Outcome::Skipped("the command was built without the feature `postgres`".to_owned()));
    }
    runs.make_well(trial)?;
    let times = trial.by_scale(2, 8);
    for _ in 0..times {
        let (ended, ()) = runs.make(trial, HASTY_MS, || server.kill())?;
        trial.tally.kills += 1;
        check_waits(trial, &ended, runs.made);
        server.launch()?;
        runs.make_well(trial)?;
    }
    trial.note(format!("killed the server {times} times"));
    runs.check(trial)?;
    Ok(Outcome::Done)
}
