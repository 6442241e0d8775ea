//! Which files events go to, and when they count as stored.

use super::*;
use crate::event_file::{
    ClosedFile, Directory, EventFileReader, EventWriteError, FileName, FlushPolicy, SessionName, StreamName,
    WriterOptions,
};
use crate::run::{Manifest, RunReader, SessionRecord, closed_files, list_name, remove_list, seal_session};
use crate::testing::{Disk, event, verdict};
use crate::verify::{StreamReport, verify};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_wire::run_record::{RecordKind, RunRecord};
use sheaf_wire::{
    ByteCount, Event, EventId, Nanos, NodeId, RunNumber, SessionId, SourceId, Tags, Timestamp, Verdict,
};
use std::collections::BTreeMap;
use std::io::Cursor;

const MUON: Tags = Tags(1);
const LASER: Tags = Tags(2);
const SESSION: SessionName =
    SessionName { run: RunNumber(4), node: NodeId::builder(1), session: SessionId(0x12) };

fn options() -> WriterOptions {
    WriterOptions {
        metadata: r#"{"software":"test"}"#.to_owned(),
        ..WriterOptions::new(SESSION.run, SESSION.node, SESSION.session, Timestamp(1))
    }
}

fn rule(name: &str, tags: Tags, prescale: u32) -> StreamRule {
    StreamRule { name: name.parse().unwrap(), tags, prescale }
}

fn routing() -> Routing {
    Routing::new(vec![
        rule("physics", MUON, 1),
        rule("calib", MUON | LASER, 1),
        rule("express", Tags::NONE, 10),
    ])
}

fn names(routing: &Routing, event: u64, tags: Tags) -> Vec<&str> {
    let route = routing.route(EventId(event), tags);
    route.places().map(|place| routing.rules()[place].name.as_str()).collect()
}

/// An event id that the stream `express` takes, and one that it does not.
fn turns(routing: &Routing) -> (u64, u64) {
    let is_taken = |event: &u64| names(routing, *event, LASER).contains(&"express");
    ((0..).find(is_taken).unwrap(), (0..).find(|event| !is_taken(event)).unwrap())
}

#[test]
fn tags_lead_to_streams_and_what_no_tag_leads_anywhere_is_in_the_default_stream() {
    let routing = routing();
    let (taken, other) = turns(&routing);
    assert_eq!(names(&routing, other, MUON), ["physics", "calib"]);
    assert_eq!(names(&routing, other, LASER), ["calib"]);
    assert_eq!(names(&routing, other, Tags::NONE), ["default"]);
    assert_eq!(names(&routing, other, Tags(4)), ["default"]);
    assert_eq!(names(&routing, taken, MUON), ["physics", "calib", "express"]);
    assert_eq!(names(&routing, taken, Tags::NONE), ["default", "express"]);
}

#[test]
fn an_event_that_was_not_judged_is_never_left_out() {
    let none = Routing::new(vec![rule("default", Tags::NONE, u32::MAX)]);
    let left_out = (0..100).filter(|event| none.route(EventId(*event), Tags::NONE).is_empty()).count();
    assert!(left_out >= 99);
    assert!((0..100).all(|event| !none.route(EventId(event), Tags::QUARANTINED).is_empty()));
    let own = Routing::new(vec![rule("bad", Tags::QUARANTINED, 1)]);
    assert_eq!(names(&own, 5, Tags::QUARANTINED), ["bad"]);
}

/// One of ten, whatever has a period in the ids: of 10,000 ids 1,000 with a standard deviation of 30.
#[test]
fn prescaling_takes_its_share_of_every_residue_class() {
    let routing = Routing::new(vec![rule("default", Tags::NONE, 10)]);
    for (step, offset) in [(1, 0), (2, 1), (10, 3), (64, 7)] {
        let ids = (0..10_000).map(|number| EventId(number * step + offset));
        let taken = ids.filter(|id| !routing.route(*id, Tags::NONE).is_empty()).count();
        assert!((850..1150).contains(&taken), "{taken} of 10000 with a step of {step}");
    }
}

/// The numbers and ids of the events in each stream's files.
fn content(disk: &Disk) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut content: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for (name, bytes) in disk.files() {
        let Some(name) = FileName::parse(&name) else { continue };
        let reader = EventFileReader::new(Cursor::new(&bytes[..]), "memory").unwrap();
        let metadata: serde_json::Value = serde_json::from_str(reader.metadata()).unwrap();
        assert_eq!(metadata["stream"], name.stream.as_str());
        let events = reader.map(|stored| stored.unwrap()).map(|stored| (stored.sequence, stored.event.id.0));
        content.entry(name.stream.to_string()).or_default().extend(events);
    }
    content
}

