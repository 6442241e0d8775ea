//! Ports against each other and against strangers, over veth pairs between two network namespaces. All of it is skipped,
//! with the reason, where these cannot be made.

mod faults;
mod processes;
mod traffic;

use super::*;
use crate::{DatagramPort, DatagramRefused};
use sheaf_conformance::WATCHDOG;
use sheaf_conformance::namespaces::{Cables, Host, World};
use sheaf_wire::{Nanos, NodeId, RunNumber};
use std::time::{Duration, Instant};

const RUN: RunNumber = RunNumber(5);
const BOTH: [Backend; 2] = [Backend::Xdp, Backend::Packet];

const fn node(host: Host) -> NodeId {
    match host {
        Host::A => NodeId::readout(0),
        Host::B => NodeId::builder(0),
    }
}

const fn other(host: Host) -> Host {
    match host {
        Host::A => Host::B,
        Host::B => Host::A,
    }
}

/// One cable with a queue, for ordinary frames.
const PLAIN: Cables = Cables { rails: 1, mtu: 1500, queues: 1 };

fn options(host: Host, rails: usize, backend: Backend) -> EthernetOptions {
    EthernetOptions {
        node: node(host),
        run: RUN,
        interfaces: (0..rails).map(|rail| format!("e{rail}")).collect(),
        peers: vec![EthernetPeer { node: node(other(host)), addresses: Vec::new() }],
        settings: EthernetSettings { backend, frame_slots: 256, ..EthernetSettings::default() },
    }
}

fn port(world: &World, host: Host, options: EthernetOptions) -> EthernetPort {
    world.inside(host, || EthernetPort::new(options)).unwrap()
}

/// A port in each host. They know each other's addresses.
fn pair(world: &World, rails: usize, backends: [Backend; 2]) -> [EthernetPort; 2] {
    let mut a = port(world, Host::A, options(Host::A, rails, backends[0]));
    let mut b = port(world, Host::B, options(Host::B, rails, backends[1]));
    meet(&mut a, &mut b);
    [a, b]
}

/// Polls both until each knows the other's address on every rail.
fn meet(a: &mut EthernetPort, b: &mut EthernetPort) {
    for rail in 0..a.rails() {
        let greeting: [u8; 1] = [0xee];
        let (mut there, mut back) = (false, false);
        until("the ports have met", || {
            for (from, to) in [(&mut *a, b.node()), (&mut *b, node(Host::A))] {
                let _ = from.send(to, rail, &greeting, &[]);
                from.flush();
            }
            while let Some(datagram) = b.poll() {
                there |= datagram.rail == rail;
            }
            while let Some(datagram) = a.poll() {
                back |= datagram.rail == rail;
            }
            there && back && a.knows_all(rail) && b.knows_all(rail)
        });
    }
    // The rest of the greetings.
    for _ in 0..3 {
        while a.poll().is_some() {}
        while b.poll().is_some() {}
        a.wait(Nanos::from_millis(1));
        b.wait(Nanos::from_millis(1));
    }
}

/// Waits for a condition, under a watchdog.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < WATCHDOG, "{what}: not within {WATCHDOG:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The next datagram, as a copy.
fn receive(port: &mut EthernetPort) -> Option<(NodeId, usize, Vec<u8>)> {
    port.poll().map(|datagram| (datagram.from, datagram.rail, datagram.bytes.to_vec()))
}

/// Waits for the next datagram.
fn await_datagram(port: &mut EthernetPort) -> (NodeId, usize, Vec<u8>) {
    let began = Instant::now();
    loop {
        if let Some(datagram) = receive(port) {
            return datagram;
        }
        assert!(began.elapsed() < WATCHDOG, "a datagram comes");
        port.wait(Nanos::from_millis(100));
    }
}

/// A datagram that contains its number.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at * 7) as u8).collect()
}
