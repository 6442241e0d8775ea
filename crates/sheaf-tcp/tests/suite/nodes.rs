//! A readout unit and a builder unit for tests of single links.

use sheaf_conformance::WATCHDOG;
use sheaf_tcp::framing::{GreetingBytes, MAGIC, VERSION};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpSettings};
use sheaf_transport::{Endpoint, Event};
use sheaf_wire::{Nanos, NodeId, RunNumber};
use std::time::{Duration, Instant};

pub(crate) const RU: NodeId = NodeId::readout(0);
/// Time limit that even a slow machine does not reach.
pub(crate) const MINUTES: Nanos = Nanos::from_secs(300);
pub(crate) const BU: NodeId = NodeId::builder(0);

/// Settings with attempts in quick succession. A slow machine is given minutes for a greeting.
pub(crate) fn eager() -> TcpSettings {
    TcpSettings {
        connect_timeout: MINUTES,
        greeting_timeout: MINUTES,
        retry_min: Nanos::from_millis(1),
        retry_max: Nanos::from_millis(10),
        ..TcpSettings::default()
    }
}

/// Returns a peer that calls.
pub(crate) fn expects(node: NodeId) -> PeerAddress {
    PeerAddress { node, addresses: Vec::new(), initiate: false }
}

/// Returns a peer that is called.
pub(crate) fn calls(node: NodeId, address: impl ToString) -> PeerAddress {
    PeerAddress { node, addresses: vec![address.to_string()], initiate: true }
}

/// Greeting of a node, for raw sockets.
pub(crate) fn greeting_of(node: NodeId, run: RunNumber) -> GreetingBytes {
    GreetingBytes {
        magic: MAGIC,
        version: VERSION.into(),
        refusal: 0.into(),
        node: node.to_code().into(),
        run: run.0.into(),
        max_frame_bytes: 65_536.into(),
        session: 1.into(),
    }
}

/// Drives the endpoint until there is an event, and returns it.
pub(crate) fn event(endpoint: &mut TcpEndpoint) -> Event {
    let start = Instant::now();
    loop {
        if let Some(event) = endpoint.poll() {
            return event;
        }
        assert!(start.elapsed() < WATCHDOG, "nothing happens: {:?}", endpoint.stats());
        endpoint.wait(Nanos::from_millis(10));
    }
}

/// Returns the first event of each of the two: a link, or a refusal.
pub(crate) fn verdicts(one: &mut TcpEndpoint, other: &mut TcpEndpoint) -> (Event, Event) {
    let (mut first, mut second) = (None, None);
    let start = Instant::now();
    loop {
        first = first.or_else(|| one.poll());
        second = second.or_else(|| other.poll());
        one.flush();
        other.flush();
        if let (Some(first), Some(second)) = (&first, &second) {
            return (first.clone(), second.clone());
        }
        assert!(start.elapsed() < WATCHDOG, "only {first:?} and {second:?}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
