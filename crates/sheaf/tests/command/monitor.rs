//! The page and the metrics of a run: the numbers are those of the summary, and nobody on another host sees them.

use crate::child::{Running, ScratchDirectory, wait_until};
use crate::output::{field, number};
use crate::streams;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Time for which the page stays after a run, in both configurations.
const LINGER: &str = "[monitor]\nlinger_ms = 3600000\n";

/// A run with dead time, and with rejected events.
const SLOW: &str = "[run]\nduration_s = 0.5\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 16\n\
     [filter]\nkind = \"busy\"\nbusy_us = 500\n[manager]\nbatch_events = 4\n\
     [trigger]\nmode = \"poisson\"\nrate_hz = 20000\nqueue_events = 64\n";

/// A replay of streams with gaps, of which incomplete events are dropped and others rejected.
const GAPS: &str = "[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"gaps\"\n\
     [readout]\ncount = 2\nmerge_timeout_ms = 20\n[builder]\ncount = 2\n[incomplete]\npolicy = \"drop\"\n\
     [filter]\nkind = \"prescale\"\nprescale = 3\n";

/// Series with their labels, and their values.
type Metrics = BTreeMap<String, f64>;

/// Returns the address at which a command serves its page.
pub(crate) fn address(running: &mut Running) -> String {
    running.wait_until_said("/metrics");
    let said = running.said();
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    address.to_owned()
}

/// Returns the body of an answer.
pub(crate) fn get(address: &str, path: &str) -> String {
    let (head, body) = ask(address, path);
    assert!(head.contains(" 200 OK"), "{path}: {head}");
    body
}

/// Returns head and body of an answer, which comes in one piece: HTTP 1.0 has no others.
pub(crate) fn ask(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Returns the state of the run at a page.
pub(crate) fn state(address: &str) -> Value {
    serde_json::from_str(&get(address, "/api/v1/state")).unwrap()
}

/// Returns whether a state of a run has an alarm with this code.
pub(crate) fn has_alarm(state: &Value, code: &str) -> bool {
    let mut alarms = field(state, "alarms").as_array().expect("a list").iter();
    alarms.any(|alarm| field(alarm, "code") == code)
}

/// Returns whether all nodes have published. The restart of one that has not is its beginning.
pub(crate) fn have_all_published(state: &Value) -> bool {
    let mut nodes = field(state, "nodes").as_array().expect("a list").iter();
    nodes.all(|node| field(node, "age_ms").is_number())
}

fn scrape(address: &str) -> Metrics {
    let text = get(address, "/metrics");
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.into(), value.parse().unwrap()))
        .collect()
}

/// Returns the sum of the series of a metric whose labels contain `label`.
fn sum(metrics: &Metrics, name: &str, label: &str) -> f64 {
    let of_metric = metrics.iter().filter(|(series, _)| series.split('{').next() == Some(name));
    of_metric.filter(|(series, _)| series.contains(label)).map(|(_, value)| value).sum()
}

fn assert_same(metrics: &Metrics, name: &str, label: &str, expected: u64) {
    let found = sum(metrics, name, label);
    assert!((found - expected as f64).abs() < 0.5, "{name} {label}: {found} instead of {expected}");
}

