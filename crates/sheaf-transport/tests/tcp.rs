//! The TCP transport keeps the contract.

use sheaf_transport::conformance::{Lab, Limits};
use sheaf_transport::tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::net::{SocketAddr, TcpListener};

/// Nodes on loopback; of two, the one that was named later calls.
struct TcpLab {
    nodes: Vec<NodeId>,
    addresses: Vec<SocketAddr>,
    /// The listeners of nodes that have not started yet: their ports are taken.
    reserved: Vec<Option<TcpListener>>,
    settings: TcpSettings,
    sessions: u64,
}

impl Lab for TcpLab {
    type Endpoint = TcpEndpoint;

    fn new(nodes: &[NodeId], limits: Limits) -> Self {
        let listeners: Vec<TcpListener> =
            nodes.iter().map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        Self {
            nodes: nodes.to_vec(),
            addresses: listeners.iter().map(|it| it.local_addr().expect("it is bound")).collect(),
            reserved: listeners.into_iter().map(Some).collect(),
            settings: TcpSettings {
                max_frame_bytes: limits.max_frame_bytes,
                queue_frames: limits.queue_frames,
                queue_bytes: limits.queue_bytes,
                // Small, so that frames meet the ends of blocks, and some are larger than one.
                block_bytes: ByteCount::kib(64),
                blocks: 8192,
                retry_min: Nanos::from_millis(1),
                retry_max: Nanos::from_millis(20),
                ..TcpSettings::default()
            },
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> TcpEndpoint {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let listener = self.reserved[place].take();
        let listener =
            listener.unwrap_or_else(|| TcpListener::bind(self.addresses[place]).expect("its old port"));
        let peer = |(other, node): (usize, &NodeId)| PeerAddress {
            node: *node,
            addresses: vec![self.addresses[other].to_string()],
            initiate: other < place,
        };
        let peers = self.nodes.iter().enumerate().filter(|(other, _)| *other != place).map(peer).collect();
        TcpEndpoint::new(TcpOptions {
            node,
            run: RunNumber(7),
            session: SessionId(self.sessions),
            listener: Some(listener),
            peers,
            settings: self.settings,
        })
        .expect("the options are right")
    }
}

sheaf_transport::conformance_tests!(TcpLab);
