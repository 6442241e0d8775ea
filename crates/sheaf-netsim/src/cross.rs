//! One scenario in every fidelity that can simulate it, with a check whether they agree.
//!
//! Closed formulas are exact for some scenarios and bounds for the others. The message level leaves out effects within
//! a buffer; the flit level leaves out nothing but costs a thousand times more. So the flit level shows the error of
//! the message level, and theory that of both. [`compare`] takes existing reports, [`check`] makes them, in runs that
//! are short enough for flits.

use crate::engine::flit::{Options, mean, size_of};
use crate::report::Report;
use crate::run::{RunError, run};
use crate::scenario::{Fidelity, RunLength, Scenario, TrafficModel};
use crate::topology;
use crate::units::Picos;

/// Permitted difference in efficiency between two fidelities, in addition to the errors of both, for effects that the
/// message level leaves out. It is a requirement, not a measurement: the two levels must meet it.
pub const MODEL_ERROR: f64 = 0.01;

/// Approximate number of single-flit steps for which [`check`] runs the flit level: some seconds.
const FLIT_STEPS: u64 = 40_000_000;

/// Two fidelities side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The one that is less detailed.
    pub model: Fidelity,
    /// The one that it is compared with.
    pub reference: Fidelity,
    /// Efficiency of the model less that of the reference.
    pub difference: f64,
    /// Permitted difference.
    pub tolerance: f64,
    /// The model is a bound: only a reference above it is a disagreement.
    pub one_sided: bool,
}

impl Difference {
    /// Returns whether they agree within the tolerance.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.difference >= -self.tolerance && (self.one_sided || self.difference <= self.tolerance)
    }
}

/// One scenario in several fidelities.
#[derive(Clone, Debug, PartialEq)]
pub struct Cross {
    /// Report of each of them.
    pub reports: Vec<Report>,
    /// Those that cannot simulate this scenario, and why.
    pub unable: Vec<(Fidelity, RunError)>,
    /// All pairs.
    pub differences: Vec<Difference>,
}

/// Compares all pairs of `reports` of one scenario.
///
/// The tolerance is [`MODEL_ERROR`] and twice the statistical errors of both together, each of which is half the width
/// of a 95 % interval.
#[must_use]
pub fn compare(reports: &[Report]) -> Vec<Difference> {
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_by_key(|report| report.fidelity);
    let mut differences = Vec::new();
    for (index, &model) in sorted.iter().enumerate() {
        for &reference in &sorted[index + 1..] {
            let errors = libm::hypot(model.efficiency_error, reference.efficiency_error);
            differences.push(Difference {
                model: model.fidelity,
                reference: reference.fidelity,
                difference: model.efficiency - reference.efficiency,
                tolerance: MODEL_ERROR + 2.0 * errors,
                one_sided: model.fidelity == Fidelity::Analytic && !model.is_exact(),
            });
        }
    }
    differences
}

/// Runs `scenario` in every fidelity that can, all with the same length: that of the scenario, or where flits would take
/// too long for it (some seconds), a shorter one.
///
/// # Errors
/// [`RunError`] of a scenario that no fidelity but the closed formulas can run.
pub fn check(scenario: &Scenario) -> Result<Cross, RunError> {
    let length = affordable(scenario)?;
    let mut cross = Cross { reports: Vec::new(), unable: Vec::new(), differences: Vec::new() };
    for fidelity in [Fidelity::Analytic, Fidelity::Message, Fidelity::Flit] {
        match run(&Scenario { fidelity, length, ..scenario.clone() }) {
            Ok(report) => cross.reports.push(report),
            Err(error) => cross.unable.push((fidelity, error)),
        }
    }
    if cross.reports.iter().all(|report| report.fidelity == Fidelity::Analytic) && !cross.unable.is_empty() {
        let (_, error) = cross.unable.swap_remove(0);
        return Err(error);
    }
    cross.differences = compare(&cross.reports);
    Ok(cross)
}

/// Returns the length of `scenario`, or the part that the flit level can simulate.
fn affordable(scenario: &Scenario) -> Result<RunLength, RunError> {
    let Ok(options) = Options::of(scenario) else {
        return Ok(scenario.length);
    };
    let endpoints = u64::from(topology::endpoints(&scenario.topology)?.max(1));
    let flits = u64::from(options.flits(mean(size_of(&scenario.traffic))));
    // A flit makes about four steps on its way, and a host sends one in every second cycle.
    let cycles = FLIT_STEPS / (2 * endpoints);
    let messages = (cycles / (2 * flits)).max(1);
    Ok(match scenario.length {
        RunLength::Time(end) => {
            let cycle = options.rate.time_for(options.flit_bytes.into());
            RunLength::Time(end.min(Picos(cycles.saturating_mul(cycle.0))))
        }
        RunLength::MessagesPerSender(count) => RunLength::MessagesPerSender(count.min(messages)),
        // A builder gets one message of each source for an event.
        RunLength::Events(count) => match &scenario.traffic {
            TrafficModel::Random { .. } => RunLength::Events(count),
            _ => RunLength::Events(count.min(messages)),
        },
    })
}

#[cfg(test)]
mod tests;
