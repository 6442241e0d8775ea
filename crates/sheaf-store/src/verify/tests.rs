//! Good files verify without problems, and every defect is reported.

mod books;
mod parts;
mod shifts;

use super::*;
use crate::event_file::{EventFileWriter, WriterOptions};
use crate::fragment_stream::{StreamHeader, StreamWriter, file_name};
use crate::kind::KindError;
use crate::run::{Manifest, SessionRecord};
use crate::testing::{event, small_events, verdict};
use bytes::Bytes;
use sheaf_wire::event_file::{FOOTER_BYTES, IndexEntryBytes, emit_index};
use sheaf_wire::{
    Event, EventId, Fragment, NodeId, NumberMark, RunNumber, SessionId, SourceId, Timestamp, Verdict,
};
use std::fs;
use tempfile::TempDir;
use zerocopy::IntoBytes;

fn write_events(directory: &Path, builder: u16, events: &[Event<Bytes>]) -> PathBuf {
    let options = WriterOptions::new(RunNumber(1), NodeId::builder(builder), SessionId(5), Timestamp(1));
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    for event in events {
        writer.write(event, &verdict(event)).unwrap();
    }
    writer.finish().unwrap();
    writer.path().to_owned()
}

fn write_stream(directory: &Path, source: u32, ids: &[u64]) -> PathBuf {
    let path = directory.join(file_name(SourceId(source)));
    let header = StreamHeader {
        source: SourceId(source),
        run: RunNumber(1),
        has_events: true,
        has_times: true,
        time_base: None,
    };
    let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
    for id in ids {
        let fragment = Fragment {
            event: EventId(*id),
            source: SourceId(source),
            time: Timestamp(1000 + id),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: vec![*id as u8; *id as usize],
        };
        writer.append(&fragment).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A run of two builders with five events, and its manifest.
fn run() -> (TempDir, Manifest) {
    let directory = tempfile::tempdir().unwrap();
    write_events(directory.path(), 0, &[event(1, &[10]), event(3, &[20, 5])]);
    write_events(directory.path(), 1, &[event(2, &[1]), event(4, &[]), event(6, &[9])]);
    let mut manifest = Manifest::new(RunNumber(1), "sheaf test", Timestamp(1), "");
    manifest.ended = Some(Timestamp(2));
    manifest.sessions = [(0, 2), (1, 3)]
        .map(|(builder, committed)| SessionRecord {
            node: NodeId::builder(builder),
            session: SessionId(5),
            committed,
            void: Vec::new(),
            sealed: true,
        })
        .to_vec();
    manifest.ledger = serde_json::json!({"triggers": 7, "stored": 5});
    manifest.write(directory.path()).unwrap();
    (directory, manifest)
}

fn problems(path: &Path) -> Vec<String> {
    let report = verify(path).unwrap();
    assert_eq!(report.ok, report.problems.is_empty());
    assert_eq!(report.problems_total, report.problems.len() as u64);
    report.problems.into_iter().map(|problem| problem.what).collect()
}

#[test]
fn a_good_event_file_is_good_and_its_gaps_and_missing_sources_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_events(directory.path(), 0, &small_events());
    let report = verify(&path).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.kind, Kind::EventFile);
    assert_eq!((report.events, report.events_incomplete, report.fragments), (4, 1, 5));
    assert_eq!(report.payload_bytes, 3 + 12 + 6);
    assert_eq!(report.ids, Some(IdRange { first: 10, last: 13 }));
    assert_eq!(report.ids_absent, 0);
    let missing = |source, reason| MissingReport { source, reason, events: 1 };
    let expected = [missing(0, "source_silent"), missing(1, "readout_lost"), missing(9, "source_ended")];
    assert_eq!(report.missing_sources, expected);
    assert_eq!(report.files.len(), 1);
    assert!(report.files[0].finished);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["kind"], &json["ok"]), (&"event_file".into(), &true.into()));
}

#[test]
fn a_good_run_is_good() {
    let (directory, _) = run();
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.kind, report.events, report.files.len()), (Kind::Run, 5, 2));
    assert_eq!(report.gaps, [IdRange { first: 5, last: 5 }]);
}

