//! Processes that are killed under load.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::output::{
    assert_adds_up, assert_books_match_files, bytes_written, directory, dump, field, incomplete_events,
    number, verify,
};
use serde_json::json;
use sheaf_store::run::RunReader;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A run without a limit, with short timeouts, so that a death is detected quickly.
const IMPATIENT: &str = "\
[run]
duration_s = 0
[source.emulated]
mean_bytes = 500
rms_bytes = 200
[readout]
count = 2
merge_timeout_ms = 50
[builder]
count = 3
check_content = true
event_timeout_ms = 300
request_retry_ms = 100
[manager]
max_attempts = 1000
start_timeout_ms = 5000
stop_timeout_ms = 5000
peer_timeout_ms = 1000
[protocol]
heartbeat_ms = 50
";

fn start(scratch: &ScratchDirectory) -> Running {
    start_over(scratch, "tcp")
}

fn start_over(scratch: &ScratchDirectory, transport: &str) -> Running {
    let config = scratch.file("death.toml", IMPATIENT);
    scratch.start(&format!("run {} --processes --transport {transport} --json", config.display()))
}

/// Returns the number of bytes in the event files of a builder.
fn written(run: &Path, builder: &str) -> u64 {
    bytes_written(run, |name| name.contains(&format!("_{builder}_")))
}

/// Returns the events in the files of a run that may be in progress, each with whether it is complete.
fn events_so_far(run: &Path) -> Vec<(u64, bool)> {
    let events = RunReader::open(run).into_iter().flatten().map_while(Result::ok);
    events.map(|read| (read.event.id.0, !read.event.incomplete)).collect()
}

/// Waits until a builder has written more than now.
fn wait_for_work(running: &Running, scratch: &ScratchDirectory, builder: &str) {
    let run = scratch.join("runs/run000001");
    let before = written(&run, builder);
    wait_until(&format!("{builder} writes events"), || {
        running.assert_runs();
        written(&run, builder) > before + 10_000
    });
}

#[test]
fn builders_that_are_killed_lose_no_event_and_store_none_twice() {
    kill_builders("tcp");
}

#[test]
fn builders_that_are_killed_with_payload_in_shared_memory_lose_no_event_and_store_none_twice() {
    kill_builders("shm");
}

fn kill_builders(transport: &str) {
    let scratch = ScratchDirectory::new();
    let running = start_over(&scratch, transport);
    let mut killed = 0;
    for builder in ["bu1", "bu0", "bu1", "bu2"] {
        let process = running.wait_for_node(builder, killed);
        wait_for_work(&running, &scratch, builder);
        signal(process, "KILL");
        killed = process;
        running.wait_for_node(builder, killed);
        wait_for_work(&running, &scratch, builder);
    }
    running.signal("INT");
    let ended = running.end().exits(0).says(&["bu1 died (signal: 9 (SIGKILL)); it is restarted"]);
    let summary = ended.json();

    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 4);
    assert_eq!(number(&summary, "trouble.content_mismatches"), 0);
    assert_eq!(number(&summary, "events_incomplete"), 0);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"));
    let events: BTreeSet<_> = dump(&directory(&scratch, &summary)).iter().map(|line| line.event).collect();
    assert!(events.into_iter().eq(0..number(&summary, "ledger.triggers")), "every event is there");
}

/// A builder that dies before its first message leaves no unknown file.
#[test]
fn a_builder_that_dies_as_it_starts_does_no_harm() {
    let scratch = ScratchDirectory::new();
    let running = start(&scratch);
    let mut killed = 0;
    for _ in 0..5 {
        killed = running.wait_for_node("bu0", killed);
        signal(killed, "KILL");
    }
    running.wait_for_node("bu0", killed);
    wait_for_work(&running, &scratch, "bu0");
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
}

/// A readout unit that dies is started again. What it held is lost with it, and its emulated sources go on where the run is.
#[test]
fn a_readout_unit_that_is_killed_is_started_again_and_its_sources_go_on() {
    kill_readout("tcp");
}

/// Fragments that builder units hold stay readable after the death of their readout unit.
#[test]
fn a_readout_unit_that_is_killed_takes_no_shared_memory_from_its_readers() {
    kill_readout("shm");
}

fn kill_readout(transport: &str) {
    let scratch = ScratchDirectory::new();
    let config =
        scratch.file("death.toml", &format!("{IMPATIENT}[trigger]\nmode = \"fixed\"\nrate_hz = 500\n"));
    let mut running =
        scratch.start(&format!("run {} --processes --transport {transport} --json", config.display()));
    wait_for_work(&running, &scratch, "bu0");
    signal(running.wait_for_node("ru1", 0), "KILL");
    running.wait_until_said("ru1 died (signal: 9 (SIGKILL)); it is restarted");
    running.wait_until_said("ru1 restarted");
    // A slow machine may take longer to start it than builder units wait, and longer until they hear of it. Builder units may have fragments
    // of some later events that the dead one has sent.
    let in_progress = scratch.join("runs/run000001");
    let (last, _) = events_so_far(&in_progress).into_iter().max().expect("events are stored");
    wait_until("there are complete events again", || {
        running.assert_runs();
        events_so_far(&in_progress).into_iter().any(|(event, is_complete)| event > last + 500 && is_complete)
    });
    running.signal("INT");
    let summary = running.end().json();
    assert_eq!(field(&summary, "ledger.balanced"), true, "{summary:#}");
    assert_eq!(number(&summary, "trouble.restarted_readouts"), 1);
    let run = directory(&scratch, &summary);
    let report = verify(&run, 0);
    assert_eq!(number(&report, "events"), number(&summary, "ledger.stored"));
    for (event, missing) in incomplete_events(&run) {
        assert!(missing.keys().eq([&1]), "event {event}: {missing:?}");
    }
}

