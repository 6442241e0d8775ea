//! The directory of a run and its manifest, and how the directory is sealed at the end.

mod closing;
mod command_watch;
mod part;
pub(crate) mod remains;
mod reserve;
mod scratch;

pub(crate) use part::{HostPart, RunMark};
pub(crate) use scratch::Scratch;

use crate::commands::{CommandsEnd, RunCommands};
use crate::database::{self, Access};
use crate::objects::{self, RunObjects};
use crate::periodic::Periodic;
use crate::{console, hdf5, next, run_paths};
use anyhow::{Context, bail};
use closing::Closing;
use reserve::Reserve;
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, OutputKind};
use sheaf_node::report::RunReport;
use sheaf_protocol::output::Places;
use sheaf_store::draft_of;
use sheaf_store::run::{
    CodeRecord, ConfigurationOrigin, EndRecord, HistogramsRecord, Holder, HookRecord, HostRecord, LOCK_NAME,
    MANIFEST_NAME, Manifest, RunLock, SequenceRecord, SessionRecord, ValueRecord,
};
use sheaf_telemetry::log_as;
use sheaf_wire::{NodeId, RunNumber, SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Accepted events that count as stored, for each session that stored.
pub(crate) type Stored = BTreeMap<(NodeId, SessionId), Counting>;

/// Which events of a session count: those below a number, but for some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counting {
    pub(crate) committed: u64,
    /// First and last of each gap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) void: Vec<[u64; 2]>,
}

impl Counting {
    fn into_record(self, (node, session): (NodeId, SessionId), sealed: bool) -> SessionRecord {
        SessionRecord { node, session, committed: self.committed, void: self.void, sealed }
    }
}

/// Returns the events that count as stored according to the event manager.
pub(crate) fn stored(report: &RunReport) -> Stored {
    let of_builder = |committed: &u64| Counting { committed: *committed, void: Vec::new() };
    let builders = report.committed.iter().map(|(key, committed)| (*key, of_builder(committed)));
    let of_output = |places: &Places| Counting {
        committed: places.end(),
        void: places.gaps().map(|(first, last)| [first, last]).collect(),
    };
    builders.chain(report.kept.iter().map(|(key, places)| (*key, of_output(places)))).collect()
}

/// The directory of a run, made and empty.
pub(crate) struct RunDirectory {
    pub(crate) path: PathBuf,
    /// Shared with the thread that keeps the commands in it up to date.
    manifest: Arc<Mutex<Manifest>>,
    /// Marks the run as in progress until it is closed.
    _lock: RunLock,
    reserve: Option<Reserve>,
    /// Object store for its files.
    objects: Option<Box<dyn RunObjects>>,
    /// Names the files that are uploaded and those that become HDF5.
    config: Config,
}

impl RunDirectory {
    /// Gives the run a number if it has none, and makes its directory. `None` where nothing is written.
    pub(crate) fn create(config: &mut Config, now: Timestamp) -> anyhow::Result<Option<Self>> {
        if config.output.kind == OutputKind::None {
            if config.run.number == RunNumber(0) {
                config.run.number = next_number(&config.run.output)?;
            }
            return Ok(None);
        }
        let (path, lock) = claim(config)?;
        let directory = Self::furnish(&path, lock, config, now);
        if directory.is_err() {
            // A run that cannot be leaves no directory behind.
            let _ = fs::remove_dir_all(&path);
        }
        directory.map(Some)
    }

