//! `sheaf run --processes`: each role in a process of its own, over TCP on loopback or through shared memory.
//!
//! The parent makes the listening sockets, so that every address is known before a process starts and stays the same
//! when one is restarted; a child gets its socket as standard input. With shared memory, the sockets only ensure that
//! no other run has the same addresses. The children are in process groups of their own: Ctrl-C reaches only the
//! parent, which asks the event manager to end the run. Nodes identify each other by a key generated for the run, so
//! that no other process on the machine can take a node's place.
//!
//! | module | holds |
//! |---|---|
//! | this | the processes of a run, from their start to their reports |
//! | `process` | one of them |
//! | `following` | the run that follows in them without a gap |
//! | `succession` | what the nodes say of that run |
//! | `collecting` | their stamps |
//! | `recovering` | nodes that an operator wants to be started again |

mod collecting;
mod following;
mod process;
mod recovering;
mod succession;

pub(crate) use succession::NextInProcesses;

use crate::network::Listeners;
use crate::node_output::TakeRecord;
use crate::node_process::{Launch, NodeKey, NodeProcess};
use crate::page::{Page, View};
use crate::plan::Plan;
use crate::programs;
use crate::relay::Relayed;
use crate::remote::Hosts;
use crate::run::{Outcome, loopback_listeners};
use crate::run_directory::{RunDirectory, Scratch};
use crate::steered::{NodeRequest, Steered};
use crate::summary::{EarlyEnd, Extras, Lost, ManagerSummary, NodeSummary};
use crate::tracing;
use anyhow::{Context, anyhow};
use collecting::{Collecting, LastStamps, StampRoutes};
use process::Process;
use rustix::process::Signal;
use sheaf_config::NodeConfig;
use sheaf_node::RunControls;
use sheaf_node::restarts::{RestartPolicy, Restarts};
use sheaf_telemetry::log_as;
use sheaf_wire::{EventId, Nanos, NodeId, Role, RunNumber};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use succession::CONFIGURATION;

/// Interval at which the parent checks its children.
const PERIOD: Duration = Duration::from_millis(20);

/// Time after the event manager's end until the other processes are asked to end. It is longer than they wait for the
/// event manager's last messages.
const GRACE: Duration = Duration::from_secs(3);

/// Time after the event manager's end until another process is killed that neither says nor does anything: one that writes its last events, or
/// passes on its last stamps, takes as long as it takes on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time after the event manager's end until every other process is killed, also one that works without end.
const LONGEST_END: Duration = Duration::from_secs(600);

/// Dead nodes are started again at once.
const RESTARTS: RestartPolicy = RestartPolicy {
    pause: (Nanos::ZERO, Nanos::ZERO),
    works_after: Nanos::from_secs(5),
    in_a_row: Some(100),
};

/// The places of the nodes of a run.
pub(crate) struct Places<'a> {
    /// Directory of the run, if it has one.
    pub(crate) directory: Option<&'a RunDirectory>,
    /// Copies of the code that the run loads, if it is copied.
    pub(crate) scratch: &'a Scratch,
    /// The hosts of the nodes that agents start, if there are any.
    pub(crate) hosts: Option<&'a Arc<Hosts>>,
    /// The sockets of the nodes of this host, where there are other hosts.
    pub(crate) listeners: Option<Listeners>,
    /// Digits of the key of the run, where the configuration names none.
    pub(crate) key: Option<&'a str>,
}

/// Beginning of a run in processes.
pub(crate) struct Onset<'a> {
    /// News of the run that follows.
    pub(crate) next: &'a NextInProcesses,
    /// Whether one can follow without a gap.
    pub(crate) goes_on: bool,
    /// Processes of the run before, if this one follows it without a gap.
    pub(crate) before: Option<Family>,
}

/// Runs every node of the plan in a process of its own. Returns the processes, if another run is to follow in them.
pub(crate) fn run(
    plan: &Plan,
    places: Places<'_>,
    stop: &AtomicBool,
    (view, onset): (View<'_>, Onset<'_>),
) -> anyhow::Result<(Outcome, Option<Family>)> {
    let output = places.directory.map(|directory| directory.path.clone());
    let mut family = match onset.before {
        Some(family) => family.follow(plan, &places, view)?,
        None => Family::begin(plan, places, view, (onset.next, onset.goes_on))?,
    };
    family.look_after(stop)?;
    let hands_over = family.hands_over();
    let traces = family.end_traces(hands_over)?;
    let outcome = Outcome { traces, ..family.collect(output)? };
    if hands_over {
        family.next_event = family.manager().and_then(Process::next_event).map(EventId);
        // The file with the key is in the directory of the run.
        family.launch.key = None;
        return Ok((outcome, Some(family)));
    }
    Ok((outcome, None))
}

