//! `sheaf node`: one role of a system that is spread over processes or hosts.
//!
//! | module | holds |
//! |---|---|
//! | this | the node, and the end of one that was started by hand |
//! | `arguments` | the arguments |
//! | `supervised` | a node whose parent takes its report, run after run |
//! | `next_run` | preparation of the run that follows without a gap |

mod arguments;
mod next_run;
mod supervised;

pub(crate) use arguments::NodeArguments;

use crate::code::Code;
use crate::console::{Console, Show};
use crate::drivers::{Connect, DriverMaker, Reports};
use crate::leaving::Leaving;
use crate::page::Page;
use crate::plan::Plan;
use crate::records::configuration_name;
use crate::run_directory::SharedManifest;
use crate::summary::{NodeSummary, Summary};
use crate::{
    Verdict, files, histograms, network, node_process, placement, rehearsal, run_paths, signals, tracing,
};
use anyhow::{Context, bail};
use rustix::process::Signal;
use sheaf_config::{Config, NodeConfig, TransportKind};
use sheaf_key::RunKey;
use sheaf_node::report::{Gauges, RunReport};
use sheaf_node::{Clock, NodeError, RunControls, worker};
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::standby::Retirement;
use sheaf_telemetry::{Hub, log_as};
use sheaf_wire::{EventId, NodeId, Role, RunNumber};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

/// Runs one node until the run ends.
pub(crate) fn command(arguments: &NodeArguments, console: &Console) -> anyhow::Result<Verdict> {
    let config = Config::load_for_node_with(&arguments.config, &arguments.name, |config| {
        if arguments.partition.is_some() {
            config.run.partition.clone_from(&arguments.partition);
        }
        if let Some(run) = arguments.run {
            config.run.number = RunNumber(run);
        }
        if let Some(first) = arguments.first_event {
            config.trigger.first_event = EventId(first);
        }
    })?;
    crate::console::name_sources(&config.names);
    console.keep_log(&arguments.name, arguments.log.unwrap_or(config.log.format))?;
    files::give_access(config.run.access);
    let mut plan = Plan::new(config)?;
    plan.take_key()?;
    if arguments.supervised {
        plan.code = Code::beside(&plan.config, &arguments.config);
    }
    if let Some(file) = &arguments.run_key {
        plan.key = Some(RunKey::load(file)?);
    }
    plan.goes_on = arguments.goes_on;
    plan.begins_with = arguments.first_event.map(EventId);
    let plan = Arc::new(plan);
    let node = plan.nodes.iter().find(|node| node.name == arguments.name).cloned();
    let node = node.with_context(|| format!("no node has the name {}", arguments.name))?;
    if arguments.supervised {
        end_with_parent(node.id.role)?;
    }
    keep_log(&plan, &node, arguments)?;
    let listener = listener(&plan, arguments, &node)?;
    if !arguments.supervised {
        // The parent of a supervised node has reported them.
        plan.report_defects(|source| node.sources.contains(&source));
        introduce(&plan, &node, listener.as_ref());
    }
    if arguments.supervised {
        // The parent has tried it and reported any failure.
        placement::take(&placement::of(&node));
    } else {
        placement::take_or_refuse(&node, plan.config.affinity.required)?;
        if node.id.role == Role::Manager && !plan.config.hooks.is_empty() {
            log_as!(HOOKS_NOT_CALLED; "the hooks of the configuration are not called: its nodes are started one by one");
        }
    }
    if node.id.role == Role::Builder && !arguments.supervised {
        rehearsal::rehearse_python(&plan.config)?;
    }
    let stop = signals::stop_flag()?;
    if arguments.supervised {
        crate::print::print(node_process::READY)
            .context("cannot report to the parent that this node handles signals")?;
    }
    let mut maker = maker(&plan, stop, arguments);
    if node.id.role == Role::Manager {
        signals::watch_step_down(&maker.controls)?;
        if let Some(path) = maker.directory.as_deref().filter(|_| plan.has_standby() && !arguments.supervised)
        {
            // One that died or stepped down has begun this run. It is started again to be the standby of the other one.
            maker.only_joins = SharedManifest::is_open(path)?;
        }
    }
    if arguments.supervised {
        return supervised::take_part(maker, &node, listener, (arguments, console));
    }
    let watch = Watch::begin(&mut maker, &node, arguments)?;
    let place = (&node, maker.directory.as_deref());
    let (tracing, collector) = tracing::of_node(&plan, place, maker.hub.clone())?.unzip();
    maker.tracing = tracing;
    let ended = match node.id.role {
        Role::Manager => manager(&maker, &node, listener, (arguments, watch), console),
        Role::Readout | Role::Builder | Role::Output | Role::Mirror => {
            other(&maker, &node, listener, (arguments, watch))
        }
    };
    drop(collector);
    ended
}

