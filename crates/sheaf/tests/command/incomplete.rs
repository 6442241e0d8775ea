//! Events that lack a source: the three policies, with required and optional sources.

use crate::child::ScratchDirectory;
use crate::output::{
    assert_adds_up, assert_books_match_files, directory, dump, field, incomplete_events, number, verify,
};
use crate::streams;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SOURCES: u32 = 6;
const EVENTS: u64 = 40;
/// A source that lacks some events but sends later ones.
const GAPS: u32 = 2;
/// A source that ends after half of the events.
const ENDS: u32 = 5;
/// An optional source, which also lacks some events.
const OPTIONAL: u32 = 6;

fn is_there(source: u32, event: u64) -> bool {
    match source {
        GAPS => !has_gap(event),
        ENDS => event < EVENTS / 2,
        OPTIONAL => event % 4 != 1,
        _ => true,
    }
}

fn has_gap(event: u64) -> bool {
    event == 3 || event == 4 || event == 30
}

/// Returns the events that lack a required source, with the missing sources.
fn incomplete() -> BTreeMap<u64, BTreeSet<u32>> {
    let lacks = |event| [GAPS, ENDS].into_iter().filter(|source| !is_there(*source, event)).collect();
    let events = (0..EVENTS).map(|event| (event, lacks(event)));
    events.filter(|(_, sources): &(u64, BTreeSet<u32>)| !sources.is_empty()).collect()
}

/// Replays the streams with their gaps under a policy, with additional configuration, and checks the exit status of the run.
fn replay(scratch: &ScratchDirectory, policy: &str, more: &str, code: i32) -> Value {
    streams::make(&scratch.join("whole"), SOURCES, EVENTS);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), is_there);
    let config = format!(
        "[source]\noptional = [{OPTIONAL}]\nkind = \"replay\"\n\
         [source.replay]\ndirectory = \"gaps\"\n{more}\n\
         [readout]\ncount = 2\nmerge_timeout_ms = 20\n\
         [builder]\ncount = 2\ncheck_content = true\n\
         [incomplete]\npolicy = \"{policy}\"\n"
    );
    let config = scratch.file("gaps.toml", &config);
    scratch.sheaf(&format!("run {} --json", config.display())).exits(code).json()
}

/// Asserts that the stored payload of these events is that of the streams, byte for byte.
fn assert_stored(scratch: &ScratchDirectory, summary: &Value, is_stored: impl Fn(u64) -> bool) {
    let mut expected = dump(&scratch.join("gaps"));
    expected.retain(|line| is_stored(line.event));
    expected.sort();
    let mut found = dump(&directory(scratch, summary));
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn stored_with_the_missing_sources_and_the_reasons() {
    let scratch = ScratchDirectory::new();
    let summary = replay(&scratch, "store", "", 3);
    assert_books_match_files(&scratch, &summary);
    assert_stored(&scratch, &summary, |_| true);
    let expected = incomplete();
    assert_eq!(number(&summary, "events_built"), EVENTS);
    assert_eq!(number(&summary, "events_incomplete"), expected.len() as u64);
    assert_eq!(number(&summary, "kept.incomplete"), expected.len() as u64);
    let gaps = (0..EVENTS).filter(|event| !is_there(GAPS, *event)).count() as u64;
    let missing = json!({
        GAPS.to_string(): { "source_skipped": gaps },
        ENDS.to_string(): { "source_ended": EVENTS / 2 },
    });
    assert_eq!(field(&summary, "missing_sources"), &missing, "the optional source is not required");

    let found = incomplete_events(&directory(&scratch, &summary));
    let reason = |event, source| match source {
        OPTIONAL if is_there(OPTIONAL, event) => None,
        GAPS | ENDS if is_there(source, event) => None,
        ENDS => Some((source, "source_ended")),
        _ => Some((source, "source_skipped")),
    };
    for (event, missing) in &found {
        let expected: BTreeMap<_, _> =
            [GAPS, ENDS, OPTIONAL].into_iter().filter_map(|source| reason(*event, source)).collect();
        assert_eq!(*missing, expected, "event {event}");
    }
    assert!(found.keys().eq(expected.keys()), "{found:?}");
}

#[test]
fn dropped_and_counted() {
    let scratch = ScratchDirectory::new();
    let summary = replay(&scratch, "drop", "", 0);
    assert_books_match_files(&scratch, &summary);
    let lacking = incomplete();
    assert_stored(&scratch, &summary, |event| !lacking.contains_key(&event));
    let dropped = lacking.len() as u64;
    assert_eq!(field(&summary, "ledger.dropped"), &json!({ "incomplete": dropped }));
    assert_eq!(number(&summary, "ledger.stored"), EVENTS - dropped);
    let of_dropped = |event: &u64| (1..=SOURCES).filter(|source| is_there(*source, *event)).count();
    let fragments: usize = lacking.keys().map(of_dropped).sum();
    assert_eq!(field(&summary, "ledger.fragments.dropped"), &json!({ "event_dropped": fragments }));
}

/// There is no wait for a source that has ended: events are built without it, and marked.
#[test]
fn waited_for_until_the_sources_have_ended() {
    let scratch = ScratchDirectory::new();
    let summary = replay(&scratch, "wait", "", 3);
    assert_books_match_files(&scratch, &summary);
    assert_stored(&scratch, &summary, |_| true);
    let found = incomplete_events(&directory(&scratch, &summary));
    assert!(found.keys().eq(incomplete().keys()), "{found:?}");
    for (event, missing) in found {
        for (source, reason) in missing.into_iter().filter(|(source, _)| *source != OPTIONAL) {
            let expected = if source == GAPS { "source_skipped" } else { "source_ended" };
            assert_eq!(reason, expected, "event {event}, source {source}");
        }
    }
}

/// While the run waits for a source, only the end of the run ends the event.
#[test]
fn waited_for_until_the_run_is_stopped() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("whole"), 2, 2);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), |source, event| (source, event) != (2, 0));
    // The second event of the second source comes after 1000 s.
    let config = scratch.file(
        "wait.toml",
        "[source]\nkind = \"replay\"\n\
         [source.replay]\ndirectory = \"gaps\"\npacing = \"fixed\"\nrate_hz = 0.001\n\
         [readout]\ncount = 2\nmerge_timeout_ms = 1\n[builder]\ncount = 1\nevent_timeout_ms = 1\n\
         [manager]\nstop_timeout_ms = 10\n[incomplete]\npolicy = \"wait\"\n",
    );
    let mut running = scratch.start(&format!("run {} --json", config.display()));
    running.wait_until_said("1 in flight");
    running.signal("INT");
    let summary = running.end().exits(3).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.triggers"), 1);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({ "stopped": 1 }));
    verify(&directory(&scratch, &summary), 0);
}

#[test]
fn the_first_lines_name_the_sources_that_events_lack_and_a_remedy() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("whole"), 3, 10);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), |source, event| (source, event) != (2, 9));
    let ended = scratch.sheaf("run --replay gaps --readouts 1 --builders 1").exits(3);
    let lines: Vec<_> = ended.stdout.lines().take(4).collect();
    let expected = [
        "kept              all 10 accepted triggers: 10 stored, 0 rejected by the filter",
        "INCOMPLETE        1 of 10 events lack a required source",
        "  1 event incomplete: without source 2 in 1 (source_ended)",
        "    remedy: check these sources; name those that events may lack in `source.optional`",
    ];
    assert_eq!(lines, expected);
}