#[test]
fn no_flipped_bit_escapes() {
    let directory = tempfile::tempdir().unwrap();
    let event_file = write_events(directory.path(), 0, &small_events());
    let stream = write_stream(directory.path(), 3, &[5, 0, 9]);
    for path in [event_file, stream] {
        let good = fs::read(&path).unwrap();
        assert!(problems(&path).is_empty());
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            assert!(!problems(&path).is_empty(), "byte {at} of {}", path.display());
        }
    }
}

#[test]
fn problems_name_the_file_and_the_offset() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_events(directory.path(), 0, &[event(7, &[100])]);
    let mut bytes = fs::read(&path).unwrap();
    let start = 64 + 2;
    bytes[start + 72 + 24 + verdict(&event(7, &[])).payload.len() + 50] ^= 1;
    fs::write(&path, bytes).unwrap();
    let report = verify(&path).unwrap();
    assert_eq!(report.problems.len(), 1);
    let problem = &report.problems[0];
    assert_eq!((&problem.file, problem.offset), (&path, Some(start as u64)));
    assert!(problem.what.starts_with("event 7, source 0: checksum of payload is "), "{}", problem.what);
}

#[test]
fn a_file_that_was_not_closed_is_told_with_its_whole_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_events(directory.path(), 0, &small_events());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - FOOTER_BYTES - 1]).unwrap();
    let report = verify(&path).unwrap();
    assert_eq!((report.events, report.files[0].finished, report.problems.len()), (4, false, 1));
    assert!(report.problems[0].what.starts_with("file is not closed: 79 bytes follow the last whole event"));
}

#[test]
fn an_index_that_lies_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_events(directory.path(), 0, &[event(1, &[5]), event(2, &[6])]);
    let bytes = fs::read(&path).unwrap();
    let end = bytes.len() - FOOTER_BYTES - 2 * 16 - 16;
    let lies = [IndexEntryBytes::new(EventId(1), 66), IndexEntryBytes::new(EventId(3), 66 + 72 + 24 + 1 + 5)];
    let (header, footer) = emit_index(&lies, &[], end as u64);
    fs::write(&path, [&bytes[..end], header.as_bytes(), lies.as_bytes(), footer.as_bytes()].concat())
        .unwrap();
    assert_eq!(problems(&path), ["index has 2 events and differs from the 2 in the file from number 1 on"]);
}

#[test]
fn the_same_event_twice_is_a_problem() {
    let directory = tempfile::tempdir().unwrap();
    write_events(directory.path(), 0, &[event(1, &[5]), event(2, &[6])]);
    write_events(directory.path(), 1, &[event(2, &[6])]);
    let report = verify(directory.path()).unwrap();
    assert_eq!((report.events, report.duplicates), (2, 1));
    assert_eq!(report.problems[0].what, "event 2 occurs twice");
}

#[test]
fn events_that_contradict_themselves_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut unordered = event(1, &[5, 6]);
    unordered.fragments.swap(0, 1);
    let mut both = small_events().remove(1);
    both.fragments = event(11, &[4]).fragments;
    let mut incomplete = event(3, &[4]);
    incomplete.incomplete = true;
    let path = write_events(directory.path(), 0, &[unordered, both, incomplete]);
    assert_eq!(
        problems(&path),
        [
            "event 1: sources are not in ascending order",
            "event 11: a source is listed as missing but has a fragment",
            "event 3: marked incomplete, but no source is missing",
        ]
    );
}

