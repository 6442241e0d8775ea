//! Guests join a host over TCP and leave it; other callers are refused or cut.

use crate::certificates::{Authority, LOOPBACK, Terms};
use crate::nodes::MINUTES;
use bytes::Bytes;
use sheaf_conformance::WATCHDOG;
use sheaf_key::RunKey;
use sheaf_tcp::framing::{GreetingBytes, MAGIC, VERSION};
use sheaf_tcp::{
    GuestError, GuestId, GuestOptions, HostEvent, HostOptions, PeerAddress, TcpEndpoint, TcpGuest, TcpHost,
    TcpOptions, TcpSettings, Tls,
};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal, SendError, TlsProblem};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

fn settings() -> TcpSettings {
    TcpSettings {
        max_frame_bytes: ByteCount::kib(64),
        queue_bytes: ByteCount::kib(256),
        block_bytes: ByteCount::kib(16),
        blocks: 8,
        connect_timeout: MINUTES,
        greeting_timeout: MINUTES,
        ..TcpSettings::default()
    }
}

/// Settings for tests with a silent peer.
fn impatient() -> TcpSettings {
    TcpSettings { greeting_timeout: Nanos::from_millis(500), ..settings() }
}

fn host(host: &str, max_guests: u16, tls: Option<Tls>) -> (TcpHost, String) {
    host_with(host, max_guests, tls, None, settings())
}

fn host_with(
    host: &str,
    max_guests: u16,
    tls: Option<Tls>,
    key: Option<RunKey>,
    settings: TcpSettings,
) -> (TcpHost, String) {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (node, run, session) = (NodeId::builder(3), RunNumber(7), SessionId(1));
    let options = HostOptions {
        node,
        run,
        session,
        listener,
        max_guests,
        settings,
        tls,
        names: vec!["processor".to_owned()],
        key,
    };
    (TcpHost::new(options).unwrap(), address)
}

fn options(tls: Option<Tls>) -> GuestOptions {
    GuestOptions { session: SessionId(9), settings: settings(), tls, key: None }
}

/// Runs `guest` on a separate thread while the host returns every frame that it gets; returns the other events of the
/// host.
fn beside<T: Send + 'static>(
    host: &mut TcpHost,
    guest: impl FnOnce() -> T + Send + 'static,
) -> (T, VecDeque<HostEvent>) {
    let over = Arc::new(AtomicBool::new(false));
    let (its_over, waker) = (over.clone(), host.waker());
    let thread: JoinHandle<T> = std::thread::spawn(move || {
        let result = guest();
        its_over.store(true, Ordering::Release);
        waker.wake();
        result
    });
    let (mut seen, start) = (VecDeque::new(), Instant::now());
    loop {
        let is_over = over.load(Ordering::Acquire);
        while let Some(event) = host.poll() {
            match event {
                HostEvent::Received { guest, frame } => host.send(guest, frame).unwrap(),
                event => seen.push_back(event),
            }
        }
        if is_over || thread.is_finished() {
            return (thread.join().unwrap(), seen);
        }
        assert!(start.elapsed() < WATCHDOG, "{seen:?}");
        host.wait(Nanos::from_millis(10));
    }
}

