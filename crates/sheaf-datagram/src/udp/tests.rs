//! Handling of datagrams by a port, including foreign ones.

use super::framing::{MAGIC, PREFIX_BYTES, VERSION};
use super::{UdpError, UdpOptions, UdpPeer, UdpPort, UdpSettings};
use crate::{DatagramPort, DatagramRefused, Dropping};
use sheaf_conformance::WATCHDOG;
use sheaf_transport::LinkStats;
use sheaf_wire::{Nanos, NodeId};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a free port")
}

fn port(node: NodeId, socket: UdpSocket, peers: &[(NodeId, Vec<SocketAddr>)]) -> UdpPort {
    let peers = peers.iter().map(|(node, addresses)| UdpPeer { node: *node, addresses: addresses.clone() });
    let settings = UdpSettings::default();
    UdpPort::new(UdpOptions { node, sockets: vec![socket], peers: peers.collect(), settings })
        .expect("the options are right")
}

/// Two ports that know each other's addresses.
fn pair() -> (UdpPort, UdpPort) {
    let (one, other) = (socket(), socket());
    let address = |socket: &UdpSocket| vec![socket.local_addr().expect("it is bound")];
    let (at_one, at_other) = (address(&one), address(&other));
    let (first, second) = (NodeId::readout(0), NodeId::builder(0));
    (port(first, one, &[(second, at_other)]), port(second, other, &[(first, at_one)]))
}

/// Waits for the next datagram.
fn next(port: &mut UdpPort) -> Vec<u8> {
    let start = Instant::now();
    while start.elapsed() < WATCHDOG {
        if let Some(datagram) = port.poll() {
            return datagram.bytes.to_vec();
        }
        port.wait(Nanos::from_millis(20));
    }
    panic!("no datagram came: {:?}", port.stats());
}

#[test]
fn datagrams_of_all_sizes_arrive_as_they_were_sent() {
    let (mut sender, mut receiver) = pair();
    let most = sender.max_datagram_bytes();
    assert_eq!(most, 1_500 - 28 - PREFIX_BYTES);
    for bytes in [0, 1, 1_000, most] {
        let content: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        let (head, payload) = content.split_at(bytes / 3);
        let (one, other) = payload.split_at(payload.len() / 2);
        sender.send(receiver.node(), 0, head, &[one, &[], other]).expect("it is taken");
        sender.flush();
        assert_eq!(next(&mut receiver), content);
    }
    let refused = sender.send(receiver.node(), 0, &vec![0; most], &[&[0]]);
    assert_eq!(refused, Err(DatagramRefused::TooLarge { bytes: most + 1, limit: most }));
    assert_eq!(sender.send(NodeId::MANAGER, 0, &[], &[]), Err(DatagramRefused::UnknownPeer));
    assert_eq!(sender.send(receiver.node(), 1, &[], &[]), Err(DatagramRefused::RailDown(1)));
}

#[test]
fn many_datagrams_take_few_system_calls() {
    let (mut sender, mut receiver) = pair();
    for number in 0..50_u8 {
        sender.send(receiver.node(), 0, &[number], &[]).expect("it is taken");
    }
    sender.flush();
    assert_eq!(sender.stats().writes, 1);
    for number in 0..50_u8 {
        assert_eq!(next(&mut receiver), [number]);
    }
}

#[test]
fn what_is_not_of_a_peer_is_counted_and_dropped() {
    let (mut sender, mut receiver) = pair();
    let at = receiver_address(&receiver);
    let stranger = socket();
    let prefix = |node: NodeId, rail: u8| {
        let mut bytes = vec![MAGIC[0], MAGIC[1], VERSION, rail];
        bytes.extend(node.to_code().to_le_bytes());
        bytes
    };
    let mut other_version = prefix(sender.node(), 0);
    other_version[2] += 1;
    let strange = [
        Vec::new(),
        b"hello".to_vec(),
        other_version,
        prefix(NodeId::MANAGER, 0),
        prefix(sender.node(), 1),
        // Claims to be the peer, but is not at the peer's address.
        prefix(sender.node(), 0),
    ];
    for bytes in &strange {
        stranger.send_to(bytes, at).expect("loopback takes it");
    }
    stranger.send_to(&[0; 4_000], at).expect("loopback takes it");
    sender.send(receiver.node(), 0, b"after them", &[]).expect("it is taken");
    sender.flush();
    assert_eq!(next(&mut receiver), b"after them");
    let LinkStats { datagrams_of_strangers, datagrams_malformed, .. } = receiver.stats();
    assert_eq!((datagrams_of_strangers, datagrams_malformed), (strange.len() as u64, 1));
}

