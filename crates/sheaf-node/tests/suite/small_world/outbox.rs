//! Conversion between messages and frames: frames that a link cannot take, and frames from strangers.

use bytes::Bytes;
use sheaf_node::outbox::Outbox;
use sheaf_protocol::{Identity, Transmit};
use sheaf_transport::memory::{MemoryEndpoint, MemoryLimits, MemoryNetwork};
use sheaf_transport::{Endpoint, Frame};
use sheaf_wire::message::{Body, EventRange, Message};
use sheaf_wire::{ByteCount, EventId, NodeId, RunNumber, SessionId};

const LINK_FRAMES: usize = 4;

fn request(from: NodeId, event: u64) -> Message<Bytes> {
    let me = Identity { node: from, run: RunNumber(1), session: SessionId(1) };
    me.plain(Body::FragmentRequest(vec![EventRange { first: EventId(event), count: 1, attempt: 1 }]))
}

fn event_of(message: &Message<Bytes>) -> u64 {
    match &message.body {
        Body::FragmentRequest(ranges) => ranges[0].first.0,
        other => panic!("{other:?}"),
    }
}

/// Returns a builder and a readout unit whose link holds few frames.
fn pair() -> (MemoryEndpoint, MemoryEndpoint) {
    let limits = MemoryLimits {
        link_frames: LINK_FRAMES,
        link_bytes: ByteCount(1 << 16),
        max_frame_bytes: ByteCount(1 << 12),
    };
    let nodes = vec![NodeId::builder(0), NodeId::readout(0)];
    let (_, mut threads) = MemoryNetwork::with_threads(&[nodes], limits).unwrap();
    let [builder, readout] = threads.remove(0).try_into().ok().unwrap();
    (builder, readout)
}

#[test]
fn frames_that_a_full_link_refuses_come_later_and_in_order() {
    let (builder, readout) = pair();
    let (mut builder, mut readout) =
        (Outbox::new(Box::new(builder), SessionId(1)), Outbox::new(Box::new(readout), SessionId(1)));
    assert!(builder.poll::<Bytes>().is_none() && readout.poll::<Bytes>().is_none(), "the links come up");
    let sent = 5 * LINK_FRAMES as u64;
    for event in 0..sent {
        builder.send(Transmit { to: NodeId::readout(0), message: request(NodeId::builder(0), event) });
    }
    let mut received = Vec::new();
    for _ in 0..sent {
        builder.flush();
        while let Some(message) = readout.poll::<Bytes>() {
            received.push(event_of(&message));
        }
    }
    assert_eq!(received, (0..sent).collect::<Vec<_>>());
    assert_eq!(builder.stats().dropped_frames, 0);
}

#[test]
fn acknowledgements_do_not_accumulate_before_a_full_link() {
    let (builder, readout) = pair();
    let (mut builder, mut readout) =
        (Outbox::new(Box::new(builder), SessionId(1)), Outbox::new(Box::new(readout), SessionId(1)));
    assert!(builder.poll::<Bytes>().is_none() && readout.poll::<Bytes>().is_none(), "the links come up");
    let to = NodeId::readout(0);
    let me = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };
    for event in 0..2 * LINK_FRAMES as u64 {
        builder.send(Transmit { to, message: request(me.node, event) });
    }
    for _ in 0..100 {
        builder.send(Transmit { to, message: me.plain(Body::Acknowledge) });
    }
    builder.send(Transmit { to, message: request(me.node, 77) });
    let mut received = Vec::new();
    for _ in 0..4 * LINK_FRAMES {
        builder.flush();
        received.extend(std::iter::from_fn(|| readout.poll::<Bytes>()));
    }
    let requests = 2 * LINK_FRAMES + 1;
    assert_eq!(received.len(), requests + 1, "one acknowledgement is left of all that waited");
    assert!(matches!(received[requests - 1].body, Body::Acknowledge));
    assert_eq!(event_of(&received[requests]), 77);
}

#[test]
fn unreadable_frames_are_only_counted() {
    let (mut builder, readout) = pair();
    let mut readout = Outbox::new(Box::new(readout), SessionId(1));
    assert!(builder.poll().is_some() && readout.poll::<Bytes>().is_none(), "the links come up");
    let frame = |message: Message<Bytes>| {
        let mut head = Vec::new();
        message.encode(&mut head, |_| panic!("a request has no payload"));
        Frame::new(head.into(), [])
    };
    let noise = Frame::new(Bytes::from_static(b"\x00\xff no message at all"), []);
    builder.send(NodeId::readout(0), noise).unwrap();
    // It claims to be from another node than its actual sender.
    builder.send(NodeId::readout(0), frame(request(NodeId::builder(1), 5))).unwrap();
    builder.send(NodeId::readout(0), frame(request(NodeId::builder(0), 6))).unwrap();
    builder.flush();
    assert_eq!(readout.poll::<Bytes>().as_ref().map(event_of), Some(6));
    assert_eq!(readout.stats().bad_messages, 2);
}

#[test]
fn frames_that_no_link_takes_are_counted() {
    let (builder, _readout) = pair();
    let mut builder = Outbox::new(Box::new(builder), SessionId(1));
    assert!(builder.poll::<Bytes>().is_none());
    let ranges = (0..1000).map(|event| EventRange { first: EventId(2 * event), count: 1, attempt: 1 });
    let me = Identity { node: NodeId::builder(0), run: RunNumber(1), session: SessionId(1) };
    let message = me.plain(Body::FragmentRequest(ranges.collect()));
    builder.send(Transmit { to: NodeId::readout(0), message });
    builder.send(Transmit { to: NodeId::readout(7), message: request(NodeId::builder(0), 1) });
    assert_eq!(builder.stats().too_large_frames, 1);
    assert_eq!(builder.stats().dropped_frames, 1);
}
