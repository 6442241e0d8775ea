//! Links of a run with a key: accepted and refused peers, and the reports.

use crate::certificates::{Authority, LOOPBACK};
use crate::nodes::{BU, RU, eager, event, verdicts};
use bytes::Bytes;
use sheaf_conformance::WATCHDOG;
use sheaf_key::{NONCE_BYTES, PROOF_BYTES, Purpose, RunKey};
use sheaf_tcp::framing::{GreetingBytes, KEYED, MAGIC, VERSION};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal};
use sheaf_wire::{Nanos, RunNumber, SessionId};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

const RUN: RunNumber = RunNumber(5);

fn key(byte: u8) -> RunKey {
    RunKey::new(&[byte; 32])
}

fn settings(rails: usize) -> TcpSettings {
    TcpSettings { rails, ..eager() }
}

fn called(rails: usize, key: Option<RunKey>) -> (TcpEndpoint, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peers = vec![PeerAddress { node: BU, addresses: vec!["127.0.0.1:1".to_owned()], initiate: false }];
    let (session, settings) = (SessionId(1), settings(rails));
    let options = TcpOptions { node: RU, run: RUN, session, listener: Some(listener), peers, settings };
    let mut endpoint = TcpEndpoint::new(options).unwrap();
    key.into_iter().for_each(|key| endpoint.authenticate(key));
    (endpoint, address)
}

fn caller(rails: usize, key: Option<RunKey>, address: SocketAddr) -> TcpEndpoint {
    let peers = vec![PeerAddress { node: RU, addresses: vec![address.to_string()], initiate: true }];
    let (session, settings) = (SessionId(1), settings(rails));
    let options = TcpOptions { node: BU, run: RUN, session, listener: None, peers, settings };
    let mut endpoint = TcpEndpoint::new(options).unwrap();
    key.into_iter().for_each(|key| endpoint.authenticate(key));
    endpoint
}

/// Sends a frame of some size from one to the other.
fn passes(from: &mut TcpEndpoint, to: &mut TcpEndpoint) {
    let frame = Frame::new(Bytes::from_static(b"head"), [Bytes::from(vec![7; 50_000])]);
    from.send(to.node(), frame.clone()).unwrap();
    let start = Instant::now();
    loop {
        from.wait(Nanos::ZERO);
        while from.poll().is_some() {}
        match to.poll() {
            Some(Event::Received { frame: arrived, .. }) => break assert_eq!(arrived, frame),
            Some(Event::PeerDown { .. }) => panic!("the link is lost"),
            _ => assert!(start.elapsed() < WATCHDOG),
        }
    }
}

#[test]
fn nodes_with_one_key_talk_over_one_rail_and_several() {
    for rails in [1, 3] {
        let (mut ru, address) = called(rails, Some(key(1)));
        let mut bu = caller(rails, Some(key(1)), address);
        let up = verdicts(&mut ru, &mut bu);
        assert_eq!(up, (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }));
        passes(&mut ru, &mut bu);
        passes(&mut bu, &mut ru);
        assert_eq!((ru.stats().links_refused, bu.stats().links_refused), (0, 0));
    }
}

/// Verdicts where the keys differ. The caller finds out, and hangs up: to the node that it calls it may as well have ended.
const ANOTHER_KEY: (Event, Event) = (
    Event::Refused { peer: Some(BU), reason: Refusal::NoProof },
    Event::Refused { peer: Some(RU), reason: Refusal::WrongKey },
);

#[test]
fn a_key_is_asked_for_within_tls_too() {
    let authority = Authority::new();
    let meet = |of_caller: RunKey| {
        let (mut ru, address) = called(1, Some(key(1)));
        let mut bu = caller(1, Some(of_caller), address);
        ru.secure(authority.tls("ru", LOOPBACK));
        bu.secure(authority.tls("bu", LOOPBACK));
        verdicts(&mut ru, &mut bu)
    };
    assert_eq!(meet(key(1)), (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }));
    assert_eq!(meet(key(2)), ANOTHER_KEY);
}

#[test]
fn nodes_with_different_keys_or_one_without_get_nothing_and_are_told() {
    for rails in [1, 3] {
        let (mut ru, address) = called(rails, Some(key(1)));
        let mut bu = caller(rails, Some(key(2)), address);
        assert_eq!(verdicts(&mut ru, &mut bu), ANOTHER_KEY);
        assert!(ru.stats().links_unproven > 0 && bu.stats().links_unproven > 0);
        for (of_called, of_caller) in [(Some(key(1)), None), (None, Some(key(1)))] {
            let (mut ru, address) = called(rails, of_called);
            let mut bu = caller(rails, of_caller, address);
            let (at_called, at_caller) = verdicts(&mut ru, &mut bu);
            let reason = Refusal::KeyOnOneSide;
            assert_eq!(at_called, Event::Refused { peer: None, reason });
            assert_eq!(at_caller, Event::Refused { peer: Some(RU), reason });
            assert_eq!((ru.stats().links_up, bu.stats().links_up), (0, 0));
        }
    }
}

/// Composes a caller's greeting and nonce.
fn call(session: u64, nonce: u8) -> Vec<u8> {
    let greeting = GreetingBytes {
        magic: MAGIC,
        version: (VERSION | KEYED).into(),
        refusal: 0.into(),
        node: BU.to_code().into(),
        run: RUN.0.into(),
        max_frame_bytes: 65_536.into(),
        session: session.into(),
    };
    [greeting.as_bytes(), &[nonce; NONCE_BYTES]].concat()
}

const ANSWER_BYTES: usize = 32 + NONCE_BYTES + PROOF_BYTES;

