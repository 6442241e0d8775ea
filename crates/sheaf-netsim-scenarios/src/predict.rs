//! Prediction of a large system with hosts like the measured ones, as a band.
//!
//! The arbiters of a switch that is not yet bought, and the placement of its hosts, are unknown. So the large system is
//! simulated under all combinations of seed, arbiter, assignment of events and numbering of hosts, and the result is a
//! band. Then every unknown is varied alone, and those with the largest effect are listed first.

use crate::calibrate::{Calibration, Interval};
use crate::scenario::MAX_ENDPOINTS;
use crate::sweep::in_parallel;
use crate::table::rate;
use serde::Serialize;
use sheaf_netsim::scenario::{
    Arbiter, Assignment, BarrelShifter, EndpointModel, EventTraffic, Fidelity, FlitModel, LinkModel,
    Numbering, Placement, Routes, RunLength, Scenario, SizeModel, Switching, Topology, TrafficModel,
    WhenFull, Window,
};
use sheaf_netsim::topology::CompileError;
use sheaf_netsim::units::{Picos, Rate};
use sheaf_netsim::{Report, topology};
use sheaf_plot::TextTable;
use std::fmt;
use thiserror::Error;

/// Traffic shape of the events' paths to their builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Sources send without requests.
    Push,
    /// Builders ask for it.
    Pull,
    /// Time slots.
    Barrel,
}

/// The large system.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Readout units.
    pub readouts: u32,
    /// Builder units.
    pub builders: u32,
    /// Mean fragment size in bytes.
    pub size_bytes: u32,
    /// Standard deviation of the size; log-normal. 0: all of one size.
    pub rms_bytes: f64,
    /// Time that a host spends on each message, in nanoseconds.
    pub overhead_ns: Interval,
    /// Bytes per second that a host moves beyond that.
    pub rate_bytes_per_second: Interval,
    /// The network's links.
    pub link: Rate,
    /// Traffic shape of the events.
    pub shape: Shape,
    /// The network; `None`: one switch where it has ports for all hosts, else leaves and spines.
    pub network: Option<Scenario>,
    /// Hosts on one leaf.
    pub leaf_ports: u32,
    /// Spines; `None`: as many as hosts on a leaf, which is full bisection.
    pub spines: Option<u32>,
    /// Capacity of one output of a switch, in bytes.
    pub buffer_bytes: u64,
    /// Ways through the network.
    pub routes: Routes,
    /// Seeds to try.
    pub seeds: u32,
    /// Length of each run.
    pub messages_per_sender: u64,
}

/// Reason why a prediction is not possible.
#[derive(Debug, Error)]
pub enum PredictError {
    /// The hosts do not fit the network.
    #[error("{readouts} readouts and {builders} builders do not fit a network of {endpoints} endpoints")]
    Room {
        /// Readout units.
        readouts: u32,
        /// Builder units.
        builders: u32,
        /// Endpoints of the network.
        endpoints: u32,
    },
    /// The given network cannot be compiled.
    #[error(transparent)]
    Network(#[from] CompileError),
    /// No run gave a result.
    #[error("no run could be simulated; the first says: {0}")]
    NoRun(String),
}

/// An unknown of the band, with the name of each of its values.
const ARBITERS: [(&str, Arbiter); 3] =
    [("random", Arbiter::Random), ("round_robin", Arbiter::RoundRobin), ("first_come", Arbiter::FirstCome)];
const ASSIGNMENTS: [(&str, Assignment); 2] =
    [("round_robin", Assignment::RoundRobin), ("random", Assignment::Random)];
const NUMBERINGS: [(&str, Numbering); 2] =
    [("identity", Numbering::Identity), ("shuffled", Numbering::Shuffled(1))];

/// One run of a prediction: its choices, and the scenario.
#[derive(Clone, Debug)]
struct Run {
    /// By name of the unknown.
    choices: Vec<(&'static str, String)>,
    scenario: Scenario,
}

/// Predicted throughput with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Readout units.
    pub readouts: u32,
    /// Builder units.
    pub builders: u32,
    /// Delivered bytes per second and builder.
    pub bytes_per_second_per_builder: Band,
    /// Delivered bytes over the capacity of the builders' links.
    pub efficiency: Band,
    /// Events per second of the whole system.
    pub events_per_second: Band,
    /// Unknowns, that which moves the result most first.
    pub sensitivity: Vec<Sensitivity>,
    /// Runs of the band that could not be simulated, and why; each text once.
    pub errors: Vec<String>,
}

/// The results of many runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Half of the runs were below.
    pub median: f64,
    /// 5 % of the runs were below.
    pub low: f64,
    /// 5 % of the runs were above.
    pub high: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Band {
    /// The band of these values; there must be one at least.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an index into a list of runs"
            )]
            let index = (share * (values.len() - 1) as f64).round() as usize;
            values[index]
        };
        Self { median: at(0.5), low: at(0.05), high: at(0.95), runs: values.len() }
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            runs: self.runs,
        }
    }
}

