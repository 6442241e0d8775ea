//! The drivers of this process: each is a role with its endpoint, sources, outputs and filters.

use crate::consumers::{self, BuilderDoor, ClosingDoors};
use crate::describe;
use crate::early_farms::EarlyFarms;
use crate::leaving::Leaving;
use crate::network::Connection;
use crate::plan::Plan;
use crate::programs::EndingPrograms;
use crate::steps::{StepPlace, step_filter};
use crate::summary::Extras;
use crate::supervisor::SupervisorDoor;
use anyhow::{Context, bail};
use sheaf_config::NodeConfig;
use sheaf_node::builder::{BuilderNode, BuilderReport};
use sheaf_node::farm::Farm;
use sheaf_node::handover::Handover;
use sheaf_node::link_handover::LinkHandover;
use sheaf_node::manager::{ManagerHandover, ManagerNode, ReplicaOptions};
use sheaf_node::output::{OutputNode, OutputReport};
use sheaf_node::readout::{ReadoutHandover, ReadoutNode, ReadoutReport};
use sheaf_node::reborn::Reborn;
use sheaf_node::report::{Gauges, RunReport};
use sheaf_node::traces::Tracing;
use sheaf_node::{Clock, NodeDriver, NodeError, RunControls};
use sheaf_protocol::Identity;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig};
use sheaf_protocol::output::{OutputUnit, Sender};
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_telemetry::Hub;
use sheaf_wire::{NodeId, Role};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Makes the connection of a node's session.
pub(crate) type Connect = Box<dyn FnMut(&Identity) -> anyhow::Result<Connection> + Send>;

/// Makes the drivers of this process.
#[derive(Clone)]
pub(crate) struct DriverMaker {
    pub(crate) plan: Arc<Plan>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) clock: Clock,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) controls: Arc<RunControls>,
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) reports: Reports,
    /// Where drivers other than the event manager publish their metrics, if somebody reads them.
    pub(crate) hub: Option<Hub>,
    /// Stamps of events, if somebody reads them.
    pub(crate) tracing: Option<Tracing>,
    /// Set when the event manager has ended.
    pub(crate) over: Arc<AtomicBool>,
    /// Time for which the other nodes wait for the event manager.
    pub(crate) manager_patience: Patience,
    /// Handovers of the run before, if this one follows it.
    pub(crate) handovers: Handovers,
    /// Farms that were made before the run.
    pub(crate) early_farms: Arc<EarlyFarms>,
    /// Set when this node, a standby event manager, takes over.
    pub(crate) took_over: Arc<AtomicBool>,
    /// Whether the run has begun before, so that its event manager can only join the other one.
    pub(crate) only_joins: bool,
}

/// Handovers to the next run, by node.
pub(crate) type Handovers = Arc<Mutex<BTreeMap<NodeId, Box<dyn Handover>>>>;

/// Beginning of a node.
enum Beginning {
    /// A new connection.
    Connection(Connection),
    /// The handover of the run before.
    Handover(Box<dyn Handover>),
}

impl DriverMaker {
    /// Has all drivers publish at this hub.
    pub(crate) fn publish_at(&mut self, hub: Hub) {
        self.gauges = Arc::new(Gauges::new(hub.clone(), self.plan.node_names()));
        self.hub = Some(hub);
    }

    /// Makes the driver of a node that shares its process with the event manager. It ends with the event manager, even
    /// if the two have not connected or the event manager's last messages have not arrived.
    pub(crate) fn make_beside_manager(
        &self,
        id: NodeId,
        connect: Connect,
    ) -> anyhow::Result<Box<dyn NodeDriver>> {
        let driver = self.make(id, connect)?;
        Ok(match id.role {
            Role::Manager => driver,
            Role::Readout | Role::Builder | Role::Output | Role::Mirror => {
                Box::new(Leaving::new(driver, self.over.clone()))
            }
        })
    }

