//! Sources that programs of the user feed, made from the configuration.

use crate::blocks::blocks;
use crate::consumers::port_of;
use crate::network;
use crate::plan::Plan;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::NodeConfig;
use sheaf_feed::FeedSetup;
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_protocol::Identity;
use sheaf_protocol::feed::ServerConfig;
use sheaf_source::Source;
use sheaf_tcp::{HostOptions, TcpSettings};
use sheaf_wire::ByteCount;
use sheaf_wire::feed::{FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, MAX_CONTROL_BYTES};
use std::net::TcpListener;
use std::task::Waker;

/// Size of a block that holds data received from programs over the network until they are copied.
const RECEIVE_BLOCK: ByteCount = ByteCount::kib(256);

/// Bytes of a message of one fragment before its payload.
const MESSAGE_HEADS: u64 = (FRAGMENTS_HEAD_BYTES + FRAGMENT_HEAD_BYTES) as u64;

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

    /// Opens the socket of a readout unit, and returns its sources. `None` where the sources are others.
    pub(crate) fn fed_sources(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Option<Vec<Box<dyn Source>>>> {
        let conf::Source { feed, optional, memory: memory_bytes, block, .. } = &self.config.source;
        if !self.config.source.is_fed() {
            return Ok(None);
        }
        let socket = self.config.feed_socket(me.node);
        if let Some(directory) = socket.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory of {}", socket.display()))?;
        }
        let max_fragment = self.max_fed_fragment();
        let block = (*block).max(max_fragment);
        let setup = FeedSetup {
            node: me.node,
            run: me.run,
            session: me.session,
            socket,
            listen: feed.listen.as_ref().map(|address| self.listen_for_programs(me, address)).transpose()?,
            awaited: if feed.wait {
                node.sources.iter().filter(|source| !optional.contains(source)).copied().collect()
            } else {
                Vec::new()
            },
            server: ServerConfig {
                sources: node.sources.clone(),
                window_fragments: feed.window_fragments.into(),
                window: sheaf_feed::window_of(*memory_bytes, max_fragment),
                max_fragment,
                max_message: ByteCount(block.0 + MESSAGE_HEADS),
                max_clients: feed.max_clients as usize,
            },
            waker,
        };
        let block_bytes = usize::try_from(block.0).unwrap_or(usize::MAX);
        let size = PoolSize { block_bytes, blocks: blocks(&self.config.source, max_fragment) };
        Ok(Some(memory.fed(setup, size)?))
    }

    /// Makes the listener at which programs of other hosts connect to a readout unit.
    fn listen_for_programs(&self, me: &Identity, address: &str) -> anyhow::Result<HostOptions> {
        let name = self.full_name(me.node);
        let what = || format!("{name} cannot accept programs at {address} (`source.feed.listen`)");
        let address = port_of(address, me.node.index).with_context(what)?;
        let listener = TcpListener::bind(address).with_context(|| {
            format!(
                "{name} cannot listen at {address} for programs (`source.feed.listen`); is the port in use?"
            )
        })?;
        log::info!("{name}: programs may feed its sources at {address}");
        let (feed, transport) = (&self.config.source.feed, &self.config.transport);
        let max_guests = u16::try_from(feed.max_clients).unwrap_or(u16::MAX);
        let longest = self.config.source.block.max(self.max_fed_fragment()).0 + MESSAGE_HEADS;
        let defaults = TcpSettings::default();
        let settings = TcpSettings {
            max_frame_bytes: ByteCount(longest.max(MAX_CONTROL_BYTES as u64)),
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
            log::warn!(
                "{name}: any host that can reach {address} may feed its sources; set `transport.key_file` or `transport.tls` unless the network is private"
            );
        }
        Ok(HostOptions { node, run, session, listener, max_guests, settings, tls, names, key })
    }
}
