//! `docs/reference/time-slice.md` matches the code: its table has the fields of the layout, its list every counter.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use sheaf_source::timed::FeedBooks;
use sheaf_wire::hit::{HIT_BYTES, HitBytes};
use std::mem::offset_of;
use std::path::Path;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/time-slice.md");
    std::fs::read_to_string(path).unwrap()
}

/// The cells of the rows behind a heading, up to the next heading, without the head of the table.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no heading {heading}"));
    let section = rest.split("\n#").next().unwrap();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

#[test]
fn the_table_of_a_hit_is_its_layout() {
    let page = page();
    let fields = [
        ("time_ps", offset_of!(HitBytes, time_ps)),
        ("channel", offset_of!(HitBytes, channel)),
        ("value", offset_of!(HitBytes, value)),
        ("extra", offset_of!(HitBytes, extra)),
    ];
    let rows = rows(&page, &format!("### Hit, {HIT_BYTES} bytes"));
    let end = |place: usize| fields.get(place + 1).map_or(HIT_BYTES, |(_, offset)| *offset);
    let expected = fields.iter().enumerate().map(|(place, (name, offset))| {
        [offset.to_string(), (end(place) - offset).to_string(), format!("`{name}`")]
    });
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!(row[..3], expected);
    }
}

#[test]
fn the_list_of_counters_has_each_of_them_once_and_in_order() {
    let page = page();
    let listed: Vec<String> = rows(&page, "## Books of a source")
        .iter()
        .flat_map(|row| row[0].split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>())
        .collect();
    let counters: Vec<_> = FeedBooks::default().fields().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(listed, counters);
}