    fn furnish(path: &Path, lock: RunLock, config: &Config, now: Timestamp) -> anyhow::Result<Self> {
        let objects = objects::of(config)?;
        hdf5::check(config)?;
        let reserve = Some(Reserve::create(path)?);
        let manifest = Manifest::new(config.run.number, crate::SOFTWARE, now, &config.to_toml());
        manifest.write(path)?;
        if let Some(objects) = &objects {
            objects.begin(path, config.run.overwrite)?;
        }
        let manifest = Arc::new(Mutex::new(manifest));
        Ok(Self { path: path.to_owned(), manifest, _lock: lock, reserve, objects, config: config.clone() })
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the manifest, and writes it.
    fn note(&self, change: impl FnOnce(&mut Manifest)) -> anyhow::Result<()> {
        let mut manifest = self.manifest();
        change(&mut manifest);
        Ok(manifest.write(&self.path)?)
    }

    /// Records the code that the run loads.
    pub(crate) fn note_code(&self, code: Vec<CodeRecord>) -> anyhow::Result<()> {
        self.note(|manifest| manifest.code = code)
    }

    /// Records the file of histograms, if there is one. It is written when the run is closed.
    pub(crate) fn note_histograms(&self, histograms: Option<HistogramsRecord>) {
        self.manifest().histograms = histograms;
    }

    /// Records the values from outside. They are written when the run is closed.
    pub(crate) fn note_values(&self, values: Vec<ValueRecord>) {
        self.manifest().values = values;
    }

    /// Records the name and the origin of the configuration, and the row of a sequence that the run was made for, if there are any.
    pub(crate) fn note_origin(
        &self,
        (configuration_name, from): (Option<String>, Option<ConfigurationOrigin>),
        sequence: Option<SequenceRecord>,
    ) -> anyhow::Result<()> {
        if configuration_name.is_none() && from.is_none() && sequence.is_none() {
            return Ok(());
        }
        self.note(|manifest| {
            manifest.configuration_name = configuration_name;
            manifest.configuration_from = from;
            manifest.sequence = sequence;
        })
    }

    /// Records the hooks that were called before the start.
    pub(crate) fn note_hooks(&self, hooks: Vec<HookRecord>) -> anyhow::Result<()> {
        if hooks.is_empty() {
            return Ok(());
        }
        self.note(|manifest| manifest.hooks = hooks)
    }

    /// Keeps the commands in the manifest up to date until the run ends, so that they are there if its process dies.
    pub(crate) fn watch_commands(&self, commands: &Arc<RunCommands>) -> anyhow::Result<Periodic<()>> {
        command_watch::begin(self.manifest.clone(), self.path.clone(), commands.clone())
    }

    /// Records the commands with what became of them. They are written when the run is closed.
    pub(crate) fn note_commands(&self, commands: &RunCommands, end: &CommandsEnd<'_>) {
        commands.fill(&mut self.manifest(), Some(end));
    }

    /// Removes the directory of a run that cannot begin.
    pub(crate) fn abandon(mut self) {
        drop(self.reserve.take());
        // The log would be made again while the directory is removed.
        console::close_log();
        Self::remove(&self.path);
    }

    /// Begins the run: from now on, its directory is that of the run in progress.
    pub(crate) fn begin(&self) {
        remains::expect(&self.path);
    }

    fn remove(path: &Path) {
        if let Err(error) = fs::remove_dir_all(path) {
            log_as!(FILE_NOT_REMOVED; "cannot remove {}, which has no run: {error}", path.display());
        }
        remains::forget(path);
    }

    /// Closes the run: removes events that dead builders or output nodes had written but not reported, and writes the
    /// manifest. All of these nodes must have ended. Agents close the parts of the run on their `hosts` meanwhile.
    pub(crate) fn close(
        mut self,
        stored: &Stored,
        (ledger, end): (serde_json::Value, EndRecord),
        now: Timestamp,
        others: Option<&dyn OtherParts>,
    ) -> anyhow::Result<()> {
        drop(self.reserve.take());
        remains::forget(&self.path);
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let manifest = &mut *manifest;
        (manifest.ended, manifest.end) = (Some(now), Some(end));
        manifest.ledger = ledger;
        manifest.sessions = sealed_sessions(stored);
        let records = others.map_or_else(Vec::new, OtherParts::records);
        let elsewhere: BTreeSet<NodeId> =
            records.iter().flat_map(|host| host.nodes.iter().copied()).collect();
        if let Some(others) = others.filter(|_| !records.is_empty()) {
            let directory = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
            let this = HostRecord { host: next::host(), agent: None, directory, nodes: others.nodes_here() };
            manifest.hosts = std::iter::once(this).chain(records).collect();
            manifest.part = Some(0);
        }
        others.map(|others| others.begin_close(manifest)).transpose()?;
        let here = |node: NodeId| !elsewhere.contains(&node);
        let closed = Closing {
            path: &self.path,
            manifest,
            objects: self.objects.as_deref(),
            config: &self.config,
            here: &here,
        }
        .close();
        let Some(others) = others else { return closed };
        let (parts, others_closed) = others.wait();
        closed?;
        for part in parts {
            manifest.take_part(part);
        }
        manifest.write(&self.path)?;
        self.objects.as_ref().map_or(Ok(()), |objects| objects.put_manifest(&self.path))?;
        others_closed
    }
}

/// Returns the records of sessions that are sealed when the run is closed.
fn sealed_sessions(stored: &Stored) -> Vec<SessionRecord> {
    stored.iter().map(|(key, counting)| counting.clone().into_record(*key, true)).collect()
}

/// The parts of a run on other hosts.
pub(crate) trait OtherParts {
    /// Returns the hosts, with the nodes whose files are there. A host that shares the directory of the run is none of them.
    fn records(&self) -> Vec<HostRecord>;

