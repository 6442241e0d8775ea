//! Output nodes: over every transport, killed under load, with full disks.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::output::{assert_books_match_files, directory, dump, field, number};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

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
count = 2
check_content = true
slots = 256
event_timeout_ms = 300
request_retry_ms = 100
[manager]
max_attempts = 1000
start_timeout_ms = 5000
stop_timeout_ms = 20000
peer_timeout_ms = 1000
[protocol]
heartbeat_ms = 50
[output]
nodes = 2
";

fn counter(summary: &Value, name: &str) -> u64 {
    field(summary, "counters").get(name).map_or(0, |value| value.as_u64().expect("a number"))
}

/// Returns the nodes that have files in the run's directory.
fn writers(run: &Path) -> BTreeSet<String> {
    let names =
        std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = names.filter(|name| name.ends_with(".sheaf"));
    files.map(|name| name.split('_').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn output_nodes_write_what_builder_units_accept_over_every_transport() {
    for transport in ["memory", "tcp", "shm", "udp"] {
        let scratch = ScratchDirectory::new();
        let config = format!(
            "{IMPATIENT}[filter]\nkind = \"prescale\"\nprescale = 3\n[streams.default]\nprescale = 2\n[streams.all]\n"
        );
        let config = scratch.file("outputs.toml", &config);
        let ended =
            scratch.sheaf(&format!("run {} --transport {transport} --events 3000 --json", config.display()));
        let summary = ended.exits(0).json();
        assert_books_match_files(&scratch, &summary);
        assert_eq!((number(&summary, "ledger.stored"), number(&summary, "ledger.rejected")), (1000, 2000));
        assert_eq!((counter(&summary, "forwarded_events"), counter(&summary, "taken_events")), (1000, 1000));
        assert_eq!(counter(&summary, "output_stream_all_events"), 1000, "{summary:#}");
        assert_eq!(writers(&directory(&scratch, &summary)), ["out0", "out1"].map(str::to_owned).into());
    }
}

/// Runs for longer than every timeout for silence, with an event manager that is mostly idle.
fn assert_outlives_every_time_limit(transport: &str) {
    let scratch = ScratchDirectory::new();
    let config =
        IMPATIENT.replace("peer_timeout_ms = 1000", "peer_timeout_ms = 300\nsilence_timeout_ms = 1000");
    let config = format!("{config}[trigger]\nmode = \"fixed\"\nrate_hz = 20\n");
    let config = scratch.file("quiet.toml", &config);
    let run = format!("run {} --processes --transport {transport} --events 160 --json", config.display());
    let summary = scratch.sheaf(&run).exits(0).json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 160);
}

#[test]
fn output_nodes_outlive_every_time_limit_of_a_quiet_run_over_tcp() {
    assert_outlives_every_time_limit("tcp");
}

#[test]
fn output_nodes_outlive_every_time_limit_of_a_quiet_run_in_shared_memory() {
    assert_outlives_every_time_limit("shm");
}

/// Waits until the run has written more than now.
fn wait_for_work(scratch: &ScratchDirectory) {
    let run = scratch.join("runs/run000001");
    let written = || -> u64 {
        let entries = std::fs::read_dir(&run).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).sum()
    };
    let before = written();
    wait_until("the run writes events", || written() > before + 20_000);
}

/// Ends the run and checks its files: every event must be there exactly once.
fn end(scratch: &ScratchDirectory, running: Running) -> Value {
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"));
    assert_eq!(number(&summary, "trouble.content_mismatches"), 0);
    let events: BTreeSet<_> = dump(&directory(scratch, &summary)).iter().map(|line| line.event).collect();
    assert!(events.into_iter().eq(0..number(&summary, "ledger.triggers")), "every event is there");
    summary
}

/// Twenty kills under load, among them two of builder units.
fn kill_twenty(transport: &str) {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("outputs.toml", IMPATIENT);
    let run = format!("run {} --processes --transport {transport} --json", config.display());
    let running = scratch.start(&run);
    for kill in 0..20 {
        let name = if kill % 10 == 9 { "bu0" } else { ["out0", "out1"][kill % 2] };
        let victim = running.wait_for_node(name, 0);
        wait_for_work(&scratch);
        signal(victim, "KILL");
        running.wait_for_node(name, victim);
    }
    wait_for_work(&scratch);
    let summary = end(&scratch, running);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 2);
    assert!(number(&summary, "trouble.restarted_outputs") > 0, "{summary:#}");
    assert!(counter(&summary, "forwarded_again") > 0, "{summary:#}");
    assert_eq!(counter(&summary, "output_accounts_lost"), 18, "{summary:#}");
}

#[test]
fn output_nodes_that_are_killed_lose_no_event_and_store_none_twice() {
    kill_twenty("tcp");
}

#[test]
fn output_nodes_that_are_killed_with_payload_in_shared_memory_lose_no_event_and_store_none_twice() {
    kill_twenty("shm");
}
