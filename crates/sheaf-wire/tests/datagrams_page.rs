//! `docs/reference/datagrams.md` tells the truth: its tables have the fields of the layouts, and all codes.

use sheaf_wire::datagram::layout::{self, Kind};
use sheaf_wire::datagram::{GreetingRefusal, MAX_RAILS};
use std::mem::offset_of;
use std::path::Path;
use zerocopy::little_endian::{U16, U32, U64};

/// The first row of every table that describes a layout.
const LAYOUT: &str = "| offset | bytes | type | field | meaning |";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/datagrams.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tables with this first row: the heading above each, and the cells of its rows.
fn tables<'a>(page: &'a str, first_row: &str) -> Vec<(&'a str, Vec<Vec<&'a str>>)> {
    let (mut heading, mut found, mut lines) = ("", Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim();
        } else if line == first_row {
            let rows = lines.by_ref().skip(1).take_while(|row| row.starts_with('|'));
            let cells = |row: &'a str| row.trim_matches('|').split('|').map(str::trim).collect();
            found.push((heading, rows.map(cells).collect()));
        }
    }
    found
}

/// What the page calls the type of a field.
trait Named {
    const NAME: &'static str;
}

macro_rules! named {
    ($($kind:ty = $name:literal),*) => { $(impl Named for $kind { const NAME: &'static str = $name; })* };
}
named!(u8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64");

impl<const N: usize> Named for [u8; N] {
    const NAME: &'static str = "bytes";
}

/// A layout's size, and the first four cells that the page must have for each field; the fields must be all of its
/// bytes.
macro_rules! rows {
    ($layout:ident: $($field:ident),*) => {{
        fn shape<L, F: Named>(_: fn(&L) -> &F) -> (usize, &'static str) {
            (size_of::<F>(), F::NAME)
        }
        let fields = [$((
            offset_of!(layout::$layout, $field),
            shape(|layout: &layout::$layout| &layout.$field),
            stringify!($field),
        )),*];
        let (mut end, mut rows) = (0, Vec::new());
        for (offset, (size, kind), field) in fields {
            assert_eq!(offset, end, "{field} of {}", stringify!($layout));
            end += size;
            rows.push([offset.to_string(), size.to_string(), kind.to_owned(), format!("`{field}`")]);
        }
        assert_eq!(end, size_of::<layout::$layout>(), "all fields of {}", stringify!($layout));
        (end, rows)
    }};
}

#[test]
fn the_field_tables_have_the_fields_of_the_layouts() {
    let layouts = [
        ("Head", rows!(HeadBytes: kind, rail, token, number, behind, heads, checksum)),
        ("Part", rows!(PartBytes: message, total, place, bytes, flags)),
        ("Report", rows!(ReportBytes: granted, rails, reserved, waited)),
        ("Reported rail", rows!(RailReportBytes: rail, reserved, gaps, end)),
        ("Gap", rows!(GapBytes: first, count)),
        (
            "Greeting",
            rows!(
                GreetingBytes: magic, node, run, life, session, to_session, to_life, datagram_bytes,
                message_bytes, flight_bytes, granted, heard_bytes, rails, refusal
            ),
        ),
    ];
    let page = page();
    let shown = tables(&page, LAYOUT);
    let headings: Vec<&str> = shown.iter().map(|(heading, _)| *heading).collect();
    let expected: Vec<String> =
        layouts.iter().map(|(name, (size, _))| format!("{name}, {size} bytes")).collect();
    assert_eq!(headings, expected);
    for ((heading, rows), (_, (_, expected))) in shown.iter().zip(&layouts) {
        let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..4]).collect();
        assert_eq!(rows, *expected, "fields of {heading}");
    }
}

#[test]
fn the_kinds_and_refusals_are_all_of_them() {
    let page = page();
    let kinds = tables(&page, "| code | kind | heads after the head | body |");
    let shown: Vec<[&str; 2]> = kinds[0].1.iter().map(|row| [row[0], row[1]]).collect();
    let kind = |code: u8| Some([code.to_string(), format!("`{:?}`", Kind::from_code(code)?)]);
    assert_eq!(shown, (0..=u8::MAX).filter_map(kind).collect::<Vec<_>>());
    let refusals = tables(&page, "| code | refused because |");
    let shown: Vec<&str> = refusals[0].1.iter().map(|row| row[0]).collect();
    let known = (1..=u16::MAX)
        .filter(|code| !matches!(GreetingRefusal::from_code(*code), None | Some(GreetingRefusal::Other(_))));
    assert_eq!(shown, known.map(|code| code.to_string()).collect::<Vec<_>>());
}

#[test]
fn magic_version_and_limits_are_those_of_the_code() {
    let page = page();
    let greeting = tables(&page, LAYOUT).pop().map(|(_, rows)| rows[0][4].to_owned());
    assert_eq!(greeting, Some(format!("`{}`", String::from_utf8_lossy(&layout::MAGIC))));
    assert!(page.starts_with(&format!(
        "# Datagrams of links that recover from loss\n\nVersion {}.",
        layout::VERSION
    )));
    assert!(page.contains(&format!("from 0 to {}", MAX_RAILS - 1)));
}
