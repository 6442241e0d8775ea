//! The reader against small files made here. The writer below is as far from the reader as the format allows: it
//! knows only the table in `lcio.rs`.

use super::sio::{MAX_RECORD_BYTES, RecordReader};
use super::{EventReader, SlcioError, SlcioProblem};
use crate::sdhcal::testing::{Collection, EventFile, Object, record};
use proptest::prelude::*;

fn read_all(bytes: &[u8]) -> Result<Vec<(i32, i32, Vec<Object>)>, SlcioError> {
    let mut events = EventReader::new(bytes);
    let mut read = Vec::new();
    while let Some(event) = events.next_event()? {
        let mut objects = Vec::new();
        for object in event.generic_objects("RU_XDAQ")?.into_iter().flatten() {
            let object = object?;
            let words = |bytes: &[u8]| {
                let (words, _) = bytes.as_chunks::<4>();
                words.iter().map(|word| u32::from_be_bytes(*word)).collect()
            };
            objects.push(Object {
                ints: words(object.ints),
                floats: words(object.floats),
                doubles: object.doubles.len() / 8,
            });
        }
        read.push((event.run, event.number, objects));
    }
    Ok(read)
}

fn problem(bytes: &[u8]) -> SlcioProblem {
    read_all(bytes).expect_err("the file is damaged").problem
}

fn objects() -> impl Strategy<Value = Vec<Object>> {
    let object =
        (prop::collection::vec(any::<u32>(), 0..40), prop::collection::vec(any::<u32>(), 0..3), 0_usize..3);
    let object = object.prop_map(|(ints, floats, doubles)| Object { ints, floats, doubles });
    prop::collection::vec(object, 0..8)
}

proptest! {
    #[test]
    fn what_is_in_a_file_is_read(
        events in prop::collection::vec((any::<i32>(), any::<i32>(), objects()), 0..4),
        compressed: bool,
        parameters: bool,
    ) {
        let mut file = EventFile { compressed, ..EventFile::default() };
        for (run, number, objects) in &events {
            file.event(*run, *number, 0, &Collection { objects: objects.clone(), parameters, ..Collection::default() });
        }
        prop_assert_eq!(read_all(&file.finish()).unwrap(), events);
    }

    #[test]
    fn objects_of_one_fixed_size_are_read(values in prop::collection::vec(any::<[u32; 5]>(), 1..6)) {
        let objects: Vec<Object> = values.iter().map(|ints| Object::of_ints(ints)).collect();
        let mut file = EventFile::default();
        file.event(1, 2, 3, &Collection { objects: objects.clone(), fixed_size: true, ..Collection::default() });
        prop_assert_eq!(read_all(&file.finish()).unwrap(), vec![(1, 2, objects)]);
    }

    #[test]
    fn random_bytes_are_refused_or_read_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = crate::fuzz_slcio(&bytes);
    }

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_goes_and_never_panics(
        position: prop::sample::Index,
        value: u8,
        end: prop::sample::Index,
        compressed: bool,
    ) {
        let mut bytes = sample(compressed);
        let position = position.index(bytes.len());
        bytes[position] = value;
        bytes.truncate(end.index(bytes.len()) + 1);
        let _ = crate::fuzz_slcio(&bytes);
        let _ = read_all(&bytes);
    }
}

fn sample(compressed: bool) -> Vec<u8> {
    let mut file = EventFile { compressed, ..EventFile::default() };
    let objects = vec![Object::of_ints(&[1, 2, 3]), Object::of_ints(&[4])];
    let collection = Collection { objects, parameters: true, ..Collection::default() };
    file.event(7, 1, 0, &collection);
    file.event(7, 2, 0, &collection);
    file.finish()
}

#[test]
fn every_truncation_is_noticed_except_at_the_end_of_a_record() {
    let bytes = sample(true);
    let whole = read_all(&bytes).unwrap();
    let mut clean_ends = 0;
    for end in 0..bytes.len() {
        match read_all(&bytes[..end]) {
            Ok(events) => {
                assert!(whole.starts_with(&events), "{end} bytes read as other events");
                clean_ends += 1;
            }
            Err(error) => {
                assert!(matches!(error.problem, SlcioProblem::Truncated { .. }), "{end} bytes: {error}")
            }
        }
    }
    // Two events of two records each, an index record before and behind; a missing padding is no loss.
    assert!((6..=6 * 4).contains(&clean_ends), "{clean_ends} clean ends");
}

