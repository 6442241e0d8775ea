//! The plan of a run: its configuration, with all that follows from it for nodes and roles.

use crate::code::Code;
use crate::timed::TimedSources;
use crate::windows::trigger_windows;
use crate::{recorded_slices, recording};
use anyhow::{Context, bail};
use sheaf_config::{
    Config, IncompletePolicy, NodeConfig, OutputKind, RequiredNodes, ShapingPolicy, Source, SourceKind,
    TriggerMode,
};
use sheaf_key::RunKey;
use sheaf_node::RunControls;
use sheaf_node::busy_signal::BusySignal;
use sheaf_node::manager::Course;
use sheaf_node::trigger::TriggerRate;
use sheaf_node::trigger_door::PayloadSource;
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{BuilderConfig, ReadoutSources};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{LossAction, ManagerConfig, Requirement, Triggers};
use sheaf_protocol::output::{OutputConfig, SenderConfig};
use sheaf_protocol::readout::{Announce, ReadoutConfig, SourceConfig};
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_source::{StreamSet, open_directory};
use sheaf_telemetry::log_as;
use sheaf_wire::{
    ByteCount, EventId, Nanos, NodeId, Role, SessionId, SourceId, TimeBase, TimeUnit, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns unit and epoch of times: those that the streams of a replay state, with what the configuration adds.
fn time_base(source: &Source, streams: Option<&StreamSet>) -> anyhow::Result<Option<TimeBase>> {
    let Some(streams) = streams else {
        let unit = source.time_unit.unwrap_or(TimeUnit::NANOSECOND);
        let is_stated = source.time_unit.is_some() || source.epoch.is_some();
        return Ok(is_stated.then_some(TimeBase { unit, epoch: source.epoch }));
    };
    let recorded = streams.time_base();
    let base = recorded.unwrap_or(TimeBase::NANOSECONDS);
    let unit = source.time_unit.unwrap_or(base.unit);
    let epoch = source.epoch.or(base.epoch);
    if unit != base.unit || base.epoch.is_some_and(|recorded| Some(recorded) != epoch) {
        bail!(
            "the streams in {} have times of {base}, and the configuration sets others; remove `time_unit` and `epoch` of [source]",
            streams.directory().display()
        );
    }
    Ok((recorded.is_some() || epoch.is_some()).then_some(TimeBase { unit, epoch }))
}

/// A run's configuration with everything that follows from it.
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) nodes: Vec<NodeConfig>,
    /// The nodes that this host starts. Agents start the others on their hosts.
    pub(crate) here: BTreeSet<NodeId>,
    /// The run's own copies of the code that it loads.
    pub(crate) code: Code,
    /// The key by which nodes know each other, once it was [taken](Plan::take_key) or [made](Plan::make_key).
    pub(crate) key: Option<RunKey>,
    /// The recording that is replayed, if one is.
    pub(crate) streams: Option<StreamSet>,
    /// Unit and epoch of the times of events and fragments, if they are stated.
    pub(crate) time_base: Option<TimeBase>,
    /// The sources whose data are cut by time, if there are any.
    pub(crate) timed: Option<TimedSources>,
    /// Whether the sources may go on in another run.
    pub(crate) goes_on: bool,
    /// First event of a run that follows another one without a gap, for a node that has no part in the run before.
    pub(crate) begins_with: Option<EventId>,
}

impl Plan {
    /// Resolves nodes and sources; opens the directory of a replay.
    pub(crate) fn new(mut config: Config) -> anyhow::Result<Self> {
        let streams = match (config.source.kind, &config.source.replay.directory) {
            (SourceKind::Replay, Some(directory)) => Some(open_directory(directory)?),
            _ => None,
        };
        match &streams {
            Some(streams) if !config.source.is_timed() => {
                streams.require_event_ids()?;
                recorded_slices::take(streams, &mut config)?;
            }
            _ => {}
        }
        let of_fragments = time_base(&config.source, streams.as_ref())?;
        let timed = TimedSources::new(&config, streams.as_ref(), of_fragments)?;
        let time_base = match &timed {
            Some(timed) => timed.time_base(&config, of_fragments),
            None => of_fragments,
        };
        crate::described::check(&config)?;
        let nodes = match &streams {
            Some(streams) => {
                let sources = recording::sources(streams, &config)?;
                config.resolve_nodes(&sources)?
            }
            None => match &timed {
                Some(timed) => config.resolve_nodes(timed.cards())?,
                None => config.nodes()?,
            },
        };
        let here = nodes.iter().filter(|node| node.agent.is_none()).map(|node| node.id).collect();
        Self {
            config,
            nodes,
            here,
            code: Code::default(),
            key: None,
            streams,
            time_base,
            timed,
            goes_on: false,
            begins_with: None,
        }
        .check_steps()
    }

