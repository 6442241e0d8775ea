//! Results of a sweep, as JSON and averaged over seeds.

use crate::scenario::Axis;
use crate::sweep::Outcome;
use serde::Serialize;
use sheaf_netsim::Report;
use sheaf_netsim::report::{Counts, Distribution};
use sheaf_netsim::scenario::Fidelity;
use sheaf_netsim::units::Picos;
use std::collections::BTreeMap;

/// The key whose values are repetitions and not a curve.
const SEED: &str = "seed";

/// A sweep and all that came of it: the JSON of `sheaf sim`.
#[derive(Clone, Debug, Serialize)]
pub struct SweepResult {
    /// The name of the scenario.
    pub name: String,
    /// Purpose of the sweep.
    pub about: String,
    /// The swept keys and their values.
    pub axes: Vec<AxisResult>,
    /// Each point, averaged over its seeds.
    pub points: Vec<PointResult>,
    /// Each run.
    pub runs: Vec<RunResult>,
    #[serde(skip)]
    outcomes: Vec<Outcome>,
}

/// A swept key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AxisResult {
    /// The key with its table.
    pub key: String,
    /// Its values as they are in tables.
    pub values: Vec<String>,
}

/// One point of a sweep, averaged over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointResult {
    /// The swept keys that matter here, but the seed.
    pub settings: BTreeMap<String, String>,
    /// Runs that were averaged.
    pub runs: usize,
    /// Runs that could not be simulated.
    pub errors: usize,
    /// Mean efficiency.
    pub efficiency: f64,
    /// With several seeds the standard deviation between them, else half the 95 % interval of the one run.
    pub efficiency_error: f64,
    /// The bound of closed formulas.
    pub efficiency_bound: f64,
    /// Mean delivered bytes per second and port.
    pub throughput_bytes_per_second_per_port: f64,
    /// Lost messages over offered ones.
    pub loss: f64,
    /// Indices in `runs`.
    #[serde(skip)]
    pub members: Vec<usize>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The swept keys that matter here.
    pub settings: BTreeMap<String, String>,
    /// Why it could not be simulated.
    pub error: Option<String>,
    /// Report of the run.
    pub report: Option<ReportResult>,
}

/// A [`Report`] as JSON: times in nanoseconds.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are those of the report, and docs/reference/command.md tells them"
)]
pub struct ReportResult {
    pub fidelity: &'static str,
    pub seed: u64,
    pub ports: u32,
    pub simulated_ns: f64,
    pub warm_up_ns: f64,
    pub messages: CountsResult,
    pub bytes: CountsResult,
    pub events: Option<EventsResult>,
    pub throughput_bytes_per_second_per_port: f64,
    pub efficiency: f64,
    pub efficiency_error: f64,
    pub efficiency_bound: f64,
    pub message_latency_ns: Option<DistributionResult>,
    pub event_latency_ns: Option<DistributionResult>,
    pub occupancy: Vec<OccupancyResult>,
    pub waiting: Vec<WaitingResult>,
    pub losses: Vec<LossResult>,
    pub checks: Vec<CheckResult>,
    pub evolution: Vec<SliceResult>,
    pub per_port: Vec<f64>,
}

/// `offered = delivered + lost + in_flight`.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct CountsResult {
    pub offered: u64,
    pub delivered: u64,
    pub lost: u64,
    pub in_flight: u64,
}

/// Events by what became of them.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct EventsResult {
    pub complete: u64,
    pub incomplete: u64,
    pub in_flight: u64,
}

/// Quantiles in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct DistributionResult {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// Buffers of one stage, in bytes.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct OccupancyResult {
    pub place: String,
    pub mean_bytes: f64,
    pub max_bytes: u64,
    pub size_bytes: Option<u64>,
}

/// Resource that heads of messages waited for.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct WaitingResult {
    pub cause: String,
    pub share: f64,
}

/// Lost messages.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct LossResult {
    pub cause: String,
    pub messages: u64,
}

/// A self-check.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct CheckResult {
    pub name: String,
    pub pass: bool,
    pub detail: String,
}

/// Efficiency in one slice of the run.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "as in the report")]
pub struct SliceResult {
    pub until_ns: f64,
    pub efficiency: f64,
}

/// The name of a fidelity, as in scenario files.
#[must_use]
pub fn fidelity_name(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Analytic => "analytic",
        Fidelity::Message => "message",
        Fidelity::Flit => "flit",
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ps are two and a half hours, and reports quote a few digits"
)]
pub(crate) fn nanos(time: Picos) -> f64 {
    time.0 as f64 / 1e3
}

impl From<Counts> for CountsResult {
    fn from(counts: Counts) -> Self {
        let Counts { offered, delivered, lost, in_flight } = counts;
        Self { offered, delivered, lost, in_flight }
    }
}

impl From<Distribution> for DistributionResult {
    fn from(distribution: Distribution) -> Self {
        let Distribution { count, mean, p50, p99, p999, max } = distribution;
        Self { count, mean: mean / 1e3, p50: nanos(p50), p99: nanos(p99), p999: nanos(p999), max: nanos(max) }
    }
}

