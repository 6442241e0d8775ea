//! Sources that programs of the user feed, made from the configuration.

use crate::blocks::blocks;
use crate::plan::Plan;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{NodeConfig, SourceKind};
use sheaf_feed::FeedSetup;
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_protocol::Identity;
use sheaf_protocol::feed::ServerConfig;
use sheaf_source::Source;
use sheaf_wire::ByteCount;
use sheaf_wire::feed::{FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES};
use std::task::Waker;

impl Plan {
    /// Returns the largest fragment that a program can send: what readout units take, but no more than a quarter of a source's
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
        let conf::Source { kind, feed, optional, memory: memory_bytes, block, .. } = &self.config.source;
        if *kind != SourceKind::Feed {
            return Ok(None);
        }
        let socket = self.config.feed_socket(me.node);
        if let Some(directory) = socket.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory of {}", socket.display()))?;
        }
        let max_fragment = self.max_fed_fragment();
        let block = (*block).max(max_fragment);
        let heads = (FRAGMENTS_HEAD_BYTES + FRAGMENT_HEAD_BYTES) as u64;
        let setup = FeedSetup {
            node: me.node,
            run: me.run,
            session: me.session,
            socket,
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
                max_message: ByteCount(block.0 + heads),
                max_clients: feed.max_clients as usize,
            },
            waker,
        };
        let block_bytes = usize::try_from(block.0).unwrap_or(usize::MAX);
        let size = PoolSize { block_bytes, blocks: blocks(&self.config.source, max_fragment) };
        Ok(Some(memory.fed(setup, size)?))
    }
}