#[test]
fn a_manifest_that_contradicts_the_files_is_told() {
    let (directory, good) = run();
    let with = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = good.clone();
        change(&mut manifest);
        manifest.write(directory.path()).unwrap();
        problems(directory.path())
    };
    let ledger = "the ledger has 5 events stored, but 4 were found";
    assert_eq!(
        with(&|manifest| manifest.ledger["stored"] = 6.into()),
        ["the ledger has 6 events stored, but 5 were found"]
    );
    assert_eq!(
        with(&|manifest| manifest.sessions[0].committed = 3),
        ["session 0000000000000005 of bu0: 3 events are committed, but 2 were found"]
    );
    assert_eq!(
        with(&|manifest| manifest.sessions[1].committed = 2),
        ["session 0000000000000005 of bu1 is sealed at 2 events, but 3 were found", ledger]
    );
    assert_eq!(
        with(&|manifest| manifest.sessions.truncate(1)),
        [
            "session 0000000000000005 of bu1 is not in the manifest",
            "the ledger has 5 events stored, but 2 were found"
        ]
    );
    assert_eq!(
        with(&|manifest| manifest.ended = None),
        ["the run was not closed, and no process writes it: its manifest has no end"]
    );
    assert_eq!(
        with(&|manifest| manifest.run = RunNumber(2)),
        ["file is of run 1, the manifest is of run 2"; 2]
    );
}

#[test]
fn void_events_are_no_problem_while_the_session_is_not_sealed() {
    let (directory, mut manifest) = run();
    manifest.sessions[1] = SessionRecord { committed: 2, sealed: false, ..manifest.sessions[1].clone() };
    manifest.ledger["stored"] = 4.into();
    manifest.write(directory.path()).unwrap();
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.events, report.events_void), (4, 1));
}

#[test]
fn a_missing_part_of_a_session_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        rotate_events: 1,
        ..WriterOptions::new(RunNumber(1), NodeId::builder(0), SessionId(5), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory.path(), options).unwrap();
    for id in 0..3 {
        writer.write(&event(id, &[1]), &Verdict::accept()).unwrap();
    }
    writer.finish().unwrap();
    assert!(problems(directory.path()).is_empty());
    fs::remove_file(directory.path().join("run000001_bu0_s0000000000000005_0001.sheaf")).unwrap();
    assert_eq!(problems(directory.path()), ["file is part 2 of its session, part 1 was expected"]);
}

#[test]
fn streams_are_compared_with_each_other() {
    let directory = tempfile::tempdir().unwrap();
    write_stream(directory.path(), 9, &[1, 2, 4]);
    write_stream(directory.path(), 10, &[4, 1]);
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.kind, report.events, report.fragments), (Kind::StreamDirectory, 3, 5));
    assert_eq!(report.events_incomplete, 1);
    assert_eq!(report.gaps, [IdRange { first: 3, last: 3 }]);
    let missing = MissingReport { source: 10, reason: "no_record", events: 1 };
    assert_eq!(report.missing_sources, [missing]);
    let names: Vec<_> = report.files.iter().map(|file| file.path.file_name().unwrap()).collect();
    assert_eq!(names, ["source-9.sfrag", "source-10.sfrag"]);
}

#[test]
fn a_stream_with_an_id_twice_or_without_end_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_stream(directory.path(), 9, &[1, 2, 1]);
    let report = verify(&path).unwrap();
    assert_eq!((report.duplicates, report.problems[0].offset), (1, Some(40 + 2 + 32 + 1 + 32 + 2)));
    assert_eq!(report.problems[0].what, "event 1 occurs twice");
    let path = write_stream(directory.path(), 9, &[1, 2]);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 33]).unwrap();
    assert_eq!(
        problems(&path),
        ["stream is not finished: 33 bytes follow the last whole record, and no trailer"]
    );
}

#[test]
fn what_is_nothing_of_ours_is_refused_with_what_would_be_right() {
    let directory = tempfile::tempdir().unwrap();
    let error = verify(directory.path()).unwrap_err().to_string();
    assert!(error.ends_with("has neither event files (*.sheaf, run.json) nor fragment streams (*.sfrag)"));
    let file = directory.path().join("notes.txt");
    fs::write(&file, "beam off").unwrap();
    let error = verify(&file).unwrap_err().to_string();
    assert!(error.ends_with(
        "notes.txt is neither an event file nor a fragment stream; those are named *.sheaf, *.h5 and *.sfrag"
    ));
    assert!(matches!(verify(&directory.path().join("none")), Err(ContentError::Kind(KindError::Io { .. }))));
}
