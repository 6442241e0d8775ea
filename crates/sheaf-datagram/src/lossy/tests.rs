//! Start of an endpoint, on a port that records what is sent and delivers what it is given.

use super::*;
use sheaf_shaping::{Policy, ShaperConfig};
use sheaf_wire::machine::Identity;
use sheaf_wire::{ByteRate, RunNumber, SessionId};

const DATAGRAM_BYTES: usize = 9_000;

/// Destinations of datagrams, and their sizes.
struct Noting {
    node: NodeId,
    sent: Vec<(NodeId, usize)>,
    /// A datagram of builder unit 0 that is about to arrive, and one that has.
    arrives: Option<Vec<u8>>,
    arrived: Vec<u8>,
}

impl DatagramPort for Noting {
    fn node(&self) -> NodeId {
        self.node
    }

    fn rails(&self) -> usize {
        1
    }

    fn max_datagram_bytes(&self) -> usize {
        DATAGRAM_BYTES
    }

    fn wire_overhead_bytes(&self) -> usize {
        0
    }

    fn receive_room_bytes(&self) -> usize {
        1 << 20
    }

    fn send(&mut self, to: NodeId, _: usize, head: &[u8], payload: &[&[u8]]) -> Result<(), DatagramRefused> {
        let bytes = datagram_bytes(head, payload);
        self.sent.push((to, bytes));
        Ok(())
    }

    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused> {
        self.send(to, rail, head, &[])
    }

    fn note_aside(&mut self) {}

    fn take_home(&mut self) {}

    fn leave_home(&mut self, _: NodeId) {}

    fn has_own_addresses(&self) -> bool {
        true
    }

    fn flush(&mut self) {}

    fn poll(&mut self) -> Option<crate::Datagram<'_>> {
        self.arrived = self.arrives.take()?;
        Some(crate::Datagram { from: NodeId::builder(0), rail: 0, is_home: true, bytes: &self.arrived })
    }

    fn wait(&mut self, _: Nanos) {}

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn stats(&self) -> LinkStats {
        LinkStats::default()
    }
}

/// Readout unit `index` of a system with 16 builder units, on a line with a given rate.
fn readout(index: u16, line_rate: Option<ByteRate>) -> LossyEndpoint<Noting> {
    let identity = Identity { node: NodeId::readout(index), run: RunNumber(1), session: SessionId(1) };
    let shaper =
        ShaperConfig { line_rate, burst: ByteCount::ZERO, unit: ByteCount::ZERO, policy: Policy::Unshaped };
    let options = LossyOptions {
        shaper,
        place: usize::from(index),
        ..LossyOptions::unshaped(identity, (0..16).map(NodeId::builder).collect(), LossySettings::default())
    };
    let port = Noting { node: identity.node, sent: Vec::new(), arrives: None, arrived: Vec::new() };
    LossyEndpoint::new(port, options).expect("it can work")
}

#[test]
fn nodes_that_begin_together_ask_another_peer_first_each() {
    let firsts = (0..16).map(|index| {
        let mut endpoint = readout(index, None);
        endpoint.flush();
        let asked: Vec<NodeId> = endpoint.port().sent.iter().map(|(to, _)| *to).collect();
        assert_eq!(asked.len(), 16, "each peer once");
        asked[0]
    });
    let firsts: std::collections::BTreeSet<NodeId> = firsts.collect();
    assert_eq!(firsts.len(), 16);
}

#[test]
fn questions_take_no_more_of_a_line_than_it_has() {
    // A datagram takes a quarter of an hour.
    let mut endpoint = readout(3, Some(ByteRate::new(10).expect("not zero")));
    for _ in 0..100 {
        endpoint.flush();
    }
    assert_eq!(endpoint.port().sent, [(NodeId::builder(4), DATAGRAM_BYTES)]);
    assert!(endpoint.due() > endpoint.clock.now(), "it sleeps until there is room");
}

#[test]
fn a_peer_whose_datagrams_have_another_version_is_refused_by_its_name_and_its_version() {
    let mut endpoint = readout(0, None);
    let mut other = vec![0; DATAGRAM_BYTES];
    other[0] = 0x93;
    endpoint.outlet.port.arrives = Some(other);
    let refused = Event::Refused { peer: Some(NodeId::builder(0)), reason: Refusal::WrongVersion(9) };
    assert_eq!(endpoint.poll(), Some(refused));
    assert_eq!(endpoint.poll(), None);
    assert_eq!(endpoint.stats().datagrams_of_other_versions, 1);
}
