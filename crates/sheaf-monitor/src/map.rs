//! The map of readout units and builder units: how long each builder unit waits for each readout unit, and how much it gets.
//!
//! An answer is encoded once for all who ask for it within a moment, and nothing is done while nobody asks.

mod verdict;

use crate::description::RunDescription;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sheaf_telemetry::{Metric, NodeSnapshot, Snapshot, Unit, catalog};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use verdict::Trouble;

pub(crate) use verdict::shown_time;

/// First bytes of an answer: "SHMP", little endian.
const MAGIC: u32 = 0x504D_4853;

/// Time for which an answer serves everybody.
const MOMENT: Duration = Duration::from_millis(250);

/// The same from this number of pairs on, whose answer takes some milliseconds.
const LARGE: usize = 65_536;
const LARGE_MOMENT: Duration = Duration::from_secs(1);

/// Shortest time over which a rate is computed, so that single events do not make it jump.
const WINDOW_NS: u64 = 1_000_000_000;

/// Time without questions after which earlier values do not count.
const FORGOTTEN: Duration = Duration::from_secs(5);

/// Age of its values from which on nothing is known of a node.
const SILENT: Duration = Duration::from_secs(2);

/// Quantity that a map shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    /// Age of the oldest event that waits.
    #[default]
    Wait,
    /// Payload per second.
    Rate,
}

/// State of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    /// It reports.
    Reporting,
    /// It has not reported yet.
    Absent,
    /// It has not reported for some time.
    Silent,
    /// It has ended.
    Ended,
    /// It reports, and all its sources are excluded.
    Excluded,
}

/// A readout unit or builder unit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MapUnit {
    pub(crate) name: String,
    pub(crate) condition: Condition,
    /// Age of its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) age_ms: Option<u64>,
}

/// Head of an answer.
#[derive(Debug, Serialize)]
struct Head<'a> {
    run: Option<u32>,
    quantity: Quantity,
    unit: &'static str,
    readouts: &'a [MapUnit],
    builders: &'a [MapUnit],
    summary: &'a str,
    troubles: &'a [Trouble],
}

/// Values of all pairs at one moment, builder unit by builder unit; NaN where nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) readouts: Vec<MapUnit>,
    pub(crate) builders: Vec<MapUnit>,
    /// Seconds.
    pub(crate) waits: Vec<f32>,
    /// Bytes per second.
    pub(crate) rates: Vec<f32>,
    /// Time for which each builder unit has got nothing; `None` if nothing is known.
    pub(crate) idle: Vec<Option<Duration>>,
}

/// Makes answers, and remembers earlier values for the rates.
#[derive(Debug, Default)]
pub(crate) struct MapMaker {
    run: Option<u32>,
    made_at: Option<Instant>,
    /// Number of pairs.
    pairs: usize,
    answers: BTreeMap<Quantity, Bytes>,
    before: BTreeMap<String, Earlier>,
}

/// Earlier values of a builder unit.
#[derive(Debug)]
struct Earlier {
    at_ns: u64,
    bytes: Vec<u64>,
    rates: Option<Vec<f32>>,
    /// Sum of all bytes, and since when it has been the same.
    total: u64,
    same_since: Instant,
}

impl MapMaker {
    /// Returns whether the answers are those of another moment or another run.
    pub(crate) fn is_due(&self, run: Option<&RunDescription>, now: Instant) -> bool {
        let moment = if self.pairs < LARGE { MOMENT } else { LARGE_MOMENT };
        let is_current = self.made_at.is_some_and(|made| now.saturating_duration_since(made) < moment);
        !is_current || self.run != run.map(|run| run.number)
    }

    /// Returns the answer that was made last.
    pub(crate) fn answer(&self, quantity: Quantity) -> Bytes {
        self.answers.get(&quantity).cloned().unwrap_or_default()
    }

    /// Makes the answers from a snapshot that is taken at `now` and `time_ms` since 1970.
    pub(crate) fn make(
        &mut self,
        snapshot: &Snapshot,
        run: Option<&RunDescription>,
        (now, time_ms): (Instant, u64),
    ) {
        let number = run.map(|run| run.number);
        let is_old = self.made_at.is_none_or(|made| now.saturating_duration_since(made) >= FORGOTTEN);
        if is_old || self.run != number {
            self.before.clear();
        }
        (self.run, self.made_at) = (number, Some(now));
        let pairs = self.pairs(snapshot, run, now);
        self.pairs = pairs.waits.len();
        let troubles = verdict::troubles(&pairs);
        let summary = verdict::summary(&pairs, &troubles);
        for (quantity, unit, values) in
            [(Quantity::Wait, "s", &pairs.waits), (Quantity::Rate, "B/s", &pairs.rates)]
        {
            let (readouts, builders) = (&pairs.readouts[..], &pairs.builders[..]);
            let head = Head {
                run: number,
                quantity,
                unit,
                readouts,
                builders,
                summary: &summary,
                troubles: &troubles,
            };
            self.answers.insert(quantity, encode(&head, time_ms, values));
        }
    }

