//! Begin-of-run records: in every event file, found without reading events.

use crate::child::Place;
use crate::output::{assert_books_match_files, directory, number};
use serde_json::{Value, json};
use std::fs;

/// Runs with records from files, and returns the summary.
fn run(place: &Place, how: &str, output: &str) -> Value {
    fs::create_dir(place.join("boards")).expect("a directory");
    place.file("boards/0.cfg", "threshold = 12\n");
    place.file("boards/3-map.txt", &"channel\n".repeat(1000));
    let boards = place.join("boards");
    let config = place.file(
        "records.toml",
        &format!(
            "[run]\nevents = 2000\n[source]\ncount = 4\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = 64\n\
             [readout]\ncount = 2\n[builder]\ncount = 2\n[output]\nbegin_records = \"{}\"\n{output}",
            boards.display()
        ),
    );
    let summary = place.sheaf(&format!("run {} {how} --json", config.display())).exits(0).json();
    assert_books_match_files(place, &summary);
    summary
}

#[test]
fn every_event_file_has_the_records_of_the_run_and_each_counts_once() {
    for (how, output) in [
        ("--transport memory", "rotate_events = 300"),
        ("--processes", ""),
        ("--transport memory", "nodes = 1"),
    ] {
        let place = Place::new();
        let directory = directory(&place, &run(&place, how, output));
        let files: Vec<_> = fs::read_dir(&directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "sheaf"))
            .collect();
        for path in files.iter().chain([&directory]) {
            let inspected = place.sheaf(&format!("inspect {} --json", path.display())).exits(0).json();
            let records = inspected["records"].as_array().expect("a list");
            let mut names: Vec<_> =
                records.iter().map(|record| [&record["source"], &record["name"], &record["bytes"]]).collect();
            names.sort_by_key(|[source, ..]| source.as_u64());
            let expected =
                [[json!(0), json!("0.cfg"), json!(15)], [json!(3), json!("3-map.txt"), json!(8000)]];
            assert_eq!(names, expected.each_ref().map(|row| row.each_ref()), "{how}, {}", path.display());
            assert!(records.iter().all(|record| record["kind"] == "begin"));
        }
        let verified = place.sheaf(&format!("verify {} --json", directory.display())).exits(0).json();
        assert_eq!(number(&verified, "records"), 2, "{how}");
        let text = place.sheaf(&format!("inspect {}", directory.display())).exits(0).stdout;
        assert!(text.contains("source 3, begin, \"3-map.txt\": 8,000 bytes"), "{text}");
    }
}

#[test]
fn a_run_does_not_begin_with_a_file_that_is_of_no_source() {
    let place = Place::new();
    fs::create_dir(place.join("boards")).expect("a directory");
    place.file("boards/board.cfg", "");
    let boards = place.join("boards");
    let config = place.file("records.toml", &format!("[output]\nbegin_records = \"{}\"\n", boards.display()));
    let ended = place.sheaf(&format!("run {} --transport memory --events 10", config.display())).exits(1);
    assert!(ended.stderr.contains("the name must begin with the id of a source"), "{}", ended.stderr);
}
