//! Bodies of the fuzz targets of this crate's readers: any bytes are read to the end, and the books balance.

use crate::event_file::{EventFileReader, EventReadError, RunRecord, StoredEvent};
use crate::fragment_stream::{StreamReadError, StreamReader};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::exclusion_record::{ExclusionRecord, latest_exclusions};
use sheaf_wire::shift_record::{ShiftRecord, latest};
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{SourceId, Timestamp};
use std::io::Cursor;

/// No file of `bytes` bytes has more records or more places of damage than this.
fn most_items(bytes: &[u8]) -> u64 {
    bytes.len() as u64 / 32 + 2
}

/// Reads `bytes` as a fragment stream.
///
/// # Panics
/// If the reader violates its contract.
pub fn fuzz_stream(bytes: &[u8]) {
    let opened = StreamReader::new_damaged(Cursor::new(bytes), "fuzz", SourceId(1));
    let (mut reader, _) = opened.expect("memory is always readable");
    let mut first = None;
    for _ in 0..2 {
        let (mut records, mut payload_bytes, mut damages) = (0, 0, 0);
        let mut last_offset = None;
        while let Some(item) = reader.next() {
            match item {
                Ok(fragment) => {
                    assert!(last_offset < Some(reader.record_offset()), "records come in order");
                    last_offset = Some(reader.record_offset());
                    assert_eq!(fragment.checksum, Some(crc32c(&fragment.payload)));
                    records += 1;
                    payload_bytes += fragment.payload.len() as u64;
                }
                Err(StreamReadError::Damaged { .. }) => damages += 1,
                Err(StreamReadError::Io { error, .. }) => panic!("memory is always readable: {error}"),
            }
            assert!(records + damages <= 2 * most_items(bytes), "the reader makes headway");
        }
        let counts = reader.counts();
        assert_eq!((counts.records, counts.payload_bytes), (records, payload_bytes));
        assert!(counts.corrupt_headers + counts.corrupt_payloads <= damages);
        assert!(payload_bytes + counts.bytes_skipped <= bytes.len() as u64);
        assert!(reader.ending().is_some() && reader.next().is_none());
        let pass = (counts, reader.ending());
        assert_eq!(*first.get_or_insert(pass), pass, "the same again after rewinding");
        reader.rewind().expect("memory is always readable");
    }
}

/// Reads `bytes` as an event file, in order and by id.
///
/// # Panics
/// If the reader violates its contract.
pub fn fuzz_event_file(bytes: &[u8]) {
    let opened = EventFileReader::new_damaged(Cursor::new(bytes), "fuzz");
    let (mut reader, _) = opened.expect("memory is always readable");
    let (mut events, mut damages, mut payload_bytes) = (0, 0, 0);
    let mut some_ids = Vec::new();
    for item in reader.by_ref() {
        match item {
            Ok(StoredEvent { event, verdict, .. }) => {
                assert!(verdict.accepted && verdict.payload.len() <= MAX_VERDICT_PAYLOAD_BYTES);
                for fragment in &event.fragments {
                    assert_eq!(fragment.checksum, Some(crc32c(&fragment.payload)));
                }
                events += 1;
                payload_bytes += event.payload_bytes() + verdict.payload.len() as u64;
                if some_ids.len() < 8 {
                    some_ids.push(event.id);
                }
            }
            Err(EventReadError::Damaged { .. }) => damages += 1,
            Err(EventReadError::Io { error, .. }) => panic!("memory is always readable: {error}"),
        }
        assert!(events + damages <= 2 * most_items(bytes), "the reader makes headway");
    }
    let counts = reader.counts();
    let records = reader.records().expect("memory is always readable").good;
    let record_bytes: u64 = records.iter().map(RunRecord::bytes).sum();
    assert!(record_bytes <= bytes.len() as u64, "no record is read twice");
    assert_eq!(reader.counts(), counts, "records are read without events");
    for shift in latest(&records).0 {
        let again = ShiftRecord::parse(&shift.to_run_record(Timestamp(1)));
        assert_eq!(again.as_ref(), Ok(&shift), "a shift that was read can be written");
    }
    for exclusion in latest_exclusions(&records).0 {
        let again = ExclusionRecord::parse(&exclusion.to_run_record(Timestamp(1)));
        assert_eq!(again, Ok(exclusion), "an exclusion that was read can be written");
    }
    assert_eq!(counts.events, events);
    assert_eq!(counts.corrupt_headers + counts.corrupt_events, damages);
    assert!(payload_bytes + counts.bytes_skipped <= bytes.len() as u64);
    assert!(reader.ending().is_some() && reader.next().is_none());
    for id in some_ids {
        // Damage may hide an event from the index, but nothing else is ever handed out for it.
        if let Ok(Some(found)) = reader.find(id) {
            assert_eq!(found.event.id, id);
        }
    }
}
