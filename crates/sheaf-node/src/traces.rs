//! Stamps of nodes, for traces of single events.
//!
//! A node stamps what it handles anyway: the messages that it takes and sends, the batches of its sources, the events that it gives to its
//! filter and its output. Roles know nothing of it. A stamp is of a range of consecutive events where a message or a batch has one, so its
//! cost is that of a message and not that of an event. All stamps of a round have the time of the round, so no clock is read for them.

mod builder;
mod manager;
mod output;
mod readout;
mod sample;

pub(crate) use builder::BuilderTrace;
pub(crate) use manager::ManagerTrace;
pub(crate) use output::OutputTrace;
pub(crate) use readout::ReadoutTrace;
pub use sample::Sample;

use sheaf_telemetry::stamps::StampHub;
use sheaf_wire::Nanos;

/// Where the nodes of a process stamp events, and which events are traced.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// The stamps of the nodes of this process.
    pub hub: StampHub,
    /// Events that are always traced.
    pub sample: Sample,
    /// Time from a trigger to the end of its event, from which on an event is slow.
    pub slow: Nanos,
    /// Whether nobody else remarks upon events of the sample, and those that are dropped: the event manager is in another process that does
    /// not collect these stamps.
    pub is_alone: bool,
}
