//! Links with TLS: accepted and refused peers, and the reports.

use crate::certificates::{Authority, LOOPBACK, Terms};
use crate::nodes::{BU, RU, eager, verdicts};
use sheaf_conformance::WATCHDOG;
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, Tls, TlsError, TlsFiles};
use sheaf_transport::{Endpoint, Event, Frame, Refusal, TlsProblem};
use sheaf_wire::{RunNumber, SessionId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// Creates a readout unit that is called, and a builder unit that calls it by this name.
struct Pair {
    called: TcpEndpoint,
    caller: TcpEndpoint,
}

impl Pair {
    fn new(called: Option<Tls>, caller: Option<Tls>) -> Self {
        Self::by_name("127.0.0.1", called, caller)
    }

    fn by_name(host: &str, called: Option<Tls>, caller: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("{host}:{}", listener.local_addr().unwrap().port());
        let endpoint = |node, listener, peer, tls: Option<Tls>| {
            let settings = eager();
            let (run, session) = (RunNumber(1), SessionId(1));
            let options = TcpOptions { node, run, session, listener, peers: vec![peer], settings };
            let mut endpoint = TcpEndpoint::new(options).unwrap();
            tls.into_iter().for_each(|tls| endpoint.secure(tls));
            endpoint
        };
        // No node calls a builder unit; its address identifies its host.
        let addresses = vec!["127.0.0.1:1".to_owned()];
        let expected = PeerAddress { node: BU, addresses, initiate: false };
        let to_call = PeerAddress { node: RU, addresses: vec![address], initiate: true };
        Self {
            called: endpoint(RU, Some(listener), expected, called),
            caller: endpoint(BU, None, to_call, caller),
        }
    }

    /// Returns the first event of each of the two: a link, or a refusal.
    fn verdicts(&mut self) -> (Event, Event) {
        verdicts(&mut self.called, &mut self.caller)
    }

    /// Returns the problems of both if neither gets a link.
    fn problems(&mut self) -> (TlsProblem, TlsProblem) {
        let problem = |event| match event {
            Event::Refused { reason: Refusal::Tls(problem), .. } => problem,
            other => panic!("{other:?} is no refusal for want of TLS"),
        };
        let (called, caller) = self.verdicts();
        (problem(called), problem(caller))
    }
}

#[test]
fn nodes_with_certificates_of_one_authority_talk() {
    let authority = Authority::new();
    let (called, caller) = (authority.tls("ru", LOOPBACK), authority.tls("bu", LOOPBACK));
    let mut pair = Pair::new(Some(called), Some(caller));
    assert_eq!(pair.verdicts(), (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }));
}

#[test]
fn what_passes_the_wire_is_not_what_was_sent() {
    let authority = Authority::new();
    let mut pair = Pair::new(Some(authority.tls("ru", LOOPBACK)), Some(authority.tls("bu", LOOPBACK)));
    // A proxy between the two records the traffic.
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let tapped = tap.local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = listener.local_addr().unwrap();
    pair.caller.set_addresses(RU, vec![tapped.to_string()]);
    let spy = std::thread::spawn(move || {
        let (mut from, _) = tap.accept().unwrap();
        let mut to = TcpStream::connect(behind).unwrap();
        let (mut back, mut home) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut home));
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 4096]);
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..read]);
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        seen
    });
    pair.called.listen_too(listener).unwrap();
    assert_eq!(pair.verdicts(), (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }));
    let secret = vec![b'x'; 100_000];
    pair.caller.send(RU, Frame::new(secret.clone().into(), None)).unwrap();
    let start = Instant::now();
    let arrived = loop {
        pair.caller.flush();
        if let Some(Event::Received { frame, .. }) = pair.called.poll() {
            break frame;
        }
        assert!(start.elapsed() < WATCHDOG);
    };
    assert_eq!(arrived.head, secret);
    drop(pair);
    let seen = spy.join().unwrap();
    assert!(seen.len() > secret.len(), "all of it passed here: {} bytes", seen.len());
    assert!(!seen.windows(8).any(|window| window == b"xxxxxxxx" || window == b"SHEAFTCP"));
}

#[test]
fn another_authority_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut pair = Pair::new(Some(theirs.tls("ru", LOOPBACK)), Some(ours.tls("bu", LOOPBACK)));
    assert_eq!(pair.problems(), (TlsProblem::UnknownThere, TlsProblem::UnknownAuthority));
}

#[test]
fn who_calls_needs_a_certificate_of_the_authority_too() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    // It trusts the readout unit's authority, but has a certificate of another one.
    let stranger =
        TlsFiles { authority: ours.issue("any", LOOPBACK).authority, ..theirs.issue("bu", LOOPBACK) };
    let mut pair = Pair::new(Some(ours.tls("ru", LOOPBACK)), Some(Tls::load(&stranger).unwrap()));
    assert_eq!(pair.problems(), (TlsProblem::UnknownAuthority, TlsProblem::UnknownThere));
}

#[test]
fn certificates_are_for_their_time() {
    let authority = Authority::new();
    let old = Terms { years: (2000, 2001), ..LOOPBACK };
    let early = Terms { years: (2098, 2099), ..LOOPBACK };
    let good = || Some(authority.tls("good", LOOPBACK));
    let mut pair = Pair::new(Some(authority.tls("old", old)), good());
    assert_eq!(pair.problems(), (TlsProblem::ExpiredThere, TlsProblem::Expired));
    let mut pair = Pair::new(good(), Some(authority.tls("old", old)));
    assert_eq!(pair.problems(), (TlsProblem::Expired, TlsProblem::ExpiredThere));
    let mut pair = Pair::new(Some(authority.tls("early", early)), good());
    assert_eq!(pair.problems().1, TlsProblem::NotValidYet);
}

