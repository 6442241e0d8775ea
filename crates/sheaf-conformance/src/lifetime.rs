//! Start, death, restart and orderly end of nodes.

use super::pattern::{Arrivals, FramePlace, frame};
use super::world::{Actor, Change, World};
use super::{Lab, Limits};
use sheaf_transport::{DownReason, Endpoint, Frame, SendError};
use sheaf_wire::{Nanos, NodeId};
use std::thread;

const LINGER: Nanos = Nanos::from_secs(20);

/// Unknown nodes, nodes that have not started yet, and the node itself are distinguished.
pub fn strangers_and_absent_peers_are_told_apart<L: Lab>() {
    let (alive, absent) = (NodeId::readout(0), NodeId::builder(0));
    let mut lab = L::new(&[alive, absent], Limits::default());
    let mut actor = Actor::new(lab.start(alive));
    for _ in 0..10 {
        actor.step();
    }
    let given = Frame::new(bytes::Bytes::from_static(b"to nobody"), []);
    let refused = actor.endpoint.send(absent, given.clone());
    assert_eq!(refused, Err(SendError::NotConnected(given.clone())));
    for stranger in [NodeId::builder(1), NodeId::MANAGER, alive] {
        let refused = actor.endpoint.send(stranger, given.clone());
        assert_eq!(refused, Err(SendError::UnknownPeer(given.clone())), "{stranger}");
    }
    let stats = actor.endpoint.stats();
    assert_eq!((stats.refused_not_connected, stats.refused_unknown_peer), (1, 3));
    let mut late = Actor::new(lab.start(absent));
    actor.until("the absent node", |actor| {
        late.step();
        actor.is_up(absent)
    });
}

/// When a node dies silently, every other node is notified and can continue with the rest.
pub fn the_death_of_a_node_is_seen_by_the_others<L: Lab>() {
    let nodes = [NodeId::readout(0), NodeId::builder(0), NodeId::MANAGER];
    let mut world = World::<L>::new(&nodes, Limits::mortal());
    drop(world.actors.remove(1));
    world.until("both to see the death", |world| {
        world.actors.iter().all(|actor| actor.went_down(nodes[1]) == Some(DownReason::Lost))
    });
    let refused = world.actors[0].endpoint.send(nodes[1], Frame::default());
    assert_eq!(refused, Err(SendError::NotConnected(Frame::default())));
    world.actors[0].send_patiently(nodes[2], Frame::default());
    world.until("a frame between the living", |world| !world.actors[1].received.is_empty());
}

/// If a node dies while it sends, the frames that arrive are whole, and the end is reported after them. They are the first ones
/// sent, if the transport preserves the order.
pub fn a_node_that_dies_in_full_flow_leaves_a_beginning_without_gaps<L: Lab>() {
    let (_lab, mut sender, mut receiver) = World::<L>::pair(Limits::mortal()).two();
    let (from, to) = (sender.node(), receiver.node());
    let make = |number| frame(FramePlace { from, to, number }, 100, &[4000, 4000]);
    let mut number = 0;
    while sender.endpoint.send(to, make(number)).is_ok() {
        number += 1;
        sender.step();
        if number > 20 {
            receiver.step();
        }
        if number == 200 {
            break;
        }
    }
    drop(sender);
    receiver.until("the end", |receiver| receiver.went_down(from) == Some(DownReason::Lost));
    assert!(receiver.received.len() as u64 <= number);
    let mut arrivals = Arrivals::new(from, to, 0);
    let keeps_order = receiver.endpoint.keeps_order();
    for (_, frame) in receiver.received {
        arrivals.take(frame, keeps_order, |_| (100, vec![4000, 4000]));
    }
}

