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

use crate::engine::clocked::Outcome;
use crate::meter::{Meter, Names};
use crate::network::Network;
use crate::scenario::{Arbiter, Routes, RunLength, Switching};
use crate::traffic::Traffic;
use crate::units::Picos;
use thiserror::Error;

/// What a slotted run is made of, beside network and traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a slot is.
    pub slot: Picos,
    /// [`Switching::InputQueued`], [`Switching::Unbuffered`] or [`Switching::SlottedBuffered`].
    pub switching: Switching,
    /// Who goes first.
    pub arbiter: Arbiter,
    /// Which of several ways.
    pub routes: Routes,
    /// When it ends.
    pub length: RunLength,
    /// What chance comes from.
    pub seed: u64,
}

/// Why there is no such run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlottedError {
    /// Not one switch.
    #[error("slotted input queues are a model of one switch, but the network has {switches}; use a crossbar")]
    NotOneSwitch {
        /// How many switches there are.
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
        /// How many links it sends into.
        rails: u32,
    },
    /// Another kind of switch.
    #[error("{switching:?} is not slotted; use input queues, no buffers, or slotted buffers")]
    NotSlotted {
        /// What was asked for.
        switching: Switching,
    },
    /// Without time nothing happens.
    #[error("a slot of no length never ends; messages must have a size")]
    NoTime,
}

/// What a meter of such a run tells apart.
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
pub fn run<T: Traffic>(
    network: &Network,
    options: &Options,
    traffic: &mut T,
    meter: &mut Meter,
) -> Result<Outcome, SlottedError> {
    if options.slot == Picos::ZERO {
        return Err(SlottedError::NoTime);
    }
    let rails = network.injection.iter().map(|links| links.end - links.start).enumerate();
    if let Some((endpoint, rails)) = rails.max_by_key(|&(_, rails)| rails).filter(|&(_, rails)| rails > 1) {
        return Err(SlottedError::Rails { endpoint, rails });
    }
    match options.switching {
        Switching::InputQueued { queue, buffer_messages, speed_up } => {
            if network.switches.len() != 1 {
                return Err(SlottedError::NotOneSwitch { switches: network.switches.len() });
            }
            let buffers = crossbar::Buffers { queue, messages: buffer_messages, speed_up };
            Ok(crossbar::run(network.endpoints(), options, buffers, traffic, meter))
        }
        Switching::Unbuffered => staged::run_unbuffered(network, options, traffic, meter),
        Switching::SlottedBuffered { buffer_messages } => {
            staged::run_buffered(network, options, buffer_messages, traffic, meter)
        }
        switching => Err(SlottedError::NotSlotted { switching }),
    }
}

#[cfg(test)]
mod tests;
