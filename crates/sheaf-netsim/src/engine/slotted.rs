//! Slotted switches: fixed-size messages, and a clock that ticks once for each of them.
//!
//! | module | holds |
//! |---|---|
//! | `crossbar` | one switch with queues at its inputs: first in first out, with look-ahead, or virtual output queues |
//! | `matching` | which inputs send to which outputs in one slot |
//! | `staged` | layers of switches, without buffers or with a few at each input |
//!
//! These are the models of the classic papers, for comparison with them and as checks of the other engines. A slot is
//! the time of the largest message; hosts have no overhead, and cables no length.

mod crossbar;
mod matching;
mod staged;

use super::clocked::{Course, Hosts};
use super::flit::size_of;
use super::{Engine, Limit, Outcome, Setup};
use crate::meter::{Meter, Names};
use crate::network::Network;
use crate::report::Check;
use crate::scenario::{Arbiter, EndpointModel, Routes, Scenario, SizeModel, Switching, TrafficModel};
use crate::traffic::Traffic;
use crate::units::Picos;
use thiserror::Error;

/// The engine for [`Switching::InputQueued`], [`Switching::Unbuffered`] and [`Switching::SlottedBuffered`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SlottedEngine;

impl Engine for SlottedEngine {
    type Error = SlottedError;
    const CUTS_FRAMES: bool = false;

    fn simulate(&self, setup: &Setup<'_>, traffic: &mut dyn Traffic) -> Result<Outcome, SlottedError> {
        let scenario = setup.scenario;
        let bytes = message_bytes(scenario)?;
        let options = Options {
            slot: scenario.link.rate.time_for(bytes),
            switching: scenario.switching,
            arbiter: scenario.arbiter,
            routes: scenario.routes,
            seed: scenario.seed,
        };
        let names = names(setup.network, &options, bytes);
        let mut meter = Meter::new(setup.receives.clone(), setup.senders, setup.port_rate(), names);
        let limit = Limit::new(scenario.length, setup.senders);
        let course = run(setup.network, &options, limit, traffic, &mut meter)?;
        let detail = format!("after {} slots", course.steps);
        let checks = vec![Check { name: "deadlock", pass: !course.stuck, detail }];
        Ok(Outcome { measured: meter.finish(course.end), summary: traffic.summary(), checks })
    }
}

/// The size of all messages of `scenario`, which makes the slot.
fn message_bytes(scenario: &Scenario) -> Result<u64, SlottedError> {
    let EndpointModel { overhead, start, bus, .. } = scenario.endpoint;
    let found = [
        (!scenario.faults.is_empty(), "faults"),
        (
            overhead > Picos::ZERO || start > Picos::ZERO || bus.is_some(),
            "overhead, start and bus limit of hosts",
        ),
        (scenario.link.delay > Picos::ZERO, "cables that have a length"),
        (
            matches!(scenario.traffic, TrafficModel::Pull { .. } | TrafficModel::Roles(_)),
            "requests beside the fragments",
        ),
    ];
    if let Some((_, what)) = found.into_iter().find(|&(asked, _)| asked) {
        return Err(SlottedError::NotModelled { what });
    }
    match size_of(&scenario.traffic) {
        SizeModel::Fixed(bytes) if scenario.link.frame_payload.is_none_or(|payload| bytes <= payload) => {
            Ok(u64::from(bytes) + u64::from(scenario.link.frame_overhead))
        }
        size => Err(SlottedError::NotFixed { size }),
    }
}

/// Options of a slotted run, in addition to network and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Duration of a slot.
    pub slot: Picos,
    /// [`Switching::InputQueued`], [`Switching::Unbuffered`] or [`Switching::SlottedBuffered`].
    pub switching: Switching,
    /// Order of service.
    pub arbiter: Arbiter,
    /// Which of several ways.
    pub routes: Routes,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Reason why such a run is not possible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SlottedError {
    /// Not one switch.
    #[error("slotted input queues are a model of one switch, but the network has {switches}; use a crossbar")]
    NotOneSwitch {
        /// Number of switches.
        switches: usize,
    },
    /// Messages may come back to a layer.
    #[error(
        "switch {switch}: a slotted network is a sequence of layers, but a way leads from stage {from} to stage {to}; use a delta or layered topology"
    )]
    NotLayered {
        /// The switch.
        switch: u32,
        /// Stage of one of its inputs.
        from: u16,
        /// Stage of one of its outputs.
        to: u16,
    },
    /// Several links of one host.
    #[error("slotted models have one link for each host, but endpoint {endpoint} has {rails}; use one rail")]
    Rails {
        /// Which endpoint.
        endpoint: usize,
        /// Number of links that it sends into.
        rails: u32,
    },
    /// Another kind of switch.
    #[error("{switching:?} is not slotted; use input queues, no buffers, or slotted buffers")]
    NotSlotted {
        /// Switching that was requested.
        switching: Switching,
    },
    /// Messages of several sizes.
    #[error("{size:?} in frames of the link is not one size; slotted models need messages of one fixed size")]
    NotFixed {
        /// The sizes.
        size: SizeModel,
    },
    /// Feature that only other engines model.
    #[error(
        "slotted models do not know {what}; use wormhole, cut-through, store-and-forward or output queues"
    )]
    NotModelled {
        /// The parameter.
        what: &'static str,
    },
    /// Without time nothing happens.
    #[error("a slot of no length never ends; messages must have a size")]
    NoTime,
}

/// Returns the names for a meter of such a run.
#[must_use]
pub fn names(network: &Network, options: &Options, message_bytes: u64) -> Names {
    match options.switching {
        Switching::InputQueued { buffer_messages, .. } => {
            crossbar::names(network.endpoints(), buffer_messages, message_bytes)
        }
        Switching::SlottedBuffered { buffer_messages } => {
            staged::names(network, Some(buffer_messages), message_bytes)
        }
        _ => staged::names(network, None, message_bytes),
    }
}

/// Runs `traffic` over `network`.
///
/// # Errors
/// [`SlottedError`] where the network or the switching is of another kind.
pub fn run(
    network: &Network,
    options: &Options,
    limit: Limit,
    traffic: &mut dyn Traffic,
    meter: &mut Meter,
) -> Result<Course, SlottedError> {
    if options.slot == Picos::ZERO {
        return Err(SlottedError::NoTime);
    }
    let rails = network.injection.iter().map(|links| links.end - links.start).enumerate();
    if let Some((endpoint, rails)) = rails.max_by_key(|&(_, rails)| rails).filter(|&(_, rails)| rails > 1) {
        return Err(SlottedError::Rails { endpoint, rails });
    }
    let hosts = Hosts::new(network.endpoints(), traffic, meter, limit);
    match options.switching {
        Switching::InputQueued { queue, buffer_messages, speed_up } => {
            if network.switches.len() != 1 {
                return Err(SlottedError::NotOneSwitch { switches: network.switches.len() });
            }
            let buffers = crossbar::Buffers { queue, messages: buffer_messages, speed_up };
            Ok(crossbar::run(network.endpoints(), options, buffers, hosts))
        }
        Switching::Unbuffered => staged::run_unbuffered(network, options, hosts),
        Switching::SlottedBuffered { buffer_messages } => {
            staged::run_buffered(network, options, buffer_messages, hosts)
        }
        switching => Err(SlottedError::NotSlotted { switching }),
    }
}

#[cfg(test)]
mod tests;
