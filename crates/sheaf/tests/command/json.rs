//! `--json` prints one object with all documented fields on standard output, and nothing else.

use crate::child::ScratchDirectory;
use crate::output::{assert_books_match_files, field, number};
use crate::streams;
use serde_json::Value;

const SMALL: &str = "run --readouts 2 --builders 2 --events 2000 --output runs";

#[test]
fn a_run_has_all_its_numbers() {
    let scratch = ScratchDirectory::new();
    let summary = scratch.sheaf(&format!("{SMALL} --json")).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    for (name, expected) in [
        ("events_built", 2000),
        ("events_incomplete", 0),
        ("fragments", 4000),
        ("ledger.triggers", 2000),
        ("ledger.stored", 2000),
        ("ledger.rejected", 0),
        ("ledger.in_flight", 0),
    ] {
        assert_eq!(number(&summary, name), expected, "{name}");
    }
    assert!(number(&summary, "bytes") > 4000);
    assert!(number(&summary, "peak_rss_bytes") > 1_000_000);
    for rate in ["seconds", "cpu_seconds", "events_per_second", "fragments_per_second", "bytes_per_second"] {
        assert!(field(&summary, rate).as_f64().is_some_and(|rate| rate > 0.0), "{rate}");
    }
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| number(&summary, &format!("latency_ns.{name}")));
    assert!(0 < p50 && p50 <= p99 && p99 <= max, "{p50} {p99} {max}");
    assert_eq!(field(&summary, "output"), "runs/run000001");
    assert_eq!(field(&summary, "interrupted"), false);
    assert_eq!(field(&summary, "ledger.dropped"), &serde_json::json!({}));
}

#[test]
fn processes_have_the_same_numbers_as_one() {
    let scratch = ScratchDirectory::new();
    let one = scratch.sheaf(&format!("{SMALL} --json")).exits(0).json();
    let many = scratch.sheaf(&format!("{SMALL} --processes --json")).exits(0).json();
    assert_books_match_files(&scratch, &many);
    assert_eq!(names(&one), names(&many));
    for name in ["events_built", "events_incomplete", "fragments", "bytes", "ledger.stored"] {
        assert_eq!(number(&one, name), number(&many, name), "{name}");
    }
}

#[test]
fn payload_that_is_read_is_neither_judged_nor_changed() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("read.toml", "[builder]\nread_payload = true\n");
    let run = format!("run {} --readouts 2 --builders 2 --events 500 --output runs --json", config.display());
    let summary = scratch.sheaf(&run).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 500);
}

#[test]
fn a_directory_of_runs_stands_for_its_newest_run_or_with_a_flag_for_all() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --readouts 1 --builders 1 --events 30 --runs 3 --json").exits(0);
    for command in ["inspect", "verify", "verify --all runs/run000003"] {
        let said = scratch.sheaf(&format!("{command} --json runs")).exits(0);
        let last: Value =
            serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap_or_else(|_| said.json());
        assert_eq!(field(&last, "path"), "runs/run000003", "{command}");
    }
    let lines = |ended: crate::child::Ended| -> Vec<String> {
        let value = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
        let path = |line: &str| field(&value(line), "path").as_str().unwrap().to_owned();
        ended.stdout.lines().map(path).collect()
    };
    let all = ["runs/run000001", "runs/run000002", "runs/run000003"];
    assert_eq!(lines(scratch.sheaf("verify --all --json runs").exits(0)), all);
    assert_eq!(lines(scratch.sheaf("verify --json runs/run000001 runs").exits(0)), [all[0], all[2]]);
    for command in ["dump", "log", "runs show"] {
        let said = |run: &str| scratch.sheaf(&format!("{command} {run}")).exits(0).stdout;
        assert_eq!(said("runs"), said("runs/run000003"), "{command}");
    }

    // The worst result determines the status, and an unreadable run does not prevent the check of the others.
    std::fs::write(scratch.join("runs/run000002/run.json"), "{}").unwrap();
    let ended = scratch.sheaf("verify --all --json runs nothing").exits(1);
    let ended = ended.says(&["run000002/run.json", "nothing", "2 of 4 paths could not be read"]);
    assert_eq!(lines(ended), [all[0], all[2]]);
    let manifest = scratch.join("runs/run000001/run.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"stored\": 30", "\"stored\": 31")).unwrap();
    assert_eq!(lines(scratch.sheaf("verify --json runs/run000001 runs").exits(3)), [all[0], all[2]]);
}

fn names(summary: &Value) -> Vec<String> {
    let object = |path: &str| {
        let value = if path.is_empty() { summary } else { field(summary, path) };
        value.as_object().unwrap().keys().map(|key| format!("{path}.{key}")).collect::<Vec<_>>()
    };
    ["", "ledger", "ledger.fragments", "latency_ns", "trouble"].into_iter().flat_map(object).collect()
}

#[test]
fn every_command_prints_one_object() {
    let scratch = ScratchDirectory::new();
    let run = scratch.sheaf(&format!("{SMALL} --json")).exits(0).json();
    assert_eq!(number(&run, "ledger.stored"), 2000);
    streams::make(&scratch.join("streams"), 3, 10);
    for (path, kind, events, fragments) in
        [("runs/run000001", "run", 2000, 4000), ("streams", "stream_directory", 10, 30)]
    {
        for command in ["inspect", "verify"] {
            let said = scratch.sheaf(&format!("{command} {path} --json")).exits(0).json();
            assert_eq!(field(&said, "kind"), kind, "{command}");
            assert_eq!(number(&said, "fragments"), fragments, "{command} {path}");
            // Inspecting the headers and records of streams does not build events.
            let events = if (command, kind) == ("inspect", "stream_directory") { 0 } else { events };
            assert_eq!(number(&said, "events"), events, "{command} {path}");
        }
    }
}

#[test]
fn without_a_file_events_are_counted_and_nothing_is_written() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("none.toml", "[output]\nkind = \"none\"\n[run]\nevents = 500\n");
    let summary = scratch.sheaf(&format!("run {} --json", config.display())).exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 500);
    assert!(field(&summary, "output").is_null());
    assert!(!scratch.join("runs").exists());
}
