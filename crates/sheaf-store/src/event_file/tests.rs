//! Round trips, every way in which a file can be damaged, and disks that fill up.

mod durable;
mod records;

use super::*;
use crate::testing::{Disk, bare, event, events, small_events, verdict};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_wire::{ByteCount, Event, EventId, Nanos, NodeId, RunNumber, SessionId, Timestamp, Verdict};
use std::io::{Cursor, ErrorKind};

fn options() -> WriterOptions {
    WriterOptions {
        metadata: r#"{"software":"test"}"#.to_owned(),
        ..WriterOptions::new(RunNumber(5), NodeId::builder(2), SessionId(0xabc), Timestamp(77))
    }
}

/// The bytes of one file with these events.
fn write(events: &[Event<Bytes>], finish: bool) -> Vec<u8> {
    let disk = Disk::new(u64::MAX);
    let mut writer = EventFileWriter::new(disk.clone(), options()).unwrap();
    for event in events {
        writer.write(event, &verdict(event)).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(writer.counts().written_events, events.len() as u64);
    if finish {
        writer.finish().unwrap();
    }
    assert_eq!(writer.counts().file_bytes, disk.bytes());
    let files = disk.files();
    assert_eq!(files.len(), 1);
    files.into_values().next().unwrap()
}

fn open(bytes: &[u8]) -> EventFileReader<Cursor<&[u8]>> {
    EventFileReader::new(Cursor::new(bytes), "memory").unwrap()
}

/// The events of files in order, which must be undamaged.
fn read_all(disk: &Disk) -> Vec<Event<Bytes>> {
    let mut read = Vec::new();
    for (part, (name, bytes)) in disk.files().into_iter().enumerate() {
        let mut reader = open(&bytes);
        let header = *reader.header().unwrap();
        assert_eq!(header.part, part as u32);
        assert_eq!(FileName::parse(&name).unwrap().part, header.part);
        for stored in reader.by_ref().map(Result::unwrap) {
            assert_eq!(stored.sequence, read.len() as u64, "events are numbered over the files of a session");
            read.push(bare(stored));
        }
        assert_eq!(reader.ending(), Some(EventEnding::Closed), "{name}");
    }
    read
}

/// Events come back with the checksums that the writer computed.
fn with_checksums(events: &[Event<Bytes>]) -> Vec<Event<Bytes>> {
    let mut events = events.to_vec();
    for fragment in events.iter_mut().flat_map(|event| &mut event.fragments) {
        fragment.checksum = Some(sheaf_wire::checksum::crc32c(&fragment.payload));
    }
    events
}

fn read_damaged(bytes: &[u8]) -> (Vec<Event<Bytes>>, usize) {
    let (mut reader, wrong) = EventFileReader::new_damaged(Cursor::new(bytes), "memory").unwrap();
    let (mut good, mut errors) = (Vec::new(), usize::from(wrong.is_some()));
    for item in &mut reader {
        match item {
            Ok(event) => good.push(bare(event)),
            Err(_) => errors += 1,
        }
    }
    errors += usize::from(reader.ending() != Some(EventEnding::Closed));
    errors += usize::from(matches!(reader.index().unwrap(), Some(Err(_))));
    (good, errors)
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_found(events in events(8)) {
        let events = with_checksums(&events);
        let bytes = write(&events, true);
        let mut reader = open(&bytes);
        prop_assert_eq!(reader.header().unwrap().session, SessionId(0xabc));
        prop_assert_eq!(reader.metadata(), r#"{"software":"test"}"#);
        for event in &events {
            let found = reader.find(event.id).unwrap().map(bare);
            let first = events.iter().find(|other| other.id == event.id);
            prop_assert_eq!(found.as_ref(), first);
        }
        let read: Vec<_> = reader.by_ref().map(|item| bare(item.unwrap())).collect();
        prop_assert_eq!(read, events);
        prop_assert_eq!(reader.ending(), Some(EventEnding::Closed));
    }

    #[test]
    fn missing_checksums_are_computed(events in events(4)) {
        let read: Vec<_> = open(&write(&events, true)).map(|item| bare(item.unwrap())).collect();
        prop_assert_eq!(read, with_checksums(&events));
    }

    #[test]
    fn random_bytes_are_counted_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzz::fuzz_event_file(&bytes);
    }

    #[test]
    fn overwritten_bytes_cost_only_the_events_they_are_in(
        events in events(8),
        finish in any::<bool>(),
        from in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let events = with_checksums(&events);
        let ends: Vec<_> = (0..=events.len()).map(|n| write(&events[..n], false).len()).collect();
        let mut damaged = write(&events, finish);
        let from = ends[0] + from.index(damaged.len() - ends[0] + 1);
        let to = (from + bytes.len()).min(damaged.len());
        damaged[from..to].copy_from_slice(&bytes[..to - from]);
        let (good, _) = read_damaged(&damaged);
        let hit = |place: &[usize]| place[0] < to && from < place[1];
        let untouched = events.iter().zip(ends.windows(2)).filter(|(_, place)| !hit(place));
        let untouched: Vec<_> = untouched.map(|(event, _)| event.clone()).collect();
        prop_assert_eq!(good.iter().filter(|event| untouched.contains(event)).count(), untouched.len());
        prop_assert!(good.iter().all(|event| events.contains(event)), "nothing is made up");
    }

    #[test]
    fn bytes_lost_from_the_middle_make_nothing_up(
        events in events(8),
        from in any::<prop::sample::Index>(),
        bytes in 1..200_usize,
    ) {
        let events = with_checksums(&events);
        let whole = write(&events, true);
        let from = from.index(whole.len());
        let to = (from + bytes).min(whole.len());
        let (good, errors) = read_damaged(&[&whole[..from], &whole[to..]].concat());
        prop_assert!(good.iter().all(|event| events.contains(event)));
        prop_assert!(errors > 0);
    }

    #[test]
    fn mutated_files_are_read_to_the_end(
        events in events(6),
        finish in any::<bool>(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut bytes = write(&events, finish);
        for (at, byte, kind) in mutations {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1))),
                _ => bytes.extend_from_within(at..),
            }
        }
        crate::fuzz::fuzz_event_file(&bytes);
    }

    #[test]
    fn a_disk_that_fills_up_and_is_cleared_loses_and_doubles_nothing(
        events in events(12),
        capacity in 0..3000_u64,
        steps in 1..400_u64,
        buffer in prop::sample::select(vec![0, 300, 4096, 1 << 20]),
        each_batch in any::<bool>(),
        rotate in prop::sample::select(vec![500, 2000, 1 << 30]),
        cut_fails in any::<bool>(),
    ) {
        let events = with_checksums(&events);
        let disk = Disk::new(u64::MAX);
        let flush = if each_batch { FlushPolicy::EachBatch } else { FlushPolicy::WhenFull };
        let options =
            WriterOptions { buffer: ByteCount(buffer), rotate_bytes: ByteCount(rotate), flush, ..options() };
        let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
        disk.set_capacity(disk.bytes() + capacity);
        disk.fail_truncate(cut_fails);
        let retry = |result: Result<(), EventWriteError>| match result {
            Ok(()) => Ok(false),
            Err(EventWriteError::Write { error, .. } | EventWriteError::Create { error, .. }) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                disk.fail_truncate(false);
                disk.set_capacity(disk.capacity() + steps);
                Ok(true)
            }
            Err(other) => Err(other),
        };
        for event in &events {
            while retry(writer.write(event, &verdict(event))).unwrap() {}
            while retry(writer.end_batch(Timestamp(1))).unwrap() {}
        }
        while retry(writer.finish().map(|_| ())).unwrap() {}
        let files = disk.files();
        for closed in writer.take_closed() {
            let bytes = &files[&closed.file];
            prop_assert_eq!(closed.bytes, bytes.len() as u64);
            let crc32c = sheaf_wire::checksum::crc32c(bytes);
            prop_assert!(closed.crc32c.is_none_or(|closed| closed == crc32c), "a checksum is right or not known");
        }
        prop_assert_eq!((writer.stored_events(), writer.first_unstored()), (events.len() as u64, None));
        prop_assert_eq!(read_all(&disk), events);
    }
}

