//! `docs/reference/protocol.md` tells the truth: its tables have the fields of the layouts and all codes, its examples
//! are what encoding makes and what decoding understands.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::message::layout::{self, Kind};
use sheaf_wire::message::{Body, Command, Finished, Header, Message, Request, SuperFragments};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, MissingReason, MissingSource, NodeId, Outcome, Role, RunNumber,
    SessionId, SourceId, SuperFragment, Timestamp,
};
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use zerocopy::little_endian::{U16, U32, U64};

/// The first row of every table that describes a layout.
const LAYOUT: &str = "| offset | bytes | type | field | meaning |";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protocol.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A table of the page: the heading above it, and the cells of its rows.
struct Table<'a> {
    heading: &'a str,
    rows: Vec<Vec<&'a str>>,
}

/// Every table with this first row.
fn tables<'a>(page: &'a str, first_row: &str) -> Vec<Table<'a>> {
    let (mut heading, mut found, mut lines) = ("", Vec::new(), page.lines());
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else if line == first_row {
            lines.next();
            let rows = lines.by_ref().take_while(|row| row.starts_with('|'));
            let cells = |row: &'a str| row.trim_matches('|').split('|').map(str::trim).collect();
            found.push(Table { heading, rows: rows.map(cells).collect() });
        }
    }
    found
}

/// The rows of the one table with this first row.
fn table<'a>(page: &'a str, first_row: &str) -> Vec<Vec<&'a str>> {
    let mut all = tables(page, first_row);
    assert_eq!(all.len(), 1, "tables that begin with {first_row}");
    all.remove(0).rows
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
        (
            "Header",
            rows!(
                HeaderBytes: magic, version, kind, head_bytes, payload_bytes, checksum, run, sender, session,
                sequence, acknowledged, acknowledged_session
            ),
        ),
        ("Announcement", rows!(AnnouncementBytes: event, time)),
        ("Request", rows!(RequestBytes: slots, finished, bytes, absent, flags)),
        (
            "Finished event",
            rows!(FinishedBytes: event, bytes, fragments, missing, attempt, outcome, reason, flags),
        ),
        ("Absent readout unit", rows!(AbsentReadoutBytes: event, readout, parts, reserved)),
        ("Assignment", rows!(AssignmentBytes: event, time, charged, attempt, trigger_type)),
        ("Release", rows!(ReleaseBytes: first, count, outcome, reason, parts)),
        ("Event range", rows!(EventRangeBytes: first, count, attempt, reserved)),
        ("Part request", rows!(PartRequestBytes: part, reserved, sources)),
        ("Source", rows!(SourceBytes: source)),
        ("List sizes", rows!(SuperFragmentsBytes: entries, fragments, missing, reserved)),
        ("Super-fragment", rows!(SuperFragmentBytes: event, fragments, missing, attempt, part)),
        ("Fragment", rows!(FragmentBytes: source, length, time, checksum, flags)),
        ("Missing source", rows!(MissingBytes: source, reason, reserved)),
        (
            "Readout status",
            rows!(ReadoutStatusBytes: sources, sources_ended, buffered_events, flags, buffered_bytes),
        ),
        ("Command", rows!(CommandBytes: command, reserved)),
        ("Count", rows!(CountBytes: code, reason, reserved, value)),
        ("Fence", rows!(FenceBytes: session)),
        ("Destination", rows!(DestinationBytes: first, count, attempt, builder)),
        ("Shape", rows!(ShapeBytes: epoch, clock, flags, reserved)),
    ];
    let page = page();
    let shown = tables(&page, LAYOUT);
    let headings: Vec<&str> = shown.iter().map(|table| table.heading).collect();
    let expected: Vec<String> =
        layouts.iter().map(|(name, (size, _))| format!("{name}, {size} bytes")).collect();
    assert_eq!(headings, expected);
    for (table, (_, (_, expected))) in shown.iter().zip(&layouts) {
        let rows: Vec<&[&str]> = table.rows.iter().map(|row| &row[..4]).collect();
        assert_eq!(rows, *expected, "fields of {}", table.heading);
    }
}

#[test]
fn the_kinds_are_all_of_them() {
    let page = page();
    let rows = table(&page, "| code | kind | from, to | in the channel | head after the header |");
    let shown: Vec<[&str; 2]> = rows.iter().map(|row| [row[0], row[1]]).collect();
    let kind = |code: u8| Some([code.to_string(), format!("`{:?}`", Kind::from_code(code)?)]);
    assert_eq!(shown, (0..=u8::MAX).filter_map(kind).collect::<Vec<_>>());
}

/// Compares the second and third cell of a table's rows with codes and names.
fn check_codes(page: &str, first_row: &str, expected: impl Iterator<Item = (u8, String)>) {
    let rows = table(page, first_row);
    let shown: Vec<[&str; 2]> = rows.iter().map(|row| [row[1], row[2]]).collect();
    let expected: Vec<_> = expected.map(|(code, name)| [code.to_string(), format!("`{name}`")]).collect();
    assert_eq!(shown, expected, "{first_row}");
}

