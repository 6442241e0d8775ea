//! Arrival of frames: order, integrity, bounds, fairness, counts.

use super::pattern::{Arrivals, FramePlace, check, frame, sizes};
use super::world::World;
use super::{Lab, Limits, amount};
use bytes::Bytes;
use sheaf_transport::{Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{ByteCount, NodeId};

/// Sends the frame at `place` with its sizes. Steps the world while the queue is full.
fn send<L: Lab>(world: &mut World<L>, sender: usize, place: FramePlace) {
    let (head, pieces) = sizes(place.number);
    let mut frame = frame(place, head, &pieces);
    loop {
        match world.actors[sender].endpoint.send(place.to, frame) {
            Ok(()) => return,
            Err(SendError::Full(back)) => frame = back,
            Err(error) => panic!("{place:?}: {error}"),
        }
        world.step();
    }
}

/// Takes the frames of `receiver`, and checks them against those that have already arrived from each of its senders.
fn take<L: Lab>(world: &mut World<L>, receiver: usize, arrivals: &mut [Arrivals]) {
    let actor = &mut world.actors[receiver];
    let keeps_order = actor.endpoint.keeps_order();
    while let Some((from, frame)) = actor.received.pop_front() {
        let of_sender = arrivals.iter_mut().find(|arrivals| arrivals.from() == from);
        of_sender.expect("a frame comes from a node").take(frame, keeps_order, sizes);
    }
}

/// Frames of all sizes arrive as they were sent, in order if the transport preserves it.
pub fn frames_arrive_in_order_whole_and_once<L: Lab>() {
    let frames = amount(1_000, 3_000);
    let mut world = World::<L>::pair(Limits::default());
    let (from, to) = (world.actors[0].node(), world.actors[1].node());
    let mut arrivals = [Arrivals::new(from, to, 0)];
    for number in 0..frames {
        send(&mut world, 0, FramePlace { from, to, number });
        take(&mut world, 1, &mut arrivals);
    }
    world.until("every frame", |world| {
        take(world, 1, &mut arrivals);
        world.actors[1].endpoint.stats().frames_received == frames
    });
    world.step();
    take(&mut world, 1, &mut arrivals);
    assert_eq!(arrivals[0].taken(), frames);
}

/// Each piece of a payload can be taken without splitting it, for any number of pieces.
pub fn pieces_are_never_split<L: Lab>() {
    let mut world = World::<L>::pair(Limits::default());
    let (from, to) = (world.actors[0].node(), world.actors[1].node());
    let many: Vec<usize> = (0..3000).map(|piece| piece % 97).collect();
    let place = FramePlace { from, to, number: 0 };
    world.actors[0].send_patiently(to, frame(place, 10, &many));
    world.until("the frame", |world| !world.actors[1].received.is_empty());
    if let Some((_, frame)) = world.actors[1].received.pop_front() {
        check(frame, place, 10, &many);
    }
}

/// Frames without head, without payload, without both, and with empty pieces arrive.
pub fn heads_and_payloads_may_be_empty<L: Lab>() {
    let mut world = World::<L>::pair(Limits::default());
    let (from, to) = (world.actors[0].node(), world.actors[1].node());
    let shapes: [(usize, &[usize]); 6] =
        [(0, &[]), (1, &[]), (0, &[1]), (0, &[0, 0]), (5, &[0, 7, 0]), (0, &[])];
    for (number, (head, pieces)) in (0..).zip(shapes) {
        world.actors[0].send_patiently(to, frame(FramePlace { from, to, number }, head, pieces));
    }
    world.until("six frames", |world| world.actors[1].received.len() == shapes.len());
    let mut arrivals = Arrivals::new(from, to, 0);
    let keeps_order = world.actors[1].endpoint.keeps_order();
    for (_, frame) in world.actors[1].received.drain(..) {
        arrivals.take(frame, keeps_order, |number| {
            let (head, pieces) = shapes[number as usize % shapes.len()];
            (head, pieces.to_vec())
        });
    }
    assert_eq!(arrivals.taken(), shapes.len() as u64);
}

/// The limit counts head and payload together, and is exact.
pub fn the_largest_frame_passes_and_one_byte_more_does_not<L: Lab>() {
    let limits = Limits::default();
    let most = limits.max_frame_bytes.as_usize();
    let mut world = World::<L>::pair(limits);
    let (from, to) = (world.actors[0].node(), world.actors[1].node());
    for (number, head) in (0..).zip([0, 1000, most]) {
        let place = FramePlace { from, to, number };
        let pieces = [(most - head) / 2, most - head - (most - head) / 2];
        world.actors[0].send_patiently(to, frame(place, head, &pieces));
        world.until("the largest frame", |world| !world.actors[1].received.is_empty());
        let got = world.actors[1].received.pop_front().map(|(_, frame)| check(frame, place, head, &pieces));
        assert!(got.is_some());
    }
    let larger = Frame::new(Bytes::from_static(b"h"), [Bytes::from(vec![1; most])]);
    match world.actors[0].endpoint.send(to, larger.clone()) {
        Err(SendError::TooLarge { frame, limit }) => {
            assert_eq!(limit, limits.max_frame_bytes);
            assert_eq!(frame, larger, "the frame is given back");
        }
        other => panic!("one byte more than the limit: {other:?}"),
    }
    assert_eq!(world.actors[0].endpoint.stats().refused_too_large, 1);
}

/// While the receiver does not poll, the queue fills up, in frames or in bytes. When it polls, sending continues.
pub fn a_full_queue_refuses_and_nothing_is_lost<L: Lab>() {
    let few_frames = Limits { queue_frames: 8, ..Limits::default() };
    let few_bytes = Limits {
        queue_frames: 1 << 20,
        queue_bytes: ByteCount(100_000),
        max_frame_bytes: ByteCount(100_000),
        ..Limits::default()
    };
    for (limits, bytes) in [(few_frames, 100_000), (few_bytes, 5_000)] {
        let mut world = World::<L>::pair(limits);
        let (from, to) = (world.actors[0].node(), world.actors[1].node());
        let make = |number| frame(FramePlace { from, to, number }, 10, &[bytes]);
        let mut sent = 0;
        // More than any kernel buffers.
        let refused = loop {
            match world.actors[0].endpoint.send(to, make(sent)) {
                Ok(()) => sent += 1,
                Err(SendError::Full(frame)) => break frame,
                Err(error) => panic!("frame {sent}: {error}"),
            }
            world.actors[0].step();
            assert!(sent * (bytes as u64) < 1 << 30, "the queue has no bound");
        };
        assert_eq!(refused, make(sent), "the refused frame is given back");
        assert!(sent > 0, "an empty queue takes a frame");
        assert_eq!(world.actors[0].endpoint.stats().refused_full, 1);
        world.until("all accepted frames", |world| world.actors[1].received.len() as u64 == sent);
        world.actors[0].send_patiently(to, refused);
        world.until("the frame that was refused before", |world| {
            world.actors[1].received.len() as u64 == sent + 1
        });
        let mut arrivals = Arrivals::new(from, to, 0);
        let keeps_order = world.actors[1].endpoint.keeps_order();
        for (_, frame) in world.actors[1].received.drain(..) {
            arrivals.take(frame, keeps_order, |_| (10, vec![bytes]));
        }
        assert_eq!(arrivals.taken(), sent + 1);
    }
}

/// Several senders and receivers communicate at once; the order of each link is preserved.
pub fn many_to_many_traffic_stays_in_order_on_every_link<L: Lab>() {
    let frames = amount(100, 300);
    let nodes = [
        NodeId::readout(0),
        NodeId::readout(1),
        NodeId::readout(2),
        NodeId::builder(0),
        NodeId::builder(1),
        NodeId::MANAGER,
    ];
    let mut world = World::<L>::new(&nodes, Limits::default());
    let mut arrivals: Vec<Vec<Arrivals>> =
        nodes.iter().map(|to| nodes.iter().map(|from| Arrivals::new(*from, *to, 0)).collect()).collect();
    let mut drain = |world: &mut World<L>| {
        for (receiver, arrivals) in arrivals.iter_mut().enumerate() {
            take(world, receiver, arrivals);
        }
        arrivals.iter().flatten().map(Arrivals::taken).sum::<u64>()
    };
    for number in 0..frames {
        for (sender, from) in nodes.into_iter().enumerate() {
            for to in nodes.into_iter().filter(|to| *to != from) {
                send(&mut world, sender, FramePlace { from, to, number });
            }
        }
        drain(&mut world);
    }
    let all = frames * (nodes.len() * (nodes.len() - 1)) as u64;
    world.until("every frame of every link", |world| drain(world) == all);
    for (receiver, arrivals) in arrivals.iter().enumerate() {
        for (sender, arrivals) in arrivals.iter().enumerate() {
            assert_eq!(arrivals.taken(), if sender == receiver { 0 } else { frames });
        }
    }
}

/// While one sender keeps its queue full, a single frame of every other sender arrives.
pub fn a_flood_from_one_sender_does_not_keep_the_others_waiting<L: Lab>() {
    let senders: Vec<NodeId> = (0..6).map(NodeId::readout).collect();
    let nodes = [senders.as_slice(), &[NodeId::MANAGER]].concat();
    let mut world = World::<L>::new(&nodes, Limits::default());
    let receiver = senders.len();
    let piece = Bytes::from(vec![3; 500]);
    for sender in &mut world.actors[1..receiver] {
        sender.send_patiently(NodeId::MANAGER, Frame::new(piece.clone(), []));
        sender.endpoint.flush();
    }
    let mut quiet = 0;
    let mut flood = 0;
    while quiet < senders.len() - 1 {
        // The flood does not stop: its queue is filled before each poll.
        while world.actors[0].endpoint.send(NodeId::MANAGER, Frame::new(piece.clone(), [])).is_ok() {}
        for sender in &mut world.actors[..receiver] {
            sender.step();
        }
        match world.actors[receiver].endpoint.poll() {
            Some(Event::Received { from, .. }) if from == senders[0] => flood += 1,
            Some(Event::Received { .. }) => quiet += 1,
            _ => {}
        }
        assert!(flood < 1_000_000, "frames of only {quiet} other senders arrived after a million frames");
    }
}

/// The counters of both sides agree with each other and with the traffic.
pub fn counters_add_up<L: Lab>() {
    const FRAMES: u64 = 500;
    let mut world = World::<L>::pair(Limits::default());
    let (from, to) = (world.actors[0].node(), world.actors[1].node());
    let mut bytes = 0;
    for number in 0..FRAMES {
        let (head, pieces) = sizes(number);
        bytes += (head + pieces.iter().sum::<usize>()) as u64;
        send(&mut world, 0, FramePlace { from, to, number });
    }
    world.until("every frame", |world| world.actors[1].received.len() as u64 == FRAMES);
    let _ = world.actors[0].endpoint.send(NodeId::builder(999), Frame::default());
    let (sender, receiver) = (world.actors[0].endpoint.stats(), world.actors[1].endpoint.stats());
    assert_eq!((sender.frames_sent, sender.bytes_sent), (FRAMES, bytes));
    assert_eq!((receiver.frames_received, receiver.bytes_received), (FRAMES, bytes));
    assert_eq!((sender.frames_received, receiver.frames_sent), (0, 0));
    assert_eq!(sender.refused_unknown_peer, 1);
    assert_eq!((sender.links_up, receiver.links_up), (1, 1));
    assert_eq!((sender.links_down, receiver.links_down), (0, 0));
    let mut both = LinkStats::default();
    both += sender;
    both += receiver;
    for ((name, sum), ((_, one), (_, other))) in both.fields().zip(sender.fields().zip(receiver.fields())) {
        assert_eq!(sum, one + other, "{name}");
    }
}
