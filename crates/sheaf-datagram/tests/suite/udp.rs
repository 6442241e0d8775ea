//! Recovery over UDP meets the contract of an endpoint, on networks with and without loss.

use crate::settings;
use sheaf_conformance::{Lab, Limits};
use sheaf_datagram::Dropping;
use sheaf_datagram::lossy::{LossyEndpoint, LossyOptions, LossySettings};
use sheaf_datagram::udp::{UdpOptions, UdpPeer, UdpPort, UdpSettings};
use sheaf_wire::machine::Identity;
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::net::{SocketAddr, UdpSocket};

/// Nodes on loopback, whose ports lose a fraction of the datagrams.
struct UdpLab {
    nodes: Vec<NodeId>,
    /// The addresses of each node, by rail.
    addresses: Vec<Vec<SocketAddr>>,
    /// Sockets of nodes that have not started yet, so that their ports stay reserved.
    reserved: Vec<Option<Vec<UdpSocket>>>,
    settings: LossySettings,
    mtu_bytes: usize,
    loss: f64,
    sessions: u64,
}

impl UdpLab {
    fn at(hosts: &[&str], mtu_bytes: usize, loss: f64, nodes: &[NodeId], limits: Limits) -> Self {
        let bind = |host: &&str| UdpSocket::bind((*host, 0)).expect("a free port");
        let sockets: Vec<Vec<UdpSocket>> = nodes.iter().map(|_| hosts.iter().map(bind).collect()).collect();
        let address = |socket: &UdpSocket| socket.local_addr().expect("it is bound");
        Self {
            nodes: nodes.to_vec(),
            addresses: sockets.iter().map(|of_node| of_node.iter().map(address).collect()).collect(),
            reserved: sockets.into_iter().map(Some).collect(),
            settings: settings(limits),
            mtu_bytes,
            loss,
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> LossyEndpoint<Dropping<UdpPort>> {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let again = |address: &SocketAddr| UdpSocket::bind(address).expect("its old port");
        let sockets = self.reserved[place].take();
        let sockets = sockets.unwrap_or_else(|| self.addresses[place].iter().map(again).collect());
        // The address of the later one of two nodes is not configured but learned.
        let peers = self.nodes.iter().zip(&self.addresses).enumerate().filter(|(other, _)| *other != place);
        let peers: Vec<UdpPeer> = peers
            .map(|(other, (node, addresses))| UdpPeer {
                node: *node,
                addresses: if other < place { addresses.clone() } else { Vec::new() },
            })
            .collect();
        let identity = Identity { node, run: RunNumber(7), session: SessionId(self.sessions) };
        let others = peers.iter().map(|peer| peer.node).collect();
        let options = LossyOptions::unshaped(identity, others, self.settings);
        let settings = UdpSettings { mtu_bytes: self.mtu_bytes, ..UdpSettings::default() };
        let port =
            UdpPort::new(UdpOptions { node, sockets, peers, settings }).expect("the options are right");
        LossyEndpoint::new(Dropping::new(port, self.loss, self.sessions), options)
            .expect("the options are right")
    }
}

/// Generates a module with the whole suite.
macro_rules! suite {
    ($module:ident, $lab:ident, $hosts:expr, $mtu:expr, $loss:expr) => {
        mod $module {
            use super::*;

            struct $lab(UdpLab);

            impl Lab for $lab {
                type Endpoint = LossyEndpoint<Dropping<UdpPort>>;

                fn new(nodes: &[NodeId], limits: Limits) -> Self {
                    Self(UdpLab::at(&$hosts, $mtu, $loss, nodes, limits))
                }

                fn start(&mut self, node: NodeId) -> Self::Endpoint {
                    self.0.start(node)
                }
            }

            sheaf_conformance::conformance_tests!($lab);
        }
    };
}

suite!(plain, Plain, ["127.0.0.1"], 1_500, 0.0);
suite!(two_rails_of_both_families_and_jumbo_frames, TwoRails, ["127.0.0.1", "::1"], 9_000, 0.0);
suite!(five_percent_lost, FivePercentLost, ["127.0.0.1"], 9_000, 0.05);
