//! Every slow, incomplete, dropped and quarantined event of a run has a trace that is found by its id.

use crate::child::ScratchDirectory;
use crate::filters::compile;
use crate::nodes::free_ports;
use crate::output::number;
use crate::streams;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const SOURCES: u32 = 4;
const EVENTS: u64 = 200;

/// Source 3 lacks some events.
fn is_there(source: u32, event: u64) -> bool {
    source != 3 || event % 50 != 11
}

/// Runs a replay with gaps, and a filter that is slow for some events and fails in others.
fn run(scratch: &ScratchDirectory, how: &str, more: &str, code: i32) -> Value {
    compile("crates/sheaf/tests/command/trace_filter.c", &scratch.join("libtrace.so"));
    streams::make(&scratch.join("whole"), SOURCES, EVENTS);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), is_there);
    let config = format!(
        "[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"gaps\"\n\
         [readout]\ncount = 2\nmerge_timeout_ms = 20\n[builder]\ncount = 2\n\
         [trace]\nslow_ms = 50\n\
         [filter]\nkind = \"library\"\npath = \"libtrace.so\"\n{more}"
    );
    let config = scratch.file("gaps.toml", &config);
    scratch.sheaf(&format!("run {} --json {how}", config.display())).exits(code).json()
}

/// Returns the events that have a trace for a reason.
fn listed(list: &Value, reason: &str) -> BTreeSet<u64> {
    let events = list["events"].as_array().unwrap().iter();
    let has = |event: &&Value| event["reasons"].as_array().unwrap().contains(&reason.into());
    events.filter(has).map(|event| event["event"].as_u64().unwrap()).collect()
}

fn events(wanted: impl Fn(u64) -> bool) -> BTreeSet<u64> {
    (0..EVENTS).filter(|event| wanted(*event)).collect()
}

/// Returns the first span with this name that has ended. A span that has not is one of an attempt that was given up.
fn span<'a>(trace: &'a Value, name: &str) -> &'a Value {
    let mut spans = trace["spans"].as_array().unwrap().iter();
    let found = spans.find(|span| span["name"] == name && span["end_ns"].is_u64());
    found.unwrap_or_else(|| panic!("no {name} that has ended in {trace:#}"))
}

fn took_ns(span: &Value) -> u64 {
    span["end_ns"].as_u64().unwrap() - span["start_ns"].as_u64().unwrap()
}

/// Every remarkable event has a trace with all of its stages, wherever the nodes and the filter are.
fn assert_all_are_traced(how: &str, more: &str) {
    let scratch = ScratchDirectory::new();
    let summary = run(&scratch, how, more, 3);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{how}");
    let list = scratch.sheaf("trace 1 --last 1000 --json").exits(0).json();
    let newest = scratch.sheaf("trace runs --last 1000 --json").exits(0).json();
    assert_eq!(newest, list, "a directory of runs stands for its newest");
    assert_eq!(listed(&list, "incomplete"), events(|event| !is_there(3, event)), "{how}");
    assert_eq!(listed(&list, "quarantined"), events(|event| event % 10 == 7), "{how}");
    let slow = events(|event| event % 10 == 3);
    let mut left_out = list["left_out"].as_object().unwrap().clone();
    // On a machine without a processor for a second, all events are slow, and some have no trace: they are counted.
    let late = left_out.remove("late_answers").unwrap().as_u64().unwrap();
    let traced = listed(&list, "slow");
    assert!(slow.difference(&traced).count() as u64 <= late, "{how}: {list:#}");
    assert!(left_out.values().all(|count| count == 0), "{how}: {list:#}");
    for event in list["events"].as_array().unwrap() {
        let event = event["event"].as_u64().unwrap();
        let trace = scratch.sheaf(&format!("trace 1 {event} --json")).exits(0).json();
        for name in
            ["event", "queue", "readout.hold", "readout.send", "build.gather", "filter.judge", "report"]
        {
            span(&trace, name);
        }
        if slow.contains(&event) {
            assert!(took_ns(span(&trace, "filter.judge")) >= 60_000_000, "{how}: event {event}: {trace:#}");
        }
        if !is_there(3, event) {
            let missing = &trace["trace"]["missing"];
            assert_eq!((&missing[0]["source"], &missing[0]["required"]), (&3.into(), &true.into()), "{how}");
        }
    }
}

#[test]
fn all_remarkable_events_are_traced_in_one_process() {
    assert_all_are_traced("", "");
}

#[test]
fn all_remarkable_events_are_traced_in_many_processes() {
    assert_all_are_traced("--processes", "");
}

#[test]
fn all_remarkable_events_are_traced_with_a_farm_and_output_nodes() {
    assert_all_are_traced("--processes --transport shm --outputs 1", "workers = 2\nprocesses = true\n");
}

#[test]
fn dropped_events_are_traced_with_the_reason() {
    let scratch = ScratchDirectory::new();
    run(&scratch, "", "[incomplete]\npolicy = \"drop\"\n", 0);
    let list = scratch.sheaf("trace --last 1000 --json").exits(0).json();
    assert_eq!(listed(&list, "dropped"), events(|event| !is_there(3, event)));
    let dropped = list["events"].as_array().unwrap().iter().filter(|event| event["outcome"] == "dropped");
    dropped.for_each(|event| assert_eq!(event["drop_reason"], "incomplete", "{list:#}"));
}