    /// Makes the driver of a node. A builder begins a new session when the event manager has given it up.
    pub(crate) fn make(&self, id: NodeId, mut connect: Connect) -> anyhow::Result<Box<dyn NodeDriver>> {
        let maker = self.clone();
        let mut door = None;
        let mut begin = move || {
            let me = maker.plan.identity(id, maker.clock.now());
            let handed = maker.handovers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let beginning = match handed {
                Some(handover) => Beginning::Handover(handover),
                None => Beginning::Connection(connect(&me)?),
            };
            maker.make_once(me, beginning, &mut door)
        };
        if id.role != Role::Builder {
            return begin();
        }
        // The first session begins here, so that errors are reported before anything runs.
        let mut first = Some(begin()?);
        let next = move || match first.take() {
            Some(driver) => Ok(driver),
            None => begin().map_err(|error| NodeError::NoSession { node: id, error: describe(&error) }),
        };
        Ok(Box::new(Reborn::new(id, Box::new(next))?))
    }

    /// A builder's first session opens its door for consumers.
    fn make_once(
        &self,
        me: Identity,
        beginning: Beginning,
        door: &mut Option<BuilderDoor>,
    ) -> anyhow::Result<Box<dyn NodeDriver>> {
        match me.node.role {
            Role::Manager => self.make_manager(me, beginning),
            Role::Readout => self.make_readout(me, beginning),
            Role::Builder => self.make_builder(me, beginning, door),
            Role::Output => self.make_output(me, beginning),
            Role::Mirror => self.make_mirror(me, beginning),
        }
    }

    fn configured(&self, node: NodeId) -> anyhow::Result<&NodeConfig> {
        self.plan.node(node).with_context(|| format!("{node} is not in the configuration"))
    }

    fn make_readout(&self, me: Identity, beginning: Beginning) -> anyhow::Result<Box<dyn NodeDriver>> {
        let (plan, now, node) = (&self.plan, self.clock.now(), self.configured(me.node)?);
        let mut role = ReadoutUnit::new(me, plan.readout(node), now);
        let patience = self.manager_patience;
        let early = self.early_farms.take_preprocessors(me.node);
        let mut driver = match beginning.split::<ReadoutHandover>()? {
            Begin::Following(handover) => {
                let preprocessors = match early {
                    Some(early) => Some(early),
                    None => plan.next_preprocessors(node, &me, &|| false)?,
                };
                ReadoutNode::following(role, *handover, preprocessors, patience, now)
            }
            Begin::Anew(Connection { endpoint, arena }) => {
                let mut sources = plan.sources(&me, node, arena.as_ref(), endpoint.waker())?;
                if let Some(first) = plan.begins_with {
                    role.begin_with(first);
                    sources.iter_mut().for_each(|source| source.skip_to(first));
                }
                let way = (self.directory.as_deref(), endpoint.waker());
                let sources = plan.start_programs(&me, node, sources, way, &self.reports.programs)?;
                let driver = ReadoutNode::new(role, endpoint, sources, patience, now);
                match plan.preprocessing(node, &me, arena.as_ref()) {
                    Some(setup) => driver.active(setup)?,
                    None => driver,
                }
            }
        };
        if plan.has_standby() {
            driver = driver.with_replicas(plan.vote_of(me.node));
        }
        if plan.has_mirrors() {
            driver = driver.mirrored(plan.mirror(), now);
        }
        let list = self.reports.readouts.clone();
        driver = driver
            .with_report(move |report| list.lock().unwrap_or_else(PoisonError::into_inner).push(report));
        if let Some(hub) = &self.hub {
            driver = driver.publishing(hub, &node.name, plan.readout_limits());
        }
        if let Some(tracing) = &self.tracing {
            driver = driver.traced(tracing, &node.name, plan.node_names().builders);
        }
        let builders = usize::from(plan.count(Role::Builder));
        Ok(Box::new(match plan.frame_shaper() {
            Some(config) => driver.shaped(config, builders),
            None => driver,
        }))
    }

    fn make_mirror(&self, me: Identity, beginning: Beginning) -> anyhow::Result<Box<dyn NodeDriver>> {
        let (plan, now) = (&self.plan, self.clock.now());
        let unit = self.configured(NodeId::readout(me.node.index))?;
        let Begin::Anew(Connection { endpoint, arena }) = beginning.split::<ReadoutHandover>()? else {
            bail!("a mirror goes on with another run: this is a bug in sheaf");
        };
        let as_unit = Identity { node: unit.id, ..me };
        let sources = plan.sources(&as_unit, unit, arena.as_ref(), endpoint.waker())?;
        let (role, patience) = ((me, plan.readout(unit)), self.manager_patience);
        let mut driver = ReadoutNode::mirror(role, plan.mirror(), (endpoint, sources), patience, now);
        if plan.has_standby() {
            driver = driver.with_replicas(plan.vote_of(unit.id));
        }
        if let Some(hub) = &self.hub {
            driver = driver.publishing(hub, &unit.name, plan.readout_limits());
        }
        let list = self.reports.readouts.clone();
        Ok(Box::new(driver.with_report(move |report| {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        })))
    }

