//! A process of this host that runs a node.

use super::{Life, NodeProcess, ProcessEnd, READY};
use crate::console;
use crate::node_output::{self, LastSigns, TakeRecord};
use crate::own_program::own_program;
use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use sheaf_config::NodeConfig;
use sheaf_key::RunKey;
use sheaf_machine::process::processor_ticks;
use sheaf_telemetry::log_as;
use sheaf_wire::{EventId, RunNumber};
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Settings that all processes of a run on one host share.
pub(crate) struct Launch {
    /// Configuration of the run, with the addresses of all nodes.
    pub(crate) config: PathBuf,
    /// By which nodes know each other, where the configuration names no key.
    pub(crate) key: Option<NodeKey>,
    /// Whether somebody wants the messages of the nodes.
    pub(crate) messages: bool,
    /// Whether somebody wants their metrics.
    pub(crate) metrics: bool,
    /// Whether somebody wants their stamps, for traces.
    pub(crate) stamps: bool,
    /// Whether they go on with runs that follow without a gap.
    pub(crate) goes_on: bool,
    /// The run in which the nodes have met, and the first event of this one, if it is one that follows.
    pub(crate) following: Option<(RunNumber, EventId)>,
}

impl Launch {
    /// Returns whether the nodes pass on records.
    pub(crate) fn passes_records(&self) -> bool {
        self.messages || self.metrics || self.stamps || self.goes_on
    }

    /// Starts the process of a node. `listener` is its socket, if others connect to it. `is_steered` is whether it takes requests of a
    /// controller. Returns the process, and the line for requests to it if it takes any.
    pub(crate) fn start(
        &self,
        node: &NodeConfig,
        listener: Option<&TcpListener>,
        is_steered: bool,
        take: Option<TakeRecord>,
    ) -> anyhow::Result<(LocalProcess, Option<UnixStream>)> {
        let stdin = match listener {
            Some(listener) => {
                Stdio::from(OwnedFd::from(listener.try_clone().context("cannot share a socket")?))
            }
            None => no_input()?,
        };
        let mut command = self.command(node, is_steered)?;
        let takes_requests = self.stamps || is_steered || self.goes_on;
        let sockets = takes_requests.then(UnixStream::pair).transpose().context("cannot make a socket")?;
        let (socket, its_end) = sockets.unzip();
        let stdout = its_end.map_or_else(Stdio::piped, |its_end| Stdio::from(OwnedFd::from(its_end)));
        command.stdin(stdin).stdout(stdout).process_group(0);
        sheaf_machine::ignoring_next_run_signal(&mut command);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", node.name))?;
        // The command has a copy of the end that the process writes to: as long as it lives, reading does not end.
        drop(command);
        let output: Box<dyn Read + Send> = match &socket {
            Some(socket) => Box::new(socket.try_clone().context("cannot share a socket")?),
            None => Box::new(child.stdout.take().context("standard output is a pipe")?),
        };
        let (listens, signs) = (Arc::new(AtomicBool::new(false)), Arc::new(LastSigns::default()));
        let said = read(&node.name, output, take, (listens.clone(), signs.clone()))?;
        let name = node.name.clone();
        Ok((LocalProcess { name, child, listens, said: Some(said), text: None, signs, ended: None }, socket))
    }

    fn command(&self, node: &NodeConfig, is_steered: bool) -> anyhow::Result<Command> {
        let program = own_program().with_context(|| {
            format!("cannot determine the path of this program, to start {}: a chroot needs /proc, by `mount -t proc proc DIRECTORY/proc`", node.name)
        })?;
        let mut command = Command::new(program);
        command.arg("node").arg(&self.config).arg(&node.name).args(["--supervised", "--json"]);
        if let Some(NodeKey(path)) = &self.key {
            command.arg("--run-key").arg(path);
        }
        if let Some((met_in, first)) = self.following {
            command.arg("--met-in").arg(met_in.to_string()).arg("--first-event").arg(first.to_string());
        }
        let arguments = [
            (self.messages || self.goes_on, "--logged"),
            (self.metrics, "--relay"),
            (self.stamps, "--traced"),
            (is_steered, "--steered"),
            (self.goes_on, "--goes-on"),
        ];
        command.args(arguments.iter().filter(|(is_given, _)| *is_given).map(|(_, argument)| argument));
        match console::verbosity() {
            log::LevelFilter::Off | log::LevelFilter::Error => command.arg("--quiet"),
            log::LevelFilter::Debug => command.arg("-v"),
            log::LevelFilter::Trace => command.arg("-vv"),
            _ => &mut command,
        };
        Ok(command)
    }
}