/// Effect of one unknown on the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Which unknown.
    pub unknown: String,
    /// Its values and the mean efficiency with each, all other unknowns averaged or in the middle.
    pub efficiency: Vec<(String, f64)>,
    /// The largest less the smallest of these, over the median of the band.
    pub swing: f64,
}

impl Plan {
    /// Takes overhead and rate from a calibration.
    pub fn apply(&mut self, calibration: &Calibration) {
        self.overhead_ns = calibration.overhead_ns;
        self.rate_bytes_per_second = calibration.rate_bytes_per_second;
    }

    fn topology(&self) -> Result<(Topology, u32), PredictError> {
        if let Some(scenario) = &self.network {
            let endpoints = topology::endpoints(&scenario.topology)?;
            return Ok((scenario.topology.clone(), endpoints));
        }
        let hosts = self.readouts.saturating_add(self.builders);
        let leaf_ports = self.leaf_ports.max(1);
        if u64::from(hosts) > MAX_ENDPOINTS {
            let endpoints = u32::try_from(MAX_ENDPOINTS).unwrap_or(u32::MAX);
            return Err(PredictError::Room { readouts: self.readouts, builders: self.builders, endpoints });
        }
        if hosts <= leaf_ports {
            return Ok((Topology::Crossbar { ports: hosts }, hosts));
        }
        let leaves = hosts.div_ceil(leaf_ports);
        let spines = self.spines.unwrap_or(leaf_ports).max(1);
        let topology =
            Topology::FoldedClos { leaves, ports: leaf_ports, spines, uplinks: 1, uplink_rate: None };
        Ok((topology, leaves * leaf_ports))
    }

    fn placement(&self, endpoints: u32) -> Result<Placement, PredictError> {
        let (readouts, builders) = (self.readouts, self.builders);
        if readouts.saturating_add(builders) <= endpoints {
            Ok(Placement::Apart { readouts, builders })
        } else if readouts == builders && readouts == endpoints {
            Ok(Placement::Both)
        } else {
            Err(PredictError::Room { readouts, builders, endpoints })
        }
    }

    /// Returns the time of a host per message in addition to that of the link, so that both together equal the
    /// measurement.
    fn overhead(&self, overhead_ns: f64, rate: f64) -> Picos {
        let size = f64::from(self.size_bytes);
        let beyond = size / rate - size / self.link.bytes_per_second();
        let picos = (overhead_ns * 1e3 + beyond * 1e12).clamp(0.0, 1e15);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        Picos(picos.round() as u64)
    }