    fn make_builder(
        &self,
        me: Identity,
        mut beginning: Beginning,
        door: &mut Option<BuilderDoor>,
    ) -> anyhow::Result<Box<dyn NodeDriver>> {
        let (plan, now, node) = (&self.plan, self.clock.now(), self.configured(me.node)?);
        let role = BuilderUnit::new(me, plan.builder(), now);
        let directory = self.directory.as_deref();
        let mut judgement = plan.judgement(&me, directory)?;
        if door.is_none() {
            *door = BuilderDoor::open(plan, &me, directory, &self.reports.doors);
        }
        if let Some(door) = door {
            judgement.sink = door.beside(judgement.sink);
        }
        judgement.sink = plan.prescaled(judgement.sink)?;
        let waker = beginning.waker();
        self.early_farms.note_waker(me.node, &waker);
        let farm = match self.early_farms.take(me.node) {
            Some(farm) => Some(farm),
            None => {
                plan.farm(&me, directory)?.map(|setup| Farm::new(setup, me.node, waker, now)).transpose()?
            }
        };
        let patience = self.manager_patience;
        let driver = match beginning.split::<LinkHandover>()? {
            Begin::Following(handover) => BuilderNode::following(role, *handover, judgement, patience, now),
            Begin::Anew(link) => BuilderNode::new(role, link.endpoint, judgement, patience, now),
        };
        let list = self.reports.builders.clone();
        let mut driver = driver
            .with_report(move |report| list.lock().unwrap_or_else(PoisonError::into_inner).push(report));
        driver = match step_filter(&plan.loading(), me.run)? {
            Some((filter, StepPlace::Own)) => driver.in_steps(filter),
            Some((filter, StepPlace::Beside)) => driver.in_steps_beside(filter)?,
            None => driver,
        };
        if let Some(config) = plan.sender() {
            driver = driver.with_outputs(Sender::new(me, config, now));
        }
        if let Some(farm) = farm {
            driver = driver.with_farm(farm);
        }
        if plan.has_mirrors() {
            driver = driver.with_mirrors();
        }
        if plan.has_standby() {
            driver = driver.with_replicas(plan.vote_of(me.node));
        }
        if let Some(tracing) = &self.tracing {
            driver = driver.traced(tracing, &node.name, plan.node_names().readouts);
        }
        Ok(Box::new(match &self.hub {
            Some(hub) => driver.publishing(hub, &node.name, &plan.source_ids(), plan.builder_limits()),
            None => driver,
        }))
    }

    fn make_output(&self, me: Identity, beginning: Beginning) -> anyhow::Result<Box<dyn NodeDriver>> {
        let (plan, now, node) = (&self.plan, self.clock.now(), self.configured(me.node)?);
        let role = OutputUnit::new(me, plan.output_node(), now);
        let sink = plan.sink(&me, self.directory.as_deref())?;
        let patience = self.manager_patience;
        let driver = match beginning.split::<LinkHandover>()? {
            Begin::Following(handover) => OutputNode::following(role, *handover, sink, patience, now),
            Begin::Anew(link) => OutputNode::new(role, link.endpoint, sink, patience, now),
        };
        let list = self.reports.outputs.clone();
        let mut driver = driver
            .with_report(move |report| list.lock().unwrap_or_else(PoisonError::into_inner).push(report));
        if plan.has_standby() {
            driver = driver.with_replicas(plan.vote_of(me.node));
        }
        if let Some(tracing) = &self.tracing {
            driver = driver.traced(tracing, &node.name);
        }
        Ok(Box::new(match &self.hub {
            Some(hub) => driver.publishing(hub, &node.name, plan.output_limits()),
            None => driver,
        }))
    }