/// A node that restarts is announced again. Nothing from its previous life arrives after that.
pub fn a_restarted_node_is_connected_anew<L: Lab>() {
    let mut world = World::<L>::pair(Limits::mortal());
    let (stays, dies) = (world.actors[0].node(), world.actors[1].node());
    for life in 0..3_u64 {
        // The first of these frames may reach the dying node or be lost with it. In either case none may reach its next life.
        for number in 0..5 {
            let place = FramePlace { from: stays, to: dies, number: life * 10 + number };
            world.actors[0].send_patiently(dies, frame(place, 50, &[50]));
        }
        world.until("a frame in each life", |world| !world.actors[1].received.is_empty());
        let mut arrivals = Arrivals::new(stays, dies, life * 10);
        let keeps_order = world.actors[1].endpoint.keeps_order();
        for (_, got) in world.actors[1].received.drain(..) {
            arrivals.take(got, keeps_order, |_| (50, vec![50]));
        }
        drop(world.actors.pop());
        world.until("the death", |world| !world.actors[0].is_up(dies));
        let endpoint = world.lab.start(dies);
        world.actors.push(Actor::new(endpoint));
        world.until_connected();
    }
    assert_eq!(world.actors[1].changes, [Change::Up(stays)]);
    let seen: Vec<bool> = world.actors[0].changes.iter().map(|it| matches!(it, Change::Up(_))).collect();
    assert_eq!(seen, [true, false, true, false, true, false, true]);
}

/// Closing delivers all accepted frames, then ends the link in an orderly way.
pub fn an_orderly_close_delivers_what_was_accepted<L: Lab>() {
    let (_lab, mut sender, mut receiver) = World::<L>::pair(Limits::default()).two();
    let (from, to) = (sender.node(), receiver.node());
    let mut number = 0;
    while sender.endpoint.send(to, frame(FramePlace { from, to, number }, 30, &[30_000])).is_ok() {
        number += 1;
    }
    let closer = thread::spawn(move || {
        sender.endpoint.close(LINGER);
        sender
    });
    receiver.until("the farewell", |receiver| receiver.went_down(from).is_some());
    assert_eq!(receiver.went_down(from), Some(DownReason::Closed));
    assert_eq!(receiver.received.len() as u64, number, "all that was accepted");
    let mut arrivals = Arrivals::new(from, to, 0);
    let keeps_order = receiver.endpoint.keeps_order();
    for (_, got) in receiver.received.drain(..) {
        arrivals.take(got, keeps_order, |_| (30, vec![30_000]));
    }
    let mut sender = closer.join().expect("closing does not panic");
    let refused = sender.endpoint.send(to, Frame::default());
    assert_eq!(refused, Err(SendError::NotConnected(Frame::default())));
    assert_eq!(sender.endpoint.stats().frames_lost, 0);
}

/// Both nodes of a link close it at the same time, each with a full queue for the other.
pub fn closing_both_ends_at_once_delivers_both_ways<L: Lab>() {
    let (_lab, first, second) = World::<L>::pair(Limits::default()).two();
    let nodes = [first.node(), second.node()];
    let close = |mut actor: Actor<L::Endpoint>, to: NodeId| {
        let from = actor.node();
        let mut number = 0;
        while actor.endpoint.send(to, frame(FramePlace { from, to, number }, 20, &[30_000])).is_ok() {
            number += 1;
        }
        let closer = thread::spawn(move || {
            actor.endpoint.close(LINGER);
            actor.step();
            actor
        });
        (closer, number)
    };
    let [(first, from_first), (second, from_second)] = [close(first, nodes[1]), close(second, nodes[0])];
    for (closer, sent) in [(first, from_second), (second, from_first)] {
        let mut actor = closer.join().expect("closing does not panic");
        let to = actor.node();
        actor.until("all frames", |actor| actor.received.len() as u64 == sent);
        assert_eq!(actor.endpoint.stats().frames_lost, 0);
        let mut arrivals = nodes.map(|from| Arrivals::new(from, to, 0));
        let keeps_order = actor.endpoint.keeps_order();
        for (from, got) in actor.received.drain(..) {
            arrivals[usize::from(from == nodes[1])].take(got, keeps_order, |_| (20, vec![30_000]));
        }
    }
}
