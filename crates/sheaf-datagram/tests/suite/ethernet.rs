//! Recovery over raw Ethernet meets the contract of an endpoint. Hosts are network namespaces, connected by a bridge. The tests are
//! skipped, with the reason, if these cannot be created.
use crate::settings;
use sheaf_conformance::namespaces::{ToolError, inside, ip_batch, sweep};
use sheaf_conformance::{Lab, Limits};
use sheaf_datagram::Dropping;
use sheaf_datagram::ethernet::{Backend, EthernetOptions, EthernetPeer, EthernetPort, EthernetSettings};
use sheaf_datagram::lossy::{LossyEndpoint, LossyOptions, LossySettings};
use sheaf_wire::machine::Identity;
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix of the names of all namespaces of these tests, followed by the process id.
const PREFIX: &str = "sheaf-node-test-";

/// Returns whether namespaces, bridges and packet sockets are available; prints the reason if not. First removes the
/// remains of a killed run of these tests.
fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        sweep(PREFIX);
        let tried = Switch::new(1, 1, 1500).map_err(|error| error.to_string()).and_then(|switch| {
            let opened = switch.port(0, options(NodeId::readout(0), &[], 1));
            opened.map(drop).map_err(|error| error.to_string())
        });
        if let Err(reason) = &tried {
            println!("skipped, no raw Ethernet here: {reason}");
        }
        tried.is_ok()
    })
}

/// Hosts with one switch for each rail. Removed when dropped.
struct Switch {
    name: String,
    hosts: usize,
}

impl Switch {
    fn new(hosts: usize, rails: usize, mtu: usize) -> Result<Self, ToolError> {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let switch = Self { name: format!("{PREFIX}{}-{number}", std::process::id()), hosts };
        let name = &switch.name;
        let mut commands = format!("netns add {name}\n");
        // Writing to a string cannot fail.
        for host in 0..hosts {
            let _ = writeln!(commands, "netns add {name}-{host}");
        }
        ip_batch(&commands)?;
        commands.clear();
        for rail in 0..rails {
            let _ = writeln!(commands, "link add br{rail} netns {name} type bridge");
            for host in 0..hosts {
                let end = format!("mtu {mtu} numrxqueues 1 numtxqueues 1");
                let _ = writeln!(
                    commands,
                    "link add e{rail} netns {name}-{host} {end} type veth peer name p{rail}-{host} netns {name} {end}"
                );
            }
        }
        ip_batch(&commands)?;
        let up: String = (0..rails).map(|rail| format!("link set e{rail} up\n")).collect();
        for host in 0..hosts {
            inside(&format!("{name}-{host}"), || ip_batch(&up))?;
        }
        let ports = |rail: usize| {
            (0..hosts).fold(format!("link set br{rail} up\n"), |text, host| {
                format!("{text}link set p{rail}-{host} master br{rail} up\n")
            })
        };
        inside(name, || (0..rails).try_for_each(|rail| ip_batch(&ports(rail))))?;
        Ok(switch)
    }

    fn port(
        &self,
        host: usize,
        options: EthernetOptions,
    ) -> Result<EthernetPort, sheaf_datagram::ethernet::EthernetError> {
        inside(&format!("{}-{host}", self.name), || EthernetPort::new(options))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let hosts = (0..self.hosts).map(|host| format!("netns delete {}-{host}\n", self.name));
        let all: String = hosts.chain([format!("netns delete {}\n", self.name)]).collect();
        for line in all.lines() {
            let _ = ip_batch(&format!("{line}\n"));
        }
    }
}

fn options(node: NodeId, peers: &[NodeId], rails: usize) -> EthernetOptions {
    EthernetOptions {
        node,
        run: RunNumber(7),
        interfaces: (0..rails).map(|rail| format!("e{rail}")).collect(),
        peers: peers.iter().map(|node| EthernetPeer { node: *node, addresses: Vec::new() }).collect(),
        settings: EthernetSettings {
            backend: Backend::Packet,
            frame_slots: 256,
            ..EthernetSettings::default()
        },
    }
}

/// Nodes on separate hosts, whose ports lose a fraction of the datagrams.
struct EthernetLab {
    switch: Switch,
    nodes: Vec<NodeId>,
    rails: usize,
    settings: LossySettings,
    loss: f64,
    sessions: u64,
}

impl EthernetLab {
    fn at(rails: usize, mtu: usize, loss: f64, nodes: &[NodeId], limits: Limits) -> Self {
        Self {
            switch: Switch::new(nodes.len(), rails, mtu).expect("it was possible a moment ago"),
            nodes: nodes.to_vec(),
            rails,
            settings: settings(limits),
            loss,
            sessions: 0,
        }
    }

    fn start(&mut self, node: NodeId) -> LossyEndpoint<Dropping<EthernetPort>> {
        self.sessions += 1;
        let place = self.nodes.iter().position(|it| *it == node).expect("the network has the node");
        let peers: Vec<NodeId> = self.nodes.iter().copied().filter(|it| *it != node).collect();
        let port = self.switch.port(place, options(node, &peers, self.rails)).expect("the options are right");
        let identity = Identity { node, run: RunNumber(7), session: SessionId(self.sessions) };
        let options = LossyOptions::unshaped(identity, peers, self.settings);
        LossyEndpoint::new(Dropping::new(port, self.loss, self.sessions), options)
            .expect("the options are right")
    }
}

/// Generates a module with the whole suite.
macro_rules! suite {
    ($module:ident, $lab:ident, $rails:expr, $mtu:expr, $loss:expr) => {
        mod $module {
            use super::*;

            struct $lab(EthernetLab);

            impl Lab for $lab {
                type Endpoint = LossyEndpoint<Dropping<EthernetPort>>;

                fn new(nodes: &[NodeId], limits: Limits) -> Self {
                    Self(EthernetLab::at($rails, $mtu, $loss, nodes, limits))
                }

                fn start(&mut self, node: NodeId) -> Self::Endpoint {
                    self.0.start(node)
                }
            }

            sheaf_conformance::conformance_tests!($lab, if is_possible());
        }
    };
}

suite!(ordinary_frames, OrdinaryFrames, 1, 1_500, 0.0);
suite!(two_rails_of_jumbo_frames_and_loss, TwoRails, 2, 9_000, 0.05);
