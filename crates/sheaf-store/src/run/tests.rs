//! Builders that die, and which events in their files count.

use super::*;
use crate::event_file::{
    EventFileReader, EventFileWriter, FileName, RecordKind, RunRecord, SessionName, StreamName, WriterOptions,
};
use crate::testing::event;
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_wire::{Event, NodeId, RunNumber, SessionId, SourceId, Timestamp, Verdict};
use std::fs;
use std::path::{Path, PathBuf};

const RUN: RunNumber = RunNumber(9);

/// Writes a session of builder `builder` and returns its files.
fn write_session(
    directory: &Path,
    builder: u16,
    session: u64,
    events: &[Event<Bytes>],
    rotate_events: u64,
    finish: bool,
) -> Vec<PathBuf> {
    let options = WriterOptions {
        rotate_events,
        ..WriterOptions::new(RUN, NodeId::builder(builder), SessionId(session), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    for event in events {
        writer.write(event, &Verdict::accept()).unwrap();
    }
    writer.flush().unwrap();
    if finish {
        writer.finish().unwrap();
    }
    (0..writer.counts().parts)
        .map(|part| {
            let node = NodeId::builder(builder);
            let session = SessionId(session);
            directory
                .join(FileName { run: RUN, node, session, stream: StreamName::default(), part }.to_string())
        })
        .collect()
}

fn session_name(builder: u16, session: u64) -> SessionName {
    SessionName { run: RUN, node: NodeId::builder(builder), session: SessionId(session) }
}

fn ids(directory: &Path) -> (Vec<u64>, RunCounts) {
    let mut reader = RunReader::open(directory).unwrap();
    let ids = reader.by_ref().map(|event| event.unwrap().event.id.0).collect();
    (ids, reader.counts())
}

fn numbered(ids: impl Iterator<Item = u64>) -> Vec<Event<Bytes>> {
    ids.map(|id| event(id, &[id as usize % 50, 7])).collect()
}

fn manifest(sessions: &[(u16, u64, u64)], ended: bool) -> Manifest {
    let mut manifest = Manifest::new(RUN, "sheaf test", Timestamp(1), "[run]\n");
    manifest.ended = ended.then_some(Timestamp(2));
    manifest.sessions = sessions
        .iter()
        .map(|(builder, session, committed)| SessionRecord {
            node: NodeId::builder(*builder),
            session: SessionId(*session),
            committed: *committed,
            void: Vec::new(),
            sealed: false,
        })
        .collect();
    manifest
}

#[test]
fn sealing_keeps_run_records_and_lists_them_in_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let record = |number: u64| RunRecord {
        number,
        source: SourceId(1),
        kind: RecordKind::Begin,
        time: Timestamp(number),
        name: format!("{number}.cfg"),
        content: Bytes::from_static(b"threshold = 12"),
    };
    let records = [record(3), record(4)];
    for (finish, committed) in [(true, 0), (true, 2), (true, 9), (false, 0), (false, 2), (false, 9)] {
        let options = WriterOptions {
            records: records.to_vec().into(),
            rotate_events: 3,
            ..WriterOptions::new(RUN, NodeId::builder(0), SessionId(5), Timestamp(1))
        };
        let mut writer = EventFileWriter::create(directory, options).unwrap();
        numbered(0..5).iter().for_each(|event| writer.write(event, &Verdict::accept()).unwrap());
        writer.flush().unwrap();
        if finish {
            writer.finish().unwrap();
        }
        seal_session(directory, session_name(0, 5), committed).unwrap();
        let files = lists::session_files(directory, session_name(0, 5), FileName::parse).unwrap();
        for (_, path) in &files {
            let mut reader = EventFileReader::open(path).unwrap();
            let index = reader.whole_index().unwrap().unwrap().unwrap();
            assert_eq!(index.records.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4]);
            assert_eq!(reader.records().unwrap().good, records, "{}", path.display());
        }
        manifest(&[(0, 5, committed)], true).write(directory).unwrap();
        let reader = RunReader::open(directory).unwrap();
        assert_eq!(reader.records().unwrap(), records, "each once");
        files.iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
    }
}

