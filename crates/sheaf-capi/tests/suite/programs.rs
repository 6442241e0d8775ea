//! Programs in C that use the library: compiled, linked and run.

use crate::common::{compile, folder, library_directory, text};
use bytes::Bytes;
use sheaf_filter::{
    Filter, LibraryFilter, LibraryPreprocessor, LibraryStep, Preprocessor, Processed, RawFragment, Setup,
    Step,
};
use sheaf_store::event_file::{EventFileWriter, WriterOptions};
use sheaf_store::fragment_stream::{StreamHeader, StreamWriter};
use sheaf_wire::{
    Event, EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, RunNumber, SessionId,
    SourceId, Tags, Timestamp, TriggerType, Verdict,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: &Path, argument: &Path) -> Output {
    Command::new(program).arg(argument).env("LD_LIBRARY_PATH", library_directory()).output().unwrap()
}

fn fragment(event: u64, source: u32, payload: &[u8]) -> Fragment<Bytes> {
    Fragment {
        event: EventId(event),
        source: SourceId(source),
        time: Timestamp(event * 10),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::copy_from_slice(payload),
    }
}

fn event(id: u64, fragments: Vec<Fragment<Bytes>>, missing: Vec<MissingSource>) -> Event<Bytes> {
    Event {
        id: EventId(id),
        time: Timestamp(id * 100),
        trigger_type: TriggerType(4),
        attempt: 1,
        incomplete: false,
        fragments,
        missing,
    }
}

/// Writes two events to a file in this directory.
fn write_events(directory: &Path) -> PathBuf {
    let node = NodeId { role: sheaf_wire::Role::Builder, index: 0 };
    let options = WriterOptions {
        metadata: r#"{"tags": ["muon", "calo", "late"]}"#.into(),
        ..WriterOptions::new(RunNumber(3), node, SessionId(9), Timestamp(1))
    };
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    let missing = MissingSource { source: SourceId(7), reason: MissingReason::ALL[0] };
    let first = event(5, vec![fragment(5, 1, b"\x0a\x0b"), fragment(5, 2, b"")], vec![]);
    let verdict = Verdict::accept().with_tags(Tags(0b101)).with_payload(vec![1, 2, 3]);
    writer.write(&first, &verdict).unwrap();
    let marked = Fragment { mark: NumberMark::renumbered(1).disagreeing(-2), ..fragment(6, 2, b"\xee") };
    let moved = Fragment { mark: NumberMark::renumbered(3), ..fragment(6, 3, b"\xdd") };
    let second = event(6, vec![fragment(6, 1, b"\xff"), marked, moved], vec![missing]);
    writer.write(&second, &Verdict::quarantine()).unwrap();
    writer.finish().unwrap();
    let mut files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "sheaf")).unwrap()
}

#[test]
fn a_program_in_c_reads_events_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("read", directory.path());
    let events = directory.path().join("events");
    std::fs::create_dir(&events).unwrap();
    let file = write_events(&events);
    for path in [&file, &events] {
        let output = run(&program, path);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let expected = "event 5 time 500 type 4 tags 5 payload 010203 [muon] [late] 1:0a0b 2:\n\
                        event 6 time 600 type 4 tags 8000000000000000 payload  1:ff 2:ee(-2) 3:dd(moved +3) -7\n";
        assert_eq!(text(&output.stdout), expected);
    }
}

#[test]
fn damage_costs_a_program_in_c_only_the_damaged_event() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("read", directory.path());
    let events = directory.path().join("events");
    std::fs::create_dir(&events).unwrap();
    let file = write_events(&events);
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(2).position(|pair| pair == b"\x0a\x0b").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let output = run(&program, &file);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("event 5, source 1"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("event 6 "), "{}", text(&output.stdout));
}

#[test]
fn a_program_in_c_reads_a_fragment_stream() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("read", directory.path());
    let path = directory.path().join("source-3.sfrag");
    let header = StreamHeader {
        source: SourceId(3),
        run: RunNumber(3),
        has_events: true,
        has_times: true,
        time_base: None,
    };
    let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
    for event in 1..4 {
        writer.append(&fragment(event, 3, &[event as u8; 2])).unwrap();
    }
    writer.finish().unwrap();
    let output = run(&program, &path);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected =
        "event 1 source 3 time 10 0101\nevent 2 source 3 time 20 0202\nevent 3 source 3 time 30 0303\n";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn failures_to_open_are_described() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("read", directory.path());
    let output = run(&program, &directory.path().join("absent.sheaf"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("absent.sheaf"), "{}", text(&output.stderr));
}

/// Compiles the first block of C in a page as a library.
fn page_example(page: &str, directory: &Path) -> PathBuf {
    let page = std::fs::read_to_string(folder().join("../../docs").join(page)).unwrap();
    let (_, code) = page.split_once("```c\n").unwrap();
    let (source, library) = (directory.join("example.c"), directory.join("libexample.so"));
    std::fs::write(&source, code.split_once("```").unwrap().0).unwrap();
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(folder().join("include"))
        .arg("-o")
        .args([&library, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    library
}

#[test]
fn the_filter_of_the_page_works() {
    let directory = tempfile::tempdir().unwrap();
    let library = page_example("howto/filter-in-c.md", directory.path());
    let mut filter = LibraryFilter::open(&library, "sheaf_filter", &Setup::default()).unwrap();
    for (count, wanted) in [(0, false), (1, false), (2, true), (3, true)] {
        let fragments = (0..count).map(|source| fragment(1, source, b"x")).collect();
        assert_eq!(filter.judge(&event(1, fragments, vec![])).unwrap().accepted, wanted, "{count} fragments");
    }
}

#[test]
fn the_preprocessor_of_the_page_works() {
    let directory = tempfile::tempdir().unwrap();
    let library = page_example("howto/preprocessor.md", directory.path());
    let mut preprocessor =
        LibraryPreprocessor::open(&library, "sheaf_preprocessor", &Setup::default()).unwrap();
    for (payload, bytes) in [(&[][..], 0), (&[0, 0], 0), (&[7, 0, 9, 0, 0], 3), (&[1, 2], 2)] {
        let raw = RawFragment { event: EventId(1), source: SourceId(1), time: Timestamp(1), payload };
        let mut room = vec![0xAA; payload.len()];
        assert_eq!(preprocessor.process(&raw, &mut room), Ok(Processed::Written(bytes)));
        assert_eq!(room[..bytes], payload[..bytes]);
    }
}

#[test]
fn the_step_filter_of_the_page_works() {
    let directory = tempfile::tempdir().unwrap();
    let library = page_example("concepts/two-steps.md", directory.path());
    let mut filter = LibraryStep::open(&library, "sheaf_step_filter", &Setup::default()).unwrap();
    let mut judge = |fragments: &[(u32, &[u8])]| {
        let fragments = fragments.iter().map(|(source, payload)| fragment(1, *source, payload)).collect();
        filter.judge(&event(1, fragments, vec![])).unwrap()
    };
    assert_eq!(judge(&[(0, b"")]), Step::Reject);
    assert_eq!(judge(&[(0, b"x")]), Step::Sources(vec![SourceId(10), SourceId(11)]));
    assert_eq!(judge(&[(0, b"x"), (10, b""), (11, b"y")]), Step::Enough);
}
