//! Rates and levels out of snapshots.

use super::*;
use sheaf_telemetry::buckets::Buckets;
use sheaf_telemetry::{Hub, Publisher, SeriesId, SeriesList};

/// An event manager with a few series.
struct Manager {
    publisher: Publisher,
    stored: SeriesId,
    live: SeriesId,
    dead: SeriesId,
    latency: SeriesId,
}

impl Manager {
    fn begin(hub: &Hub) -> Self {
        let mut list = SeriesList::default();
        list.add(&catalog::RUN_NUMBER, &[]);
        let stored = list.add(&catalog::EVENTS, &["stored"]);
        let live = list.add(&catalog::LIVE_SECONDS, &[]);
        let dead = list.add(&catalog::DEAD_SECONDS, &["output", "bu0"]);
        let latency = list.add(&catalog::EVENT_SECONDS, &[]);
        let publisher = list.publish();
        hub.add("evm", publisher.publication());
        Self { publisher, stored, live, dead, latency }
    }

    fn publish(&mut self, at_ms: u64, stored: u64, live_ms: u64, dead_ms: u64, latency: &Buckets) {
        self.publisher.publish(at_ms * 1_000_000, |to| {
            to.set(self.stored, stored);
            to.set(self.live, live_ms * 1_000_000);
            to.set(self.dead, dead_ms * 1_000_000);
            to.set_histogram(self.latency, &latency.values());
        });
    }
}

fn value(row: &[f32], id: &str) -> f32 {
    let list = Columns::list();
    assert_eq!(list.len(), row.len(), "a number for each column");
    row[list.iter().position(|column| column.id == id).expect("the column exists")]
}

#[test]
fn rates_are_over_the_time_between_publications() {
    let (hub, mut columns) = (Hub::default(), Columns::default());
    let mut manager = Manager::begin(&hub);
    let mut latency = Buckets::default();
    manager.publish(1_000, 50, 0, 0, &latency);
    assert!(value(&columns.row(&hub.snapshot(), None), "events_stored").is_nan(), "one moment gives no rate");
    latency.add(15_000, 10);
    manager.publish(1_200, 70, 150, 50, &latency);
    // One snapshot: a later one would have older values, which count only for a second.
    let snapshot = hub.snapshot();
    for repetition in 0..2 {
        let row = columns.row(&snapshot, Some(7));
        assert!((value(&row, "events_stored") - 100.0).abs() < 1e-3, "{repetition}");
        assert!((value(&row, "dead_output") - 0.25).abs() < 1e-6);
        assert!((10e-6..=20e-6).contains(&value(&row, "latency_p50")));
        assert!((value(&row, "output_free_bytes") - 7.0).abs() < 1e-6);
    }
}

#[test]
fn a_run_that_begins_again_has_no_negative_rates() {
    let (hub, mut columns) = (Hub::default(), Columns::default());
    Manager::begin(&hub).publish(1_000, 50, 10, 0, &Buckets::default());
    columns.row(&hub.snapshot(), None);
    Manager::begin(&hub).publish(2_000, 5, 1, 0, &Buckets::default());
    assert!(value(&columns.row(&hub.snapshot(), None), "events_stored").is_nan());
}

#[test]
fn without_an_event_manager_nothing_is_known() {
    let row = Columns::default().row(&Hub::default().snapshot(), None);
    assert!(row.iter().all(|value| value.is_nan()));
}