    /// Returns the nodes whose files are on this host.
    fn nodes_here(&self) -> Vec<NodeId>;

    /// Has all hosts close their parts; `manifest` is that of the run.
    ///
    /// # Errors
    /// They cannot be asked.
    fn begin_close(&self, manifest: &Manifest) -> anyhow::Result<()>;

    /// Waits for all hosts. Returns the manifests of the parts that are closed, and the hosts whose parts are not.
    fn wait(&self) -> (Vec<Manifest>, anyhow::Result<()>);
}

/// The manifest of a run whose builders write elsewhere, or may still be closing their files when it is written. Files
/// are not truncated; readers ignore events that do not count.
pub(crate) struct SharedManifest {
    path: PathBuf,
    manifest: Manifest,
    /// Marks the run as in progress until it is closed. `None` if another event manager of the run has marked it, and is frozen.
    _lock: Option<RunLock>,
    objects: Option<Box<dyn RunObjects>>,
}

impl SharedManifest {
    /// Begins the manifest of a run whose event manager has been succeeded: it replaces that of the former one, if it is there.
    pub(crate) fn succeed(
        path: &Path,
        (config, name): (&Config, Option<String>),
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = lock(path, false).ok();
        let mut manifest = Manifest::new(config.run.number, crate::SOFTWARE, now, &config.to_toml());
        manifest.configuration_name = name;
        Ok(Self { path: path.to_owned(), manifest, _lock: lock, objects: objects::of(config)? })
    }

    /// Returns whether the run at `path` has begun and was not closed.
    pub(crate) fn is_open(path: &Path) -> anyhow::Result<bool> {
        Ok(Manifest::read(path)?.is_some_and(|manifest| manifest.ended.is_none()))
    }

    /// Begins the run's manifest. Builders may have begun their files already.
    pub(crate) fn begin(
        path: &Path,
        (config, name): (&Config, Option<String>),
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        if path.join(MANIFEST_NAME).exists() {
            bail!("{} already has a run; choose another run.number or run.output", path.display());
        }
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = lock(path, false)?;
        let mut manifest = Manifest::new(config.run.number, crate::SOFTWARE, now, &config.to_toml());
        manifest.configuration_name = name;
        manifest.write(path)?;
        hdf5::check(config)?;
        let objects = objects::of(config)?;
        if let Some(objects) = &objects {
            objects.begin(path, false)?;
        }
        Ok(Self { path: path.to_owned(), manifest, _lock: Some(lock), objects })
    }

    /// Records the file of histograms, if there is one. It is written when the run is closed.
    pub(crate) fn note_histograms(&mut self, histograms: Option<HistogramsRecord>) {
        self.manifest.histograms = histograms;
    }

    /// Writes the final manifest; removes the manifest if the run did not begin, so that it can be started again.
    pub(crate) fn close(
        mut self,
        report: &RunReport,
        (ledger, end): (serde_json::Value, EndRecord),
        now: Timestamp,
    ) -> anyhow::Result<()> {
        remains::forget(&self.path);
        if report.started_at.is_none() {
            let path = self.path.join(MANIFEST_NAME);
            return fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()));
        }
        let record = |(key, counting): ((NodeId, SessionId), Counting)| counting.into_record(key, false);
        self.manifest.sessions = stored(report).into_iter().map(record).collect();
        self.manifest.ledger = ledger;
        (self.manifest.ended, self.manifest.end) = (Some(now), Some(end));
        self.manifest.write(&self.path)?;
        self.objects.map_or(Ok(()), |objects| objects.put_manifest(&self.path))
    }
}

