//! Run records between events: found without reading events, and whatever is damaged costs only itself.

use super::{bare, open, options, read_all, read_damaged, with_checksums};
use crate::event_file::*;
use crate::testing::{Disk, small_events, verdict};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_wire::event_file::{IndexEntryBytes, emit_index};
use sheaf_wire::{Event, SourceId, Timestamp};
use std::io::Cursor;
use zerocopy::IntoBytes;

fn record(number: u64, content: &[u8]) -> RunRecord {
    RunRecord {
        number,
        source: SourceId(7),
        kind: RecordKind::SlowControl,
        time: Timestamp(1000 + number),
        name: format!("value {number}"),
        content: Bytes::copy_from_slice(content),
    }
}

/// A file whose records are before, between and behind its events, and the offsets of its records and of its index. A writer
/// of this crate puts all of them before the events.
fn mixed(events: &[Event<Bytes>], records: &[RunRecord], closed: bool) -> (Vec<u8>, Vec<u64>, u64) {
    let disk = Disk::new(u64::MAX);
    let writer = EventFileWriter::new(disk.clone(), options()).unwrap();
    drop(writer);
    let mut bytes = disk.files().into_values().next().unwrap();
    let (mut of_events, mut of_records, mut offsets) = (vec![], vec![], vec![]);
    for step in 0..events.len().max(records.len()) {
        if let Some(record) = records.get(step) {
            offsets.push(bytes.len() as u64);
            of_records.push(IndexEntryBytes::of_record(record.number, bytes.len() as u64));
            record.emit(&mut bytes).unwrap();
        }
        if let Some(event) = events.get(step) {
            of_events.push(IndexEntryBytes::new(event.id, bytes.len() as u64));
            sheaf_wire::event_file::emit_event(event, &verdict(event), step as u64, &mut bytes).unwrap();
            event.fragments.iter().for_each(|fragment| bytes.extend_from_slice(&fragment.payload));
        }
    }
    let end = bytes.len() as u64;
    if closed {
        let (header, footer) = emit_index(&of_events, &of_records, end);
        for part in [header.as_bytes(), of_events.as_bytes(), of_records.as_bytes(), footer.as_bytes()] {
            bytes.extend_from_slice(part);
        }
    }
    (bytes, offsets, end)
}

#[test]
fn a_record_is_written_to_the_file_that_is_open_and_to_all_later_ones() {
    let events = with_checksums(&small_events());
    let disk = Disk::new(u64::MAX);
    let first = WriterOptions { records: [record(1, b"begin")].into(), rotate_events: 2, ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), first).unwrap();
    for (number, event) in (2..).zip(&events) {
        writer.write(event, &verdict(event)).unwrap();
        writer.record(&record(number, b"value")).unwrap();
        writer.record(&record(number, b"value")).unwrap();
    }
    writer.finish().unwrap();
    assert!(matches!(writer.record(&record(99, b"")), Err(EventWriteError::Finished { .. })));
    let all: Vec<_> = (2..2 + events.len() as u64).map(|number| record(number, b"value")).collect();
    let all = [vec![record(1, b"begin")], all].concat();
    assert_eq!(read_all(&disk), events);
    for (part, bytes) in disk.files().into_values().enumerate() {
        let written = &all[..(2 * part + 3).min(all.len())];
        let found = open(&bytes).records().unwrap();
        assert_eq!(found.good, written, "each once, in file {part}");
        assert!(found.damaged.is_empty());
        let crc = sheaf_wire::checksum::crc32c(&bytes);
        assert!(
            writer
                .take_closed()
                .iter()
                .all(|file| file.bytes != bytes.len() as u64 || file.crc32c == Some(crc))
        );
    }
}

#[test]
fn a_record_behind_a_file_that_was_closed_begins_another_file() {
    let events = with_checksums(&small_events());
    let disk = Disk::new(u64::MAX);
    let limit = WriterOptions { rotate_time: Some(sheaf_wire::Nanos(10)), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), limit).unwrap();
    writer.write(&events[0], &verdict(&events[0])).unwrap();
    writer.end_batch(Timestamp(100)).unwrap();
    writer.end_batch(Timestamp(200)).unwrap();
    assert_eq!(writer.take_closed().len(), 1);
    writer.record(&record(5, b"end")).unwrap();
    writer.finish().unwrap();
    let files = disk.files();
    assert_eq!(files.len(), 2);
    let found: Vec<_> = files.values().map(|bytes| open(bytes).records().unwrap().good).collect();
    assert_eq!(found, [vec![], vec![record(5, b"end")]]);
}

#[test]
fn a_record_that_a_full_disk_does_not_take_is_taken_later() {
    let events = with_checksums(&small_events());
    let disk = Disk::new(u64::MAX);
    let mut writer = EventFileWriter::new(disk.clone(), options()).unwrap();
    writer.write(&events[0], &verdict(&events[0])).unwrap();
    writer.flush().unwrap();
    disk.set_capacity(disk.bytes() + 100);
    assert!(writer.record(&record(5, &[1; 5000])).is_err());
    disk.set_capacity(u64::MAX);
    writer.record(&record(5, &[1; 5000])).unwrap();
    writer.write(&events[1], &verdict(&events[1])).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&disk), events[..2]);
    let bytes = disk.files().into_values().next().unwrap();
    assert_eq!(open(&bytes).records().unwrap().good, [record(5, &[1; 5000])]);
}

