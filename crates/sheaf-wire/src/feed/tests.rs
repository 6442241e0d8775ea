//! Tests of messages of the source protocol: round trips and refused messages.

use super::fuzz::{fuzz_feed, seeds};
use super::*;
use crate::message::DecodeError;
use proptest::prelude::*;

fn seed(name: &str) -> Vec<u8> {
    seeds().into_iter().find(|(seed, _)| seed == name).expect("there is such a seed").1
}

fn refused(message: &[u8]) -> DecodeError {
    ClientMessage::read(message).expect_err("not a message of a client")
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for (name, bytes) in seeds() {
        let client = ClientMessage::read(&bytes).is_ok();
        assert_eq!(client, FromReadout::read(&bytes).is_err(), "{name} has one sender");
        fuzz_feed(&bytes);
        let length = declared_length(bytes.first_chunk().expect("a head"), MAX_CONTROL_BYTES);
        assert_eq!(length, Ok(bytes.len()), "{name}");
    }
}

#[test]
fn fragments_come_with_their_payloads_in_place() {
    let bytes = seed("fragments");
    let Ok(ClientMessage::Fragments(head, mut fragments)) = ClientMessage::read(&bytes) else {
        panic!("a message of fragments")
    };
    assert_eq!(head, FragmentsHead { source: SourceId(3), count: 3, first: 12 });
    let mut payloads = Vec::new();
    while let Some((fragment, payload)) = fragments.next_fragment().expect("valid") {
        assert_eq!(fragment.checksum.is_some(), fragment.event.0 % 2 == 0);
        payloads.push((fragment.event.0, payload));
    }
    assert_eq!(payloads, [(0, &b"payload"[..]), (1, b""), (2, b"more")]);
}

#[test]
fn lengths_and_counts_are_checked_before_they_are_used() {
    let mut bytes = seed("fragments");
    bytes.push(0);
    assert!(matches!(refused(&bytes), DecodeError::WrongHeadLength { .. }), "longer than declared");
    let mut bytes = seed("fragments");
    bytes[HEAD_BYTES + 4..HEAD_BYTES + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let Ok(ClientMessage::Fragments(_, mut fragments)) = ClientMessage::read(&bytes) else {
        panic!("a count")
    };
    for _ in 0..3 {
        assert!(fragments.next_fragment().expect("valid").is_some());
    }
    assert!(matches!(fragments.next_fragment(), Err(DecodeError::Truncated { .. })), "there is no fourth");
    let mut bytes = seed("fragments");
    bytes[HEAD_BYTES + 8..HEAD_BYTES + 16].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    assert!(matches!(refused(&bytes), DecodeError::BadValue { field: "first", .. }), "numbers do not wrap");
    let twice = Hello {
        sources: vec![SourceId(3), SourceId(4), SourceId(3)],
        name: String::new(),
        late_records: false,
    };
    let twice = FromClient::Hello(twice).emit();
    assert!(matches!(refused(&twice), DecodeError::BadValue { field: "source", value: 3 }));
    let nobody =
        FromClient::Hello(Hello { sources: Vec::new(), name: String::new(), late_records: false }).emit();
    assert!(matches!(refused(&nobody), DecodeError::BadValue { field: "sources", value: 0 }));
    let mut other = seed("hello");
    other[HEAD_BYTES] = 2;
    assert!(matches!(refused(&other), DecodeError::BadValue { field: "version", value: 2 }));
}

#[test]
fn codes_round_trip_and_names_are_distinct() {
    let names: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|refusal| refusal.name()).collect();
    assert_eq!(names.len(), Refusal::ALL.len());
    for refusal in Refusal::ALL {
        assert_eq!(Refusal::from_code(refusal as u8), Some(refusal));
        assert_eq!(Refusal::ALL[refusal.index()], refusal);
    }
    for phase in Phase::ALL {
        assert_eq!(Phase::from_code(phase as u8), Some(phase));
    }
}

#[test]
fn lengths_of_records_are_limited() {
    let mut bytes = seed("record");
    let (name, content) = (HEAD_BYTES + 20, HEAD_BYTES + 24);
    bytes[name..name + 4].copy_from_slice(&257_u32.to_le_bytes());
    assert!(matches!(refused(&bytes), DecodeError::BadValue { field: "name_bytes", value: 257 }));
    let mut bytes = seed("record");
    bytes[content..content + 4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    assert!(matches!(refused(&bytes), DecodeError::Truncated { .. }), "the content is not all there");
    bytes[content..content + 4].copy_from_slice(&((1_u32 << 20) + 1).to_le_bytes());
    assert!(matches!(refused(&bytes), DecodeError::BadValue { field: "content_bytes", .. }));
    bytes[content..content + 4].copy_from_slice(&0_u32.to_le_bytes());
    assert_eq!(refused(&bytes), DecodeError::TrailingBytes("gain = 3".len()));
}

proptest! {
    #[test]
    fn damaged_messages_are_refused_or_read_without_panic(
        which in 0..seeds().len(), at in any::<prop::sample::Index>(), flip in 1..=255_u8, cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = seeds()[which].1.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        fuzz_feed(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        fuzz_feed(&bytes);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_feed(&bytes);
    }
}