/// Returns the next event of a host.
fn next(host: &mut TcpHost) -> HostEvent {
    let start = Instant::now();
    loop {
        if let Some(event) = host.poll() {
            return event;
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens");
        host.wait(Nanos::from_millis(10));
    }
}

fn echo(guest: &mut TcpGuest, frame: Frame) -> Frame {
    guest.send(frame).unwrap();
    let start = Instant::now();
    loop {
        guest.flush();
        if let Some(frame) = guest.take() {
            return frame;
        }
        assert!(guest.ended().is_none() && start.elapsed() < WATCHDOG, "{:?}", guest.ended());
        guest.wait(Nanos::from_millis(10));
    }
}

fn refused(result: Result<TcpGuest, GuestError>) -> Refusal {
    match result {
        Err(GuestError::Refused { reason, .. }) => reason,
        other => panic!("{other:?} is no refusal"),
    }
}

/// Over both address families: a frame with a head and pieces is returned whole.
#[test]
fn guests_join_talk_and_leave_and_their_numbers_are_not_used_again() {
    for loopback in ["127.0.0.1", "::1"] {
        let (mut host, address) = host(loopback, 2, None);
        let mut before: Option<GuestId> = None;
        for _ in 0..3 {
            let address = address.clone();
            let (_, seen) = beside(&mut host, move || {
                let mut guest = TcpGuest::meet(&address, options(None)).unwrap();
                let pieces = [Bytes::from(vec![1; 5000]), Bytes::from(vec![2; 20_000])];
                let frame = echo(&mut guest, Frame::new(Bytes::from_static(b"head"), pieces));
                assert_eq!((&frame.head[..], frame.payload_bytes()), (&b"head"[..], 25_000));
                assert!(frame.payload.iter().flatten().copied().eq([1; 5000].into_iter().chain([2; 20_000])));
                guest.close(Nanos::from_secs(5));
            });
            let mut seen = seen.into_iter();
            let Some(HostEvent::Entered { guest, address: Some(_) }) = seen.next() else {
                panic!("somebody enters first")
            };
            assert_ne!(before, Some(guest));
            let left = seen.next().unwrap_or_else(|| next(&mut host));
            assert!(
                matches!(left, HostEvent::Left { guest: who, reason: DownReason::Closed } if who == guest)
            );
            let gone = host.send(guest, Frame::default());
            assert!(matches!(gone, Err(SendError::UnknownPeer(_))), "nothing reaches who has left");
            before = Some(guest);
        }
    }
}

#[test]
fn a_guest_for_whom_there_is_no_room_is_told_so_and_one_that_is_dismissed_makes_room() {
    let (mut host, address) = host("127.0.0.1", 1, None);
    let again = address.clone();
    let (first, mut seen) = beside(&mut host, move || TcpGuest::meet(&address, options(None)).unwrap());
    let Some(HostEvent::Entered { guest, .. }) = seen.pop_front() else { panic!("it entered") };
    let address = again.clone();
    let (second, seen) = beside(&mut host, move || TcpGuest::meet(&address, options(None)));
    assert_eq!(refused(second), Refusal::NoRoom);
    assert!(matches!(seen.front(), Some(HostEvent::Refused(Refusal::NoRoom))), "{seen:?}");
    host.dismiss(guest);
    assert!(matches!(next(&mut host), HostEvent::Left { guest: who, .. } if who == guest));
    let (third, mut seen) = beside(&mut host, move || TcpGuest::meet(&again, options(None)).unwrap());
    assert!(matches!(seen.pop_front(), Some(HostEvent::Entered { guest: who, .. }) if who != guest));
    drop(third);
    assert!(
        matches!(next(&mut host), HostEvent::Left { reason: DownReason::Lost, .. }),
        "it said no goodbye"
    );
    let mut first = first;
    let start = Instant::now();
    while first.ended().is_none() {
        assert_eq!(first.take(), None);
        first.wait(Nanos::from_millis(10));
        assert!(start.elapsed() < WATCHDOG, "the first learns that it was dismissed");
    }
}

#[test]
fn the_end_of_the_host_is_an_end_in_good_order_for_its_guests() {
    let (mut host, address) = host("127.0.0.1", 1, None);
    let (mut guest, mut seen) = beside(&mut host, move || TcpGuest::meet(&address, options(None)).unwrap());
    let Some(HostEvent::Entered { guest: id, .. }) = seen.pop_front() else { panic!("it entered") };
    host.send(id, Frame::new(Bytes::from_static(b"last"), None)).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut frames, start) = (Vec::new(), Instant::now());
        while guest.ended().is_none() {
            frames.extend(std::iter::from_fn(|| guest.take()));
            assert!(start.elapsed() < WATCHDOG);
            guest.wait(Nanos::from_millis(10));
        }
        (frames, guest.ended())
    });
    host.close(Nanos::from_secs(10));
    let (frames, ended) = reader.join().unwrap();
    assert_eq!(frames, [Frame::new(Bytes::from_static(b"last"), None)]);
    assert_eq!(ended, Some(DownReason::Closed));
}

/// Calls with a raw socket and sends `bytes`. Returns the host's refusal and its answer.
fn says(bytes: &[u8]) -> (Refusal, Vec<u8>) {
    let (mut host, address) = host_with("127.0.0.1", 1, None, None, impatient());
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(bytes).unwrap();
    let HostEvent::Refused(reason) = next(&mut host) else { panic!("it is refused") };
    drop(host);
    let mut answer = Vec::new();
    // Reset if some of the bytes sent were not read.
    let _ = stranger.read_to_end(&mut answer);
    (reason, answer)
}

fn greeting(version: u16, node: u32) -> GreetingBytes {
    GreetingBytes {
        magic: MAGIC,
        version: version.into(),
        refusal: 0.into(),
        node: node.into(),
        run: 0.into(),
        max_frame_bytes: 65_536.into(),
        session: 1.into(),
    }
}

#[test]
fn strangers_nodes_and_other_versions_are_refused_and_half_open_connections_are_cut() {
    assert_eq!(says(b"GET / HTTP/1.1\r\n\r\n"), (Refusal::WrongMagic, Vec::new()));
    assert_eq!(says(&MAGIC), (Refusal::NoGreeting, Vec::new()), "it says nothing more");
    let node = NodeId::readout(1).to_code();
    let code = |answer: Vec<u8>| GreetingBytes::read_from_bytes(&answer).unwrap().refusal.get();
    let (reason, answer) = says(greeting(VERSION, node).as_bytes());
    assert_eq!((reason, code(answer)), (Refusal::UnknownNode(node), 3));
    let (reason, answer) = says(greeting(9, 0).as_bytes());
    assert_eq!((reason, code(answer)), (Refusal::WrongVersion(9), 1));
    let (reason, answer) = says(GreetingBytes { session: 0.into(), ..greeting(VERSION, 0) }.as_bytes());
    assert_eq!((reason, code(answer)), (Refusal::Malformed, 6));
}

