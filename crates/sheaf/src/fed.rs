//! Sources that programs of the user feed, made from the configuration.

use crate::blocks::blocks;
use crate::consumers::port_of;
use crate::network;
use crate::plan::Plan;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, NodeConfig};
use sheaf_feed::FeedSetup;
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_protocol::Identity;
use sheaf_protocol::feed::ServerConfig;
use sheaf_source::Source;
use sheaf_tcp::{HostOptions, TcpSettings};
use sheaf_telemetry::log_as;
use sheaf_wire::feed::{
    FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, MAX_CONTROL_BYTES, MAX_RECORD_MESSAGE_BYTES,
};
use sheaf_wire::run_record::MAX_SENT_RECORD_BYTES;
use sheaf_wire::{ByteCount, SourceId};
use std::net::TcpListener;
use std::task::Waker;

/// Size of a block that holds data received from programs over the network until they are copied.
const RECEIVE_BLOCK: ByteCount = ByteCount::kib(256);

/// Bytes of a message of one fragment before its payload.
const MESSAGE_HEADS: u64 = (FRAGMENTS_HEAD_BYTES + FRAGMENT_HEAD_BYTES) as u64;

/// Bytes of a message between nodes that a run record may need for its head and its name.
const RECORD_HEADS: u64 = 1024;

impl Plan {
    /// Returns the largest fragment that a program or a described packet can have: what readout units take, but no more than a quarter of a source's
    /// memory unless the configuration asks for it.
    pub(crate) fn max_fed_fragment(&self) -> ByteCount {
        let Plan { config, .. } = self;
        let quarter = ByteCount(config.source.memory.0 / 4);
        config
            .readout
            .max_fragment
            .unwrap_or_else(|| config.max_fragment().min(quarter.max(config.source.block)))
    }

    /// Returns the source of a readout unit that consists of the payloads of triggers, if its other sources are of another kind
    /// than fed ones.
    pub(crate) fn lone_payload_source(&self, node: &NodeConfig) -> Option<SourceId> {
        let Config { source, trigger, .. } = &self.config;
        let payloads = trigger.network.payload_source.filter(|_| !source.kind.is_fed())?;
        node.sources.contains(&payloads).then_some(payloads)
    }

    /// Opens the socket at which the event manager feeds the payloads of triggers, and returns their source. `None` where there is
    /// none, or where programs feed the other sources at the same socket.
    pub(crate) fn payload_source(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Option<Box<dyn Source>>> {
        let Some(source) = self.lone_payload_source(node) else { return Ok(None) };
        let max_fragment = self.config.trigger.network.payload_maximum;
        let mut setup = self.feed_setup(me, max_fragment, waker)?;
        setup.server.sources = vec![source];
        if !self.is_optional(source) {
            setup.awaited = vec![source];
        }
        Ok(memory.fed(setup, self.feed_pool(max_fragment))?.pop())
    }

    /// Opens the socket of a readout unit, and returns its sources. `None` where the sources are others.
    pub(crate) fn fed_sources(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Option<Vec<Box<dyn Source>>>> {
        let conf::Source { feed, optional, .. } = &self.config.source;
        if !self.config.source.is_fed() {
            return Ok(None);
        }
        let max_fragment = self.max_fed_fragment();
        let mut setup = self.feed_setup(me, max_fragment, waker)?;
        setup.server.sources.clone_from(&node.sources);
        setup.listen =
            feed.listen.as_ref().map(|address| self.listen_for_programs(me, address)).transpose()?;
        if feed.wait {
            setup.awaited =
                node.sources.iter().filter(|source| !optional.contains(source)).copied().collect();
        }
        Ok(Some(memory.fed(setup, self.feed_pool(max_fragment))?))
    }

    /// Returns the size of the pool of a fed source.
    fn feed_pool(&self, max_fragment: ByteCount) -> PoolSize {
        let block = self.config.source.block.max(max_fragment);
        let block_bytes = usize::try_from(block.0).unwrap_or(usize::MAX);
        PoolSize { block_bytes, blocks: blocks(&self.config.source, max_fragment) }
    }

    /// Returns the setup of a socket for programs of this host, without sources. Makes its directory.
    fn feed_setup(&self, me: &Identity, max_fragment: ByteCount, waker: Waker) -> anyhow::Result<FeedSetup> {
        let conf::Source { feed, memory: memory_bytes, block, .. } = &self.config.source;
        let socket = self.config.feed_socket(me.node);
        if let Some(directory) = socket.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory of {}", socket.display()))?;
        }
        let block = (*block).max(max_fragment);
        Ok(FeedSetup {
            node: me.node,
            run: me.run,
            session: me.session,
            socket,
            listen: None,
            awaited: Vec::new(),
            server: ServerConfig {
                sources: Vec::new(),
                window_fragments: feed.window_fragments.into(),
                window: sheaf_feed::window_of(*memory_bytes, max_fragment),
                max_fragment,
                max_message: ByteCount(block.0 + MESSAGE_HEADS),
                max_record: ByteCount(MAX_SENT_RECORD_BYTES as u64)
                    .min(ByteCount(self.config.transport.max_frame.0.saturating_sub(RECORD_HEADS))),
                max_clients: feed.max_clients as usize,
            },
            waker,
        })
    }

    /// Makes the listener at which programs of other hosts connect to a readout unit.
    fn listen_for_programs(&self, me: &Identity, address: &str) -> anyhow::Result<HostOptions> {
        let name = self.full_name(me.node);
        let what = || format!("{name} cannot accept programs at {address} (`source.feed.listen`)");
        let address = port_of(address, self.config.feed_index(me.node)).with_context(what)?;
        let listener = TcpListener::bind(address).with_context(|| {
            format!(
                "{name} cannot listen at {address} for programs (`source.feed.listen`); is the port in use?"
            )
        })?;
        log_as!(LISTENING, node = name; "{name}: programs may feed its sources at {address}");
        let (feed, transport) = (&self.config.source.feed, &self.config.transport);
        let max_guests = u16::try_from(feed.max_clients).unwrap_or(u16::MAX);
        let longest = self.config.source.block.max(self.max_fed_fragment()).0 + MESSAGE_HEADS;
        let defaults = TcpSettings::default();
        let settings = TcpSettings {
            max_frame_bytes: ByteCount(
                longest.max(MAX_CONTROL_BYTES as u64).max(MAX_RECORD_MESSAGE_BYTES as u64),
            ),
            queue_bytes: defaults.queue_bytes.max(ByteCount(2 * MAX_CONTROL_BYTES as u64)),
            block_bytes: RECEIVE_BLOCK,
            blocks: 2 * usize::from(max_guests) + 16,
            congestion: transport.congestion.kernel_name(),
            connect_timeout: transport.connect_timeout,
            greeting_timeout: transport.connect_timeout,
            dead_peer: transport.dead_peer,
            silent_machine: self.silent_machine(),
            stalled_peer: transport.dead_peer.max(self.patience().silence),
            ..defaults
        };
        let (node, run, session) = (me.node, me.run, me.session);
        let (tls, key, names) = (network::tls(self)?, self.key_of_guests(), feed.guest_names.clone());
        if tls.is_none() && key.is_none() && !address.ip().is_loopback() {
            log_as!(
                OPEN_TO_STRANGERS, node = name;
                "{name}: any host that can reach {address} may feed its sources; set `transport.key_file` or `transport.tls` unless the network is private"
            );
        }
        Ok(HostOptions { node, run, session, listener, max_guests, settings, tls, names, key })
    }
}
