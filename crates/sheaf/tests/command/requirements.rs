//! Runs that lose nodes that they require.

use crate::child::{ScratchDirectory, signal, wait_until};
use crate::output::{assert_books_match_files, directory, field, number, verify};

const CONFIGURATION: &str = "\
[run]
duration_s = 0
[trigger]
mode = \"fixed\"
rate_hz = 2000
[source]
count = 4
[source.emulated]
size = \"fixed\"
mean_bytes = 64
[readout]
count = 2
merge_timeout_ms = 50
[builder]
count = 3
event_timeout_ms = 300
request_retry_ms = 100
[manager]
peer_timeout_ms = 2000
silence_timeout_ms = 3000
[protocol]
heartbeat_ms = 50
";

fn configuration(scratch: &ScratchDirectory, requirement: &str) -> String {
    let file = scratch.file("required.toml", &format!("{CONFIGURATION}{requirement}"));
    format!("run {} --processes --transport tcp --json", file.display())
}

#[test]
fn a_run_that_loses_a_required_node_ends_and_says_why() {
    let scratch = ScratchDirectory::new();
    let run = configuration(&scratch, "[require.readout]\nnodes = [\"ru*\"]\non_loss = \"stop\"\n");
    let mut running = scratch.start(&run);
    running.wait_until_said("running: ");
    // One that leaves is not started again.
    signal(running.wait_for_node("ru1", 0), "TERM");
    let ended = running.end();
    let summary = ended.json();
    let why = "requirement readout is not met without ru1";
    // Events lack its sources.
    ended.exits(3).says(&[why, "the run ends", "[requirement-unmet]"]);
    assert_eq!(field(&summary, "ended_early.reason"), "requirement");
    assert_eq!(field(&summary, "ended_early.why"), why);
    assert_eq!(number(&summary, "trouble.unmet_requirements.readout"), 1);
    let report = verify(&directory(&scratch, &summary), 0);
    assert_eq!(number(&report, "events"), number(&summary, "ledger.stored"));
    let shown = scratch.sheaf("runs show 1 --json").exits(0).json();
    assert_eq!(shown["end"]["reason"], "requirement", "{shown:#}");
}

/// A frozen builder unit is given up, and comes back with a new session.
#[test]
fn a_run_waits_for_a_required_node_and_goes_on() {
    let scratch = ScratchDirectory::new();
    let run = configuration(&scratch, "[require.farm]\nnodes = [\"bu*\"]\nleast = 3\non_loss = \"pause\"\n");
    let mut running = scratch.start(&run);
    running.wait_until_said("running: ");
    let builder = running.wait_for_node("bu1", 0);
    signal(builder, "STOP");
    running.wait_until_said("requirement farm is not met without bu1: the run takes no triggers");
    running.wait_until_said("paused: ");
    signal(builder, "CONT");
    running.wait_until_said("requirement farm is met again");
    let times = running.said().matches("running: ").count();
    wait_until("triggers are taken again", || running.said().matches("running: ").count() > times);
    running.signal("INT");
    let summary = running.end().exits(0).json();
    let dead_time = &field(&summary, "dead_time")["too_few_nodes"];
    let seconds = |value: &serde_json::Value| value.as_f64().expect("a time");
    assert!(seconds(&dead_time["culprits"]["bu1"]) > 0.0, "{dead_time:#}");
    // Not all of it: on a busy machine, another builder unit may have been silent for too long as well.
    assert!(seconds(&dead_time["culprits"]["bu1"]) <= seconds(&dead_time["seconds"]), "{dead_time:#}");
    assert_books_match_files(&scratch, &summary);
}

#[test]
fn a_requirement_that_cannot_be_met_is_refused_before_the_run() {
    let scratch = ScratchDirectory::new();
    for (requirement, words) in [
        ("nodes = [\"ru7\"]", ["no node is named \"ru7\"", "ru0, ru1, bu0, bu1, bu2"]),
        ("nodes = [\"bu*\"]\nleast = 4", ["`require.x.least` is 4, but 3 nodes are named", "at most 3"]),
        ("share = 0.5", ["`require.x.nodes` is not set", "nodes = [\"ru*\"]"]),
    ] {
        let run = configuration(&scratch, &format!("[require.x]\n{requirement}\n"));
        scratch.sheaf(&run).exits(1).says(&words);
    }
    assert!(!scratch.join("runs").exists(), "nothing was begun");
}
