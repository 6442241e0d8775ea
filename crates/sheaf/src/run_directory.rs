//! The directory of a run and its manifest, and how the directory is sealed at the end.

pub(crate) mod remains;

use crate::objects::{self, RunObjects};
use crate::{console, hdf5, next, run_paths};
use anyhow::{Context, bail};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, OutputKind};
use sheaf_node::report::RunReport;
use sheaf_protocol::output::Places;
use sheaf_store::event_file::{ClosedFile, FileName, SessionName};
use sheaf_store::run::{
    CodeRecord, EndRecord, HistogramsRecord, Holder, HookRecord, LOCK_NAME, MANIFEST_NAME, Manifest, RunLock,
    SequenceRecord, SessionRecord, closed_files, remove_list, seal_session,
};
use sheaf_telemetry::log_as;
use sheaf_wire::{NodeId, RunNumber, SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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
    manifest: Manifest,
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
        remains::expect(path);
        Ok(Self { path: path.to_owned(), manifest, _lock: lock, reserve, objects, config: config.clone() })
    }

    /// Records the code that the run loads.
    pub(crate) fn note_code(&mut self, code: Vec<CodeRecord>) -> anyhow::Result<()> {
        self.manifest.code = code;
        Ok(self.manifest.write(&self.path)?)
    }

    /// Records the file of histograms, if there is one. It is written when the run is closed.
    pub(crate) fn note_histograms(&mut self, histograms: Option<HistogramsRecord>) {
        self.manifest.histograms = histograms;
    }

    /// Records the row of a sequence that the run belongs to, if it does.
    pub(crate) fn note_sequence(&mut self, sequence: Option<SequenceRecord>) -> anyhow::Result<()> {
        if sequence.is_some() {
            self.manifest.sequence = sequence;
            self.manifest.write(&self.path)?;
        }
        Ok(())
    }

    /// Records the hooks that were called before the start.
    pub(crate) fn note_hooks(&mut self, hooks: Vec<HookRecord>) -> anyhow::Result<()> {
        if !hooks.is_empty() {
            self.manifest.hooks = hooks;
            self.manifest.write(&self.path)?;
        }
        Ok(())
    }

    /// Removes the directory of a run that cannot begin.
    pub(crate) fn abandon(mut self) {
        drop(self.reserve.take());
        // The log would be made again while the directory is removed.
        console::close_log();
        if let Err(error) = fs::remove_dir_all(&self.path) {
            log_as!(FILE_NOT_REMOVED; "cannot remove {}, which has no run: {error}", self.path.display());
        }
        remains::forget();
    }

    /// Closes the run: removes events that dead builders or output nodes had written but not reported, and writes the
    /// manifest. All of these nodes must have ended.
    pub(crate) fn close(
        mut self,
        stored: &Stored,
        (ledger, end): (serde_json::Value, EndRecord),
        now: Timestamp,
    ) -> anyhow::Result<()> {
        drop(self.reserve.take());
        remains::forget();
        let run = self.manifest.run;
        let sessions = with_unknown_sessions(&self.path, stored)?;
        let before = event_files(&self.path)?;
        for (key, counting) in &sessions {
            self.manifest.sessions.push(seal(&self.path, run, *key, counting.clone())?);
        }
        let names =
            || sessions.keys().map(|(node, session)| SessionName { run, node: *node, session: *session });
        self.list_files(names())?;
        self.list_removed(&before)?;
        (self.manifest.ended, self.manifest.end) = (Some(now), Some(end));
        self.manifest.ledger = ledger;
        // The events that count are on this disk, even if HDF5 conversion or the upload fails.
        self.manifest.write(&self.path)?;
        if hdf5::is_used(&self.config) {
            for record in &self.manifest.sessions {
                hdf5::settle(&self.config, &self.path, run, record)?;
            }
            self.list_files(names())?;
            self.list_removed(&before)?;
            self.manifest.write(&self.path)?;
        }
        if let Some(objects) = self.objects.take() {
            self.settle(&*objects).with_context(|| {
                format!(
                    "the upload of this run is incomplete; when the object store is available, run `sheaf upload {}`",
                    self.path.display()
                )
            })?;
        }
        // The content of the lists is now in the manifest.
        for name in names() {
            remove_list(&self.path, name)
                .with_context(|| format!("cannot remove the list of closed files of {name}"))?;
        }
        Ok(())
    }

    /// Has the manifest list the closed files of these sessions as they are now.
    fn list_files(&mut self, sessions: impl Iterator<Item = SessionName>) -> anyhow::Result<()> {
        let files = sessions.map(|name| closed_files(&self.path, name)).collect::<Result<Vec<_>, _>>()?;
        self.manifest.files = files.concat();
        Ok(())
    }

    /// Lists files of `before` that no longer exist in the manifest, by their object names. Builders may have uploaded
    /// them, and a later `sheaf upload` knows them only from the manifest.
    fn list_removed(&mut self, before: &BTreeSet<FileName>) -> anyhow::Result<()> {
        let after = event_files(&self.path)?;
        let config = &self.config;
        let uploaded = |name: &&FileName| objects::is_uploaded(config, name.stream.as_str());
        let object = |name: &FileName| match hdf5::is_hdf5(config, name.stream.as_str()) {
            true => name.hdf5(),
            false => name.to_string(),
        };
        self.manifest.removed_objects = before.difference(&after).filter(uploaded).map(object).collect();
        Ok(())
    }

    /// Makes the object store match the sealed files, and uploads the manifest for its readers.
    fn settle(&mut self, objects: &dyn RunObjects) -> anyhow::Result<()> {
        let config = &self.config;
        let is_uploaded = |file: &&ClosedFile| objects::is_uploaded(config, file.stream.as_str());
        let mut files: Vec<ClosedFile> = self.manifest.files.iter().filter(is_uploaded).cloned().collect();
        objects.settle(&self.path, &mut files, &self.manifest.removed_objects)?;
        objects::merge(&mut self.manifest.files, &files);
        self.manifest.removed_objects.clear();
        self.manifest.write(&self.path)?;
        objects.put_manifest(&self.path)
    }
}

