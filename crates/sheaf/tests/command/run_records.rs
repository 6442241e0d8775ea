//! Run records, from files and from programs: in every event file, found without reading events.

use crate::child::ScratchDirectory;
use crate::feed::{options, payload};
use crate::output::{assert_books_match_files, directory, number};
use serde_json::{Value, json};
use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, FeedError, SourceClient, SourceRecord};
use sheaf_wire::run_record::RecordKind;
use sheaf_wire::{EventId, Timestamp};
use std::fs;

/// Runs with records from files, and returns the summary.
fn run(scratch: &ScratchDirectory, how: &str, output: &str) -> Value {
    fs::create_dir(scratch.join("boards")).expect("a directory");
    scratch.file("boards/0.cfg", "threshold = 12\n");
    scratch.file("boards/3-map.txt", &"channel\n".repeat(1000));
    let boards = scratch.join("boards");
    let config = scratch.file(
        "records.toml",
        &format!(
            "[run]\nevents = 2000\n[source]\ncount = 4\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = 64\n\
             [readout]\ncount = 2\n[builder]\ncount = 2\n[output]\nbegin_records = \"{}\"\n{output}",
            boards.display()
        ),
    );
    let summary = scratch.sheaf(&format!("run {} {how} --json", config.display())).exits(0).json();
    assert_books_match_files(scratch, &summary);
    summary
}

#[test]
fn every_event_file_has_the_records_of_the_run_and_each_counts_once() {
    for (how, output) in [
        ("--transport memory", "rotate_events = 300"),
        ("--processes", ""),
        ("--transport memory", "nodes = 1"),
    ] {
        let scratch = ScratchDirectory::new();
        let directory = directory(&scratch, &run(&scratch, how, output));
        let files: Vec<_> = fs::read_dir(&directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "sheaf"))
            .collect();
        for path in files.iter().chain([&directory]) {
            let inspected = scratch.sheaf(&format!("inspect {} --json", path.display())).exits(0).json();
            let records = inspected["records"].as_array().expect("a list");
            let mut names: Vec<_> =
                records.iter().map(|record| [&record["source"], &record["name"], &record["bytes"]]).collect();
            names.sort_by_key(|[source, ..]| source.as_u64());
            let expected =
                [[json!(0), json!("0.cfg"), json!(15)], [json!(3), json!("3-map.txt"), json!(8000)]];
            assert_eq!(names, expected.each_ref().map(|row| row.each_ref()), "{how}, {}", path.display());
            assert!(records.iter().all(|record| record["kind"] == "begin"));
        }
        let verified = scratch.sheaf(&format!("verify {} --json", directory.display())).exits(0).json();
        assert_eq!(number(&verified, "records"), 2, "{how}");
        let text = scratch.sheaf(&format!("inspect {}", directory.display())).exits(0).stdout;
        assert!(text.contains("source 3, begin, \"3-map.txt\": 8,000 bytes"), "{text}");
    }
}

#[test]
fn a_run_does_not_begin_with_a_file_that_is_of_no_source() {
    let scratch = ScratchDirectory::new();
    fs::create_dir(scratch.join("boards")).expect("a directory");
    scratch.file("boards/board.cfg", "");
    let boards = scratch.join("boards");
    let config =
        scratch.file("records.toml", &format!("[output]\nbegin_records = \"{}\"\n", boards.display()));
    let ended = scratch.sheaf(&format!("run {} --transport memory --events 10", config.display())).exits(1);
    assert!(ended.stderr.contains("the name must begin with the id of a source"), "{}", ended.stderr);
}

fn record(kind: RecordKind, time: u64, name: &str, content: Vec<u8>) -> SourceRecord {
    SourceRecord { kind, time: Some(Timestamp(time)), name: name.to_owned(), content: content.into() }
}

