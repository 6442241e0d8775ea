//! TCP endpoints with misbehaving peers: raw sockets that send invalid data.

use crate::nodes::{BU, RU, calls, eager, event, expects, greeting_of};
use bytes::Bytes;
use sheaf_conformance::WATCHDOG;
use sheaf_tcp::framing::{GOODBYE, GreetingBytes};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpError, TcpOptions, TcpSettings};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

const RUN: RunNumber = RunNumber(5);

fn settings() -> TcpSettings {
    TcpSettings {
        max_frame_bytes: ByteCount::kib(64),
        queue_bytes: ByteCount::kib(256),
        block_bytes: ByteCount::kib(16),
        blocks: 8,
        ..eager()
    }
}

fn options(node: NodeId, listener: Option<TcpListener>, peers: Vec<PeerAddress>) -> TcpOptions {
    TcpOptions { node, run: RUN, session: SessionId(10), listener, peers, settings: settings() }
}

/// Returns a builder unit that expects a readout unit to call, and its address.
fn builder() -> (TcpEndpoint, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (TcpEndpoint::new(options(BU, Some(listener), vec![expects(RU)])).unwrap(), address)
}

fn wire(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let lengths = [(head.len() as u32).to_le_bytes(), (payload.len() as u32).to_le_bytes()].concat();
    [&lengths, head, payload].concat()
}

fn drive_until(
    endpoint: &mut TcpEndpoint,
    what: &str,
    mut holds: impl FnMut(&TcpEndpoint) -> bool,
) -> Vec<Event> {
    let start = Instant::now();
    let mut events = Vec::new();
    while !holds(endpoint) {
        assert!(start.elapsed() < WATCHDOG, "still waiting for {what}: {:?}", endpoint.stats());
        endpoint.wait(Nanos::from_millis(1));
        events.extend(std::iter::from_fn(|| endpoint.poll()));
    }
    events
}

/// Returns a raw peer whose link is up.
fn raw_link() -> (TcpEndpoint, TcpStream) {
    let (mut endpoint, address) = builder();
    let mut raw = TcpStream::connect(address).unwrap();
    raw.set_read_timeout(Some(WATCHDOG)).unwrap();
    raw.set_nodelay(true).unwrap();
    raw.write_all(greeting_of(RU, RUN).as_bytes()).unwrap();
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    let mut answer = [0; 32];
    raw.read_exact(&mut answer).unwrap();
    let answer = GreetingBytes::read_from_bytes(&answer).unwrap();
    assert_eq!((answer.node.get(), answer.refusal.get()), (BU.to_code(), 0));
    (endpoint, raw)
}

fn down(reason: DownReason) -> Event {
    Event::PeerDown { peer: RU, reason }
}

fn received(head: &[u8], payload: &[u8]) -> Event {
    let payload = (!payload.is_empty()).then(|| Bytes::copy_from_slice(payload));
    Event::Received { from: RU, frame: Frame::new(Bytes::copy_from_slice(head), payload) }
}

#[test]
fn frames_that_trickle_in_byte_by_byte_are_whole() {
    let (mut endpoint, address) = builder();
    let mut raw = TcpStream::connect(address).unwrap();
    raw.set_nodelay(true).unwrap();
    let frames = [wire(b"head", b"payload"), wire(b"", b""), wire(b"h", &[7; 300])].concat();
    let mut events = Vec::new();
    for byte in [greeting_of(RU, RUN).as_bytes(), &frames].concat() {
        raw.write_all(&[byte]).unwrap();
        events.extend(std::iter::from_fn(|| endpoint.poll()));
    }
    while events.len() < 4 {
        events.push(event(&mut endpoint));
    }
    let expected = [
        Event::PeerUp { peer: RU },
        received(b"head", b"payload"),
        received(b"", b""),
        received(b"h", &[7; 300]),
    ];
    assert_eq!(events, expected);
}

#[test]
fn callers_that_greet_wrongly_are_refused_with_the_reason() {
    let good = greeting_of(RU, RUN);
    let stranger = NodeId::readout(9);
    let cases = [
        (GreetingBytes { version: 9.into(), ..good }, 1, None, Refusal::WrongVersion(9)),
        (GreetingBytes { run: 6.into(), ..good }, 2, None, Refusal::WrongRun(RunNumber(6))),
        (
            GreetingBytes { node: stranger.to_code().into(), ..good },
            3,
            Some(stranger),
            Refusal::UnknownNode(stranger.to_code()),
        ),
        (GreetingBytes { session: 0.into(), ..good }, 6, None, Refusal::Malformed),
    ];
    for (bytes, code, peer, reason) in cases {
        let (mut endpoint, address) = builder();
        let mut raw = TcpStream::connect(address).unwrap();
        raw.write_all(bytes.as_bytes()).unwrap();
        assert_eq!(event(&mut endpoint), Event::Refused { peer, reason });
        assert_eq!(endpoint.stats().links_refused, 1);
        let mut answer = Vec::new();
        raw.set_read_timeout(Some(WATCHDOG)).unwrap();
        raw.read_to_end(&mut answer).unwrap();
        let answer = GreetingBytes::read_from_bytes(&answer).expect("a greeting, then the end");
        assert_eq!(answer.refusal.get(), code, "{reason}");
    }
}

