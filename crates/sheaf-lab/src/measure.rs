//! Runs a scenario, point by point: makes the network, starts the nodes, watches, and takes everything down.

use crate::counters;
use crate::evidence::{Observations, Span, builder_ports, evidence, first_traffic, intervals};
use crate::network::{Network, NetworkError};
use crate::nodes::{Nodes, NodesError, Said, configuration};
use crate::plan::{Plan, Shape, WIRE_OVERHEAD_BYTES};
use crate::result::{LabResult, PointResult, Setting};
use crate::sampler::{Sample, Sampler};
use crate::tools::ToolError;
use serde::Deserialize;
use sheaf_config::{Config, LabFile, LabPoint, Measure, TransportKind};
use sheaf_wire::{Nanos, NodeId};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// Interval at which the nodes are checked.
const PERIOD: Duration = Duration::from_millis(20);

/// Time that many processes on few processors may need until all have connected.
const START_TIMEOUT: Nanos = Nanos::from_secs(60);

/// Reason why a scenario could not be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// The network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// A command while the run was on.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// Part of the event manager's report that is used.
#[derive(Debug, Default, Deserialize)]
struct Report {
    #[serde(default)]
    events_built: u64,
    #[serde(default)]
    events_incomplete: u64,
    #[serde(default)]
    fragments: u64,
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    started_at_ns: Option<u64>,
    #[serde(default)]
    bytes_per_second: f64,
    #[serde(default)]
    events_per_second: f64,
    #[serde(default)]
    ledger: Ledger,
    #[serde(default)]
    trouble: Trouble,
}

#[derive(Debug, Default, Deserialize)]
struct Ledger {
    #[serde(default)]
    balanced: bool,
    #[serde(default)]
    dropped: std::collections::BTreeMap<String, u64>,
}

#[derive(Debug, Default, Deserialize)]
struct Trouble {
    #[serde(default)]
    absent_nodes: Vec<String>,
    #[serde(default)]
    lost_builder_sessions: u64,
    #[serde(default)]
    content_mismatches: u64,
}

