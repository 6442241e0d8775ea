//! The pages in `docs/reference` agree with the code: their tables have the fields of the layouts, their examples equal the writers'
//! output, and their Python readers can read the examples.

use bytes::Bytes;
use sheaf_store::event_file::{EventFileWriter, WriterOptions};
use sheaf_store::fragment_stream::{StreamHeader, StreamWriter, file_name};
use sheaf_wire::exclusion_record::ExclusionRecordBytes;
use sheaf_wire::message::layout::{FragmentBytes, MissingBytes};
use sheaf_wire::shift_record::{ShiftBytes, ShiftPolicy};
use sheaf_wire::time_base::TimeBaseBytes;
use sheaf_wire::{
    Event, EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, RunNumber, SessionId,
    SourceId, Tags, Timestamp, TriggerType, Verdict, event_file, stream_file,
};
use std::fmt::Write as _;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the content of the fenced block that begins with `fence`.
fn block<'a>(page: &'a str, fence: &str) -> &'a str {
    let start = page.find(&format!("```{fence}\n")).unwrap_or_else(|| panic!("no block {fence}"));
    let content = &page[start + fence.len() + 4..];
    &content[..content.find("```").unwrap()]
}

/// Formats bytes as `hexdump -C`.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        write!(text, "{:08x} ", line * 16).unwrap();
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

fn stream_example(directory: &Path) -> PathBuf {
    let path = directory.join(file_name(SourceId(7)));
    let header = StreamHeader {
        source: SourceId(7),
        run: RunNumber(3),
        has_events: true,
        has_times: true,
        time_base: None,
    };
    let mut writer = StreamWriter::create(&path, header, r#"{"unit":"none"}"#).unwrap();
    for (event, time, payload) in [(258, 1000, "hello"), (259, 2000, "")] {
        let fragment = Fragment {
            event: EventId(event),
            source: SourceId(7),
            time: Timestamp(time),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        };
        writer.append(&fragment).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn event_example(directory: &Path) -> PathBuf {
    let options = WriterOptions::new(RunNumber(3), NodeId::builder(1), SessionId(0x1234), Timestamp(500));
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    let fragment = Fragment {
        event: EventId(258),
        source: SourceId(7),
        time: Timestamp(990),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from_static(b"hello"),
    };
    let missing = MissingSource { source: SourceId(9), reason: MissingReason::SourceSilent };
    let event = Event {
        id: EventId(258),
        time: Timestamp(1000),
        trigger_type: TriggerType(2),
        attempt: 1,
        incomplete: true,
        fragments: vec![fragment],
        missing: vec![missing],
    };
    let verdict = Verdict::accept().with_tags(Tags(0b101)).with_payload(Bytes::from_static(b"E=7"));
    writer.write(&event, &verdict).unwrap();
    writer.finish().unwrap();
    writer.path().to_owned()
}

fn check_example(page_name: &str, file: &Path) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let written = hex(&fs::read(file).unwrap());
    let shown = page(page_name);
    let shown = block(&shown, &format!("hex {name}"));
    assert!(shown == written, "{page_name} should show:\n{written}");
}

#[test]
fn the_examples_are_what_the_writers_write() {
    let directory = tempfile::tempdir().unwrap();
    check_example("fragment-stream.md", &stream_example(directory.path()));
    check_example("event-file.md", &event_example(directory.path()));
}

#[test]
fn the_python_readers_read_the_examples() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3 on this machine");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let examples = [
        ("fragment-stream.md", stream_example(directory.path()), "258 1000 5\n259 2000 0\n"),
        ("event-file.md", event_example(directory.path()), "258 7 990 5\n"),
    ];
    for (name, file, expected) in examples {
        let script = directory.path().join("reader.py");
        fs::write(&script, block(&page(name), "python")).unwrap();
        let output = Command::new("python3").arg(&script).arg(&file).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}: {errors}");
    }
}