#[test]
fn a_file_cut_anywhere_yields_exactly_the_whole_events_before() {
    let events = with_checksums(&small_events());
    let whole = write(&events, true);
    let ends: Vec<usize> = (0..=events.len()).map(|n| write(&events[..n], false).len()).collect();
    for cut in ends[0]..whole.len() {
        let expected = ends.iter().filter(|end| **end <= cut).count() - 1;
        let mut reader = open(&whole[..cut]);
        let read: Vec<_> = reader.by_ref().map(|item| bare(item.unwrap())).collect();
        assert_eq!(read, events[..expected], "cut at {cut}");
        let offset = ends[expected] as u64;
        let partial_bytes = cut as u64 - offset;
        assert_eq!(reader.ending(), Some(EventEnding::Unfinished { offset, partial_bytes }), "cut at {cut}");
        for event in &events {
            let there = events[..expected].contains(event);
            assert_eq!(reader.find(event.id).unwrap().is_some(), there, "cut at {cut}");
        }
    }
    for cut in 0..ends[0] {
        assert!(EventFileReader::new(Cursor::new(&whole[..cut]), "memory").is_err(), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_is_noticed_and_costs_at_most_its_event() {
    let events = with_checksums(&small_events());
    let whole = write(&events, true);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let (good, errors) = read_damaged(&bytes);
            assert!(errors > 0, "bit {bit} of byte {at} was not noticed");
            let lost = events.iter().filter(|event| !good.contains(event)).count();
            assert!(lost <= 1, "bit {bit} of byte {at} cost {lost} events");
            assert_eq!(good.len() + lost, events.len(), "nothing is made up");
        }
    }
}

#[test]
fn a_wrong_index_is_replaced_by_a_scan() {
    let events = with_checksums(&small_events());
    let whole = write(&events, false);
    let lies: Vec<_> =
        events.iter().map(|event| sheaf_wire::event_file::IndexEntryBytes::new(event.id, 64)).collect();
    let (header, footer) = sheaf_wire::event_file::emit_index(&lies, &[], whole.len() as u64);
    use zerocopy::IntoBytes;
    let bytes = [&whole[..], header.as_bytes(), lies.as_bytes(), footer.as_bytes()].concat();
    let mut reader = open(&bytes);
    for event in &events {
        assert_eq!(reader.find(event.id).unwrap().map(bare).as_ref(), Some(event));
    }
    assert_eq!(reader.find(EventId(12_345)).unwrap(), None);
}

#[test]
fn files_rotate_by_size_and_by_number_and_large_events_have_their_own() {
    let events: Vec<_> = (0..10).map(|id| event(id, &[300, 0, 500])).collect();
    let by_number = WriterOptions { rotate_events: 3, ..options() };
    let by_size = WriterOptions { rotate_bytes: ByteCount(2 * (72 + 3 * 24 + 800 + 5) + 300), ..options() };
    let too_small = WriterOptions { rotate_bytes: ByteCount(1), ..options() };
    for (options, files) in [(by_number, 4), (by_size, 5), (too_small, 10)] {
        let disk = Disk::new(u64::MAX);
        let mut writer = EventFileWriter::new(disk.clone(), options.clone()).unwrap();
        for event in &events {
            writer.write(event, &verdict(event)).unwrap();
        }
        let counts = writer.finish().unwrap();
        assert_eq!((counts.parts, counts.written_events), (files, 10));
        let closed: u64 = writer.take_closed().iter().map(|file| file.events).sum();
        assert_eq!(closed, 10);
        assert_eq!(disk.files().len(), files as usize);
        assert_eq!(read_all(&disk), with_checksums(&events));
        let limit = options.rotate_bytes.0;
        assert!(limit == 1 || disk.files().values().all(|file| file.len() as u64 <= limit));
    }
}

#[test]
fn stored_events_follow_the_flush_policy() {
    let one = event(1, &[10]);
    let stored = |flush, now| {
        let disk = Disk::new(u64::MAX);
        let mut writer = EventFileWriter::new(disk.clone(), WriterOptions { flush, ..options() }).unwrap();
        writer.write_numbered(7, &one, &verdict(&one)).unwrap();
        let at_once = writer.stored_events();
        writer.end_batch(Timestamp(now)).unwrap();
        assert_eq!(writer.first_unstored(), (writer.stored_events() == 0).then_some(7));
        let waits_for_disk = writer.counts().written_events > writer.stored_events();
        assert_eq!(writer.due(), if waits_for_disk { Timestamp(77 + 500) } else { Timestamp::MAX });
        (at_once, writer.stored_events(), writer.counts().written_events, disk.syncs())
    };
    assert_eq!(stored(FlushPolicy::WhenFull, 1000), (1, 1, 0, 0));
    assert_eq!(stored(FlushPolicy::EachBatch, 1000), (0, 1, 1, 0));
    assert_eq!(stored(FlushPolicy::SyncEvery(Nanos(500)), 77 + 499), (0, 0, 1, 0));
    assert_eq!(stored(FlushPolicy::SyncEvery(Nanos(500)), 77 + 500), (0, 1, 1, 1));
}

/// Confirmed in any order; stored are the events before the first that is not confirmed.
#[test]
fn uploaded_events_are_stored_when_their_files_and_all_before_are_confirmed() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::Uploaded(Nanos(100)), rotate_events: 2, ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    for id in 0..5 {
        writer.write(&event(id, &[10]), &Verdict::accept()).unwrap();
        writer.end_batch(Timestamp(1)).unwrap();
    }
    let closed: Vec<String> = writer.take_closed().into_iter().map(|closed| closed.file).collect();
    assert_eq!((closed.len(), writer.first_unstored(), writer.stored_events()), (2, Some(0), 0));
    assert!(writer.confirm(&closed[1]) && !writer.confirm("another"));
    assert_eq!((writer.first_unstored(), writer.stored_events()), (Some(0), 0));
    assert!(writer.confirm(&closed[0]));
    assert_eq!((writer.first_unstored(), writer.stored_events()), (Some(4), 4));
    // The fifth event waits in the open file, which is closed when nothing comes for a while.
    assert_eq!(writer.due(), Timestamp(101));
    writer.end_batch(Timestamp(100)).unwrap();
    assert_eq!(writer.take_closed(), []);
    writer.end_batch(Timestamp(101)).unwrap();
    let last = writer.take_closed().remove(0);
    assert_eq!((writer.due(), writer.first_unstored()), (Timestamp::MAX, Some(4)));
    writer.confirm(&last.file);
    assert_eq!((writer.first_unstored(), writer.stored_events()), (None, 5));
}

