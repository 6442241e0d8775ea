//! The example filter decides alike in all its languages: each judges the same events, and the verdicts are compared.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop where it cannot go on; one that is skipped says why"
)]

use bytes::Bytes;
use energy_sum::EnergySum;
use sheaf_filter::{Filter, InProcess, LibraryFilter, PluginSetup, Setup};
use sheaf_store::event_file::{EventFileWriter, WriterOptions};
use sheaf_wire::{
    Event, EventId, Fragment, NodeId, NumberMark, Role, RunNumber, SessionId, SourceId, Tags, Timestamp,
    TriggerType, Verdict,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PARAMETERS: &str = "sum=4000000 source=1500000";
const TAGS: [&str; 2] = ["sum", "pair"];
const EVENTS: u64 = 2000;

/// Numbers that look random and are the same everywhere (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Up to four sources, each with up to 200 bytes: also none, and odd numbers.
fn event(id: u64, numbers: &mut Numbers) -> Event<Bytes> {
    let sources = (0..4).filter(|_| numbers.below(5) > 0).collect::<Vec<u32>>();
    let mut fragment = |source| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: (0..numbers.below(201)).map(|_| numbers.next() as u8).collect(),
    };
    let fragments = sources.into_iter().map(&mut fragment).collect();
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments,
        missing: Vec::new(),
    }
}

fn events() -> Vec<Event<Bytes>> {
    let mut numbers = Numbers(1);
    (0..EVENTS).map(|id| event(id, &mut numbers)).collect()
}

/// Returns the comparable parts of verdicts: a rejection need not carry the filter's findings.
fn judged(filter: &mut dyn Filter, events: &[Event<Bytes>]) -> Vec<Verdict> {
    let kept = |verdict: Verdict| if verdict.accepted { verdict } else { Verdict::reject() };
    events.iter().map(|event| kept(filter.judge(event).unwrap())).collect()
}

fn in_process() -> InProcess<EnergySum> {
    let setup = PluginSetup { run: RunNumber(1), parameters: PARAMETERS, tags: TAGS.to_vec() };
    InProcess::create(&setup).unwrap()
}

fn open(path: &Path) -> LibraryFilter {
    let tags = TAGS.map(str::to_owned).to_vec();
    let setup = Setup { run: RunNumber(1), tags, parameters: PARAMETERS.into() };
    LibraryFilter::open(path, "sheaf_filter", &setup).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo puts this package's shared library: beside its tests.
fn rust_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libenergy_sum.so")
}

fn c_library(directory: &Path) -> PathBuf {
    let path = directory.join("libenergy_sum.so");
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC", "-o"])
        .arg(&path)
        .arg("-I")
        .arg(folder().join("../../crates/sheaf-capi/include"))
        .arg(folder().join("c/energy_sum.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

#[test]
fn libraries_in_rust_and_c_give_the_same_verdicts() {
    let events = events();
    let directory = tempfile::tempdir().unwrap();
    let expected = judged(&mut in_process(), &events);
    assert_eq!(judged(&mut open(&rust_library()), &events), expected, "Rust, as a library");
    assert_eq!(judged(&mut open(&c_library(directory.path())), &events), expected, "C");
    // The comparison means something: all kinds of verdicts are among them.
    for tags in [Tags::NONE, Tags(0b01), Tags(0b10), Tags(0b11)] {
        let count = expected.iter().filter(|verdict| verdict.tags == tags).count();
        assert!(count > 20, "{count} events with {tags:?}");
    }
}

#[test]
fn wrong_parameters_and_missing_tags_are_refused_in_the_same_words() {
    let directory = tempfile::tempdir().unwrap();
    let libraries = [rust_library(), c_library(directory.path())];
    for parameters in ["", "sum=1", "source=1 sum=2", "sum=1 source=x", "sum=1 source=2 more"] {
        let tags = TAGS.map(str::to_owned).to_vec();
        let setup = Setup { run: RunNumber(1), tags, parameters: parameters.into() };
        for path in &libraries {
            let error = LibraryFilter::open(path, "sheaf_filter", &setup).unwrap_err().to_string();
            let right = "`filter.parameters` should be like \"sum=100000 source=40000\"";
            assert!(error.ends_with(right), "{parameters:?}: {error}");
        }
    }
    for path in &libraries {
        let setup = Setup { tags: vec!["sum".into()], parameters: PARAMETERS.into(), ..Setup::default() };
        let error = LibraryFilter::open(path, "sheaf_filter", &setup).unwrap_err().to_string();
        assert!(error.contains("the filter uses the tag") && error.ends_with("to `filter.tags`"), "{error}");
    }
}

/// The interpreter that has the package `sheaf`, if there is one: `SHEAF_PYTHON`, or `python3`.
fn python() -> Option<String> {
    let interpreter = std::env::var("SHEAF_PYTHON").unwrap_or_else(|_| "python3".into());
    let check = Command::new(&interpreter).args(["-c", "import numpy, sheaf"]).output();
    check.is_ok_and(|output| output.status.success()).then_some(interpreter)
}

/// Returns the verdicts of the Python twin on the events of a file: one JSON object a line.
fn judged_in_python(interpreter: &str, file: &Path) -> Output {
    Command::new(interpreter)
        .args(["-m", "sheaf.processor", "--json", "--parameters", PARAMETERS, "--file"])
        .arg(file)
        .arg(folder().join("python/energy_sum.py"))
        .output()
        .unwrap()
}

/// Writes events into a file of this directory.
fn write(directory: &Path, events: &[Event<Bytes>]) {
    let node = NodeId { role: Role::Builder, index: 0 };
    let options = WriterOptions::new(RunNumber(1), node, SessionId(1), Timestamp(1));
    let mut writer = EventFileWriter::create(directory, options).unwrap();
    for event in events {
        writer.write(event, &Verdict::accept()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn the_filter_in_python_gives_the_same_verdicts() {
    let Some(interpreter) = python() else {
        println!("skipped: python3 (or SHEAF_PYTHON) has no packages sheaf and numpy");
        return;
    };
    let events = events();
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &events);
    let output = judged_in_python(&interpreter, directory.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = judged(&mut in_process(), &events);
    assert_eq!(said.lines().count(), expected.len());
    for ((line, verdict), event) in said.lines().zip(&expected).zip(&events) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let hex: String = verdict.payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let tags: Vec<String> = verdict.tags.names(&TAGS).map(|tag| tag.to_string()).collect();
        let right = serde_json::json!({
            "event": event.id.0, "accepted": verdict.accepted, "tags": tags, "payload": hex,
        });
        assert_eq!(line, right);
    }
}
