//! A run of the command under the control of a case: started, monitored by the amount that it has written, and ended under a watchdog.

use super::process::{self, MARK, Process, signal};
use super::system::System;
use super::trial::Trial;
use anyhow::{Context as _, Result, anyhow, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time without output after which a run is considered to hang. Much longer than any fault.
const WATCHDOG: Duration = Duration::from_mins(10);

/// Interval at which a condition is checked.
const PERIOD: Duration = Duration::from_millis(10);

/// A command that has been started.
#[derive(Debug)]
pub(super) struct Run {
    child: Child,
    mark: String,
    /// Files with its standard output and standard error.
    stdout: PathBuf,
    stderr: PathBuf,
    /// Directory in which the run's directory is created.
    output: PathBuf,
    /// Expected size of the event files in bytes.
    bytes: u64,
}

/// A command that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Trial {
    /// Writes the configuration and starts `sheaf run` with it.
    pub(super) fn start(&mut self, system: &System) -> Result<Run> {
        self.start_below(&[], system)
    }

    /// Does the same as [`start`](Self::start), under a command that starts another: `prlimit --nofile=20`.
    pub(super) fn start_below(&mut self, prefix: &[String], system: &System) -> Result<Run> {
        let config = self.directory.join("run.toml");
        std::fs::write(&config, system.to_toml(&self.output))?;
        let mut arguments = vec!["run".to_owned(), "run.toml".to_owned(), "--json".to_owned()];
        arguments.extend(system.processes.then(|| "--processes".to_owned()));
        let mut run = self.command(prefix, "run", &arguments)?;
        run.bytes = system.stored_bytes();
        Ok(run)
    }

    /// Waits until the run has done this percentage of its work. An earlier end of the run is recorded as a problem.
    pub(super) fn wait_for(&mut self, run: &mut Run, percent: u64) -> Result<bool> {
        let reached = run.reaches(percent)?;
        if !reached {
            self.problem(format!("the run ended before {percent} % of its events were written"));
        }
        Ok(reached)
    }

    /// Kills the process of a node at a percentage of the work.
    pub(super) fn kill(&mut self, run: &mut Run, node: &str, percent: u64) -> Result<u32> {
        if !self.wait_for(run, percent)? {
            return Ok(0);
        }
        let Some(victim) = run.node(node, 0)? else { return Ok(0) };
        process::signal(victim, "KILL")?;
        self.note_kill(node, percent);
        Ok(victim)
    }

    /// Starts any other command of Sheaf. Its output goes to files of this name.
    pub(super) fn sheaf(&self, name: &str, arguments: &[&str]) -> Result<Run> {
        self.sheaf_below(&[], name, arguments)
    }

    /// Does the same as [`sheaf`](Self::sheaf), under a command that starts another.
    pub(super) fn sheaf_below(&self, prefix: &[String], name: &str, arguments: &[&str]) -> Result<Run> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.command(prefix, name, &arguments)
    }

    fn command(&self, prefix: &[String], name: &str, arguments: &[String]) -> Result<Run> {
        let mut words: Vec<&std::ffi::OsStr> = prefix.iter().map(AsRef::as_ref).collect();
        words.push(self.sheaf.as_os_str());
        words.extend(arguments.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&self.directory).stdin(Stdio::null());
        command.env(MARK, &self.mark).env("TMPDIR", self.directory.join("tmp"));
        // Files accept any amount of output without a reader.
        let stdout = self.directory.join(format!("{name}.stdout"));
        let stderr = self.directory.join(format!("{name}.stderr"));
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let (mark, output) = (self.mark.clone(), self.output.clone());
        Ok(Run { child, mark, stdout, stderr, output, bytes: 0 })
    }
}

impl Run {
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the event files have this percentage of their expected size. Returns `false` if the run ended before.
    pub(super) fn reaches(&mut self, percent: u64) -> Result<bool> {
        self.reaches_part(percent, 100)
    }

    /// Does the same as [`reaches`](Self::reaches) for a fraction given as `part` of `whole`.
    pub(super) fn reaches_part(&mut self, part: u64, whole: u64) -> Result<bool> {
        let bytes = self.bytes / whole * part;
        let what = format!("{part} of {whole} parts of the events are written");
        self.waits_for(&what, |run| written(&run.output) >= bytes)
    }

    /// Waits until these words are on standard error. Returns `false` if the run ends before.
    pub(super) fn says(&mut self, words: &str) -> Result<bool> {
        self.says_times(words, 1)
    }

    /// Does the same for words that are there so many times.
    pub(super) fn says_times(&mut self, words: &str, times: usize) -> Result<bool> {
        let what = format!("it says `{words}`, {times} times");
        self.waits_for(&what, |run| read(&run.stderr).matches(words).count() >= times)
    }

    /// Waits for a process of the same case. Returns `None` if the run ends before.
    pub(super) fn process(&mut self, is_wanted: impl Fn(&Process) -> bool) -> Result<Option<Process>> {
        let mut found = None;
        self.waits_for("one of its processes has started", |run| {
            found = process::marked(&run.mark).into_iter().find(&is_wanted);
            found.is_some()
        })?;
        Ok(found)
    }

    /// Waits for the process of a node, other than `not`. Returns `None` if the run ends before.
    pub(super) fn node(&mut self, name: &str, not: u32) -> Result<Option<u32>> {
        let found = self.process(|process| process.node() == Some(name) && process.id != not)?;
        Ok(found.map(|process| process.id))
    }

    /// Sets the expected size of the event files, for a run that was not started with a system.
    pub(super) fn expect_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    pub(super) fn signal(&self, name: &str) -> Result<()> {
        signal(self.id(), name)
    }

    /// Waits for the end of the run.
    pub(super) fn end(mut self) -> Result<Ended> {
        self.waits_for("it ends", |_| false)?;
        let status = self.child.wait().context("cannot wait for a process")?;
        Ok(Ended { status, stdout: read(&self.stdout), stderr: read(&self.stderr) })
    }

    /// Waits for a condition. Returns `false` if the run ends before. The watchdog restarts whenever more is written.
    fn waits_for(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Result<bool> {
        let (mut since, mut before) = (Instant::now(), written(&self.output));
        loop {
            let has_ended = self.child.try_wait().context("cannot wait for a process")?.is_some();
            // In this order: the condition may have become true just before the run ended.
            if holds(self) {
                return Ok(true);
            }
            if has_ended {
                return Ok(false);
            }
            let now = written(&self.output);
            if now != before {
                (since, before) = (Instant::now(), now);
            }
            if since.elapsed() > WATCHDOG {
                let said = read(&self.stderr);
                bail!("the watchdog waited in vain until {what}; {now} bytes are written; it said:\n{said}");
            }
            std::thread::sleep(PERIOD);
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Needed if the case has failed. Nodes end with their parent.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// Returns the total size of the event files of all runs below a directory, in bytes.
pub(super) fn written(output: &Path) -> u64 {
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_events = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|it| it == "sheaf");
    let files = below(output).flat_map(|run| below(&run.path()).collect::<Vec<_>>());
    files.filter(is_events).filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Returns the directory of the only run below a directory.
pub(super) fn run_directory(output: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(output).with_context(|| format!("cannot read {}", output.display()))?;
    let runs = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("run.json").is_file());
    let mut runs: Vec<PathBuf> = runs.collect();
    match runs.pop() {
        Some(run) if runs.is_empty() => Ok(run),
        _ => Err(anyhow!("there is not exactly one run in {}", output.display())),
    }
}
