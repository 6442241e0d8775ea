//! A machine without power, and a process that is stopped: two hosts with a cable between them.

use crate::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use bytes::Bytes;
use sheaf_conformance::namespaces::{Cables, Host, World};
use sheaf_transport::{DownReason, Endpoint as _, Event, Frame, SendError};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

const A: NodeId = NodeId::builder(0);
const B: NodeId = NodeId::readout(0);
const PERIOD: Nanos = Nanos::from_millis(20);

/// Nothing but the silence of the machine ends a link within the time of a test.
fn settings() -> TcpSettings {
    TcpSettings {
        silent_machine: Nanos::from_secs(1),
        stalled_peer: Nanos::from_secs(3_600),
        ..TcpSettings::default()
    }
}

fn endpoint(node: NodeId, peer: PeerAddress, listener: Option<TcpListener>) -> TcpEndpoint {
    let (run, session) = (RunNumber(1), SessionId(1));
    TcpEndpoint::new(TcpOptions { node, run, session, listener, peers: vec![peer], settings: settings() })
        .unwrap()
}

/// Host B: sends its address, takes frames until it is told to stop, and then holds its link open without polling it.
fn takes_frames(address: &Sender<String>, stop: &Receiver<()>, end: &Receiver<()>) {
    let listener = TcpListener::bind("10.77.0.2:0").unwrap();
    address.send(listener.local_addr().unwrap().to_string()).unwrap();
    let peer = PeerAddress { node: A, addresses: Vec::new(), initiate: false };
    let mut endpoint = endpoint(B, peer, Some(listener));
    while stop.try_recv().is_err() {
        while endpoint.poll().is_some() {}
        endpoint.wait(PERIOD);
    }
    let _ = end.recv();
}

/// Host A of a test: an endpoint that sends to B all the time.
struct Sending {
    endpoint: TcpEndpoint,
    is_full: bool,
}

impl Sending {
    fn to(address: String) -> Self {
        let peer = PeerAddress { node: B, addresses: vec![address], initiate: true };
        let mut endpoint = endpoint(A, peer, None);
        loop {
            if let Some(Event::PeerUp { .. }) = endpoint.poll() {
                return Self { endpoint, is_full: false };
            }
            endpoint.wait(PERIOD);
        }
    }

    /// Sends a frame, and returns why the link went down, if it did.
    fn step(&mut self, bytes: usize) -> Option<DownReason> {
        let frame = Frame::new(Bytes::new(), [Bytes::from(vec![0; bytes])]);
        self.is_full = matches!(self.endpoint.send(B, frame), Err(SendError::Full(_)));
        self.endpoint.flush();
        let down = std::iter::from_fn(|| self.endpoint.poll()).find_map(|event| match event {
            Event::PeerDown { reason, .. } => Some(reason),
            _ => None,
        });
        self.endpoint.wait(PERIOD);
        down
    }
}

/// Two hosts, and a link from A to B that works; then `test` with A's end, and a way to stop B's process.
fn with_link(test: impl FnOnce(&World, Sending, &Sender<()>) + Send) {
    let Some(world) = World::new(Cables { rails: 1, mtu: 1500, queues: 1 }) else { return };
    let (address, addresses) = channel();
    let (stop, stopped) = channel();
    let (end, ended) = channel::<()>();
    let world = &world;
    std::thread::scope(|scope| {
        scope.spawn(move || world.inside(Host::B, move || takes_frames(&address, &stopped, &ended)));
        world.inside(Host::A, move || {
            let mut sending = Sending::to(addresses.recv().unwrap());
            assert_eq!((0..10).find_map(|_| sending.step(1_000)), None);
            test(world, sending, &stop);
            // Host B ends with these.
            let _ = stop.send(());
            drop(end);
        });
    });
}

#[test]
fn a_machine_that_answers_nothing_is_noticed_by_what_was_sent_to_it() {
    with_link(|world, mut sending, _| {
        // Whatever B's kernel would answer leads nowhere.
        world.ip(Host::B, "route add blackhole 10.77.0.1/32");
        let reason = std::iter::from_fn(|| Some(sending.step(1_000))).flatten().next();
        assert_eq!(reason, Some(DownReason::Lost));
    });
}

#[test]
fn a_process_that_is_stopped_is_not_taken_for_a_dead_machine() {
    with_link(|_, mut sending, stop| {
        stop.send(()).unwrap();
        while !sending.is_full {
            assert_eq!(sending.step(1 << 20), None);
        }
        // Five times as long as a machine may be silent.
        let down = (0..250).find_map(|_| sending.step(1 << 20));
        assert_eq!(down, None, "B's kernel answers");
    });
}
