//! The transport over libfabric meets the contract, on each provider that this machine has.

use sheaf_conformance::{Lab, Limits};
use sheaf_libfabric::{LibfabricEndpoint, LibfabricError, LibfabricOptions, LibfabricSettings};
use sheaf_tcp::PeerAddress;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::net::{SocketAddr, TcpListener};

/// Nodes on this machine that meet on loopback. Of two nodes, the later one in the list calls.
struct LibfabricLab {
    provider: &'static str,
    nodes: Vec<NodeId>,
    addresses: Vec<SocketAddr>,
    /// Listeners of nodes that have not started yet, so that their ports stay reserved.
    reserved: Vec<Option<TcpListener>>,
    settings: LibfabricSettings,
    sessions: u64,
}

impl LibfabricLab {
    fn at(provider: &'static str, nodes: &[NodeId], limits: Limits) -> Self {
        let listen = |_: &NodeId| TcpListener::bind("127.0.0.1:0").expect("a free port");
        let listeners: Vec<TcpListener> = nodes.iter().map(listen).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        Self {
            provider,
            nodes: nodes.to_vec(),
            addresses: listeners.iter().map(address).collect(),
            reserved: listeners.into_iter().map(Some).collect(),
            settings: LibfabricSettings {
                max_frame_bytes: limits.max_frame_bytes,
                queue_frames: limits.queue_frames,
                queue_bytes: limits.queue_bytes,
                // Small, so that frames need several messages, and credit is exhausted.
                message_bytes: ByteCount::kib(16),
                window: 24,
                receive_bytes: ByteCount::mib(16),
                retry_min: Nanos::from_millis(1),
                retry_max: Nanos::from_millis(20),
                ..LibfabricSettings::default()
            },
            sessions: 0,
        }
    }

    fn open(&mut self, node: NodeId) -> Result<LibfabricEndpoint, LibfabricError> {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let again = || TcpListener::bind(self.addresses[place]).expect("its old port");
        let listener = self.reserved[place].take().unwrap_or_else(again);
        let peer = |(other, node): (usize, &NodeId)| PeerAddress {
            node: *node,
            addresses: vec![self.addresses[other].to_string()],
            initiate: other < place,
        };
        LibfabricEndpoint::new(LibfabricOptions {
            node,
            run: RunNumber(7),
            session: SessionId(self.sessions),
            listener: Some(listener),
            peers: self.nodes.iter().enumerate().filter(|(other, _)| *other != place).map(peer).collect(),
            provider: self.provider.to_owned(),
            source: (self.provider != "shm").then(|| "127.0.0.1".to_owned()),
            settings: self.settings,
        })
    }

    /// Returns whether this machine has the provider. If not, prints the reason.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
    fn is_there(provider: &'static str) -> bool {
        let node = NodeId::readout(0);
        match Self::at(provider, &[node], Limits::default()).open(node) {
            Ok(_) => true,
            Err(error @ LibfabricError::NoProvider { .. }) => {
                eprintln!("skipped: {error}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Generates a module with the whole suite.
macro_rules! suite {
    ($module:ident, $lab:ident, $provider:literal) => {
        mod $module {
            use super::*;

            struct $lab(LibfabricLab);

            impl Lab for $lab {
                type Endpoint = LibfabricEndpoint;

                fn new(nodes: &[NodeId], limits: Limits) -> Self {
                    Self(LibfabricLab::at($provider, nodes, limits))
                }

                fn start(&mut self, node: NodeId) -> LibfabricEndpoint {
                    self.0.open(node).expect("the options are right")
                }
            }

            sheaf_conformance::conformance_tests!($lab, if LibfabricLab::is_there($provider));
        }
    };
}

suite!(shm, Shm, "shm");
suite!(tcp, Tcp, "tcp;ofi_rxm");
