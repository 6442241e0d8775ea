//! Owners of namespaces. The owner is in the name of a namespace, so that no other record is needed, and a lab whose
//! process was killed can be distinguished from a live one.
//!
//! The name is `sheaf-lab.OWNER.HOST`. An owner is a process, by its number and its start time (a reused number has
//! another start time), or a name for a lab that stays until it is taken down.

use crate::tools::{ToolError, batch};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Prefix of all names of namespaces.
const PREFIX: &str = "sheaf-lab";

/// Directory in which iproute2 keeps named namespaces.
const NAMESPACES: &str = "/run/netns";

/// Time that killed processes may take to disappear.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whose a lab is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A process: its number, and its start time in ticks since the machine's start.
    Process {
        /// Its number.
        pid: u32,
        /// Its start time.
        start: u64,
    },
    /// A lab with a name, that stays until it is taken down.
    Kept(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, start } => write!(f, "process-{pid}-{start}"),
            Self::Kept(name) => write!(f, "kept-{name}"),
        }
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(name) = text.strip_prefix("kept-") {
            return if is_name(name) { Ok(Self::Kept(name.to_owned())) } else { Err(()) };
        }
        let (pid, start) = text.strip_prefix("process-").and_then(|rest| rest.split_once('-')).ok_or(())?;
        Ok(Self::Process { pid: pid.parse().map_err(|_| ())?, start: start.parse().map_err(|_| ())? })
    }
}

/// Returns whether this is a valid name of a lab: it is a part of file names.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self::Process { pid, start: start_time(pid).unwrap_or(0) }
    }

    /// The namespace of the host or switch `host` of this owner's lab.
    #[must_use]
    pub fn namespace(&self, host: &str) -> String {
        format!("{PREFIX}.{self}.{host}")
    }

    /// Returns the directory of the configuration of this owner's processes.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        std::env::temp_dir().join(format!("{PREFIX}.{self}"))
    }

    /// Returns whether the process that would take this lab down has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        match self {
            Self::Process { pid, start } => start_time(*pid) != Some(*start),
            Self::Kept(_) => false,
        }
    }
}

/// The owner and the host of a namespace, if it is of a lab.
fn parse(namespace: &str) -> Option<(Owner, &str)> {
    let rest = namespace.strip_prefix(PREFIX)?.strip_prefix('.')?;
    let (owner, host) = rest.split_once('.')?;
    Some((owner.parse().ok()?, host))
}

/// Returns when a process began, in ticks since the machine's start; `None` if there is none, or only a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets, which may hold anything; the state is the third, the start the 22nd.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// The labs that there are, with their hosts and switches.
#[must_use]
pub fn labs() -> BTreeMap<Owner, BTreeSet<String>> {
    labs_in(Path::new(NAMESPACES))
}

fn labs_in(directory: &Path) -> BTreeMap<Owner, BTreeSet<String>> {
    let mut labs: BTreeMap<Owner, BTreeSet<String>> = BTreeMap::new();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for name in entries.map(|entry| entry.file_name()) {
        if let Some((owner, host)) = name.to_str().and_then(parse) {
            labs.entry(owner).or_default().insert(host.to_owned());
        }
    }
    labs
}

/// Removes an owner's lab: its processes, namespaces (with them the cables) and files. Returns the number of
/// namespaces. Another process may remove the same lab at the same time.
///
/// # Errors
/// If a namespace cannot be removed. The others are.
pub fn remove(owner: &Owner) -> Result<usize, ToolError> {
    let hosts = labs().remove(owner).unwrap_or_default();
    let namespaces: Vec<String> = hosts.iter().map(|host| owner.namespace(host)).collect();
    end_processes(&namespaces);
    let result = delete(&namespaces);
    let _ = std::fs::remove_dir_all(owner.directory());
    result.map(|()| namespaces.len())
}

fn delete(namespaces: &[String]) -> Result<(), ToolError> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let commands: String = namespaces.iter().map(|namespace| format!("netns del {namespace}\n")).collect();
    // `-force`, so that one that cannot be removed does not keep the others.
    let result = crate::tools::run("ip", &["-force", "-batch", "-"], &commands).map(|_| ());
    // The watcher of a killed process and `sheaf lab down` remove its lab, each without knowing of the other.
    let is_left = |namespace: &String| Path::new(NAMESPACES).join(namespace).exists();
    if namespaces.iter().any(is_left) { result } else { Ok(()) }
}

/// Removes the labs whose processes have died. Returns their owners.
///
/// # Errors
/// If a namespace cannot be removed.
pub fn reclaim() -> Result<Vec<Owner>, ToolError> {
    let dead: Vec<Owner> = labs().into_keys().filter(Owner::is_dead).collect();
    for owner in &dead {
        remove(owner)?;
    }
    Ok(dead)
}

/// Kills the processes in these namespaces, which a lab has made for its own use.
fn end_processes(namespaces: &[String]) {
    let deadline = Instant::now() + PATIENCE;
    let own: BTreeSet<(u64, u64)> =
        namespaces.iter().filter_map(|name| identity(&Path::new(NAMESPACES).join(name))).collect();
    loop {
        let pids = processes_in(&own);
        if pids.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in pids {
            // It may have ended on its own.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Device and inode, by which a namespace is known.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn processes_in(namespaces: &BTreeSet<(u64, u64)>) -> Vec<Pid> {
    let me = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let here = |pid: &u32| {
        let namespace = identity(&PathBuf::from(format!("/proc/{pid}/ns/net")));
        *pid != me && namespace.is_some_and(|namespace| namespaces.contains(&namespace))
    };
    pids.filter(here).filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}

/// Makes the namespaces of a lab.
///
/// # Errors
/// If one cannot be made.
pub(crate) fn make_namespaces(namespaces: &[String]) -> Result<(), ToolError> {
    let commands: String = namespaces.iter().map(|namespace| format!("netns add {namespace}\n")).collect();
    batch("ip", None, &commands)
}

#[cfg(test)]
mod tests;