/// Compares every number that both have.
fn assert_scrape_is_the_summary(metrics: &Metrics, summary: &Value) {
    for (name, label, path) in [
        ("sheaf_run_number", "", "run"),
        ("sheaf_triggers_total", "", "ledger.offered"),
        ("sheaf_triggers_accepted_total", "", "ledger.triggers"),
        ("sheaf_events_total", "outcome=\"stored\"", "ledger.stored"),
        ("sheaf_events_total", "outcome=\"rejected\"", "ledger.rejected"),
        ("sheaf_events_in_flight", "", "ledger.in_flight"),
        ("sheaf_events_incomplete_total", "", "events_incomplete"),
        ("sheaf_event_fragments_total", "", "fragments"),
        ("sheaf_event_bytes_total", "", "bytes"),
        ("sheaf_fragments_total", "bin=\"received\"", "ledger.fragments.received"),
        ("sheaf_fragments_total", "bin=\"stored\"", "ledger.fragments.stored"),
        ("sheaf_fragments_total", "bin=\"rejected\"", "ledger.fragments.rejected"),
        ("sheaf_fragments_in_flight", "", "ledger.fragments.in_flight"),
    ] {
        assert_same(metrics, name, label, number(summary, path));
    }
    for (name, label, path) in [
        ("sheaf_event_drops_total", "reason", "ledger.dropped"),
        ("sheaf_fragment_drops_total", "reason", "ledger.fragments.dropped"),
        ("sheaf_triggers_vetoed_total", "cause", "ledger.vetoed"),
    ] {
        let bins = field(summary, path).as_object().unwrap();
        for (bin, value) in bins {
            assert_same(metrics, name, &format!("{label}=\"{bin}\""), value.as_u64().unwrap());
        }
        assert_same(metrics, name, "", bins.values().filter_map(Value::as_u64).sum());
    }
    let seconds = |path: &str| number(summary, path) as f64 / 1e9;
    let live = sum(metrics, "sheaf_live_seconds_total", "");
    assert!((live - seconds("ledger.time.live_ns")).abs() < 1e-9);
    let run = live + sum(metrics, "sheaf_dead_seconds_total", "");
    assert!((run - seconds("ledger.time.run_ns")).abs() < 1e-6, "{run}");
    for (cause, value) in field(summary, "ledger.time.dead_ns").as_object().unwrap() {
        let found = sum(metrics, "sheaf_dead_seconds_total", &format!("cause=\"{cause}\""));
        assert!((found - value.as_u64().unwrap() as f64 / 1e9).abs() < 1e-6, "{cause}: {found}");
    }
    for (counter, value) in field(summary, "counters").as_object().unwrap() {
        let name = format!("sheaf_{counter}_total");
        if metrics.keys().any(|series| series.starts_with(&format!("{name}{{"))) {
            assert_same(metrics, &name, "", value.as_u64().unwrap());
        }
    }
}

/// Compares the numbers of `sheaf top` with the summary.
fn assert_top_is_the_summary(top: &str, summary: &Value) {
    let row = |label: &str| {
        let line = top
            .lines()
            .find(|line| line.starts_with(label))
            .unwrap_or_else(|| panic!("no {label} in:\n{top}"));
        line.replace(',', "")
    };
    let has = |label: &str, path: &str, name: &str| {
        let wanted = format!(" {} {name}", number(summary, path));
        assert!(row(label).contains(&wanted), "{wanted} is not in {}", row(label));
    };
    has("triggers", "ledger.triggers", "accepted");
    has("events", "ledger.stored", "stored");
    has("events", "ledger.rejected", "rejected");
    has("events", "ledger.in_flight", "in flight");
    has("events", "events_incomplete", "incomplete");
    has("fragments", "ledger.fragments.received", "received");
    has("fragments", "ledger.fragments.stored", "stored");
    let time = field(summary, "ledger.time");
    let live = 100.0 * time["live_ns"].as_f64().unwrap() / time["run_ns"].as_f64().unwrap();
    assert!(row("live").contains(&format!("{live:.2} %")), "{live} is not in:\n{top}");
    assert!(
        row("result").contains("good") && top.starts_with(&format!("run {}", number(summary, "run"))),
        "{top}"
    );
}

/// Makes a run, and compares its last scrape and the last state of its page with its summary, which it returns.
fn assert_last_numbers_are_the_summary(config: &str, flags: &str) -> Value {
    let scratch = ScratchDirectory::new();
    streams::make(&scratch.join("whole"), 4, 300);
    streams::copy(&scratch.join("whole"), &scratch.join("gaps"), |source, event| {
        source != 2 || event % 50 != 7
    });
    let config = scratch.file("run.toml", &format!("{LINGER}{config}"));
    let mut running = scratch.start(&format!("run {} --page=127.0.0.1:0 {flags} --json", config.display()));
    let address = address(&mut running);
    running.wait_until_said("the page stays");
    let metrics = scrape(&address);
    let mut shown = state(&address);
    wait_until("the page shows the end", || {
        shown = state(&address);
        !shown["run"]["verdict"].is_null()
    });
    let top = scratch.sheaf(&format!("top {address}")).exits(0).stdout;
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_scrape_is_the_summary(&metrics, &summary);
    assert_top_is_the_summary(&top, &summary);
    assert_eq!(shown["events"]["stored"], *field(&summary, "ledger.stored"));
    assert_eq!(shown["fragments"]["received"], *field(&summary, "ledger.fragments.received"));
    assert_eq!((&shown["run"]["phase"], &shown["run"]["verdict"]["good"]), (&"closed".into(), &true.into()));
    assert_eq!(shown["imbalance"], serde_json::json!({ "triggers": 0, "fragments": 0 }));
    summary
}