/// First port of the unused addresses.
const UNUSED_PORT: u16 = 1;

/// The processes of a run, or of runs that follow one another without a gap.
pub(crate) struct Family {
    processes: Vec<Process>,
    launch: Launch,
    /// Digits of the key of the links, where the configuration names none.
    key: Option<String>,
    /// The run in which the nodes have met.
    met_in: RunNumber,
    /// First event of the next run, if one follows.
    next_event: Option<EventId>,
    /// The hosts of the nodes that agents start.
    hosts: Option<Arc<Hosts>>,
    /// Whether builder units have farms.
    has_farm: bool,
    /// Time that programs of readout units may take to end.
    programs: Duration,
    /// Counts of nodes that died.
    lost: Lost,
    /// Number of requests to end the run that the event manager is still to receive.
    stops: u32,
    /// Why another host has ended the run, if one has.
    no_space: Option<String>,
    /// Shows the metrics and messages of the nodes, if there is one.
    page: Option<Page>,
    /// Requests of a controller to the event manager, if there is one.
    controls: Option<Arc<RunControls>>,
    /// Passes them on.
    steered: Option<Steered>,
    /// Lines to the nodes, for requests, and what the nodes say of the next run.
    next: NextInProcesses,
    /// Passes stamps to their collector, if traces are wanted.
    stamps: Option<StampRoutes>,
    /// Collects the stamps of the present run, if traces are wanted.
    collecting: Option<Collecting>,
}

impl Family {
    /// Starts the processes of a run.
    fn begin(
        plan: &Plan,
        Places { directory, scratch, hosts, listeners, key }: Places<'_>,
        View { page, controls, traces, .. }: View<'_>,
        (next, goes_on): (&NextInProcesses, bool),
    ) -> anyhow::Result<Self> {
        let mut nodes = plan.nodes.clone();
        let mut listeners = match listeners {
            Some(listeners) => listeners,
            None => loopback_listeners(plan, &mut nodes)?,
        };
        // No node connects to a builder, but the configuration of a distributed system gives every node an address.
        for node in nodes.iter_mut().filter(|node| node.address.is_none()) {
            node.address = Some(format!("127.0.0.1:{}", UNUSED_PORT + node.id.index));
        }
        let config = scratch.path.join(CONFIGURATION);
        let mut effective = plan.config.clone();
        effective.set_nodes(&nodes);
        std::fs::write(&config, effective.to_toml())
            .with_context(|| format!("cannot write {}", config.display()))?;
        let tracing = tracing::tracing(&plan.config);
        let mut family = Self {
            processes: Vec::new(),
            launch: Launch {
                config,
                key: key.map(|digits| NodeKey::keep(&scratch.path, digits)).transpose()?,
                messages: page.is_some() || directory.is_some(),
                metrics: page.is_some(),
                stamps: tracing.is_some(),
                goes_on,
                following: None,
            },
            key: key.map(str::to_owned),
            met_in: plan.config.run.number,
            next_event: None,
            hosts: hosts.cloned(),
            has_farm: plan.config.filter.has_farm(),
            programs: programs::time_to_end(&plan.config).to_std(),
            lost: Lost::default(),
            stops: 0,
            no_space: None,
            page: page.cloned(),
            controls: controls.cloned(),
            steered: None,
            next: next.clone(),
            stamps: tracing.is_some().then(StampRoutes::default),
            collecting: None,
        };
        family.next.begin_run(plan.config.run.number.0, &nodes, controls);
        family.begin_traces(plan, traces)?;
        for node in nodes {
            let own =
                listeners.iter_mut().find(|(id, _)| *id == node.id).and_then(|(_, socket)| socket.take());
            family.start(node, own)?;
        }
        Ok(family)
    }

    fn start(&mut self, node: NodeConfig, listener: Option<TcpListener>) -> anyhow::Result<()> {
        let child = self.spawn(&node, listener.as_ref())?;
        if node.id.role == Role::Manager {
            self.begin_steering();
        }
        let (started, restarts) = (Instant::now(), Restarts::new(RESTARTS));
        self.processes.push(Process {
            node,
            child,
            heard: ((0, None), started),
            is_killed: false,
            is_recovered: false,
            is_reported: false,
            is_replaced: false,
            listener,
            started,
            restarts,
            waits_to_join: false,
            ended: None,
            handed_over: None,
        });
        Ok(())
    }

