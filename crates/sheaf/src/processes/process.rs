//! The process of a node, as the parent of the run looks after it.

use crate::node_process::{Life, NodeProcess, ProcessEnd};
use crate::relay::HandedOver;
use crate::summary::NodeSummary;
use rustix::process::Signal;
use sheaf_config::NodeConfig;
use sheaf_node::restarts::Restarts;
use sheaf_telemetry::log_as;
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub(super) struct Process {
    pub(super) node: NodeConfig,
    pub(super) child: Box<dyn NodeProcess>,
    /// Its last signs of life after the end of the event manager, and when they were seen to change.
    pub(super) heard: (Life, Instant),
    pub(super) is_killed: bool,
    /// Whether an operator wants it to be started again.
    pub(super) is_recovered: bool,
    /// Whether its early end was reported.
    pub(super) is_reported: bool,
    /// Whether another node acted for it when it ended.
    pub(super) is_replaced: bool,
    /// Kept to start the process again with the same address. `None` while another node acts for it.
    pub(super) listener: Option<TcpListener>,
    pub(super) started: Instant,
    pub(super) restarts: Restarts,
    /// Whether it is a replica of the event manager that is started again once the other one acts.
    pub(super) waits_to_join: bool,
    /// The end of the process, once it has ended.
    pub(super) ended: Option<ProcessEnd>,
    /// Its part in the present run, once it has handed over to the next one.
    pub(super) handed_over: Option<HandedOver>,
}

impl Process {
    /// Returns whether its part in the present run is over.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.handed_over.is_some()
    }

    /// Returns whether it has ended its part in the run in good order.
    pub(super) fn has_succeeded(&self) -> bool {
        self.ended.as_ref().is_some_and(|end| end.is_success)
    }

    /// Returns whether it has died: a signal has ended it, or it has panicked.
    pub(super) fn has_died(&self) -> bool {
        self.ended.as_ref().is_some_and(|end| end.has_died)
    }

    /// Returns the first event of the next run, if it has handed over and knows it.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.handed_over.as_ref().and_then(|handed_over| handed_over.next_event)
    }

    /// Returns its report of the present run. Waits until the whole output is read of a process that has ended.
    pub(super) fn report(&mut self) -> anyhow::Result<String> {
        match &self.handed_over {
            Some(handed_over) => Ok(handed_over.report.clone()),
            None => self.child.text(),
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        if let Err(error) = self.child.signal(signal) {
            log_as!(SIGNAL_FAILED, peer = self.node.name; "cannot signal {}: {error}", self.node.name);
        }
    }

    /// Returns the time since its last sign of life, after the end of the event manager.
    pub(super) fn silence(&mut self, manager_ended: Instant) -> Duration {
        let life = self.child.life();
        if life != self.heard.0 {
            self.heard = (life, Instant::now());
        }
        self.heard.1.max(manager_ended).elapsed()
    }

    /// Reports why its node has ended before the event manager, when it is known: once. It is in the result of the run as well.
    pub(super) fn report_early_end(&mut self) -> anyhow::Result<()> {
        if self.is_reported || !self.child.is_read() {
            return Ok(());
        }
        self.is_reported = true;
        let summary = serde_json::from_str::<NodeSummary>(&self.child.text()?).unwrap_or_default();
        for error in summary.errors {
            log_as!(PROCESS_ENDED, peer = self.node.name; "{error}");
        }
        if summary.left {
            log_as!(NODE_LEFT, peer = self.node.name; "{} left the run", self.node.name);
        }
        Ok(())
    }
}
