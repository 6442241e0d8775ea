//! The process of a node on another host.

use super::host::{Host, RemoteNode};
use crate::host_message::HostOrder;
use crate::node_output::TakeRecord;
use crate::node_process::{Life, NodeProcess, ProcessEnd};
use crate::steered::RemoteLine;
use crate::summary::NodeSummary;
use rustix::process::Signal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after which a killed process is given up whose host does not report its end.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// See the [module](self).
pub(crate) struct RemoteProcess {
    host: Arc<Host>,
    node: String,
    killed: Option<Instant>,
}

impl RemoteProcess {
    /// Starts the process of a node, as soon as its host is ready. `take` takes its records.
    pub(super) fn start(host: Arc<Host>, node: &str, take: TakeRecord) -> Self {
        host.start(node, take);
        Self { host, node: node.to_owned(), killed: None }
    }

    /// Returns a way to pass requests to the node. It returns whether a request is on its way.
    pub(crate) fn line(&self) -> RemoteLine {
        let (host, node) = (self.host.clone(), self.node.clone());
        Box::new(move |request| host.request(&node, request))
    }

    /// Calls off the start of a process whose host was not there. Returns whether it had not been started.
    fn is_called_off(&self) -> bool {
        let end = ProcessEnd {
            status: "it was not started".to_owned(),
            is_success: true,
            has_died: false,
            is_retired: false,
        };
        let nothing = NodeSummary { node: self.node.clone(), ..NodeSummary::default() };
        let text = serde_json::to_string(&nothing).unwrap_or_default();
        let call_off = |node: &mut RemoteNode| {
            let was_awaited = std::mem::take(&mut node.is_awaited);
            if was_awaited {
                node.end = Some((end, text));
            }
            was_awaited
        };
        let is_called_off = self.host.with_node(&self.node, call_off).unwrap_or(false);
        if is_called_off {
            self.host.end_records(Some(&self.node));
        }
        is_called_off
    }
}

impl NodeProcess for RemoteProcess {
    fn signal(&self, signal: Signal) -> Result<(), String> {
        if self.is_called_off() {
            return Ok(());
        }
        let order = HostOrder::Signal { node: self.node.clone(), signal: signal.as_raw() };
        match self.host.order(&order) {
            true => Ok(()),
            false => Err(format!("the agent {} takes no orders", self.host.agent)),
        }
    }

    fn kill(&mut self) {
        // An error means that the host is lost, and so is the process.
        let _ = self.signal(Signal::KILL);
        self.killed.get_or_insert_with(Instant::now);
    }

    fn try_wait(&mut self) -> anyhow::Result<Option<ProcessEnd>> {
        let end = self.host.with_node(&self.node, |node| node.end.clone()).flatten();
        if let Some((end, _)) = end {
            return Ok(Some(end));
        }
        let is_given_up = self.killed.is_some_and(|at| at.elapsed() > LAST_WAIT);
        if is_given_up {
            self.host.end_records(Some(&self.node));
        }
        Ok(is_given_up.then(|| ProcessEnd {
            status: format!("the agent {} does not report its end", self.host.agent),
            is_success: false,
            has_died: true,
            is_retired: false,
        }))
    }

    fn handles_signals(&self) -> bool {
        self.host.with_node(&self.node, |node| node.handles_signals).unwrap_or(false)
    }

    fn node_has_ended(&self) -> bool {
        self.host.with_node(&self.node, |node| node.has_ended).unwrap_or(false)
    }

    fn life(&self) -> Life {
        self.host.with_node(&self.node, |node| node.life).unwrap_or_default()
    }

    fn is_read(&self) -> bool {
        self.host.with_node(&self.node, |node| node.end.is_some()).unwrap_or(true)
    }

    fn text(&mut self) -> anyhow::Result<String> {
        let text = |node: &mut RemoteNode| node.end.as_ref().map(|(_, text)| text.clone());
        Ok(self.host.with_node(&self.node, text).flatten().unwrap_or_default())
    }
}
