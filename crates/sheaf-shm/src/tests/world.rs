//! Two nodes that share memory, driven by one thread.

use crate::{Arena, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_transport::{Endpoint, Event, Frame};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const SENDER: NodeId = NodeId::readout(0);
pub(super) const RECEIVER: NodeId = NodeId::builder(0);

/// A name that no other test of this machine has.
pub(super) fn name() -> String {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("unit/{}/{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn settings() -> ShmSettings {
    ShmSettings {
        max_frame_bytes: ByteCount::kib(256),
        block_bytes: ByteCount::kib(16),
        blocks: 4,
        retry_min: Nanos::from_millis(1),
        ..ShmSettings::default()
    }
}

pub(super) fn options(node: NodeId, peer: NodeId, name: &str) -> ShmOptions {
    let settings = settings();
    let calls = node == RECEIVER;
    ShmOptions {
        node,
        run: RunNumber(1),
        session: SessionId(1),
        name: (!calls).then(|| name.to_owned()),
        peers: vec![ShmPeer { node: peer, call: calls.then(|| name.to_owned()) }],
        arena: Arena::new("sheaf.test", settings.arena_bytes() + ByteCount::mib(8), false).unwrap(),
        settings,
    }
}

/// A sender, its arena, and a receiver, connected.
pub(super) fn pair() -> (ShmEndpoint, Arena, ShmEndpoint) {
    let name = name();
    let options_of_sender = options(SENDER, RECEIVER, &name);
    let arena = options_of_sender.arena.clone();
    let mut sender = ShmEndpoint::new(options_of_sender).unwrap();
    let mut receiver = ShmEndpoint::new(options(RECEIVER, SENDER, &name)).unwrap();
    let mut up = 0;
    until("the link is up", || {
        let news = std::iter::from_fn(|| sender.poll()).chain(std::iter::from_fn(|| receiver.poll()));
        up += news.inspect(|event| assert!(matches!(event, Event::PeerUp { .. }), "{event:?}")).count();
        up == 2
    });
    (sender, arena, receiver)
}

#[track_caller]
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(300), "still waiting until {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// The next event, whenever it comes.
#[track_caller]
pub(super) fn next(endpoint: &mut ShmEndpoint) -> Event {
    let mut found = None;
    until("something happens", || {
        found = endpoint.poll();
        found.is_some()
    });
    found.expect("it was there")
}

#[track_caller]
pub(super) fn next_frame(endpoint: &mut ShmEndpoint) -> Frame {
    match next(endpoint) {
        Event::Received { frame, .. } => frame,
        other => panic!("expected a frame: {other:?}"),
    }
}
