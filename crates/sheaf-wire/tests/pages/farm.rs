//! `docs/reference/farm.md`.

use crate::page::{self, assert_layouts, shape, table};
use sheaf_wire::farm::{
    self, BEHIND_RECORD, FromProcessor, MAX_FAILURE_BYTES, MAX_HOST_BYTES, Times, VERSION,
};
use sheaf_wire::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use sheaf_wire::{Tags, Verdict};

fn page() -> String {
    page::open("farm.md")
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        ("Hello", shape!(farm::HelloBytes: version, process)),
        (
            "Welcome",
            shape!(farm::WelcomeBytes: version, run, node, tags_bytes, configuration_bytes, reserved),
        ),
        (
            "Event",
            shape!(farm::EventBytes: kind, reserved, flags, trigger_type, attempt, ticket, event, time,
                fragments, missing
            ),
        ),
        ("Placed fragment", shape!(farm::PlacedFragmentBytes: fragment, segment, reserved, offset)),
        ("Word", shape!(farm::WordBytes: kind, accepted, reserved, bytes, ticket, tags)),
        ("Times", shape!(farm::TimesBytes: judged, filter, worker, idle)),
    ];
    assert_layouts(&page(), &layouts);
}

/// Kinds of a processor's messages, by their names on the page and the kinds that are written.
#[test]
fn the_kinds_of_words_are_those_that_are_written() {
    let large = Verdict::accept().with_tags(Tags(1)).with_payload(vec![0; MAX_VERDICT_PAYLOAD_BYTES]);
    let words = [
        ("Ask", FromProcessor::Ask(1)),
        ("Verdict", FromProcessor::Verdict(1, Verdict::reject())),
        ("Failed", FromProcessor::Failed(1, String::new())),
        ("Leave", FromProcessor::Leave),
        ("Part", FromProcessor::Verdict(1, large)),
        ("Times", FromProcessor::Times(Times::default())),
    ];
    let first_kind = |word: &FromProcessor| {
        let mut kind = None;
        word.emit(|head, _| kind = kind.or(head.first().copied()));
        kind.map_or_else(String::new, |kind| kind.to_string())
    };
    let page = page();
    let shown = table(&page, "| kind | record | from | is |");
    let of_processors: Vec<[String; 2]> = shown
        .iter()
        .filter(|row| row[2] == "processor")
        .map(|row| [row[0].to_owned(), row[1].to_owned()])
        .collect();
    let written: Vec<[String; 2]> =
        words.iter().map(|(name, word)| [first_kind(word), format!("`{name}`")]).collect();
    assert_eq!(of_processors, written);
}

#[test]
fn version_and_limits_are_those_of_the_code() {
    let page = page();
    assert!(page.contains(&format!("\n\nVersion {VERSION}.")));
    assert_eq!(page.matches(&format!("| `version` | {VERSION} |")).count(), 2);
    assert!(page.contains(&format!("at most {MAX_FAILURE_BYTES} bytes")));
    assert!(page.contains(&format!("at most {MAX_HOST_BYTES} bytes")));
    assert!(page.contains(&format!("over a network {BEHIND_RECORD} ")));
    assert_eq!(MAX_VERDICT_PAYLOAD_BYTES, 1 << 20, "the page says 1 MiB");
}
