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

use sheaf_telemetry::stamps::{Stage, StampHub, Stamper};
use sheaf_wire::Nanos;
use sheaf_wire::message::Assignment;

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

/// Stamps assigned events: together if they are consecutive and of one attempt, as nearly all are.
fn stamp_assignments(
    stamper: &mut Stamper,
    stage: Stage,
    assignments: &[Assignment],
    detail: impl Fn(&Assignment) -> u16,
) {
    let (Some(first), Some(last)) = (assignments.first(), assignments.last()) else { return };
    let count = assignments.len() as u64;
    // Returned events come before new ones, in another range: ids ascend within a batch.
    if last.event.0.wrapping_sub(first.event.0) == count - 1 && detail(first) == detail(last) {
        stamper.stamp(stage, detail(first), first.event.0, count);
    } else {
        assignments.iter().for_each(|it| stamper.stamp(stage, detail(it), it.event.0, 1));
    }
}