    /// Warns of defects of recorded data that concern some sources. They are no reason not to replay the data.
    ///
    /// One process of a run does this, not each.
    pub(crate) fn report_defects(&self, concerns: impl Fn(SourceId) -> bool) {
        if let Some(timed) = &self.timed {
            timed.report_unseen();
        }
        if let Some(streams) = &self.streams {
            recording::report_defects(streams, &self.config.source.replay.expected, concerns);
        }
    }

    /// Warns of names that are those of other sources, such as positions in place of ids.
    pub(crate) fn report_names(&self) {
        let names = &self.config.names;
        let mut sources = self.nodes.iter().flat_map(|node| &node.sources);
        let is_foreign = !names.is_empty() && sources.clone().all(|source| names.get(*source).is_none());
        if let Some(source) = sources.next().filter(|_| is_foreign) {
            log_as!(
                NAMES_UNUSED;
                "no source of this run has a name in `source.map` or [source.names], for instance source {source}; see whether the ids \
                 there are those of the run"
            );
        }
    }

    /// Reads the key file of the configuration, if it names one.
    ///
    /// # Errors
    /// Why the file does not contain a key.
    pub(crate) fn take_key(&mut self) -> anyhow::Result<()> {
        let key = self.config.transport.key_file.as_deref().map(RunKey::load).transpose();
        self.key = key.context("`transport.key_file` cannot be used")?;
        Ok(())
    }

    /// As [`Plan::take_key`]; if the configuration names no key file, generates a secret key, for nodes that all run on
    /// this host.
    ///
    /// # Errors
    /// Why there is no key.
    pub(crate) fn make_key(&mut self) -> anyhow::Result<()> {
        self.take_key()?;
        if self.key.is_none() {
            self.key = Some(RunKey::random().context("cannot make a key for the run")?);
        }
        Ok(())
    }

    /// Returns the key that processors and consumers must prove when they join over the network: only one from the
    /// configuration, since others cannot know a generated one.
    pub(crate) fn key_of_guests(&self) -> Option<RunKey> {
        self.key.clone().filter(|_| self.config.transport.key_file.is_some())
    }

    /// Returns the nodes that this host starts.
    pub(crate) fn nodes_here(&self) -> impl Iterator<Item = &NodeConfig> {
        self.nodes.iter().filter(|node| self.here.contains(&node.id))
    }

    /// Returns whether this host starts a node of this role.
    pub(crate) fn has_here(&self, role: Role) -> bool {
        self.here.iter().any(|node| node.role == role)
    }

    /// Returns the configuration that processes of nodes are started with, as text: with all nodes.
    pub(crate) fn effective_configuration(&self) -> String {
        let mut effective = self.config.clone();
        effective.set_nodes(&self.nodes);
        effective.to_toml()
    }

    /// Returns the addresses of the agents that start nodes, in the order of the nodes.
    pub(crate) fn agents(&self) -> Vec<String> {
        let mut agents: Vec<String> = Vec::new();
        for agent in self.nodes.iter().filter_map(|node| node.agent.as_ref()) {
            if !agents.contains(agent) {
                agents.push(agent.clone());
            }
        }
        agents
    }

    /// Returns whether agents start nodes.
    pub(crate) fn has_agents(&self) -> bool {
        self.here.len() < self.nodes.len()
    }

    /// Returns the configuration for code that loads libraries and scripts: with the run's own copies.
    pub(crate) fn loading(&self) -> Config {
        self.code.in_place(&self.config)
    }

    /// The node with this id.
    pub(crate) fn node(&self, id: NodeId) -> Option<&NodeConfig> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub(crate) fn of_role(&self, role: Role) -> impl Iterator<Item = &NodeConfig> {
        self.nodes.iter().filter(move |node| node.id.role == role)
    }

    /// Number of nodes with a role.
    pub(crate) fn count(&self, role: Role) -> u16 {
        // The configuration has at most 65,535 of each.
        u16::try_from(self.of_role(role).count()).unwrap_or(u16::MAX)
    }

