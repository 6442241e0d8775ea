//! The farm of a builder unit, from the configuration.

use crate::consumers::port_of;
use crate::plan::Plan;
use crate::{filters, network};
use anyhow::Context;
use sheaf_config::Config;
use sheaf_node::farm::{DoorSetup, FarmSetup, FilterMaker, LauncherOptions, ListenSetup, PlacingOptions};
use sheaf_node::processor::{DOOR_EXTENSION, Welcome};
use sheaf_protocol::Identity;
use sheaf_protocol::farm::DispatcherConfig;
use sheaf_shm::Arena;
use sheaf_tcp::{HostOptions, TcpSettings};
use sheaf_telemetry::log_as;
use sheaf_wire::farm::event_record_bytes;
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{ByteCount, FilterFailure, NodeId, Role};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Maximum number of processors that may join a builder unit in addition to those that it starts: this many through its
/// door, and as many over the network.
const PROCESSORS_MOST: u16 = 256;

/// Size of a block that holds data received from a processor over the network until they are read. Most of them are
/// verdicts of some 24 bytes.
const RECEIVE_BLOCK: ByteCount = ByteCount::kib(64);

/// Returns the path of a builder unit's door.
fn door_path(me: &Identity, directory: Option<&Path>) -> PathBuf {
    let temporary = || std::env::temp_dir().join(format!("sheaf-run{}-{}", me.run, std::process::id()));
    match directory {
        Some(directory) => directory.join(format!("{}.{DOOR_EXTENSION}", me.node)),
        None => temporary().with_extension(format!("{}.{DOOR_EXTENSION}", me.node)),
    }
}

impl Plan {
    /// Makes the farm of a builder unit, if it has one. Its door is in the run's directory, if the run has one.
    ///
    /// # Errors
    /// If processors join over the network and the listener cannot be set up.
    pub(crate) fn farm(&self, me: &Identity, directory: Option<&Path>) -> anyhow::Result<Option<FarmSetup>> {
        let filter = &self.config.filter;
        if !filter.has_farm() {
            return Ok(None);
        }
        let workers = filter.started_workers();
        let ways = u16::from(filter.has_door()) + u16::from(filter.listen.is_some());
        let dispatcher = DispatcherConfig {
            events: self.config.builder.slots,
            seats: workers.saturating_add(ways * PROCESSORS_MOST),
            ahead: filter.ahead,
            time_limit: filter.time_limit,
            load_time_limit: filter.load_time_limit,
            retries: filter.retries,
            patience: filter.patience,
        };
        let (config, run) = (self.loading(), me.run);
        let launch = crate::processor::launcher(&config.filter);
        let make: FilterMaker = Box::new(move || {
            filters::open(&config, run).map_err(|error| FilterFailure(crate::describe(&error)))
        });
        let threads = (workers > 0 && !filter.processes).then_some((workers, make));
        let door = filter.has_door().then(|| DoorSetup {
            path: door_path(me, directory),
            welcome: self.welcome(me, &self.loading()),
            sources: self.source_count(),
            placing: PlacingOptions {
                memory: self.config.builder.memory,
                max_fragment: self.config.max_fragment(),
            },
            launcher: filter.processes.then(|| LauncherOptions {
                count: workers,
                load_time_limit: filter.load_time_limit,
                launch,
            }),
        });
        let listen = match &filter.listen {
            Some(address) => Some(self.listen(me, address)?),
            None => None,
        };
        Ok(Some(FarmSetup { dispatcher, threads, door, listen }))
    }

    fn source_count(&self) -> usize {
        self.of_role(Role::Readout).map(|node| node.sources.len()).sum()
    }

    /// Returns the welcome of a processor. On this host, a processor loads the copy that the run has made. On another
    /// host there is no copy, and it loads the file that the configuration names.
    fn welcome(&self, me: &Identity, config: &Config) -> Welcome {
        let tags = config.filter.tags.clone();
        Welcome { run: me.run, node: me.node, tags, configuration: config.to_toml() }
    }

    /// Makes the listener at which processors of other hosts join a builder unit.
    fn listen(&self, me: &Identity, address: &str) -> anyhow::Result<ListenSetup> {
        let name = self.full_name(me.node);
        let what = || format!("{name} cannot accept processors at {address} (`filter.listen`)");
        let address = port_of(address, me.node.index).with_context(what)?;
        let listener = TcpListener::bind(address).with_context(|| {
            format!("{name} cannot listen at {address} for processors (`filter.listen`); is the port in use?")
        })?;
        log_as!(LISTENING, node = name; "{name}: processors may join at {address}");
        let (sources, transport) = (self.source_count(), &self.config.transport);
        let payload = self.config.max_fragment().0.saturating_mul(sources as u64);
        let event = payload.saturating_add(event_record_bytes(sources, sources) as u64);
        // A control frame can hold a verdict of any size.
        let words = 2 * MAX_VERDICT_PAYLOAD_BYTES as u64;
        let max_frame = ByteCount(event.clamp(words, ByteCount::mib(1024).0));
        let defaults = TcpSettings::default();
        let settings = TcpSettings {
            max_frame_bytes: max_frame,
            queue_bytes: defaults.queue_bytes.max(max_frame),
            block_bytes: RECEIVE_BLOCK,
            blocks: usize::from(PROCESSORS_MOST) + 16,
            congestion: transport.congestion.kernel_name(),
            connect_timeout: transport.connect_timeout,
            greeting_timeout: transport.connect_timeout,
            dead_peer: transport.dead_peer,
            silent_machine: self.silent_machine(),
            stalled_peer: transport.dead_peer.max(self.patience().silence),
            ..defaults
        };
        let (node, run, session, max_guests) = (me.node, me.run, me.session, PROCESSORS_MOST);
        let (tls, key) = (network::tls(self)?, self.key_of_guests());
        let names = self.config.filter.guest_names.clone();
        if tls.is_none() && key.is_none() && !address.ip().is_loopback() {
            log_as!(
                OPEN_TO_STRANGERS, node = name;
                "{name}: any host that can reach {address} may join as a processor and judge events; set `transport.key_file` or `transport.tls` unless the network is private"
            );
        }
        let host = HostOptions { node, run, session, listener, max_guests, settings, tls, names, key };
        Ok(ListenSetup { host, welcome: self.welcome(me, &self.config) })
    }

    /// The memory that the sources of a node write into, where that must be memory that other processes can read.
    pub(crate) fn farm_arena(&self, node: NodeId) -> anyhow::Result<Option<Arena>> {
        let own =
            self.node(node).filter(|node| self.config.filter.has_door() && node.id.role == Role::Readout);
        let Some(own) = own else { return Ok(None) };
        let bytes = self.source_bytes(own) + self.result_bytes(own);
        let arena = Arena::new(&format!("sheaf.{node}"), bytes, self.config.transport.huge_pages);
        Ok(Some(arena.with_context(|| format!("cannot make {bytes} of shared memory for {node}"))?))
    }
}