    /// The scenario in the middle of all unknowns.
    fn middle(&self) -> Result<Scenario, PredictError> {
        let (topology, endpoints) = self.topology()?;
        let size = match self.rms_bytes {
            rms if rms > 0.0 => SizeModel::LogNormal { mean: f64::from(self.size_bytes), rms },
            _ => SizeModel::Fixed(self.size_bytes),
        };
        let events = EventTraffic {
            placement: self.placement(endpoints)?,
            size,
            correlation: 0.0,
            assignment: Assignment::RoundRobin,
            event_rate: None,
        };
        let traffic = match self.shape {
            Shape::Push => TrafficModel::Push(events, Window { events: self.builders }),
            Shape::Pull => {
                TrafficModel::Pull { events, outstanding: 2, credit_bytes: None, request_bytes: 64 }
            }
            Shape::Barrel => {
                // Blocks keep sources in step where sizes differ.
                let block_bytes = if self.rms_bytes > 0.0 { self.size_bytes } else { 0 };
                let shifter = BarrelShifter {
                    slot: None,
                    block_bytes,
                    guard: Picos::ZERO,
                    start_skew: Picos::ZERO,
                    clock_ppm: 0,
                    synchronised: false,
                };
                TrafficModel::Barrel(events, shifter)
            }
        };
        let link = LinkModel { rate: self.link, delay: Picos::ZERO, frame_overhead: 0, frame_payload: None };
        let switching =
            Switching::OutputQueued { buffer_bytes: Some(self.buffer_bytes), full: WhenFull::Pause };
        let base = self.network.as_ref();
        Ok(Scenario {
            name: "prediction".into(),
            topology,
            numbering: Numbering::Identity,
            link: LinkModel { rate: self.link, ..base.map_or(link, |base| base.link) },
            switching: base.map_or(switching, |base| base.switching),
            arbiter: Arbiter::Random,
            routes: base.map_or(self.routes, |base| base.routes),
            endpoint: EndpointModel {
                overhead: self.overhead(self.overhead_ns.value, self.rate_bytes_per_second.value),
                start: Picos::ZERO,
                bus: None,
                rails: 1,
                queue_messages: 1,
                look_ahead: false,
            },
            traffic,
            faults: Vec::new(),
            length: RunLength::MessagesPerSender(self.messages_per_sender),
            fidelity: Fidelity::Message,
            flits: FlitModel::default(),
            seed: 1,
        })
    }

    /// Returns every combination of the unknowns.
    fn band(&self, middle: &Scenario) -> Vec<Run> {
        let mut runs = Vec::new();
        // A barrel shifter gives events to builders in turn, whatever one would like.
        let assignments = if self.shape == Shape::Barrel { &ASSIGNMENTS[..1] } else { &ASSIGNMENTS[..] };
        for seed in 1..=u64::from(self.seeds.max(1)) {
            for (arbiter_name, arbiter) in ARBITERS {
                for (assignment_name, assignment) in assignments {
                    for (numbering_name, numbering) in NUMBERINGS {
                        let mut scenario = Scenario { seed, arbiter, numbering, ..middle.clone() };
                        set_assignment(&mut scenario.traffic, *assignment);
                        let choices = vec![
                            ("seed", seed.to_string()),
                            ("arbiter", arbiter_name.to_owned()),
                            ("assignment of events", (*assignment_name).to_owned()),
                            ("numbering of hosts", numbering_name.to_owned()),
                        ];
                        runs.push(Run { choices, scenario });
                    }
                }
            }
        }
        runs
    }