/// Without this rule each event behind a full buffer would be a file of its own.
#[test]
fn pressed_for_room_one_file_is_on_its_way_and_one_is_filled() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::Uploaded(Nanos(u64::MAX)), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    writer.press().unwrap();
    assert_eq!(writer.take_closed(), [], "nothing is in it");
    let mut on_its_way: Option<String> = None;
    for id in 0..30 {
        writer.write(&event(id, &[10]), &Verdict::accept()).unwrap();
        writer.press().unwrap();
        let closed = writer.take_closed();
        assert!(closed.len() <= usize::from(on_its_way.is_none()));
        if let Some(closed) = closed.into_iter().next() {
            on_its_way = Some(closed.file);
        } else if id % 10 == 0
            && let Some(file) = on_its_way.take()
        {
            assert!(writer.confirm(&file));
        }
    }
    let files = u64::from(writer.counts().parts);
    assert!((3..=5).contains(&files), "{files}");
}

#[test]
fn a_name_is_made_durable_once_and_with_the_first_events_of_its_file() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::SyncEvery(Nanos(0)), rotate_events: 4, ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    for id in 0..10 {
        writer.write(&event(id, &[10]), &Verdict::accept()).unwrap();
        writer.end_batch(Timestamp(100 + id)).unwrap();
        assert_eq!(disk.name_syncs(), u64::from(writer.counts().parts));
    }
    assert!(disk.syncs() >= 10);
}

