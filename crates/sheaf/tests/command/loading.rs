//! A run begins when its workers have loaded their filters.

use crate::child::{Running, ScratchDirectory};
use crate::filters::compile;
use crate::output::{assert_books_match_files, number};

/// Starts a run of ten events whose workers load their filter until the file `parameters` is there.
fn start(scratch: &ScratchDirectory, parameters: &str, filter: &str, how: &str) -> Running {
    compile("crates/sheaf/tests/command/loading_filter.c", &scratch.join("libloading.so"));
    let config = format!(
        "[run]\nevents = 10\n[trigger]\nmode = \"fixed\"\nrate_hz = 1000\n[readout]\ncount = 2\n[builder]\ncount = 2\n\
         [filter]\nkind = \"library\"\npath = \"libloading.so\"\nprocesses = true\nworkers = 2\nparameters = \"{parameters}\"\n{filter}"
    );
    std::fs::write(scratch.join("loads.toml"), config).unwrap();
    scratch.start(&format!("run loads.toml --json {how}"))
}

fn assert_begins_with_its_workers(how: &str) {
    let scratch = ScratchDirectory::new();
    let go = scratch.join("go");
    let mut running = start(&scratch, &go.display().to_string(), "", how);
    running.wait_until_said("starting: waiting for filter workers of bu0, bu1");
    std::fs::write(go, "").unwrap();
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 10);
    assert_eq!(number(&summary, "ledger.offered"), 10, "no trigger came before the workers were there");
}

#[test]
fn a_run_waits_for_its_workers_to_load_their_filters() {
    assert_begins_with_its_workers("");
}

#[test]
fn a_run_in_many_processes_waits_for_its_workers_to_load_their_filters() {
    assert_begins_with_its_workers("--processes");
}

#[test]
fn a_run_whose_workers_end_while_they_load_their_filters_does_not_begin() {
    for how in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let ended = start(&scratch, "/dev/full", "", how).end().exits(1);
        assert!(ended.stderr.contains("ended (exit status: 7)"), "{}", ended.stderr);
        assert!(ended.stderr.contains("ended before they had loaded the filter"), "{}", ended.stderr);
        assert_eq!(number(&ended.json(), "ledger.offered"), 0);
    }
}

#[test]
fn a_run_whose_workers_never_load_their_filters_does_not_begin() {
    let scratch = ScratchDirectory::new();
    let never = scratch.join("never").display().to_string();
    let ended = start(&scratch, &never, "load_time_limit_ms = 100\n", "").end().exits(1);
    // A worker that has joined is silent for too long; one that has not is killed.
    assert!(ended.stderr.contains("ended before they had loaded the filter"), "{}", ended.stderr);
}