/// Opens the standard input of a process that reads nothing. `Stdio::null` would not say which file is missing.
fn no_input() -> anyhow::Result<Stdio> {
    let file = File::open("/dev/null").context(
        "cannot open /dev/null, the standard input of nodes: a chroot needs /dev, by `mount --rbind /dev DIRECTORY/dev`",
    )?;
    Ok(file.into())
}

/// Reads the output of a node on a thread of its own, so that the node never blocks on a full pipe.
fn read(
    name: &str,
    output: Box<dyn Read + Send>,
    take: Option<TakeRecord>,
    (is_ready, signs): (Arc<AtomicBool>, Arc<LastSigns>),
) -> anyhow::Result<JoinHandle<std::io::Result<String>>> {
    let mut pipe = BufReader::new(output);
    let read = move || {
        let mut first = [0; READY.len()];
        if pipe.read_exact(&mut first).is_ok() {
            is_ready.store(true, Ordering::Relaxed);
        }
        node_output::read(pipe, take, &signs)
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(read).context("cannot start a thread")
}

/// A process that has been started.
pub(crate) struct LocalProcess {
    name: String,
    child: Child,
    listens: Arc<AtomicBool>,
    /// Reads its standard output.
    said: Option<JoinHandle<std::io::Result<String>>>,
    text: Option<String>,
    signs: Arc<LastSigns>,
    ended: Option<ExitStatus>,
}

impl NodeProcess for LocalProcess {
    fn signal(&self, signal: Signal) -> Result<(), String> {
        match Pid::from_raw(self.child.id().cast_signed()).filter(|_| self.ended.is_none()) {
            Some(pid) => kill_process(pid, signal).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn kill(&mut self) {
        // It fails where the process has ended.
        let _ = self.child.kill();
    }

    fn try_wait(&mut self) -> anyhow::Result<Option<ProcessEnd>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().context("cannot wait for a process")?;
        }
        Ok(self.ended.map(ProcessEnd::from))
    }

    fn handles_signals(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    fn node_has_ended(&self) -> bool {
        self.signs.has_ended.load(Ordering::Relaxed)
    }

    fn life(&self) -> Life {
        (self.signs.lines.load(Ordering::Relaxed), processor_ticks(self.child.id()))
    }

    fn is_read(&self) -> bool {
        self.said.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn text(&mut self) -> anyhow::Result<String> {
        if let Some(said) = self.said.take() {
            let text = said.join().map_err(|_| anyhow!("a thread panicked: this is a bug in sheaf"))?;
            self.text = Some(text.with_context(|| format!("cannot read the output of {}", self.name))?);
        }
        Ok(self.text.clone().unwrap_or_default())
    }
}

impl Drop for LocalProcess {
    /// Whatever ends the parent's work early ends the process.
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A key for the links of one run, in a file that only this user can read and that is removed at the end of the run.
pub(crate) struct NodeKey(PathBuf);

impl NodeKey {
    /// Writes a key that was made for the run into `directory`.
    pub(crate) fn keep(directory: &Path, digits: &str) -> anyhow::Result<Self> {
        let path = directory.join("run.key");
        // Of a run that was killed, in a directory that is written again.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
        RunKey::write_file(&path, digits)?;
        Ok(Self(path))
    }
}

impl Drop for NodeKey {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            log_as!(FILE_NOT_REMOVED; "cannot remove {}: {error}", self.0.display());
        }
    }
}
