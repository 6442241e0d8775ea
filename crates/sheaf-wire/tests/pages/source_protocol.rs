//! `docs/reference/source-protocol.md`.

use crate::page::{self, assert_layouts, shape, table};
use sheaf_wire::feed::{
    self as wire, FRAGMENTS_HEAD_BYTES, Kind, MAX_NAME_BYTES, MAX_REASON_BYTES, MAX_SOURCES, Phase, Refusal,
    VERSION,
};
use sheaf_wire::message::layout;
use sheaf_wire::run_record::RecordAnswer;

fn page() -> String {
    page::open("source-protocol.md")
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        ("Head", shape!(wire::HeadBytes: length, kind, reserved)),
        ("Hello", shape!(wire::HelloBytes: version, sources, name_bytes, flags)),
        ("Fragments", shape!(wire::FragmentsBytes: source, count, first)),
        ("Fragment head", shape!(wire::FragmentHeadBytes: event, time, length, checksum, flags, reserved)),
        ("End", shape!(wire::EndBytes: source, reserved, fragments)),
        (
            "Record",
            shape!(layout::RecordBytes: number, time, source, name_bytes, content_bytes, kind, reserved),
        ),
        (
            "Welcome",
            shape!(wire::WelcomeBytes: version, run, session, max_fragment, max_message, sources, phase, reserved),
        ),
        (
            "Progress",
            shape!(wire::ProgressBytes: source, flags, received, received_bytes, accepted, last_event,
                fragments_limit, bytes_limit
            ),
        ),
        ("Phase", shape!(wire::PhaseBytes: phase, reserved)),
        ("Refused", shape!(wire::RefusedBytes: refusal, reserved, source)),
        ("Recorded", shape!(layout::RecordedBytes: number, source, answer, reserved)),
    ];
    assert_layouts(&page(), &layouts);
}

/// Returns the codes and names of a table.
fn shown(page: &str, head: &str) -> Vec<[String; 2]> {
    table(page, head).iter().map(|row| [row[0].to_owned(), row[1].to_owned()]).collect()
}

#[test]
fn the_codes_are_all_of_them() {
    let page = page();
    let kinds = Kind::ALL.map(|kind| [(kind as u8).to_string(), format!("`{kind:?}`")]);
    assert_eq!(shown(&page, "| code | kind | from | body |"), kinds);
    let phases = Phase::ALL.map(|phase| [(phase as u8).to_string(), format!("`{phase:?}`")]);
    assert_eq!(shown(&page, "| code | name | meaning of the phase |"), phases);
    let refusals = Refusal::ALL.map(|refusal| [(refusal as u8).to_string(), format!("`{}`", refusal.name())]);
    assert_eq!(shown(&page, "| code | name | refused because |"), refusals);
    let answers =
        RecordAnswer::ALL.map(|answer| [(answer as u8).to_string(), format!("`{}`", answer.name())]);
    assert_eq!(shown(&page, "| code | name | answer to a record |"), answers);
}

#[test]
fn version_and_limits_are_those_of_the_code() {
    let page = page();
    assert!(page.starts_with(&format!("# Source protocol\n\nVersion {VERSION}.")));
    assert_eq!(page.matches(&format!("| `version` | {VERSION} |")).count(), 2);
    assert!(page.contains(&format!("name: UTF-8, at most {MAX_NAME_BYTES} bytes")));
    assert!(page.contains(&format!("reason: UTF-8, at most {MAX_REASON_BYTES} bytes")));
    assert!(page.contains(&format!("1 to {MAX_SOURCES} sources")));
    assert!(page.contains(&format!("its first {FRAGMENTS_HEAD_BYTES} bytes")));
}