/// A readout unit that leaves is not started again. The run continues without it and ends, and its exit status reports that not everything is
/// accounted for.
#[test]
fn a_readout_unit_that_leaves_is_missing_in_the_events_and_the_books() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch);
    wait_for_work(&running, &scratch, "bu0");
    signal(running.wait_for_node("ru1", 0), "TERM");
    running.wait_until_said("ru1 left the run [node-left]");
    wait_for_work(&running, &scratch, "bu0");
    running.signal("INT");
    let summary = running.end().exits(3).json();

    assert_eq!(field(&summary, "ledger.balanced"), false);
    assert!(field(&summary, "ledger.problems").to_string().contains("no books of ru1"), "{summary:#}");
    let run = directory(&scratch, &summary);
    let report = verify(&run, 0);
    assert_eq!(number(&report, "events"), number(&summary, "ledger.stored"));
    let incomplete = incomplete_events(&run);
    assert!(!incomplete.is_empty());
    assert_eq!(incomplete.len() as u64, number(&report, "events_incomplete"));
    for (event, missing) in incomplete {
        assert!(missing.keys().eq([&1]), "event {event}: {missing:?}");
    }
}

/// Without the event manager there is no run: the others close their files and end.
#[test]
fn without_the_event_manager_the_run_ends_with_an_error() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch);
    wait_for_work(&running, &scratch, "bu0");
    let children = running.children();
    signal(running.wait_for_node("evm", 0), "KILL");
    running.wait_until_said("evm ended: signal: 9 (SIGKILL)");
    let ended = running.end().exits(1).says(&["ended without a report", "sheaf verify runs/run000001"]);
    assert_eq!(ended.stdout, "", "there is no summary to print");
    assert_gone(&children);
    // The files of the builders are readable, but it is not known which of their events count.
    let report = verify(&scratch.join("runs/run000001"), 3);
    let problems = field(&report, "problems").as_array().unwrap();
    assert_eq!(problems.len(), 1, "{report:#}");
    assert!(problems[0].to_string().contains("the run was not closed"), "{report:#}");
    assert!(number(&report, "events") > 0);
}

/// A node that leaves is not started again, so it is named at once: the run goes on without it.
#[test]
fn a_node_that_leaves_is_named_while_the_run_goes_on() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch);
    wait_for_work(&running, &scratch, "bu0");
    signal(running.wait_for_node("bu0", 0), "TERM");
    running.wait_until_said("bu0 left the run [node-left]");
    wait_for_work(&running, &scratch, "bu1");
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
}

/// An event manager that is stopped has not ended: its nodes wait for it, longer than nodes that were started by hand.
#[test]
fn nodes_of_one_run_outwait_an_event_manager_that_is_slow() {
    let scratch = ScratchDirectory::new();
    scratch.file(
        "slow.toml",
        &IMPATIENT.replace("peer_timeout_ms = 1000", "peer_timeout_ms = 1000\nsilence_timeout_ms = 1500"),
    );
    let running = scratch.start("run slow.toml --processes --json");
    wait_for_work(&running, &scratch, "bu0");
    let manager = running.wait_for_node("evm", 0);
    signal(manager, "STOP");
    // A builder that is new finds it stopped. Nodes that were started by hand would give up after 10 s.
    signal(running.wait_for_node("bu1", 0), "KILL");
    std::thread::sleep(Duration::from_secs(11));
    signal(manager, "CONT");
    wait_for_work(&running, &scratch, "bu0");
    wait_for_work(&running, &scratch, "bu1");
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
}

#[test]
fn children_end_with_their_parent() {
    let scratch = ScratchDirectory::new();
    let running = start(&scratch);
    wait_for_work(&running, &scratch, "bu0");
    let children = running.children();
    assert_eq!(children.len(), 6);
    running.signal("KILL");
    running.end();
    assert_gone(&children);
}

#[track_caller]
fn assert_gone(children: &[(String, u32)]) {
    for (name, process) in children {
        let path = format!("/proc/{process}/cmdline");
        // A zombie has no command line any more.
        wait_until(&format!("{name} is gone"), || {
            std::fs::read(&path).is_ok_and(|line| line.is_empty()) || !Path::new(&path).exists()
        });
    }
}

/// Tests the helper: the books of a run in which no process dies.
#[test]
fn the_books_of_a_run_without_deaths_add_up() {
    let scratch = ScratchDirectory::new();
    let running = start(&scratch);
    wait_for_work(&running, &scratch, "bu0");
    running.signal("TERM");
    let summary = running.end().exits(0).json();
    assert_adds_up(&summary);
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0);
}
