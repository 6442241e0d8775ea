//! Peers of this release, of others, and of one from before hellos.

use super::*;
use bytes::Bytes;
use sheaf_protocol::{Identity, Transmit};
use sheaf_transport::memory::{MemoryEndpoint, MemoryLimits, MemoryNetwork};
use sheaf_transport::{Endpoint, Event};
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{ByteCount, RunNumber};

const FUTURE: VersionRange =
    VersionRange { oldest: VersionRange::OWN.newest + 1, newest: VersionRange::OWN.newest + 1 };

/// Returns a node, whose session is 100, and the raw end of its link with `peer`.
fn node_with(me: NodeId, peer: NodeId) -> (Outbox, MemoryEndpoint) {
    let limits =
        MemoryLimits { link_frames: 64, link_bytes: ByteCount(1 << 20), max_frame_bytes: ByteCount(1 << 16) };
    let (_, mut threads) = MemoryNetwork::with_threads(&[vec![me, peer]], limits).expect("a link of two");
    let mut ends = threads.remove(0).into_iter();
    let (own, other) = (ends.next().expect("its end"), ends.next().expect("the other end"));
    (Outbox::new(Box::new(own), SessionId(100)), other)
}

fn hello(session: u64, versions: VersionRange) -> Hello {
    Hello { session: SessionId(session), versions, software: "sheaf 9.0.0".into(), host: "daq9".into() }
}

fn say(peer: &mut MemoryEndpoint, to: NodeId, bytes: Vec<u8>) {
    peer.send(to, Frame::new(bytes.into(), [])).expect("there is room");
    peer.flush();
}

fn sign_of_life(from: NodeId) -> Message<Bytes> {
    Identity { node: from, run: RunNumber(1), session: SessionId(5) }.plain(Body::Acknowledge)
}

fn head(message: Message<Bytes>) -> Vec<u8> {
    let mut head = Vec::new();
    message.encode(&mut head, |_| panic!("it has no payload"));
    head
}

/// Returns the frames that have arrived at the raw end of a link.
fn heard(peer: &mut MemoryEndpoint) -> Vec<Bytes> {
    let frame = |event| match event {
        Event::Received { frame, .. } => Some(frame.head),
        _ => None,
    };
    std::iter::from_fn(|| peer.poll()).filter_map(frame).collect()
}

#[test]
fn the_first_frame_of_a_node_is_its_hello() {
    let (me, peer) = (NodeId::builder(0), NodeId::readout(0));
    let (mut node, mut other) = node_with(me, peer);
    assert!(node.poll::<Bytes>().is_none(), "the link comes up");
    node.send(Transmit { to: peer, message: sign_of_life(me) });
    node.flush();
    let heard = heard(&mut other);
    let said = Hello::parse(&heard[0]).expect("a hello");
    assert_eq!((said.session, said.versions), (SessionId(100), VersionRange::OWN));
    assert_eq!(said.software, SOFTWARE);
    assert!(Message::<Bytes>::decode(&heard[1], &mut Bytes::new()).is_ok());
}

#[test]
fn a_peer_with_a_common_version_or_from_before_hellos_is_heard() {
    let (me, peer) = (NodeId::builder(0), NodeId::readout(0));
    let wider = VersionRange { oldest: 1, newest: 200 };
    for first in [Some(hello(5, VersionRange::OWN)), Some(hello(5, wider)), None] {
        let (mut node, mut other) = node_with(me, peer);
        assert!(node.poll::<Bytes>().is_none() && other.poll().is_some(), "the link comes up");
        if let Some(hello) = first {
            say(&mut other, me, hello.emit());
        }
        say(&mut other, me, head(sign_of_life(peer)));
        assert_eq!(node.poll::<Bytes>(), Some(sign_of_life(peer)));
        assert_eq!((node.reason_to_leave(), node.stats().bad_messages), (None, 0));
    }
}

