//! Connections that lead to themselves: TCP joins a socket with itself when it calls its own port.

use super::super::endpoint::{Stage, TcpEndpoint};
use super::super::link::Called;
use super::super::settings::{PeerAddress, TcpOptions, TcpSettings};
use super::super::socket::leads_to_itself;
use sheaf_transport::{Endpoint, LinkStats};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use socket2::{Domain, SockRef, Socket, Type};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A socket that called the port that it was given itself; `None` and a printed reason where the system does not join the two.
fn joined_with_itself() -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let own = socket.local_addr().unwrap();
    match socket.connect(&own) {
        Ok(()) => Some(socket.into()),
        Err(error) => {
            println!("skipped: a socket cannot call itself here: {error}");
            None
        }
    }
}

#[test]
fn only_a_connection_between_a_port_and_itself_leads_to_itself() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (called, _) = listener.accept().unwrap();
    assert!(!leads_to_itself(&SockRef::from(&caller)) && !leads_to_itself(&SockRef::from(&called)));
    assert!(!leads_to_itself(&SockRef::from(&listener)), "what is not connected leads nowhere");
    if let Some(joined) = joined_with_itself() {
        assert!(leads_to_itself(&SockRef::from(&joined)));
    }
}

/// A node that calls a peer which is not there yet, and has itself at the other end.
#[test]
fn a_call_that_is_joined_with_itself_has_failed_and_nobody_is_greeted() {
    let Some(joined) = joined_with_itself() else { return };
    joined.set_nonblocking(true).unwrap();
    let peer = PeerAddress { node: NodeId::builder(1), addresses: Vec::new(), initiate: false };
    let options = TcpOptions {
        node: NodeId::readout(0),
        run: RunNumber(1),
        session: SessionId(1),
        listener: None,
        peers: vec![peer],
        settings: TcpSettings::default(),
    };
    let mut endpoint = TcpEndpoint::unchecked(options).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let called = Called { peer: 0, rail: 0, epoch: 0 };
    endpoint
        .adopt(mio::net::TcpStream::from_std(joined), None, Stage::Connecting { called, deadline })
        .unwrap();
    while endpoint.stats().connects_failed == 0 {
        assert!(Instant::now() < deadline, "the call neither fails nor succeeds");
        assert!(endpoint.poll().is_none(), "it hears nobody, not even itself");
        endpoint.wait(Nanos::from_millis(1));
    }
    let stats: LinkStats = endpoint.stats();
    assert_eq!((stats.links_refused, stats.bytes_received), (0, 0), "{stats:?}");
    assert!(endpoint.connections.iter().all(Option::is_none), "the port is free again");
}