#[test]
fn rubbish_instead_of_a_greeting_is_cut_and_good_callers_still_come_through() {
    let (mut endpoint, address) = builder();
    let mut raw = TcpStream::connect(address).unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let refused = Event::Refused { peer: None, reason: Refusal::WrongMagic };
    assert_eq!(event(&mut endpoint), refused);
    let mut good = TcpStream::connect(address).unwrap();
    good.write_all(greeting_of(RU, RUN).as_bytes()).unwrap();
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
}

#[test]
fn a_caller_that_says_nothing_is_cut_after_the_greeting_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = options(BU, Some(listener), vec![expects(RU)]);
    options.settings.greeting_timeout = Nanos::from_millis(5);
    let mut endpoint = TcpEndpoint::new(options).unwrap();
    let _silent = TcpStream::connect(address).unwrap();
    let refused = Event::Refused { peer: None, reason: Refusal::NoGreeting };
    assert_eq!(event(&mut endpoint), refused);
}

#[test]
fn a_length_beyond_the_limit_cuts_the_connection() {
    let (mut endpoint, mut raw) = raw_link();
    raw.write_all(&wire(b"good", b"frame")).unwrap();
    raw.write_all(&[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]).unwrap();
    assert_eq!(event(&mut endpoint), received(b"good", b"frame"));
    assert_eq!(event(&mut endpoint), down(DownReason::Violated));
    assert_eq!(endpoint.stats().links_violated, 1);
    assert!(endpoint.receive_memory() <= ByteCount::kib(16));
}

#[test]
fn a_stream_that_ends_inside_a_frame_is_lost() {
    let (mut endpoint, mut raw) = raw_link();
    raw.write_all(&wire(b"whole", b"")).unwrap();
    raw.write_all(&wire(b"not", b"whole")[..13]).unwrap();
    raw.shutdown(Shutdown::Write).unwrap();
    assert_eq!(event(&mut endpoint), received(b"whole", b""));
    assert_eq!(event(&mut endpoint), down(DownReason::Lost));
    let mut rest = Vec::new();
    raw.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "the endpoint closes its side, too");
}

#[test]
fn a_stream_that_ends_without_goodbye_is_lost_and_with_it_closed() {
    for (farewell, reason) in [(&[][..], DownReason::Lost), (GOODBYE.as_bytes(), DownReason::Closed)] {
        let (mut endpoint, mut raw) = raw_link();
        raw.write_all(&[&wire(b"last", b"words"), farewell].concat()).unwrap();
        drop(raw);
        assert_eq!(event(&mut endpoint), received(b"last", b"words"));
        assert_eq!(event(&mut endpoint), down(reason));
    }
}

/// Returns a caller of a session that has sent its greeting.
fn call(address: SocketAddr, session: u64) -> TcpStream {
    let mut raw = TcpStream::connect(address).unwrap();
    raw.write_all(GreetingBytes { session: session.into(), ..greeting_of(RU, RUN) }.as_bytes()).unwrap();
    raw
}

fn refused(reason: Refusal) -> Event {
    Event::Refused { peer: Some(RU), reason }
}

#[test]
fn a_newer_session_takes_the_place_of_a_link_that_has_ended_and_an_older_one_is_refused() {
    let (mut endpoint, address) = builder();
    let first = call(address, 5);
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    let _old = call(address, 4);
    assert_eq!(event(&mut endpoint), refused(Refusal::StaleSession(SessionId(4))));
    drop(first);
    let mut second = call(address, 6);
    assert_eq!(event(&mut endpoint), down(DownReason::Lost));
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    second.write_all(&wire(b"from the", b"new life")).unwrap();
    assert_eq!(event(&mut endpoint), received(b"from the", b"new life"));
}