/// Begins the log of this node. That of a supervised one is the log of its parent.
fn keep_log(plan: &Plan, node: &NodeConfig, arguments: &NodeArguments) -> anyhow::Result<()> {
    let config = &plan.config;
    if arguments.supervised || !plan.writes_files() {
        crate::console::begin_run(config.run.number.0, None);
        return Ok(());
    }
    let directory = run_paths::path_of(config);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // The directory may be on a disk of several hosts, whose lines would mix in one file.
    let log = directory.join(format!("log-{}.jsonl", node.name));
    crate::console::begin_run(config.run.number.0, Some((&log, config.log.max.0)));
    Ok(())
}

/// Who sees the metrics of this node, which was started by hand.
enum Watch {
    Nobody,
    /// Whoever opens its page.
    Page(Page, Show),
}

impl Watch {
    fn begin(maker: &mut DriverMaker, node: &NodeConfig, arguments: &NodeArguments) -> anyhow::Result<Self> {
        let Some(address) = &arguments.page else { return Ok(Self::Nobody) };
        let page = Page::open_at(address, &maker.plan.config)?;
        page.begin_node(&maker.plan, node, maker.directory.as_deref());
        maker.publish_at(page.hub());
        let shown = page.show_waiting(maker.gauges.clone());
        Ok(Self::Page(page, shown))
    }

    /// Ends with the last values: the node has ended, and prints its report.
    fn end(self) {
        if let Self::Page(page, shown) = self {
            drop((shown, page));
        }
    }
}

/// Ends the process with its parent, which takes its report and would end it. Nodes with files close them first. The
/// event manager has nothing to close, and would wait for the others.
fn end_with_parent(role: Role) -> anyhow::Result<()> {
    let signal = if role == Role::Manager { Signal::KILL } else { Signal::TERM };
    rustix::process::set_parent_process_death_signal(Some(signal)).context("cannot watch the parent")
}

/// Logs one line for users who start nodes by hand: the name of this node, and the peers that it expects with their
/// addresses.
fn introduce(plan: &Plan, node: &NodeConfig, listener: Option<&TcpListener>) {
    let listens = listener.and_then(|socket| socket.local_addr().ok());
    let listens = listens.map_or_else(String::new, |address| format!(", listens on {address}"));
    let manager = plan.node(NodeId::MANAGER).and_then(|manager| manager.address.as_deref()).unwrap_or("?");
    let calls = if node.id != NodeId::MANAGER && node.id.role == Role::Manager {
        format!("is the standby of the event manager at {manager}")
    } else if node.id == NodeId::MANAGER {
        let outputs = match plan.count(Role::Output) {
            0 => String::new(),
            count => format!(" and {count} output nodes"),
        };
        let (readouts, builders) = (plan.count(Role::Readout), plan.count(Role::Builder));
        format!("waits for {readouts} readout and {builders} builder units{outputs}")
    } else {
        format!("calls the event manager at {manager}")
    };
    let (name, run) = (plan.full_name(node.id), plan.config.run.number);
    log_as!(NODE_BEGAN; "{name} of run {run}{listens}, {calls}");
    if node.id.role == Role::Manager && is_open(plan) {
        log_as!(
            OPEN_TO_STRANGERS;
            "any host that can reach the nodes of this run may take a node's place; set `transport.key_file` or `transport.tls` unless the network is private"
        );
    }
}