/// Returns whether nothing is in a directory, or it does not exist. The draft of a manifest is nothing: its writer was killed before the run began.
fn is_empty(path: &Path) -> anyhow::Result<bool> {
    let list = || -> std::io::Result<bool> {
        let draft = draft_of(&path.join(MANIFEST_NAME));
        for entry in fs::read_dir(path)? {
            if entry?.path() != draft {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match list() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        listed => listed.with_context(|| format!("cannot read directory {}", path.display())),
    }
}

/// Makes the directory of a run and locks it. A run without a number gets the next one that is free: of several that begin at the
/// same time, each makes another directory.
fn claim(config: &mut Config) -> anyhow::Result<(PathBuf, RunLock)> {
    let output = config.run.output.clone();
    if output.exists() && !output.is_dir() {
        bail!(
            "cannot create run directories in {}: it is not a directory; choose one with --output or run.output",
            output.display()
        );
    }
    fs::create_dir_all(&output).with_context(|| format!("cannot create directory {}", output.display()))?;
    let makes_more = config.run.runs != Some(1);
    if config.run.number == RunNumber(0) {
        loop {
            config.run.number = match Access::of(config)?.filter(Access::gives_numbers) {
                Some(access) => {
                    RunNumber(database::next_number(&access, &output, next_number(&output)?.0 - 1)?)
                }
                None => next_number(&output)?,
            };
            let path = run_paths::path_of(config);
            match fs::create_dir(&path) {
                Ok(()) => return lock(&path, makes_more).map(|lock| (path, lock)),
                // Another run has taken the number since. The next iteration sees its directory.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    config.run.number = RunNumber(0);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create {}", path.display()));
                }
            }
        }
    }
    let path = run_paths::path_of(config);
    let holder = RunLock::holder(&path);
    if let Some(holder) =
        holder.with_context(|| format!("cannot tell which process writes {}", path.display()))?
    {
        bail!("{} is written by process {} of host {}", path.display(), holder.process, holder.host);
    }
    if !is_empty(&path)? {
        if !config.run.overwrite {
            bail!(
                "{} already has files; choose another run.number or --output, or set run.overwrite",
                path.display()
            );
        }
        fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
    }
    fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    lock(&path, makes_more).map(|lock| (path, lock))
}

fn lock(path: &Path, makes_more: bool) -> anyhow::Result<RunLock> {
    let holder = Holder { process: std::process::id(), host: next::host(), makes_more };
    RunLock::take(path, &holder).with_context(|| {
        format!("cannot take {}; has another process begun the same run?", path.join(LOCK_NAME).display())
    })
}

/// One more than the highest run that has a directory in `output`.
fn next_number(output: &Path) -> anyhow::Result<RunNumber> {
    let entries = match fs::read_dir(output) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(RunNumber(1)),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read directory {}", output.display()));
        }
    };
    let number = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("run")?.parse::<u32>().ok()
    };
    let highest = entries.filter_map(number).max().unwrap_or(0);
    highest.checked_add(1).map(RunNumber).context("all run numbers are taken; set run.number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Reading the highest number first and then creating the directory would use a number twice.
    #[test]
    fn runs_that_begin_at_the_same_time_have_numbers_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let take = || {
            let mut config = Config::default();
            config.run.output = place.path().join("runs");
            let directory = RunDirectory::create(&mut config, Timestamp(1)).unwrap().unwrap();
            (config.run.number, directory.path)
        };
        let taken: Vec<_> = thread::scope(|scope| {
            let takers: Vec<_> = (0..24).map(|_| scope.spawn(|| [take(), take(), take()])).collect();
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
        });
        let numbers: BTreeSet<_> = taken.iter().map(|(number, _)| number.0).collect();
        assert_eq!(numbers, (1..=72).collect(), "each one, and none left out");
        for (number, path) in &taken {
            assert_eq!(Manifest::read(path).unwrap().unwrap().run, *number);
        }
    }

    #[test]
    fn a_directory_has_one_run() {
        let place = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        (config.run.output, config.run.number) = (place.path().to_owned(), RunNumber(5));
        config.run.overwrite = true;
        let first = RunDirectory::create(&mut config, Timestamp(1)).unwrap().unwrap();
        let error = RunDirectory::create(&mut config, Timestamp(1)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("is written by process"), "{error}");
        drop(first);
        assert!(RunDirectory::create(&mut config, Timestamp(1)).is_ok());
    }
}
