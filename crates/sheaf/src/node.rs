//! `sheaf node`: one role of a system that is spread over processes or hosts.

use crate::assemble::Plan;
use crate::cli::NodeArguments;
use crate::console::Console;
use crate::run::{AgentMaker, Reports, pin};
use crate::summary::{ManagerSummary, NodeSummary, Summary};
use crate::{Verdict, files, network, run_directory, signals};
use anyhow::{Context, bail};
use rustix::process::Signal;
use sheaf_config::{Config, NodeConfig};
use sheaf_node::report::{Gauges, RunReport};
use sheaf_node::{Agent, Clock, NodeError, worker};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// Runs one node until the run ends.
pub(crate) fn command(arguments: &NodeArguments, console: &Console) -> anyhow::Result<Verdict> {
    if arguments.supervised {
        // Without its parent nobody would take the node's report, and nobody would end it.
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
            .context("cannot watch the parent")?;
    }
    let plan = Plan::new(Config::load_for_node(&arguments.config, &arguments.name)?)?;
    let node = plan.nodes.iter().find(|node| node.name == arguments.name).cloned();
    let node = node.with_context(|| format!("no node has the name {}", arguments.name))?;
    let listener = listener(arguments, &node)?;
    pin(&node.cpu);
    let stop = signals::stop_flag()?;
    match node.id.role {
        Role::Manager => manager(&plan, &node, listener, stop, arguments, console),
        Role::Readout | Role::Builder => other(&plan, &node, listener, &stop, arguments),
    }
}

fn listener(arguments: &NodeArguments, node: &NodeConfig) -> anyhow::Result<Option<TcpListener>> {
    if !network::listens(node.id) {
        return Ok(None);
    }
    if arguments.supervised {
        let socket = std::io::stdin().as_fd().try_clone_to_owned().context("no socket on standard input")?;
        return Ok(Some(TcpListener::from(socket)));
    }
    let address = arguments.listen.as_ref().or(node.address.as_ref());
    let address = address.with_context(|| format!("{} needs an address to listen on", node.name))?;
    let socket = TcpListener::bind(address).with_context(|| {
        format!("{} cannot listen on {address}; is it in use, or of another host?", node.name)
    })?;
    Ok(Some(socket))
}

fn maker<'a>(plan: &'a Plan, clock: Clock, stop: Arc<AtomicBool>) -> AgentMaker<'a> {
    AgentMaker {
        plan,
        directory: plan.writes_files().then(|| run_directory::path_of(&plan.config)),
        clock,
        stop,
        gauges: Arc::new(Gauges::default()),
        reports: Reports::default(),
    }
}

/// The event manager steers the run, and prints its summary.
fn manager(
    plan: &Plan,
    node: &NodeConfig,
    listener: Option<TcpListener>,
    stop: Arc<AtomicBool>,
    arguments: &NodeArguments,
    console: &Console,
) -> anyhow::Result<Verdict> {
    let clock = Clock::new();
    let created = clock.now();
    let maker = maker(plan, clock, stop);
    let me = plan.identity(node.id, created);
    let endpoint = network::tcp(plan, &me, listener, &plan.nodes)?;
    let agent = maker.make(me, endpoint)?;
    let errors = {
        let _show = console.show(maker.gauges.clone());
        worker::run(vec![agent], clock)
    };
    let report = maker.reports.run.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = report.context("the event manager ended without a report")?;
    let summary =
        Summary::new(&report, &maker.reports.extras(), plan.count(Role::Readout), maker.directory.clone());
    let good = summary.is_good();
    if arguments.supervised {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        files::print_json(&ManagerSummary::new(summary, &report, errors))?;
        return Ok(Verdict::Good);
    }
    if maker.directory.is_some() {
        run_directory::write_manifest(&plan.config, &report, summary.ledger_json(), created, clock.now())?;
    }
    print_run(&summary, &report, arguments)?;
    if let Some(error) = errors.first() {
        bail!("{error}");
    }
    Ok(if good { Verdict::Good } else { Verdict::NotGood })
}

fn print_run(summary: &Summary, report: &RunReport, arguments: &NodeArguments) -> anyhow::Result<()> {
    if arguments.json {
        return files::print_json(summary);
    }
    files::print(&summary.to_string())?;
    if report.lost_builders > 0 {
        let text =
            "events of lost builder sessions beyond the committed ones are void; `sheaf verify` knows\n";
        files::print(text)?;
    }
    Ok(())
}

/// A readout unit, or a builder unit, which starts anew with a new session when the event manager has given it up.
fn other(
    plan: &Plan,
    node: &NodeConfig,
    mut listener: Option<TcpListener>,
    leave: &Arc<AtomicBool>,
    arguments: &NodeArguments,
) -> anyhow::Result<Verdict> {
    let clock = Clock::new();
    let maker = maker(plan, clock, leave.clone());
    let mut errors = Vec::new();
    loop {
        let me = plan.identity(node.id, clock.now());
        let endpoint = network::tcp(plan, &me, listener.take(), &plan.nodes)?;
        let agent = Leaving { agent: maker.make(me, endpoint)?, leave: leave.clone(), left: false };
        let ended = worker::run(vec![Box::new(agent)], clock);
        match ended.into_iter().next() {
            Some(error @ NodeError::Fenced(_)) if !leave.load(Ordering::Relaxed) => {
                log::warn!("{error}; it begins a new session");
            }
            Some(error) => {
                errors.push(error.to_string());
                break;
            }
            None => break,
        }
    }
    let summary = NodeSummary { node: node.name.clone(), extras: maker.reports.extras(), errors };
    if arguments.json {
        files::print_json(&summary)?;
        return Ok(Verdict::Good);
    }
    match summary.errors.first() {
        Some(error) => bail!("{error}"),
        None => Ok(Verdict::Good),
    }
}

/// An agent that ends when it is told to leave, whatever the run does: the others see it go.
struct Leaving {
    agent: Box<dyn Agent>,
    leave: Arc<AtomicBool>,
    left: bool,
}

impl Agent for Leaving {
    fn node(&self) -> NodeId {
        self.agent.node()
    }

    fn work(&mut self, now: Timestamp) -> worker::Progress {
        if self.leave.load(Ordering::Relaxed) {
            self.left = true;
            return worker::Progress::Finished;
        }
        self.agent.work(now)
    }

    fn wait(&mut self, timeout: Nanos) {
        self.agent.wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        let finished = self.agent.finish();
        if self.left {
            log::warn!("{}: left the run", self.agent.node());
        }
        finished
    }
}