fn streams(flush: FlushPolicy) -> Vec<(StreamRule, WriterOptions)> {
    let rules = [rule("physics", MUON, 1), rule("calib", MUON | LASER, 1)];
    rules.map(|rule| (rule, WriterOptions { flush, rotate_events: 3, ..options() })).to_vec()
}

fn tagged(tags: Tags) -> Verdict {
    Verdict::accept().with_tags(tags)
}

proptest! {
    #[test]
    fn every_event_is_in_all_its_streams_once_whatever_fails_on_the_way(
        tags in prop::collection::vec(0..4_u64, 0..12),
        capacity in 0..3000_u64,
        steps in 100..900_u64,
        buffer in prop::sample::select(vec![0, 300, 1 << 20]),
        sync in any::<bool>(),
    ) {
        let disk = Disk::new(u64::MAX);
        let flush = if sync { FlushPolicy::SyncEvery(Nanos(0)) } else { FlushPolicy::EachBatch };
        let mut streams = streams(flush);
        streams.iter_mut().for_each(|(_, options)| options.buffer = ByteCount(buffer));
        let mut writer = StreamsWriter::new(disk.clone(), streams, &options()).unwrap();
        disk.set_capacity(disk.bytes() + capacity);
        let grow = |_: EventWriteError| disk.set_capacity(disk.capacity() + steps);
        let mut expected: BTreeMap<&str, Vec<(u64, u64)>> =
            [("default", vec![]), ("physics", vec![]), ("calib", vec![])].into();
        for (number, tags) in (0..).zip(&tags) {
            let event = event(100 + number, &[200, 9]);
            while writer.write(&event, &tagged(Tags(*tags))).map_err(grow).is_err() {}
            while writer.end_batch(Timestamp(number)).map_err(grow).is_err() {
                prop_assert!(writer.stored() <= number + 1);
            }
            prop_assert_eq!(writer.stored(), number + 1);
            for (name, list) in &mut expected {
                if names(writer.routing(), event.id.0, Tags(*tags)).contains(name) {
                    list.push((number, event.id.0));
                }
            }
        }
        while writer.finish().map_err(grow).is_err() {}
        prop_assert_eq!((writer.stored(), writer.accepted()), (tags.len() as u64, tags.len() as u64));
        let expected: BTreeMap<String, _> = expected.into_iter().map(|(name, list)| (name.to_owned(), list)).collect();
        prop_assert_eq!(content(&disk), expected);
        let list = disk.files().remove(&list_name(SESSION)).unwrap_or_default();
        let closed = list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        prop_assert_eq!(closed, disk.files().len() - 1, "each closed file has a line in the list");
    }
}

#[test]
fn an_event_is_stored_when_the_slowest_of_its_streams_has_it_and_so_are_those_before() {
    let disk = Disk::new(u64::MAX);
    let slow = WriterOptions { flush: FlushPolicy::SyncEvery(Nanos(1000)), ..options() };
    let streams = vec![(rule("physics", MUON, 1), slow), (rule("calib", LASER, 1), options())];
    let mut writer = StreamsWriter::new(disk.clone(), streams, &options()).unwrap();
    for (id, tags) in [(1, LASER), (2, MUON | LASER), (3, LASER)] {
        assert!(writer.write(&event(id, &[10]), &tagged(tags)).unwrap());
    }
    assert_eq!(writer.stored(), 0);
    writer.end_batch(Timestamp(500)).unwrap();
    assert_eq!((writer.stored(), disk.syncs()), (1, 0), "the second waits for the disk, the third behind it");
    writer.end_batch(Timestamp(1001)).unwrap();
    assert_eq!((writer.stored(), disk.syncs()), (3, 1));
}

