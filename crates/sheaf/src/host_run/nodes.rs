//! The processes of the nodes of a run on this host.

use super::Reports;
use crate::host_message::HostReport;
use crate::network::Listeners;
use crate::node_output::TakeRecord;
use crate::node_process::{Launch, Life, LocalProcess, NodeProcess as _, ProcessEnd};
use crate::plan::Plan;
use crate::programs;
use crate::relay::Record;
use crate::steered::{NodeLines, NodeRequest};
use rustix::process::Signal;
use sheaf_config::NodeConfig;
use sheaf_telemetry::log_as;
use sheaf_wire::Role;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Interval at which signs of life are reported.
const LIFE: Duration = Duration::from_secs(1);

/// Time after which a process is killed that is to end, and neither says nor does anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval at which the end of the processes is looked for.
const PERIOD: Duration = Duration::from_millis(10);

/// A node of this host.
struct HostNode {
    node: NodeConfig,
    /// Kept to start the process again with the same address.
    listener: Option<TcpListener>,
    process: Option<LocalProcess>,
    /// Number of its start.
    start: u32,
    /// Whether it was reported that the process handles signals.
    is_reported: bool,
}

pub(super) struct Nodes {
    launch: Launch,
    nodes: Vec<HostNode>,
    is_steered: bool,
    /// Time without a sign of life after which a process is killed that is to end.
    patience: Duration,
    lines: NodeLines,
    reports: Reports,
    reported: Instant,
    /// Whether the ends of nodes are reported. The run takes nodes that end with their agent for lost, and starts them again.
    reports_ends: bool,
}

impl Nodes {
    pub(super) fn new(
        launch: Launch,
        (plan, listeners): (&Plan, Listeners),
        is_steered: bool,
        reports: Reports,
    ) -> Self {
        let of = |(id, listener)| {
            let node = plan.node(id)?.clone();
            Some(HostNode { node, listener, process: None, start: 0, is_reported: false })
        };
        let nodes = listeners.into_iter().filter_map(of).collect();
        Self {
            launch,
            nodes,
            is_steered,
            patience: PATIENCE + programs::time_to_end(&plan.config).to_std(),
            lines: NodeLines::default(),
            reports,
            reported: Instant::now(),
            reports_ends: true,
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut HostNode> {
        self.nodes.iter_mut().find(|node| node.node.name == name)
    }

    /// Has nodes that are started from now on take part in the next run.
    pub(super) fn begin_run(&mut self, launch: Launch) {
        self.launch = launch;
    }

    /// Removes the file with the key of the run: no node is started in it any more.
    pub(super) fn forget_key(&mut self) {
        self.launch.key = None;
    }

    /// Starts the process of a node. `start` is the number of the start. A process that it has still is killed.
    pub(super) fn start(&mut self, name: &str, start: u32) {
        let Some(index) = self.nodes.iter().position(|node| node.node.name == name) else { return };
        let take = {
            let (reports, node, last) = (self.reports.clone(), name.to_owned(), last_record());
            move |record: &str| {
                let record = record.trim_end().to_owned();
                let is_last = record == last;
                reports.write(&HostReport::Record { node: node.clone(), record });
                is_last
            }
        };
        self.nodes[index].start = start;
        let HostNode { node, listener, .. } = &self.nodes[index];
        let is_steered = self.is_steered && node.id.role == Role::Manager;
        let take: TakeRecord = Box::new(take);
        let take = self.launch.passes_records().then_some(take);
        match self.launch.start(node, listener.as_ref(), is_steered, take) {
            Ok((process, line)) => {
                line.into_iter().for_each(|line| self.lines.add(self.nodes[index].node.id, line));
                (self.nodes[index].process, self.nodes[index].is_reported) = (Some(process), false);
            }
            Err(error) => {
                let status = crate::describe(&error);
                let end = ProcessEnd { status, is_success: false, has_died: false, is_retired: false };
                let (node, text) = (name.to_owned(), String::new());
                self.reports.write(&HostReport::Ended { node, start, end, text });
            }
        }
    }

    /// Sends a signal to the process of a node.
    pub(super) fn signal(&mut self, name: &str, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        if let Some(process) = self.find(name).and_then(|node| node.process.as_ref())
            && let Err(error) = process.signal(signal)
        {
            log_as!(SIGNAL_FAILED, peer = name; "cannot signal {name}: {error}");
        }
    }

    /// Passes a request to a node.
    pub(super) fn request(&mut self, name: &str, request: &NodeRequest) {
        if let Some(id) = self.find(name).map(|node| node.node.id) {
            self.lines.tell(id, request);
        }
    }

    /// Reports what has changed.
    pub(super) fn check(&mut self) {
        for HostNode { node, process, start, is_reported, .. } in &mut self.nodes {
            let Some(running) = process else { continue };
            let name = || node.name.clone();
            if !*is_reported && running.handles_signals() {
                *is_reported = true;
                self.reports.write(&HostReport::HandlesSignals { node: name() });
            }
            if let Ok(Some(end)) = running.try_wait() {
                let text = running.text().unwrap_or_default();
                if self.reports_ends {
                    self.reports.write(&HostReport::Ended { node: name(), start: *start, end, text });
                }
                *process = None;
            }
        }
        if self.reported.elapsed() >= LIFE {
            self.reported = Instant::now();
            self.reports.write(&HostReport::Lives(self.lives()));
        }
    }

    fn lives(&self) -> Vec<(String, Life)> {
        let life = |node: &HostNode| Some((node.node.name.clone(), node.process.as_ref()?.life()));
        self.nodes.iter().filter_map(life).collect()
    }

    /// Ends all processes with their agent, or because their run is gone.
    pub(super) fn end_with_agent(&mut self) {
        self.reports_ends = false;
        self.end_all();
    }

    /// Ends all processes that are left. One that neither says nor does anything is killed.
    pub(super) fn end_all(&mut self) {
        // Those that wait for another run end by this.
        self.lines.tell_all(&NodeRequest::End);
        for process in self.nodes.iter().filter_map(|node| node.process.as_ref()) {
            let _ = process.signal(Signal::TERM);
        }
        let (mut lives, mut changed) = (self.lives(), Instant::now());
        while self.nodes.iter().any(|node| node.process.is_some()) {
            self.check();
            let now = self.lives();
            if now != lives {
                (lives, changed) = (now, Instant::now());
            }
            if changed.elapsed() > self.patience {
                for HostNode { node, process, .. } in &mut self.nodes {
                    let Some(process) = process else { continue };
                    log_as!(PROCESS_KILLED, peer = node.name; "{} did not end in time; it is killed", node.name);
                    process.kill();
                }
                changed = Instant::now();
            }
            std::thread::sleep(PERIOD);
        }
    }
}

/// The last record of a node.
fn last_record() -> String {
    serde_json::to_string(&Record::NodeEnded).unwrap_or_default()
}
