//! The simulator's own speed: canonical scenarios that a caller times. The crate reads no clock itself.

use crate::report::Report;
use crate::run::{RunError, run};
use crate::scenario::{
    Arbiter, DigitOrder, EndpointModel, Fidelity, FlitModel, LinkModel, Numbering, Routes, RunLength,
    Scenario, SizeModel, Switching, Topology, TrafficModel, WhenFull,
};
use crate::units::{Picos, Rate};

/// A canonical scenario at the message level: an 8-ary delta network of `8^stages` ports, wormhole, saturated with
/// random traffic of one size (64 kB at 10 Gbit/s), with a given number of messages per sender.
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
        endpoint: EndpointModel::default(),
        traffic: TrafficModel::Random { size: SizeModel::Fixed(65_536), load: 1.0 },
        faults: Vec::new(),
        length: RunLength::MessagesPerSender(messages_per_sender),
        fidelity: Fidelity::Message,
        flits: FlitModel::default(),
        seed: 1,
    }
}

/// Work of a timed run.
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

/// The same network at the flit level, for a number of cycles: messages of 64 flits, 4 flits at each switch input.
#[must_use]
pub fn flits(stages: u32, cycles: u64) -> Scenario {
    let mut scenario = messages(stages, 1);
    scenario.traffic = TrafficModel::Random { size: SizeModel::Fixed(64 * FLIT_BYTES), load: 1.0 };
    scenario.switching = Switching::Wormhole { buffer_bytes: 4 * FLIT_BYTES };
    scenario.fidelity = Fidelity::Flit;
    scenario.flits.flit_bytes = Some(FLIT_BYTES);
    let cycle = scenario.link.rate.time_for(FLIT_BYTES.into());
    scenario.length = RunLength::Time(Picos(cycle.0.saturating_mul(cycles)));
    scenario
}

/// Bytes that a link moves in one cycle of [`flits`].
const FLIT_BYTES: u32 = 1_024;

/// Work of a timed run of flits.
#[derive(Clone, Debug, PartialEq)]
pub struct FlitWork {
    /// Endpoints of the network.
    pub ports: u32,
    /// Clock cycles, in each of which all links are processed.
    pub cycles: u64,
    /// The report of the run.
    pub report: Report,
}

/// Simulates [`flits`]: the caller takes the time and divides.
///
/// # Errors
/// Those of [`run`], for numbers of stages that make no network.
pub fn flit_level(stages: u32, cycles: u64) -> Result<FlitWork, RunError> {
    let scenario = flits(stages, cycles);
    let report = run(&scenario)?;
    let cycle = scenario.link.rate.time_for(FLIT_BYTES.into());
    Ok(FlitWork { ports: report.ports, cycles: report.simulated.0 / cycle.0, report })
}

/// A canonical scenario of frames: 500 hosts on 25 leaves and 20 spines, 10 Gbit/s, queues of 100 frames that drop what
/// they cannot hold, random destinations at 95 % load, with a given number of frames of 1,500 bytes per sender.
#[must_use]
pub fn frames(frames_per_sender: u64) -> Scenario {
    Scenario {
        name: "25 leaves and 20 spines, output queues, random traffic at 95 % load".into(),
        topology: Topology::FoldedClos { leaves: 25, ports: 20, spines: 20, uplinks: 1, uplink_rate: None },
        switching: Switching::OutputQueued { buffer_bytes: Some(150_000), full: WhenFull::Drop },
        routes: Routes::DestinationDigit,
        traffic: TrafficModel::Random { size: SizeModel::Fixed(1_500), load: 0.95 },
        length: RunLength::MessagesPerSender(frames_per_sender),
        ..messages(3, 1)
    }
}

/// Simulates [`frames`]: the caller takes the time and divides.
///
/// # Errors
/// None are known.
pub fn packet_level(frames_per_sender: u64) -> Result<Work, RunError> {
    let report = run(&frames(frames_per_sender))?;
    Ok(Work { ports: report.ports, messages: report.messages.delivered, report })
}

#[cfg(test)]
mod tests;
