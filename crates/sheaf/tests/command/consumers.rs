//! `sheaf tap`: watching a run in progress.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{dump, field, number, verify};
use std::collections::BTreeMap;

#[test]
fn tapped_events_equal_stored_ones_and_the_run_counts_its_consumers() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", "[run]\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 2000.0\n");
    let run = scratch.start("run run.toml --readouts 2 --builders 2 --json");
    let directory = scratch.join("runs/run000001");
    wait_until("both builders have doors", || {
        ["bu0.tap", "bu1.tap"].iter().all(|door| directory.join(door).exists())
    });
    scratch.sheaf("tap runs/run000001 --events 60 --save look.sheaf").exits(0);
    let lines = scratch.sheaf("tap runs/run000001 --events 5 --json").exits(0);
    scratch
        .sheaf("tap runs/run000001 --tags nobody")
        .exits(1)
        .says(&["no tag has the name \"nobody\"", "quarantined"]);
    scratch.sheaf("tap runs/run000001 --save look.sheaf").exits(1).says(&["already exists"]);
    run.signal("INT");
    let summary = run.end().exits(0).json();
    let joined = number(&summary, "counters.consumers_joined");
    // A tap that has received enough from one builder does not wait for the other.
    assert!((3..=6).contains(&joined), "three taps, two builders: {joined}");
    assert!(number(&summary, "counters.consumers_events_sent") >= 65);
    assert_eq!(field(&summary, "ledger.balanced"), true);

    let seen = verify(&scratch.join("look.sheaf"), 0);
    assert_eq!(number(&seen, "events"), 60);
    let all = dump(&directory).into_iter();
    let stored: BTreeMap<_, _> =
        all.map(|line| ((line.event, line.source), (line.bytes, line.crc32))).collect();
    for line in dump(&scratch.join("look.sheaf")) {
        assert_eq!(stored.get(&(line.event, line.source)), Some(&(line.bytes, line.crc32)));
    }
    let events: Vec<serde_json::Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 5);
    assert!(events.iter().all(|event| event["fragments"].as_array().is_some_and(|list| list.len() == 2)));
    assert!(!directory.join("bu0.tap").exists(), "a run that has ended has no doors");
    scratch.sheaf("tap runs/run000001").exits(1).says(&["not accepting consumers"]);
}

#[test]
fn a_tap_waits_for_a_run_that_has_not_started() {
    let scratch = ScratchDirectory::new();
    let tap = scratch.start("tap runs/run000001 --events 5 --json --wait 600");
    scratch.file("run.toml", "[run]\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 2000.0\n");
    let run = scratch.start("run run.toml --readouts 1 --builders 1 --json");
    assert_eq!(tap.end().exits(0).stdout.lines().count(), 5);
    run.signal("INT");
    run.end().exits(0);
    scratch.sheaf("tap nowhere/run000001 --wait 0").exits(1).says(&["cannot join nowhere/run000001"]);
}

#[test]
fn a_stream_is_tapped_by_its_name() {
    let scratch = ScratchDirectory::new();
    scratch.file(
        "run.toml",
        "[run]\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 2000.0\n[streams.express]\nprescale = 4\n",
    );
    let run = scratch.start("run run.toml --readouts 2 --builders 1 --json");
    let directory = scratch.join("runs/run000001");
    wait_until("the builder has a door", || directory.join("bu0.tap").exists());
    scratch.sheaf("tap runs/run000001 --stream express --events 50 --save look.sheaf").exits(0);
    scratch.sheaf("tap runs/run000001 --stream expres").exits(1).says(&[
        "no stream has the name \"expres\"",
        "default",
        "express",
    ]);
    run.signal("INT");
    run.end().exits(0);
    let of_stream: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("express")))
        .collect();
    assert_eq!(of_stream.len(), 1, "one file has the stream");
    let stored = dump(&of_stream[0]);
    for line in dump(&scratch.join("look.sheaf")) {
        assert!(stored.contains(&line), "event {} is not of the stream", line.event);
    }
}
