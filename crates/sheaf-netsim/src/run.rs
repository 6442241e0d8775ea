//! A scenario, its engine, its report.
//!
//! The network is compiled, the traffic is made, the engine for the switching and the fidelity simulates, and the
//! results are checked: against the conservation of messages, and against theoretical limits.

use crate::analytic;
use crate::analytic::load::Demand;
use crate::engine::flit::{FlitEngine, FlitError};
use crate::engine::path::PathEngine;
use crate::engine::queue::{QueueEngine, QueueError};
use crate::engine::slotted::{SlottedEngine, SlottedError};
use crate::engine::{Engine, Outcome, Setup};
use crate::faults::FaultError;
use crate::meter::Measured;
use crate::network::Network;
use crate::report::{Check, Counts, EXACT, Report};
use crate::scenario::{EventTraffic, Fidelity, Placement, RunLength, Scenario, Switching, TrafficModel};
use crate::topology::{CompileError, compile};
use crate::traffic::barrel::Barrel;
use crate::traffic::frames::Frames;
use crate::traffic::placement::Roster;
use crate::traffic::pull::{Pull, PullShape};
use crate::traffic::push::Push;
use crate::traffic::random::Random;
use crate::traffic::roles::Roles;
use crate::traffic::{SetupError, Traffic};
use crate::units::Picos;
use thiserror::Error;

