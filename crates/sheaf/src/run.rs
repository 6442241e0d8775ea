//! A whole system in this process.

use crate::drivers::{DriverMaker, Reports};
use crate::early_farms::EarlyFarms;
use crate::network::{Connection, Listeners};
use crate::page::{Page, View};
use crate::plan::Plan;
use crate::programs::RunningPrograms;
use crate::run_directory::{self, Stored};
use crate::summary::Summary;
use crate::{network, placement, tracing};
use anyhow::{Context, bail};
use sheaf_config::{NodeConfig, TransportKind};
use sheaf_machine::Placement;
use sheaf_node::handover::Handover;
use sheaf_node::report::Gauges;
use sheaf_node::traces::Tracing;
use sheaf_node::worker::Ended;
use sheaf_node::{Clock, NodeDriver, NodeError, worker};
use sheaf_protocol::Identity;
use sheaf_protocol::liveness::Patience;
use sheaf_telemetry::{Hub, log_as};
use sheaf_transport::memory::{Doorbell, MemoryNetwork};
use sheaf_wire::{NodeId, RunNumber};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Results of a run.
pub(crate) struct Outcome {
    pub(crate) summary: Summary,
    pub(crate) stored: Stored,
    pub(crate) errors: Vec<String>,
    /// Writes the last traces, where the nodes of the run go on with the next one.
    pub(crate) traces: Option<JoinHandle<()>>,
}

/// Beginning of a run.
pub(crate) struct Onset {
    pub(crate) clock: Clock,
    /// Remains of an earlier run, if this one follows it without a gap.
    pub(crate) before: Option<Following>,
    pub(crate) early_farms: Arc<EarlyFarms>,
}

/// Runs every node of the plan in this process. Returns what the run leaves, if another one is to follow.
pub(crate) fn in_process(
    plan: &Arc<Plan>,
    directory: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    View { console, page, controls, traces }: View<'_>,
    Onset { clock, before, early_farms }: Onset,
) -> anyhow::Result<(Outcome, Option<Following>)> {
    let output = directory.clone();
    let tracing = tracing::tracing(&plan.config);
    let (mut links, handovers, programs) = match before {
        Some(Following { links, handovers, programs, .. }) => (links, handovers, programs),
        None => (Links::new(plan)?, BTreeMap::new(), Vec::new()),
    };
    let reports = Reports::default();
    *reports.programs.lock().unwrap_or_else(PoisonError::into_inner) = programs;
    let maker = DriverMaker {
        plan: plan.clone(),
        directory,
        clock,
        stop,
        controls: controls.cloned().unwrap_or_default(),
        gauges: Arc::new(Gauges::new(page.map_or_else(Hub::default, Page::hub), plan.node_names())),
        reports,
        hub: page.map(Page::hub),
        tracing: tracing.clone(),
        over: Arc::default(),
        // They end with the event manager, which is in the same process.
        manager_patience: Patience::UNLIMITED,
        handovers: Arc::new(Mutex::new(handovers)),
        early_farms,
        took_over: Arc::default(),
        only_joins: false,
    };
    let threads = links.threads(&maker)?;
    let collect = |tracing: &Tracing| {
        tracing::collect(plan, tracing, traces.map(Path::to_owned), (page.map(Page::hub), None))
    };
    let collector = tracing.as_ref().map(collect).transpose()?;
    let ended = {
        let _show = console.show(maker.gauges.clone());
        let _wait = page.map(|page| page.show_waiting(maker.gauges.clone()));
        run_threads(threads, clock)?
    };
    // Its file is closed before the directory is.
    drop(collector);
    let report = maker.reports.run.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = report.context("the event manager ended without a report")?;
    let following = Following::of(ended.handovers, links, &maker.reports);
    let stored = run_directory::stored(&report);
    let summary = Summary::new(&report, &maker.reports.extras(), plan, output);
    // Events of a fenced builder are built elsewhere or dropped and accounted for.
    let failed = ended.errors.iter().filter(|error| !matches!(error, NodeError::Fenced(_)));
    let errors = failed.map(|error| plan.explain(error)).collect();
    Ok((Outcome { summary, stored, errors, traces: None }, following))
}