#[test]
fn a_file_with_events_is_closed_when_its_time_is_up() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { rotate_time: Some(Nanos(100)), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    let one = event(1, &[10]);
    for now in [1000, 5000] {
        writer.end_batch(Timestamp(now)).unwrap();
        assert_eq!(writer.take_closed(), [], "nothing is in it");
    }
    writer.write(&one, &verdict(&one)).unwrap();
    writer.end_batch(Timestamp(6000)).unwrap();
    writer.end_batch(Timestamp(6099)).unwrap();
    assert_eq!((writer.take_closed().len(), disk.files().len()), (0, 1));
    assert_eq!(writer.due(), Timestamp(6100));
    writer.end_batch(Timestamp(6100)).unwrap();
    assert_eq!(
        (writer.take_closed().len(), disk.files().len()),
        (1, 1),
        "the next begins with its first event"
    );
    writer.write(&one, &verdict(&one)).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&disk).len(), 2);
}

#[test]
fn a_disk_that_stays_full_gives_the_pending_events_back() {
    let disk = Disk::new(u64::MAX);
    let mut writer = EventFileWriter::new(disk.clone(), options()).unwrap();
    let events: Vec<_> = (0..5).map(|id| event(id, &[2000])).collect();
    disk.set_capacity(disk.bytes() + 2 * (72 + 24 + 2000) + 1000);
    for event in &events {
        writer.write(event, &Verdict::accept()).unwrap();
    }
    let error = writer.flush().unwrap_err();
    let path = writer.path().display().to_string();
    let offset = 64 + 19 + 2 * (72 + 24 + 2000);
    assert_eq!(
        error.to_string(),
        format!("cannot write event file {path} after byte {offset}: no storage space")
    );
    assert_eq!(writer.discard_pending(), [EventId(2), EventId(3), EventId(4)]);
    let counts = writer.counts();
    assert_eq!((counts.accepted_events, counts.written_events, counts.payload_bytes), (2, 2, 4000));
    disk.set_capacity(u64::MAX);
    writer.write(&events[4], &Verdict::accept()).unwrap();
    assert_eq!(writer.finish().unwrap().written_events, 3);
    let stored = [events[0].clone(), events[1].clone(), events[4].clone()];
    let read: Vec<_> =
        disk.files().values().flat_map(|file| open(file)).map(|item| item.unwrap().event).collect();
    assert_eq!(read, with_checksums(&stored));
    assert!(matches!(writer.write(&events[0], &Verdict::accept()), Err(EventWriteError::Finished { .. })));
}

