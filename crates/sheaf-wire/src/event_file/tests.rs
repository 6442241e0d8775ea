//! Round trips of the parts of an event file, and refusal of everything else. Whole files are tested where they are
//! written and read, in `sheaf-store`.

use super::*;
use crate::{Fragment, MissingReason, MissingSource, NumberMark, SourceId};
use bytes::Bytes;
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event<Bytes>> {
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let fragments = prop::collection::vec((any::<u32>(), any::<u64>(), payload), 0..4);
    let missing = prop::collection::vec((any::<u32>(), prop::sample::select(MissingReason::ALL)), 0..3);
    let numbers = (any::<[u64; 2]>(), any::<[u16; 2]>(), any::<bool>());
    (numbers, fragments, missing).prop_map(|((wide, narrow, incomplete), fragments, missing)| Event {
        id: EventId(wide[0]),
        time: Timestamp(wide[1]),
        trigger_type: TriggerType(narrow[0]),
        attempt: narrow[1],
        incomplete,
        fragments: fragments
            .into_iter()
            .map(|(source, time, payload)| Fragment {
                event: EventId(wide[0]),
                source: SourceId(source),
                time: Timestamp(time),
                checksum: Some(crc32c(&payload)),
                processed: time % 3 == 1,
                mark: NumberMark::renumbered(time as i64 % 5),
                payload: Bytes::from(payload),
            })
            .collect(),
        missing: missing
            .into_iter()
            .map(|(source, reason)| MissingSource { source: SourceId(source), reason })
            .collect(),
    })
}

fn payload(event: &Event<Bytes>) -> Bytes {
    event.fragments.iter().flat_map(|fragment| fragment.payload.clone()).collect()
}

fn verdict() -> impl Strategy<Value = Verdict> {
    (any::<u64>(), prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(tags, payload)| Verdict::accept().with_tags(Tags(tags)).with_payload(payload))
}

fn parse(head: &[u8], mut payload: Bytes) -> Result<StoredEvent<Bytes>, FileFormatError> {
    let body = Bytes::copy_from_slice(&head[EVENT_HEADER_BYTES..]);
    EventHeader::parse(head)?.parse_event(&body, &mut payload)
}

proptest! {
    #[test]
    fn events_round_trip_and_every_flipped_bit_is_noticed(
        event in event(),
        verdict in verdict(),
        sequence: u64,
        bit in any::<prop::sample::Index>(),
    ) {
        let mut head = vec![];
        let payload_bytes = emit_event(&event, &verdict, sequence, &mut head).unwrap();
        prop_assert_eq!(payload_bytes, event.payload_bytes());
        let event_bytes = event_bytes(&event, &verdict);
        prop_assert_eq!(event_bytes, head.len() as u64 + payload_bytes);
        prop_assert_eq!(EventHeader::parse(&head).unwrap().total_bytes(), event_bytes);
        let stored = StoredEvent { event: event.clone(), verdict, sequence };
        prop_assert_eq!(parse(&head, payload(&event)), Ok(stored));
        let mut long = payload(&event).to_vec();
        long.push(0);
        prop_assert!(parse(&head, Bytes::from(long)).is_err());
        let bit = bit.index(head.len() * 8);
        head[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&head, payload(&event)).is_err());
    }

    #[test]
    fn a_missing_checksum_is_computed(event in event()) {
        let mut without = event.clone();
        without.fragments.iter_mut().for_each(|fragment| fragment.checksum = None);
        let (mut expected, mut head) = (vec![], vec![]);
        emit_event(&event, &Verdict::accept(), 0, &mut expected).unwrap();
        emit_event(&without, &Verdict::accept(), 0, &mut head).unwrap();
        prop_assert_eq!(head, expected);
    }

    #[test]
    fn file_headers_round_trip_and_every_flipped_bit_is_noticed(
        numbers in any::<[u64; 2]>(),
        part in any::<u32>(),
        index in any::<u16>(),
        metadata in ".{0,20}",
        bit in any::<prop::sample::Index>(),
    ) {
        let header = FileHeader {
            run: RunNumber(part / 2),
            node: NodeId::builder(index),
            session: SessionId(numbers[0]),
            part,
            created: Timestamp(numbers[1]),
        };
        let mut bytes = header.emit(&metadata).unwrap();
        prop_assert_eq!(FileHeader::parse(&bytes), Ok((header, metadata.as_str())));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(FileHeader::parse(&bytes).is_err());
    }

    #[test]
    fn the_index_round_trips_and_every_flipped_bit_is_noticed(
        places in prop::collection::vec(any::<[u64; 2]>(), 0..10),
        offset in 66..u64::from(u32::MAX),
        bit in any::<prop::sample::Index>(),
    ) {
        let entries: Vec<_> = places.iter().map(|[id, at]| IndexEntryBytes::new(EventId(*id), *at)).collect();
        let (header, footer) = emit_index(&entries, offset);
        let mut bytes = [header.as_bytes(), entries.as_bytes(), footer.as_bytes()].concat();
        let file_bytes = offset + bytes.len() as u64;
        let index_bytes = bytes.len() - FOOTER_BYTES;
        prop_assert!(is_index_start(&bytes, bytes.len() as u64));
        let read = |bytes: &[u8]| {
            let footer = Footer::parse(&bytes[index_bytes..], file_bytes)?;
            let entries = footer.parse_index(&bytes[..index_bytes])?;
            Ok::<_, FileFormatError>(entries.iter().map(|entry| [entry.event.get(), entry.offset.get()]).collect::<Vec<_>>())
        };
        prop_assert_eq!(read(&bytes), Ok(places));
        prop_assert!(Footer::parse(&bytes[index_bytes..], file_bytes + 1).is_err(), "the place is checked");
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = FileHeader::parse(&bytes);
        let _ = EventHeader::parse(&bytes);
        let _ = Footer::parse(&bytes, bytes.len() as u64);
        let _ = is_index_start(&bytes, bytes.len() as u64);
    }
}

#[test]
fn a_filters_payload_beyond_the_limit_is_refused_and_the_largest_is_not() {
    let event: Event<Bytes> = Event {
        id: EventId(1),
        time: Timestamp(2),
        trigger_type: TriggerType(3),
        attempt: 1,
        incomplete: false,
        fragments: vec![],
        missing: vec![],
    };
    let verdict = |bytes| Verdict::accept().with_payload(vec![7; bytes]);
    let mut head = vec![1, 2, 3];
    let refused = emit_event(&event, &verdict(MAX_VERDICT_PAYLOAD_BYTES + 1), 0, &mut head);
    assert!(matches!(refused, Err(FileFormatError::TooLarge { what: "filter's payload", .. })));
    assert_eq!(head, [1, 2, 3]);
    head.clear();
    emit_event(&event, &verdict(MAX_VERDICT_PAYLOAD_BYTES), 0, &mut head).unwrap();
    assert_eq!(parse(&head, Bytes::new()).unwrap().verdict, verdict(MAX_VERDICT_PAYLOAD_BYTES));
}
