//! Round trips, and every way in which a stream can be damaged.

use super::*;
use proptest::prelude::*;
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, Timestamp};
use std::io::Cursor;

const SOURCE: SourceId = SourceId(7);

fn header() -> StreamHeader {
    StreamHeader { source: SOURCE, run: RunNumber(3), has_events: true, has_times: true, time_base: None }
}

type Plain = (u64, u64, Vec<u8>);

fn plain(fragment: &Fragment<bytes::Bytes>) -> Plain {
    (fragment.event.0, fragment.time.0, fragment.payload.to_vec())
}

fn fragment((event, time, payload): &Plain) -> Fragment<&[u8]> {
    Fragment {
        event: EventId(*event),
        source: SOURCE,
        time: Timestamp(*time),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: payload.as_slice(),
    }
}

fn write(records: &[Plain], finish: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::new(&mut bytes, "memory", header(), r#"{"unit":"adc"}"#).unwrap();
    for record in records {
        writer.append(&fragment(record)).unwrap();
    }
    if finish {
        let summary = writer.finish().unwrap();
        assert_eq!(summary.records, records.len() as u64);
    } else {
        drop(writer);
    }
    bytes
}

fn open(bytes: &[u8]) -> StreamReader<Cursor<&[u8]>> {
    StreamReader::new(Cursor::new(bytes), "memory").unwrap()
}

/// The good fragments of a possibly damaged stream, and how often something was wrong.
fn read_damaged(bytes: &[u8]) -> (Vec<Plain>, usize, StreamCounts) {
    let (mut reader, wrong) = StreamReader::new_damaged(Cursor::new(bytes), "memory", SOURCE).unwrap();
    let (mut good, mut errors) = (Vec::new(), usize::from(wrong.is_some()));
    for item in &mut reader {
        match item {
            Ok(fragment) => good.push(plain(&fragment)),
            Err(_) => errors += 1,
        }
    }
    errors += usize::from(reader.ending() != Some(Ending::Trailer));
    (good, errors, reader.counts())
}

fn records() -> impl Strategy<Value = Vec<Plain>> {
    let record = (any::<u64>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..60));
    prop::collection::vec(record, 0..12)
}

/// Streams whose payloads look like records, to mislead a reader that searches.
fn small_stream() -> Vec<Plain> {
    vec![
        (1, 10, b"first".to_vec()),
        (2, 20, vec![]),
        (4, 30, b"FRAGFRAGFENDFRA".to_vec()),
        (3, 40, vec![0xff; 40]),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in records()) {
        let bytes = write(&records, true);
        let mut reader = open(&bytes);
        prop_assert_eq!(reader.header(), &header());
        prop_assert_eq!(reader.metadata(), r#"{"unit":"adc"}"#);
        for pass in 0..2 {
            let read: Vec<_> = reader.by_ref().map(|item| plain(&item.unwrap())).collect();
            prop_assert_eq!(&read, &records, "pass {}", pass);
            prop_assert_eq!(reader.ending(), Some(Ending::Trailer));
            prop_assert_eq!(reader.counts().records, records.len() as u64);
            reader.rewind().unwrap();
        }
    }

    #[test]
    fn random_bytes_are_counted_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzz::fuzz_stream(&bytes);
    }

    #[test]
    fn mutated_streams_are_read_to_the_end(
        records in records(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut bytes = write(&records, true);
        for (at, byte, kind) in mutations {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1))),
                _ => bytes.extend_from_within(at..),
            }
        }
        crate::fuzz::fuzz_stream(&bytes);
    }

    #[test]
    fn overwritten_bytes_cost_only_the_records_they_are_in(
        records in records(),
        from in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let ends: Vec<_> = (0..=records.len()).map(|n| write(&records[..n], false).len()).collect();
        let mut damaged = write(&records, true);
        let from = ends[0] + from.index(damaged.len() - ends[0]);
        let to = (from + bytes.len()).min(damaged.len());
        damaged[from..to].copy_from_slice(&bytes[..to - from]);
        let (good, _, _) = read_damaged(&damaged);
        let hit = |place: &[usize]| place[0] < to && from < place[1];
        let untouched = records.iter().zip(ends.windows(2)).filter(|(_, place)| !hit(place));
        let untouched: Vec<_> = untouched.map(|(record, _)| record.clone()).collect();
        prop_assert_eq!(good.iter().filter(|record| untouched.contains(record)).count(), untouched.len());
        prop_assert!(good.iter().all(|record| records.contains(record)), "nothing is made up");
    }

    #[test]
    fn bytes_lost_from_the_middle_make_nothing_up(
        records in records(),
        from in any::<prop::sample::Index>(),
        bytes in 1..100_usize,
    ) {
        let whole = write(&records, true);
        let from = from.index(whole.len());
        let to = (from + bytes).min(whole.len());
        let (good, errors, _) = read_damaged(&[&whole[..from], &whole[to..]].concat());
        prop_assert!(good.iter().all(|record| records.contains(record)));
        prop_assert!(errors > 0);
    }
}

