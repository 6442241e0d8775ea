//! The TCP transport meets the contract: over IPv4 and IPv6, with one and with several connections per link, with and without
//! TLS.

use crate::certificates::{Authority, LOOPBACK};
use crate::nodes::MINUTES;
use sheaf_conformance::{Lab, Limits};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings, Tls};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;

/// Nodes on loopback. Of two nodes, the later one in the list calls.
struct TcpLab {
    nodes: Vec<NodeId>,
    /// The addresses of each node.
    addresses: Vec<Vec<SocketAddr>>,
    /// Listeners of nodes that have not started yet, so that their ports stay reserved.
    reserved: Vec<Option<Vec<TcpListener>>>,
    settings: TcpSettings,
    tls: Option<Tls>,
    sessions: u64,
}

/// TLS of all nodes of a system.
static TLS: LazyLock<Tls> = LazyLock::new(|| Authority::new().tls("node", LOOPBACK));

impl TcpLab {
    /// Creates nodes that listen at each of `hosts`, with links of `rails` rails.
    fn at(hosts: &[&str], rails: usize, nodes: &[NodeId], limits: Limits) -> Self {
        let listen = |host: &&str| TcpListener::bind((*host, 0)).expect("a free port");
        let listeners: Vec<Vec<TcpListener>> =
            nodes.iter().map(|_| hosts.iter().map(listen).collect()).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        Self {
            nodes: nodes.to_vec(),
            addresses: listeners.iter().map(|of_node| of_node.iter().map(address).collect()).collect(),
            reserved: listeners.into_iter().map(Some).collect(),
            settings: TcpSettings {
                max_frame_bytes: limits.max_frame_bytes,
                queue_frames: limits.queue_frames,
                queue_bytes: limits.queue_bytes,
                // Small, so that frames cross the ends of blocks, and some are larger than a block.
                block_bytes: ByteCount::kib(64),
                blocks: 8192,
                rails,
                connect_timeout: MINUTES,
                greeting_timeout: MINUTES,
                retry_min: Nanos::from_millis(1),
                retry_max: Nanos::from_millis(20),
                ..TcpSettings::default()
            },
            tls: None,
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> TcpEndpoint {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let again = |address: &SocketAddr| TcpListener::bind(address).expect("its old port");
        let listeners = self.reserved[place].take();
        let mut listeners =
            listeners.unwrap_or_else(|| self.addresses[place].iter().map(again).collect()).into_iter();
        let peer = |(other, node): (usize, &NodeId)| PeerAddress {
            node: *node,
            addresses: self.addresses[other].iter().map(ToString::to_string).collect(),
            initiate: other < place,
        };
        let peers = self.nodes.iter().enumerate().filter(|(other, _)| *other != place).map(peer).collect();
        let mut endpoint = TcpEndpoint::new(TcpOptions {
            node,
            run: RunNumber(7),
            session: SessionId(self.sessions),
            listener: listeners.next(),
            peers,
            settings: self.settings,
        })
        .expect("the options are right");
        if let Some(tls) = &self.tls {
            endpoint.secure(tls.clone());
        }
        listeners.for_each(|listener| endpoint.listen_too(listener).expect("room for another"));
        endpoint
    }
}

/// Generates a module with the whole suite.
macro_rules! suite {
    ($module:ident, $lab:ident, $hosts:expr, $rails:expr, $tls:expr) => {
        mod $module {
            use super::*;

            struct $lab(TcpLab);

            impl Lab for $lab {
                type Endpoint = TcpEndpoint;

                fn new(nodes: &[NodeId], limits: Limits) -> Self {
                    Self(TcpLab { tls: $tls, ..TcpLab::at(&$hosts, $rails, nodes, limits) })
                }

                fn start(&mut self, node: NodeId) -> TcpEndpoint {
                    self.0.start(node)
                }
            }

            sheaf_conformance::conformance_tests!($lab);
        }
    };
}

suite!(one_connection, OneConnection, ["127.0.0.1"], 1, None);
suite!(one_connection_of_ipv6, OneConnectionOfIpv6, ["::1"], 1, None);
suite!(two_rails_at_one_address, TwoRailsAtOneAddress, ["127.0.0.1"], 2, None);
suite!(three_rails_of_both_families, ThreeRailsOfBothFamilies, ["127.0.0.1", "::1"], 3, None);
suite!(one_connection_with_tls, OneConnectionWithTls, ["127.0.0.1"], 1, Some(TLS.clone()));
suite!(two_rails_with_tls, TwoRailsWithTls, ["127.0.0.1", "::1"], 2, Some(TLS.clone()));