/// Parts of a run that the run which follows it in this process goes on with.
pub(crate) struct Following {
    links: Links,
    handovers: BTreeMap<NodeId, Box<dyn Handover>>,
    /// Programs that go on.
    programs: RunningPrograms,
}

impl Following {
    /// Returns what the nodes of a run have left, if all of them have.
    fn of(handovers: Vec<(NodeId, Box<dyn Handover>)>, links: Links, reports: &Reports) -> Option<Self> {
        let handovers: BTreeMap<_, _> = handovers.into_iter().collect();
        if handovers.is_empty() {
            return None;
        }
        let following = Self { links, handovers, programs: Vec::new() };
        if following.handovers.len() < following.links.nodes.len() {
            log_as!(NO_HANDOVER; "some nodes of the run have died: the next run begins anew, with a gap");
            following.abandon();
            return None;
        }
        let programs = std::mem::take(&mut *reports.programs.lock().unwrap_or_else(PoisonError::into_inner));
        Some(Self { programs, ..following })
    }

    /// Ends sources, links and programs, because no run follows after all.
    pub(crate) fn abandon(self) {
        let Self { handovers, programs, .. } = self;
        handovers.into_values().for_each(Handover::abandon);
        for (_, programs) in programs {
            let _ = programs.wait();
        }
    }
}

/// The links between the nodes of this process. Those of one run serve the runs that follow it.
struct Links {
    /// Run whose number the nodes meet with.
    met_in: RunNumber,
    /// The nodes, with their addresses.
    nodes: Vec<NodeConfig>,
    /// The network of nodes that meet in memory.
    memory: Option<MemoryNetwork>,
    /// The doorbell of each thread, for such nodes.
    doorbells: Vec<Doorbell>,
    /// Sockets that no node has taken.
    listeners: Listeners,
}

impl Links {
    fn new(plan: &Plan) -> anyhow::Result<Self> {
        let mut nodes = plan.nodes.clone();
        let (memory, listeners) = match plan.config.transport.kind {
            TransportKind::Memory => (Some(network::memory(plan)?), Vec::new()),
            TransportKind::Tcp
            | TransportKind::Shm
            | TransportKind::Mixed
            | TransportKind::Libfabric
            | TransportKind::Udp
            | TransportKind::Ethernet => (None, loopback_listeners(plan, &mut nodes)?),
        };
        let met_in = plan.config.run.number;
        Ok(Self { met_in, nodes, memory, doorbells: Vec::new(), listeners })
    }

    fn threads(&mut self, maker: &DriverMaker) -> anyhow::Result<Vec<Thread>> {
        match self.memory.clone() {
            Some(network) => self.memory_threads(&network, maker),
            None => self.socket_threads(maker),
        }
    }

    /// As many threads as there are processors, nodes dealt out in turn; nodes with a place of their own apart.
    fn memory_threads(
        &mut self,
        network: &MemoryNetwork,
        maker: &DriverMaker,
    ) -> anyhow::Result<Vec<Thread>> {
        let groups = deal_out(&maker.plan.nodes, processors());
        self.doorbells.resize_with(groups.len(), Doorbell::new);
        let mut threads = Vec::new();
        for ((place, group), doorbell) in groups.into_iter().zip(&self.doorbells) {
            let driver = |node: &NodeConfig| {
                let (network, doorbell, plan) = (network.clone(), doorbell.clone(), maker.plan.clone());
                let connect = move |me: &Identity| -> anyhow::Result<Connection> {
                    let connection = Connection::new(network.attach(me.node, &doorbell)?);
                    Ok(Connection { arena: plan.farm_arena(me.node)?, ..connection })
                };
                maker.make_beside_manager(node.id, Box::new(connect))
            };
            let drivers = group.into_iter().map(driver).collect::<anyhow::Result<_>>()?;
            threads.push(Thread { drivers, place });
        }
        Ok(threads)
    }