fn records() -> Vec<RunRecord> {
    // The second looks like an event, and the last is behind all events.
    let mut event = vec![];
    let first = &small_events()[0];
    sheaf_wire::event_file::emit_event(first, &verdict(first), 0, &mut event).unwrap();
    let contents = [b"threshold = 12".to_vec(), event, vec![], vec![9; 5000]];
    let mut all: Vec<_> = (0..).zip(contents).map(|(number, content)| record(number, &content)).collect();
    let more = small_events().len() as u64 + 1;
    all.extend((4..4 + more).map(|number| record(number, b"x")));
    all
}

#[test]
fn records_are_anywhere_among_events_and_found_without_reading_them() {
    let (events, records) = (with_checksums(&small_events()), records());
    for closed in [true, false] {
        let (bytes, _, _) = mixed(&events, &records, closed);
        let mut reader = open(&bytes);
        let found = reader.records().unwrap();
        assert_eq!(found.good, records);
        assert!(found.damaged.is_empty());
        assert_eq!(reader.counts(), EventCounts::default(), "no event was read");
        let read: Vec<_> = reader.by_ref().map(|event| bare(event.unwrap())).collect();
        assert_eq!(read, events);
        let partial_bytes = 0;
        let offset = bytes.len() as u64;
        let unfinished = EventEnding::Unfinished { offset, partial_bytes };
        assert_eq!(reader.ending(), Some(if closed { EventEnding::Closed } else { unfinished }));
        for event in &events {
            assert_eq!(reader.find(event.id).unwrap().map(bare).as_ref(), Some(event));
        }
        assert_eq!(reader.passed_records().len(), records.len(), "each was passed once");
    }
}

#[test]
fn each_part_begins_with_the_records_of_the_options() {
    let (events, records) = (with_checksums(&small_events()), records());
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { records: records.clone().into(), rotate_events: 2, ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    for event in &events {
        writer.write(event, &verdict(event)).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(read_all(&disk), events);
    let files = disk.files();
    assert!(files.len() > 1);
    for closed in writer.take_closed() {
        let bytes = &files[&closed.file];
        assert_eq!(open(bytes).records().unwrap().good, records);
        assert_eq!(
            (closed.bytes, closed.crc32c),
            (bytes.len() as u64, Some(sheaf_wire::checksum::crc32c(bytes)))
        );
        assert_eq!(open(bytes).count() as u64, closed.events);
    }
}

#[test]
fn a_wrong_index_of_records_is_replaced_by_a_scan() {
    let (events, records) = (small_events(), records());
    let (bytes, offsets, end) = mixed(&events, &records, false);
    let of_another = offsets.iter().map(|offset| IndexEntryBytes::of_record(1, *offset)).collect();
    let one_often = vec![IndexEntryBytes::of_record(0, offsets[0]); 100];
    let lies: [Vec<_>; 2] = [of_another, one_often];
    for lies in lies {
        let (header, footer) = emit_index(&[], &lies, end);
        let bytes = [&bytes[..], header.as_bytes(), lies.as_bytes(), footer.as_bytes()].concat();
        assert_eq!(open(&bytes).records().unwrap().good, records);
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]
    #[test]
    fn damage_in_a_record_costs_no_event_and_no_other_record(
        place in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        change in 1_u8..,
        closed: bool,
    ) {
        let (events, records) = (with_checksums(&small_events()), records());
        let (mut bytes, offsets, _) = mixed(&events, &records, closed);
        let hit = place.index(records.len());
        let at = offsets[hit] as usize + at.index(records[hit].bytes() as usize);
        bytes[at] ^= change;
        let (read, _) = read_damaged(&bytes);
        let others: Vec<_> = records.iter().filter(|record| record.number != hit as u64).cloned().collect();
        let (mut reader, _) = EventFileReader::new_damaged(Cursor::new(&bytes[..]), "memory").unwrap();
        let found = reader.records().unwrap().good;
        prop_assert_eq!(&found, &others);
        // Where the header of a record is damaged, what its content looks like counts.
        let made_up = usize::from(hit == 1 && read.len() > events.len());
        prop_assert_eq!(&read[made_up..], &events[..]);
    }

    #[test]
    fn a_file_that_was_cut_anywhere_has_the_records_before(cut in any::<prop::sample::Index>()) {
        let (events, records) = (with_checksums(&small_events()), records());
        let (bytes, offsets, end) = mixed(&events, &records, true);
        let first = offsets[0] as usize;
        let cut = first + cut.index(end as usize - first);
        let mut reader = open(&bytes[..cut]);
        let whole = offsets.iter().zip(&records);
        let whole = whole.filter(|(offset, record)| **offset + record.bytes() <= cut as u64).count();
        prop_assert_eq!(&reader.records().unwrap().good, &records[..whole]);
        let read: Vec<_> = reader.map(|event| bare(event.unwrap())).collect();
        prop_assert_eq!(&read[..], &events[..read.len()]);
    }
}
