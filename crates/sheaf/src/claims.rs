//! Claims on parts of a system with partitions: a run claims its nodes, sources and addresses before it uses them.
//!
//! A claim is a file beside the runs that its process keeps locked. The lock is the kernel's, so that it ends with the process, however that
//! ends: there is no claim that somebody has to remove. Whoever takes a claim looks at all others under one more lock, so that of two that
//! begin at the same time one sees the other. No database is needed.

use crate::control_directory::ControlDirectory;
use crate::host_message::HostRun;
use crate::records::utc;
use crate::{next, people};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, NodeConfig};
use sheaf_node::Clock;
use sheaf_telemetry::log_as;
use sheaf_wire::Role;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Name of the directory beside the runs.
const NAME: &str = "claims";

/// Name of the lock under which claims are taken and changed.
const LOCK: &str = "lock";

const EXTENSION: &str = "json";

/// Time in which nodes end on a host whose run has died, or has ended in this moment.
const ENDING: Duration = Duration::from_secs(5);

/// Pause between two attempts to claim their nodes.
const PAUSE: Duration = Duration::from_millis(100);

/// Number of claims that this process has taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Process that a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) host: String,
    pub(crate) process: u32,
}

/// Claim of a run, and who made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClaimRecord {
    /// Partition; `None`: the whole system.
    pub(crate) partition: Option<String>,
    /// Run, as soon as it has a number.
    pub(crate) run: Option<u32>,
    #[serde(flatten)]
    pub(crate) owner: Owner,
    /// Who has started it.
    pub(crate) by: String,
    /// Milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// Page on which it is seen, if there is one.
    pub(crate) page: Option<String>,
    /// Directory of its controller, if it has one.
    pub(crate) controller: Option<PathBuf>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) sources: BTreeSet<u32>,
    pub(crate) addresses: BTreeSet<String>,
}

impl ClaimRecord {
    /// Returns the claim of a run of this configuration; `None` if its system has no partitions. `is_here` chooses the nodes.
    fn of(
        config: &Config,
        (owner, by): (Owner, String),
        is_here: impl Fn(&NodeConfig) -> bool,
    ) -> anyhow::Result<Option<Self>> {
        let partition = config.run.partition.clone();
        if config.partitions.is_empty() && partition.is_none() {
            return Ok(None);
        }
        let nodes: Vec<NodeConfig> = config.nodes()?.into_iter().filter(is_here).collect();
        // Without agents, nodes are on this host and find free addresses.
        let with_address = nodes.iter().filter(|_| config.has_agents());
        let addresses = with_address.flat_map(|node| node.address.iter().chain(&node.more_addresses));
        // Each run has an event manager of its own.
        let named = nodes.iter().filter(|node| node.id.role != Role::Manager);
        Ok(Some(Self {
            partition,
            run: None,
            owner,
            by,
            since_ms: Clock::new().now().as_millis(),
            page: None,
            controller: None,
            nodes: named.map(|node| node.name.clone()).collect(),
            sources: nodes.iter().flat_map(|node| node.sources.iter().map(|source| source.0)).collect(),
            addresses: addresses.cloned().collect(),
        }))
    }

    /// Returns something that both claim, in words.
    fn common(&self, other: &Self) -> Option<String> {
        let node = self.nodes.intersection(&other.nodes).next().map(|node| format!("node {node}"));
        let source =
            || self.sources.intersection(&other.sources).next().map(|source| format!("source {source}"));
        let address = || {
            let address = self.addresses.intersection(&other.addresses).next()?;
            Some(format!("the address {address}"))
        };
        node.or_else(source).or_else(address)
    }

    /// Returns who has it, in words: "run 12 of partition tracker".
    fn holder(&self) -> String {
        format!("{} of {}", run_in_words(self.run), part_in_words(self.partition.as_deref()))
    }

    /// Returns how the run is ended, in words.
    fn remedy(&self) -> String {
        match &self.controller {
            Some(directory) => format!("end it with `sheaf ctl stop --directory {}`", directory.display()),
            None => format!("end it with `kill -INT {}` on {}", self.owner.process, self.owner.host),
        }
    }

    /// Returns the reason why this claim keeps another one from being taken.
    fn refusal(&self, common: &str) -> String {
        let page = self.page.as_ref().map_or_else(String::new, |page| format!(", page {page}"));
        format!(
            "{common} is in use: {} has it since {} (started by {}, process {} on {}{page}); {}, or wait for its end; `sheaf partitions` \
             shows who has what",
            self.holder(),
            utc(self.since_ms * 1_000_000),
            self.by,
            self.owner.process,
            self.owner.host,
            self.remedy()
        )
    }
}

