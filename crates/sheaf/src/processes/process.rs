//! The process of a node, as its parent sees it.

use crate::node_output::LastSigns;
use crate::summary::NodeSummary;
use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use sheaf_config::NodeConfig;
use sheaf_machine::process::processor_ticks;
use sheaf_node::restarts::Restarts;
use sheaf_telemetry::log_as;
use std::net::TcpListener;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) struct Process {
    pub(super) node: NodeConfig,
    pub(super) child: Child,
    /// Whether it handles signals.
    pub(super) listens: Arc<AtomicBool>,
    /// Reads its standard output, so that it never blocks on a full pipe.
    pub(super) said: Option<JoinHandle<std::io::Result<String>>>,
    /// Its whole standard output.
    pub(super) text: Option<String>,
    pub(super) signs: Arc<LastSigns>,
    /// Number of its last lines and its processor time, after the end of the event manager, and when one of the two was seen to change.
    pub(super) heard: ((u64, Option<u64>), Instant),
    pub(super) is_killed: bool,
    /// Kept to start the process again with the same address.
    pub(super) listener: Option<TcpListener>,
    pub(super) started: Instant,
    pub(super) restarts: Restarts,
    /// Exit status, once it has ended.
    pub(super) ended: Option<std::process::ExitStatus>,
}

impl Process {
    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).filter(|_| self.ended.is_none());
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, signal)
        {
            log_as!(SIGNAL_FAILED, peer = self.node.name; "cannot signal {}: {error}", self.node.name);
        }
    }

    /// Returns the time since its last sign of life, after the end of the event manager.
    pub(super) fn silence(&mut self, manager_ended: Instant) -> Duration {
        let life = (self.signs.lines.load(Ordering::Relaxed), processor_ticks(self.child.id()));
        if life != self.heard.0 {
            self.heard = (life, Instant::now());
        }
        self.heard.1.max(manager_ended).elapsed()
    }

    /// Returns its standard output; to be called after its end.
    pub(super) fn said(&mut self) -> anyhow::Result<String> {
        self.read_to_end()?;
        Ok(self.text.take().unwrap_or_default())
    }

    /// Reports why its node has ended before the event manager, when it is known: once. It is in the result of the run as well.
    pub(super) fn report_early_end(&mut self) -> anyhow::Result<()> {
        if !self.said.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(());
        }
        self.read_to_end()?;
        let text = self.text.as_deref().unwrap_or_default();
        let summary = serde_json::from_str::<NodeSummary>(text).unwrap_or_default();
        for error in summary.errors {
            log_as!(PROCESS_ENDED, peer = self.node.name; "{error}");
        }
        if summary.left {
            log_as!(NODE_LEFT, peer = self.node.name; "{} left the run", self.node.name);
        }
        Ok(())
    }

    /// Waits until its standard output is read.
    pub(super) fn read_to_end(&mut self) -> anyhow::Result<()> {
        let Some(said) = self.said.take() else { return Ok(()) };
        let text = said.join().map_err(|_| anyhow!("a thread panicked: this is a bug in sheaf"))?;
        self.text = Some(text.with_context(|| format!("cannot read the output of {}", self.node.name))?);
        Ok(())
    }
}