/// Reason why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// The topology makes no network.
    #[error(transparent)]
    Network(#[from] CompileError),
    /// The traffic does not fit the network.
    #[error("traffic: {0}")]
    Traffic(#[from] SetupError),
    /// A fault is about something that is not there.
    #[error("faults: {0}")]
    Faults(#[from] FaultError),
    /// Switches with buffers cannot be so.
    #[error("switching: {0}")]
    Queues(#[from] QueueError),
    /// A slotted switch cannot be so.
    #[error("switching: {0}")]
    Slotted(#[from] SlottedError),
    /// It has no flits.
    #[error("flits: {0}")]
    Flits(#[from] FlitError),
    /// No engine simulates this.
    #[error("{what} cannot be simulated with {with}; {right}")]
    Unsupported {
        /// The feature.
        what: String,
        /// The feature that it cannot be combined with.
        with: &'static str,
        /// The remedy.
        right: &'static str,
    },
    /// A run without an end.
    #[error("length: {0}")]
    Length(&'static str),
}

/// Runs a scenario.
///
/// # Errors
/// [`RunError`] where its parts do not fit together.
pub fn run(scenario: &Scenario) -> Result<Report, RunError> {
    check_length(scenario)?;
    let network = compile(&scenario.topology, &scenario.numbering, &scenario.link, scenario.endpoint.rails)?;
    let outcome = match scenario.fidelity {
        Fidelity::Analytic => return theory(scenario, &network),
        Fidelity::Flit => with_traffic(FlitEngine, scenario, &network)?,
        Fidelity::Message => match scenario.switching {
            Switching::Wormhole { .. } => {
                if scenario.endpoint.look_ahead {
                    return Err(RunError::Unsupported {
                        what: "look-ahead in the network interface".into(),
                        with: "wormhole switching",
                        right: "it is modelled with cut-through or store-and-forward",
                    });
                }
                with_traffic(PathEngine, scenario, &network)?
            }
            Switching::CutThrough { .. }
            | Switching::StoreAndForward { .. }
            | Switching::OutputQueued { .. }
            | Switching::SharedMemory { .. } => with_traffic(QueueEngine, scenario, &network)?,
            Switching::InputQueued { .. } | Switching::Unbuffered | Switching::SlottedBuffered { .. } => {
                with_traffic(SlottedEngine, scenario, &network)?
            }
        },
    };
    Ok(report(scenario, &network, outcome))
}

fn check_length(scenario: &Scenario) -> Result<(), RunError> {
    match scenario.length {
        RunLength::Time(end) if end.0 == 0 => Err(RunError::Length("a run of no time: it must be longer")),
        RunLength::MessagesPerSender(0) => Err(RunError::Length("a run of no messages: at least 1 is right")),
        RunLength::Events(0) => Err(RunError::Length("a run of no events: at least 1 is right")),
        RunLength::Events(_) if matches!(scenario.traffic, TrafficModel::Random { .. }) => {
            Err(RunError::Length("random traffic has no events: tell it in time or in messages per sender"))
        }
        _ => Ok(()),
    }
}

/// Simulates with the traffic of the scenario, cut into frames where the links have them and the engine does not.
fn with_traffic<E: Engine>(engine: E, scenario: &Scenario, network: &Network) -> Result<Outcome, RunError>
where
    RunError: From<E::Error>,
{
    let (setup, mut traffic) = workload(scenario, network)?;
    let link = &scenario.link;
    if !E::CUTS_FRAMES && (link.frame_payload.is_some() || link.frame_overhead > 0) {
        let mut framed =
            Frames::new(traffic, endpoint_count(network), link.frame_payload, link.frame_overhead);
        return Ok(engine.simulate(&setup, &mut framed)?);
    }
    Ok(engine.simulate(&setup, traffic.as_mut())?)
}

/// Returns the traffic of the scenario, and its senders and receivers.
fn workload<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
) -> Result<(Setup<'a>, Box<dyn Traffic>), RunError> {
    let (seed, rate) = (scenario.seed, scenario.link.rate);
    let endpoints = endpoint_count(network);
    Ok(match &scenario.traffic {
        TrafficModel::Random { size, load } => {
            let receives = vec![true; network.endpoints()];
            let setup = Setup { scenario, network, receives, senders: endpoints };
            (setup, Box::new(Random::new(*size, *load, rate, endpoints, seed)?))
        }
        TrafficModel::Push(events, window) => {
            let setup = event_setup(scenario, network, events, endpoints)?;
            (setup, Box::new(Push::new(events, *window, endpoints, seed)?))
        }
        TrafficModel::Replay { events, traffic, window } => {
            let setup = event_setup(scenario, network, traffic, endpoints)?;
            (setup, Box::new(Push::replay(traffic, events.clone(), *window, endpoints, seed)?))
        }
        TrafficModel::Pull { events, outstanding, credit_bytes, request_bytes } => {
            let shape = PullShape {
                outstanding: *outstanding,
                credit_bytes: *credit_bytes,
                request_bytes: *request_bytes,
            };
            let setup = event_setup(scenario, network, events, endpoints)?;
            (setup, Box::new(Pull::new(events, shape, endpoints, seed)?))
        }
        TrafficModel::Barrel(events, shape) => {
            let setup = event_setup(scenario, network, events, endpoints)?;
            (setup, Box::new(Barrel::new(events, *shape, rate, endpoints, seed)?))
        }
        TrafficModel::Roles(machines) => {
            let setup = placed(scenario, network, &machines.placement, endpoints)?;
            let roles = Roles::new(machines, &scenario.faults, rate, endpoints, seed)?;
            (setup, Box::new(roles.over(&scenario.link)))
        }
    })
}

fn endpoint_count(network: &Network) -> u32 {
    u32::try_from(network.endpoints()).expect("a network bounds its endpoints")
}

/// Sources send and builders receive.
fn event_setup<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
    events: &EventTraffic,
    endpoints: u32,
) -> Result<Setup<'a>, RunError> {
    placed(scenario, network, &events.placement, endpoints)
}

/// Throughput is averaged over the builders of a placement.
fn placed<'a>(
    scenario: &'a Scenario,
    network: &'a Network,
    placement: &Placement,
    endpoints: u32,
) -> Result<Setup<'a>, RunError> {
    let roster = Roster::new(placement, endpoints).map_err(SetupError::from)?;
    let mut receives = vec![false; network.endpoints()];
    for builder in roster.builders() {
        receives[builder.index()] = true;
    }
    Ok(Setup { scenario, network, receives, senders: roster.source_count() })
}

/// Evaluates closed formulas: the exact result where there is one, otherwise the bound. Nothing is sent, so that there
/// are neither messages nor times.
fn theory(scenario: &Scenario, network: &Network) -> Result<Report, RunError> {
    let endpoints = endpoint_count(network);
    let demand = Demand::of(scenario, endpoints).map_err(SetupError::from)?;
    let bound = analytic::bound(network, scenario);
    let exact = analytic::exact(network, scenario);
    let (known, name) = match exact {
        Some(exact) => (exact, EXACT),
        None => (bound, "upper bound by theory"),
    };
    let port = scenario.link.rate.bytes_per_second() * f64::from(scenario.endpoint.rails);
    Ok(Report {
        fidelity: Fidelity::Analytic,
        seed: scenario.seed,
        ports: u32::try_from(demand.receivers()).expect("a network bounds its endpoints"),
        simulated: Picos::ZERO,
        warm_up: Picos::ZERO,
        messages: Counts::default(),
        bytes: Counts::default(),
        throughput_per_port: known.efficiency * port,
        efficiency: known.efficiency,
        efficiency_error: 0.0,
        efficiency_bound: bound.efficiency,
        per_port: Vec::new(),
        message_latency: None,
        event_latency: None,
        events: None,
        occupancy: Vec::new(),
        waiting: Vec::new(),
        evolution: Vec::new(),
        losses: Vec::new(),
        checks: vec![Check { name, pass: true, detail: format!("limited by: {}", known.limit) }],
    })
}

fn report(scenario: &Scenario, network: &Network, outcome: Outcome) -> Report {
    let Outcome { measured, summary, checks } = outcome;
    let analytic::Bound { efficiency: bound, limit } = analytic::bound(network, scenario);
    let mut all =
        vec![conservation(&measured.messages), within(measured.efficiency, bound, limit, &measured)];
    all.extend(checks);
    all.extend(summary.checks);
    Report {
        fidelity: scenario.fidelity,
        seed: scenario.seed,
        ports: measured.ports,
        simulated: measured.simulated,
        warm_up: measured.warm_up,
        messages: measured.messages,
        bytes: measured.bytes,
        throughput_per_port: measured.throughput_per_port,
        efficiency: measured.efficiency,
        efficiency_error: measured.efficiency_error,
        efficiency_bound: bound,
        per_port: measured.per_port,
        message_latency: measured.message_latency,
        event_latency: summary.event_latency,
        events: summary.events,
        occupancy: measured.occupancy,
        waiting: measured.waiting,
        evolution: measured.evolution,
        losses: measured.losses,
        checks: all,
    }
}

fn conservation(messages: &crate::report::Counts) -> Check {
    let crate::report::Counts { offered, delivered, lost, in_flight } = *messages;
    Check {
        name: "conservation",
        pass: offered == delivered + lost + in_flight,
        detail: format!(
            "{offered} messages offered = {delivered} delivered + {lost} lost + {in_flight} in flight"
        ),
    }
}

/// Throughput is counted by whole messages at their ends, so that a time slice may count one more for each port than
/// fits into it. Some bounds only hold on average: four standard deviations (the error is two) and the error of the
/// error are allowed.
fn within(efficiency: f64, bound: f64, limit: analytic::bound::Limit, measured: &Measured) -> Check {
    #[expect(clippy::cast_precision_loss, reason = "a tolerance")]
    let per_port = measured.messages.delivered as f64 / f64::from(measured.ports.max(1));
    let granularity = if per_port > 0.0 { 2.0 / per_port } else { 0.0 };
    Check {
        name: "throughput within the bound",
        pass: efficiency <= bound * (1.0 + granularity) + 2.0 * measured.efficiency_error + 0.002,
        detail: format!("efficiency {efficiency:.4}, at most {bound:.4} by {limit}"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
