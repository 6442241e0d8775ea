//! Damaged fragment streams and event files: undamaged records are used, damaged ones are counted.

use crate::child::ScratchDirectory;
use crate::output::{assert_books_match_files, directory, dump, field, incomplete_events, number, verify};
use crate::streams;
use sheaf_wire::stream_file::RECORD_HEADER_BYTES;
use std::collections::BTreeSet;
use std::path::Path;

fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// Returns the offset of an event's record in a stream.
fn record_offset(stream: &Path, event: u64) -> usize {
    let mut reader = sheaf_store::fragment_stream::StreamReader::open(stream).unwrap();
    let is_it = |fragment: Result<sheaf_wire::Fragment<_>, _>| fragment.unwrap().event.0 == event;
    assert!(reader.by_ref().any(is_it));
    reader.record_offset() as usize
}

/// Flipped bits affect only the record that contains them: its event is built without it, and marked.
#[test]
fn damaged_streams_are_built_without_the_damaged_records() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("streams"), 4, 50);
    let all = dump(&scratch.join("streams"));
    let paths = streams::paths(&scratch.join("streams"));
    let payload = record_offset(&paths[0], 10) + RECORD_HEADER_BYTES + 3;
    damage(&paths[0], |bytes| bytes[payload] ^= 0x10);
    let header = record_offset(&paths[2], 33) + 9;
    damage(&paths[2], |bytes| bytes[header] ^= 0x01);
    let end = record_offset(&paths[3], 48) + 5;
    damage(&paths[3], |bytes| bytes.truncate(end));
    let lost = BTreeSet::from([(10, 1), (33, 3), (48, 4), (49, 4)]);
    verify(&scratch.join("streams"), 3);

    let ended = scratch.sheaf("run --replay streams --readouts 2 --builders 2 --json").exits(3);
    let ended =
        ended.says(&["1 damaged record is skipped", "is cut off at byte", "later events lack source 4"]);
    let summary = ended.json();
    assert_books_match_files(&scratch, &summary);
    assert_eq!(number(&summary, "events_built"), 50);
    assert_eq!(number(&summary, "counters.source_damaged_headers"), 1);
    assert_eq!(number(&summary, "counters.source_damaged_payloads"), 1);
    let run = directory(&scratch, &summary);
    let missing: BTreeSet<_> = incomplete_events(&run)
        .into_iter()
        .flat_map(|(event, missing)| missing.into_keys().map(move |source| (event, source)))
        .collect();
    assert_eq!(missing, lost);
    let (mut found, mut expected) = (dump(&run), all);
    expected.retain(|line| !lost.contains(&(line.event, line.source)));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Each process reads the streams, and one of them reports.
#[test]
fn defects_of_streams_are_reported_once_whatever_the_number_of_processes() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("streams"), 4, 50);
    let paths = streams::paths(&scratch.join("streams"));
    let payload = record_offset(&paths[0], 10) + RECORD_HEADER_BYTES + 3;
    damage(&paths[0], |bytes| bytes[payload] ^= 0x10);
    damage(&paths[3], |bytes| bytes.truncate(bytes.len() - 40));
    let ended = scratch.sheaf("run --replay streams --readouts 2 --builders 2 --processes").exits(3);
    for text in ["1 damaged record is skipped", "is cut off at byte"] {
        assert_eq!(ended.stderr.matches(text).count(), 1, "{text}: {}", ended.stderr);
    }
}

