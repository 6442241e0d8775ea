//! An endpoint that combines two transports meets the contract.

use sheaf_conformance::{Lab, Limits};
use sheaf_shm::{Arena, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::mixed::{MixedEndpoint, MixedError};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::net::{SocketAddr, TcpListener};

/// Nodes as on two hosts: two nodes share memory if the sum of their positions in the list and `FIRST` is even; others communicate
/// over loopback. Of two nodes, the later one in the list calls.
struct MixedLab<const FIRST: usize> {
    nodes: Vec<NodeId>,
    addresses: Vec<SocketAddr>,
    reserved: Vec<Option<TcpListener>>,
    limits: Limits,
    sessions: u64,
}

impl<const FIRST: usize> MixedLab<FIRST> {
    fn share_memory(one: usize, other: usize) -> bool {
        (one + other + FIRST).is_multiple_of(2)
    }

    fn others(&self, place: usize, near: bool) -> impl Iterator<Item = (usize, NodeId)> {
        let of_kind =
            move |(other, _): &(usize, NodeId)| *other != place && Self::share_memory(place, *other) == near;
        self.nodes.iter().copied().enumerate().filter(of_kind)
    }

    fn shm(&self, place: usize) -> ShmEndpoint {
        let settings = ShmSettings {
            max_frame_bytes: self.limits.max_frame_bytes,
            queue_frames: self.limits.queue_frames,
            queue_bytes: self.limits.queue_bytes,
            blocks: 16,
            retry_min: Nanos::from_millis(1),
            retry_max: Nanos::from_millis(20),
            ..ShmSettings::default()
        };
        let name = |place: usize| self.addresses[place].to_string();
        let peer = |(other, node)| ShmPeer { node, call: (other < place).then(|| name(other)) };
        ShmEndpoint::new(ShmOptions {
            node: self.nodes[place],
            run: RunNumber(7),
            session: SessionId(self.sessions),
            name: Some(name(place)),
            peers: self.others(place, true).map(peer).collect(),
            arena: Arena::new("sheaf.test", settings.arena_bytes(), false).expect("memory"),
            settings,
        })
        .expect("the options are right")
    }

    fn tcp(&mut self, place: usize) -> TcpEndpoint {
        let listener = self.reserved[place].take();
        let listener =
            listener.unwrap_or_else(|| TcpListener::bind(self.addresses[place]).expect("its old port"));
        let peer = |(other, node): (usize, NodeId)| PeerAddress {
            node,
            addresses: vec![self.addresses[other].to_string()],
            initiate: other < place,
        };
        TcpEndpoint::new(TcpOptions {
            node: self.nodes[place],
            run: RunNumber(7),
            session: SessionId(self.sessions),
            listener: Some(listener),
            peers: self.others(place, false).map(peer).collect(),
            settings: TcpSettings {
                max_frame_bytes: self.limits.max_frame_bytes,
                queue_frames: self.limits.queue_frames,
                queue_bytes: self.limits.queue_bytes,
                block_bytes: ByteCount::kib(64),
                blocks: 8192,
                retry_min: Nanos::from_millis(1),
                retry_max: Nanos::from_millis(20),
                ..TcpSettings::default()
            },
        })
        .expect("the options are right")
    }
}

impl<const FIRST: usize> Lab for MixedLab<FIRST> {
    type Endpoint = MixedEndpoint;

    fn new(nodes: &[NodeId], limits: Limits) -> Self {
        let listeners: Vec<TcpListener> =
            nodes.iter().map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        Self {
            nodes: nodes.to_vec(),
            addresses: listeners.iter().map(|it| it.local_addr().expect("it is bound")).collect(),
            reserved: listeners.into_iter().map(Some).collect(),
            limits,
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> MixedEndpoint {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let (shm, tcp) = (self.shm(place), self.tcp(place));
        MixedEndpoint::new(Box::new(shm), Box::new(tcp)).expect("each peer is one endpoint's")
    }
}

mod neighbours_over_tcp {
    sheaf_conformance::conformance_tests!(super::MixedLab<0>);
}

mod neighbours_in_shared_memory {
    sheaf_conformance::conformance_tests!(super::MixedLab<1>);
}

#[test]
fn a_peer_is_near_or_far_and_not_both() {
    let nodes = [NodeId::readout(0), NodeId::builder(0), NodeId::builder(1)];
    let mut near = MixedLab::<0>::new(&nodes, Limits::default());
    let mut far = MixedLab::<1>::new(&nodes, Limits::default());
    near.sessions = 1;
    far.sessions = 1;
    let error = MixedEndpoint::new(Box::new(near.shm(0)), Box::new(far.tcp(0)))
        .expect_err("both have a peer in common");
    assert_eq!(error, MixedError::TwoWays(nodes[2]));
    let error = MixedEndpoint::new(Box::new(near.shm(1)), Box::new(near.tcp(2))).expect_err("two nodes");
    assert_eq!(error, MixedError::TwoNodes(nodes[1], nodes[2]));
}