#[test]
fn an_event_that_no_stream_takes_is_not_accepted_and_has_no_number() {
    let routing = Routing::new(vec![rule("default", Tags::NONE, 10)]);
    let (left_out, taken): (Vec<u64>, Vec<u64>) =
        (0..100).partition(|event| routing.route(EventId(*event), Tags::NONE).is_empty());
    let disk = Disk::new(u64::MAX);
    let streams = vec![(rule("default", Tags::NONE, 10), options())];
    let mut writer = StreamsWriter::new(disk.clone(), streams, &options()).unwrap();
    for id in 0..100 {
        assert_eq!(writer.write(&event(id, &[1]), &tagged(LASER)).unwrap(), !left_out.contains(&id));
    }
    writer.finish().unwrap();
    let numbered: Vec<_> = (0..).zip(taken).collect();
    assert_eq!(content(&disk)["default"], numbered);
}

/// A run directory of one session whose events 10, 11, ... have these tags.
fn run(tags: &[Tags], finish: bool) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let streams = streams(FlushPolicy::EachBatch);
    let mut writer = StreamsWriter::create(directory.path(), streams, &options()).unwrap();
    for (id, tags) in (10..).zip(tags) {
        writer.write(&event(id, &[id as usize, 3]), &tagged(*tags)).unwrap();
        writer.end_batch(Timestamp(2)).unwrap();
    }
    if finish {
        writer.finish().unwrap();
    }
    directory
}

fn manifest(directory: &tempfile::TempDir, committed: u64, sealed: bool) -> Manifest {
    let mut manifest = Manifest::new(SESSION.run, "sheaf test", Timestamp(1), "");
    manifest.ended = Some(Timestamp(9));
    manifest.sessions = vec![SessionRecord {
        node: SESSION.node,
        session: SESSION.session,
        committed,
        void: Vec::new(),
        sealed,
    }];
    manifest.ledger = serde_json::json!({"stored": committed});
    manifest.files = closed_files(directory.path(), SESSION).unwrap();
    manifest
}

fn read(directory: &tempfile::TempDir, stream: Option<&str>) -> Vec<u64> {
    let reader = RunReader::open(directory.path()).unwrap();
    let reader = match stream {
        Some(stream) => reader.only(&stream.parse().unwrap()),
        None => reader,
    };
    reader.map(|stored| stored.unwrap().event.id.0).collect()
}

const TAGS: [Tags; 8] = [MUON, LASER, Tags::NONE, MUON, Tags(3), Tags::NONE, LASER, MUON];

#[test]
fn a_run_with_streams_is_read_and_verified_with_each_event_once() {
    let directory = run(&TAGS, true);
    let manifest = manifest(&directory, 8, true);
    manifest.write(directory.path()).unwrap();
    remove_list(directory.path(), SESSION).unwrap();
    let mut all = read(&directory, None);
    all.sort_unstable();
    assert_eq!(all, (10..18).collect::<Vec<_>>());
    assert_eq!(read(&directory, Some("physics")), [10, 13, 14, 17]);
    assert_eq!(read(&directory, Some("calib")), [10, 11, 13, 14, 16, 17]);
    assert_eq!(read(&directory, Some("default")), [12, 15]);
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.events, report.copies, report.duplicates), (8, 4, 0));
    let of = |stream: &str, ids: &[u64]| StreamReport {
        stream: stream.to_owned(),
        events: ids.len() as u64,
        payload_bytes: ids.iter().map(|id| id + 3).sum(),
    };
    let streams =
        [of("calib", &[10, 11, 13, 14, 16, 17]), of("default", &[12, 15]), of("physics", &[10, 13, 14, 17])];
    assert_eq!(report.streams, streams);
    assert_eq!(manifest.files.len(), report.files.len());
}

#[test]
fn sealing_cuts_every_stream_behind_the_same_event() {
    for (finish, committed) in [(false, 5), (true, 5), (false, 0), (true, 8), (false, 8)] {
        let directory = run(&TAGS, finish);
        let report = seal_session(directory.path(), SESSION, committed).unwrap();
        assert_eq!((report.missing, report.damaged), (0, 0));
        manifest(&directory, committed, true).write(directory.path()).unwrap();
        let mut all = read(&directory, None);
        all.sort_unstable();
        assert_eq!(all, (10..10 + committed).collect::<Vec<_>>(), "finish {finish}");
        let verified = verify(directory.path()).unwrap();
        assert!(verified.ok, "{:?}", verified.problems);
        let again = seal_session(directory.path(), SESSION, committed).unwrap();
        assert_eq!((again.void, again.bytes_cut, again.files_removed), (0, 0, 0));
    }
}

