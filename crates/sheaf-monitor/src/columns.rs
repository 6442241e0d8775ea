//! Numbers over time: rates and levels, computed from consecutive snapshots.
//!
//! Rates are differences of counters divided by the time between the two publications, on the clock of the node that published them. So
//! they do not depend on when a snapshot was taken. While nothing new is published they stay for a second; then nothing is known.

use serde::Serialize;
use sheaf_protocol::manager::DeadTimeCause;
use sheaf_telemetry::{Metric, NodeSnapshot, Snapshot, buckets, catalog};
use std::time::Duration;

/// Age of the event manager's values from which on nothing is known of the present.
const STALE: Duration = Duration::from_secs(1);

/// Meaning of a column of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    /// Name for programs.
    pub(crate) id: String,
    /// Name for people.
    pub(crate) title: String,
    /// Unit; "1" for a fraction.
    pub(crate) unit: &'static str,
    /// Columns of the same panel are drawn together.
    pub(crate) panel: &'static str,
}

/// A counter whose rate is a column: the metric, and the value of its first label if only one series counts.
type Counter = (&'static Metric, Option<&'static str>);

/// Rates: id, title, unit, panel and counter.
static RATES: [(&str, &str, &str, &str, Counter); 6] = [
    ("events_stored", "stored", "1/s", "rate", (&catalog::EVENTS, Some("stored"))),
    ("events_rejected", "rejected", "1/s", "rate", (&catalog::EVENTS, Some("rejected"))),
    ("events_dropped", "dropped", "1/s", "rate", (&catalog::EVENTS, Some("dropped"))),
    ("events_incomplete", "incomplete", "1/s", "rate", (&catalog::EVENTS_INCOMPLETE, None)),
    ("triggers_vetoed", "vetoed triggers", "1/s", "rate", (&catalog::TRIGGERS_VETOED, None)),
    ("payload_bytes", "payload of ended events", "B/s", "throughput", (&catalog::EVENT_BYTES, None)),
];

/// Other columns: id, title, unit, panel.
const LEVELS: [(&str, &str, &str, &str); 7] = [
    ("latency_p50", "half of the events end within", "s", "latency"),
    ("latency_p99", "99 % of the events end within", "s", "latency"),
    ("in_flight", "events in flight", "events", "flow"),
    ("credit_slots", "free slots of builder units", "events", "flow"),
    ("buffer_fraction", "fill of the fullest readout unit", "1", "buffer"),
    ("output_free_bytes", "free space for the output", "B", "output"),
    ("age", "age of the oldest values of a node", "s", "health"),
];

/// Computes the rows.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    before: Option<Moment>,
    /// Values of the columns that need two moments, as last computed.
    last: Option<Vec<f32>>,
}

/// Values that the event manager had published at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moment {
    at_ns: u64,
    counters: Vec<u64>,
    run_ns: u64,
    dead_ns: Vec<u64>,
    latency: Vec<u64>,
}

impl Columns {
    /// Returns the columns, in the order of the numbers of a row.
    pub(crate) fn list() -> Vec<Column> {
        let column =
            |id: &str, title: &str, unit, panel| Column { id: id.into(), title: title.into(), unit, panel };
        let rates = RATES.iter().map(|(id, title, unit, panel, _)| column(id, title, unit, panel));
        let causes = DeadTimeCause::ALL
            .map(|cause| column(&format!("dead_{}", cause.name()), &cause.to_string(), "1", "dead_time"));
        let levels = LEVELS.iter().map(|(id, title, unit, panel)| column(id, title, unit, panel));
        rates.chain(causes).chain(levels).collect()
    }

    /// Returns the row of a snapshot; NaN where nothing is known. `free_bytes` is the free space for the output.
    pub(crate) fn row(&mut self, snapshot: &Snapshot, free_bytes: Option<u64>) -> Vec<f32> {
        let manager = manager(snapshot).filter(|manager| manager.age < STALE);
        let mut row = self.changes(manager);
        row.push(manager.map_or(f32::NAN, |manager| number(manager.sum(&catalog::EVENTS_IN_FLIGHT))));
        row.push(manager.map_or(f32::NAN, |manager| number(manager.sum(&catalog::CREDIT_SLOTS))));
        row.push(fullest_buffer(snapshot));
        row.push(free_bytes.map_or(f32::NAN, number));
        row.push(oldest(snapshot).map_or(f32::NAN, |age| age.as_secs_f32()));
        row
    }

