//! Slow filters lose no events, and the end of a run waits for them until it is interrupted.

use crate::child::{Running, ScratchDirectory};
use crate::filters::compile;
use crate::output::{assert_books_match_files, field, number, verify};
use std::time::Duration;

/// Judging the events that a builder unit has at a time takes longer than the patience with silent nodes.
fn assert_takes_its_time(how: &str) {
    let scratch = ScratchDirectory::new();
    compile("crates/sheaf/tests/command/slow_filter.c", &scratch.join("libslow.so"));
    let config = scratch.file(
        "slow.toml",
        "[run]\nevents = 80\n[filter]\nkind = \"library\"\npath = \"libslow.so\"\nparameters = \"100\"\n\
         [readout]\ncount = 2\n[builder]\ncount = 2\n[source.emulated]\nmean_bytes = 500\nrms_bytes = 0\n",
    );
    let summary = scratch.sheaf(&format!("run {} --json {how}", config.display())).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 80, "{how}");
    assert_eq!(number(&summary, "events_incomplete"), 0, "{how}");
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0, "{how}");
    assert_eq!(field(&summary, "kept.all"), true, "{how}");
    assert_eq!(number(&summary, "counters.farm_judged"), 80, "a worker judges without being asked for");
}

#[test]
fn a_filter_that_takes_its_time_loses_no_event_in_one_process() {
    assert_takes_its_time("");
}

#[test]
fn a_filter_that_takes_its_time_loses_no_event_in_many_processes() {
    assert_takes_its_time("--processes");
}

#[test]
fn a_filter_that_takes_its_time_loses_no_event_in_shared_memory() {
    assert_takes_its_time("--processes --transport shm");
}

/// Starts a run of ten events whose filter does not return from one call before the file `go` exists. The other nodes would give it
/// up after a second if it did not report that it is working.
fn start(scratch: &ScratchDirectory, how: &str) -> Running {
    compile("crates/sheaf/tests/command/waiting_filter.c", &scratch.join("libwaiting.so"));
    let go = scratch.join("go");
    let config = format!(
        "[run]\nevents = 10\n[filter]\nkind = \"library\"\npath = \"libwaiting.so\"\nparameters = \"{}\"\n\
         [readout]\ncount = 2\n[builder]\ncount = 2\n[manager]\nstop_timeout_ms = 1000\nbatch_events = 2\n",
        go.display()
    );
    std::fs::write(scratch.join("waits.toml"), config).unwrap();
    scratch.start(&format!("run waits.toml {how}"))
}

fn assert_waits_for_one_call(how: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, &format!("--json {how}"));
    running.wait_until_said("waiting for the filter of bu");
    // Longer than the time after which a silent node is given up.
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(scratch.join("go"), "").unwrap();
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 10);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0);
}

#[test]
fn one_process_waits_for_a_long_call_and_reports_that() {
    assert_waits_for_one_call("");
}

#[test]
fn many_processes_wait_for_a_long_call_and_report_that() {
    assert_waits_for_one_call("--processes");
}

fn assert_second_interrupt_cuts(how: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, how);
    running.wait_until_said("waiting for the filter of bu");
    running.signal("INT");
    running.wait_until_said("finishing in-flight events");
    running.wait_until_said("Ctrl-C again drops");
    running.signal("INT");
    let ended = running.end().exits(3);
    let first = ended.stdout.lines().next().unwrap();
    assert!(first.starts_with("LOST ") && first.contains(" of 10 accepted triggers"), "{}", ended.stdout);
    assert!(ended.stdout.contains("triggers stopped: "), "{}", ended.stdout);
    assert!(ended.stdout.contains("remedy: a second Ctrl-C drops"), "{}", ended.stdout);
    verify(&scratch.join("runs/run000001"), 0);
}

#[test]
fn a_second_interrupt_cuts_a_long_call_in_one_process() {
    assert_second_interrupt_cuts("");
}

#[test]
fn a_second_interrupt_cuts_a_long_call_in_many_processes() {
    assert_second_interrupt_cuts("--processes");
}

/// The filter is configured as quick, but is not: the builder unit judges on its own thread, and answers messages between two
/// events.
#[test]
fn a_filter_on_the_builder_units_own_thread_may_be_slow() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file(
        "own.toml",
        "[run]\nevents = 160\n[filter]\nkind = \"busy\"\nbusy_us = 20000\nworkers = 0\n\
         [readout]\ncount = 2\n[builder]\ncount = 1\nevent_timeout_ms = 60000\n\
         [source.emulated]\nmean_bytes = 500\nrms_bytes = 0\n",
    );
    let summary = scratch.sheaf(&format!("run {} --json --processes", config.display())).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 160);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0);
    assert_eq!(summary["counters"].get("farm_judged"), None, "no worker judges");
    let each = field(&summary, "inline_judging_us").as_f64().unwrap();
    assert!(each >= 20_000.0, "an event takes at least the filter's processor time: {each}");
}
