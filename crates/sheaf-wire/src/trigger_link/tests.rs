//! Tests of messages of the trigger protocol: round trips and refused messages.

use super::fuzz::{fuzz_trigger_link, seeds};
use super::*;
use crate::message::DecodeError;
use proptest::prelude::*;

fn seed(name: &str) -> Vec<u8> {
    seeds().into_iter().find(|(seed, _)| seed == name).expect("there is such a seed").1
}

#[test]
fn every_message_has_one_sender_and_declares_its_length() {
    for (name, bytes) in seeds() {
        if name.starts_with("datagram") {
            fuzz_trigger_link(&bytes);
            continue;
        }
        assert_eq!(FromSupervisor::read(&bytes).is_ok(), FromManager::read(&bytes).is_err(), "{name}");
        fuzz_trigger_link(&bytes);
        let length = declared_length(bytes.first_chunk().expect("a head"));
        assert_eq!(length, Ok(bytes.len()), "{name}");
    }
}

#[test]
fn lengths_and_counts_are_checked_before_they_are_used() {
    let mut bytes = seed("triggers");
    bytes.push(0);
    assert!(matches!(FromSupervisor::read(&bytes), Err(DecodeError::WrongHeadLength { .. })));
    let mut bytes = seed("totals");
    bytes[HEAD_BYTES + 24] = 3;
    let read = FromSupervisor::read(&bytes);
    assert!(matches!(read, Err(DecodeError::BadValue { field: "busy_times", value: 3 })), "{read:?}");
    let empty = &seed("triggers")[..HEAD_BYTES];
    let mut empty = empty.to_vec();
    empty[0] = 8;
    let read = FromSupervisor::read(&empty);
    assert!(matches!(read, Err(DecodeError::BadValue { field: "triggers", value: 0 })), "{read:?}");
    let mut bytes = seed("payloads");
    bytes[HEAD_BYTES + 28] = 36;
    let read = FromSupervisor::read(&bytes);
    assert!(matches!(read, Err(DecodeError::Truncated { need: 36, have: 35 })), "{read:?}");
    bytes[HEAD_BYTES + 31] = 1;
    let read = FromSupervisor::read(&bytes);
    assert!(matches!(read, Err(DecodeError::BadValue { field: "payload_bytes", .. })), "{read:?}");
    let mut long = *seed("end").first_chunk().expect("a head");
    long[..4].copy_from_slice(&(MAX_MESSAGE_BYTES as u32 + 1).to_le_bytes());
    assert!(matches!(declared_length(&long), Err(DecodeError::BadValue { field: "length", .. })));
    let mut other = seed("hello");
    other[HEAD_BYTES] = 3;
    let read = FromSupervisor::read(&other);
    assert!(matches!(read, Err(DecodeError::BadValue { field: "version", value: 3 })), "{read:?}");
}

#[test]
fn codes_round_trip() {
    assert!(Kind::ALL.iter().all(|kind| Kind::from_code(*kind as u8) == Some(*kind)));
    assert!(Phase::ALL.iter().all(|phase| Phase::from_code(*phase as u8) == Some(*phase)));
    assert!(Refusal::ALL.iter().all(|refusal| Refusal::from_code(*refusal as u8) == Some(*refusal)));
    assert!(BusyCause::ALL.iter().all(|cause| BusyCause::from_code(*cause as u8) == Some(*cause)));
}

#[test]
fn a_datagram_is_read_whole_or_not_at_all() {
    let state = seed("datagram-state");
    let (head, messages) = read_datagram::<FromManager>(&state).expect("valid");
    assert_eq!((head, messages.len()), (DatagramHead { link: 0x1234, number: 5, seen: 3 }, 2));
    assert!(read_datagram::<FromSupervisor>(&state).is_err(), "of the other side");
    let empty = read_datagram::<FromSupervisor>(&seed("datagram-empty"));
    assert_eq!(empty, Ok((head, Vec::new())));
    for length in 0..state.len() {
        let whole = length == DATAGRAM_HEAD_BYTES || length == DATAGRAM_HEAD_BYTES + 32;
        assert_eq!(read_datagram::<FromManager>(&state[..length]).is_ok(), whole, "{length} bytes");
    }
    for at in [0, 8] {
        let mut other = state.clone();
        other[at..at + 8].fill(0);
        assert!(read_datagram::<FromManager>(&other).is_err(), "no magic, or no link");
    }
}

#[test]
fn the_longest_messages_of_control_fit_into_a_datagram() {
    let reason = |at| BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(NodeId::readout(at)) };
    let busy: BusyTimes = (0..3_000).map(|at| (reason(at), BusyTime::default())).collect();
    let head = DatagramHead { link: 1, number: 1, seen: 1 };
    let account = FromManager::Account(ReceivedTriggers { busy: busy.clone(), ..Default::default() });
    let totals = FromSupervisor::Totals(Totals { busy, ..Default::default() });
    for datagram in [head.emit(&[account]), head.emit(&[totals])] {
        assert!(datagram.len() <= MAX_DATAGRAM_BYTES, "{} bytes", datagram.len());
        let read = (read_datagram::<FromManager>(&datagram), read_datagram::<FromSupervisor>(&datagram));
        assert!(read.0.is_ok() || read.1.is_ok());
    }
}

proptest! {
    #[test]
    fn damaged_messages_are_refused_or_read_without_panic(
        which in 0..seeds().len(), at in any::<prop::sample::Index>(), flip in 1..=255_u8, cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = seeds()[which].1.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        fuzz_trigger_link(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        fuzz_trigger_link(&bytes);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_trigger_link(&bytes);
    }
}
