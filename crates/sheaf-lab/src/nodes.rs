//! The run on a network: where each node is reached, and its process.

use crate::network::Network;
use crate::plan::Plan;
use serde::Deserialize;
use sheaf_config::{Config, NodeConfig, TransportKind};
use sheaf_wire::{NodeId, Role};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time after the event manager's end until the other processes are asked to end. It is longer than they wait for the
/// event manager's last messages.
const GRACE: Duration = Duration::from_secs(3);

/// Time after the event manager's end until the other processes are killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The event manager listens on port 7000, readout units from 8000 on, builder units from 9000 on.
const FIRST_PORT: u16 = 6_000;

/// Reason why a run has no result.
#[derive(Debug, Error)]
pub enum NodesError {
    /// The nodes cannot be placed.
    #[error("the nodes do not form a system: {0}")]
    Configuration(#[from] sheaf_config::ConfigErrors),
    /// The configuration cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A process cannot be started or waited for.
    #[error("cannot {what} {node}: {error}")]
    Process {
        /// Operation that failed.
        what: &'static str,
        /// The node.
        node: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The event manager has the books of the run, and died with them.
    #[error("the event manager ended without a report ({0}); see its standard error for the reason")]
    NoBooks(String),
}

/// The configuration of the run on this network: each node with its addresses and interfaces.
pub(crate) fn configuration(plan: &Plan, config: &Config) -> Result<Config, NodesError> {
    let mut nodes = config.nodes()?;
    for node in &mut nodes {
        let Some(host) = plan.host_of(node.id) else { continue };
        let port = port_of(node.id);
        // The event manager is reached over the network of control where there is one.
        let control = plan.control().filter(|_| node.id.role == Role::Manager);
        let networks = control.map_or_else(|| plan.rails().collect(), |network| vec![network]);
        let mut addresses = networks.iter().map(|network| format!("{}:{port}", network.kind.address(host)));
        node.address = addresses.next();
        node.more_addresses = addresses.collect();
        if config.transport.kind == TransportKind::Ethernet {
            node.interfaces = plan.rails().map(|network| network.kind.interface()).collect();
        }
    }
    let mut config = config.clone();
    config.set_nodes(&nodes);
    Ok(config)
}

/// Nodes that share a host have different ports.
fn port_of(node: NodeId) -> u16 {
    FIRST_PORT + 1_000 * u16::from(node.role as u8) + node.index
}

/// The processes of a run.
#[derive(Debug)]
pub(crate) struct Nodes {
    processes: Vec<Process>,
    manager_ended: Option<Instant>,
    asked: bool,
}

#[derive(Debug)]
struct Process {
    node: NodeConfig,
    child: Child,
    said: Option<JoinHandle<std::io::Result<String>>>,
    ended: Option<ExitStatus>,
}

/// Output of the nodes at their ends.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The event manager's report, with the counters of the other nodes added to its own.
    pub(crate) run: serde_json::Value,
    /// Errors of nodes.
    pub(crate) errors: Vec<String>,
}

/// The output of a node that is not the event manager.
#[derive(Deserialize)]
struct NodeReport {
    #[serde(default)]
    counters: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    content_mismatches: u64,
    #[serde(default)]
    cpu_seconds: f64,
    #[serde(default)]
    errors: Vec<String>,
}

impl Nodes {
    /// Starts every node of `config` on its host. `program` is the command `sheaf`.
    pub(crate) fn start(network: &Network, config: &Config, program: &Path) -> Result<Self, NodesError> {
        let directory = network.owner().directory();
        let path = directory.join("config.toml");
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&path, config.to_toml()))
            .map_err(|error| NodesError::Write { path: path.clone(), error })?;
        let mut nodes = Self { processes: Vec::new(), manager_ended: None, asked: false };
        for node in config.nodes()? {
            let process = spawn(network, &path, node, program)?;
            nodes.processes.push(process);
        }
        Ok(nodes)
    }

    /// The processes that have not ended.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let living = self.processes.iter().filter(|process| process.ended.is_none());
        living.map(|process| process.child.id()).collect()
    }

    /// Asks the event manager to end the run.
    pub(crate) fn ask_to_stop(&self) {
        for process in self.processes.iter().filter(|process| process.node.id == NodeId::MANAGER) {
            process.signal(rustix::process::Signal::INT);
        }
    }

    /// Returns whether the run is in progress: until the event manager has ended.
    pub(crate) fn is_on(&self) -> bool {
        self.manager_ended.is_none()
    }

    /// Checks which processes have ended; returns whether all have. Signals processes that outlive the event manager
    /// to end, and finally kills them.
    pub(crate) fn poll(&mut self) -> Result<bool, NodesError> {
        for process in self.processes.iter_mut().filter(|process| process.ended.is_none()) {
            let waited = process.child.try_wait().map_err(|error| NodesError::Process {
                what: "wait for",
                node: process.node.name.clone(),
                error,
            })?;
            process.ended = waited;
            if waited.is_some() && process.node.id == NodeId::MANAGER {
                self.manager_ended = Some(Instant::now());
            }
        }
        let since = self.manager_ended.map(|at| at.elapsed());
        if !self.asked && since.is_some_and(|since| since > GRACE) {
            self.asked = true;
            self.processes.iter().for_each(|process| process.signal(rustix::process::Signal::TERM));
        }
        if since.is_some_and(|since| since > PATIENCE) {
            for process in self.processes.iter_mut().filter(|process| process.ended.is_none()) {
                log::error!("{} did not end in time; it is killed", process.node.name);
                let _ = process.child.kill();
            }
        }
        Ok(self.processes.iter().all(|process| process.ended.is_some()))
    }

    /// Collects the output of the nodes after their ends.
    pub(crate) fn collect(mut self) -> Result<Said, NodesError> {
        let mut said = Said::default();
        let mut others = Vec::new();
        for process in &mut self.processes {
            let name = process.node.name.clone();
            let text = process.said.take().and_then(|thread| thread.join().ok()?.ok()).unwrap_or_default();
            let status = process.ended.map_or_else(String::new, |status| status.to_string());
            if process.node.id == NodeId::MANAGER {
                said.run = serde_json::from_str(&text).map_err(|_| NodesError::NoBooks(status))?;
                continue;
            }
            match serde_json::from_str::<NodeReport>(&text) {
                Ok(report) => others.push(report),
                Err(_) => said.errors.push(format!("{name} ended without a report ({status})")),
            }
        }
        if let Some(errors) = said.run.get("errors").and_then(serde_json::Value::as_array) {
            said.errors.extend(errors.iter().filter_map(|error| error.as_str().map(str::to_owned)));
        }
        for report in others {
            add(&mut said.run, report, &mut said.errors);
        }
        Ok(said)
    }
}