impl From<&Report> for ReportResult {
    fn from(report: &Report) -> Self {
        Self {
            fidelity: fidelity_name(report.fidelity),
            seed: report.seed,
            ports: report.ports,
            simulated_ns: nanos(report.simulated),
            warm_up_ns: nanos(report.warm_up),
            messages: report.messages.into(),
            bytes: report.bytes.into(),
            events: report.events.map(|events| EventsResult {
                complete: events.complete,
                incomplete: events.incomplete,
                in_flight: events.in_flight,
            }),
            throughput_bytes_per_second_per_port: report.throughput_per_port,
            efficiency: report.efficiency,
            efficiency_error: report.efficiency_error,
            efficiency_bound: report.efficiency_bound,
            message_latency_ns: report.message_latency.map(Into::into),
            event_latency_ns: report.event_latency.map(Into::into),
            occupancy: report.occupancy.iter().map(OccupancyResult::from).collect(),
            waiting: report
                .waiting
                .iter()
                .map(|waiting| WaitingResult { cause: waiting.cause.clone(), share: waiting.share })
                .collect(),
            losses: report
                .losses
                .iter()
                .map(|loss| LossResult { cause: loss.cause.clone(), messages: loss.messages })
                .collect(),
            checks: report.checks.iter().map(CheckResult::from).collect(),
            evolution: report
                .evolution
                .iter()
                .map(|(until, efficiency)| SliceResult { until_ns: nanos(*until), efficiency: *efficiency })
                .collect(),
            per_port: report.per_port.clone(),
        }
    }
}

impl From<&sheaf_netsim::report::Occupancy> for OccupancyResult {
    fn from(occupancy: &sheaf_netsim::report::Occupancy) -> Self {
        Self {
            place: occupancy.place.clone(),
            mean_bytes: occupancy.mean_bytes,
            max_bytes: occupancy.max_bytes,
            size_bytes: occupancy.size_bytes,
        }
    }
}

impl From<&sheaf_netsim::report::Check> for CheckResult {
    fn from(check: &sheaf_netsim::report::Check) -> Self {
        Self { name: check.name.to_owned(), pass: check.pass, detail: check.detail.clone() }
    }
}

impl SweepResult {
    /// Puts together what a sweep gave.
    #[must_use]
    pub fn new(name: String, about: String, axes: &[Axis], outcomes: Vec<Outcome>) -> Self {
        let axes = axes.iter().map(|axis| AxisResult { key: axis.key.clone(), values: axis.values.clone() });
        let runs = outcomes.iter().map(|outcome| RunResult {
            settings: outcome.settings.iter().cloned().collect(),
            error: outcome.result.as_ref().err().map(ToString::to_string),
            report: outcome.result.as_ref().ok().map(ReportResult::from),
        });
        let (axes, runs) = (axes.collect(), runs.collect());
        Self { name, about, axes, points: average(&outcomes), runs, outcomes }
    }

    /// Returns the scenarios with their results, in the order of `runs`.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Runs that could not be simulated.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.runs.iter().filter(|run| run.error.is_some()).count()
    }

    /// Whether every self-check of every run held.
    #[must_use]
    pub fn checks_hold(&self) -> bool {
        self.runs.iter().flat_map(|run| &run.report).flat_map(|report| &report.checks).all(|check| check.pass)
    }
}

/// The points of a sweep in the order of their first runs, each averaged over its seeds.
fn average(outcomes: &[Outcome]) -> Vec<PointResult> {
    let mut order: Vec<Vec<&(String, String)>> = Vec::new();
    let mut members: BTreeMap<Vec<&(String, String)>, Vec<usize>> = BTreeMap::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        let key: Vec<_> = outcome.settings.iter().filter(|(key, _)| key != SEED).collect();
        let entry = members.entry(key.clone()).or_default();
        if entry.is_empty() {
            order.push(key);
        }
        entry.push(index);
    }
    order.iter().map(|key| average_one(key, &members[key], outcomes)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn average_one(key: &[&(String, String)], members: &[usize], outcomes: &[Outcome]) -> PointResult {
    let reports: Vec<&Report> =
        members.iter().filter_map(|index| outcomes[*index].result.as_ref().ok()).collect();
    let mean = |value: fn(&Report) -> f64| Spread::of(reports.iter().map(|report| value(report)));
    let efficiency = mean(|report| report.efficiency);
    let offered: u64 = reports.iter().map(|report| report.messages.offered).sum();
    let lost: u64 = reports.iter().map(|report| report.messages.lost).sum();
    PointResult {
        settings: key.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        runs: reports.len(),
        errors: members.len() - reports.len(),
        efficiency: efficiency.mean,
        efficiency_error: match reports[..] {
            [report] => report.efficiency_error,
            _ => efficiency.deviation,
        },
        efficiency_bound: mean(|report| report.efficiency_bound).mean,
        throughput_bytes_per_second_per_port: mean(|report| report.throughput_per_port).mean,
        loss: if offered == 0 { 0.0 } else { lost as f64 / offered as f64 },
        members: members.to_vec(),
    }
}

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Of the values, not of the mean; 0 for one value.
    pub(crate) deviation: f64,
}

impl Spread {
    #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        if count < 1.0 {
            return Self::default();
        }
        let mean = values.clone().sum::<f64>() / count;
        let squares: f64 = values.map(|value| (value - mean) * (value - mean)).sum();
        let deviation = if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation }
    }
}

#[cfg(test)]
mod tests;