/// Unless all of it is requested, the last event waits: the next write begins on a page boundary.
#[test]
fn writes_of_a_full_buffer_end_at_its_borders_and_hold_at_most_one_event_more() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::WhenFull, buffer: ByteCount(10_000), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    let events: Vec<_> = (0..40).map(|id| event(id, &[500, 0, 30 * id as usize])).collect();
    for event in &events {
        writer.write(event, &verdict(event)).unwrap();
        writer.end_batch(Timestamp(1)).unwrap();
        let there = disk.bytes();
        assert!(there < 100 || there.is_multiple_of(8192), "{there} bytes");
        assert!(writer.pending().0 < 10_000 + 3_000);
        assert!(writer.counts().file_bytes <= there);
    }
    assert!(writer.counts().written_events > 20);
    writer.finish().unwrap();
    assert_eq!(read_all(&disk), with_checksums(&events));
    let closed = writer.take_closed().remove(0);
    let bytes = disk.files().remove(&closed.file).unwrap();
    assert_eq!(closed.crc32c, Some(sheaf_wire::checksum::crc32c(&bytes)));
}

#[test]
fn an_event_that_is_given_up_leaves_nothing_of_it_in_the_file() {
    let disk = Disk::new(u64::MAX);
    let options = WriterOptions { flush: FlushPolicy::WhenFull, buffer: ByteCount(4096), ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    let events: Vec<_> = (0..3).map(|id| event(id, &[3000])).collect();
    for event in &events {
        writer.write(event, &verdict(event)).unwrap();
    }
    assert_eq!((disk.bytes(), writer.counts().written_events), (4096, 1), "the second one is begun");
    // A disk that does not cut either: it is asked again before the next write.
    disk.fail_truncate(true);
    assert_eq!(writer.discard_pending(), [EventId(1), EventId(2)]);
    disk.fail_truncate(false);
    let last = event(7, &[4000]);
    writer.write(&last, &verdict(&last)).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&disk), with_checksums(&[events[0].clone(), last]));
}