#[test]
fn sealing_keeps_run_records_that_are_behind_the_last_event_that_counts() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let record = |number: u64| RunRecord {
        number,
        source: SourceId(1),
        kind: RecordKind::End,
        time: Timestamp(number),
        name: format!("{number}.json"),
        content: Bytes::from_static(b"{}"),
    };
    let cases = [(true, 0), (true, 2), (true, 4), (false, 0), (false, 3), (false, 9)];
    for ((finish, committed), rotate_events) in cases.into_iter().flat_map(|case| [(case, 1), (case, 3)]) {
        let options = WriterOptions {
            rotate_events,
            ..WriterOptions::new(RUN, NodeId::builder(0), SessionId(5), Timestamp(1))
        };
        let mut writer = EventFileWriter::create(directory, options).unwrap();
        let mut events = numbered(0..5).into_iter();
        for number in 1..=3 {
            writer.record(&record(number)).unwrap();
            events.next().iter().for_each(|event| writer.write(event, &Verdict::accept()).unwrap());
        }
        events.next().iter().for_each(|event| writer.write(event, &Verdict::accept()).unwrap());
        writer.record(&record(4)).unwrap();
        writer.flush().unwrap();
        if finish {
            writer.finish().unwrap();
        }
        seal_session(directory, session_name(0, 5), committed).unwrap();
        let files = lists::session_files(directory, session_name(0, 5), FileName::parse).unwrap();
        let parts: Vec<u32> = files.iter().map(|(name, _)| name.part).collect();
        assert_eq!(parts, (0..files.len() as u32).collect::<Vec<_>>(), "no part is missing");
        manifest(&[(0, 5, committed)], true).write(directory).unwrap();
        let reader = RunReader::open(directory).unwrap();
        assert_eq!(reader.records().unwrap(), [1, 2, 3, 4].map(record), "{finish} {committed}");
        assert_eq!(ids(directory).0, (0..committed.min(4)).collect::<Vec<_>>());
        seal_session(directory, session_name(0, 5), committed).unwrap();
        assert_eq!(
            RunReader::open(directory).unwrap().records().unwrap().len(),
            4,
            "nothing is left to seal"
        );
        let files = lists::session_files(directory, session_name(0, 5), FileName::parse).unwrap();
        files.iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
    }
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]
    #[test]
    fn sealing_keeps_exactly_the_committed_events(
        events in 0..12_u64,
        rotate in 1..6_u64,
        committed in 0..14_u64,
        finish in any::<bool>(),
        torn in 0..300_u64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let files = write_session(directory, 0, 5, &numbered(0..events), rotate, finish);
        let other = write_session(directory, 1, 5, &numbered(100..103), 2, true);
        let other_bytes: Vec<_> = other.iter().map(|file| fs::read(file).unwrap()).collect();
        let last = fs::OpenOptions::new().write(true).open(files.last().unwrap()).unwrap();
        let bytes = last.metadata().unwrap().len();
        last.set_len(bytes.saturating_sub(torn)).unwrap();
        let whole: u64 = files
            .iter()
            .map(|file| EventFileReader::open_damaged(file).unwrap().0.filter(Result::is_ok).count() as u64)
            .sum();

        manifest(&[(0, 5, committed), (1, 5, 3)], true).write(directory).unwrap();
        let expected: Vec<u64> = (0..whole.min(committed)).chain(100..103).collect();
        let mut unsealed = RunReader::open(directory).unwrap();
        let unsealed: Vec<u64> = unsealed.by_ref().flatten().map(|event| event.event.id.0).collect();
        prop_assert_eq!(&unsealed, &expected);

        let report = seal_session(directory, session_name(0, 5), committed).unwrap();
        prop_assert_eq!(report.events, whole.min(committed));
        prop_assert_eq!(report.void, whole.saturating_sub(committed));
        prop_assert_eq!(report.missing, committed.saturating_sub(whole));
        let (sealed, counts) = ids(directory);
        prop_assert_eq!(&sealed, &expected);
        prop_assert_eq!((counts.void, counts.unfinished_files, counts.damaged), (0, 0, 0));
        for (file, bytes) in other.iter().zip(other_bytes) {
            prop_assert!(fs::read(file).unwrap() == bytes, "the other session is untouched");
        }

        let again = seal_session(directory, session_name(0, 5), committed).unwrap();
        let nothing = SealReport { events: report.events, missing: report.missing, ..SealReport::default() };
        prop_assert_eq!(again, nothing);
    }
}

#[test]
fn an_event_of_a_dead_builder_that_was_assigned_again_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // Builder 0 wrote 0..6 and reported four of them; builder 1 and the new session of builder 0 did the others.
    write_session(directory, 0, 5, &numbered(0..6), 100, false);
    write_session(directory, 0, 8, &numbered(4..5), 100, true);
    write_session(directory, 1, 5, &numbered(5..9), 100, true);
    let (read, counts) = ids(directory);
    assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 8], "without a manifest the first of two counts");
    assert_eq!((counts.duplicates, counts.unfinished_files), (2, 1));
    manifest(&[(0, 5, 4), (0, 8, 1), (1, 5, 4)], true).write(directory).unwrap();
    let (read, counts) = ids(directory);
    assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((counts.duplicates, counts.void), (0, 2));
}