/// Measures all points of a scenario with the command `program`. When `stop` is set, the present run ends early and is
/// the last. `done` is called after each point with the number of finished points.
///
/// # Errors
/// If a network cannot be made at all. Errors of one point are in its result.
pub fn measure(
    file: &LabFile,
    program: &Path,
    stop: &AtomicBool,
    mut done: impl FnMut(usize),
) -> Result<LabResult, MeasureError> {
    let mut result = LabResult {
        name: file.name.clone(),
        about: file.about.clone(),
        sweeps: file.sweeps.iter().map(|sweep| sweep.key.clone()).collect(),
        points: Vec::new(),
    };
    for (index, point) in file.points.iter().enumerate() {
        result.points.push(median(point, program, stop)?);
        done(index + 1);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(result)
}

/// Runs a point as often as it asks for, and gives the run with the median throughput.
fn median(point: &LabPoint, program: &Path, stop: &AtomicBool) -> Result<PointResult, MeasureError> {
    let mut runs = Vec::new();
    for _ in 0..point.measure.repeats {
        runs.push(one(point, program, stop)?);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let repeats: Vec<f64> = runs.iter().map(|run| run.efficiency).collect();
    // A run that failed must not hide behind one that did not.
    let failed = runs.iter().position(|run| !run.errors.is_empty() || !run.is_whole);
    runs.sort_by(|a, b| a.efficiency.total_cmp(&b.efficiency));
    let chosen = match failed {
        Some(_) => runs.iter().position(|run| !run.errors.is_empty() || !run.is_whole).unwrap_or(0),
        None => runs.len() / 2,
    };
    let mut chosen = runs.swap_remove(chosen);
    chosen.repeats = repeats;
    Ok(chosen)
}

/// The plan of a point's network.
#[must_use]
pub fn plan(point: &LabPoint) -> Plan {
    // The scenario was checked: its nodes make a system.
    let nodes = point.config.nodes().unwrap_or_default();
    Plan::new(&point.lab, &nodes, has_control(point.config.transport.kind))
}

/// Returns whether the event manager can be on another network than the data.
fn has_control(kind: TransportKind) -> bool {
    kind.uses_tcp()
}

/// Runs a point once.
///
/// # Errors
/// If its network cannot be made, or a process cannot be started.
pub fn one(point: &LabPoint, program: &Path, stop: &AtomicBool) -> Result<PointResult, MeasureError> {
    let network = Network::make(plan(point))?;
    let mut config = configuration(network.plan(), &point.config)?;
    config.manager.start_timeout = config.manager.start_timeout.max(START_TIMEOUT);
    let nodes = Nodes::start(&network, &config, program)?;
    let watched = watch(&network, nodes, &point.measure, stop)?;
    let host_drops = host_drops(&network)?;
    // To take it down before the sums are made keeps the pause between points short.
    drop(network);
    Ok(result(point, &config, watched, host_drops))
}

/// Observations during a run.
struct Watched {
    /// When the samples' clock showed zero.
    began: SystemTime,
    samples: Vec<Sample>,
    /// Ports alone, between samples.
    looks: Vec<Sample>,
    said: Said,
}

/// Until all nodes have ended: takes samples, slows a builder down, passes on the wish to stop.
fn watch(
    network: &Network,
    mut nodes: Nodes,
    measure: &Measure,
    stop: &AtomicBool,
) -> Result<Watched, MeasureError> {
    let began = SystemTime::now();
    let mut sampler = Sampler::new(measure.sample.to_std());
    let mut slow = Slow::new(network.plan(), measure);
    let mut asked = false;
    loop {
        if sampler.poll(network, &nodes.pids())
            && let Some(slow) = &mut slow
        {
            slow.follow(network, &sampler)?;
        }
        if stop.load(Ordering::Relaxed) && !asked {
            asked = true;
            nodes.ask_to_stop();
        }
        let was_on = nodes.is_on();
        let all = nodes.poll()?;
        if was_on && !nodes.is_on() {
            // The last sample belongs to the run, not to the silence after it.
            sampler.take(network, &nodes.pids());
        }
        if all {
            break;
        }
        std::thread::sleep(PERIOD);
    }
    Ok(Watched { began, samples: sampler.samples, looks: sampler.looks, said: nodes.collect()? })
}

/// The cable that is slow for a while, or cut.
struct Slow {
    host: usize,
    to: f64,
    from: Duration,
    until: Duration,
    is_slow: bool,
    /// When there was traffic first.
    start: Option<Duration>,
}

impl Slow {
    fn new(plan: &Plan, measure: &Measure) -> Option<Self> {
        let host = plan.host_of(NodeId::builder(measure.slow_builder?))?;
        let (from, until) = (measure.slow_from.to_std(), measure.slow_until.to_std());
        Some(Self { host, to: measure.slow_to, from, until, is_slow: false, start: None })
    }

    fn follow(&mut self, network: &Network, sampler: &Sampler) -> Result<(), ToolError> {
        if self.start.is_none() {
            self.start = first_traffic(&builder_ports(network.plan()), &sampler.samples);
        }
        let Some(start) = self.start else { return Ok(()) };
        let since = sampler.elapsed().saturating_sub(start);
        let should_be = since >= self.from && since < self.until;
        if should_be != self.is_slow {
            self.is_slow = should_be;
            for rail in network.plan().rails() {
                if self.to <= 0.0 {
                    network.cut(rail, self.host, should_be)?;
                    continue;
                }
                let Some(shape) = rail.shape else { continue };
                let share = if should_be { self.to } else { 1.0 };
                network.reshape(rail, self.host, Shape { rate_bps: shape.rate_bps * share, ..shape })?;
            }
        }
        Ok(())
    }
}

/// Returns the number of packets lost in hosts while they waited for their cables.
fn host_drops(network: &Network) -> Result<u64, ToolError> {
    let mut drops = 0;
    for host in &network.plan().hosts {
        let cards = counters::ports(&network.namespace(&host.name))?;
        drops += cards.values().map(|card| card.drops).sum::<u64>();
    }
    Ok(drops)
}

/// Payload bytes per second that the cables can carry to the builders.
fn line_bytes_per_second(point: &LabPoint) -> f64 {
    let lab = &point.lab;
    let mtu = f64::from(lab.mtu);
    let units = f64::from(point.config.readout.count.min(point.config.builder.count));
    let packet = mtu + f64::from(WIRE_OVERHEAD_BYTES);
    units * f64::from(lab.rails) * lab.rate_mbps * 1e6 / 8.0 * mtu / packet
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn result(point: &LabPoint, config: &Config, watched: Watched, host_drops: u64) -> PointResult {
    let Watched { began, samples, looks, said } = watched;
    let plan = plan(point);
    let Said { run, mut errors } = said;
    let report: Report = serde_json::from_value(run.clone()).unwrap_or_default();
    let span = span(config.run.duration, &report, began);
    let observations =
        Observations { samples: &samples, looks: &looks, payload_bytes: report.bytes, host_drops };
    let evidence = evidence(&plan, &observations, span);
    let line = line_bytes_per_second(point);
    let rate: f64 = plan.rails().filter_map(|rail| rail.shape).map(|shape| shape.rate_bps).sum();
    let builder_hosts = builder_ports(&plan).len() as f64;
    let steady = match evidence.wire_bits_per_byte > 0.0 && report.bytes > 0 {
        true => evidence.line_use * rate * builder_hosts / evidence.wire_bits_per_byte,
        false => 0.0,
    };
    let growth = memory_growth(&samples);
    if let Some(limit) = point.measure.memory_growth
        && growth > i64::try_from(limit.0).unwrap_or(i64::MAX)
    {
        errors.push(format!(
            "the nodes' memory grew by {growth} bytes; `measure.memory_growth_bytes` allows {}",
            limit.0
        ));
    }
    if !report.trouble.absent_nodes.is_empty() {
        errors.push(format!("nodes did not appear: {}", report.trouble.absent_nodes.join(", ")));
    }
    let setting = |(key, value): &(String, String)| Setting { key: key.clone(), value: value.clone() };
    let flaws = flaws(point, &report, &run);
    PointResult {
        settings: point.settings.iter().map(setting).collect(),
        transport: config.transport.kind.to_string(),
        readouts: config.readout.count,
        builders: config.builder.count,
        rails: point.lab.rails,
        mtu_bytes: point.lab.mtu,
        rate_bits_per_second: point.lab.rate_mbps * 1e6,
        size_bytes: report.bytes as f64 / report.fragments.max(1) as f64,
        bytes_per_second: report.bytes_per_second,
        events_per_second: report.events_per_second,
        steady_bytes_per_second: steady,
        line_bytes_per_second: line,
        efficiency: steady / line,
        efficiency_of_run: report.bytes_per_second / line,
        seconds: report.seconds,
        events_built: report.events_built,
        is_whole: flaws.is_empty(),
        flaws,
        limited_by: Some(evidence.limited_by()),
        intervals: intervals(&plan, &samples),
        evidence,
        memory_growth_bytes: growth,
        repeats: Vec::new(),
        run,
        errors,
    }
}

/// The reasons why a run is not whole; none where every event was complete, every checked byte right, and the books balance.
fn flaws(point: &LabPoint, report: &Report, run: &serde_json::Value) -> Vec<String> {
    // The others take over the events of a builder unit without a cable; nothing else may cost one its session.
    let may_lose_sessions = point.measure.slow_builder.is_some() && point.measure.slow_to <= 0.0;
    let trouble = &report.trouble;
    let mut flaws = Vec::new();
    let mut note = |is_flaw: bool, flaw: String| flaws.extend(is_flaw.then_some(flaw));
    note(!report.ledger.balanced, "the books do not balance".to_owned());
    note(report.events_built == 0, "no event was built".to_owned());
    let incomplete = report.events_incomplete;
    note(incomplete > 0, format!("incomplete events: {incomplete} of {}", report.events_built));
    for (reason, dropped) in &report.ledger.dropped {
        note(true, format!("dropped triggers: {dropped} ({reason})"));
    }
    let wrong = trouble.content_mismatches;
    note(wrong > 0, format!("fragments with wrong bytes: {wrong}"));
    let lost = trouble.lost_builder_sessions;
    note(lost > 0 && !may_lose_sessions, format!("lost builder sessions: {lost}"));
    let retried = run["counters"]["retried_requests"].as_u64().unwrap_or(0);
    if !flaws.is_empty() && retried > 0 {
        flaws.push(format!(
            "retried requests: {retried}; if they outnumber lost messages, raise builder.request_retry_ms or lower builder.slots"
        ));
    }
    flaws
}

/// When a run had triggers, on the clock of a sampler that `began` then.
fn span(duration: Option<Nanos>, report: &Report, began: SystemTime) -> Span {
    let start = report.started_at_ns.and_then(|start| {
        let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(start);
        // Of clocks that were set meanwhile nothing is known.
        start.duration_since(began).ok()
    });
    let seconds = Duration::try_from_secs_f64(report.seconds).unwrap_or_default();
    Span { start, triggered: duration.map_or(seconds, |duration| duration.to_std().min(seconds)) }
}

/// Growth of the memory of all nodes from the first third of the run to its end.
fn memory_growth(samples: &[Sample]) -> i64 {
    let bytes = |sample: &Sample| i64::try_from(sample.resident_bytes).unwrap_or(i64::MAX);
    match (samples.get(samples.len() / 3), samples.last()) {
        (Some(early), Some(late)) => bytes(late) - bytes(early),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