/// Returns a partition, in words.
pub(crate) fn part_in_words(partition: Option<&str>) -> String {
    partition.map_or_else(|| "the whole system".to_owned(), |name| format!("partition {name}"))
}

/// Returns a run, in words. One that is beginning has no number yet.
pub(crate) fn run_in_words(run: Option<u32>) -> String {
    run.map_or_else(|| "a new run".to_owned(), |run| format!("run {run}"))
}

/// A claim that this process has, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    directory: PathBuf,
    path: PathBuf,
    /// Keeps the lock.
    file: File,
    record: ClaimRecord,
}

/// Place where a run is seen and directed.
pub(crate) struct Seen<'a> {
    /// Address of its page.
    pub(crate) page: Option<String>,
    /// Directory of its launch by a controller.
    pub(crate) launch: Option<&'a Path>,
    /// Who has asked the controller for it.
    pub(crate) operator: Option<&'a str>,
}

impl Claim {
    /// Claims the nodes of the runs of this process.
    ///
    /// # Errors
    /// Who has something of it.
    pub(crate) fn take(config: &Config, seen: Seen<'_>) -> anyhow::Result<Option<Self>> {
        let owner = Owner { host: next::host(), process: std::process::id() };
        let by = seen.operator.map_or_else(people::user, str::to_owned);
        let Some(mut record) = ClaimRecord::of(config, (owner, by), |_| true)? else { return Ok(None) };
        let controller = seen.launch.and_then(ControlDirectory::of_launch);
        record.page = match &controller {
            Some(directory) => directory.read_address().ok(),
            None => seen.page,
        };
        record.controller = controller.map(|directory| directory.path().to_owned());
        Self::take_record(&config.run.output, record).map(Some)
    }

    /// Claims the nodes that a run has on this host, which its agent starts.
    ///
    /// # Errors
    /// Who has something of it.
    pub(crate) fn take_on_host(config: &Config, run: &HostRun) -> anyhow::Result<Option<Self>> {
        let owner = Owner { host: run.host.clone(), process: run.process };
        let is_here = |node: &NodeConfig| run.nodes.contains(&node.name);
        let record = ClaimRecord::of(config, (owner, "an agent".to_owned()), is_here)?;
        let record = record.map(|record| ClaimRecord { run: Some(run.number), ..record });
        let Some(record) = record else { return Ok(None) };
        let until = Instant::now() + ENDING;
        loop {
            match Self::take_record(&config.run.output, record.clone()) {
                Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
                taken => return taken.map(Some),
            }
        }
    }

    fn take_record(output: &Path, record: ClaimRecord) -> anyhow::Result<Self> {
        let directory = output.join(NAME);
        create(output, &directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let _one_at_a_time = lock(&directory)?;
        for other in live(&directory)? {
            // A run and its parts on other hosts have the same owner.
            if other.owner != record.owner
                && let Some(common) = record.common(&other)
            {
                bail!("{}", other.refusal(&common));
            }
        }
        // Numbers of processes are used again.
        let count = TAKEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{}-{count}", next::host(), std::process::id(), record.since_ms);
        let path = directory.join(name).with_extension(EXTENSION);
        let make = || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            file.lock()?;
            Ok::<_, std::io::Error>(file)
        };
        let file = make().with_context(|| {
            format!("cannot make and lock {}, which keeps partitions apart", path.display())
        })?;
        let mut claim = Self { directory, path, file, record };
        claim.write()?;
        Ok(claim)
    }

