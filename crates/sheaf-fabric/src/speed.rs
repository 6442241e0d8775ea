//! The simulator's own speed: canonical scenarios that a caller times. The crate reads no clock itself.

use crate::report::Report;
use crate::run::{RunError, run};
use crate::scenario::{
    Arbiter, DigitOrder, EndpointModel, Fidelity, FlitModel, LinkModel, Numbering, Routes, RunLength,
    Scenario, SizeModel, Switching, Topology, TrafficModel,
};
use crate::units::{Picos, Rate};

/// A canonical scenario at the message level: an 8-ary delta network of `8^stages` ports, wormhole, saturated with
/// random traffic of one size (64 kB at 10 Gbit/s), of so many messages for each sender.
#[must_use]
pub fn messages(stages: u32, messages_per_sender: u64) -> Scenario {
    Scenario {
        name: format!("8-ary delta network of {stages} stages, random traffic, saturated"),
        topology: Topology::Delta { radix: 8, stages, digits: DigitOrder::MostFirst },
        numbering: Numbering::Identity,
        link: LinkModel {
            rate: Rate::from_gigabits(10),
            delay: Picos::ZERO,
            frame_overhead: 0,
            frame_payload: None,
        },
        switching: Switching::Wormhole { buffer_bytes: 0 },
        arbiter: Arbiter::Random,
        routes: Routes::Hash,
        endpoint: EndpointModel {
            overhead: Picos::ZERO,
            start: Picos::ZERO,
            bus: None,
            rails: 1,
            queue_messages: 1,
            look_ahead: false,
        },
        traffic: TrafficModel::Random { size: SizeModel::Fixed(65_536), load: 1.0 },
        faults: Vec::new(),
        length: RunLength::MessagesPerSender(messages_per_sender),
        fidelity: Fidelity::Message,
        flits: FlitModel::default(),
        seed: 1,
    }
}

/// What a timed run did.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Endpoints of the network.
    pub ports: u32,
    /// Messages that were simulated from their first to their last byte.
    pub messages: u64,
    /// The report of the run: a speed is worth something only where the result is right.
    pub report: Report,
}

/// Simulates [`messages`]: the caller takes the time and divides.
///
/// # Errors
/// Those of [`run`], for numbers of stages that make no network.
pub fn message_level(stages: u32, messages_per_sender: u64) -> Result<Work, RunError> {
    let report = run(&messages(stages, messages_per_sender))?;
    Ok(Work { ports: report.ports, messages: report.messages.delivered, report })
}

#[cfg(test)]
mod tests;