    fn begin_steering(&mut self) {
        let lines = &self.next.lines;
        self.steered = self.controls.as_ref().map(|controls| Steered::new(controls.clone(), lines.clone()));
    }

    fn spawn(
        &self,
        node: &NodeConfig,
        listener: Option<&TcpListener>,
    ) -> anyhow::Result<Box<dyn NodeProcess>> {
        let stamps = self.stamps.as_ref().map(StampRoutes::take);
        let (next, id, lines) = (self.next.clone(), node.id, self.next.lines.clone());
        let relayed = Relayed::new(self.name_of_series(node), self.page.clone(), stamps)
            .succeeding(Box::new(move |news| next.take(id, news)))
            .taking_over(Box::new(move || lines.note_take_over(id)))
            .staying(self.take_refusal());
        let lines = &self.next.lines;
        if let Some(hosts) = self.hosts.as_ref().filter(|_| node.agent.is_some()) {
            let mut relayed = relayed.printing();
            let process = hosts.start(node, Box::new(move |record| relayed.take(record)))?;
            lines.add_remote(node.id, process.line());
            self.next.ask_again(node.id);
            return Ok(Box::new(process));
        }
        let take = self.launch.passes_records().then(|| -> TakeRecord {
            let mut relayed = relayed;
            Box::new(move |record| relayed.take(record))
        });
        let is_steered = self.controls.is_some() && node.id.role == Role::Manager;
        let (process, line) = self.launch.start(node, listener, is_steered, take)?;
        if let Some(line) = line {
            lines.add(node.id, line);
        }
        self.next.ask_again(node.id);
        Ok(Box::new(process))
    }

    /// Passes on signals and restarts dead nodes until the event manager ends, or hands over to the next run. Then waits for the
    /// others, which end when the event manager has told them to close. If the event manager is dead or its message did
    /// not reach them, a signal ends them.
    fn look_after(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut manager_ended: Option<Instant> = None;
        let mut asked = false;
        let mut last_stamps = LastStamps::default();
        loop {
            self.stops += u32::from(stop.swap(false, Ordering::Relaxed));
            if let Some(why) = self.hosts.as_ref().and_then(|hosts| hosts.take_no_space()) {
                log_as!(DISK_NEARLY_FULL; "the run ends: {why}");
                self.stops += u32::from(self.no_space.replace(why).is_none());
            }
            self.ask_to_stop();
            if let Some(steered) = &mut self.steered {
                steered.pass_on();
            }
            self.kill_to_recover()?;
            for index in 0..self.processes.len() {
                self.check(index, manager_ended.is_some())?;
            }
            if self.processes.iter().all(Process::is_over) {
                return Ok(());
            }
            last_stamps.advance(self);
            if self.is_manager_over() && manager_ended.is_none() {
                manager_ended = Some(Instant::now());
                let hands_over = self.hands_over();
                asked = !hands_over && !self.managers().any(Process::has_succeeded);
                if !hands_over {
                    self.hosts.iter().for_each(|hosts| hosts.let_go());
                    // Those that have handed over end.
                    self.next.lines.tell_all(&NodeRequest::End);
                }
                if asked {
                    self.signal_all(Signal::TERM);
                }
            }
            if !asked && manager_ended.is_some_and(|at| at.elapsed() > GRACE) {
                asked = true;
                self.signal_all(Signal::TERM);
            }
            if let Some(at) = manager_ended {
                self.kill_silent(at);
            }
            self.next.wait(PERIOD);
        }
    }

