//! The directory of a launch: where the process of a run and its controllers find each other.

use super::line::Ended;
use anyhow::Context as _;
use sheaf_machine::process::ProcessId;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET: &str = "socket";
const PROCESS: &str = "process.json";
const RESULT: &str = "result.json";
const LOG: &str = "log";

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
        DirBuilder::new().mode(0o700).create(&self.path)
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
        write_whole(&self.path.join(PROCESS), &serde_json::to_vec(&ProcessId::own()?)?)
    }

    /// Returns the process, if it has come so far.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        serde_json::from_slice(&fs::read(self.path.join(PROCESS)).ok()?).ok()
    }

    pub(super) fn write_result(&self, ended: &Ended) -> anyhow::Result<()> {
        write_whole(&self.path.join(RESULT), &serde_json::to_vec(ended)?)
    }

    /// Returns the result that the process has left, if it has.
    pub(crate) fn result(&self) -> Option<Ended> {
        serde_json::from_slice(&fs::read(self.path.join(RESULT)).ok()?).ok()
    }

    /// The name of a socket has at most 107 bytes, and a path may have more: so the directory is named by an open file.
    fn with_socket<T>(&self, act: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
        let directory = File::open(&self.path)?;
        act(PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())))
    }

    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        self.with_socket(UnixListener::bind)
    }

    /// Calls the process.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        self.with_socket(UnixStream::connect)
    }
}

/// Writes a file that is there as a whole, or as it was before, and survives a power cut.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> io::Result<()> {
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
