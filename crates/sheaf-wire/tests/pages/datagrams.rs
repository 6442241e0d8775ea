//! `docs/reference/datagrams.md`.

use crate::page::{self, LAYOUT, assert_layouts, shape, table, tables};
use sheaf_wire::datagram::layout::{self, Kind};
use sheaf_wire::datagram::{GreetingRefusal, MAX_RAILS};

fn page() -> String {
    page::open("datagrams.md")
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        ("Head", shape!(layout::HeadBytes: kind, heads, token, number, behind, checksum)),
        ("Part", shape!(layout::PartBytes: message, bytes, total, place)),
        ("Report", shape!(layout::ReportBytes: granted, rails, reserved, waited)),
        ("Reported rail", shape!(layout::RailReportBytes: rail, reserved, gaps, end)),
        ("Gap", shape!(layout::GapBytes: first, count)),
        (
            "Greeting",
            shape!(layout::GreetingBytes: magic, node, run, life, session, to_session, to_life, datagram_bytes,
                message_bytes, flight_bytes, granted, question_bytes, rails, refusal
            ),
        ),
        ("Proof", shape!(layout::ProofBytes: nonce, echo, proof)),
    ];
    assert_layouts(&page(), &layouts);
}

#[test]
fn the_kinds_and_refusals_are_all_of_them() {
    let page = page();
    let kinds = table(&page, "| code | kind | heads after the head | body |");
    let shown: Vec<[&str; 2]> = kinds.iter().map(|row| [row[0], row[1]]).collect();
    let kind = |code: u8| Some([code.to_string(), format!("`{:?}`", Kind::from_code(code)?)]);
    assert_eq!(shown, (0..=u8::MAX).filter_map(kind).collect::<Vec<_>>());
    let refusals = table(&page, "| code | refused because |");
    let shown: Vec<&str> = refusals.iter().map(|row| row[0]).collect();
    let known = (1..=u16::MAX)
        .filter(|code| !matches!(GreetingRefusal::from_code(*code), None | Some(GreetingRefusal::Other(_))));
    assert_eq!(shown, known.map(|code| code.to_string()).collect::<Vec<_>>());
}

#[test]
fn magic_version_and_limits_are_those_of_the_code() {
    let page = page();
    let greeting = tables(&page, LAYOUT).into_iter().rev().nth(1).map(|table| table.rows[0][4].to_owned());
    assert_eq!(greeting, Some(format!("`{}`", String::from_utf8_lossy(&layout::MAGIC))));
    assert!(page.starts_with(&format!(
        "# Datagrams of links that recover from loss\n\nVersion {}.",
        layout::VERSION
    )));
    assert!(page.contains(&format!("from 0 to {}", MAX_RAILS - 1)));
}
