//! Manifests, runs in progress, and files that were lost with the node that wrote them.

use super::*;
use crate::run::{Holder, MANIFEST_NAME, RunLock};
use serde_json::{Value, json};

/// A ledger as a run writes it.
fn ledger() -> Value {
    json!({
        "offered": 12, "vetoed": { "builder_credit": 3, "output": 1 },
        "triggers": 8, "stored": 5, "rejected": 1, "dropped": { "incomplete": 2 }, "in_flight": 0,
        "balanced": true, "problems": [],
        "fragments": { "received": 19, "stored": 5, "rejected": 4, "dropped": { "late": 7, "not_built": 3 }, "in_flight": 0 },
        "time": { "run_ns": 100, "live_ns": 60, "dead_ns": { "builder_credit": 30, "output": 10 } },
    })
}

fn run_with_ledger() -> (TempDir, Manifest) {
    let (directory, mut manifest) = run();
    manifest.ledger = ledger();
    manifest.configuration = "[run]\nnumber = 1\n".into();
    manifest.write(directory.path()).unwrap();
    (directory, manifest)
}

/// The paths of all numbers, truths and texts of a value.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| leaves(value, &format!("{path}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| leaves(value, &format!("{path}/{at}"), found));
        }
        Value::Number(_) | Value::Bool(_) | Value::String(_) => found.push(path.to_owned()),
        Value::Null => {}
    }
}

/// The same with another value.
fn changed(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap();
            vec![json!(number + 1), json!(number.saturating_sub(1)), json!(2 * number + 7)]
        }
        Value::Bool(value) => vec![json!(!value)],
        Value::String(text) => vec![json!(format!("{text} ")), json!(text.replace(['0', '1'], "2"))],
        _ => Vec::new(),
    }
}

/// The readout units report more or fewer sent fragments than are in the files.
#[test]
fn fragments_that_are_booked_and_not_there_are_told() {
    let (directory, good) = run_with_ledger();
    let told = |received: u64, stored: u64, restarted: Option<u64>| {
        let mut manifest = good.clone();
        let fragments = &mut manifest.ledger["fragments"];
        (fragments["received"], fragments["stored"]) = (received.into(), stored.into());
        if let Some(restarted) = restarted {
            fragments["restarted_readouts"] = restarted.into();
        }
        manifest.write(directory.path()).unwrap();
        problems(directory.path())
    };
    assert_eq!(told(19, 5, Some(0)), [] as [String; 0]);
    assert_eq!(told(20, 6, None), ["the ledger has 6 fragments stored, but 5 were found"]);
    assert_eq!(told(18, 4, Some(0)), ["the ledger has 4 fragments stored, but 5 were found"]);
    assert_eq!(told(18, 4, Some(1)), [] as [String; 0], "the books of a readout unit that died are lost");
}

/// A manifest that was edited by hand or damaged on its disk.
#[test]
fn no_changed_field_of_a_manifest_escapes() {
    let (directory, _) = run_with_ledger();
    assert_eq!(problems(directory.path()), [] as [String; 0]);
    let path = directory.path().join(MANIFEST_NAME);
    let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut fields = Vec::new();
    leaves(&good, "", &mut fields);
    assert!(fields.len() > 30, "{fields:?}");
    for field in fields {
        for to in changed(good.pointer(&field).unwrap()) {
            let mut bad = good.clone();
            let place = bad.pointer_mut(&field).unwrap();
            if *place == to {
                continue;
            }
            *place = to;
            fs::write(&path, serde_json::to_vec_pretty(&bad).unwrap()).unwrap();
            let told = verify(directory.path()).map(|report| report.ok);
            assert!(!told.unwrap_or(false), "{field} is changed, and nobody notices");
        }
    }
}

#[test]
fn no_changed_byte_of_a_manifest_escapes() {
    let (directory, _) = run_with_ledger();
    let path = directory.path().join(MANIFEST_NAME);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 7);
        fs::write(&path, bad).unwrap();
        let told = verify(directory.path()).map(|report| report.ok);
        assert!(!told.unwrap_or(false), "byte {at} is changed, and nobody notices");
    }
}

