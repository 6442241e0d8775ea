//! The setup of fed sources: the socket, the memory, the limits.

use crate::feed::Feed;
use crate::network::{ListenError, Network};
use crate::queue::Queue;
use crate::source::FedSource;
use sheaf_buffer::{Memory, Pool};
use sheaf_protocol::feed::{Server, ServerConfig};
use sheaf_shm::door::{Door, DoorError, DoorOptions};
use sheaf_source::Source;
use sheaf_tcp::HostOptions;
use sheaf_telemetry::log_as;
use sheaf_wire::{ByteCount, NodeId, RunNumber, SessionId, SourceId};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// Size of a client's ring for messages of the readout unit. The largest is a welcome for [`sheaf_wire::feed::MAX_SOURCES`].
const DOWN_BYTES: usize = 1 << 19;

/// Largest ring for messages of a client. Where it is smaller than the windows of its sources, the client waits for the ring.
const MAX_UP_BYTES: u64 = 16 << 20;

/// Number of messages without fragments that a client may have sent ahead.
const CONTROL_MESSAGES: usize = 1024;

/// A setup of the fed sources of a readout unit.
#[derive(Debug)]
pub struct FeedSetup {
    /// The readout unit.
    pub node: NodeId,
    /// The run.
    pub run: RunNumber,
    /// Session of the readout unit.
    pub session: SessionId,
    /// Path of the socket at which clients of this host connect.
    pub socket: PathBuf,
    /// The listener for clients of other hosts, if there are any.
    pub listen: Option<HostOptions>,
    /// Sources without which the run does not start.
    pub awaited: Vec<SourceId>,
    /// Windows and limits.
    pub server: ServerConfig,
    /// Wakes the thread of the readout unit.
    pub waker: Waker,
}

/// Reason why clients cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The socket cannot be opened.
    #[error("{node} cannot accept the programs that feed its sources")]
    Door {
        /// The readout unit.
        node: NodeId,
        /// Reason.
        #[source]
        source: DoorError,
    },
    /// The listener cannot be set up.
    #[error("{node} cannot accept the programs that feed its sources over the network")]
    Listen {
        /// The readout unit.
        node: NodeId,
        /// Reason.
        #[source]
        source: ListenError,
    },
}

impl FeedSetup {
    /// Opens the socket and returns the sources. Each has a pool of its own, from `pool`, whose blocks have room for the longest
    /// message.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn open<M: Memory + 'static>(
        self,
        pool: impl Fn() -> Pool<M>,
    ) -> Result<Vec<Box<dyn Source>>, OpenError>
    where
        M::Block: 'static,
    {
        let node = self.node;
        // A ring holds two of the longest messages, so that one can be written while the other is read.
        let up = self.server.window.0.max(2 * self.server.max_message.0).saturating_mul(2).min(MAX_UP_BYTES);
        let up_bytes = usize::try_from(up.max(2 * self.server.max_message.0)).unwrap_or(usize::MAX);
        let door = Door::open(DoorOptions {
            path: self.socket.clone(),
            name: format!("{node}.feed"),
            text: node.to_string().into_bytes().into(),
            down_bytes: DOWN_BYTES,
            up_bytes,
            max_guests: self.server.max_clients + 1,
            waker: self.waker.clone(),
        })
        .map_err(|source| OpenError::Door { node, source })?;
        log_as!(LISTENING, node = node; "{node}: programs may feed its sources at {}", self.socket.display());
        let network = self.listen.map(|options| Network::open(node, options, self.waker)).transpose();
        let network = network.map_err(|source| OpenError::Listen { node, source })?;
        let sources = self.server.sources.clone();
        let messages = self.server.window_fragments.saturating_mul(sources.len() as u64);
        let max_waiting = usize::try_from(messages).unwrap_or(usize::MAX).saturating_add(CONTROL_MESSAGES);
        let queues = sources.iter().map(|source| Queue::new(*source, pool())).collect();
        let max_message = usize::try_from(self.server.max_message.0).unwrap_or(usize::MAX);
        let server = Server::new(self.server, self.run, self.session);
        let doors = (door, network);
        let feed = Feed::new((node, self.awaited), server, doors, queues, (max_message, max_waiting));
        let feed = Arc::new(Mutex::new(feed));
        let source = |(index, id)| Box::new(FedSource::new(id, index, feed.clone())) as Box<dyn Source>;
        Ok(sources.into_iter().enumerate().map(source).collect())
    }
}

/// Returns the limits of a source with `memory` bytes in blocks of `block`: a client may send half of the memory before the
/// readout unit has accepted it, because blocks are free again only when none of their fragments is in use.
#[must_use]
pub fn window_of(memory: ByteCount, max_fragment: ByteCount) -> ByteCount {
    ByteCount((memory.0 / 2).max(max_fragment.0))
}
