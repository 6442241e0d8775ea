//! A source that misses a trigger: its shift is found, marked, repaired, or ends the run.

use crate::child::ScratchDirectory;
use crate::output::{assert_books_match_files, directory, number};
use serde_json::{Value, json};
use std::path::Path;

const EVENTS: u64 = 6_000;
/// The source that is off, and the first event in which it is.
const FAULTY: u64 = 2;
const FIRST: u64 = 2_000;

/// Runs with a source that misses triggers, or counts too many. Returns the summary.
fn run(scratch: &ScratchDirectory, how: &str, on_shift: &str, missed: i64) -> Value {
    let config = scratch.file(
        "numbers.toml",
        &format!(
            "[run]\nevents = {EVENTS}\n[trigger]\nmode = \"free\"\n[source]\ncount = 4\n\
             [source.emulated]\nsize = \"fixed\"\nmean_bytes = 64\ncontent = \"number\"\n\
             faulty_source = {FAULTY}\nfaulty_event = {FIRST}\nfaulty_triggers = {missed}\n\
             [readout]\ncount = 2\nbuffer_events = 64\n[builder]\ncount = 2\nslots = 64\n\
             [check]\non_shift = \"{on_shift}\"\n[check_fields.number]\nvalue = \"u64le at 0\"\n"
        ),
    );
    let summary = scratch.sheaf(&format!("run {} {how} --json", config.display())).exits(3).json();
    assert_eq!(summary["ledger"]["balanced"], json!(true), "{}", summary["ledger"]);
    assert_books_match_files(scratch, &summary);
    summary
}

/// Event, sources that disagree and sources that are missing, of all events of a run.
fn events(scratch: &ScratchDirectory, directory: &Path) -> Vec<(u64, String, u64)> {
    let ended = scratch.sheaf(&format!("dump --verdicts {}", directory.display())).exits(0);
    let mut events: Vec<_> = ended
        .stdout
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |cell: usize| cells[cell].parse::<u64>().expect("a number");
            (number(0), cells[10].to_owned(), number(5))
        })
        .collect();
    events.sort();
    events
}

fn shifts(summary: &Value) -> &Vec<Value> {
    summary["ledger"]["shifts"].as_array().expect("a list of shifts")
}

/// Checks that each event file says alone what the summary says of shifts. The run has one file of each writer.
pub(crate) fn assert_files_have_shifts(scratch: &ScratchDirectory, summary: &Value, policy: &str) {
    let mut expected = shifts(summary).clone();
    expected.iter_mut().for_each(|shift| shift["policy"] = json!(policy));
    let files: Vec<_> = std::fs::read_dir(directory(scratch, summary))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sheaf"))
        .collect();
    assert!(!files.is_empty());
    for file in files {
        let inspected = scratch.sheaf(&format!("inspect {} --json", file.display())).exits(0).json();
        assert_eq!(inspected["shifts"], json!(expected), "{}", file.display());
    }
}

#[test]
fn a_source_that_misses_a_trigger_is_found_from_the_first_event_on_and_marked() {
    for how in ["--transport memory", "--processes"] {
        let scratch = ScratchDirectory::new();
        let summary = run(&scratch, how, "mark", 1);
        let shift = json!({
            "source": FAULTY, "quantity": "number", "first_event": FIRST, "shift": 1, "repaired_from_event": null,
        });
        assert_eq!(shifts(&summary), &[shift], "{how}");
        assert_files_have_shifts(&scratch, &summary, "mark");
        // The last event has no fragment of the source, which counts one trigger less.
        let disagreeing = EVENTS - FIRST - 1;
        assert_eq!(number(&summary, "kept.disagreeing"), disagreeing);
        let difference = format!("{FAULTY}:+1");
        for (event, differences, _) in events(&scratch, &directory(&scratch, &summary)) {
            let is_off = (FIRST..EVENTS - 1).contains(&event);
            assert_eq!(differences, if is_off { &difference } else { "" }, "event {event}");
        }
        let inspected = scratch.sheaf(&format!("inspect {} --json", directory(&scratch, &summary).display()));
        let inspected = inspected.exits(0).json();
        assert_eq!(number(&inspected, "events_disagreeing"), disagreeing);
        let verified = scratch.sheaf(&format!("verify {}", directory(&scratch, &summary).display())).exits(0);
        let verdict = verified.stdout.lines().last().expect("a verdict");
        assert!(
            verdict.starts_with("good") && verdict.ends_with("with disagreeing event numbers"),
            "{verdict}"
        );
        assert_eq!(inspected["sources"][2]["first_disagreeing"], json!(FIRST));
        let manifest =
            std::fs::read_to_string(directory(&scratch, &summary).join("run.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        assert_eq!(manifest["ledger"]["shifts"][0]["first_event"], json!(FIRST));
    }
}

#[test]
fn a_source_that_misses_a_trigger_is_renumbered_and_right_again() {
    for missed in [1, -1, 3] {
        let scratch = ScratchDirectory::new();
        let summary = run(&scratch, "--transport memory", "repair", missed);
        let [shift] = &shifts(&summary)[..] else { panic!("one shift: {:?}", shifts(&summary)) };
        // The first of several fragments of a trigger is in its place.
        let first = FIRST + u64::from(missed < 0);
        assert_eq!((number(shift, "first_event"), &shift["shift"]), (first, &json!(missed)));
        assert_files_have_shifts(&scratch, &summary, "repair");
        let repaired = number(shift, "repaired_from_event");
        assert!((FIRST..EVENTS).contains(&repaired), "{shift}");
        // Between the shift and its repair fragments are off, and after it the events at the seam lack one.
        let seam = u64::try_from(missed).unwrap_or(0);
        for (event, differences, missing) in events(&scratch, &directory(&scratch, &summary)) {
            let is_off = (first..repaired - seam).contains(&event);
            let difference = if is_off { format!("{FAULTY}:{missed:+}") } else { String::new() };
            assert_eq!(differences, difference, "event {event}, {shift}");
            let is_at_seam = (repaired - seam..repaired).contains(&event);
            assert_eq!(missing, u64::from(is_at_seam), "event {event}, {shift}");
        }
        let dropped = &summary["ledger"]["fragments"]["dropped"]["renumbered"];
        assert_eq!(dropped.as_u64().unwrap_or(0), u64::try_from(-missed).unwrap_or(0));
        let renumbered = number(&summary, "counters.renumbered_fragments");
        assert!(renumbered >= EVENTS - repaired, "{renumbered}");
    }
}

#[test]
fn a_shift_ends_the_run_if_that_is_wanted() {
    let scratch = ScratchDirectory::new();
    let summary = run(&scratch, "--transport memory", "stop", 1);
    assert_eq!(shifts(&summary)[0]["first_event"], json!(FIRST));
    assert_files_have_shifts(&scratch, &summary, "stop");
    let records = format!("dump --records {}", directory(&scratch, &summary).display());
    let records = scratch.sheaf(&records).exits(0).stdout;
    assert!(records.contains(",2000,+1,\n"), "{records}");
    let why = summary["ended_early"]["why"].as_str().expect("a reason");
    assert!(why.contains("source 2 is off by +1 from event 2,000 on"), "{why}");
    let stored = number(&summary, "ledger.stored");
    assert!((FIRST..EVENTS).contains(&stored), "{stored} events");
    assert_eq!(stored, number(&summary, "ledger.triggers"), "what was accepted is stored");
}
