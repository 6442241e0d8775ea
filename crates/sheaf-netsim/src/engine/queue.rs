//! Packets: switches with buffers for whole frames, event driven.
//!
//! | module | holds |
//! |---|---|
//! | `simulation` | the state of a run, the order of what happens at one instant, links |
//! | `hosts` | network interfaces: overhead, start, rails, look-ahead; messages cut into frames and put together again |
//! | `inputs` | switches with input buffers: cut-through and store-and-forward, credits |
//! | `outputs` | switches with output queues, own or shared: tail drop and pause |
//! | `arbiter` | order of service |
//! | `frames`, `ports` | slabs of messages and frames; a link with its buffers |
//! | `timeline` | queue of future events |
//! | `causes` | causes that reports distinguish |
//! | `audit`, `deadlock` | self-checks |
//!
//! Model and its limits. A frame occupies a link for its bytes at the link's rate; its first byte is at the far end
//! after the link's delay. A buffer's room is taken when a frame begins to arrive and free when its last byte has left.
//! Switches decide in no time; their decision time belongs to the link's delay. Output queues take frames from all
//! inputs at once and store each before they forward it. Slow receivers and buses stretch the time for which a frame
//! occupies the last or the first link. A host takes all arriving frames.

mod arbiter;
mod audit;
mod causes;
mod deadlock;
mod frames;
mod hosts;
mod inputs;
mod outputs;
mod ports;
mod rails;
mod scheme;
mod simulation;
mod timeline;

use super::Engine;
use crate::faults::{FaultError, Faults};
use crate::meter::{Meter, Names};
use crate::network::Network;
use crate::report::Check;
use crate::scenario::{Arbiter, EndpointModel, Routes, Scenario, SizeModel, Switching, TrafficModel};
use crate::traffic::Traffic;
use crate::units::Picos;
pub use deadlock::{Buffer, Deadlock};
use scheme::Scheme;
use simulation::Simulation;
use thiserror::Error;

/// Reason why a scenario cannot be simulated by this engine.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum QueueError {
    /// It belongs to another engine.
    #[error(
        "{0:?} is not packet switching: right are cut-through, store-and-forward, output queues and shared memory"
    )]
    Switching(Switching),
    /// Nothing could ever move.
    #[error("a buffer of {0} messages lets nothing pass: right is 1 or more")]
    NoBuffer(u32),
    /// Nothing could ever move.
    #[error("frames with a payload of 0 bytes carry nothing: right is 1 or more")]
    NoPayload,
    /// The plan of faults makes no sense.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

/// End of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// When.
    pub at: Picos,
    /// Self-checks: conservation, buffers, deadlock.
    pub checks: Vec<Check>,
    /// Buffers that wait for one another, if there are any.
    pub deadlock: Option<Deadlock>,
}

/// Parts of a scenario that matter during the run.
#[derive(Clone, Copy, Debug)]
struct Setup {
    scheme: Scheme,
    routes: Routes,
    arbiter: Arbiter,
    endpoint: EndpointModel,
    frame_payload: u32,
    frame_overhead: u32,
    seed: u64,
}

impl Setup {
    fn new(scenario: &Scenario) -> Result<Self, QueueError> {
        let scheme = Scheme::of(&scenario.switching).ok_or(QueueError::Switching(scenario.switching))?;
        if scheme.room() == 0 {
            return Err(QueueError::NoBuffer(0));
        }
        if scenario.link.frame_payload == Some(0) {
            return Err(QueueError::NoPayload);
        }
        Ok(Self {
            scheme,
            routes: scenario.routes,
            arbiter: scenario.arbiter,
            endpoint: scenario.endpoint,
            frame_payload: scenario.link.frame_payload.unwrap_or(u32::MAX),
            frame_overhead: scenario.link.frame_overhead,
            seed: scenario.seed,
        })
    }

    /// Returns the number of frames of a message of `bytes`: at least one.
    #[inline]
    fn frames_of(&self, bytes: u32) -> u32 {
        if bytes <= self.frame_payload { 1 } else { bytes.div_ceil(self.frame_payload) }
    }