/// A defect of the software, which writes the right checksum of the wrong number.
#[test]
fn a_ledger_that_does_not_add_up_is_told() {
    let (directory, good) = run_with_ledger();
    let mut fields = Vec::new();
    leaves(&good.ledger, "", &mut fields);
    for field in fields {
        for to in changed(good.ledger.pointer(&field).unwrap()) {
            let mut manifest = good.clone();
            let place = manifest.ledger.pointer_mut(&field).unwrap();
            if *place == to {
                continue;
            }
            *place = to;
            manifest.write(directory.path()).unwrap();
            let told = problems(directory.path());
            assert!(
                told.iter().all(|problem| problem.contains("ledger")) && !told.is_empty(),
                "{field}: {told:?}"
            );
        }
    }
    let mut manifest = good;
    manifest.ledger["triggers"] = 9.into();
    manifest.write(directory.path()).unwrap();
    assert_eq!(
        problems(directory.path()),
        [
            "the ledger has 12 for `offered`, but the sum of `triggers`, `vetoed` is 13",
            "the ledger has 9 for `triggers`, but the sum of `stored`, `rejected`, `dropped` is 8",
        ]
    );
}

#[test]
fn it_is_told_how_far_a_run_is_read() {
    let (directory, _) = run_with_ledger();
    let mut told = Vec::new();
    verify_with_progress(directory.path(), &mut |reading| told.push(reading)).unwrap();
    let bytes = verify(directory.path()).unwrap().files.iter().map(|file| file.bytes).sum();
    assert!(told.iter().all(|reading| reading.total == ByteCount(bytes)), "{told:?}");
    assert!(told.is_sorted_by_key(|reading| reading.done) && told.len() > 2, "{told:?}");
    assert_eq!(told.last().unwrap().done, ByteCount(bytes));
}

/// A run whose ledger did not balance has reported that itself; its files may be good nevertheless.
#[test]
fn a_ledger_that_says_what_is_wrong_with_it_is_no_problem_of_the_files() {
    let (directory, mut manifest) = run_with_ledger();
    manifest.ledger["balanced"] = false.into();
    manifest.ledger["problems"] = json!(["no books of ru0"]);
    manifest.ledger["fragments"]["received"] = 3.into();
    manifest.write(directory.path()).unwrap();
    assert_eq!(problems(directory.path()), [] as [String; 0]);
}

/// Cuts index and footer off.
fn reopen(directory: &Path, builder: u16) {
    let name = format!("{}", NodeId::builder(builder));
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let path = files.into_iter().find(|path| path.to_string_lossy().contains(&name)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let footer = file.metadata().unwrap().len() - FOOTER_BYTES as u64;
    file.set_len(footer).unwrap();
}

#[test]
fn a_run_that_goes_on_has_no_problems_and_is_not_good_yet() {
    let (directory, mut manifest) = run();
    (manifest.ended, manifest.ledger) = (None, Value::Null);
    manifest.sessions.clear();
    manifest.write(directory.path()).unwrap();
    reopen(directory.path(), 0);
    let lock = RunLock::take(directory.path(), &Holder { process: 1, host: "daq".into(), makes_more: false });
    let report = verify(directory.path()).unwrap();
    assert_eq!((report.state, report.problems_total, report.ok), (Some(RunState::InProgress), 0, false));
    assert_eq!((report.events, report.files_open), (5, 1));
    // All other problems are reported as well.
    write_events(directory.path(), 2, &[event(2, &[1])]);
    assert_eq!(verify(directory.path()).unwrap().problems_total, 1);
    // Its process dies.
    drop(lock);
    let report = verify(directory.path()).unwrap();
    assert_eq!((report.state, report.ok), (Some(RunState::CutOff), false));
    assert!(report.problems.iter().any(|problem| problem.what.contains("no process writes it")));
}

/// If nodes are started one by one, no process closes the files of a dead one.
#[test]
fn a_file_of_a_dead_session_need_not_be_closed_if_all_that_counts_is_there() {
    let (directory, mut manifest) = run();
    reopen(directory.path(), 0);
    let says = "file is not closed";
    assert!(problems(directory.path())[0].starts_with(says), "a sealed session has closed files");
    manifest.sessions.iter_mut().for_each(|record| record.sealed = false);
    manifest.write(directory.path()).unwrap();
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.files_open, 1);
    // A session unknown to the event manager: none of its events count.
    write_events(directory.path(), 2, &[event(2, &[1])]);
    reopen(directory.path(), 2);
    let report = verify(directory.path()).unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!((report.files_open, report.events_void, report.events), (2, 1, 5));
    // One event that counts is missing.
    manifest.sessions[0].committed += 1;
    manifest.write(directory.path()).unwrap();
    assert_eq!(
        problems(directory.path()),
        ["session 0000000000000005 of bu0: 3 events are committed, but 2 were found"]
    );
}