#[test]
fn a_file_that_did_not_become_durable_is_tried_again_and_not_closed_twice() {
    let disk = Disk::new(u64::MAX);
    let flush = FlushPolicy::SyncEvery(Nanos(1));
    let options = WriterOptions { flush, rotate_events: 1, ..options() };
    let mut writer = EventFileWriter::new(disk.clone(), options).unwrap();
    let events = with_checksums(&[event(1, &[5]), event(2, &[6])]);
    writer.write(&events[0], &verdict(&events[0])).unwrap();
    disk.fail_sync(true);
    assert!(matches!(writer.write(&events[1], &verdict(&events[1])), Err(EventWriteError::Sync { .. })));
    assert!(matches!(writer.end_batch(Timestamp(1000)), Err(EventWriteError::Sync { .. })));
    assert_eq!((writer.counts().accepted_events, writer.counts().written_events), (1, 1));
    assert_eq!((writer.stored_events(), writer.first_unstored()), (0, Some(0)));
    disk.fail_sync(false);
    writer.write(&events[1], &verdict(&events[1])).unwrap();
    disk.fail_sync(true);
    assert!(matches!(writer.finish(), Err(EventWriteError::Sync { .. })));
    disk.fail_sync(false);
    assert_eq!(writer.finish().unwrap().parts, 2);
    assert_eq!(writer.finish().unwrap().file_bytes, disk.bytes());
    assert_eq!(read_all(&disk), events);
}

#[test]
fn payload_is_not_copied_and_small_events_share_a_call() {
    let disk = Disk::new(u64::MAX);
    let mut writer = EventFileWriter::new(disk.clone(), options()).unwrap();
    let large = event(1, &[100_000]);
    let before = writer.counts().write_calls;
    writer.write(&large, &verdict(&large)).unwrap();
    assert!(writer.pending().0 > 100_000);
    for id in 2..100 {
        writer.write(&event(id, &[100, 0, 2000]), &Verdict::accept()).unwrap();
    }
    writer.flush().unwrap();
    let calls = writer.counts().write_calls - before;
    assert!(calls <= 3, "{calls} calls for 99 events of together 300 kB");
    let address = large.fragments[0].payload.as_ptr() as usize;
    assert!(disk.written_from(address), "the payload went out from where it was");
}

#[test]
fn a_file_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = EventFileWriter::create(directory.path(), options()).unwrap();
    writer.write(&event(1, &[5]), &Verdict::accept()).unwrap();
    writer.finish().unwrap();
    let again = EventFileWriter::create(directory.path(), options()).unwrap_err();
    assert!(
        matches!(&again, EventWriteError::Create { error, .. } if error.kind() == ErrorKind::AlreadyExists)
    );
    assert_eq!(EventFileReader::open(writer.path()).unwrap().count(), 1);
}