/// Returns whether nodes are identified by nothing but their greeting and can be reached from other hosts.
fn is_open(plan: &Plan) -> bool {
    let transport = &plan.config.transport;
    let is_secure = plan.key.is_some() || (transport.tls.files().is_some() && transport.kind.uses_tcp());
    let is_here = |address: &String| {
        address.parse().is_ok_and(|address: std::net::SocketAddr| address.ip().is_loopback())
            || address.starts_with("localhost:")
    };
    let is_here = |node: &NodeConfig| node.address.iter().chain(&node.more_addresses).all(is_here);
    let is_reached = transport.kind == TransportKind::Ethernet || !plan.nodes.iter().all(is_here);
    !is_secure && transport.kind != TransportKind::Shm && is_reached
}

fn listener(
    plan: &Plan,
    arguments: &NodeArguments,
    node: &NodeConfig,
) -> anyhow::Result<Option<TcpListener>> {
    if !network::has_listener(plan, node.id) {
        return Ok(None);
    }
    if arguments.supervised && stdin_is_socket() {
        let socket = std::io::stdin().as_fd().try_clone_to_owned().context("no socket on standard input")?;
        return Ok(Some(TcpListener::from(socket)));
    }
    network::listener_at(node, arguments.listen.as_ref().or(node.address.as_ref())).map(Some)
}

/// Returns whether standard input is the listening socket, made by the process that started this node. The lab does not
/// make it: the address is on another host.
fn stdin_is_socket() -> bool {
    let kind =
        rustix::fs::fstat(std::io::stdin()).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
    kind == Ok(rustix::fs::FileType::Socket)
}

/// A node that is steered is held until its parent releases it: the first request may arrive after everything else is there. One that is
/// supervised ends with the event manager: their parent knows whether that has ended, where a node would have to guess from its silence.
fn maker(plan: &Arc<Plan>, stop: Arc<AtomicBool>, arguments: &NodeArguments) -> DriverMaker {
    DriverMaker {
        plan: plan.clone(),
        directory: plan.writes_files().then(|| run_paths::path_of(&plan.config)),
        clock: Clock::new(),
        stop,
        controls: Arc::new(RunControls {
            hold: AtomicBool::new(arguments.steered),
            ..RunControls::default()
        }),
        gauges: Arc::new(Gauges::new(Hub::default(), plan.node_names())),
        reports: Reports::default(),
        hub: None,
        tracing: None,
        over: Arc::default(),
        manager_patience: match arguments.supervised {
            true => Patience::UNLIMITED,
            false => plan.manager_patience(),
        },
        handovers: Arc::default(),
        early_farms: Arc::default(),
        took_over: Arc::default(),
        only_joins: false,
    }
}

/// Only builders have more than one session, and they do not listen.
fn connect(plan: &Arc<Plan>, mut listener: Option<TcpListener>) -> Connect {
    let plan = plan.clone();
    Box::new(move |me| network::connect(&plan, me, listener.take(), &plan.nodes))
}