    /// One unknown of the hosts and the network away from the middle.
    fn alone(&self, middle: &Scenario) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut add = |unknown: &'static str, value: String, scenario: Scenario| {
            runs.push(Run { choices: vec![(unknown, value)], scenario });
        };
        let hosts = |overhead_ns: f64, rate: f64| {
            let overhead = self.overhead(overhead_ns, rate);
            Scenario { endpoint: EndpointModel { overhead, ..middle.endpoint }, ..middle.clone() }
        };
        let (overhead, rate) = (self.overhead_ns, self.rate_bytes_per_second);
        for value in distinct([overhead.low, overhead.value, overhead.high]) {
            add("overhead per message", crate::table::time(value), hosts(value, rate.value));
        }
        for value in distinct([rate.low, rate.value, rate.high]) {
            add("rate of a host", crate::table::rate(value), hosts(overhead.value, value));
        }
        let mean = f64::from(self.size_bytes);
        for rms in distinct([0.0, self.rms_bytes, mean]) {
            let mut scenario = middle.clone();
            set_size(&mut scenario.traffic, mean, rms);
            add("spread of fragment sizes", format!("rms {rms:.0}"), scenario);
        }
        if let Switching::OutputQueued { buffer_bytes: Some(bytes), full } = middle.switching {
            for bytes in [bytes / 4, bytes, bytes.saturating_mul(4)] {
                let switching = Switching::OutputQueued { buffer_bytes: Some(bytes.max(1)), full };
                add(
                    "buffers of the switches",
                    format!("{bytes} B"),
                    Scenario { switching, ..middle.clone() },
                );
            }
        }
        runs
    }
}

/// The values in order, each once.
fn distinct(mut values: [f64; 3]) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let mut values = values.to_vec();
    values.dedup_by(|a, b| (*a - *b).abs() <= 1e-9 * b.abs());
    values
}

fn events_of(traffic: &mut TrafficModel) -> Option<&mut EventTraffic> {
    match traffic {
        TrafficModel::Push(events, _)
        | TrafficModel::Barrel(events, _)
        | TrafficModel::Pull { events, .. } => Some(events),
        _ => None,
    }
}

fn set_assignment(traffic: &mut TrafficModel, assignment: Assignment) {
    if let Some(events) = events_of(traffic) {
        events.assignment = assignment;
    }
}

fn set_size(traffic: &mut TrafficModel, mean: f64, rms: f64) {
    if let Some(events) = events_of(traffic) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in bytes")]
        let fixed = SizeModel::Fixed(mean.round() as u32);
        events.size = if rms > 0.0 { SizeModel::LogNormal { mean, rms } } else { fixed };
    }
}

/// Returns the number of runs that a prediction takes.
///
/// # Errors
/// Where the hosts do not fit the network.
pub fn runs(plan: &Plan) -> Result<usize, PredictError> {
    let middle = plan.middle()?;
    Ok(plan.band(&middle).len() + plan.alone(&middle).len())
}

/// Simulates the large system with all values of the unknown parameters. `done` is called after each run.
///
/// # Errors
/// Where the hosts do not fit the network, or nothing can be simulated.
pub fn predict<E: fmt::Display>(
    plan: &Plan,
    threads: usize,
    simulate: impl Fn(&Scenario) -> Result<Report, E> + Sync,
    done: impl FnMut(usize) + Send,
) -> Result<Prediction, PredictError> {
    let middle = plan.middle()?;
    let band = plan.band(&middle);
    let band_runs = band.len();
    let runs: Vec<Run> = band.into_iter().chain(plan.alone(&middle)).collect();
    let work = |run: &Run| {
        let report = simulate(&run.scenario).map_err(|error| error.to_string())?;
        Ok::<_, String>((report.efficiency, report.throughput_per_port))
    };
    let results = in_parallel(&runs, threads, work, done);
    let good = |index: &usize| results[*index].as_ref().ok().copied();
    let in_band: Vec<(f64, f64)> = (0..band_runs).filter_map(|index| good(&index)).collect();
    let mut errors: Vec<String> =
        results.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
    errors.sort();
    errors.dedup();
    if in_band.is_empty() {
        return Err(PredictError::NoRun(errors.into_iter().next().unwrap_or_default()));
    }
    let efficiency = Band::of(in_band.iter().map(|(efficiency, _)| *efficiency).collect());
    let per_builder = Band::of(in_band.iter().map(|(_, throughput)| *throughput).collect());
    let event_bytes = f64::from(plan.readouts) * f64::from(plan.size_bytes);
    let (inside, outside) = (0..band_runs, band_runs..runs.len());
    let mut sensitivity = Vec::new();
    for range in [inside, outside] {
        let known: Vec<(&Run, f64)> = range
            .filter_map(|index| good(&index).map(|(efficiency, _)| (&runs[index], efficiency)))
            .collect();
        sensitivity.extend(swings(&known, efficiency.median));
    }
    sensitivity.sort_by(|a, b| b.swing.total_cmp(&a.swing));
    Ok(Prediction {
        readouts: plan.readouts,
        builders: plan.builders,
        events_per_second: per_builder.scaled(f64::from(plan.builders) / event_bytes),
        bytes_per_second_per_builder: per_builder,
        efficiency,
        sensitivity,
        errors,
    })
}

