//! The links between the nodes: one transport or another.

use sheaf_buffer::{Heap, Memory};
use sheaf_shm::{Arena, Lender, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_source::{EmulatedSource, EmulatorConfig, Source};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::memory::{Doorbell, MemoryLimits, MemoryNetwork};
use sheaf_transport::{Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId, SourceId};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The blocks that sources write into.
pub(crate) const SOURCE_BLOCK: ByteCount = ByteCount(128 << 10);
pub(crate) const SOURCE_BLOCKS: usize = 16;

const RUN: RunNumber = RunNumber(1);
const SESSION: SessionId = SessionId(1);

/// One transport and its nodes; of two nodes the later one calls.
pub(crate) struct Lab {
    nodes: Vec<NodeId>,
    kind: Kind,
    largest: ByteCount,
}

enum Kind {
    Memory(MemoryNetwork),
    Tcp(Mutex<Vec<Option<TcpListener>>>, Vec<String>),
    Shm(String),
}

/// Where the sources of a node have their memory.
pub(crate) enum SourceMemory {
    Heap,
    Shared(Lender),
}

impl SourceMemory {
    pub(crate) fn source(self, config: &EmulatorConfig, id: SourceId) -> Box<dyn Source> {
        fn make<M: Memory + 'static>(id: SourceId, config: &EmulatorConfig, memory: M) -> Box<dyn Source> {
            Box::new(EmulatedSource::with_memory(id, config, memory).expect("the configuration is right"))
        }
        match self {
            Self::Heap => make(id, config, Heap),
            Self::Shared(lender) => make(id, config, lender),
        }
    }
}

impl Lab {
    pub(crate) fn new(transport: &str, nodes: &[NodeId], fragment: ByteCount) -> Self {
        let kind = match transport {
            "memory" => {
                let limits = MemoryLimits {
                    link_frames: 1024,
                    link_bytes: ByteCount(16 << 20),
                    max_frame_bytes: ByteCount(16 << 20),
                };
                Kind::Memory(MemoryNetwork::new(nodes, limits).expect("no node is named twice"))
            }
            "tcp" => {
                let listener = |_| TcpListener::bind("127.0.0.1:0").expect("a free port");
                let listeners: Vec<TcpListener> = nodes.iter().map(listener).collect();
                let address =
                    |listener: &TcpListener| listener.local_addr().expect("it is bound").to_string();
                let addresses = listeners.iter().map(address).collect();
                Kind::Tcp(Mutex::new(listeners.into_iter().map(Some).collect()), addresses)
            }
            "shm" => Kind::Shm(format!("canonical/{}", std::process::id())),
            other => panic!("the first word is `memory`, `tcp` or `shm`, not `{other}`"),
        };
        Self { nodes: nodes.to_vec(), kind, largest: fragment }
    }

    pub(crate) fn endpoint(&self, node: NodeId) -> (Box<dyn Endpoint>, SourceMemory) {
        let place = self.nodes.iter().position(|it| *it == node).expect("the node is one of these");
        let others = self.nodes.iter().copied().enumerate().filter(|(_, other)| *other != node);
        match &self.kind {
            Kind::Memory(network) => {
                let endpoint = network.attach(node, &Doorbell::new()).expect("the node is one of these");
                (Box::new(endpoint), SourceMemory::Heap)
            }
            Kind::Tcp(listeners, addresses) => {
                let peer = |(other, node): (usize, NodeId)| PeerAddress {
                    node,
                    addresses: vec![addresses[other].clone()],
                    initiate: other < place,
                };
                let listener = listeners.lock().expect("nobody panicked")[place].take();
                let (peers, settings) = (others.map(peer).collect(), TcpSettings::default());
                let options = TcpOptions { node, run: RUN, session: SESSION, listener, peers, settings };
                (Box::new(TcpEndpoint::new(options).expect("the options are right")), SourceMemory::Heap)
            }
            Kind::Shm(name) => {
                let peer = |(other, node): (usize, NodeId)| ShmPeer {
                    node,
                    call: (other < place).then(|| format!("{name}/{node}")),
                };
                let (peers, settings) = (others.map(peer).collect(), ShmSettings::default());
                let sources = SOURCE_BLOCK.max(self.largest).0 * (SOURCE_BLOCKS as u64 + 1);
                let bytes = ByteCount(settings.arena_bytes().0 + sources);
                let arena = Arena::new("sheaf.canonical", bytes, false).expect("memory");
                let lender = arena.lender();
                let name = Some(format!("{name}/{node}"));
                let options = ShmOptions { node, run: RUN, session: SESSION, name, peers, arena, settings };
                let endpoint = ShmEndpoint::new(options).expect("the options are right");
                (Box::new(endpoint), SourceMemory::Shared(lender))
            }
        }
    }
}

/// An endpoint that adds up what it counted when it goes.
pub(crate) struct Counted {
    endpoint: Box<dyn Endpoint>,
    sum: Arc<Mutex<LinkStats>>,
}

impl Counted {
    pub(crate) fn new(endpoint: Box<dyn Endpoint>, sum: Arc<Mutex<LinkStats>>) -> Self {
        Self { endpoint, sum }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.sum.lock().expect("nobody panicked") += self.endpoint.stats();
    }
}

impl Endpoint for Counted {
    fn node(&self) -> NodeId {
        self.endpoint.node()
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        self.endpoint.send(to, frame)
    }

    fn flush(&mut self) {
        self.endpoint.flush();
    }

    fn poll(&mut self) -> Option<Event> {
        self.endpoint.poll()
    }

    fn wait(&mut self, timeout: Nanos) {
        self.endpoint.wait(timeout);
    }

    fn waker(&self) -> Waker {
        self.endpoint.waker()
    }

    fn stats(&self) -> LinkStats {
        self.endpoint.stats()
    }

    fn close(&mut self, _linger: Nanos) {
        // All nodes share a thread: none can wait for the farewell of another.
        self.endpoint.close(Nanos::ZERO);
    }
}