#[test]
fn a_greeting_does_not_take_the_place_of_a_link_that_is_alive() {
    let (mut endpoint, address) = builder();
    let mut first = call(address, 5);
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    // The same session, and a later one.
    for session in [5, 6] {
        let mut rival = call(address, session);
        assert_eq!(event(&mut endpoint), refused(Refusal::InUse));
        rival.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut answer = Vec::new();
        rival.read_to_end(&mut answer).unwrap();
        let answer = GreetingBytes::read_from_bytes(&answer).expect("a greeting, then the end");
        assert_eq!(answer.refusal.get(), 9);
    }
    first.write_all(&wire(b"still", b"here")).unwrap();
    assert_eq!(event(&mut endpoint), received(b"still", b"here"));
    // Refused calls have left no trace: the node can return with its own session.
    drop(first);
    assert_eq!(event(&mut endpoint), down(DownReason::Lost));
    let _again = call(address, 5);
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
}

#[test]
fn a_link_over_which_nothing_comes_gives_way_to_a_rival_that_keeps_calling() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = options(BU, Some(listener), vec![expects(RU)]);
    options.settings.dead_peer = Nanos::from_secs(1);
    let mut endpoint = TcpEndpoint::new(options).unwrap();
    let _hung = call(address, 5);
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    let start = Instant::now();
    loop {
        let _rival = call(address, 6);
        match event(&mut endpoint) {
            said if said == refused(Refusal::InUse) => std::thread::sleep(Duration::from_millis(20)),
            said => break assert_eq!(said, down(DownReason::Replaced)),
        }
        assert!(start.elapsed() < WATCHDOG);
    }
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
}

#[test]
fn a_session_of_the_far_future_is_refused_and_the_node_itself_still_comes_through() {
    let (mut endpoint, address) = builder();
    let _far = call(address, u64::MAX);
    assert_eq!(event(&mut endpoint), refused(Refusal::FutureSession(SessionId(u64::MAX))));
    let _node = call(address, 5);
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
}

#[test]
fn a_link_takes_what_both_ends_take() {
    let (mut endpoint, address) = builder();
    let mut raw = TcpStream::connect(address).unwrap();
    raw.write_all(GreetingBytes { max_frame_bytes: 100.into(), ..greeting_of(RU, RUN) }.as_bytes()).unwrap();
    assert_eq!(event(&mut endpoint), Event::PeerUp { peer: RU });
    let frame = |bytes| Frame::new(Bytes::from(vec![1; bytes]), []);
    endpoint.send(RU, frame(100)).unwrap();
    let limit = ByteCount(100);
    assert_eq!(endpoint.send(RU, frame(101)), Err(SendError::TooLarge { frame: frame(101), limit }));
}

#[test]
fn two_nodes_that_would_both_call_are_told_so() {
    let (mut endpoint, address) = builder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let mut other = TcpEndpoint::new(options(RU, Some(listener), vec![calls(BU, address)])).unwrap();
    drop(endpoint);
    let listener = TcpListener::bind(address).unwrap();
    endpoint = TcpEndpoint::new(options(BU, Some(listener), vec![calls(RU, own)])).unwrap();
    let start = Instant::now();
    let mut refused = [false; 2];
    while refused != [true; 2] {
        assert!(start.elapsed() < WATCHDOG);
        for (endpoint, refused) in [&mut endpoint, &mut other].into_iter().zip(&mut refused) {
            endpoint.wait(Nanos::from_millis(1));
            while let Some(event) = endpoint.poll() {
                *refused |= matches!(event, Event::Refused { reason: Refusal::BothInitiate, .. });
                assert!(!matches!(event, Event::PeerUp { .. }));
            }
        }
    }
}

#[test]
fn a_node_at_the_wrong_address_is_refused_by_the_caller() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let meant = NodeId::builder(4);
    let mut caller = TcpEndpoint::new(options(RU, None, vec![calls(meant, address)])).unwrap();
    let answer = std::thread::spawn(move || {
        let (mut raw, _) = listener.accept().unwrap();
        raw.read_exact(&mut [0; 32]).unwrap();
        raw.write_all(GreetingBytes { node: BU.to_code().into(), ..greeting_of(RU, RUN) }.as_bytes())
            .unwrap();
        raw
    });
    let refused = Event::Refused { peer: Some(BU), reason: Refusal::UnknownNode(BU.to_code()) };
    assert_eq!(event(&mut caller), refused);
    drop(answer.join().unwrap());
}