/// Sends a call. Returns the connection and the answer.
fn says(endpoint: &mut TcpEndpoint, address: SocketAddr, call: &[u8]) -> (TcpStream, [u8; ANSWER_BYTES]) {
    let mut raw = TcpStream::connect(address).unwrap();
    raw.set_nodelay(true).unwrap();
    raw.write_all(call).unwrap();
    raw.set_nonblocking(true).unwrap();
    let (mut answer, mut arrived, start) = ([0; ANSWER_BYTES], 0, Instant::now());
    while arrived < ANSWER_BYTES {
        assert_eq!(endpoint.poll(), None, "nothing comes of a greeting alone");
        endpoint.wait(Nanos::from_millis(1));
        arrived += raw.read(&mut answer[arrived..]).unwrap_or(0);
        assert!(start.elapsed() < WATCHDOG);
    }
    raw.set_nonblocking(false).unwrap();
    (raw, answer)
}

/// Returns the proof of a caller that has the key.
fn proof(call: &[u8], answer: &[u8; ANSWER_BYTES]) -> [u8; PROOF_BYTES] {
    key(1).prove(Purpose::TcpCaller, &[call, &answer[..ANSWER_BYTES - PROOF_BYTES]])
}

fn refused(reason: Refusal) -> Event {
    Event::Refused { peer: Some(BU), reason }
}

#[test]
fn what_was_recorded_or_is_sent_back_proves_nothing() {
    let (mut ru, address) = called(1, Some(key(1)));
    // A correct caller, whose messages are all recorded.
    let good = call(1, 3);
    let (mut raw, answer) = says(&mut ru, address, &good);
    let recorded = proof(&good, &answer);
    raw.write_all(&recorded).unwrap();
    assert_eq!(event(&mut ru), Event::PeerUp { peer: BU });
    drop(raw);
    assert_eq!(event(&mut ru), Event::PeerDown { peer: BU, reason: DownReason::Lost });
    // Replayed byte for byte.
    let (mut raw, _) = says(&mut ru, address, &good);
    raw.write_all(&recorded).unwrap();
    assert_eq!(event(&mut ru), refused(Refusal::WrongKey));
    let mut answer = Vec::new();
    raw.read_to_end(&mut answer).unwrap();
    let answer = GreetingBytes::read_from_bytes(&answer).expect("a greeting, then the end");
    assert_eq!(answer.refusal.get(), 12);
    // The endpoint's own proof, reflected.
    let (mut raw, answer) = says(&mut ru, address, &good);
    raw.write_all(&answer[ANSWER_BYTES - PROOF_BYTES..]).unwrap();
    assert_eq!(event(&mut ru), refused(Refusal::WrongKey));
    // A proof for another session than that of the greeting.
    let (mut raw, answer) = says(&mut ru, address, &call(2, 3));
    raw.write_all(&proof(&call(3, 3), &answer)).unwrap();
    assert_eq!(event(&mut ru), refused(Refusal::WrongKey));
    // Hanging up.
    let (raw, _) = says(&mut ru, address, &good);
    drop(raw);
    assert_eq!(event(&mut ru), refused(Refusal::NoProof));
    assert_eq!((ru.stats().links_up, ru.stats().links_unproven), (1, 4));
}

#[test]
fn a_greeting_without_a_proof_leaves_the_node_its_link_and_its_session() {
    let (mut ru, address) = called(1, Some(key(1)));
    let (stranger, _) = says(&mut ru, address, &call(900, 3));
    drop(stranger);
    assert_eq!(event(&mut ru), refused(Refusal::NoProof));
    let mut bu = caller(1, Some(key(1)), address);
    let up = verdicts(&mut ru, &mut bu);
    assert_eq!(
        up,
        (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }),
        "no session was kept of the stranger"
    );
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(&call(901, 3)).unwrap();
    assert_eq!(event(&mut ru), refused(Refusal::InUse));
    passes(&mut bu, &mut ru);
    assert_eq!((bu.stats().links_down, ru.stats().links_in_use), (0, 1));
}

#[test]
fn a_caller_that_never_proves_itself_is_cut_after_the_greeting_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peers = vec![PeerAddress { node: BU, addresses: Vec::new(), initiate: false }];
    let settings = TcpSettings { greeting_timeout: Nanos::from_millis(50), ..settings(1) };
    let session = SessionId(1);
    let options = TcpOptions { node: RU, run: RUN, session, listener: Some(listener), peers, settings };
    let mut ru = TcpEndpoint::new(options).unwrap();
    ru.authenticate(key(1));
    let mut silent = TcpStream::connect(address).unwrap();
    silent.write_all(&call(1, 3)).unwrap();
    assert_eq!(event(&mut ru), refused(Refusal::WrongKey));
}

#[test]
fn a_proof_and_frames_may_come_byte_by_byte() {
    let (mut ru, address) = called(1, Some(key(1)));
    let words = call(1, 3);
    let (mut raw, answer) = says(&mut ru, address, &words);
    let frame = [&4_u32.to_le_bytes()[..], &0_u32.to_le_bytes(), b"head"].concat();
    let mut events = Vec::new();
    for byte in [&proof(&words, &answer)[..], &frame].concat() {
        raw.write_all(&[byte]).unwrap();
        events.extend(std::iter::from_fn(|| ru.poll()));
    }
    while events.len() < 2 {
        events.push(event(&mut ru));
    }
    let frame = Frame::new(Bytes::from_static(b"head"), []);
    assert_eq!(events, [Event::PeerUp { peer: BU }, Event::Received { from: BU, frame }]);
}