    /// Returns the columns that need two moments.
    fn changes(&mut self, manager: Option<&NodeSnapshot>) -> Vec<f32> {
        let unknown = || vec![f32::NAN; RATES.len() + DeadTimeCause::ALL.len() + 2];
        let Some(moment) = manager.map(Moment::of) else {
            (self.before, self.last) = (None, None);
            return unknown();
        };
        match &self.before {
            Some(before) if before.at_ns == moment.at_ns => {
                return self.last.clone().unwrap_or_else(unknown);
            }
            Some(before) => self.last = moment.changes_since(before),
            None => self.last = None,
        }
        self.before = Some(moment);
        self.last.clone().unwrap_or_else(unknown)
    }
}

impl Moment {
    fn of(manager: &NodeSnapshot) -> Self {
        let counter = |(metric, label): Counter| match label {
            Some(label) => manager.value(metric, label).unwrap_or(0),
            None => manager.sum(metric),
        };
        let dead_ns = DeadTimeCause::ALL.map(|cause| dead_time_of(manager, cause)).to_vec();
        let latency = manager.of(&catalog::EVENT_SECONDS).next();
        Self {
            at_ns: manager.at_ns,
            counters: RATES.iter().map(|(.., rate)| counter(*rate)).collect(),
            run_ns: manager.sum(&catalog::LIVE_SECONDS) + dead_ns.iter().sum::<u64>(),
            dead_ns,
            latency: latency.map(|(_, values)| values.to_vec()).unwrap_or_default(),
        }
    }

    /// Returns rates, fractions of dead time, and quantiles of the latency; `None` if another run has begun.
    #[expect(clippy::cast_possible_truncation, reason = "a row has single precision")]
    fn changes_since(&self, before: &Self) -> Option<Vec<f32>> {
        let seconds = Duration::from_nanos(self.at_ns.checked_sub(before.at_ns)?).as_secs_f64();
        let run_ns = self.run_ns.checked_sub(before.run_ns)?;
        let mut row = Vec::new();
        for (now, before) in self.counters.iter().zip(&before.counters) {
            row.push((f64::from(number(now.checked_sub(*before)?)) / seconds) as f32);
        }
        for (now, before) in self.dead_ns.iter().zip(&before.dead_ns) {
            // After the end of triggers no time passes: neither live nor dead.
            let fraction = number(now.checked_sub(*before)?) / number(run_ns);
            row.push(if run_ns == 0 { f32::NAN } else { fraction });
        }
        let latency: Option<Vec<u64>> =
            self.latency.iter().zip(&before.latency).map(|(now, before)| now.checked_sub(*before)).collect();
        for fraction in [0.5, 0.99] {
            let quantile = buckets::quantile_ns(latency.as_deref()?, fraction);
            row.push(quantile.map_or(f32::NAN, |ns| (ns / 1e9) as f32));
        }
        Some(row)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a row has single precision")]
fn number(value: u64) -> f32 {
    value as f32
}

/// Returns the event manager of a snapshot.
pub(crate) fn manager(snapshot: &Snapshot) -> Option<&NodeSnapshot> {
    snapshot.nodes.values().find(|node| node.of(&catalog::RUN_NUMBER).next().is_some())
}

/// Returns the dead time for a cause, in nanoseconds, whoever was the reason.
pub(crate) fn dead_time_of(manager: &NodeSnapshot, cause: DeadTimeCause) -> u64 {
    let series = manager.of(&catalog::DEAD_SECONDS);
    let series = series.filter(|(series, _)| series.label("cause") == Some(cause.name()));
    series.filter_map(|(_, values)| values.first()).sum()
}

/// Returns the fill of the readout unit whose buffer is fullest, as a fraction of its limit.
fn fullest_buffer(snapshot: &Snapshot) -> f32 {
    let fill = |node: &NodeSnapshot| {
        let limit = node.value(&catalog::BUFFER_LIMIT, "fragments").filter(|limit| *limit > 0)?;
        Some(number(node.value(&catalog::BUFFER_BYTES, "fragments")?) / number(limit))
    };
    snapshot.nodes.values().filter_map(fill).fold(f32::NAN, f32::max)
}

/// Returns the age of the oldest values of a node that has not ended.
pub(crate) fn oldest(snapshot: &Snapshot) -> Option<Duration> {
    snapshot.nodes.values().filter(|node| !node.is_gone).map(|node| node.age).max()
}

#[cfg(test)]
mod tests;