#[test]
fn reading_stops_when_all_blocks_are_held_and_goes_on_when_they_are_not() {
    let (mut endpoint, raw) = raw_link();
    let mut raw = raw;
    let frames = 200_usize;
    let writer = std::thread::spawn(move || {
        let frame = wire(b"held", &[9; 10_000]);
        for _ in 0..frames {
            raw.write_all(&frame).unwrap();
        }
        raw
    });
    let held = drive_until(&mut endpoint, "the blocks to be used up", |it| it.stats().memory_exhausted > 0);
    assert!(held.len() < frames, "eight blocks of 16 KiB do not hold 2 MB");
    assert_eq!(endpoint.receive_memory(), ByteCount::kib(8 * 16));
    let mut arrived = held.len();
    assert!(held.iter().all(|event| *event == received(b"held", &[9; 10_000])));
    drop(held);
    while arrived < frames {
        assert_eq!(event(&mut endpoint), received(b"held", &[9; 10_000]));
        arrived += 1;
    }
    drop(writer.join().unwrap());
    assert_eq!(event(&mut endpoint), down(DownReason::Lost));
}

#[test]
fn a_peer_is_found_by_name_and_by_the_second_address() {
    let (mut answering, address) = builder();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let peer = PeerAddress {
        node: BU,
        addresses: vec![unused.to_string(), format!("localhost:{}", address.port())],
        initiate: true,
    };
    let mut caller = TcpEndpoint::new(options(RU, None, vec![peer])).unwrap();
    drive_until(&mut caller, "the link", |it| {
        answering.poll();
        it.stats().links_up == 1
    });
    assert!(caller.stats().connects_failed >= 1);
}

#[test]
fn a_caller_finds_a_peer_that_moved() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut caller = TcpEndpoint::new(options(RU, None, vec![calls(BU, unused)])).unwrap();
    drive_until(&mut caller, "some failures", |it| it.stats().connects_failed >= 3);
    let (mut answering, address) = builder();
    caller.set_addresses(BU, vec![address.to_string()]);
    drive_until(&mut caller, "the link", |it| {
        answering.poll();
        it.stats().links_up == 1
    });
}

#[test]
fn ipv6_works_where_the_machine_has_it() {
    let listener = match TcpListener::bind("[::1]:0") {
        Ok(listener) => listener,
        Err(error) => return println!("skipped: no IPv6 loopback on this machine: {error}"),
    };
    let address = listener.local_addr().unwrap();
    let mut answering = TcpEndpoint::new(options(BU, Some(listener), vec![expects(RU)])).unwrap();
    let mut caller = TcpEndpoint::new(options(RU, None, vec![calls(BU, address)])).unwrap();
    drive_until(&mut caller, "the link", |it| {
        answering.poll();
        it.stats().links_up == 1
    });
    caller.send(BU, Frame::new(Bytes::from_static(b"six"), [])).unwrap();
    caller.flush();
    loop {
        if let Event::Received { frame, .. } = event(&mut answering) {
            assert_eq!(frame.head, "six");
            break;
        }
    }
}

#[test]
fn closing_gives_up_when_the_peer_does_not_read() {
    let (mut endpoint, raw) = raw_link();
    let frame = Frame::new(Bytes::from(vec![4; 60_000]), []);
    let mut sent = 0;
    while endpoint.send(RU, frame.clone()).is_ok() {
        endpoint.flush();
        sent += 1;
    }
    assert!(sent > 4, "the kernel takes some, the queue the rest");
    endpoint.close(Nanos::from_millis(20));
    assert!(endpoint.stats().frames_lost > 0);
    assert_eq!(event(&mut endpoint), down(DownReason::Lost));
    drop(raw);
}

#[test]
fn options_that_cannot_work_are_refused_with_the_reason() {
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let fails = |options: TcpOptions| TcpEndpoint::new(options).unwrap_err().to_string();
    let text = fails(options(BU, None, vec![expects(RU)]));
    assert_eq!(text, "ru0 is expected to connect to this node, which has no listener");
    let nowhere = PeerAddress { addresses: Vec::new(), ..calls(RU, "") };
    assert_eq!(
        fails(options(BU, None, vec![nowhere])),
        "ru0 is to be connected to and has no address; give at least one as host:port"
    );
    let twice = options(BU, Some(listener()), vec![expects(RU), expects(RU)]);
    assert!(matches!(TcpEndpoint::new(twice).unwrap_err(), TcpError::NamedTwice(RU)));
    let mut few = options(BU, Some(listener()), vec![expects(RU)]);
    few.settings.blocks = 2;
    assert_eq!(fails(few), "2 receive blocks are not enough for 1 connections; at least 3 are needed");
    let mut narrow = options(BU, Some(listener()), vec![expects(RU)]);
    narrow.settings.queue_bytes = ByteCount(1);
    assert_eq!(fails(narrow), "`queue_bytes` is 1; it must be at least `max_frame_bytes`");
}