    fn pairs(&mut self, snapshot: &Snapshot, run: Option<&RunDescription>, now: Instant) -> Pairs {
        let units = |role: &str| -> Vec<MapUnit> {
            let nodes = run.iter().flat_map(|run| &run.nodes).filter(|node| node.role == role);
            nodes.map(|node| unit(&node.name, snapshot.nodes.get(&node.name))).collect()
        };
        let mut pairs = Pairs { readouts: units("readout"), builders: units("builder"), ..Pairs::default() };
        let rows = pairs.readouts.len();
        for builder in &pairs.builders {
            let node = snapshot.nodes.get(&builder.name);
            let node = node.filter(|_| builder.condition == Condition::Reporting);
            let waits = node.and_then(|node| row(node, &catalog::PAIR_WAITS));
            let values = waits.into_iter().flatten().map(|wait| single(Unit::Seconds.scale(*wait)));
            extend(&mut pairs.waits, values, rows);
            let (rates, idle) = match node {
                Some(node) => self.follow(&builder.name, node, now),
                None => {
                    self.before.remove(&builder.name);
                    (None, None)
                }
            };
            extend(&mut pairs.rates, rates.into_iter().flatten(), rows);
            pairs.idle.push(idle);
        }
        pairs
    }

    /// Returns the rates of a builder unit, and for how long it has got nothing.
    fn follow(
        &mut self,
        name: &str,
        node: &NodeSnapshot,
        now: Instant,
    ) -> (Option<Vec<f32>>, Option<Duration>) {
        let bytes = row(node, &catalog::PAIR_BYTES).unwrap_or_default();
        let total = bytes.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
        let begin =
            || Earlier { at_ns: node.at_ns, bytes: bytes.to_vec(), rates: None, total, same_since: now };
        let Some(earlier) = self.before.get_mut(name) else {
            self.before.insert(name.to_owned(), begin());
            return (None, Some(Duration::ZERO));
        };
        let has_restarted = node.at_ns < earlier.at_ns || total < earlier.total;
        if has_restarted || earlier.bytes.len() != bytes.len() {
            *earlier = begin();
        }
        if total != earlier.total {
            (earlier.total, earlier.same_since) = (total, now);
        }
        let passed_ns = node.at_ns.saturating_sub(earlier.at_ns);
        if passed_ns >= WINDOW_NS || earlier.rates.is_none() && passed_ns > 0 {
            let seconds = Duration::from_nanos(passed_ns).as_secs_f64();
            let rate = |(now, before): (&u64, &u64)| {
                single(Unit::Bytes.scale(now.saturating_sub(*before)) / seconds)
            };
            earlier.rates = Some(bytes.iter().zip(&earlier.bytes).map(rate).collect());
            (earlier.at_ns, earlier.bytes) = (node.at_ns, bytes.to_vec());
        }
        (earlier.rates.clone(), Some(now.saturating_duration_since(earlier.same_since)))
    }
}

/// Adds the values of a column, and NaN for those that are not there.
fn extend(all: &mut Vec<f32>, column: impl Iterator<Item = f32>, rows: usize) {
    all.extend(column.chain(std::iter::repeat(f32::NAN)).take(rows));
}

#[expect(clippy::cast_possible_truncation, reason = "the map has single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Returns a row of values of a node.
pub(crate) fn row<'a>(node: &'a NodeSnapshot, metric: &'static Metric) -> Option<&'a [u64]> {
    Some(node.publication().series_of(metric).next()?.values(node.values()))
}

fn unit(name: &str, node: Option<&NodeSnapshot>) -> MapUnit {
    let condition = match node {
        None => Condition::Absent,
        Some(node) if node.publication().publications() == 0 => Condition::Absent,
        Some(node) if node.is_gone => Condition::Ended,
        Some(node) if node.age >= SILENT => Condition::Silent,
        Some(node) if is_excluded(node) => Condition::Excluded,
        Some(_) => Condition::Reporting,
    };
    let age_ms = node.map(|node| u64::try_from(node.age.as_millis()).unwrap_or(u64::MAX));
    let age_ms = age_ms.filter(|_| condition == Condition::Silent);
    MapUnit { name: name.to_owned(), condition, age_ms }
}

/// Returns whether a readout unit has sources, and all are excluded.
fn is_excluded(node: &NodeSnapshot) -> bool {
    let mut sources = node.of(&catalog::SOURCE_EXCLUDED).peekable();
    sources.peek().is_some() && sources.all(|(_, values)| values.first() == Some(&1))
}

/// Returns the binary form: a header of 24 bytes, the head as JSON, and the values.
fn encode(head: &Head<'_>, time_ms: u64, values: &[f32]) -> Bytes {
    let mut text = serde_json::to_vec(head).unwrap_or_default();
    // The values begin at a multiple of four, as readers of whole lists need it.
    text.resize(text.len().next_multiple_of(4), b' ');
    let mut bytes = Vec::with_capacity(24 + text.len() + 4 * values.len());
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    for value in [MAGIC, number(head.builders.len()), number(head.readouts.len()), number(text.len())] {
        bytes.extend(value.to_le_bytes());
    }
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit exactly")]
    bytes.extend((time_ms as f64).to_le_bytes());
    bytes.extend(text);
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes.into()
}

#[cfg(test)]
mod tests;