/// Feeds source 0 of a run, with records before, during and after it.
pub(crate) fn feed_with_records(scratch: &ScratchDirectory, events: u64) {
    let late = ClientOptions { late_records: true, ..options(&[0]) };
    let mut board = SourceClient::connect(&scratch.join("runs/ru0.feed"), late).expect("the run accepts it");
    let begin = record(RecordKind::Begin, 1, "config.toml", b"gain = 3".to_vec());
    board.record(0, begin.clone()).expect("before the run begins");
    board.record(0, begin).expect("a repeat changes nothing");
    assert!(board.wait_for_start(None).expect("connected"));
    for event in 0..events {
        let (time, payload) = (Timestamp(event), payload(0, event));
        let fragment = SourceFragment { event: EventId(event), time, payload: &payload };
        board.send(0, fragment).expect("the run takes fragments");
        if event % 100 == 50 {
            let value = record(RecordKind::SlowControl, 2 + event, "voltage", vec![7; 3000]);
            board.record(0, value).expect("the run takes records");
        }
    }
    let large = record(RecordKind::SlowControl, 5, "large", vec![0; (1 << 20) + 1]);
    let error = board.record(0, large).expect_err("too large");
    assert!(matches!(error, FeedError::RecordTooLarge { .. }), "{error}");
    board.end(0).expect("connected");
    assert!(board.wait_for_end(None).expect("the run waits for its last records"));
    board.record(0, record(RecordKind::End, 9_000, "counters", vec![1; 1 << 20])).expect("after the run");
}

#[test]
fn records_of_a_program_are_in_the_files_of_all_writers_also_those_after_the_end_of_the_run() {
    let mut cases = vec![
        ("", "[output]\nrotate_events = 100\n"),
        ("--processes", ""),
        ("--processes", "[output]\nnodes = 2\n"),
        ("", "[output]\nnodes = 1\n"),
    ];
    if cfg!(feature = "hdf5") {
        cases.push(("", "[output]\nformat = \"hdf5\"\nrotate_events = 100\n"));
        cases.push(("--processes", "[output]\nformat = \"hdf5\"\nnodes = 1\n"));
    }
    for (how, output) in cases {
        let scratch = ScratchDirectory::new();
        scratch.file(
            "run.toml",
            &format!(
                "[source]\nkind = \"feed\"\ncount = 1\n[readout]\ncount = 1\n[builder]\ncount = 2\n{output}"
            ),
        );
        let run = scratch.start(&format!("run run.toml --json {how}"));
        feed_with_records(&scratch, 1_000);
        let summary = run.end().exits(0).json();
        assert_books_match_files(&scratch, &summary);
        let directory = directory(&scratch, &summary);
        let verified = scratch.sheaf(&format!("verify {} --json", directory.display())).exits(0).json();
        assert_eq!(number(&verified, "records"), 12, "{how} {output}");
        // The last file of each writer has all of them.
        let mut last = std::collections::BTreeMap::new();
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            let stem = name.strip_suffix(".sheaf").or_else(|| name.strip_suffix(".h5"));
            if let Some((session, _)) = stem.and_then(|name| name.rsplit_once('_')) {
                let newest = last.entry(session.to_owned()).or_insert_with(|| path.clone());
                *newest = newest.clone().max(path);
            }
        }
        assert!(!last.is_empty());
        for path in last.values() {
            let inspected = scratch.sheaf(&format!("inspect {} --json", path.display())).exits(0).json();
            let records = inspected["records"].as_array().expect("a list");
            assert_eq!(records.len(), 12, "{how} {output} {}", path.display());
            assert_eq!(records.iter().filter(|record| record["kind"] == "end").count(), 1);
        }
        if cfg!(feature = "hdf5") {
            let exported = scratch.sheaf(&format!("export {} run.h5", directory.display())).exits(0).stdout;
            assert!(exported.contains(", 12 run records are in run.h5"), "{exported}");
            let verified = scratch.sheaf("verify run.h5 --json").exits(0).json();
            assert_eq!(number(&verified, "records"), 12, "{how} {output}");
        }
    }
}