    /// Returns a time limit after which a peer is given up, extended as configured.
    fn patiently(&self, limit: Nanos) -> Nanos {
        Nanos(limit.0.saturating_mul(u64::from(self.config.manager.patience)))
    }

    /// Time for which nodes wait for one another.
    pub(crate) fn patience(&self) -> Patience {
        let manager = &self.config.manager;
        Patience {
            absence: self.patiently(manager.peer_timeout),
            silence: self.patiently(manager.silence_timeout),
        }
    }

    /// Time for which the host of a peer may be silent over TCP: as long as a node may be gone. Probes take at least a
    /// second.
    pub(crate) fn silent_machine(&self) -> Nanos {
        self.patience().absence.max(Nanos::from_secs(1))
    }

    /// Time for which a node that was started by hand waits for the event manager. It is longer than the event manager's own wait for nodes:
    /// without the event manager the run is over, and nothing is gained by giving up early.
    pub(crate) fn manager_patience(&self) -> Patience {
        let manager = &self.config.manager;
        let Patience { absence, silence } = self.patience();
        let absence = manager.start_timeout + absence + absence;
        Patience { absence, silence: absence + silence + silence }
    }

    /// Returns the identity of a node whose session begins now.
    pub(crate) fn identity(&self, node: NodeId, now: Timestamp) -> Identity {
        Identity { node, run: self.config.run.number, session: SessionId(now.0.max(1)) }
    }

    pub(crate) fn channel(&self) -> ChannelTimes {
        let protocol = &self.config.protocol;
        ChannelTimes { retransmit: protocol.retransmit, acknowledge: protocol.acknowledge }
    }

    /// Returns how super-fragments reach the builder units.
    pub(crate) fn gathering(&self) -> Gathering {
        let Config { shaping, protocol, .. } = &self.config;
        let credit = shaping.credit;
        match shaping.policy {
            ShapingPolicy::Pull => Gathering::Pull,
            ShapingPolicy::Paced => Gathering::Paced { credit },
            ShapingPolicy::Push => Gathering::Push,
            ShapingPolicy::Barrel => Gathering::Barrel { credit, tick: protocol.heartbeat.min(LONGEST_TICK) },
        }
    }

    /// Returns the shaping of a readout unit's datagrams. `unit` is the size of the largest on the wire, `rails` the
    /// number of lines.
    pub(crate) fn readout_shaper(&self, unit: ByteCount, rails: usize) -> ShaperConfig {
        let shaping = &self.config.shaping;
        let barrel = BarrelConfig {
            builders: usize::from(self.count(Role::Builder)),
            senders: usize::from(self.count(Role::Readout)),
            block: shaping.block,
            guard: shaping.guard,
            slots: if shaping.synchronised { SlotSchedule::Synchronised } else { SlotSchedule::FreeRunning },
            patience: PATIENCE,
        };
        let is_barrel = shaping.policy == ShapingPolicy::Barrel;
        let policy = if is_barrel { Policy::Barrel(barrel) } else { Policy::Unshaped };
        ShaperConfig { policy, ..self.shaper(unit, rails) }
    }

    /// Returns the shaping of any other node's datagrams.
    pub(crate) fn shaper(&self, unit: ByteCount, rails: usize) -> ShaperConfig {
        let shaping = &self.config.shaping;
        ShaperConfig {
            line_rate: shaping.line_rate.map(|rate| rate.times(rails)),
            burst: shaping.burst,
            unit,
            policy: Policy::Unshaped,
        }
    }

    /// Returns the shaping of a readout unit's frames, where traffic is shaped and the transport does not do it.
    pub(crate) fn frame_shaper(&self) -> Option<ShaperConfig> {
        let Config { shaping, protocol, transport, .. } = &self.config;
        let shapes_frames = shaping.policy == ShapingPolicy::Barrel && !transport.kind.sends_datagrams();
        shapes_frames.then(|| self.readout_shaper(protocol.message, usize::from(transport.rails)))
    }

    pub(crate) fn is_optional(&self, source: SourceId) -> bool {
        self.config.source.optional.contains(&source)
    }

    /// Returns whether event ids come from the data instead of the event manager.
    pub(crate) fn follows_data(&self) -> bool {
        matches!(self.config.trigger.mode, TriggerMode::Source | TriggerMode::Seen)
    }

    /// Returns whether triggers come from a trigger supervisor.
    pub(crate) fn has_supervisor(&self) -> bool {
        self.config.trigger.mode.has_supervisor()
    }