    /// Returns the event manager, and its standby if there is one.
    fn managers(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.node.id.role == Role::Manager)
    }

    /// Returns the process that acts as the event manager: the only one that is left, or else the last one that has said so.
    fn manager(&self) -> Option<&Process> {
        let mut living = self.managers().filter(|process| !process.is_over());
        let only = living.next().filter(|_| living.next().is_none());
        let acting = self.next.lines.manager();
        only.or_else(|| self.managers().find(|process| process.node.id == acting))
    }

    /// Returns whether the event manager has ended its run, or nobody is left to end it.
    fn is_manager_over(&self) -> bool {
        let has_ended_run = |process: &Process| process.handed_over.is_some() || process.has_succeeded();
        self.managers().any(has_ended_run) || self.managers().all(Process::is_over)
    }

    /// Returns the name under which the series of a node are shown: that of the event manager for a replica, and of its unit for a mirror.
    fn name_of_series<'a>(&'a self, node: &'a NodeConfig) -> &'a str {
        let shown = match node.id.role {
            Role::Manager => NodeId::MANAGER,
            Role::Mirror => NodeId::readout(node.id.index),
            Role::Readout | Role::Builder | Role::Output => node.id,
        };
        self.processes.iter().find(|process| process.node.id == shown).map_or(&node.name, |it| &it.node.name)
    }

    /// Returns whether the event manager has handed over to the next run.
    fn hands_over(&self) -> bool {
        self.manager().is_some_and(|process| process.handed_over.is_some() && process.ended.is_none())
    }

    /// Passes on requests of the parent, one signal per round: two at once would merge into one.
    fn ask_to_stop(&mut self) {
        if self.stops > 0
            && let Some(process) = self.manager()
            && process.child.handles_signals()
            && !process.is_over()
        {
            process.signal(Signal::INT);
            self.stops -= 1;
        }
    }

    /// Signals all processes that have not handed over.
    fn signal_all(&self, signal: Signal) {
        let processes = self.processes.iter().filter(|process| process.handed_over.is_none());
        processes.for_each(|process| process.signal(signal));
    }

    fn check(&mut self, index: usize, closing: bool) -> anyhow::Result<()> {
        let has_other_replica = self.has_other_replica(index);
        let may_join = !closing && self.may_join(self.processes[index].node.id);
        let is_replaced = self.is_replaced(index);
        let process = &mut self.processes[index];
        if let Some(handed_over) = self.next.take_handed_over(process.node.id) {
            process.handed_over = Some(handed_over);
        }
        if process.ended.is_some() {
            if may_join && std::mem::take(&mut process.waits_to_join) {
                log_as!(PROCESS_RESTARTED, peer = process.node.name; "{} is started again", process.node.name);
                return self.start_again(index);
            }
            return if closing { Ok(()) } else { process.report_early_end() };
        }
        let Some(end) = process.child.try_wait()? else { return Ok(()) };
        let (name, status) = (&process.node.name, &end.status);
        let is_over = process.handed_over.is_some();
        if process.is_recovered && !closing && !is_over {
            log_as!(PROCESS_RESTARTED, peer = name; "{name} ended ({status}); it is started again, as asked for");
            return self.start_again(index);
        }
        let is_replica = process.node.id.role == Role::Manager;
        // Another process publishes under its name, or will do so.
        let is_published = has_other_replica || is_replaced;
        let is_replaced = is_replaced && end.has_died;
        let may_return =
            (end.has_died || is_replica && end.is_retired) && !closing && !is_over && !is_replaced;
        let again = may_return && process.restarts.died(process.started.elapsed().into()).is_some();
        if again && (!is_replica || may_join) {
            let what = if end.has_died { "died" } else { "ended" };
            log_as!(PROCESS_RESTARTED, peer = name; "{name} {what} ({status}); it is restarted");
            self.start_again(index)?;
            return self.start_other_again(index);
        }
        process.waits_to_join = again && is_replica;
        if may_return && !again {
            log_as!(
                PROCESS_ENDED, peer = name;
                "{name} died ({status}) and is not restarted: it died too often shortly after its start; see its messages above"
            );
        } else if !end.is_success && has_other_replica {
            log_as!(REPLICA_ENDED, peer = name; "{name} ended ({status}); the other replica of the event manager goes on");
        } else if is_replaced {
            log_as!(REPLICA_ENDED, peer = name; "{name} ended ({status}); its mirror or its readout unit goes on");
        } else if !end.is_success {
            log_as!(PROCESS_ENDED, peer = name; "{name} ended: {status}");
        }
        if let Some(page) = self.page.as_ref().filter(|_| !is_published) {
            page.hub().note_gone(name);
        }
        self.next.lines.remove(process.node.id);
        process.ended = Some(end);
        process.is_replaced = is_replaced;
        if is_replaced {
            // Nobody is to call a node that another one acts for. One that is started again listens by itself.
            process.listener = None;
        }
        Ok(())
    }

    /// Returns whether this is a replica of the event manager, and the other one is left or has ended the run.
    fn has_other_replica(&self, index: usize) -> bool {
        let node = self.processes[index].node.id;
        node.role == Role::Manager
            && self
                .managers()
                .any(|process| process.node.id != node && (!process.is_over() || process.has_succeeded()))
    }

    /// Returns whether this is a replica of the event manager that can join: the other one acts as the event manager.
    fn may_join(&self, node: NodeId) -> bool {
        let acting = self.next.lines.manager();
        node.role == Role::Manager
            && acting == node.other_replica()
            && self.managers().any(|process| process.node.id == acting && !process.is_over())
    }

    /// Returns whether another node acts for this one when it dies: this is a readout unit whose mirror is left, or the reverse.
    fn is_replaced(&self, index: usize) -> bool {
        self.other_of(index).is_some_and(|other| !self.processes[other].is_over())
    }

    /// Starts the mirror of a readout unit again that is started again, or the reverse: both have died.
    fn start_other_again(&mut self, index: usize) -> anyhow::Result<()> {
        let other = self.other_of(index).filter(|other| self.processes[*other].ended.is_some());
        other.map_or(Ok(()), |other| self.start_again(other))
    }

    /// Returns the mirror of a readout unit, or the reverse.
    fn other_of(&self, index: usize) -> Option<usize> {
        let NodeId { role, index: place } = self.processes[index].node.id;
        let other = match role {
            Role::Readout => NodeId::mirror(place),
            Role::Mirror => NodeId::readout(place),
            Role::Manager | Role::Builder | Role::Output => return None,
        };
        self.processes.iter().position(|process| process.node.id == other)
    }

    /// Starts the process of a node again that has ended.
    fn start_again(&mut self, index: usize) -> anyhow::Result<()> {
        let process = &self.processes[index];
        self.lost.note(process.node.id.role, self.has_farm);
        let child = self.spawn(&process.node, process.listener.as_ref())?;
        let process = &mut self.processes[index];
        (process.child, process.started, process.ended) = (child, Instant::now(), None);
        process.is_reported = false;
        if std::mem::take(&mut process.is_recovered) {
            process.restarts = Restarts::new(RESTARTS);
            if let Some(controls) = &self.controls {
                let is_replica = process.node.id.role == Role::Manager;
                controls.recovery.note_done(if is_replica { NodeId::MANAGER } else { process.node.id });
            }
        }
        Ok(())
    }

    /// Kills the processes that do not end, and neither say nor do anything more.
    fn kill_silent(&mut self, manager_ended: Instant) {
        let patience = PATIENCE + self.programs;
        let is_over = manager_ended.elapsed() > LONGEST_END + self.programs;
        for process in self.processes.iter_mut().filter(|process| !process.is_over()) {
            let silence = process.silence(manager_ended);
            if process.is_killed || (silence <= patience && !is_over) {
                continue;
            }
            log_as!(
                PROCESS_KILLED, peer = process.node.name;
                "{} did not end in time; it is killed", process.node.name
            );
            process.child.kill();
            process.is_killed = true;
        }
    }

    /// Reads the final report of every process.
    fn collect(&mut self, output: Option<PathBuf>) -> anyhow::Result<Outcome> {
        let mut manager: Option<ManagerSummary> = None;
        let mut others = Extras::default();
        let mut errors = Vec::new();
        let hands_over = self.hands_over();
        for process in &mut self.processes {
            let text = process.report()?;
            let name = &process.node.name;
            if process.node.id.role == Role::Manager {
                let of_replica = serde_json::from_str::<ManagerSummary>(&text).ok();
                manager = ManagerSummary::choose(manager, of_replica);
            } else if let Ok(said) = serde_json::from_str::<NodeSummary>(&text) {
                others.join(&said.extras);
                errors.extend(said.errors);
            } else if hands_over && process.has_died() {
                // It is started again in the next run, as it is in a run. The event manager knows what became of its events.
                self.lost.note(process.node.id.role, self.has_farm);
            } else if process.is_replaced {
                // The other one has the books.
            } else {
                errors.push(format!("{name} ended without a report"));
            }
        }
        others.note_lost(self.lost);
        let Some(mut manager) = manager else { return Err(no_books(output.as_deref())) };
        errors.append(&mut manager.errors);
        let stored = manager.stored();
        let mut summary = manager.summary;
        summary.join(&others);
        summary.output = output;
        summary.ended_early =
            self.no_space.take().map(|why| EarlyEnd::new("disk_space", why)).or(summary.ended_early);
        Ok(Outcome { summary, stored, errors, traces: None })
    }
}

/// The event manager has the books of the run, and died with them.
fn no_books(output: Option<&Path>) -> anyhow::Error {
    let error = anyhow!("the event manager ended without a report: the run has no ledger");
    match output {
        Some(path) => error.context(format!(
            "the files are in {path}: run `sheaf verify {path}` to list their events; how many of them count cannot be determined",
            path = path.display()
        )),
        None => error,
    }
}