/// The event manager steers the run, and prints its summary.
fn manager(
    maker: &DriverMaker,
    node: &NodeConfig,
    listener: Option<TcpListener>,
    (arguments, watch): (&NodeArguments, Watch),
    console: &Console,
) -> anyhow::Result<Verdict> {
    let (plan, clock) = (&maker.plan, maker.clock);
    let created = clock.now();
    let directory = maker.directory.as_ref();
    let configuration = || (&plan.config, configuration_name(&arguments.config));
    let begin = |path: &PathBuf| SharedManifest::begin(path, configuration(), created);
    // A standby writes one if it ends the run.
    let first = directory.filter(|_| node.id == NodeId::MANAGER && !maker.only_joins);
    let mut manifest = first.map(begin).transpose()?;
    let receiver = directory.and_then(|path| histograms::begin(&plan.config, path));
    let driver = maker.make(node.id, connect(plan, listener))?;
    let errors = {
        let _show = console.show(maker.gauges.clone());
        worker::run(vec![driver], clock).errors
    };
    let written = histograms::finish(receiver);
    let report = maker.reports.run.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = report.context("the event manager ended without a report")?;
    if report.retired == Some(Retirement::RunExists) {
        bail!(
            "{} already has a run, and no event manager of it answers; choose another run.number or run.output",
            directory.map_or_else(String::new, |path| path.display().to_string())
        );
    }
    if report.retired.is_some() || report.stood_by {
        // The other replica ends the run, or has ended it.
        watch.end();
        return match errors.first() {
            Some(error) => bail!("{}", plan.explain(error)),
            None => Ok(if report.retired.is_some() { Verdict::NotGood } else { Verdict::Good }),
        };
    }
    if let Some(path) = directory.filter(|_| manifest.is_none()) {
        manifest = Some(SharedManifest::succeed(path, configuration(), created)?);
    }
    let summary = Summary::new(&report, &maker.reports.extras(), plan, maker.directory.clone());
    let errors: Vec<_> = errors.iter().map(|error| plan.explain(error)).collect();
    watch.end();
    let end = summary.end_record(&plan.config, errors.first().map(String::as_str));
    if let Some(manifest) = &mut manifest {
        manifest.note_histograms(written);
    }
    let close = |manifest: SharedManifest| manifest.close(&report, (summary.ledger_json(), end), clock.now());
    let written = manifest.map_or(Ok(()), close);
    print_run(&summary, &report, arguments)?;
    if let Some(error) = errors.first() {
        bail!("{error}");
    }
    written?;
    Ok(if summary.is_good() { Verdict::Good } else { Verdict::NotGood })
}

fn print_run(summary: &Summary, report: &RunReport, arguments: &NodeArguments) -> anyhow::Result<()> {
    if arguments.json {
        return crate::print::print_json(summary);
    }
    if report.started_at.is_none() {
        return Ok(());
    }
    crate::print::print(&summary.to_string())?;
    if report.lost_builders > 0 {
        log_as!(
            EVENTS_VOID;
            "files of lost builder sessions may hold events that do not count; readers of the run skip them"
        );
    }
    Ok(())
}

/// A readout unit, a builder unit or an output node.
fn other(
    maker: &DriverMaker,
    node: &NodeConfig,
    listener: Option<TcpListener>,
    (arguments, watch): (&NodeArguments, Watch),
) -> anyhow::Result<Verdict> {
    let (plan, leave) = (&maker.plan, &maker.stop);
    let driver = Leaving::new(maker.make(node.id, connect(plan, listener))?, leave.clone());
    let ended = worker::run(vec![Box::new(driver)], maker.clock).errors;
    let summary = summary_of(maker, node, &ended);
    if summary.left {
        log_as!(NODE_LEFT; "{} left the run", plan.full_name(node.id));
    }
    watch.end();
    if arguments.json {
        crate::print::print_json(&summary)?;
    }
    verdict(&summary)
}

/// Returns the summary of a node other than the event manager that has ended.
fn summary_of(maker: &DriverMaker, node: &NodeConfig, ended: &[NodeError]) -> NodeSummary {
    // Events of a fenced builder are built elsewhere or dropped and accounted for. This process has not failed.
    let failed = ended.iter().filter(|error| !matches!(error, NodeError::Fenced(_)));
    let errors = failed.map(|error| maker.plan.explain(error)).collect();
    let left = maker.stop.load(Ordering::Relaxed);
    NodeSummary { node: node.name.clone(), extras: maker.reports.extras(), errors, left }
}

/// Verdict of a node that was started by hand.
fn verdict(summary: &NodeSummary) -> anyhow::Result<Verdict> {
    match summary.errors.first() {
        Some(error) => bail!("{error}"),
        None if summary.extras.content_mismatches > 0 => Ok(Verdict::NotGood),
        None => Ok(Verdict::Good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_node_tells_failure_from_wrong_content() {
        let mut summary = NodeSummary { node: "bu0".into(), ..NodeSummary::default() };
        assert!(matches!(verdict(&summary), Ok(Verdict::Good)));
        summary.extras.content_mismatches = 1;
        assert!(matches!(verdict(&summary), Ok(Verdict::NotGood)));
        summary.errors.push("bu0 could not write its output".into());
        assert!(verdict(&summary).is_err());
    }
}
