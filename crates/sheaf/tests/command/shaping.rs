//! Every policy of sending super-fragments to the builder units, over every transport of one host.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, field, number};

const EVENTS: u64 = 1_000;

/// Runs four by four nodes and checks every byte.
fn run(transport: &str, processes: &str, shaping: &str) -> serde_json::Value {
    let scratch = ScratchDirectory::new();
    let text = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"{transport}\"\n[builder]\ncheck_content = true\n\
         [protocol]\nmessage_bytes = 32768\n[output]\nkind = \"none\"\n[shaping]\n{shaping}\n"
    );
    let config = scratch.file("shaping.toml", &text).display().to_string();
    let command = format!("run {config} --readouts 4 --builders 4 {processes} --json");
    let summary = scratch.sheaf(&command).exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{transport}: {shaping}");
    assert_eq!(number(&summary, "events_incomplete"), 0, "{transport}: {shaping}");
    summary
}

const POLICIES: [&str; 5] = [
    "policy = \"pull\"",
    "policy = \"paced\"\ncredit_bytes = 20000",
    "policy = \"push\"",
    "policy = \"barrel\"",
    "policy = \"barrel\"\nsynchronised = true\nline_rate_bits = 2_000_000_000\nblock_bytes = 131072",
];

#[test]
fn events_are_whole_with_every_policy_on_threads() {
    for policy in POLICIES {
        let summary = run("memory", "", policy);
        let evolution = field(&summary, "evolution.events").as_object().unwrap();
        let ended = |counts: &serde_json::Value| -> u64 {
            counts.as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum()
        };
        assert_eq!(evolution.values().map(ended).sum::<u64>(), EVENTS, "{evolution:?}");
    }
}

#[test]
fn events_are_whole_with_every_policy_in_processes() {
    for policy in &POLICIES[1..] {
        run("tcp", "--processes", policy);
    }
    run("shm", "--processes", POLICIES[3]);
}