#[test]
fn a_certificate_is_for_the_host_that_was_called() {
    let authority = Authority::new();
    let other = Terms { hosts: &["daq7.example.org", "10.0.0.7"], ..LOOPBACK };
    let mut pair = Pair::new(Some(authority.tls("ru", other)), Some(authority.tls("bu", LOOPBACK)));
    assert_eq!(pair.problems(), (TlsProblem::RefusedThere, TlsProblem::WrongName));
    // A name is compared with names, an address with addresses.
    let named = Terms { hosts: &["localhost"], ..LOOPBACK };
    let tls = |name, terms| Some(authority.tls(name, terms));
    let mut pair = Pair::by_name("localhost", tls("ru", named), tls("bu", LOOPBACK));
    assert_eq!(pair.verdicts().1, Event::PeerUp { peer: RU });
    let mut pair = Pair::new(tls("ru", named), tls("bu", LOOPBACK));
    assert_eq!(pair.problems().1, TlsProblem::WrongName);
}

#[test]
fn a_certificate_is_for_the_node_that_calls() {
    let authority = Authority::new();
    let meet = |hosts: &[&str]| {
        let caller = authority.tls("caller", Terms { hosts, ..LOOPBACK });
        let mut pair = Pair::new(Some(authority.tls("ru", LOOPBACK)), Some(caller));
        pair.called.also_named(BU, "farm-a");
        let (at_called, at_caller) = pair.verdicts();
        (at_called, at_caller, pair.called.stats().links_unproven)
    };
    // By the host of its address, by the node, and by its name in the configuration.
    for good in ["127.0.0.1", "bu0", "farm-a"] {
        assert_eq!(meet(&[good]), (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }, 0), "{good}");
    }
    // Certificates of the same authority for another host and for another node.
    for bad in ["ru1host", "bu1", "127.0.0.2", "ru0"] {
        let refused = |peer| Event::Refused { peer: Some(peer), reason: Refusal::Tls(TlsProblem::WrongNode) };
        assert_eq!(meet(&[bad]), (refused(BU), refused(RU), 1), "{bad}");
    }
}

#[test]
fn all_nodes_speak_tls_or_none() {
    let authority = Authority::new();
    let tls = || Some(authority.tls("node", LOOPBACK));
    let mut pair = Pair::new(tls(), None);
    assert_eq!(pair.problems(), (TlsProblem::PeerHasNone, TlsProblem::OnlyPeerHas));
    // A node without TLS closes the connection to one with TLS, and only the former knows the reason.
    let mut pair = Pair::new(None, tls());
    let start = Instant::now();
    let said = loop {
        assert_eq!(pair.caller.poll(), None);
        if let Some(event) = pair.called.poll() {
            break event;
        }
        assert!(start.elapsed() < WATCHDOG);
    };
    assert_eq!(said, Event::Refused { peer: None, reason: Refusal::Tls(TlsProblem::OnlyPeerHas) });
}

#[test]
fn garbage_in_the_middle_ends_the_link_and_nothing_else() {
    let authority = Authority::new();
    let mut pair = Pair::new(Some(authority.tls("ru", LOOPBACK)), Some(authority.tls("bu", LOOPBACK)));
    let address = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = address.local_addr().unwrap();
    pair.called.listen_too(address).unwrap();
    assert_eq!(pair.verdicts(), (Event::PeerUp { peer: BU }, Event::PeerUp { peer: RU }));
    let mut stranger = TcpStream::connect(target).unwrap();
    stranger.write_all(&[0x16, 3, 1, 0, 5, 99, 0, 0, 1, 0]).unwrap();
    let start = Instant::now();
    let said = loop {
        if let Some(event) = pair.called.poll() {
            break event;
        }
        assert!(start.elapsed() < WATCHDOG);
    };
    assert!(matches!(said, Event::Refused { peer: None, reason: Refusal::Tls(_) }), "{said:?}");
    pair.caller.send(RU, Frame::new("still here".into(), None)).unwrap();
    let start = Instant::now();
    loop {
        pair.caller.flush();
        if let Some(Event::Received { frame, .. }) = pair.called.poll() {
            assert_eq!(frame.head, "still here");
            break;
        }
        assert!(start.elapsed() < WATCHDOG);
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let (good, other) = (authority.issue("good", LOOPBACK), authority.issue("other", LOOPBACK));
    let text = |files: TlsFiles| Tls::load(&files).unwrap_err().to_string();
    let missing = TlsFiles { key: "/nowhere/key.pem".into(), ..good.clone() };
    assert_eq!(text(missing), "cannot read a private key from /nowhere/key.pem");
    let empty = TlsFiles { authority: good.key.clone(), ..good.clone() };
    assert!(text(empty).contains("has no certificate"));
    let no_key = TlsFiles { key: good.certificate.clone(), ..good.clone() };
    assert!(text(no_key).starts_with("cannot read a private key from"));
    let swapped = TlsFiles { key: other.key, ..good };
    let error = Tls::load(&swapped).unwrap_err();
    assert!(matches!(error, TlsError::Mismatch { .. }), "{error}");
}
