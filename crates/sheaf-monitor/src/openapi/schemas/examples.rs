//! Examples of answers.

use crate::state::{Context, compose};
use serde_json::{Value, json};
use sheaf_telemetry::Snapshot;

const TIME_MS: u64 = 1_780_000_000_000;

pub(in crate::openapi) fn operation() -> Value {
    json!({
        "id": 5, "command": "start", "by": "alice", "began_ms": TIME_MS, "deadline_ms": TIME_MS + 60_000,
        "progress": "waits for ru1", "ended_ms": null, "result": null, "text": null
    })
}

pub(in crate::openapi) fn control() -> Value {
    let command =
        |name: &str, why: Option<&str>| json!({ "command": name, "allowed": why.is_none(), "why": why });
    let under_way = Some("run 7 is running");
    json!({
        "state": "running", "target": "running", "revision": 17, "system": "partition tracker of run.toml", "run": 7, "by": "alice",
        "partition": "tracker",
        "partitions": [{
            "partition": "calo", "nodes": 3, "sources": 16, "controller": "http://127.0.0.1:7071/", "remote": null,
            "in_use": [{ "partition": "calo", "run": 8, "by": "bob", "since_ms": TIME_MS, "host": "daq1", "process": 4711, "page": "http://127.0.0.1:7071/" }]
        }],
        "ends": { "events": 1000, "duration_ms": null },
        "operation": null, "last": null,
        "last_run": { "launch": 6, "run": 6, "good": true, "text": "run 6 ended: 1,000 events stored" },
        "lock": { "by": "alice", "until_ms": TIME_MS + 300_000 },
        "faults": [{
            "id": 3, "since_ms": TIME_MS, "code": "run_failed", "text": "run 5 lost 12 events", "remedy": "look at `sheaf runs show 5`"
        }],
        "sources": [{ "source": 17, "name": "ecal", "included": false, "excluded": true }],
        "nodes": [{ "node": "ru1", "included": false, "excluded": true, "recovering": false, "not_recovered": null }],
        "sequence": sequence(),
        "silences": [silence()], "alarms_seen_ms": TIME_MS,
        "commands": [
            command("configure", under_way), command("start", under_way), command("pause", None),
            command("resume", under_way), command("switch", None), command("stop", None), command("reset", None)
        ]
    })
}

pub(in crate::openapi) fn silence() -> Value {
    json!({
        "id": 2, "code": "dead-time", "culprit": "bu1", "by": "alice", "why": "its disk is being replaced", "since_ms": TIME_MS, "until_ms": TIME_MS + 3_600_000
    })
}

pub(in crate::openapi) fn sequence() -> Value {
    json!({
        "id": 2, "name": "thresholds", "by": "alice", "state": "running", "reason": null, "on_failure": "repeat", "row": 2, "launch": 7,
        "row_began_ms": TIME_MS, "rows": 3, "done": 1, "failed": 0, "skipped": 0, "mean_ms": 61_000
    })
}

pub(in crate::openapi) fn sequence_row() -> Value {
    json!({
        "row": 1, "values": { "filter.busy_us": "10", "run.events": "1000" }, "comment": null, "state": "done", "run": 6, "triggers": 1000,
        "attempts": 1, "took_ms": 61_000, "text": "run 6 ended: all 1,000 accepted triggers: 1,000 stored"
    })
}

pub(in crate::openapi) fn entry() -> Value {
    json!({ "at_ms": TIME_MS, "by": "alice", "action": "start", "answer": "accepted", "text": "" })
}

pub(in crate::openapi) fn traced_event() -> Value {
    json!({ "event": 1413, "reasons": ["slow"], "outcome": "stored", "ended_ms": 1_795_000_000_000_u64, "duration_ns": 90_400_000, "missing": [] })
}

pub(in crate::openapi) fn span() -> Value {
    json!({ "name": "event", "node": "", "start_ns": 1_795_000_000_000_000_000_u64, "end_ns": 1_795_000_000_090_400_000_u64, "note": "stored", "clock": 0 })
}

pub(in crate::openapi) fn node() -> Value {
    json!({ "name": "evm", "figures": [{ "name": "triggers", "text": "Triggers that there were", "value": 1000.0 }] })
}

pub(in crate::openapi) fn run() -> Value {
    let begin_ns = TIME_MS * 1_000_000;
    json!({
        "run": 7, "directory": "runs/run000007", "state": "good", "software": "sheaf 0.1.0", "configuration": { "name": "physics", "id": "5c01a3e2" },
        "created_ns": begin_ns, "ended_ns": begin_ns + 5_000_000_000,
        "end": { "reason": "events", "good": true, "lost": 0 },
        "ledger": {
            "offered": 1010, "vetoed": { "builder_credit": 10 }, "triggers": 1000, "stored": 1000, "rejected": 0,
            "dropped": {}, "in_flight": 0, "balanced": true, "problems": [],
            "fragments": {
                "received": 4000, "stored": 4000, "rejected": 0, "dropped": {}, "in_flight": 0, "restarted_readouts": 0
            },
            "time": { "run_ns": 5_000_000_000_u64, "live_ns": 4_950_000_000_u64, "dead_ns": { "builder_credit": 50_000_000 } }
        },
        "files": [{ "file": "bu0.sheaf", "stream": "all", "events": 1000, "bytes": 8_192_000 }],
        "code": [],
        "commands": [
            {
                "time_ns": begin_ns, "by": "alice", "via": "page", "command": "start", "comment": "cosmics, threshold 12",
                "result": "done", "text": "run 7 is running", "ended_ns": begin_ns + 400_000_000
            }
        ],
        "comments": [{ "time_ns": begin_ns, "author": "alice", "text": "cosmics, threshold 12", "quality": "good" }]
    })
}

/// A host that was lost.
pub(in crate::openapi) fn alarms() -> Value {
    let node = |node: &str| {
        json!({
            "code": "node-silent", "severity": "error", "text": format!("{node} has published nothing for 4 s"), "culprit": node,
            "remedy": "look at its host", "since_ms": TIME_MS, "silence": null, "folded": []
        })
    };
    let host = json!({
        "code": "host-silent", "severity": "error", "text": "all 2 nodes on daq07 are silent", "culprit": "daq07",
        "remedy": "look at the host", "since_ms": TIME_MS, "silence": null, "folded": [node("bu3"), node("bu4")]
    });
    json!({ "time_ms": TIME_MS, "run": 7, "alarms": [host], "past_alarms": [] })
}

/// The state before a run.
pub(in crate::openapi) fn state() -> Value {
    let context = Context {
        version: "0.1.0",
        time_ms: TIME_MS,
        revision: 1,
        run: None,
        waits_for: None,
        verdict: None,
    };
    serde_json::to_value(compose(&Snapshot::default(), &context)).unwrap_or_default()
}