/// The event files in a directory.
fn event_files(directory: &Path) -> anyhow::Result<BTreeSet<FileName>> {
    let list = || -> std::io::Result<BTreeSet<_>> {
        let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
        Ok(entries
            .into_iter()
            .filter_map(|entry| FileName::parse_either(entry.file_name().to_str()?))
            .collect())
    };
    list().with_context(|| format!("cannot read directory {}", directory.display()))
}

/// Returns the sessions of the run, including those that ended before the event manager received any event from them.
/// None of the events in the latter count.
fn with_unknown_sessions(directory: &Path, stored: &Stored) -> anyhow::Result<Stored> {
    let mut all = stored.clone();
    for name in event_files(directory)? {
        all.entry((name.node, name.session)).or_default();
    }
    Ok(all)
}

/// Truncates the files of a session after the last event that counts.
fn seal(
    directory: &Path,
    run: RunNumber,
    (node, session): (NodeId, SessionId),
    counting: Counting,
) -> anyhow::Result<SessionRecord> {
    let sealed = seal_session(directory, SessionName { run, node, session }, counting.committed)?;
    if sealed.void > 0 {
        log_as!(
            EVENTS_VOID, node = node;
            "{node}: {} events at the end of the files of session {:x} do not count and are cut off: they had not \
             been reported to the event manager when it gave up that session. Each was built again, or is booked as dropped",
            sealed.void,
            session.0
        );
    }
    if sealed.missing > 0 {
        log_as!(
            EVENTS_MISSING, node = node;
            "{node}: {} events that it reported as stored are not in its files", sealed.missing
        );
    }
    Ok(counting.into_record((node, session), true))
}

/// Room that is kept in the directory of a run while it lasts, so that the run can be closed when the disk has become
/// full: the index of every file, and the manifest. Given back when dropped.
#[derive(Debug)]
struct Reserve {
    path: PathBuf,
}

const RESERVE_NAME: &str = "reserve";

/// Enough for the index of 250,000 events in files that are not closed yet.
const RESERVE_BYTES: u64 = 4 << 20;

impl Reserve {
    fn create(directory: &Path) -> anyhow::Result<Self> {
        let reserve = Self { path: directory.join(RESERVE_NAME) };
        let file = fs::File::create(&reserve.path)
            .with_context(|| format!("cannot write into {}", directory.display()))?;
        match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
            // A file system that cannot reserve is used as it is.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(reserve),
            Err(error) => Err(error).with_context(|| {
                format!("cannot reserve {} MiB in {}", RESERVE_BYTES >> 20, directory.display())
            }),
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log_as!(FILE_NOT_REMOVED; "cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The manifest of a run whose builders write elsewhere, or may still be closing their files when it is written. Files
/// are not truncated; readers ignore events that do not count.
pub(crate) struct SharedManifest {
    path: PathBuf,
    manifest: Manifest,
    /// Marks the run as in progress until it is closed.
    _lock: RunLock,
    objects: Option<Box<dyn RunObjects>>,
}

impl SharedManifest {
    /// Begins the run's manifest. Builders may have begun their files already.
    pub(crate) fn begin(path: &Path, config: &Config, now: Timestamp) -> anyhow::Result<Self> {
        if path.join(MANIFEST_NAME).exists() {
            bail!("{} already has a run; choose another run.number or run.output", path.display());
        }
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = lock(path, false)?;
        let manifest = Manifest::new(config.run.number, crate::SOFTWARE, now, &config.to_toml());
        manifest.write(path)?;
        hdf5::check(config)?;
        let objects = objects::of(config)?;
        if let Some(objects) = &objects {
            objects.begin(path, false)?;
        }
        remains::expect(path);
        Ok(Self { path: path.to_owned(), manifest, _lock: lock, objects })
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
        remains::forget();
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

/// Directory for a run's temporary files: its own directory, or a temporary one that is removed at the end.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
    temporary: bool,
}

impl Scratch {
    pub(crate) fn new(directory: Option<&RunDirectory>) -> anyhow::Result<Self> {
        if let Some(directory) = directory {
            return Ok(Self { path: directory.path.clone(), temporary: false });
        }
        Self::temporary(&format!("sheaf-{}", std::process::id()))
    }

    /// A temporary one, of a process that takes part in a run.
    pub(crate) fn of_run(run: RunNumber) -> anyhow::Result<Self> {
        Self::temporary(&format!("sheaf-{}-run{run}", std::process::id()))
    }

    fn temporary(name: &str) -> anyhow::Result<Self> {
        // The name can be guessed and anyone may write in this directory: only a new directory is private to this user.
        let mut path = std::env::temp_dir().join(name);
        for number in 1.. {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => {
                    path = std::env::temp_dir().join(format!("{name}-{number}"));
                }
                created => {
                    created.with_context(|| format!("cannot create {}", path.display()))?;
                    break;
                }
            }
        }
        Ok(Self { path, temporary: true })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn is_empty(path: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("cannot read directory {}", path.display())),
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
            config.run.number = next_number(&output)?;
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
