//! The body of the fuzz target for links: datagrams from a peer, or from an attacker with its key.

use super::{Happened, Link, Origin, Prover, Purpose, Settings};
use sheaf_wire::datagram::fuzz::reseal;
use sheaf_wire::datagram::{LEAST_DATAGRAM_BYTES, Secret, View};
use sheaf_wire::machine::Identity;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId, Timestamp};

/// The bytes of a message and which of them have arrived, as a driver keeps them.
type Memory = Vec<u8>;

/// Small bounds, so that a fuzzer meets them.
fn settings() -> Settings {
    Settings {
        rails: 2,
        datagram_bytes: LEAST_DATAGRAM_BYTES,
        message_bytes: ByteCount(2_000),
        window: ByteCount(6_000),
        flight: ByteCount(2_000),
        queue_messages: 8,
        queue: ByteCount(8_000),
        ..Settings::default()
    }
}

fn end(node: NodeId, peer: NodeId, is_keyed: bool, now: Timestamp) -> Link<Memory, Memory> {
    let link = Link::new(Identity { node, run: RunNumber(1), session: SessionId(5) }, peer, &settings(), now);
    if is_keyed { link.authenticated(Box::new(NoKey), [1; 32]) } else { link }
}

/// Proofs that a fuzzer finds at once: every one that is not zero is right.
#[derive(Debug)]
struct NoKey;

impl Prover for NoKey {
    fn prove(&self, purpose: Purpose, parts: &[&[u8]]) -> Secret {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        [purpose as u8 + 1 + (bytes % 16) as u8; 32]
    }

    fn is_proof(&self, _: &[&[u8]], proof: &Secret) -> bool {
        *proof != Secret::default()
    }
}

/// Connects two ends and passes `bytes` to one of them as datagrams: a control byte, a length byte, and that number of
/// bytes. Most datagrams get the link's key and a correct checksum. Runs once without a key of the run, and once with
/// one.
///
/// # Panics
/// If the link delivers wrong data, holds more than it granted, or makes no progress.
pub fn fuzz_link(bytes: &[u8]) {
    fuzz(bytes, false);
    fuzz(bytes, true);
}

fn fuzz(bytes: &[u8], is_keyed: bool) {
    let mut now = Timestamp(1);
    let (one, other) = (NodeId::readout(0), NodeId::builder(0));
    let (mut peer, mut link) = (end(one, other, is_keyed, now), end(other, one, is_keyed, now));
    exchange(now, &mut peer, &mut link);
    exchange(now, &mut peer, &mut link);
    assert!(peer.is_up() && link.is_up(), "they meet at once");
    for message in 0..8 {
        let sent = link.send(now, vec![message; 900], 4, 900);
        assert!(sent.is_ok(), "there is room");
    }
    let mut held = 0;
    let mut rest = bytes;
    while let Some(([how, length], more)) = rest.split_first_chunk::<2>() {
        let (record, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        let mut datagram = record.to_vec();
        if how & 3 != 0
            && let Some(key) = link.key()
        {
            reseal(&mut datagram, key);
        }
        now += Nanos::from_micros(u64::from(how >> 4) * 100);
        take(now, usize::from(how >> 2 & 1), &datagram, &mut link, &mut held);
        link.handle_timeout(now);
        let mut buffer = Vec::new();
        let mut said = 0;
        while link.poll_control(now, &mut buffer).is_some() || link.poll_datagram(now, &mut buffer).is_some()
        {
            assert!(buffer.len() <= LEAST_DATAGRAM_BYTES, "no datagram is too large");
            said += 1;
            assert!(said < 1_000, "a link does not send forever");
        }
        let most = settings().granted_window();
        assert!(held <= most, "{held} bytes are held, {most} are granted");
        while let Some(happened) = link.poll_event() {
            if let Happened::Message(arrived) = happened {
                let memory = arrived.memory.unwrap_or_default();
                assert!(arrived.head_bytes <= arrived.bytes && memory.len() == arrived.bytes);
            }
            held = 0;
        }
        link.grant(now);
    }
}

fn take(now: Timestamp, rail: usize, datagram: &[u8], link: &mut Link<Memory, Memory>, held: &mut u64) {
    let body = View::new(datagram).map_or(&[][..], |view| view.body());
    let store = |memory: &mut Option<Memory>, place: super::PartRange| {
        let memory = memory.get_or_insert_with(|| {
            *held += place.total as u64;
            vec![0; place.total]
        });
        memory[place.offset..place.offset + place.at.len()].copy_from_slice(&body[place.at]);
    };
    link.handle_datagram(now, Origin::home(rail), datagram, store, drop);
}

/// Passes the datagrams of each end to the other.
fn exchange(now: Timestamp, one: &mut Link<Memory, Memory>, other: &mut Link<Memory, Memory>) {
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
        let mut buffer = Vec::new();
        while let Some(control) = from.poll_control(now, &mut buffer) {
            buffer.resize(buffer.len() + control.padding, 0);
            take(now, control.rail, &buffer.clone(), to, &mut 0);
        }
        while from.poll_event().is_some() {}
    }
}
