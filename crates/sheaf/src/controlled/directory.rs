//! The directory of a launch: where the process of a run and its controllers find each other.

use super::line::Ended;
use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sheaf_control::CommandLog;
use sheaf_machine::process::ProcessId;
use sheaf_machine::{connect_to, listen_at};
use sheaf_store::write_whole;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET: &str = "socket";
const PROCESS: &str = "process.json";
const RESULT: &str = "result.json";
const HOOKS: &str = "hooks-";
const COMMANDS: &str = "commands.json";
const LOG: &str = "log";

/// Number and size of a file. Each change makes another file.
type FileState = (u64, u64);

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct LaunchDirectory {
    path: PathBuf,
}

impl LaunchDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Makes the directory, for this user only: who can write in it directs the run.
    pub(crate) fn create(&self) -> io::Result<()> {
        // An attempt of a controller that died before it had started the process.
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => DirBuilder::new().mode(0o700).create(&self.path),
        }
    }

    /// Makes the file that takes the output of the process. It is locked as long as a process has it open, from the moment in which that is
    /// started.
    pub(crate) fn create_log(&self) -> io::Result<File> {
        let log = File::create(self.log())?;
        log.lock()?;
        Ok(log)
    }

    /// Returns whether a process was started for this launch, also if it has not come so far as to note itself.
    pub(crate) fn has_begun(&self) -> bool {
        let has_noted = || self.process().is_some() || self.result().is_some();
        let is_locked = || File::open(self.log()).is_ok_and(|log| log.try_lock_shared().is_err());
        // In this order, and the first one again: a process may note itself and end between the two.
        has_noted() || is_locked() || has_noted()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// File that takes standard output and standard error of the process.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Notes the calling process.
    pub(super) fn note_process(&self) -> anyhow::Result<()> {
        self.write(PROCESS, &ProcessId::own()?)
    }

    /// Returns the process, if it has come so far.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        serde_json::from_slice(&fs::read(self.path.join(PROCESS)).ok()?).ok()
    }

    pub(super) fn write_result(&self, ended: &Ended) -> anyhow::Result<()> {
        self.write(RESULT, ended)
    }

    /// Returns the result that the process has left, if it has.
    pub(crate) fn result(&self) -> Option<Ended> {
        serde_json::from_slice(&fs::read(self.path.join(RESULT)).ok()?).ok()
    }

    /// Leaves hooks that are to be called when a run has ended, in case that its process dies.
    pub(crate) fn owe_hooks(&self, run: u32, hooks: &impl Serialize) -> anyhow::Result<()> {
        self.write(&format!("{HOOKS}{run}.json"), hooks)
    }

    /// Returns hooks that nobody has called, with the numbers of their runs, in ascending order.
    pub(crate) fn owed_hooks<T: DeserializeOwned>(&self) -> Vec<(u32, T)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let owed = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let run = name.strip_prefix(HOOKS)?.strip_suffix(".json")?.parse().ok()?;
            Some((run, serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?))
        });
        let mut owed: Vec<(u32, T)> = owed.collect();
        owed.sort_by_key(|(run, _)| *run);
        owed
    }

    /// Notes that those of a run have been called.
    pub(crate) fn forget_hooks(&self, run: u32) {
        // Without hooks there is no such file. If it stays, they may be called again, which is better than never.
        let _ = fs::remove_file(self.path.join(format!("{HOOKS}{run}.json")));
    }

    /// Leaves the commands of the run for its record.
    pub(crate) fn write_commands(&self, commands: &CommandLog) -> anyhow::Result<()> {
        self.write(COMMANDS, commands)
    }

    /// Returns the commands of the run, if they have changed since `seen`.
    pub(crate) fn changed_commands(&self, seen: &mut Option<FileState>) -> Option<CommandLog> {
        let path = self.path.join(COMMANDS);
        let metadata = fs::metadata(&path).ok()?;
        let state = (metadata.ino(), metadata.len());
        if *seen == Some(state) {
            return None;
        }
        let commands = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        *seen = Some(state);
        Some(commands)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let path = self.path.join(name);
        write_whole(&path, &serde_json::to_vec(value)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        listen_at(&self.path.join(SOCKET))
    }

    /// Calls the process.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        connect_to(&self.path.join(SOCKET))
    }
}
