//! Emulated fragments whose every byte is checked by the builders, over every transport and with every size model; the
//! filter.

use crate::child::ScratchDirectory;
use crate::output::{assert_books_match_files, directory, dump, field, number};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const EVENTS: u64 = 1_500;
const SOURCES: u64 = 6;

const SIZES: [&str; 4] = [
    "size = \"fixed\"\nmean_bytes = 1000",
    "size = \"lognormal\"\nmean_bytes = 2048\nrms_bytes = 4096",
    "size = \"normal\"\nmean_bytes = 3000\nrms_bytes = 900",
    "size = \"minimum-peaked\"\nmean_bytes = 300\nminimum_bytes = 32\npeak_share = 0.6",
];

fn run(scratch: &ScratchDirectory, size: &str, how: &str) -> Value {
    let config = scratch.file(
        "content.toml",
        &format!(
            "[run]\nevents = {EVENTS}\n[source]\ncount = {SOURCES}\n[source.emulated]\n{size}\n\
             [readout]\ncount = 2\n[builder]\ncount = 3\ncheck_content = true\n"
        ),
    );
    scratch.sheaf(&format!("run {} {how} --json", config.display())).exits(0).json()
}

fn assert_all_is_there(scratch: &ScratchDirectory, summary: &Value) {
    assert_books_match_files(scratch, summary);
    assert_eq!(number(summary, "trouble.content_mismatches"), 0);
    assert_eq!(number(summary, "ledger.stored"), EVENTS);
    let lines = dump(&directory(scratch, summary));
    let found: BTreeSet<_> = lines.iter().map(|line| (line.event, u64::from(line.source))).collect();
    let expected = (0..EVENTS).flat_map(|event| (0..SOURCES).map(move |source| (event, source)));
    assert!(found.into_iter().eq(expected), "every event has every source");
    assert_eq!(lines.iter().map(|line| line.bytes).sum::<u64>(), number(summary, "bytes"));
}

#[test]
fn every_byte_is_in_its_place_in_one_process() {
    for size in SIZES {
        let scratch = ScratchDirectory::new();
        assert_all_is_there(&scratch, &run(&scratch, size, "--transport memory"));
    }
}

#[test]
fn every_byte_is_in_its_place_over_tcp() {
    for size in SIZES {
        let scratch = ScratchDirectory::new();
        assert_all_is_there(&scratch, &run(&scratch, size, "--transport tcp"));
    }
}

#[test]
fn every_byte_is_in_its_place_in_many_processes() {
    for size in SIZES {
        let scratch = ScratchDirectory::new();
        assert_all_is_there(&scratch, &run(&scratch, size, "--processes"));
    }
}

#[test]
fn a_prescale_rejects_by_number_and_counts() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file(
        "prescale.toml",
        "[run]\nevents = 1000\n[readout]\ncount = 3\n[builder]\ncount = 2\n\
         [filter]\nkind = \"prescale\"\nprescale = 10\n",
    );
    let summary = scratch.sheaf(&format!("run {} --json", config.display())).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    for (name, expected) in [
        ("events_built", 1000),
        ("ledger.stored", 100),
        ("ledger.rejected", 900),
        ("ledger.fragments.stored", 300),
        ("ledger.fragments.rejected", 2700),
    ] {
        assert_eq!(number(&summary, name), expected, "{name}");
    }
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    let events: BTreeSet<_> = dump(&directory(&scratch, &summary)).iter().map(|line| line.event).collect();
    assert!(events.into_iter().eq((0..1000).step_by(10)));
}

#[test]
fn several_runs_are_dumped_one_after_the_other_under_one_header() {
    let scratch = ScratchDirectory::new();
    for events in [3, 5] {
        scratch.sheaf(&format!("run --events {events} --duration 0 --readouts 1 --builders 2")).exits(0);
    }
    for more in ["", " --verdicts"] {
        let lines = |paths: &str| {
            let said = scratch.sheaf(&format!("dump {paths}{more}")).exits(0).stdout;
            said.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (mut one, two) = (lines("runs/run000001"), lines("runs/run000002"));
        assert_eq!((one[0].clone(), one.len() > 3, two.len() > 5), (two[0].clone(), true, true));
        assert_eq!(lines("runs"), two, "a directory of runs is its newest");
        one.extend_from_slice(&two[1..]);
        assert_eq!(lines("runs/run000001 runs/run000002"), one);
        assert_eq!(lines("runs --all"), one);
    }
}