#[test]
fn a_waterfall_names_the_slow_stage_and_the_missing_source() {
    let scratch = ScratchDirectory::new();
    run(&scratch, "", "", 3);
    let slow = scratch.sheaf("trace 1 13").exits(0).stdout;
    assert!(slow.starts_with("Event 13 of run 1: slow"), "{slow}");
    assert!(slow.contains("filter.judge"), "{slow}");
    let incomplete = scratch.sheaf("trace 1 61").exits(0).stdout;
    assert!(incomplete.contains("Missing: source 3, source_skipped"), "{incomplete}");
    let list = scratch.sheaf("trace --last 1000").exits(0).stdout;
    assert!(list.contains("without source 3"), "{list}");
}

#[test]
fn an_event_without_a_trace_has_a_reason_and_a_remedy() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("few.toml", "[run]\nevents = 50\n[trace]\nsample = 0\nslow_ms = 3600000\n");
    scratch.sheaf(&format!("run {}", config.display())).exits(0);
    let missing = scratch.sheaf("trace 1 7").exits(1).stderr;
    assert!(
        missing.contains("event 7 of run 1 has no trace") && missing.contains("trace.slow_ms"),
        "{missing}"
    );
    let list = scratch.sheaf("trace").exits(0).stdout;
    assert!(list.contains("traces of 0 remarkable events"), "{list}");
    let config = scratch.file("none.toml", "[run]\nevents = 50\nnumber = 2\n[trace]\nfile_bytes = 0\n");
    scratch.sheaf(&format!("run {}", config.display())).exits(0);
    let none = scratch.sheaf("trace 2").exits(1).stderr;
    assert!(none.contains("`trace.file_bytes` is 0"), "{none}");
}

#[test]
fn a_full_file_is_counted_and_said() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file(
        "full.toml",
        "[run]\nevents = 2000\n[readout]\ncount = 2\n[builder]\ncount = 2\n[trace]\nslow_ms = 1\nfile_bytes = 4096\n\
         [filter]\nkind = \"busy\"\nbusy_us = 1000\n",
    );
    scratch.sheaf(&format!("run {}", config.display())).exits(0);
    let list = scratch.sheaf("trace --json").exits(0).json();
    assert!(list["left_out"]["file_full"].as_u64().unwrap() > 0, "{list:#}");
    assert!(std::fs::metadata(scratch.join("runs/run000001/traces.jsonl")).unwrap().len() <= 4096);
    let text = scratch.sheaf("trace").exits(0).stdout;
    assert!(text.contains("for lack of room in the file (`trace.file_bytes`)"), "{text}");
}

/// Takes one request over HTTP, answers it and returns its body.
fn take_request(listener: &TcpListener) -> Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut read = Vec::new();
    loop {
        let mut some = [0; 4096];
        let bytes = stream.read(&mut some).unwrap();
        read.extend_from_slice(&some[..bytes]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("POST /v1/traces "), "{head}");
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
            return serde_json::from_str(body).unwrap();
        }
    }
}

#[test]
fn a_trace_is_sent_to_a_collector_of_open_telemetry() {
    let scratch = ScratchDirectory::new();
    run(&scratch, "", "", 3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taking = std::thread::spawn(move || take_request(&listener));
    scratch.sheaf(&format!("trace 1 13 --otlp http://{address}")).exits(0);
    let request = taking.join().unwrap();
    let spans: Vec<&Value> = request["resourceSpans"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap())
        .collect();
    assert!(spans.len() > 8, "{request:#}");
    let is_whole = |span: &&&Value| span["traceId"] == "0000000000000001000000000000000d";
    assert_eq!(spans.iter().filter(is_whole).count(), spans.len(), "{request:#}");
}

/// Nodes that were started by hand have files of their own, which are joined. All have the sample, without a word between them.
#[test]
fn nodes_started_by_hand_have_traces_of_the_same_sample() {
    let scratch = ScratchDirectory::new();
    let names = ["daq", "calo", "tracker", "farm"];
    let roles =
        ["manager", "readout\"\nsources = [\"1-2\"]\n#\"", "readout\"\nsources = [7]\n#\"", "builder"];
    let ports: [u16; 4] = free_ports();
    let nodes = names.iter().zip(roles).zip(ports).map(|((name, role), port)| {
        format!("[[node]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\nrole = \"{role}\"\n")
    });
    let head = "[run]\nnumber = 42\nevents = 2000\nduration_s = 0\n[transport]\nkind = \"tcp\"\n\
                [manager]\nstart_timeout_ms = 60000\n[trace]\nsample = 100\nslow_ms = 3600000\n";
    scratch.file("system.toml", &(head.to_owned() + &nodes.collect::<String>()));
    let running = names.map(|name| scratch.start(&format!("node system.toml {name} --json")));
    running.into_iter().for_each(|node| _ = node.end().exits(0));
    let list = scratch.sheaf("trace 42 --all --last 1000 --json").exits(0).json();
    let sampled = listed(&list, "sampled");
    assert_eq!(sampled.len(), 20, "{list:#}");
    for event in sampled {
        let trace = scratch.sheaf(&format!("trace 42 {event} --json")).exits(0).json();
        let stamps = trace["trace"]["stamps"].as_array().unwrap();
        let seen: BTreeSet<&str> = stamps.iter().map(|stamp| stamp["node"].as_str().unwrap()).collect();
        assert_eq!(seen, names.into_iter().collect(), "{trace:#}");
        for name in
            ["event", "queue", "readout.hold", "readout.send", "build.gather", "filter.judge", "release"]
        {
            assert!(span(&trace, name)["end_ns"].is_u64(), "{name} of event {event}: {trace:#}");
        }
    }
}