#[test]
fn the_codes_are_all_of_them() {
    let page = page();
    let outcomes = Outcome::ALL.iter().map(|outcome| (outcome.code(), outcome.to_string()));
    check_codes(&page, "| outcome | code | name | meaning |", outcomes);
    let drops = DropReason::ALL.iter().map(|reason| (reason.code(), reason.to_string()));
    check_codes(&page, "| drop reason | code | name | of | meaning |", drops);
    let missing = MissingReason::ALL.iter().map(|reason| (reason.code(), reason.to_string()));
    check_codes(&page, "| missing reason | code | name | meaning |", missing);
    let role = |code| Some((code, format!("{:?}", Role::from_code(code)?)));
    check_codes(&page, "| role | code | name |", (0..=u8::MAX).filter_map(role));
    let command = |code| Some((code, format!("{:?}", command(code)?)));
    check_codes(&page, "| command | code | name | meaning |", (0..=u8::MAX).filter_map(command));
}

/// What decoding makes of a command code.
fn command(code: u8) -> Option<Command> {
    let message = Message { header: header(NodeId::MANAGER, 1), body: Body::Command(Command::Start) };
    let (mut head, _) = encode(message);
    head[size_of::<layout::HeaderBytes>()] = code;
    let at = offset_of!(layout::HeaderBytes, checksum);
    head[at..at + 4].fill(0);
    let checksum = crc32c(&head);
    head[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    match Message::<Bytes>::decode(&head, &mut Bytes::new()).ok()?.body {
        Body::Command(command) => Some(command),
        _ => None,
    }
}

#[test]
fn magic_version_and_limit_are_those_of_the_code() {
    let page = page();
    let header = &tables(&page, LAYOUT)[0].rows;
    assert_eq!(header[0][4], format!("`{}`", String::from_utf8_lossy(&layout::MAGIC)));
    assert!(header[1][4].starts_with(&format!("{}.", layout::VERSION)), "{}", header[1][4]);
    assert!(page.contains(&format!("({} bytes)", layout::MAX_HEAD_BYTES)));
    let check_value = format!("`{:08x}`", crc32c(b"123456789"));
    assert!(page.contains(&check_value), "{check_value}");
}

fn header(sender: NodeId, session: u64) -> Header {
    Header {
        run: RunNumber(3),
        sender,
        session: SessionId(session),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
    }
}

fn request_example() -> Message<Bytes> {
    let finished = Finished {
        event: EventId(258),
        attempt: 1,
        outcome: Outcome::Stored,
        reason: None,
        bytes: ByteCount(5),
        fragments: 1,
        missing: 1,
        incomplete: true,
    };
    let request =
        Request { slots: 1, bytes: ByteCount(8192), finished: vec![finished], ..Request::default() };
    let header = Header {
        sequence: 2,
        acknowledged: 1,
        acknowledged_session: SessionId(0x1111),
        ..header(NodeId::builder(1), 0x1234)
    };
    Message { header, body: Body::Request(request) }
}

fn super_fragments_example() -> Message<Bytes> {
    let payload = Bytes::from_static(b"hello");
    let fragment = Fragment {
        event: EventId(258),
        source: SourceId(7),
        time: Timestamp(990),
        checksum: Some(crc32c(&payload)),
        payload,
    };
    let parts = SuperFragments {
        entries: vec![SuperFragment { event: EventId(258), attempt: 0, part: 0, fragments: 1, missing: 1 }],
        fragments: vec![fragment],
        missing: vec![MissingSource { source: SourceId(9), reason: MissingReason::SourceSilent }],
    };
    Message { header: header(NodeId::readout(0), 0x2222), body: Body::SuperFragments(parts) }
}

/// Head and payload of a message.
fn encode(message: Message<Bytes>) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut payload) = (Vec::new(), Vec::new());
    message.encode(&mut head, |piece| payload.extend_from_slice(&piece));
    (head, payload)
}

#[test]
fn the_examples_are_what_encoding_makes_and_decoding_understands() {
    let page = page();
    let examples = [("hex request", request_example()), ("hex super-fragments", super_fragments_example())];
    for (fence, message) in examples {
        let (head, payload) = encode(message.clone());
        let made = hex(&[&head[..], &payload].concat());
        let shown = block(&page, fence);
        assert!(shown == made, "the block `{fence}` should be:\n{made}");
        let bytes = unhex(shown);
        let (head, payload) = bytes.split_at(head.len());
        let mut payload = Bytes::copy_from_slice(payload);
        assert_eq!(Message::decode(head, &mut payload), Ok(message), "{fence}");
    }
}

/// The content of the fenced block that begins with `fence`.
fn block<'a>(page: &'a str, fence: &str) -> &'a str {
    let start = page.find(&format!("```{fence}\n")).unwrap_or_else(|| panic!("no block {fence}"));
    let content = &page[start + fence.len() + 4..];
    &content[..content.find("```").unwrap()]
}

/// As `hexdump -C` prints it, with offsets of two digits.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        write!(text, "{:02x} ", line * 16).unwrap();
        for at in 0..16 {
            let gap = if at == 8 { " " } else { "" };
            match chunk.get(at) {
                Some(byte) => write!(text, "{gap} {byte:02x}").unwrap(),
                None => write!(text, "{gap}   ").unwrap(),
            }
        }
        let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { *byte as char } else { '.' };
        writeln!(text, "  |{}|", chunk.iter().map(printable).collect::<String>()).unwrap();
    }
    text
}

/// The bytes of what [`hex`] prints.
fn unhex(block: &str) -> Vec<u8> {
    let digits = |line: &str| line[2..line.find('|').unwrap()].to_owned();
    let digits = block.lines().map(digits).collect::<String>();
    digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}