    /// Notes the number of the run that has begun. Nobody depends on it, so that a run goes on where it cannot be written.
    pub(crate) fn note_run(&mut self, run: u32) {
        self.record.run = Some(run);
        let noted = lock(&self.directory).and_then(|_one_at_a_time| self.write());
        if let Err(error) = noted {
            log_as!(CLAIM_NOT_NOTED; "others do not see that run {run} has its nodes: {}", crate::describe(&error));
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(&self.record)?;
        text.push(b'\n');
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&text)
        };
        write(&mut self.file).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A file that remains has no consequence: without its lock it means nothing.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the claims that processes have now beside these runs.
///
/// # Errors
/// They cannot be read.
pub(crate) fn read(output: &Path) -> anyhow::Result<Vec<ClaimRecord>> {
    let directory = output.join(NAME);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let _nobody_writes = lock(&directory)?;
    live(&directory)
}

/// Makes the directory, for those who may make runs beside it.
fn create(output: &Path, directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(output)?;
    match DirBuilder::new().create(directory) {
        Ok(()) => share(directory, output, 0o7777),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a file the permissions of a directory, of these bits.
fn share(path: &Path, like: &Path, bits: u32) -> std::io::Result<()> {
    let mode = fs::metadata(like)?.permissions().mode() & bits;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Waits until nobody else takes or changes a claim, and keeps others from it until the file is dropped.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join(LOCK);
    let lock = || {
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => {
                share(&path, directory, 0o666)?;
                file
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => open_to_lock(&path)?,
            Err(error) => return Err(error),
        };
        file.lock()?;
        Ok(file)
    };
    lock().with_context(|| format!("cannot lock {}, which keeps partitions apart", path.display()))
}

/// Opens the lock, also for those who may only look.
fn open_to_lock(path: &Path) -> std::io::Result<File> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    }
}

/// Returns the claims whose processes live, and removes the files of others. The lock of the directory is held.
fn live(directory: &Path) -> anyhow::Result<Vec<ClaimRecord>> {
    let unread = || format!("cannot read the claims in {}", directory.display());
    let mut live = Vec::new();
    for entry in fs::read_dir(directory).with_context(unread)? {
        let path = entry.with_context(unread)?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let unread = || format!("cannot read {}", path.display());
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // It was given back in this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(unread),
        };
        match file.try_lock_shared() {
            Ok(()) => {
                // Its process has died. Who may only look leaves it.
                let _ = fs::remove_file(&path);
                continue;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).with_context(unread),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(unread)?;
        live.push(serde_json::from_str(&text).with_context(|| {
            format!("{} cannot be understood; is it of another version of the program?", path.display())
        })?);
    }
    live.sort_by(|one: &ClaimRecord, other| {
        (&one.partition, one.since_ms).cmp(&(&other.partition, other.since_ms))
    });
    Ok(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: &str, nodes: &[&str], process: u32) -> ClaimRecord {
        ClaimRecord {
            partition: Some(partition.to_owned()),
            run: Some(7),
            owner: Owner { host: "daq1".into(), process },
            by: "anna".into(),
            since_ms: 1_800_000_000_000,
            page: Some("http://daq1:7070".into()),
            controller: None,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            sources: BTreeSet::new(),
            addresses: BTreeSet::new(),
        }
    }

    #[test]
    fn disjoint_claims_are_taken_and_a_common_node_is_refused_in_words() {
        let place = tempfile::tempdir().unwrap();
        let take = |record| Claim::take_record(place.path(), record);
        let tracker = take(record("tracker", &["ru0", "bu0"], 1)).unwrap();
        let calo = take(record("calo", &["ru1", "bu1"], 2)).unwrap();
        let error = take(record("cosmics", &["ru0", "bu2"], 3)).unwrap_err().to_string();
        for part in
            ["node ru0 is in use", "run 7 of partition tracker", "anna", "http://daq1:7070", "kill -INT 1"]
        {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
        // The same run has a part on another host.
        drop(take(record("tracker", &["ru0"], 1)).unwrap());
        assert_eq!(read(place.path()).unwrap().len(), 2);
        drop((tracker, calo));
        assert!(read(place.path()).unwrap().is_empty());
        drop(take(record("cosmics", &["ru0", "bu2"], 3)).unwrap());
    }

    #[test]
    fn what_a_dead_process_left_is_no_claim_and_goes() {
        let place = tempfile::tempdir().unwrap();
        drop(Claim::take_record(place.path(), record("a", &["ru0"], 1)).unwrap());
        let left = place.path().join(NAME).join("daq1-1-1.json");
        fs::write(&left, serde_json::to_vec(&record("a", &["ru0"], 1)).unwrap()).unwrap();
        drop(Claim::take_record(place.path(), record("b", &["ru0"], 2)).unwrap());
        assert!(!left.exists());
    }

    /// Looking first and claiming then would give a node to two.
    #[test]
    fn of_many_that_begin_at_the_same_time_one_gets_a_node() {
        let place = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(16);
        let taken: Vec<_> = std::thread::scope(|scope| {
            let take = |process: u32| {
                barrier.wait();
                Claim::take_record(place.path(), record(&format!("p{process}"), &["ru0"], process)).ok()
            };
            let takers: Vec<_> = (0..16).map(|process| scope.spawn(move || take(process))).collect();
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn the_number_of_a_run_is_noted_and_a_shorter_record_replaces_a_longer_one() {
        let place = tempfile::tempdir().unwrap();
        let mut claim = Claim::take_record(place.path(), record("a", &["ru0"], 1)).unwrap();
        for run in [123_456, 8] {
            claim.note_run(run);
            assert_eq!(read(place.path()).unwrap()[0].run, Some(run));
        }
    }
}