    /// Over TCP, and through memory shared as between processes, a thread sleeps in the kernel for one node, so each node has
    /// its own. The sockets also see to it that no other run on this machine has the same addresses, which are names in
    /// shared memory.
    fn socket_threads(&mut self, maker: &DriverMaker) -> anyhow::Result<Vec<Thread>> {
        let mut threads = Vec::new();
        for node in &self.nodes {
            let mut listener = self
                .listeners
                .iter_mut()
                .find(|(id, _)| *id == node.id)
                .and_then(|(_, socket)| socket.take());
            let (plan, peers, met_in) = (maker.plan.clone(), self.nodes.clone(), self.met_in);
            let connect = move |me: &Identity| {
                network::connect(&plan, &Identity { run: met_in, ..*me }, listener.take(), &peers)
            };
            let driver = maker.make_beside_manager(node.id, Box::new(connect))?;
            threads.push(Thread { drivers: vec![driver], place: placement::of(node) });
        }
        Ok(threads)
    }
}

/// The drivers of one thread, and where it runs.
struct Thread {
    drivers: Vec<Box<dyn NodeDriver>>,
    place: Placement,
}

/// Gives every node that others call a socket on loopback, and writes its address into the list. Where datagrams go over UDP
/// every node has an address, one for each rail, and no socket; over raw Ethernet there are no such addresses.
pub(crate) fn loopback_listeners(plan: &Plan, nodes: &mut [NodeConfig]) -> anyhow::Result<Listeners> {
    let mut listeners = Vec::new();
    // The addresses of the configuration belong to other hosts. In one process, all rails use loopback.
    nodes.iter_mut().for_each(|node| node.more_addresses.clear());
    if plan.config.transport.kind == TransportKind::Udp {
        network::give_udp_addresses(plan, nodes)?;
        return Ok(Vec::new());
    }
    if plan.config.transport.kind == TransportKind::Ethernet {
        return Ok(Vec::new());
    }
    for node in nodes.iter_mut().filter(|node| network::listens(node.id)) {
        let (listener, address) = network::loopback_listener()?;
        node.address = Some(address);
        listeners.push((node.id, Some(listener)));
    }
    Ok(listeners)
}

/// Nodes with the same place share its threads: at most one for each of its processors.
fn deal_out(nodes: &[NodeConfig], processors: usize) -> Vec<(Placement, Vec<&NodeConfig>)> {
    let mut places: Vec<(Placement, Vec<&NodeConfig>)> = Vec::new();
    for node in nodes {
        let place = placement::of(node);
        match places.iter_mut().find(|(other, _)| *other == place) {
            Some((_, group)) => group.push(node),
            None => places.push((place, vec![node])),
        }
    }
    let mut threads = Vec::new();
    for (place, group) in places {
        let most = if place.cpus.is_empty() { processors } else { place.cpus.len() };
        let count = most.min(group.len());
        let of_thread = |thread| group.iter().copied().skip(thread).step_by(count).collect();
        threads.extend((0..count).map(|thread| (place.clone(), of_thread(thread))));
    }
    threads
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn run_threads(threads: Vec<Thread>, clock: Clock) -> anyhow::Result<Ended> {
    let mut handles = Vec::new();
    for thread in threads {
        let name = thread.drivers.first().map_or_else(String::new, |driver| driver.node().to_string());
        let body = move || {
            placement::take(&thread.place);
            worker::run(thread.drivers, clock)
        };
        handles.push(std::thread::Builder::new().name(name).spawn(body).context("cannot start a thread")?);
    }
    let mut ended = Ended::default();
    for handle in handles {
        match handle.join() {
            Ok(of_thread) => {
                ended.errors.extend(of_thread.errors);
                ended.handovers.extend(of_thread.handovers);
            }
            Err(_) => bail!("a thread panicked: this is a bug in sheaf; its message is above"),
        }
    }
    Ok(ended)
}