#[test]
fn unsealed_streams_are_read_up_to_what_is_committed() {
    let directory = run(&TAGS, false);
    manifest(&directory, 5, false).write(directory.path()).unwrap();
    let mut all = read(&directory, None);
    all.sort_unstable();
    assert_eq!(all, [10, 11, 12, 13, 14]);
    let report = verify(directory.path()).unwrap();
    assert_eq!((report.events, report.events_void, report.copies), (5, 3, 3));
}

/// The writer's description of a closed file matches its contents. A later change is detected even if every checksum
/// within the file is valid.
#[test]
fn a_closed_file_that_was_changed_or_taken_away_is_told() {
    let directory = run(&TAGS, true);
    let problems = || -> Vec<String> {
        verify(directory.path()).unwrap().problems.into_iter().map(|problem| problem.what).collect()
    };
    let mut manifest = manifest(&directory, 8, true);
    remove_list(directory.path(), SESSION).unwrap();
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems(), [""; 0]);
    let first = manifest.files[0].clone();
    manifest.files[0].crc32c = first.crc32c.map(|checksum| checksum ^ 1);
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems().len(), 1);
    assert!(problems()[0].starts_with("the file was closed with the checksum "), "{:?}", problems());
    manifest.files[0].crc32c = first.crc32c;
    manifest.files[0].bytes += 1;
    manifest.write(directory.path()).unwrap();
    let (was, is) = (first.bytes + 1, first.bytes);
    assert_eq!(problems(), [format!("the file was closed with {was} bytes, it has {is}")]);
    manifest.files[0].file = "run000004_bu1_s0000000000000012_0077.sheaf".to_owned();
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems(), ["the file was closed and is missing"]);
    manifest.files[0].file = "../run.json".to_owned();
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems(), ["`../run.json` is not the name of a closed file"]);
}

#[test]
fn checksums_are_those_of_the_list_and_are_computed_where_it_has_none() {
    let directory = run(&TAGS, true);
    let listed = closed_files(directory.path(), SESSION).unwrap();
    remove_list(directory.path(), SESSION).unwrap();
    assert_eq!(closed_files(directory.path(), SESSION).unwrap(), listed);
    let names: Vec<_> = listed.iter().map(|file| file.stream.as_str()).collect();
    assert_eq!(names, ["calib", "calib", "default", "physics", "physics"]);
}

/// An uploaded stream holds up the report of its events and of later ones, and the list contains the URLs of the files.
#[test]
fn events_of_an_uploaded_stream_are_stored_when_their_file_is_in_the_object_store() {
    let directory = tempfile::tempdir().unwrap();
    let uploaded = WriterOptions { flush: FlushPolicy::Uploaded(Nanos::MAX), ..options() };
    let streams = vec![(rule("physics", MUON, 1), uploaded)];
    let mut writer = StreamsWriter::create(directory.path(), streams, &options()).unwrap();
    for (id, tags) in [(1, Tags::NONE), (2, MUON), (3, Tags::NONE)] {
        writer.write(&event(id, &[3]), &tagged(tags)).unwrap();
        writer.end_batch(Timestamp(2)).unwrap();
    }
    assert_eq!((writer.stored(), writer.take_uploads().len()), (1, 0));
    writer.press().unwrap();
    let mut uploads = writer.take_uploads();
    assert_eq!((writer.stored(), uploads.len(), uploads[0].events), (1, 1, 1));
    uploads[0].object = Some("s3://bucket/it".to_owned());
    writer.confirm(&uploads[0]);
    assert_eq!((writer.stored(), writer.take_uploads().len()), (3, 0));
    writer.finish().unwrap();
    assert_eq!(writer.take_uploads().len(), 0, "files of other streams, and without events, stay here");
    let listed = closed_files(directory.path(), SESSION).unwrap();
    let objects: Vec<_> = listed.iter().filter_map(|file| file.object.as_deref()).collect();
    assert_eq!(objects, ["s3://bucket/it"]);
}

fn record(number: u64) -> RunRecord {
    RunRecord {
        number,
        source: SourceId(7),
        kind: RecordKind::SlowControl,
        time: Timestamp(number),
        name: "voltage".to_owned(),
        content: Bytes::from_static(b"12"),
    }
}

