//! Requests to a monitor over TCP.

use super::*;
use crate::messages::Level;
use sheaf_telemetry::{SeriesList, catalog};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

fn start() -> Monitor {
    Monitor::start((Ipv4Addr::LOCALHOST, 0).into(), "test").expect("a port is free")
}

/// Sends a request and returns the connection.
fn ask(monitor: &Monitor, path: &str, host: &str) -> TcpStream {
    let mut stream = TcpStream::connect(monitor.address()).expect("the monitor listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the request is sent");
    stream
}

/// Returns head and body of an answer.
fn get(monitor: &Monitor, path: &str) -> (String, Vec<u8>) {
    get_as(monitor, path, "127.0.0.1")
}

fn get_as(monitor: &Monitor, path: &str, host: &str) -> (String, Vec<u8>) {
    let mut answer = Vec::new();
    ask(monitor, path, host).read_to_end(&mut answer).expect("the answer arrives");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the head ends");
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
}

fn text(monitor: &Monitor, path: &str) -> String {
    String::from_utf8(get(monitor, path).1).expect("the answer is text")
}

#[test]
fn every_answer_has_the_headers_that_protect_the_page() {
    let monitor = start();
    for path in ["/", "/metrics", "/api/v1/state", "/nothing"] {
        let head = get(&monitor, path).0.to_lowercase();
        for header in [
            "content-security-policy: default-src 'self'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
    }
}

#[test]
fn requests_for_another_host_are_refused() {
    let (head, body) = get_as(&start(), "/api/v1/state", "attacker.example");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("ssh -L"));
}

