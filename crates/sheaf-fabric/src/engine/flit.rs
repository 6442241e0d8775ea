//! The reference: every flit of every message, clock cycle by clock cycle.
//!
//! A flit is what a link moves in one cycle. Each switch input holds `buffer_flits` of them for each lane (virtual
//! channel); the sender upstream knows the room by credits that come back after `credit_cycles`. The first flit of a
//! message finds the way, the others follow; an output lane belongs to a message until its last flit has left. What
//! decides when a message may have an output makes the kind of switching: at once (wormhole), when the buffer behind has
//! room for all of it (virtual cut-through), or when all of it is there besides (store and forward).
//!
//! It assumes nothing that the other engines assume of blocking and of buffers, and costs a thousand times more. It is
//! there to say how far they are from it.
//!
//! | module | holds |
//! |---|---|
//! | `options` | what a run is made of, and how a scenario becomes flits |
//! | `fabric` | channels: buffers, credits, who sends into whom |
//! | `allocation` | which message gets a free output |
//! | `cycle` | one cycle |
//! | `deadlock` | the loop that holds a run which cannot go on |

mod allocation;
mod cycle;
mod deadlock;
mod fabric;
mod options;

pub use options::{FlitError, Kind, Options};

use crate::engine::clocked::Outcome;
use crate::meter::{Meter, Names};
use crate::network::{LinkId, Network};
use crate::traffic::Traffic;

/// What a flit-level run amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlitOutcome {
    /// Cycles and messages.
    pub run: Outcome,
    /// Where the run was stuck: the links of a loop, each of which is held by a message that waits for the next one.
    pub deadlock: Option<Vec<LinkId>>,
}

/// What a meter of such a run tells apart: waiting for the outputs of each layer, and the buffers of its inputs.
///
/// Buffers are looked at every [`SAMPLE_CYCLES`]; their largest content is exact.
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

/// How many cycles lie between two looks at the content of all buffers.
pub const SAMPLE_CYCLES: u64 = 64;

/// Runs `traffic` over `network`.
pub fn run<T: Traffic>(
    network: &Network,
    options: &Options,
    traffic: &mut T,
    meter: &mut Meter,
) -> FlitOutcome {
    cycle::Run::new(network, options, traffic, meter).run()
}

#[cfg(test)]
mod tests;
