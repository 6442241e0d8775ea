//! The format of metrics.

use super::*;
use crate::state::{NodeState, State};
use crate::values::{DeclaredValue, Offer};
use sheaf_telemetry::buckets::Buckets;
use sheaf_telemetry::{Hub, SeriesList};
use std::time::Duration;

fn values() -> ValueBoard {
    let board = ValueBoard::default();
    let value = |name: &str, unit: Option<&str>| DeclaredValue {
        name: name.into(),
        unit: unit.map(str::to_owned),
        stale: Duration::from_secs(3_600),
        ..DeclaredValue::default()
    };
    board.declare(vec![value("hv", Some("V")), value("never", None), value("old", Some("\u{b0}C"))]);
    let offer = |name, value, age| Offer { name, value: Some(value), age, by: None };
    let offers = [offer("hv", 1_500.25, 0), offer("old", 20.0, 7_200_000), offer("other", 1.0, 0)];
    assert_eq!(board.take_sent(&offers).len(), 1);
    board
}

fn text() -> String {
    let mut list = SeriesList::default();
    let stored = list.add(&catalog::EVENTS, &["stored"]);
    let live = list.add(&catalog::LIVE_SECONDS, &[]);
    let dead = list.add(&catalog::DEAD_SECONDS, &["builder_credit", "bu \"0\""]);
    list.add(&catalog::DEAD_SECONDS, &["output", ""]);
    list.add(&catalog::DEAD_SECONDS, &["output", "bu1"]);
    let latency = list.add(&catalog::EVENT_SECONDS, &[]);
    let mut publisher = list.publish();
    let mut durations = Buckets::default();
    durations.add(15_000, 3);
    durations.add(200_000_000_000, 1);
    publisher.publish(1, |to| {
        to.set(stored, 18_000_000_000_000_000_001);
        to.set(live, 1_500_000_000);
        to.set(dead, 250_000_000);
        to.set_histogram(latency, &durations.values());
    });
    let hub = Hub::default();
    hub.add("evm", publisher.publication());
    let run = RunLabels { run: 12, partition: Some("tracker".into()), version: "1.2.3" };
    encode(hub.snapshot(), Some(run), (&values(), &hosts())).expect("text can be written")
}

/// A host with three nodes, of which one is silent.
fn hosts() -> HostFigures {
    let node = |name: &str, age_ms| NodeState {
        agent: Some("daq07:7071".into()),
        age_ms: Some(age_ms),
        ..crate::alarms::tests::node(name)
    };
    let nodes = vec![node("bu0", 0), node("bu1", 2_000), node("bu2", 0)];
    HostFigures::of(&State { nodes, ..crate::alarms::tests::state(0) })
}

#[test]
fn series_have_names_units_and_labels() {
    let text = text();
    for line in [
        "# TYPE sheaf_run info",
        r#"sheaf_run_info{run="12",partition="tracker",version="1.2.3"} 1"#,
        "# TYPE sheaf_events counter",
        r#"sheaf_events_total{node="evm",outcome="stored"} 18000000000000000001"#,
        "# UNIT sheaf_live_seconds seconds",
        r#"sheaf_live_seconds_total{node="evm"} 1.5"#,
        r#"sheaf_dead_seconds_total{node="evm",cause="builder_credit",culprit="bu \"0\""} 0.25"#,
        r#"sheaf_node_up{node="evm"} 1"#,
        r#"sheaf_value{name="hv",unit="V"} 1500.25"#,
        r#"sheaf_node_host{node="bu1",host="daq07"} 1"#,
        r#"sheaf_node_expected{node="bu2"} 1"#,
        r#"sheaf_host_nodes{host="daq07"} 3"#,
        r#"sheaf_host_nodes_away{host="daq07"} 1"#,
        r#"sheaf_value_fresh{name="hv"} 1"#,
        r#"sheaf_value_fresh{name="never"} 0"#,
        r#"sheaf_value_readings_total{name="old"} 1"#,
        r#"sheaf_values_refused_total{reason="undeclared"} 1"#,
        r#"sheaf_values_refused_total{reason="late"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("sheaf_value{name=\"old\""), "a stale number is not shown as the present one");
    assert!(text.contains("sheaf_value_age_seconds{name=\"old\"} 7200"));
}

#[test]
fn labels_that_never_occurred_are_left_out_of_sparse_metrics() {
    assert!(!text().contains(r#"culprit="bu1""#));
    assert!(text().contains(r#"sheaf_dead_seconds_total{node="evm",cause="output",culprit=""} 0.0"#));
}

#[test]
fn histograms_are_cumulative() {
    let text = text();
    for line in [
        r#"sheaf_event_seconds_bucket{le="0.00001",node="evm"} 0"#,
        r#"sheaf_event_seconds_bucket{le="0.00002",node="evm"} 3"#,
        r#"sheaf_event_seconds_bucket{le="100.0",node="evm"} 3"#,
        r#"sheaf_event_seconds_bucket{le="+Inf",node="evm"} 4"#,
        r#"sheaf_event_seconds_count{node="evm"} 4"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn every_metric_is_described_once() {
    let text = text();
    for metric in catalog::ALL {
        let line = format!("# HELP {} {}", metric.family(), metric.help);
        let times = usize::from(metric.kind != Kind::Row);
        assert_eq!(text.lines().filter(|found| **found == line).count(), times, "{line}");
    }
}