#[test]
fn errors_of_the_interface_for_programs_are_json_whoever_makes_them() {
    let monitor = start();
    for (path, host, status, code) in [
        ("/api/v1/nothing", "127.0.0.1", 404, "not_found"),
        ("/api/v1/nodes/nobody", "127.0.0.1", 404, "not_found"),
        ("/api/v1/nodes/%ff", "127.0.0.1", 400, "invalid"),
        ("/api/v1/operations/x", "127.0.0.1", 400, "invalid"),
        ("/api/v1/runs/-1", "127.0.0.1", 400, "invalid"),
        ("/api/v1/runs?last=many", "127.0.0.1", 400, "invalid"),
        ("/api/v1/history", "127.0.0.1", 400, "invalid"),
        ("/api/v1/history?step=7", "127.0.0.1", 400, "invalid"),
        ("/api/v1/faults/1/cleared", "127.0.0.1", 405, "method"),
        ("/api/v1/control", "127.0.0.1", 404, "not_found"),
        ("/api/v1/state", "attacker.example", 403, "host"),
    ] {
        let (head, body) = get_as(&monitor, path, host);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert!(head.to_lowercase().contains("content-type: application/json"), "{path}: {head}");
        let error: serde_json::Value = serde_json::from_slice(&body).expect(path);
        assert_eq!(error["code"], code, "{path}: {error}");
        assert!(error["text"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {error}");
        assert!(error["remedy"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {error}");
    }
    let (head, _) = get(&monitor, "/api/v1/faults/1/cleared");
    assert!(head.to_lowercase().contains("allow: post"), "{head}");
}

#[test]
fn other_paths_have_errors_in_plain_text() {
    let (head, body) = get(&start(), "/nothing");
    assert!(head.to_lowercase().contains("content-type: text/plain"), "{head}");
    assert!(body.starts_with(b"nothing is here"));
}

#[test]
fn the_interface_describes_itself() {
    let document: serde_json::Value =
        serde_json::from_str(&text(&start(), "/api/v1/openapi.json")).expect("it is JSON");
    assert_eq!(document, crate::openapi::document());
}

#[test]
fn addresses_that_other_hosts_reach_are_refused() {
    let error = Monitor::start(([0, 0, 0, 0], 0).into(), "test").expect_err("nobody protects it");
    assert!(error.to_string().contains("monitor.remote"), "{error}");
}

#[test]
fn an_address_in_use_is_named() {
    let first = start();
    let error = Monitor::start(first.address(), "test").expect_err("the port is taken");
    assert!(error.to_string().contains(&first.address().to_string()), "{error}");
}

#[test]
fn published_values_are_in_metrics_and_state() {
    let monitor = start();
    let mut list = SeriesList::default();
    let number = list.add(&catalog::RUN_NUMBER, &[]);
    let stored = list.add(&catalog::EVENTS, &["stored"]);
    let mut publisher = list.publish();
    monitor.begin_run(RunDescription::default());
    monitor.hub().add("evm", publisher.publication());
    publisher.publish(1, |to| {
        to.set(number, 42);
        to.set(stored, 17);
    });
    let (level, code, text_of) = (Level::Warning, "other".to_owned(), "<script>".to_owned());
    monitor.add_message(LogEntry { number: 0, time_ms: 0, level, code, node: None, text: text_of });
    assert!(text(&monitor, "/metrics").contains("sheaf_events_total{node=\"evm\",outcome=\"stored\"} 17\n"));
    let state = loop {
        let state: serde_json::Value =
            serde_json::from_str(&text(&monitor, "/api/v1/state")).expect("it is JSON");
        if state["run"]["number"] == 42 {
            break state;
        }
    };
    assert_eq!(state["events"]["stored"], 17);
    assert_eq!(
        (&state["log"][0]["text"], &state["log"][0]["level"]),
        (&"<script>".into(), &"warning".into())
    );
    let node: serde_json::Value =
        serde_json::from_str(&text(&monitor, "/api/v1/nodes/evm")).expect("it is JSON");
    assert_eq!(node["figures"][0]["value"], 42.0);
}

/// Prometheus puts the labels of a target on all of its series.
#[test]
fn a_partition_is_a_label_of_the_target_and_of_the_run() {
    let labels = |monitor: &Monitor| -> serde_json::Value {
        let targets: serde_json::Value =
            serde_json::from_str(&text(monitor, "/prometheus/targets")).expect("it is JSON");
        targets[0]["labels"].clone()
    };
    let whole = start();
    assert_eq!(labels(&whole), serde_json::json!({ "job": "sheaf" }));
    assert!(!text(&whole, "/metrics").contains("sheaf_run_info"), "no run is known");
    whole.begin_run(RunDescription { number: 7, ..RunDescription::default() });
    assert!(
        text(&whole, "/metrics").contains("sheaf_run_info{run=\"7\",partition=\"\",version=\"test\"} 1\n")
    );
    let services = Services { partition: Some("tracker".into()), ..Services::default() };
    let part =
        Monitor::start_with((Ipv4Addr::LOCALHOST, 0).into(), "test", services).expect("a port is free");
    assert_eq!(labels(&part), serde_json::json!({ "job": "sheaf", "partition": "tracker" }));
    part.begin_run(RunDescription { number: 8, ..RunDescription::default() });
    assert!(
        text(&part, "/metrics")
            .contains("sheaf_run_info{run=\"8\",partition=\"tracker\",version=\"test\"} 1\n")
    );
}

#[test]
fn numbers_come_in_rows_as_wide_as_the_list_of_columns() {
    let monitor = start();
    let columns: Vec<serde_json::Value> =
        serde_json::from_str(&text(&monitor, "/api/v1/columns")).expect("it is JSON");
    let bytes = get(&monitor, "/api/v1/live?after=0").1;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    assert_eq!((word(4), word(12)), (columns.len(), 100));
    assert_eq!(bytes.len(), 32 + 4 * word(4) * word(8));
    assert!(get(&monitor, "/api/v1/history?step=1000").0.starts_with("HTTP/1.1 200"));
    assert!(get(&monitor, "/api/v1/history?step=7").0.starts_with("HTTP/1.1 400"));
    assert!(get(&monitor, "/api/v1/history").0.starts_with("HTTP/1.1 400"));
}

#[test]
fn the_stream_has_states_with_growing_numbers_and_ends_with_the_monitor() {
    let monitor = start();
    let mut lines = BufReader::new(ask(&monitor, "/api/v1/stream", "localhost")).lines();
    let mut revision = || {
        let data = lines.by_ref().find_map(|line| Some(line.ok()?.strip_prefix("data: ")?.to_owned()))?;
        let state: serde_json::Value = serde_json::from_str(&data).expect("it is JSON");
        state["revision"].as_u64()
    };
    let (first, second) = (revision(), revision());
    assert!(first.is_some() && second > first, "{first:?} {second:?}");
    drop(monitor);
    while revision().is_some() {}
}

#[test]
fn a_client_that_reads_nothing_holds_up_neither_others_nor_the_end() {
    let monitor = start();
    let idle: Vec<_> = (0..20).map(|_| ask(&monitor, "/api/v1/stream", "localhost")).collect();
    for _ in 0..20 {
        assert!(get(&monitor, "/healthz").0.starts_with("HTTP/1.1 200"));
    }
    drop(monitor);
    drop(idle);
}