#[test]
fn the_last_scrape_of_a_run_in_one_process_is_its_summary() {
    let summary = assert_last_numbers_are_the_summary(SLOW, "");
    assert!(number(&summary, "ledger.vetoed.builder_credit") > 0);
    let summary = assert_last_numbers_are_the_summary(GAPS, "");
    assert_eq!(number(&summary, "ledger.dropped.incomplete"), 6);
    assert!(number(&summary, "ledger.rejected") > 0);
}

#[test]
fn the_last_scrape_of_a_run_in_many_processes_is_its_summary() {
    let summary = assert_last_numbers_are_the_summary(SLOW, "--processes --transport shm");
    assert!(number(&summary, "ledger.vetoed.builder_credit") > 0);
    assert_last_numbers_are_the_summary(GAPS, "--processes");
}

#[test]
fn the_last_scrape_of_a_run_with_output_nodes_is_its_summary() {
    assert_last_numbers_are_the_summary(SLOW, "--processes --outputs 2");
}

/// Also in between: what was published together is read together.
#[test]
fn the_books_of_triggers_balance_in_every_scrape() {
    let scratch = ScratchDirectory::new();
    let mut running =
        scratch.start("run --readouts 2 --builders 2 --duration 0 --page=127.0.0.1:0 --output runs");
    let address = address(&mut running);
    let mut stored = 0.0;
    let mut scrapes = 0;
    wait_until("the run has grown in 20 scrapes", || {
        let metrics = scrape(&address);
        let bins = sum(&metrics, "sheaf_events_total", "") + sum(&metrics, "sheaf_events_in_flight", "");
        let accepted = sum(&metrics, "sheaf_triggers_accepted_total", "");
        assert!((bins - accepted).abs() < 0.5, "{bins} events, {accepted} triggers");
        let now = sum(&metrics, "sheaf_events_total", "outcome=\"stored\"");
        scrapes += u32::from(now > stored);
        stored = stored.max(now);
        scrapes == 20
    });
    running.signal("INT");
    running.end().exits(0);
}

#[test]
fn a_killed_builder_is_on_the_page_and_in_the_metrics() {
    let scratch = ScratchDirectory::new();
    let mut running =
        scratch.start("run --processes --readouts 2 --builders 2 --duration 0 --page=127.0.0.1:0");
    let address = address(&mut running);
    wait_until("events are stored", || state(&address)["events"]["stored"].as_u64() > Some(0));
    let first = running.wait_for_node("bu0", 0);
    wait_until("all nodes have published", || have_all_published(&state(&address)));
    crate::child::signal(first, "KILL");
    wait_until("the restart is shown", || {
        let state = state(&address);
        let node =
            state["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "bu0").unwrap().clone();
        node["restarts"] == 1 && node["up"] == true
    });
    wait_until("the lost session is counted", || {
        sum(&scrape(&address), "sheaf_builder_sessions_lost_total", "") > 0.5
    });
    running.signal("INT");
    running.end().exits(0);
}

#[test]
fn a_frozen_node_raises_an_alarm_with_its_name() {
    let scratch = ScratchDirectory::new();
    let mut running =
        scratch.start("run --processes --readouts 2 --builders 2 --duration 0 --page=127.0.0.1:0");
    let address = address(&mut running);
    wait_until("events are stored", || state(&address)["events"]["stored"].as_u64() > Some(0));
    let node = running.wait_for_node("bu1", 0);
    // One that has not published yet may never have come.
    wait_until("all nodes have published", || have_all_published(&state(&address)));
    crate::child::signal(node, "STOP");
    wait_until("the alarm is raised", || {
        let alarms = state(&address)["alarms"].clone();
        let is_it = |alarm: &Value| alarm["code"] == "node-silent" && alarm["culprit"] == "bu1";
        alarms.as_array().unwrap().iter().any(is_it)
    });
    crate::child::signal(node, "CONT");
    wait_until("the alarm is gone", || !has_alarm(&state(&address), "node-silent"));
    running.signal("INT");
    running.end();
}

#[test]
fn addresses_that_other_hosts_reach_are_refused_before_the_run() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("run --page=0.0.0.0:0").exits(1).says(&["loopback", "monitor.remote"]);
    assert!(!scratch.join("runs").exists());
}

#[test]
fn top_without_a_page_says_how_to_get_one() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("top 127.0.0.1:1").exits(1).says(&["no page of a run is at http://127.0.0.1:1", "--page"]);
}
