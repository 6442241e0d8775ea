//! Round trips of header, record and trailer, and refusal of everything else. Whole streams are tested where they are
//! written and read, in `sheaf-store`.

use super::*;
use crate::time_base::tests::any_time_base as time_base;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = (StreamHeader, String)> {
    (any::<[u32; 2]>(), 1..4_u16, time_base(), ".{0,20}").prop_map(
        |([source, run], flags, time_base, metadata)| {
            let header = StreamHeader {
                source: SourceId(source),
                run: RunNumber(run),
                has_events: flags & FLAG_EVENTS != 0,
                has_times: flags & FLAG_TIMES != 0,
                time_base,
            };
            (header, metadata)
        },
    )
}

fn record() -> impl Strategy<Value = RecordHeader> {
    prop_oneof![
        (any::<u64>(), any::<u64>(), 0..=MAX_PAYLOAD_BYTES, any::<u32>()).prop_map(
            |(event, time, length, payload_checksum)| RecordHeader::Fragment {
                event: EventId(event),
                time: Timestamp(time),
                length,
                payload_checksum,
            }
        ),
        any::<[u64; 2]>()
            .prop_map(|[records, payload_bytes]| RecordHeader::Trailer { records, payload_bytes }),
    ]
}

proptest! {
    #[test]
    fn headers_round_trip_and_every_flipped_bit_and_cut_is_noticed((header, metadata) in header(), bit in any::<prop::sample::Index>()) {
        let mut bytes = header.emit(&metadata).unwrap();
        prop_assert_eq!(StreamHeader::header_bytes(&bytes), Ok(bytes.len()));
        prop_assert_eq!(StreamHeader::parse(&bytes), Ok((header, metadata.as_str())));
        prop_assert!(StreamHeader::parse(&bytes[..bytes.len() - 1]).is_err());
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(StreamHeader::parse(&bytes).is_err());
    }

    #[test]
    fn records_round_trip_and_every_flipped_bit_is_noticed(record in record(), bit in 0..256_usize) {
        let emitted = record.emit();
        prop_assert_eq!(RecordHeader::parse(emitted.as_bytes()), Ok(record));
        let mut bytes = emitted.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(RecordHeader::parse(&bytes).is_err());
    }
}

#[test]
fn a_longer_payload_than_allowed_is_refused_even_with_a_right_checksum() {
    let record = RecordHeader::Fragment {
        event: EventId(1),
        time: Timestamp(1),
        length: MAX_PAYLOAD_BYTES + 1,
        payload_checksum: 0,
    };
    let error = RecordHeader::parse(record.emit().as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "payload has 1073741825 bytes, at most 1073741824 are allowed");
}

#[test]
fn errors_say_what_is_there_and_what_would_be_right() {
    let says = |bytes: &[u8]| StreamHeader::parse(bytes).unwrap_err().to_string();
    assert_eq!(says(b"SHEAF"), "file header ends after 5 bytes; 40 are needed");
    let header = StreamHeader {
        source: SourceId(1),
        run: RunNumber(1),
        has_events: true,
        has_times: false,
        time_base: None,
    };
    let mut bytes = header.emit("{}").unwrap();
    bytes[8] = 3;
    assert_eq!(
        says(&bytes),
        "file has format version 3, this release reads versions 1 to 2; read it with a later release of sheaf"
    );
}

#[test]
fn a_stream_of_version_1_states_no_time_base() {
    let header = StreamHeader {
        source: SourceId(7),
        run: RunNumber(3),
        has_events: true,
        has_times: true,
        time_base: None,
    };
    // Written by a release that knew version 1 only: the header of the page of the format.
    let bytes = b"SHEAFFS\0\x01\0\x03\0\x07\0\0\0\x03\0\0\0\x0f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x6a\x53\xbc\x18{\"unit\":\"none\"}";
    assert_eq!(StreamHeader::parse(bytes), Ok((header, "{\"unit\":\"none\"}")));
    assert_eq!(header.emit("{\"unit\":\"none\"}").unwrap(), bytes);
}

#[test]
fn a_later_version_or_a_cut_header_is_refused() {
    let header = StreamHeader {
        source: SourceId(1),
        run: RunNumber(1),
        has_events: true,
        has_times: true,
        time_base: Some(TimeBase::NANOSECONDS),
    };
    let mut bytes = header.emit("").unwrap();
    assert_eq!(bytes.len(), 48);
    assert!(matches!(StreamHeader::parse(&bytes[..44]), Err(FileFormatError::Truncated { .. })));
    bytes[8] = 3;
    assert_eq!(
        StreamHeader::parse(&bytes),
        Err(FileFormatError::WrongVersion { found: 3, oldest: 1, newest: 2 })
    );
}