/// Records that come behind the last event are in a file that is uploaded as well, and holds up no event.
#[test]
fn a_file_with_records_alone_is_uploaded_unless_an_earlier_one_has_them() {
    let directory = tempfile::tempdir().unwrap();
    let uploaded = WriterOptions { flush: FlushPolicy::Uploaded(Nanos::MAX), ..options() };
    let streams = vec![(rule("physics", MUON, 1), uploaded.clone())];
    let mut writer = StreamsWriter::create(directory.path(), streams, &uploaded).unwrap();
    writer.record(&record(1)).unwrap();
    writer.write(&event(2, &[3]), &tagged(MUON)).unwrap();
    writer.press().unwrap();
    let first = writer.take_uploads();
    assert_eq!(first.iter().map(|file| file.events).collect::<Vec<_>>(), [1]);
    writer.record(&record(2)).unwrap();
    writer.record(&record(1)).unwrap();
    assert_eq!(writer.stored(), 0);
    writer.confirm(&first[0]);
    assert_eq!(writer.stored(), 1, "a file with records alone is not awaited");
    writer.finish().unwrap();
    let last = writer.take_uploads();
    let of = |file: &ClosedFile| (file.stream.as_str().to_owned(), file.events);
    let expected = [("default".to_owned(), 0), ("physics".to_owned(), 0)];
    assert_eq!(last.iter().map(of).collect::<Vec<_>>(), expected, "each stream has the second record");
    for file in &last {
        let path = directory.path().join(&file.file);
        assert_eq!(RunReader::open(&path).unwrap().records().unwrap(), [record(1), record(2)]);
        writer.confirm(file);
    }
    assert_eq!((writer.stored(), writer.take_uploads().len()), (1, 0));
}

/// An uploaded stream whose files are converted: the uploads of the converted files are awaited, in any order.
#[test]
fn events_of_a_stream_with_another_format_are_stored_when_the_new_files_are_in_the_object_store() {
    let directory = tempfile::tempdir().unwrap();
    let replaced = WriterOptions { replaced: true, ..options() };
    let both =
        WriterOptions { flush: FlushPolicy::Uploaded(Nanos::MAX), rotate_events: 2, ..replaced.clone() };
    let streams = vec![(rule("physics", MUON, 1), both), (rule("calib", LASER, 1), replaced)];
    let mut writer = StreamsWriter::create(directory.path(), streams, &options()).unwrap();
    for (id, tags) in [(1, LASER), (2, MUON), (3, MUON), (4, MUON), (5, LASER)] {
        writer.write(&event(id, &[3]), &tagged(tags)).unwrap();
    }
    writer.press().unwrap();
    writer.finish().unwrap();
    assert_eq!((writer.stored(), writer.take_uploads().len()), (1, 0), "event files stay here");
    let converted =
        |file: &ClosedFile| ClosedFile { file: FileName::parse(&file.file).unwrap().hdf5(), ..file.clone() };
    let made: Vec<_> = writer.take_replaceable().iter().map(converted).collect();
    made.iter().for_each(|file| writer.replaced(file));
    let uploads = writer.take_uploads();
    let names: Vec<_> = uploads.iter().map(|file| (file.stream.as_str(), file.events)).collect();
    assert_eq!(names, [("physics", 2), ("physics", 1)], "files of other streams stay here");
    assert!(uploads.iter().all(|file| made.contains(file)), "what was made is uploaded");
    writer.confirm(&uploads[1]);
    assert_eq!(writer.stored(), 1, "an earlier file is not there");
    writer.confirm(&ClosedFile { object: Some("s3://bucket/it".to_owned()), ..uploads[0].clone() });
    assert_eq!(writer.stored(), 5);
    writer.confirm(&uploads[0]);
    assert_eq!((writer.stored(), writer.accepted()), (5, 5), "a file counts once");
}

#[test]
fn an_event_in_two_sessions_is_a_duplicate_and_in_two_streams_it_is_not() {
    let directory = run(&[MUON, MUON], true);
    let other = WriterOptions { session: SessionId(0x13), ..options() };
    let storage = Directory::new(directory.path()).unwrap();
    let mut writer = StreamsWriter::new(storage, vec![], &other).unwrap();
    let twice: Event<Bytes> = event(11, &[11, 3]);
    writer.write(&twice, &verdict(&twice)).unwrap();
    writer.finish().unwrap();
    let report = verify(directory.path()).unwrap();
    assert_eq!((report.events, report.copies, report.duplicates), (2, 2, 1));
    assert_eq!(read(&directory, None), [10, 11]);
    assert!(StreamName::default().is_default());
}
