//! Run records in HDF5 files: of exports, and of files that were converted.

use super::*;
use crate::event_file::{RecordKind, RunRecord, SessionName, StreamName};
use crate::run::{Manifest, RunReader, SessionRecord, closed_files, seal_session};
use crate::streams::{StreamRule, StreamsWriter};
use crate::verify::verify;
use sheaf_wire::{SourceId, Tags};

fn record(number: u64, name: &str, content: &[u8]) -> RunRecord {
    RunRecord {
        number,
        source: SourceId(number as u32 % 3),
        kind: [RecordKind::Begin, RecordKind::End, RecordKind::SlowControl][number as usize % 3],
        time: Timestamp(1000 + number),
        name: name.to_owned(),
        content: Bytes::copy_from_slice(content),
    }
}

/// Records in the order of their time, with names and contents that are empty, have a NUL, or are larger than a chunk.
pub(super) fn records() -> Vec<RunRecord> {
    vec![
        record(1, "7.cfg", b"threshold = 12\n"),
        record(2, "", b"\0\xff"),
        record(3, "nul\0 \u{e9}", b""),
        record(4, "large", &vec![0xa5; 300 << 10]),
    ]
}

pub(super) fn run_with_records(records: &[RunRecord]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        records: records[..1].into(),
        ..WriterOptions::new(RunNumber(9), NodeId::builder(0), SessionId(5), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    for event in small_events() {
        writer.write(&event, &verdict(&event)).unwrap();
    }
    records[1..].iter().for_each(|record| writer.record(record).unwrap());
    writer.finish().unwrap();
    directory
}

#[test]
fn an_exported_file_has_each_record_as_the_page_says() {
    let _alone = alone();
    for compression in [Compression::None, Compression::Deflate(4)] {
        let directory = run_with_records(&records());
        let target = directory.path().join("run.h5");
        let summary = export(directory.path(), None, &target, compression).unwrap();
        assert_eq!(summary.records, 4);
        assert_eq!(RunReader::open(&target).unwrap().records().unwrap(), records());
        let report = verify(&target).unwrap();
        assert!(report.ok, "{:?}", report.problems);
        assert_eq!((report.records, report.events), (4, small_events().len() as u64));
        let file = File::open(&target).unwrap();
        assert_eq!(column::<u8>(&file, "run_records/kind"), [2, 3, 1, 2]);
        assert_eq!(column::<u32>(&file, "run_records/source"), [1, 2, 0, 1]);
        assert_eq!(column::<u64>(&file, "run_records/time_ns"), [1001, 1002, 1003, 1004]);
        assert_eq!(column::<u64>(&file, "run_records/number"), [1, 2, 3, 4]);
        let of = |take: fn(&RunRecord) -> &[u8]| -> Vec<Vec<u8>> {
            records().iter().map(|record| take(record).to_vec()).collect()
        };
        let names = pieces(&file, "run_records/name_offsets", "run_records/names");
        assert_eq!(names, of(|record| record.name.as_bytes()));
        let contents = pieces(&file, "run_records/content_offsets", "run_records/contents");
        assert!(contents == of(|record| &record.content));
    }
}

#[test]
fn a_file_without_records_has_no_columns_of_them() {
    let _alone = alone();
    let directory = run(&small_events());
    let target = directory.path().join("run.h5");
    export(directory.path(), None, &target, Compression::None).unwrap();
    assert!(!File::open(&target).unwrap().link_exists("run_records"));
    assert!(RunReader::open(&target).unwrap().records().unwrap().is_empty());
}

#[test]
fn a_changed_record_is_found_and_costs_itself_alone() {
    let _alone = alone();
    for (name, place) in [("run_records/contents", 16), ("run_records/crc32c", 1), ("run_records/kind", 1)] {
        let directory = run_with_records(&records());
        let target = directory.path().join("run.h5");
        export(directory.path(), None, &target, Compression::None).unwrap();
        let file = File::open_rw(&target).unwrap();
        let dataset = file.dataset(name).unwrap();
        match name {
            "run_records/crc32c" => dataset.write_slice(&[7_u32], place..place + 1).unwrap(),
            _ => dataset.write_slice(&[77_u8], place..place + 1).unwrap(),
        }
        file.close().unwrap();
        let found = RunReader::open(&target).unwrap().records().unwrap();
        let expected = [&records()[..1], &records()[2..]].concat();
        assert!(found == expected, "{name}");
        let report = verify(&target).unwrap();
        assert!(!report.ok);
        assert_eq!((report.problems.len(), report.events), (1, small_events().len() as u64));
        assert!(report.problems[0].what.starts_with("run record 1 of the file: "), "{:?}", report.problems);
    }
}

#[test]
fn offsets_of_records_that_lie_are_an_error_and_no_panic() {
    let _alone = alone();
    for (name, place, value) in [
        ("run_records/content_offsets", 1, u64::MAX),
        ("run_records/content_offsets", 3, 0),
        ("run_records/name_offsets", 2, 1 << 40),
    ] {
        let directory = run_with_records(&records());
        let path = directory.path().join("run.h5");
        export(directory.path(), None, &path, Compression::None).unwrap();
        let file = File::open_rw(&path).unwrap();
        file.dataset(name).unwrap().write_slice(&[value], place..place + 1).unwrap();
        file.close().unwrap();
        assert!(RunReader::open(&path).unwrap().records().is_err(), "{name}");
        assert!(!verify(&path).unwrap().ok, "{name}");
    }
}

const OWNER: SessionName = SessionName { run: RunNumber(9), node: NodeId::builder(0), session: SessionId(5) };

/// A session with files of two events each, whose events from `committed` on do not count. Its last record came behind all events.
fn converted(committed: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        rotate_events: 2,
        replaced: true,
        records: records()[..1].into(),
        ..WriterOptions::new(OWNER.run, OWNER.node, OWNER.session, Timestamp(1))
    };
    let rule = StreamRule { name: StreamName::default(), tags: Tags::NONE, prescale: 1 };
    let mut writer =
        StreamsWriter::create(directory.path(), vec![(rule, options.clone())], &options).unwrap();
    let convert = |writer: &mut StreamsWriter| {
        for file in writer.take_replaceable() {
            let name = crate::event_file::FileName::parse(&file.file).unwrap();
            replace(directory.path(), &name, Compression::None, &|| false).unwrap();
        }
    };
    Manifest::new(OWNER.run, "sheaf test", Timestamp(1), "").write(directory.path()).unwrap();
    for id in 0..6 {
        let event = event(id, &[30, 2]);
        assert!(writer.write(&event, &verdict(&event)).unwrap());
        writer.end_batch(Timestamp(2)).unwrap();
        convert(&mut writer);
    }
    records()[1..].iter().for_each(|record| writer.record(record).unwrap());
    writer.finish().unwrap();
    convert(&mut writer);
    let record =
        SessionRecord { node: OWNER.node, session: OWNER.session, committed, void: vec![], sealed: true };
    for _ in 0..2 {
        // The second time changes nothing.
        seal_session(directory.path(), OWNER, committed).unwrap();
        settle(directory.path(), OWNER, &record, &|_| Some(Compression::None)).unwrap();
    }
    let mut manifest = Manifest::read(directory.path()).unwrap().unwrap();
    manifest.ledger = serde_json::json!({ "stored": committed });
    manifest.sessions = vec![record];
    manifest.files = closed_files(directory.path(), OWNER).unwrap();
    manifest.ended = Some(Timestamp(9));
    manifest.write(directory.path()).unwrap();
    directory
}

#[test]
fn records_survive_the_conversion_also_in_files_whose_events_do_not_count() {
    let _alone = alone();
    for committed in [6, 5, 3, 0] {
        let directory = converted(committed);
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .collect();
        assert!(names.iter().all(|name| !name.ends_with(".sheaf")), "{names:?}");
        let mut reader = RunReader::open(directory.path()).unwrap();
        assert!(reader.records().unwrap() == records(), "{committed}");
        assert_eq!(reader.by_ref().count() as u64, committed);
        let report = verify(directory.path()).unwrap();
        assert!(report.ok, "{committed}: {:?}", report.problems);
        assert_eq!((report.records, report.events), (4, committed));
    }
}