/// A stream that was deleted is noticed only if the configuration lists the sources.
#[test]
fn a_stream_that_is_expected_and_absent_is_named() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("streams"), 4, 50);
    std::fs::remove_file(&streams::paths(&scratch.join("streams"))[2]).unwrap();
    let summary = scratch.sheaf("run --replay streams --json").exits(0).json();
    assert_eq!(number(&summary, "events_incomplete"), 0);
    let config = |expected: &str, more: &str| {
        format!(
            "[source]\nkind = \"replay\"\n{more}[source.replay]\ndirectory = \"streams\"\nexpected = {expected}\n"
        )
    };
    scratch.file("all.toml", &config("[\"1-4\"]", ""));
    for flags in ["", "--processes"] {
        let ended = scratch.sheaf(&format!("run all.toml --json {flags}")).exits(3);
        assert_eq!(ended.stderr.matches("no stream of source 3").count(), 1, "{}", ended.stderr);
        let summary = ended.json();
        assert_books_match_files(&scratch, &summary);
        assert_eq!(number(&summary, "events_built"), 50);
        assert_eq!(number(&summary, "events_incomplete"), 50);
        let missing = incomplete_events(&directory(&scratch, &summary));
        assert!(missing.values().all(|sources| sources.keys().eq([&3])), "{missing:?}");
    }
    scratch.file("optional.toml", &config("[\"1-4\"]", "optional = [3]\n"));
    scratch.sheaf("run optional.toml").exits(0).says(&["no stream of source 3"]);
    scratch.file("few.toml", &config("[1, 2, 3]", ""));
    scratch.sheaf("run few.toml").exits(1).says(&["source 4", "not in `source.replay.expected`"]);
}

#[test]
fn a_file_that_is_no_stream_is_named() {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("streams"), 2, 5);
    let path = &streams::paths(&scratch.join("streams"))[1];
    damage(path, |bytes| bytes[0] ^= 0xff);
    let name = path.file_name().unwrap().to_str().unwrap();
    scratch.sheaf("run --replay streams").exits(1).says(&[name, "not a readable fragment stream"]);
}

#[test]
fn damaged_event_files_are_reported_by_verify() {
    let scratch = ScratchDirectory::new();
    let summary = scratch.sheaf("run --events 500 --readouts 2 --builders 1 --json").exits(0).json();
    let run = directory(&scratch, &summary);
    let file = streams::paths(&run).into_iter().find(|path| path.extension().is_some_and(|e| e == "sheaf"));
    let file = file.unwrap();
    let whole = std::fs::read(&file).unwrap();
    assert_eq!(number(&verify(&file, 0), "events"), 500);

    damage(&file, |bytes| bytes.truncate(bytes.len() / 2));
    let report = verify(&run, 3);
    let events = number(&report, "events");
    assert!(0 < events && events < 500, "{events}");
    let text = scratch.sheaf(&format!("verify {}", run.display())).exits(3).stdout;
    assert!(text.contains("NOT GOOD") && text.contains("not closed"), "{text}");

    // A flipped bit in the middle costs one event.
    std::fs::write(&file, &whole).unwrap();
    damage(&file, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let report = verify(&run, 3);
    assert_eq!(number(&report, "events"), 499);
    assert!(number(&report, "problems_total") > 0);
    // Undamaged events are printed, and the exit status reports the damage.
    let ended = scratch.sheaf(&format!("dump {} --csv", run.display())).exits(3);
    assert_eq!(ended.stdout.lines().count(), 1 + 2 * 499);
    assert!(field(&report, "problems")[0].get("offset").is_some());
}

/// A repeated fragment is harmless. Another fragment of the same event is data that the run cannot keep.
#[test]
fn a_second_fragment_with_other_content_is_a_loss_and_a_repeated_one_is_not() {
    let scratch = ScratchDirectory::new();
    for (last, code, conflicting) in [(None, 0, 0), (Some(&b"other"[..]), 3, 1)] {
        let place = scratch.join(&format!("streams{code}"));
        streams::make(&place, 3, 50);
        streams::repeat(&place, 2, 20, last);
        let run = format!("run --replay streams{code} --json");
        let summary = scratch.sheaf(&run).exits(code).json();
        assert_eq!(number(&summary, "ledger.fragments.dropped.duplicate"), 1, "{summary:#}");
        assert_eq!(number(&summary, "kept.fragments_lost"), conflicting);
        assert_eq!(number(&summary, "ledger.stored"), 50);
    }
    let text = scratch.sheaf("run --replay streams3").exits(3).stdout;
    assert!(text.contains("1 fragment conflicting: their source had already sent another"), "{text}");
}
