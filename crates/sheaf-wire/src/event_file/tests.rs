//! Round trips of the parts of an event file, and refusal of everything else. Whole files are tested where they are
//! written and read, in `sheaf-store`.

use super::*;
use crate::{Fragment, MissingReason, MissingSource, NumberMark, SourceId};
use bytes::Bytes;
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event<Bytes>> {
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let fragments = prop::collection::vec((any::<u32>(), any::<u64>(), payload), 0..4);
    let missing = prop::collection::vec((any::<u32>(), prop::sample::select(&MissingReason::ALL[..])), 0..3);
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
        time_base in crate::time_base::tests::any_time_base(),
    ) {
        let header = FileHeader {
            run: RunNumber(part / 2),
            node: NodeId::builder(index),
            session: SessionId(numbers[0]),
            part,
            created: Timestamp(numbers[1]),
            time_base,
        };
        let mut bytes = header.emit(&metadata).unwrap();
        prop_assert_eq!(FileHeader::parse(&bytes), Ok((header, metadata.as_str())));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(FileHeader::parse(&bytes).is_err());
    }

    #[test]
    fn run_records_round_trip_and_every_flipped_bit_is_noticed(
        numbers in any::<[u64; 2]>(),
        source: u32,
        kind in prop::sample::select(&RecordKind::ALL[..]),
        name in ".{0,20}",
        content in prop::collection::vec(any::<u8>(), 0..60),
        bit in any::<prop::sample::Index>(),
    ) {
        let record = RunRecord {
            number: numbers[0],
            source: SourceId(source),
            kind,
            time: Timestamp(numbers[1]),
            name,
            content: content.into(),
        };
        let mut bytes = vec![];
        record.emit(&mut bytes).unwrap();
        prop_assert_eq!(record.bytes(), bytes.len() as u64);
        let read = |bytes: &[u8]| {
            let header = RecordHeader::parse(bytes)?;
            header.parse_record(&Bytes::copy_from_slice(&bytes[RECORD_HEADER_BYTES..]))
        };
        prop_assert_eq!(RecordHeader::parse(&bytes).unwrap().total_bytes(), record.bytes());
        prop_assert_eq!(read(&bytes), Ok(record));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn the_index_round_trips_and_every_flipped_bit_is_noticed(
        places in prop::collection::vec(any::<[u64; 2]>(), 0..10),
        records in prop::collection::vec(any::<[u64; 2]>(), 0..4),
        offset in 66..u64::from(u32::MAX),
        bit in any::<prop::sample::Index>(),
    ) {
        let entries: Vec<_> = places.iter().map(|[id, at]| IndexEntryBytes::new(EventId(*id), *at)).collect();
        let of_records: Vec<_> =
            records.iter().map(|[number, at]| IndexEntryBytes::of_record(*number, *at)).collect();
        let (header, footer) = emit_index(&entries, &of_records, offset);
        let mut bytes =
            [header.as_bytes(), entries.as_bytes(), of_records.as_bytes(), footer.as_bytes()].concat();
        let file_bytes = offset + bytes.len() as u64;
        let index_bytes = bytes.len() - FOOTER_BYTES;
        prop_assert!(is_index_start(&bytes, bytes.len() as u64));
        let read = |bytes: &[u8]| {
            let footer = Footer::parse(&bytes[index_bytes..], file_bytes)?;
            let (events, records) = footer.parse_index(&bytes[..index_bytes])?;
            let list = |entries: &[IndexEntryBytes]| {
                entries.iter().map(|entry| [entry.event.get(), entry.offset.get()]).collect::<Vec<_>>()
            };
            Ok::<_, FileFormatError>((list(events), list(records)))
        };
        prop_assert_eq!(read(&bytes), Ok((places, records)));
        prop_assert!(Footer::parse(&bytes[index_bytes..], file_bytes + 1).is_err(), "the place is checked");
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = FileHeader::parse(&bytes);
        let _ = EventHeader::parse(&bytes);
        let _ = RecordHeader::parse(&bytes);
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

#[test]
fn run_records_beyond_the_limits_are_refused_and_the_largest_are_not() {
    let record = |name_bytes, bytes| RunRecord {
        number: 1,
        source: SourceId(2),
        kind: RecordKind::Begin,
        time: Timestamp(3),
        name: "n".repeat(name_bytes),
        content: vec![7; bytes].into(),
    };
    let mut bytes = vec![1, 2, 3];
    let long_name = record(MAX_RECORD_NAME_BYTES + 1, 0).emit(&mut bytes);
    assert!(matches!(long_name, Err(FileFormatError::TooLarge { what: "name of a run record", .. })));
    let large = record(0, MAX_RECORD_BYTES + 1).emit(&mut bytes);
    assert!(matches!(large, Err(FileFormatError::TooLarge { what: "run record", .. })));
    assert_eq!(bytes, [1, 2, 3]);
    bytes.clear();
    let largest = record(MAX_RECORD_NAME_BYTES, MAX_RECORD_BYTES);
    largest.emit(&mut bytes).unwrap();
    let header = RecordHeader::parse(&bytes).unwrap();
    assert_eq!(header.parse_record(&Bytes::copy_from_slice(&bytes[RECORD_HEADER_BYTES..])), Ok(largest));
}

#[test]
fn files_of_the_version_before_are_read_and_others_are_refused() {
    let header = FileHeader {
        run: RunNumber(1),
        node: NodeId::builder(0),
        session: SessionId(2),
        part: 0,
        created: Timestamp(3),
        time_base: None,
    };
    let of_version = |version: u16| {
        let mut bytes = header.emit("{}").unwrap();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let checksum = file_header_checksum(&bytes[..FILE_HEADER_BYTES], b"{}");
        bytes[FILE_HEADER_BYTES - 4..FILE_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        FileHeader::parse(&bytes).map(|(header, _)| header)
    };
    for version in [2, 3] {
        assert_eq!(of_version(version), Ok(header));
    }
    let refused = of_version(4);
    assert!(matches!(refused, Err(FileFormatError::BadValue { .. })), "there is no unit: {refused:?}");
    for version in [1, 5] {
        let refused = of_version(version);
        assert!(matches!(refused, Err(FileFormatError::WrongVersion { found, .. }) if found == version));
    }
}