#[test]
fn a_peer_without_a_common_version_is_told_nothing_more_and_named_with_host_and_remedy() {
    let (me, peer) = (NodeId::MANAGER, NodeId::builder(3));
    let (mut node, mut other) = node_with(me, peer);
    assert!(node.poll::<Bytes>().is_none() && other.poll().is_some(), "the link comes up");
    say(&mut other, me, hello(500, FUTURE).emit());
    say(&mut other, me, head(sign_of_life(peer)));
    assert_eq!(node.poll::<Bytes>(), None, "what it says is not heard");
    let links: Vec<_> = std::iter::from_fn(|| node.poll_link()).collect();
    assert_eq!(links, [(peer, LinkStatus::Up), (peer, LinkStatus::Down)]);
    node.send(Transmit { to: peer, message: sign_of_life(me) });
    node.flush();
    assert_eq!(heard(&mut other).len(), 1, "the hello alone");
    assert_eq!((node.stats().refused_links, node.stats().dropped_frames), (1, 1));
    let why = node.reason_against(peer).expect("they have parted");
    for part in
        ["bu3 (sheaf 9.0.0 on host daq9) speaks version 4", SOFTWARE, "version 3", "install the same release"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(node.reason_to_leave(), None, "the event manager goes on");
}

#[test]
fn a_node_leaves_for_the_event_manager_and_for_a_node_that_was_there_before() {
    let (older, younger) = (50, 150);
    let cases = [
        (NodeId::readout(0), NodeId::MANAGER, younger, true),
        (NodeId::readout(0), NodeId::MANAGER, older, true),
        (NodeId::readout(0), NodeId::builder(0), older, true),
        (NodeId::readout(0), NodeId::builder(0), younger, false),
        (NodeId::output(0), NodeId::builder(0), 0, false),
        (NodeId::MANAGER, NodeId::readout(0), older, false),
        (NodeId::readout(0), NodeId::mirror(0), older, false),
        (NodeId::mirror(0), NodeId::readout(0), younger, true),
    ];
    for (me, peer, session, leaves) in cases {
        let (mut node, mut other) = node_with(me, peer);
        assert!(node.poll::<Bytes>().is_none() && other.poll().is_some(), "the link comes up");
        say(&mut other, me, hello(session, FUTURE).emit());
        assert_eq!(node.poll::<Bytes>(), None);
        assert_eq!(node.reason_to_leave().is_some(), leaves, "{me} and {peer} of session {session}");
    }
}

#[test]
fn a_message_of_another_version_parts_two_nodes_as_a_hello_does() {
    let (me, peer) = (NodeId::readout(0), NodeId::MANAGER);
    let (mut node, mut other) = node_with(me, peer);
    assert!(node.poll::<Bytes>().is_none() && other.poll().is_some(), "the link comes up");
    let mut bytes = head(sign_of_life(peer));
    bytes[2] = VersionRange::OWN.oldest - 1;
    say(&mut other, me, bytes);
    assert_eq!(node.poll::<Bytes>(), None);
    let error = node.reason_to_leave().expect("nothing can be said to the event manager");
    assert!(error.contains("evm (an unknown release) speaks version 2"), "{error}");
}

#[test]
fn nodes_that_repeat_one_another_part_if_their_releases_differ_although_they_have_a_common_version() {
    let pairs = [
        (NodeId::MANAGER, NodeId::MANAGER.other_replica()),
        (NodeId::readout(1), NodeId::mirror(1)),
        (NodeId::mirror(1), NodeId::readout(1)),
    ];
    for (me, peer) in pairs {
        let (mut node, mut other) = node_with(me, peer);
        assert!(node.poll::<Bytes>().is_none() && other.poll().is_some(), "the link comes up");
        say(&mut other, me, hello(500, VersionRange::OWN).emit());
        assert_eq!(node.poll::<Bytes>(), None);
        assert!(node.is_parted_from(peer));
        let why = node.reason_against(peer).expect("they have parted");
        assert!(why.contains(&format!("{peer} is sheaf 9.0.0 on host daq9")), "{why}");
    }
}
