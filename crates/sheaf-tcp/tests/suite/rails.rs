//! Links of several rails, of which some die: relays between the nodes are cut while frames pass.

use crate::nodes::{BU, MINUTES, RU, expects};
use bytes::Bytes;
use sheaf_conformance::WATCHDOG;
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpError, TcpOptions, TcpSettings};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A cable: forwards bytes between callers and an address until it is cut. Bytes in transit are then lost.
struct Cable {
    address: SocketAddr,
    ends: Arc<Mutex<Vec<TcpStream>>>,
    /// Whether callers are connected.
    plugged: Arc<AtomicBool>,
}

impl Cable {
    fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ends, plugged) = (Arc::<Mutex<Vec<TcpStream>>>::default(), Arc::new(AtomicBool::new(true)));
        let (kept, passes) = (ends.clone(), plugged.clone());
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Some(called) =
                    passes.load(Ordering::SeqCst).then(|| TcpStream::connect(target).ok()).flatten()
                else {
                    continue;
                };
                let mut kept = kept.lock().unwrap();
                for (from, to) in [(&caller, &called), (&called, &caller)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || pass(from, to));
                }
                kept.extend([caller, called]);
            }
        });
        Self { address, ends, plugged }
    }

    /// Breaks the connection at both ends.
    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn unplug(&self) {
        self.plugged.store(false, Ordering::SeqCst);
        self.cut();
    }

    fn plug_in(&self) {
        self.plugged.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut room = vec![0; 8 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut room) {
        if to.write_all(&room[..bytes]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn settings(rails: usize) -> TcpSettings {
    TcpSettings {
        max_frame_bytes: ByteCount::kib(256),
        queue_frames: 64,
        queue_bytes: ByteCount::mib(1),
        block_bytes: ByteCount::kib(64),
        blocks: 16,
        rails,
        connect_timeout: MINUTES,
        greeting_timeout: MINUTES,
        retry_min: Nanos::from_millis(1),
        retry_max: Nanos::from_millis(20),
        ..TcpSettings::default()
    }
}

fn endpoint(node: NodeId, rails: usize, listener: Option<TcpListener>, peer: PeerAddress) -> TcpEndpoint {
    let (run, session) = (RunNumber(3), SessionId(9));
    let options = TcpOptions { node, run, session, listener, peers: vec![peer], settings: settings(rails) };
    TcpEndpoint::new(options).unwrap()
}

/// Returns a readout unit that is called, a builder that calls it, and a cable for each rail.
fn pair(rails: usize) -> (TcpEndpoint, TcpEndpoint, Vec<Cable>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let cables: Vec<Cable> = (0..rails).map(|_| Cable::to(target)).collect();
    let expected = expects(BU);
    let addresses = cables.iter().map(|cable| cable.address.to_string()).collect();
    let called = PeerAddress { node: RU, addresses, initiate: true };
    (endpoint(RU, rails, Some(listener), expected), endpoint(BU, rails, None, called), cables)
}

/// Returns a frame filled with its number.
fn frame(number: u64) -> Frame {
    let size = [10, 900, 40_000, 3_000, 0, 100_000][number as usize % 6];
    let payload = Bytes::from(vec![number as u8; size]);
    Frame::new(Bytes::copy_from_slice(&number.to_le_bytes()), [payload])
}

/// One side of a connection: sends `frames` numbered frames, and checks that as many arrive.
struct Side {
    endpoint: TcpEndpoint,
    peer: NodeId,
    sent: u64,
    received: u64,
    downs: Vec<DownReason>,
}

impl Side {
    fn new(endpoint: TcpEndpoint, peer: NodeId) -> Self {
        Self { endpoint, peer, sent: 0, received: 0, downs: Vec::new() }
    }

    fn step(&mut self, frames: u64) {
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Received { frame: got, .. } => {
                    let expected = frame(self.received);
                    assert_eq!((&got.head, got.payload_bytes()), (&expected.head, expected.payload_bytes()));
                    assert!(got.payload.iter().flatten().all(|byte| *byte == self.received as u8));
                    self.received += 1;
                }
                Event::PeerDown { reason, .. } => self.downs.push(reason),
                Event::PeerUp { .. } => {}
                // The caller has returned before the other side has detected the loss. It calls again.
                Event::Refused { reason: Refusal::InUse, .. } => {}
                Event::Refused { reason, .. } => panic!("refused: {reason}"),
            }
        }
        while self.sent < frames {
            match self.endpoint.send(self.peer, frame(self.sent)) {
                Ok(()) => self.sent += 1,
                Err(SendError::Full(_) | SendError::NotConnected(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.endpoint.flush();
    }
}

/// Drives both sides until each has received `frames`. `meanwhile` is called in every round with the number received.
fn converse(sides: &mut [Side; 2], frames: u64, mut meanwhile: impl FnMut(u64)) {
    let start = Instant::now();
    while sides.iter().any(|side| side.received < frames) {
        sides.iter_mut().for_each(|side| side.step(frames));
        meanwhile(sides.iter().map(|side| side.received).min().unwrap_or(0));
        let stats = || sides.iter().map(|side| (side.received, side.endpoint.stats())).collect::<Vec<_>>();
        assert!(start.elapsed() < WATCHDOG, "stuck: {:?}", stats());
        thread::sleep(Duration::from_micros(50));
    }
}

/// Steps both sides until `rails` further rails have joined the builder's link.
fn until_joined(sides: &mut [Side; 2], rails: u64) {
    let start = Instant::now();
    while sides.iter().any(|side| side.endpoint.stats().rails_up < rails) {
        sides.iter_mut().for_each(|side| side.step(0));
        assert!(start.elapsed() < WATCHDOG, "{:?}", sides[1].endpoint.stats());
        thread::sleep(Duration::from_micros(50));
    }
}

fn sides(rails: usize) -> ([Side; 2], Vec<Cable>) {
    let (readout, builder, cables) = pair(rails);
    let mut sides = [Side::new(readout, BU), Side::new(builder, RU)];
    until_joined(&mut sides, rails as u64 - 1);
    (sides, cables)
}

#[test]
fn a_rail_that_dies_under_load_loses_nothing_and_repeats_nothing() {
    let (mut sides, cables) = sides(2);
    let mut cut = false;
    converse(&mut sides, 2_000, |received| {
        if received > 500 && !cut {
            cables[1].unplug();
            cut = true;
        }
    });
    assert!(cut);
    for side in &sides {
        let stats = side.endpoint.stats();
        assert_eq!(side.downs, [], "the link outlives its rail");
        assert_eq!((stats.links_up, stats.links_down, stats.rails_down), (1, 0, 1));
        assert_eq!((stats.frames_sent, stats.frames_received, stats.frames_lost), (2_000, 2_000, 0));
    }
}

#[test]
fn rails_that_die_again_and_again_come_back_and_nothing_is_lost() {
    let (mut sides, cables) = sides(3);
    let mut next = 100;
    let mut cuts = 0_usize;
    converse(&mut sides, 3_000, |received| {
        // Only one of three rails at a time, and it may return at once.
        if received > next {
            cables[cuts % 3].cut();
            cuts += 1;
            next = received + 150;
        }
    });
    assert!(cuts >= 10, "{cuts}");
    let losses: u64 = sides.iter().map(|side| side.endpoint.stats().rails_down).sum();
    assert!(losses >= 10, "{losses} rails were lost");
    let repeated: u64 = sides.iter().map(|side| side.endpoint.stats().frames_repeated).sum();
    assert!(repeated > 0, "what was in a cable when it was cut went over another");
    // If all three rails had been down at the same time, the link would have gone down, and frames might be lost.
    for side in &sides {
        assert_eq!(side.downs, []);
        assert_eq!(side.endpoint.stats().frames_lost, 0);
    }
}

#[test]
fn a_rail_that_was_unplugged_joins_again_when_it_is_back() {
    let (mut sides, cables) = sides(2);
    cables[0].unplug();
    converse(&mut sides, 300, |_| {});
    cables[0].plug_in();
    until_joined(&mut sides, 2);
    cables[1].unplug();
    let before = sides[1].endpoint.stats().links_up;
    converse(&mut sides, 600, |_| {});
    assert_eq!(sides[1].endpoint.stats().links_up, before, "the link was never down");
}

#[test]
fn a_link_that_lost_all_rails_is_down_and_begins_anew() {
    let (mut sides, cables) = sides(2);
    converse(&mut sides, 50, |_| {});
    cables.iter().for_each(Cable::cut);
    let start = Instant::now();
    while sides.iter().any(|side| side.downs.is_empty() || side.endpoint.stats().links_up < 2) {
        // Nothing is sent, because the numbers of a new link would not continue those of the old one.
        sides.iter_mut().for_each(|side| side.step(0));
        assert!(start.elapsed() < WATCHDOG, "{:?}", sides[1].endpoint.stats());
        thread::sleep(Duration::from_micros(50));
    }
    assert!(sides.iter().all(|side| side.downs[0] == DownReason::Lost), "{:?}", sides[0].downs);
    converse(&mut sides, 200, |_| {});
}

/// Neither side may withhold a message that the other waits for. With a linger time of an hour, the test would hang.
#[test]
fn closing_both_ends_of_full_links_ends_without_lingering() {
    for _ in 0..20 {
        let (mut sides, _cables) = sides(2);
        for side in &mut sides {
            while side.endpoint.send(side.peer, frame(side.sent)).is_ok() {
                side.sent += 1;
            }
        }
        let (done, ended) = std::sync::mpsc::channel();
        for mut side in sides {
            let done = done.clone();
            thread::spawn(move || {
                side.endpoint.close(Nanos::from_secs(3_600));
                let _ = done.send((side.sent, side.endpoint.stats()));
            });
        }
        let [one, other] = [(); 2].map(|()| ended.recv_timeout(WATCHDOG).expect("both ends close"));
        assert_eq!((one.1.frames_lost, other.1.frames_lost), (0, 0));
        assert_eq!((one.1.frames_received, other.1.frames_received), (other.0, one.0));
    }
}

#[test]
fn nodes_with_different_numbers_of_rails_refuse_each_other_with_the_reason() {
    for (called, caller, reason) in
        [(2, 3, Refusal::WrongRails), (1, 2, Refusal::WrongVersion(1)), (2, 1, Refusal::WrongVersion(2))]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let expected = expects(BU);
        let mut readout = endpoint(RU, called, Some(listener), expected);
        let peer = PeerAddress { node: RU, addresses: vec![address], initiate: true };
        let mut builder = endpoint(BU, caller, None, peer);
        let start = Instant::now();
        let reason_given = loop {
            readout.wait(Nanos::from_millis(1));
            while readout.poll().is_some() {}
            if let Some(Event::Refused { reason, .. }) = std::iter::from_fn(|| builder.poll()).last() {
                break reason;
            }
            assert!(start.elapsed() < WATCHDOG);
        };
        assert_eq!(reason_given, reason, "{called} and {caller}");
    }
}

#[test]
fn rails_need_a_sensible_number_and_blocks() {
    let expected = || PeerAddress { node: BU, addresses: Vec::new(), initiate: false };
    let with = |settings| {
        let (run, session) = (RunNumber(3), SessionId(9));
        let listener = Some(TcpListener::bind("127.0.0.1:0").unwrap());
        let peers = vec![expected()];
        TcpEndpoint::new(TcpOptions { node: RU, run, session, listener, peers, settings }).map(drop)
    };
    assert!(matches!(with(settings(0)), Err(TcpError::BadSetting { name: "rails", .. })));
    assert!(matches!(with(settings(65)), Err(TcpError::BadSetting { name: "rails", .. })));
    let few = TcpSettings { blocks: 5, ..settings(4) };
    assert!(matches!(with(few), Err(TcpError::TooFewBlocks { blocks: 5, connections: 4 })));
}