/// The rows that a page must have for the fields of a layout, which must be all of its bytes.
macro_rules! rows {
    ($layout:ty: $($field:ident),*) => {{
        fn size<L, F>(_: fn(&L) -> &F) -> usize {
            size_of::<F>()
        }
        let rows = [$((
            offset_of!($layout, $field),
            size(|layout: &$layout| &layout.$field),
            stringify!($field),
        )),*];
        let mut end = 0;
        for (offset, size, field) in rows {
            assert_eq!(offset, end, "{field} of {}", stringify!($layout));
            end += size;
        }
        assert_eq!(end, size_of::<$layout>());
        rows.map(|(offset, size, field)| format!("| {offset} | {size} | `{field}` |")).to_vec()
    }};
}

fn check_rows(page_name: &str, layouts: &[Vec<String>]) {
    let page = page(page_name);
    let table_rows: Vec<&str> = page
        .lines()
        .filter(|line| line.split(" | ").nth(2).is_some_and(|field| field.starts_with('`')))
        .collect();
    let expected: Vec<&String> = layouts.iter().flatten().collect();
    assert_eq!(table_rows.len(), expected.len(), "rows of {page_name}");
    for (row, start) in table_rows.iter().zip(expected) {
        assert!(row.starts_with(start.as_str()), "{page_name} has `{row}`, the layout has `{start}`");
    }
}

#[test]
fn the_tables_have_the_fields_of_the_layouts() {
    let record =
        || rows!(stream_file::RecordBytes: marker, length, event, time, payload_checksum, header_checksum);
    let header = rows!(
        stream_file::FileHeaderBytes: magic, version, flags, source, run, metadata_bytes, reserved, checksum
    );
    let header2 = rows!(stream_file::FileHeader2Bytes: begin, time_base, reserved, checksum);
    let time_base = rows!(TimeBaseBytes: numerator, denominator, epoch);
    check_rows("fragment-stream.md", &[header, header2, time_base, record(), record()]);
    let layouts = [
        rows!(
            event_file::FileHeaderBytes:
            magic, version, flags, run, node, part, session, created, metadata_bytes, time_base, checksum
        ),
        rows!(
            event_file::EventHeaderBytes:
            marker, flags, event, time, attempt, trigger_type, fragments, missing, verdict_bytes,
            payload_bytes, tags, sequence, body_checksum, header_checksum
        ),
        rows!(FragmentBytes: source, length, time, checksum, flags),
        rows!(MissingBytes: source, reason, reserved),
        rows!(
            event_file::RecordHeaderBytes:
            marker, kind, reserved, number, time, source, name_bytes, content_bytes, flags, body_checksum,
            header_checksum
        ),
        rows!(ShiftBytes: first_event, shift, repaired_from, index, policy, is_repaired, reserved),
        rows!(ExclusionRecordBytes: first_event, included_from, index, is_ended, reserved),
        rows!(event_file::IndexHeaderBytes: marker, records, events),
        rows!(event_file::IndexEntryBytes: event, offset),
        rows!(event_file::FooterBytes: magic, index_offset, events, records, index_checksum, footer_checksum),
    ];
    check_rows("event-file.md", &layouts);
}

#[test]
fn the_kinds_of_run_records_are_all_of_them() {
    let page = page("event-file.md");
    for kind in event_file::RecordKind::ALL {
        let row = format!("| {} | `{}` |", kind as u8, kind.name());
        assert!(page.contains(&row), "no row `{row}`");
    }
}

#[test]
fn the_policies_of_shifts_are_all_of_them() {
    let policies = ShiftPolicy::ALL.map(|policy| format!("{} `{}`", policy.code(), policy.name()));
    assert!(page("event-file.md").contains(&policies.join(", ")), "{policies:?}");
}

#[test]
fn the_reasons_are_all_of_them() {
    let page = page("event-file.md");
    for reason in MissingReason::ALL {
        let row = format!("| {} | `{}` |", reason.code(), reason.name());
        assert!(page.contains(&row), "no row `{row}`");
    }
}
