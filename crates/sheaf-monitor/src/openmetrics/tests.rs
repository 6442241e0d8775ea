//! The format of metrics.

use super::*;
use sheaf_telemetry::buckets::Buckets;
use sheaf_telemetry::{Hub, SeriesList};

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
    encode(hub.snapshot()).expect("text can be written")
}

#[test]
fn series_have_names_units_and_labels() {
    let text = text();
    for line in [
        "# TYPE sheaf_events counter",
        r#"sheaf_events_total{node="evm",outcome="stored"} 18000000000000000001"#,
        "# UNIT sheaf_live_seconds seconds",
        r#"sheaf_live_seconds_total{node="evm"} 1.5"#,
        r#"sheaf_dead_seconds_total{node="evm",cause="builder_credit",culprit="bu \"0\""} 0.25"#,
        r#"sheaf_node_up{node="evm"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
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