    fn make_manager(&self, me: Identity, beginning: Beginning) -> anyhow::Result<Box<dyn NodeDriver>> {
        let plan = &self.plan;
        let (run, over) = (self.reports.run.clone(), self.over.clone());
        let done = move |report| {
            *run.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
            over.store(true, Ordering::Relaxed);
        };
        let course = plan.course(self.stop.clone(), self.controls.clone());
        let (config, now) = (plan.manager(), self.clock.now());
        let replicas = plan.has_standby().then(|| (plan.standby(), config.clone()));
        let manager = match beginning.split::<ManagerHandover>()? {
            Begin::Following(handover) => {
                let config = ManagerConfig { first_event: handover.next_event(), ..config };
                let role = EventManager::new(me, config, now);
                ManagerNode::following(role, *handover, course, self.gauges.clone(), done)
            }
            Begin::Anew(Connection { endpoint, .. }) => {
                // Of a standby, until it knows the session of the event manager.
                let identity = Identity { node: NodeId::MANAGER, ..me };
                let role = EventManager::new(identity, config, now);
                let way = (self.directory.as_deref(), endpoint.waker());
                let door = plan.trigger_door(&me, endpoint.waker(), self.clock)?;
                let start =
                    |door: &SupervisorDoor| plan.start_supervisor(&me, door, way, &self.reports.programs);
                let program = door.as_ref().map(start).transpose()?.flatten();
                let manager = ManagerNode::new(role, endpoint, course, self.gauges.clone(), done);
                match door {
                    Some(SupervisorDoor { door, .. }) => manager.triggered_by(Box::new(door), program),
                    None => manager,
                }
            }
        };
        let manager = match replicas {
            Some(replicas) => {
                let took_over = self.took_over.clone();
                let hook = Box::new(move || took_over.store(true, Ordering::Relaxed));
                // One that was started by hand leaves the run on Ctrl-C. The parent of others may take it for the event manager already.
                let leaves = self.manager_patience != Patience::UNLIMITED;
                let options = ReplicaOptions { took_over: hook, leaves, only_joins: self.only_joins };
                manager.replicated(me, replicas, now, options)
            }
            None => manager,
        };
        let manager = if plan.has_mirrors() { manager.with_mirrors() } else { manager };
        let manager = match &self.tracing {
            Some(tracing) => manager.traced(tracing.clone()),
            None => manager,
        };
        Ok(Box::new(match plan.busy_signal()? {
            Some(signal) => manager.signalling(signal),
            None => manager,
        }))
    }
}

/// A [`Beginning`] of a node whose role is known.
enum Begin<T> {
    Anew(Connection),
    Following(Box<T>),
}

impl Beginning {
    /// Returns the connection, or what a node of this kind has handed over.
    fn split<T: Handover>(self) -> anyhow::Result<Begin<T>> {
        let handover: Box<dyn Any> = match self {
            Self::Connection(connection) => return Ok(Begin::Anew(connection)),
            Self::Handover(handover) => handover,
        };
        match handover.downcast() {
            Ok(handover) => Ok(Begin::Following(handover)),
            Err(_) => bail!("a node has handed over to a node of another role: this is a bug in sheaf"),
        }
    }

    /// Returns what wakes the thread of the node.
    fn waker(&mut self) -> Waker {
        match self {
            Self::Connection(connection) => connection.endpoint.waker(),
            Self::Handover(handover) => handover.waker(),
        }
    }
}

/// Reports of the nodes of this process when they end.
#[derive(Clone, Default)]
pub(crate) struct Reports {
    pub(crate) run: Arc<Mutex<Option<RunReport>>>,
    pub(crate) readouts: Arc<Mutex<Vec<ReadoutReport>>>,
    pub(crate) builders: Arc<Mutex<Vec<BuilderReport>>>,
    pub(crate) outputs: Arc<Mutex<Vec<OutputReport>>>,
    pub(crate) doors: ClosingDoors,
    pub(crate) programs: EndingPrograms,
}

impl Reports {
    /// Returns the figures that the summary needs in addition to the event manager's report.
    ///
    /// Waits until the doors for consumers are closed and programs have ended: the drivers must have been dropped.
    pub(crate) fn extras(&self) -> Extras {
        let ending = std::mem::take(&mut *self.programs.lock().unwrap_or_else(PoisonError::into_inner));
        let programs: Vec<_> = ending.into_iter().map(|(node, programs)| (node, programs.wait())).collect();
        let doors = consumers::counts(&self.doors);
        let readouts = self.readouts.lock().unwrap_or_else(PoisonError::into_inner);
        let builders = self.builders.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut extras = Extras::new(&readouts, &builders, &outputs, &doors);
        extras.add_programs(programs);
        extras
    }
}
