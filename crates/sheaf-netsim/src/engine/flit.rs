//! The reference: every flit of every message, clock cycle by clock cycle.
//!
//! A flit is the amount that a link moves in one cycle. Each switch input holds `buffer_flits` of them for each lane
//! (virtual channel); the sender upstream tracks the room by credits that return after `credit_cycles`. The first flit
//! of a message finds the path, the others follow; an output lane belongs to a message until its last flit has left.
//! The kind of switching defines when a message may have an output: at once (wormhole), when the next buffer has room
//! for all of it (virtual cut-through), or when, in addition, all of it has arrived (store and forward).
//!
//! It makes none of the assumptions of the other engines about blocking and buffers, and costs a thousand times more.
//! It shows how large their errors are.
//!
//! | module | holds |
//! |---|---|
//! | `options` | options of a run, and conversion of a scenario to flits |
//! | `fabric` | channels: buffers, credits, and which channel sends into which |
//! | `allocation` | which message gets a free output |
//! | `cycle` | one cycle |
//! | `deadlock` | the loop that blocks a run |

mod allocation;
mod cycle;
mod deadlock;
mod fabric;
mod options;

pub use options::{FlitError, Kind, Options};
pub(crate) use options::{mean, size_of};

use super::clocked::Course;
use super::{Engine, Limit, Outcome, Setup};
use crate::meter::{Meter, Names};
use crate::network::{LinkId, Network};
use crate::report::Check;
use crate::traffic::Traffic;

/// The engine for [`Fidelity::Flit`](crate::scenario::Fidelity::Flit).
#[derive(Clone, Copy, Debug, Default)]
pub struct FlitEngine;

impl Engine for FlitEngine {
    type Error = FlitError;
    const CUTS_FRAMES: bool = false;

    fn simulate(&self, setup: &Setup<'_>, traffic: &mut dyn Traffic) -> Result<Outcome, FlitError> {
        let options = Options::of(setup.scenario)?;
        let names = names(setup.network, &options);
        let mut meter = Meter::new(setup.receives.clone(), setup.senders, setup.port_rate(), names);
        let limit = Limit::new(setup.scenario.length, setup.senders);
        let flits = run(setup.network, &options, limit, traffic, &mut meter);
        let checks = vec![flits.check(setup.network)];
        Ok(Outcome { measured: meter.finish(flits.course.end), summary: traffic.summary(), checks })
    }
}

/// Result of a flit-level run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlitRun {
    /// Cycles, end, and whether it was stuck.
    pub course: Course,
    /// Links of a loop if the run was deadlocked: each is held by a message that waits for the next one.
    pub deadlock: Option<Vec<LinkId>>,
}

impl FlitRun {
    fn check(&self, network: &Network) -> Check {
        let name_of = |link: &LinkId| {
            let ends = &network.links[link.index()];
            format!("link {} ({:?} to {:?})", link.0, ends.from, ends.to)
        };
        let detail = match &self.deadlock {
            Some(links) => {
                let links: Vec<String> = links.iter().map(name_of).collect();
                format!("messages hold one another: {}", links.join(", then "))
            }
            None if self.course.stuck => "messages wait for what never comes, but not for one another".into(),
            None => format!("no messages wait for one another after {} cycles", self.course.steps),
        };
        Check { name: "deadlock", pass: !self.course.stuck, detail }
    }
}

/// Returns the names for a meter of such a run: waiting for the outputs of each layer, and the buffers of its inputs.
///
/// Buffers are sampled every [`SAMPLE_CYCLES`]; their largest content is exact.
#[must_use]
pub fn names(network: &Network, options: &Options) -> Names {
    let waiting = (0..network.stages)
        .map(|stage| match stage {
            0 => "own link, taken by another message".to_owned(),
            layer => format!("output of layer {layer}, taken by another message"),
        })
        .collect();
    let size = u64::from(options.buffer_flits) * u64::from(options.flit_bytes);
    let buffers = (1..network.stages)
        .map(|layer| {
            let links = network.links.iter().filter(|link| link.stage == layer - 1).count();
            let count = u32::try_from(links).expect("links are numbered by 32 bits") * options.lanes;
            (format!("inputs of layer {layer}"), count, Some(size))
        })
        .collect();
    Names { waiting, losses: Vec::new(), buffers }
}

/// Number of cycles between two samples of the content of all buffers.
pub const SAMPLE_CYCLES: u64 = 64;

/// Runs `traffic` over `network`.
pub fn run(
    network: &Network,
    options: &Options,
    limit: Limit,
    traffic: &mut dyn Traffic,
    meter: &mut Meter,
) -> FlitRun {
    cycle::Run::new(network, options, limit, traffic, meter).run()
}

#[cfg(test)]
mod tests;