#[test]
fn another_kind_of_file_is_called_so() {
    let found = problem(b"root\0\0\xf2\x9dthis is a ROOT file");
    assert!(matches!(found, SlcioProblem::BadMarker { what: "record", found: 0x0000_f29d, .. }), "{found}");
}

#[test]
fn a_zlib_bomb_is_stopped_at_its_claim() {
    // 64 MiB of zeros in 64 KiB, claimed to be one byte.
    let zeros = vec![0_u8; 64 << 20];
    let bomb = record("LCEventHeader", &zeros, true, Some(1));
    let found = problem(&bomb);
    assert!(matches!(found, SlcioProblem::BadLength { found: 1, expected: 2, .. }), "{found}");
}

#[test]
fn a_claim_that_no_compression_can_reach_is_refused_unread() {
    let found = problem(&record("LCEventHeader", b"short", true, Some(200 << 20)));
    assert!(matches!(found, SlcioProblem::Truncated { what: "unpacked record", .. }), "{found}");
}

#[test]
fn a_record_beyond_the_limit_is_refused_unread() {
    let mut bytes = record("LCEventHeader", b"data", false, None);
    bytes[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    let found = problem(&bytes);
    assert!(matches!(found, SlcioProblem::TooLarge { limit: MAX_RECORD_BYTES, .. }), "{found}");
}

#[test]
fn damaged_compression_is_called_so() {
    let mut bytes = sample(true);
    let start = bytes.windows(2).position(|pair| pair == [0x78, 0x9c]).unwrap();
    bytes[start + 10..start + 20].fill(0xff);
    // The first record is an index, which is never unpacked: damage the next one.
    let start = start + 40 + bytes[start + 40..].windows(2).position(|pair| pair == [0x78, 0x9c]).unwrap();
    bytes[start + 10..start + 20].fill(0xff);
    let found = problem(&bytes);
    assert!(matches!(found, SlcioProblem::Zlib(_)), "{found}");
}

#[test]
fn an_event_needs_its_header() {
    let found = problem(&record("LCEvent", b"", false, None));
    assert!(matches!(found, SlcioProblem::NoEventHeader), "{found}");
}

#[test]
fn a_collection_that_is_announced_must_be_there() {
    let mut file = EventFile::default();
    let collection = Collection { absent: true, ..Collection::default() };
    file.event(1, 1, 0, &collection);
    let found = problem(&file.finish());
    assert!(matches!(found, SlcioProblem::MissingBlock { .. }), "{found}");
}

#[test]
fn another_generation_of_lcio_is_refused_by_its_number() {
    let mut file = EventFile { version: 3 << 16 | 1, ..EventFile::default() };
    file.event(1, 1, 0, &Collection::default());
    let found = problem(&file.finish());
    assert!(matches!(found, SlcioProblem::Version { major: 3, minor: 1, .. }), "{found}");
}

#[test]
fn a_count_of_objects_beyond_the_block_ends_at_the_block() {
    let mut file = EventFile::default();
    let collection = Collection {
        objects: vec![Object::of_ints(&[1])],
        claimed_objects: Some(u32::MAX),
        ..Collection::default()
    };
    file.event(1, 1, 0, &collection);
    let found = problem(&file.finish());
    assert!(matches!(found, SlcioProblem::Truncated { .. }), "{found}");
}

#[test]
fn a_header_of_too_many_collections_is_refused() {
    let mut file = EventFile { compressed: false, ..EventFile::default() };
    file.event(1, 1, 0, &Collection::default());
    let mut bytes = file.finish();
    // The header writes two collections, then the first one's name.
    let name = bytes.windows(9).position(|window| window == b"\0\0\0\x05Other").unwrap();
    bytes[name - 4..name].fill(0xff);
    let found = problem(&bytes);
    assert!(matches!(found, SlcioProblem::TooManyCollections { count: u32::MAX, .. }), "{found}");
}

#[test]
fn records_that_nobody_wants_are_passed_over_without_unpacking() {
    let mut bytes = record("LCIOIndex", &[0xff; 100], true, Some(7));
    bytes.extend(record("wanted", b"data", false, None));
    let mut records = RecordReader::new(&bytes[..]);
    let found = records.next_record(|name| name == "wanted").unwrap().unwrap();
    assert_eq!((found.name.as_str(), &found.data[..]), ("wanted", &b"data"[..]));
    assert!(records.next_record(|_| true).unwrap().is_none());
}