#[test]
fn a_session_unknown_to_the_manifest_counts_only_while_the_run_has_not_ended() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write_session(directory, 0, 5, &numbered(0..3), 100, true);
    manifest(&[], false).write(directory).unwrap();
    assert_eq!(ids(directory).0, [0, 1, 2]);
    manifest(&[(0, 5, 1)], false).write(directory).unwrap();
    assert_eq!(ids(directory).0, [0, 1, 2], "the count of a session that is not sealed may grow");
    manifest(&[], true).write(directory).unwrap();
    let (read, counts) = ids(directory);
    assert!(read.is_empty());
    assert_eq!(counts.void, 3);
}

#[test]
fn a_single_file_is_read_as_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_session(directory.path(), 0, 5, &numbered(0..3), 100, true);
    assert_eq!(ids(&files[0]).0, [0, 1, 2]);
}

#[test]
fn a_damaged_file_header_costs_no_event() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_session(directory.path(), 0, 5, &numbered(0..3), 100, true);
    let mut bytes = fs::read(&files[0]).unwrap();
    bytes[20] ^= 1;
    fs::write(&files[0], bytes).unwrap();
    let mut reader = RunReader::open(directory.path()).unwrap();
    assert!(matches!(reader.next(), Some(Err(RunReadError::Header { .. }))));
    assert_eq!(reader.flatten().count(), 3);
}

#[test]
fn the_manifest_round_trips_and_is_readable_json() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(Manifest::read(directory.path()).unwrap(), None);
    let mut written = manifest(&[(2, 0x18c3_a5d2_e4f6_0718, 4)], true);
    written.commands.push(CommandRecord {
        time: Timestamp(5),
        by: "alice".into(),
        via: None,
        command: "stop".into(),
        target: None,
        comment: Some("beam lost".into()),
        result: Some("done".into()),
        text: None,
        ended: Some(Timestamp(7)),
    });
    written.commands_left_out = 3;
    written.ledger = serde_json::json!({"stored": 4, "balanced": true});
    written.write(directory.path()).unwrap();
    assert_eq!(Manifest::read(directory.path()).unwrap(), Some(written));
    let text = fs::read_to_string(directory.path().join(MANIFEST_NAME)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["sessions"][0]["node"], "bu2");
    assert_eq!(json["sessions"][0]["session"], "18c3a5d2e4f60718");
    assert_eq!(json["ended_ns"], 2);
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no draft is left");
}

#[test]
fn a_wrong_manifest_is_refused_with_its_name_and_what_would_be_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(MANIFEST_NAME);
    manifest(&[(2, 1, 4)], true).write(directory.path()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    for (from, to, says) in [
        ("\"bu2\"", "\"7\"", "`7` is not a node, such as `bu0`"),
        (
            "\"version\": 1",
            "\"version\": 2",
            "version 2, this release reads `sheaf-run` version 1; read the run with",
        ),
        ("\"committed\": 4", "\"committed\": -4", "expected u64"),
    ] {
        assert!(good.contains(from));
        fs::write(&path, good.replace(from, to)).unwrap();
        let error = RunReader::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(&path.display().to_string()), "{error}");
    }
}

/// An output node's session holds events of several builders: one that died leaves gaps.
#[test]
fn events_between_those_that_count_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    write_session(directory.path(), 0, 5, &numbered(10..20), 4, true);
    let mut manifest = manifest(&[(0, 5, 9)], true);
    manifest.sessions[0].void = vec![[0, 0], [3, 5]];
    assert_eq!(manifest.sessions[0].events(), 5);
    manifest.ledger = serde_json::json!({ "stored": 5 });
    manifest.write(directory.path()).unwrap();
    let (ids, counts) = ids(directory.path());
    assert_eq!(ids, [11, 12, 16, 17, 18]);
    assert_eq!((counts.events, counts.void), (5, 5));
    let mut lines = Vec::new();
    crate::dump::dump_verdicts(directory.path(), &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let dumped: Vec<_> = lines.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(dumped, ["11", "12", "16", "17", "18"]);
    let summary = crate::inspect::inspect(directory.path()).unwrap();
    assert_eq!(summary.events, 5);
    let report = seal_session(directory.path(), session_name(0, 5), 9).unwrap();
    assert_eq!((report.events, report.void), (9, 1), "only what lies behind is cut off");
    manifest.sessions[0].sealed = true;
    manifest.write(directory.path()).unwrap();
    let report = crate::verify::verify(directory.path()).unwrap();
    assert_eq!((report.events, report.events_void), (5, 4));
    assert!(report.problems.is_empty(), "{report:?}");
}