/// Adds the counters of a node to the report of the run.
fn add(run: &mut serde_json::Value, report: NodeReport, errors: &mut Vec<String>) {
    errors.extend(report.errors);
    for (name, value) in report.counters {
        let sum = run["counters"][&name].as_u64().unwrap_or(0) + value.as_u64().unwrap_or(0);
        run["counters"][&name] = sum.into();
    }
    let mismatches = run["trouble"]["content_mismatches"].as_u64().unwrap_or(0) + report.content_mismatches;
    run["trouble"]["content_mismatches"] = mismatches.into();
    run["cpu_seconds"] = (run["cpu_seconds"].as_f64().unwrap_or(0.0) + report.cpu_seconds).into();
}

impl Process {
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed());
        if let Some(pid) = pid.filter(|_| self.ended.is_none()) {
            // It may be about to end on its own.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Nodes {
    /// Whatever ends the lab's work early ends the nodes.
    fn drop(&mut self) {
        for process in self.processes.iter_mut().filter(|process| process.ended.is_none()) {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn spawn(network: &Network, config: &Path, node: NodeConfig, program: &Path) -> Result<Process, NodesError> {
    let failed = |what| {
        let node = node.name.clone();
        move |error| NodesError::Process { what, node, error }
    };
    let host = network.plan().host_of(node.id).map_or("", |host| &network.plan().hosts[host].name);
    let mut command = network.command(host, program);
    command.arg("node").arg(config).arg(&node.name).args(["--supervised", "--json"]);
    // No socket comes with it: the node listens at its address, which is known to its host alone.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    match log::max_level() {
        log::LevelFilter::Debug => command.arg("-v"),
        log::LevelFilter::Trace => command.arg("-vv"),
        _ => command.arg("--quiet"),
    };
    let mut child = command.spawn().map_err(failed("start"))?;
    let pipe = child.stdout.take();
    let read = move || {
        let mut text = String::new();
        pipe.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut text)).map(|_| text)
    };
    let said = std::thread::Builder::new().name(node.name.clone()).spawn(read).map_err(failed("read"))?;
    Ok(Process { node, child, said: Some(said), ended: None })
}

#[cfg(test)]
mod tests;
