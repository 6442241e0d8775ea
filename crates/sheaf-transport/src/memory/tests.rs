use super::*;
use crate::{DownReason, Endpoint, Event, Frame, SendError};
use bytes::Bytes;
use sheaf_wire::Nanos;

fn frame(bytes: usize) -> Frame {
    Frame::new(Bytes::from(vec![7; bytes]), [])
}

/// Returns all events of `endpoint`, over rounds until one is empty.
fn events(endpoint: &mut MemoryEndpoint) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let before = events.len();
        events.extend(std::iter::from_fn(|| endpoint.poll()));
        endpoint.flush();
        if events.len() == before {
            return events;
        }
    }
}

fn two(limits: MemoryLimits) -> (MemoryNetwork, MemoryEndpoint, MemoryEndpoint) {
    let nodes = vec![NodeId::readout(0), NodeId::builder(0)];
    let (network, mut threads) = MemoryNetwork::with_threads(&[nodes], limits).unwrap();
    let mut endpoints = threads.remove(0).into_iter();
    let (mut first, mut second) = (endpoints.next().unwrap(), endpoints.next().unwrap());
    assert_eq!(events(&mut first), [Event::PeerUp { peer: second.node() }]);
    assert_eq!(events(&mut second), [Event::PeerUp { peer: first.node() }]);
    (network, first, second)
}

#[test]
fn a_frame_moves_without_a_copy() {
    let (_network, mut sender, mut receiver) = two(MemoryLimits::default());
    let sent = frame(1 << 20);
    let address = sent.head.as_ptr();
    sender.send(receiver.node(), sent).unwrap();
    match events(&mut receiver).as_slice() {
        [Event::Received { frame, .. }] => assert_eq!(frame.head.as_ptr(), address),
        other => panic!("one frame was sent, not {other:?}"),
    }
}

#[test]
fn the_bound_in_bytes_counts_what_the_receiver_has_not_taken() {
    let limits =
        MemoryLimits { link_frames: 100, link_bytes: ByteCount(1000), max_frame_bytes: ByteCount(600) };
    let (_network, mut sender, mut receiver) = two(limits);
    let to = receiver.node();
    sender.send(to, frame(600)).unwrap();
    sender.send(to, frame(400)).unwrap();
    assert!(matches!(sender.send(to, frame(1)), Err(SendError::Full(_))));
    assert!(matches!(sender.send(to, frame(601)), Err(SendError::TooLarge { .. })));
    assert!(matches!(receiver.poll(), Some(Event::Received { .. })));
    sender.send(to, frame(600)).unwrap();
    assert!(matches!(sender.send(to, frame(1)), Err(SendError::Full(_))));
    assert_eq!(events(&mut receiver).len(), 2);
}

#[test]
fn a_wait_for_one_endpoint_ends_by_a_frame_for_another_of_the_thread() {
    let threads = [vec![NodeId::builder(0), NodeId::builder(1)], vec![NodeId::readout(0)]];
    let (_network, mut endpoints) = MemoryNetwork::with_threads(&threads, MemoryLimits::default()).unwrap();
    let mut far = endpoints.pop().unwrap().remove(0);
    let mut near = endpoints.pop().unwrap();
    events(&mut far);
    for endpoint in &mut near {
        events(endpoint);
    }
    near[0].wait(Nanos::ZERO);
    let sender = std::thread::spawn(move || {
        far.send(NodeId::builder(1), frame(10)).unwrap();
        far.flush();
        far
    });
    // Ends only by the frame: a missed wake-up hangs the test.
    while !events(&mut near[1]).iter().any(|event| matches!(event, Event::Received { .. })) {
        near[0].wait(Nanos::MAX);
    }
    sender.join().unwrap();
}

#[test]
fn a_round_cut_short_by_the_driver_does_not_let_the_thread_sleep() {
    let (_network, mut sender, mut receiver) = two(MemoryLimits::default());
    for _ in 0..3 {
        sender.send(receiver.node(), frame(1)).unwrap();
    }
    sender.flush();
    receiver.wait(Nanos::MAX);
    for _ in 0..3 {
        assert!(receiver.poll().is_some());
        receiver.wait(Nanos::MAX);
    }
    assert!(receiver.poll().is_none());
}

#[test]
fn what_a_dead_peer_did_not_take_is_counted() {
    let (network, mut sender, receiver) = two(MemoryLimits::default());
    let to = receiver.node();
    for _ in 0..5 {
        sender.send(to, frame(1)).unwrap();
    }
    drop(receiver);
    let down = Event::PeerDown { peer: to, reason: DownReason::Lost };
    assert!(matches!(sender.send(to, frame(1)), Err(SendError::NotConnected(_))));
    assert_eq!(events(&mut sender), [down]);
    assert_eq!(sender.stats().frames_lost, 5);
    let again = network.attach(to, &Doorbell::new()).unwrap();
    assert_eq!(events(&mut sender), [Event::PeerUp { peer: to }]);
    assert_eq!(network.attach(to, &Doorbell::new()).unwrap_err(), AttachError::AlreadyAttached(to));
    drop(again);
}

#[test]
fn a_peer_that_lived_and_died_unseen_is_still_told_of_in_order() {
    let (network, mut seen, other) = two(MemoryLimits::default());
    let peer = other.node();
    drop(other);
    let mut second_life = network.attach(peer, &Doorbell::new()).unwrap();
    second_life.poll();
    second_life.send(seen.node(), frame(9)).unwrap();
    second_life.close(Nanos::ZERO);
    drop(second_life);
    let from = peer;
    let reason = |reason| Event::PeerDown { peer, reason };
    let received = Event::Received { from, frame: frame(9) };
    let course = [reason(DownReason::Lost), Event::PeerUp { peer }, received, reason(DownReason::Closed)];
    assert_eq!(events(&mut seen), course);
}

#[test]
fn nodes_that_the_network_does_not_know_cannot_attach() {
    let (network, ..) = two(MemoryLimits::default());
    let stranger = NodeId::builder(9);
    assert_eq!(network.attach(stranger, &Doorbell::new()).unwrap_err(), AttachError::UnknownNode(stranger));
    let twice = MemoryNetwork::new(&[stranger, stranger], MemoryLimits::default());
    assert_eq!(twice.unwrap_err(), NamedTwice(stranger));
}