/// Returns the effect of each unknown of these runs.
fn swings(runs: &[(&Run, f64)], median: f64) -> Vec<Sensitivity> {
    let mut sensitivities: Vec<Sensitivity> = Vec::new();
    // Sums and counts of runs with one value.
    let mut sums: Vec<Vec<(f64, f64)>> = Vec::new();
    for (run, efficiency) in runs {
        for (unknown, value) in &run.choices {
            let at = sensitivities.iter().position(|known| known.unknown == *unknown).unwrap_or_else(|| {
                let unknown = (*unknown).to_owned();
                sensitivities.push(Sensitivity { unknown, efficiency: Vec::new(), swing: 0.0 });
                sums.push(Vec::new());
                sums.len() - 1
            });
            let values = &mut sensitivities[at].efficiency;
            let value_at = values.iter().position(|(known, _)| known == value).unwrap_or_else(|| {
                values.push((value.clone(), 0.0));
                sums[at].push((0.0, 0.0));
                values.len() - 1
            });
            let (sum, count) = &mut sums[at][value_at];
            (*sum, *count) = (*sum + efficiency, *count + 1.0);
        }
    }
    for (sensitivity, sums) in sensitivities.iter_mut().zip(&sums) {
        for ((_, mean), (sum, count)) in sensitivity.efficiency.iter_mut().zip(sums) {
            *mean = sum / count;
        }
        let means = || sensitivity.efficiency.iter().map(|(_, mean)| *mean);
        let (least, most) = (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
        sensitivity.swing = if median > 0.0 { (most - least) / median } else { 0.0 };
    }
    sensitivities.retain(|sensitivity| sensitivity.efficiency.len() > 1);
    sensitivities
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { readouts, builders, .. } = self;
        let runs = self.efficiency.runs;
        writeln!(
            f,
            "{readouts} readouts x {builders} builders, {runs} runs: median, and 90 % of the runs\n"
        )?;
        let (low, high) = (self.efficiency.low, self.efficiency.high);
        writeln!(f, "efficiency         {:>12.3}  {low:.3} to {high:.3}", self.efficiency.median)?;
        let band = self.bytes_per_second_per_builder;
        writeln!(
            f,
            "per builder        {:>12}  {} to {}",
            rate(band.median),
            rate(band.low),
            rate(band.high)
        )?;
        let band = self.events_per_second;
        writeln!(f, "events per second  {:>12.0}  {:.0} to {:.0}", band.median, band.low, band.high)?;
        writeln!(f, "\nWhat moves it, alone:")?;
        let mut columns = TextTable::with_text_columns(2);
        columns.push(["unknown", "values and efficiency", "swing"]);
        for sensitivity in &self.sensitivity {
            let values = sensitivity.efficiency.iter().map(|(value, mean)| format!("{value}: {mean:.3}"));
            columns.push([
                sensitivity.unknown.clone(),
                values.collect::<Vec<_>>().join(", "),
                format!("{:.1} %", sensitivity.swing * 100.0),
            ]);
        }
        write!(f, "{columns}")?;
        for error in &self.errors {
            writeln!(f, "NOT SIMULATED: {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