    /// Starts the signal of busy outside of Sheaf, if the configuration has one.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub(crate) fn busy_signal(&self) -> anyhow::Result<Option<BusySignal>> {
        let Config { trigger, .. } = &self.config;
        if trigger.busy_file.is_none() && trigger.busy_command.is_empty() {
            return Ok(None);
        }
        let signal = BusySignal::start(trigger.busy_file.as_deref(), &trigger.busy_command);
        Ok(Some(signal.context("cannot write `trigger.busy_file`")?))
    }

    /// Returns the source of the payloads of triggers, and the readout unit that reads it.
    pub(crate) fn payload_target(&self) -> Option<PayloadSource> {
        let Config { trigger, .. } = &self.config;
        let source = trigger.network.payload_source?;
        let readout = self.of_role(Role::Readout).find(|node| node.sources.contains(&source))?.id;
        let (socket, queue) = (self.config.feed_socket(readout), trigger.queue_events as usize);
        Some(PayloadSource { source, readout, socket, queue })
    }

    pub(crate) fn manager(&self) -> ManagerConfig {
        let Config { manager, protocol, trigger, run, .. } = &self.config;
        ManagerConfig {
            readouts: self.count(Role::Readout),
            builders: self.count(Role::Builder),
            outputs: self.count(Role::Output),
            readout_of: self.readout_of(),
            triggers: triggers_of(trigger.mode),
            first_event: trigger.first_event,
            max_events: run.events,
            trigger_type: trigger.trigger_type,
            trigger_mix: self.trigger_mix(),
            queue_events: trigger.queue_events as usize,
            batch_events: manager.batch_events as usize,
            max_attempts: manager.max_attempts,
            expected_event: manager.expected_event,
            requirements: self.requirements(),
            start_timeout: manager.start_timeout,
            stop_timeout: self.patiently(manager.stop_timeout),
            desertion_timeout: self.patience().silence,
            patience: self.patience(),
            heartbeat: protocol.heartbeat,
            batch_time: manager.release_delay,
            shaping: self.gathering().shaping(),
            channel: self.channel(),
            shifts: self.shifts(),
        }
    }

    fn requirements(&self) -> Vec<Requirement> {
        let requirement = |RequiredNodes { name, nodes, least, on_loss }| Requirement {
            name,
            nodes: nodes.into_iter().collect(),
            least,
            on_loss: match on_loss {
                sheaf_config::LossAction::Continue => LossAction::Continue,
                sheaf_config::LossAction::Pause => LossAction::Pause,
                sheaf_config::LossAction::Stop => LossAction::Stop,
            },
        };
        self.config.requirements(&self.nodes).into_iter().map(requirement).collect()
    }

    /// Returns the index of the readout unit that reads each source.
    fn readout_of(&self) -> BTreeMap<SourceId, u16> {
        let readouts = self.of_role(Role::Readout);
        readouts.flat_map(|node| node.sources.iter().map(|source| (*source, node.id.index))).collect()
    }

    pub(crate) fn course(&self, stop: Arc<AtomicBool>, controls: Arc<RunControls>) -> Course {
        let Config { trigger, run, .. } = &self.config;
        let rate = match (trigger.mode, trigger.rate_hz) {
            (TriggerMode::Fixed, Some(rate_hz)) => Some(TriggerRate::Fixed { rate_hz }),
            (TriggerMode::Poisson, Some(rate_hz)) => {
                Some(TriggerRate::Poisson { rate_hz, seed: trigger.seed })
            }
            _ => None,
        };
        let triggers = rate.map(|rate| (rate, trigger.trigger_type));
        // Hits count from the start of the run, and so do triggers that ask for windows of them.
        let from_start = self.config.source.is_windowed();
        Course { triggers, from_start, duration: run.duration, warm_up: run.warm_up, stop, controls }
    }

    pub(crate) fn readout(&self, node: &NodeConfig) -> ReadoutConfig {
        let Config { readout, protocol, trigger, incomplete, .. } = &self.config;
        let source = |id: &SourceId| SourceConfig { id: *id, optional: self.is_optional(*id) };
        ReadoutConfig {
            sources: node.sources.iter().map(source).collect(),
            buffer: readout.buffer,
            buffer_events: readout.buffer_events as usize,
            max_fragment: self.config.max_fragment(),
            announce: match (trigger.mode, trigger.source) {
                (TriggerMode::Seen, _) => Announce::All,
                (TriggerMode::Source, Some(source)) => Announce::Source(source),
                _ => Announce::Never,
            },
            merge_timeout: self.patiently(readout.merge_timeout),
            longest_merge: self.patience().silence,
            wait_for_required: incomplete.policy == IncompletePolicy::Wait,
            // Emulated sources run ahead of the triggers that they wait for.
            orphan_timeout: readout
                .orphan_timeout
                .filter(|_| self.config.has_orphans())
                .map(|timeout| self.patiently(timeout)),
            room_from: self.has_supervisor().then_some(trigger.first_event),
            size_window: ReadoutConfig::SIZE_WINDOW,
            message_bytes: protocol.message,
            message_events: protocol.message_events as usize,
            request_events: protocol.request_events as usize,
            heartbeat: protocol.heartbeat,
            channel: self.channel(),
        }
    }

    pub(crate) fn builder(&self) -> BuilderConfig {
        let Config { builder, protocol, incomplete, .. } = &self.config;
        let sources = |node: &NodeConfig| ReadoutSources { sources: node.sources.clone() };
        BuilderConfig {
            mirrored: self.has_mirrors(),
            readouts: self.of_role(Role::Readout).map(sources).collect(),
            optional: self.config.source.optional.iter().copied().collect(),
            slots: builder.slots,
            memory: builder.memory,
            incomplete: match incomplete.policy {
                IncompletePolicy::Wait => sheaf_protocol::builder::IncompletePolicy::Wait,
                IncompletePolicy::Store => sheaf_protocol::builder::IncompletePolicy::Store,
                IncompletePolicy::Drop => sheaf_protocol::builder::IncompletePolicy::Drop,
            },
            event_timeout: self.patiently(builder.event_timeout),
            patience: self.patience(),
            request_retry: builder.request_retry,
            asking: self.gathering().asking(),
            scope: self.scope(),
            windows: self.timed.as_ref().and_then(|timed| trigger_windows(&self.config, timed.zero())),
            batch_events: builder.report_events as usize,
            batch_time: builder.report_delay,
            heartbeat: protocol.heartbeat,
            channel: self.channel(),
        }
    }

    /// Returns how a builder unit sends events to output nodes, if there are any.
    pub(crate) fn sender(&self) -> Option<SenderConfig> {
        let Config { protocol, .. } = &self.config;
        let config = SenderConfig {
            outputs: self.count(Role::Output),
            message: protocol.message,
            peer_timeout: self.patience().absence,
            heartbeat: protocol.heartbeat,
            channel: self.channel(),
        };
        (config.outputs > 0).then_some(config)
    }

    pub(crate) fn output_node(&self) -> OutputConfig {
        let Config { protocol, output, .. } = &self.config;
        OutputConfig {
            builders: self.count(Role::Builder),
            window_events: output.window_events,
            window: output.window,
            heartbeat: protocol.heartbeat,
            channel: self.channel(),
        }
    }

    /// Returns the metadata that every event file of the run carries and that consumers receive.
    pub(crate) fn file_metadata(&self) -> serde_json::Value {
        let mut metadata = serde_json::json!({
            "software": crate::SOFTWARE,
            "configuration": self.config.to_toml(),
            "tags": self.config.filter.tags,
        });
        if !self.config.names.is_empty() {
            let names = self.config.names.iter().map(|(source, name)| (source.to_string(), name.into()));
            metadata["source_names"] = serde_json::Value::Object(names.collect());
        }
        metadata
    }

    /// Returns whether events are written to files.
    pub(crate) fn writes_files(&self) -> bool {
        self.config.output.kind == OutputKind::File
    }
}

/// Maximum interval at which readout units get the time where slots are synchronised.
const LONGEST_TICK: Nanos = Nanos::from_millis(100);

/// Time for which a link that takes nothing holds a free-running slot.
const PATIENCE: Nanos = Nanos::from_millis(1);

/// Returns where the event manager has its triggers from.
pub(crate) fn triggers_of(mode: TriggerMode) -> Triggers {
    match mode {
        TriggerMode::Free => Triggers::Free,
        TriggerMode::Fixed | TriggerMode::Poisson => Triggers::Driven,
        TriggerMode::Network | TriggerMode::Command | TriggerMode::Library => Triggers::External,
        TriggerMode::Source | TriggerMode::Seen => Triggers::Announced,
    }
}