#[test]
fn large_fragments_and_many_blocks_round_trip() {
    let records: Vec<Plain> = (0..40_u64)
        .map(|at| (at, at, vec![at as u8; (at as usize * 7_919) % 300_000]))
        .chain([(99, 0, vec![9; 1 << 20])])
        .collect();
    let bytes = write(&records, true);
    let fragments: Vec<_> = open(&bytes).map(Result::unwrap).collect();
    let read: Vec<_> = fragments.iter().map(plain).collect();
    assert!(read == records);
}

#[test]
fn a_stream_cut_anywhere_yields_exactly_the_whole_records_before() {
    let records = small_stream();
    let whole = write(&records, true);
    let ends: Vec<usize> = (0..=records.len()).map(|n| write(&records[..n], false).len()).collect();
    for cut in ends[0]..whole.len() {
        let expected = ends.iter().filter(|end| **end <= cut).count() - 1;
        let mut reader = open(&whole[..cut]);
        let read: Vec<_> = reader.by_ref().map(|item| plain(&item.unwrap())).collect();
        assert_eq!(read, records[..expected], "cut at {cut}");
        let offset = ends[expected] as u64;
        let partial_bytes = cut as u64 - offset;
        assert_eq!(reader.ending(), Some(Ending::Unfinished { offset, partial_bytes }));
    }
    for cut in 0..ends[0] {
        assert!(StreamReader::new(Cursor::new(&whole[..cut]), "memory").is_err(), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_is_noticed_and_costs_at_most_its_record() {
    let records = small_stream();
    let whole = write(&records, true);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let (good, errors, _) = read_damaged(&bytes);
            assert!(errors > 0, "bit {bit} of byte {at} was not noticed");
            let lost: Vec<_> = records.iter().filter(|record| !good.contains(record)).collect();
            assert!(lost.len() <= 1, "bit {bit} of byte {at} cost {} records", lost.len());
            assert_eq!(good.len() + lost.len(), records.len(), "nothing is made up");
        }
    }
}

#[test]
fn damage_is_counted_by_kind() {
    let records = small_stream();
    let start = write(&[], false).len();
    let whole = write(&records, true);
    let mut bytes = whole.clone();
    bytes[start + 2] ^= 1;
    let (_, _, counts) = read_damaged(&bytes);
    assert_eq!((counts.corrupt_headers, counts.corrupt_payloads), (1, 0));
    assert_eq!(counts.bytes_skipped, 32 + 5);
    let mut bytes = whole;
    bytes[start + 32] ^= 1;
    let (_, _, counts) = read_damaged(&bytes);
    assert_eq!((counts.corrupt_headers, counts.corrupt_payloads), (0, 1));
    assert_eq!((counts.records, counts.bytes_skipped), (3, 0));
}

#[test]
fn fields_that_a_stream_does_not_have_are_zero() {
    let mut bytes = Vec::new();
    let times_only = StreamHeader { has_events: false, ..header() };
    let mut writer = StreamWriter::new(&mut bytes, "memory", times_only, "{}").unwrap();
    writer.append(&fragment(&(5, 6, vec![1]))).unwrap();
    writer.finish().unwrap();
    let read = open(&bytes).next().unwrap().unwrap();
    assert_eq!((read.event, read.time), (EventId(0), Timestamp(6)));
    let neither = StreamHeader { has_times: false, ..times_only };
    assert!(matches!(
        StreamWriter::new(Vec::new(), "memory", neither, "{}"),
        Err(StreamWriteError::Format { .. })
    ));
}

#[test]
fn a_fragment_of_another_source_is_refused() {
    let mut writer = StreamWriter::new(Vec::new(), "memory", header(), "{}").unwrap();
    let record = (1, 1, vec![]);
    let stranger = Fragment { source: SourceId(8), ..fragment(&record) };
    let error = writer.append(&stranger).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fragment of source 8 does not belong in fragment stream memory of source 7"
    );
    assert_eq!(writer.finish().unwrap().records, 0);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let Ok(file) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("skipped: this system has no /dev/full");
        return;
    };
    let mut writer = StreamWriter::new(file, "/dev/full", header(), "{}").unwrap();
    let large = (1, 1, vec![0; 1 << 20]);
    let error = writer.append(&fragment(&large)).unwrap_err();
    assert!(error.to_string().starts_with("cannot write fragment stream /dev/full: "), "{error}");
    let again = writer.append(&fragment(&large)).unwrap_err();
    assert!(matches!(again, StreamWriteError::Failed { .. }), "{again}");
}