#[test]
fn a_guest_at_a_wrong_address_is_told_what_is_there() {
    let meet = |address: &str| TcpGuest::meet(address, options(None)).map(|_| ()).unwrap_err();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert!(meet(&free).to_string().starts_with(&format!("cannot connect to {free}")));
    assert!(matches!(meet("127.0.0.1"), GuestError::NoSuchHost { .. }));
    // The listener of a node that waits for another node.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let peers = vec![PeerAddress { node: NodeId::builder(0), addresses: Vec::new(), initiate: false }];
    let (node, run, session) = (NodeId::readout(0), RunNumber(7), SessionId(1));
    let listener = Some(listener);
    let of_node = TcpOptions { node, run, session, listener, peers, settings: settings() };
    let mut endpoint = TcpEndpoint::new(of_node).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let its_stop = stop.clone();
    let node = std::thread::spawn(move || {
        let mut refused = None;
        while !its_stop.load(Ordering::Relaxed) {
            if let Some(Event::Refused { reason, .. }) = endpoint.poll() {
                refused = Some(reason);
            }
            endpoint.wait(Nanos::from_millis(1));
        }
        refused
    });
    let said = meet(&address).to_string();
    assert_eq!(
        said,
        format!("{address} is the port of a run's nodes, not one for programs that join; use another port")
    );
    stop.store(true, Ordering::Relaxed);
    assert_eq!(node.join().unwrap(), Some(Refusal::WrongRun(RunNumber(0))));
    // A listener that never answers.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = TcpGuest::meet(
        &mute.local_addr().unwrap().to_string(),
        GuestOptions { settings: impatient(), ..options(None) },
    );
    assert_eq!(refused(error), Refusal::NoGreeting);
}

#[test]
fn with_certificates_guests_prove_to_be_of_the_system() {
    let (authority, other) = (Authority::new(), Authority::new());
    let of_guest = Terms { hosts: &["processor"], ..LOOPBACK };
    let tls = |authority: &Authority| Some(authority.tls("any", of_guest));
    let (mut host, address) = host("127.0.0.1", 4, Some(authority.tls("host", LOOPBACK)));
    let mut meet = |tls: Option<Tls>| {
        let address = address.clone();
        let talk = move || {
            let mut guest = TcpGuest::meet(&address, options(tls))?;
            let frame = Frame::new(Bytes::from_static(b"x"), [Bytes::from(vec![3; 40_000])]);
            assert_eq!(echo(&mut guest, frame.clone()), frame);
            Ok(guest)
        };
        beside(&mut host, talk).0
    };
    assert!(meet(tls(&authority)).is_ok());
    assert_eq!(refused(meet(tls(&other))), Refusal::Tls(TlsProblem::UnknownAuthority));
    assert_eq!(refused(meet(None)), Refusal::Tls(TlsProblem::OnlyPeerHas));
    // A node's certificate, even that of the host itself, is not valid for a guest.
    let of_node = Some(authority.tls("node", LOOPBACK));
    assert_eq!(refused(meet(of_node)), Refusal::Tls(TlsProblem::WrongNode));
}

#[test]
fn a_guest_without_the_key_of_the_run_is_not_let_in() {
    let (mut host, address) = host_with("127.0.0.1", 4, None, Some(RunKey::new(&[1; 32])), settings());
    let mut meet = |key: Option<[u8; 32]>| {
        let address = address.clone();
        let key = key.map(|secret| RunKey::new(&secret));
        let talk = move || {
            let mut guest = TcpGuest::meet(&address, GuestOptions { key, ..options(None) })?;
            let frame = Frame::new(Bytes::from_static(b"x"), [Bytes::from(vec![3; 40_000])]);
            assert_eq!(echo(&mut guest, frame.clone()), frame);
            Ok(guest)
        };
        beside(&mut host, talk)
    };
    let (of_stranger, seen) = meet(Some([2; 32]));
    assert_eq!(refused(of_stranger), Refusal::WrongKey);
    assert!(!seen.iter().any(|event| matches!(event, HostEvent::Entered { .. })), "{seen:?}");
    let (of_stranger, seen) = meet(None);
    assert_eq!(refused(of_stranger), Refusal::KeyOnOneSide);
    assert!(!seen.iter().any(|event| matches!(event, HostEvent::Entered { .. })), "{seen:?}");
    // Guests may have any session, and several may authenticate one after the other.
    let (first, _) = meet(Some([1; 32]));
    let (second, seen) = meet(Some([1; 32]));
    assert!(first.is_ok() && second.is_ok(), "{seen:?}");
}