    /// The bytes on the wire of a frame of a message of `bytes`, behind which `uncut` frames follow.
    #[inline]
    fn wire_bytes(&self, bytes: u32, uncut: u32) -> u32 {
        let payload = if bytes <= self.frame_payload {
            bytes
        } else if uncut > 0 {
            self.frame_payload
        } else {
            match bytes % self.frame_payload {
                0 => self.frame_payload,
                rest => rest,
            }
        };
        // Not nothing: an empty frame would occupy no link, and a sender would send endlessly many at once.
        payload.saturating_add(self.frame_overhead).max(1)
    }
}

/// Returns the names of everything that a meter has to distinguish for a run of `scenario` on `network`.
///
/// # Errors
/// [`QueueError`] if this engine cannot simulate it.
pub fn names(network: &Network, scenario: &Scenario) -> Result<Names, QueueError> {
    let setup = Setup::new(scenario)?;
    Ok(causes::names(network, setup.scheme, largest_frame(scenario)))
}

/// The largest frame that can occur, in bytes on the wire, where that is known.
fn largest_frame(scenario: &Scenario) -> Option<u64> {
    let size = match &scenario.traffic {
        TrafficModel::Random { size, .. } => Some(size),
        TrafficModel::Push(events, _) | TrafficModel::Pull { events, .. } => Some(&events.size),
        _ => None,
    };
    let message = match size {
        Some(SizeModel::Fixed(bytes) | SizeModel::Uniform(_, bytes)) => Some(*bytes),
        _ => None,
    };
    let payload = match (message, scenario.link.frame_payload) {
        (Some(message), Some(payload)) => message.min(payload),
        (message, payload) => message.or(payload)?,
    };
    Some(u64::from(payload) + u64::from(scenario.link.frame_overhead))
}

/// Makes the simulation of `traffic` on `network` with the switches, links, hosts and faults of `scenario`. It reports
/// to `meter` (made with [`names`]).
fn prepare<'a>(
    network: &'a Network,
    scenario: &Scenario,
    traffic: &'a mut dyn Traffic,
    meter: &'a mut Meter,
) -> Result<Simulation<'a>, QueueError> {
    let setup = Setup::new(scenario)?;
    let faults = Faults::new(&scenario.faults, network, scenario.seed)?;
    Ok(Simulation::new(network, setup, faults, traffic, meter))
}

/// Runs a simulation until `stop`, which is called after every instant, returns `true`, no event is left, or `limit` is
/// over.
fn run(
    mut simulation: Simulation<'_>,
    limit: Picos,
    stop: impl FnMut(&dyn Traffic, &Meter) -> bool,
) -> Ended {
    let at = simulation.run(limit, stop);
    Ended { at, checks: simulation.audit(), deadlock: simulation.find_deadlock() }
}

/// The engine for switches with buffers for whole frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueEngine;

impl Engine for QueueEngine {
    type Error = QueueError;
    const CUTS_FRAMES: bool = true;

    fn simulate(
        &self,
        setup: &super::Setup<'_>,
        traffic: &mut dyn Traffic,
    ) -> Result<super::Outcome, QueueError> {
        let super::Setup { scenario, network, senders, .. } = *setup;
        let names = names(network, scenario)?;
        let mut meter = Meter::new(setup.receives.clone(), senders, setup.port_rate(), names);
        let limit = super::Limit::new(scenario.length, senders);
        // Lost messages count, so that a run that loses nearly everything ends.
        let enough = |traffic: &dyn Traffic, meter: &Meter| {
            limit.is_reached(meter.ended_messages(), || traffic.ended_events())
        };
        let ended = run(prepare(network, scenario, traffic, &mut meter)?, limit.end, enough);
        let end = if enough(traffic, &meter) { ended.at } else { limit.end_after(ended.at) };
        Ok(super::Outcome { measured: meter.finish(end), summary: traffic.summary(), checks: ended.checks })
    }
}

#[cfg(test)]
mod tests;
