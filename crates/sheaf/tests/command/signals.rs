//! Ctrl-C and termination end a run in an orderly way; a second signal ends it at once.

use crate::child::{Running, ScratchDirectory, wait_until};
use crate::output::{assert_adds_up, assert_books_match_files, directory, field, number, verify};
use crate::streams;
use serde_json::json;

fn wait_for_files(scratch: &ScratchDirectory) {
    let run = scratch.join("runs/run000001");
    let is_big = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|extension| extension == "sheaf")
            && path.metadata().unwrap().len() > 20_000
    };
    wait_until("events are written", || std::fs::read_dir(&run).is_ok_and(|mut entries| entries.any(is_big)));
}

fn assert_ends_in_good_order(how: &str, signal: &str) {
    let scratch = ScratchDirectory::new();
    let running = scratch.start(&format!("run --duration 0 --readouts 2 --builders 2 {how}"));
    wait_for_files(&scratch);
    running.signal(signal);
    let summary = running.end().exits(0).json();
    assert_eq!(field(&summary, "interrupted"), true);
    assert!(number(&summary, "ledger.stored") > 0);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}), "what was in flight was finished");
    assert_books_match_files(&scratch, &summary);
}

#[test]
fn an_interrupt_ends_one_process_in_good_order() {
    assert_ends_in_good_order("--json", "INT");
}

#[test]
fn a_termination_ends_one_process_in_good_order() {
    assert_ends_in_good_order("--json --transport tcp", "TERM");
}

#[test]
fn an_interrupt_ends_many_processes_in_good_order() {
    assert_ends_in_good_order("--json --processes", "INT");
}

#[test]
fn a_termination_ends_many_processes_in_good_order() {
    assert_ends_in_good_order("--json --processes", "TERM");
}

#[test]
fn an_interrupted_run_prints_its_summary() {
    let scratch = ScratchDirectory::new();
    let running = scratch.start("run --duration 0 --readouts 2 --builders 2");
    wait_for_files(&scratch);
    running.signal("INT");
    let ended = running.end().exits(0).says(&["stopping"]);
    for words in ["events built", "ledger", "balanced", "interrupted"] {
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
}

/// Some nodes may not have connected to the event manager yet. No node waits for another.
#[test]
fn an_interrupt_at_the_start_ends_the_run() {
    for how in ["", "--transport tcp", "--processes"] {
        let scratch = ScratchDirectory::new();
        let running = scratch.start(&format!("run --duration 0 --json {how}"));
        wait_until("the run has a manifest", || scratch.join("runs/run000001/run.json").exists());
        running.signal("INT");
        let summary = running.end().exits(0).json();
        assert_eq!(field(&summary, "interrupted"), true);
        assert_adds_up(&summary);
        verify(&directory(&scratch, &summary), 0);
    }
}

/// A run that would wait a thousand seconds for a fragment.
fn start_a_run_that_waits(scratch: &ScratchDirectory, how: &str) -> Running {
    streams::make(&scratch.join("whole"), 2, 2);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), |source, event| (source, event) != (2, 0));
    let config = scratch.file(
        "wait.toml",
        "[source]\nkind = \"replay\"\n\
         [source.replay]\ndirectory = \"gaps\"\npacing = \"fixed\"\nrate_hz = 0.001\n\
         [readout]\ncount = 2\n[builder]\ncount = 1\n\
         [manager]\nstop_timeout_ms = 1000000\n[incomplete]\npolicy = \"wait\"\n",
    );
    scratch.start(&format!("run {} --json {how}", config.display()))
}

fn assert_closes_at_once(how: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start_a_run_that_waits(&scratch, how);
    running.wait_until_said("1 in flight");
    running.signal("INT");
    running.wait_until_said("finishing in-flight events");
    running.signal("INT");
    let ended = running.end().exits(3).says(&["dropping in-flight events"]);
    let summary = ended.json();
    assert_adds_up(&summary);
    assert_eq!(field(&summary, "interrupted"), true);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({ "stopped": 1 }));
    verify(&directory(&scratch, &summary), 0);
}

#[test]
fn a_second_interrupt_closes_one_process_at_once() {
    assert_closes_at_once("");
}

/// Checks that the remaining files can be verified and that nothing looks like a run in progress.
#[test]
fn a_third_interrupt_ends_the_run_and_leaves_only_files_of_events() {
    let scratch = ScratchDirectory::new();
    let mut running = start_a_run_that_waits(&scratch, "");
    running.wait_until_said("1 in flight");
    let run = scratch.join("runs/run000001");
    assert!(run.join("reserve").exists() && run.join("running").exists() && run.join("bu0.tap").exists());
    running.signal("INT");
    running.wait_until_said("finishing in-flight events");
    // The second and the third signal are sent together, so that the run has no time to close in between.
    for name in ["STOP", "INT", "TERM", "CONT"] {
        running.signal(name);
    }
    let ended = running.end();
    // It may have closed nevertheless, if this process was preempted between the signals.
    if ended.status.code() == Some(130) {
        ended.says(&["is aborted", "sheaf verify"]);
    }
    let entries =
        std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The third signal may arrive between the end of a file and that of the run: `sheaf verify` then needs the list of ended files.
    let is_of_events = |name: &String| name.ends_with(".sheaf") || name.ends_with(".files.jsonl");
    let is_kept = |name: &String| ["run.json", "log.jsonl", "traces.jsonl"].contains(&&**name);
    let left: Vec<_> = entries.filter(|name| !is_of_events(name) && !is_kept(name)).collect();
    assert_eq!(left, [] as [String; 0]);
}

#[test]
fn a_second_interrupt_closes_many_processes_at_once() {
    assert_closes_at_once("--processes");
}