fn receiver_address(port: &UdpPort) -> SocketAddr {
    port.local_address(0).expect("it is bound")
}

#[test]
fn a_peer_without_an_address_is_where_it_was_last_surely_heard() {
    let (one, other) = (socket(), socket());
    let at = vec![one.local_addr().expect("it is bound")];
    let (listens, calls) = (NodeId::MANAGER, NodeId::builder(3));
    let mut listener = port(listens, one, &[(calls, Vec::new())]);
    let mut caller = port(calls, other, &[(listens, at.clone())]);
    listener.send(calls, 0, b"lost: nobody knows where it is", &[]).expect("it is taken");
    caller.send(listens, 0, b"here", &[]).expect("it is taken");
    caller.flush();
    assert_eq!(next(&mut listener), b"here");
    listener.take_home();
    listener.send(calls, 0, b"there", &[]).expect("it is taken");
    listener.flush();
    assert_eq!(next(&mut caller), b"there");
    // A node at another port claims to be the same node: it is answered there, and nothing else is sent there.
    let mut second = port(calls, socket(), &[(listens, at)]);
    second.send(listens, 0, b"again", &[]).expect("it is taken");
    second.flush();
    assert_eq!(next(&mut listener), b"again");
    listener.note_aside();
    listener.send(calls, 0, b"for the first", &[]).expect("it is taken");
    listener.send_aside(calls, 0, b"an answer").expect("it is taken");
    listener.flush();
    assert_eq!(next(&mut second), b"an answer");
    assert_eq!(next(&mut caller), b"for the first");
    // It has proven that it is the node: the first has died.
    second.send(listens, 0, b"surely", &[]).expect("it is taken");
    second.flush();
    assert_eq!(next(&mut listener), b"surely");
    listener.take_home();
    listener.send(calls, 0, b"for the second", &[]).expect("it is taken");
    listener.flush();
    assert_eq!(next(&mut second), b"for the second");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let options = |sockets: usize, mtu_bytes, addresses: usize| UdpOptions {
        node: NodeId::MANAGER,
        sockets: (0..sockets).map(|_| socket()).collect(),
        peers: vec![UdpPeer {
            node: NodeId::builder(0),
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 9)); addresses],
        }],
        settings: UdpSettings { mtu_bytes, ..UdpSettings::default() },
    };
    let says = |options| UdpPort::new(options).map(|_| ()).expect_err("they cannot work").to_string();
    assert!(says(options(0, 1_500, 0)).contains("1 to 64 sockets"));
    assert!(says(options(1, 100, 0)).contains("100 bytes"));
    assert!(says(options(2, 1_500, 1)).contains("1 addresses, and there are 2 rails"));
    let twice = UdpOptions { node: NodeId::builder(0), ..options(1, 1_500, 0) };
    assert!(matches!(UdpPort::new(twice), Err(UdpError::NamedTwice(_))));
}

#[test]
fn loss_on_purpose_is_about_as_much_as_was_asked_for_and_the_same_for_a_seed() {
    let run = |probability, seed| {
        let (sender, receiver) = pair();
        let to = receiver.node();
        let mut sender = Dropping::new(sender, probability, seed);
        for number in 0..1_000_u32 {
            sender.send(to, 0, &number.to_le_bytes(), &[]).expect("it is taken");
        }
        sender.stats().datagrams_dropped
    };
    assert_eq!((run(0.0, 1), run(1.0, 1)), (0, 1_000));
    let tenth = run(0.1, 1);
    assert!((60..140).contains(&tenth), "{tenth} of 1000");
    assert_eq!(tenth, run(0.1, 1));
}
