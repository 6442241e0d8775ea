//! Configuration of a builder unit.

use super::{ReadoutSources, Scope};
use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::collections::BTreeSet;

/// Treatment of an event that misses a required source when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompletePolicy {
    /// Wait without limit.
    Wait,
    /// Build it, with the list of missing sources and reasons.
    Store,
    /// Drop it as `incomplete`.
    Drop,
}

/// Way in which a builder comes by its super-fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It asks every readout unit at once for all that it is assigned.
    #[default]
    AtOnce,
    /// It requests from readout units in turn, with at most this number of bytes in flight.
    Paced(ByteCount),
    /// Readout units send in their slots: it asks at once as long as the barrel shifter turns. While that stands it asks for so
    /// many bytes in flight at most.
    Barrel(ByteCount),
    /// The event manager sends destinations to the readout units, which send without a request. The builder
    /// requests only super-fragments that have not arrived after `request_retry`.
    Unasked,
}

impl Asking {
    pub(super) fn is_bounded(self) -> bool {
        matches!(self, Self::Paced(_) | Self::Barrel(_))
    }
}

/// Configuration of a builder unit. Memory: payload up to `memory` (a quarter more where readout units send unasked), bookkeeping of some
/// 100 bytes per fragment under construction.
#[derive(Clone, Debug)]
pub struct BuilderConfig {
    /// The readout units, by index.
    pub readouts: Vec<ReadoutSources>,
    /// Sources without which an event is complete all the same.
    pub optional: BTreeSet<SourceId>,
    /// Events under construction or waiting for a decision, at most.
    pub slots: u32,
    /// Payload of those events, at most.
    pub memory: ByteCount,
    /// Treatment of incomplete events.
    pub incomplete: IncompletePolicy,
    /// Interval, from an event's assignment on, at which the builder checks whether the readout units that the event waits for
    /// live. Without effect where the policy is to wait.
    pub event_timeout: Nanos,
    /// Time for which a readout unit without a sign of life is waited for. One that lives is waited for without limit.
    pub patience: Patience,
    /// A readout unit that has not answered for this time is asked again, and then after twice, four, eight and every 16 times this
    /// time.
    pub request_retry: Nanos,
    /// Way in which it comes by the super-fragments.
    pub asking: Asking,
    /// Parts of events, and the order in which the builder asks for them. With [`Asking::Unasked`], everything at once.
    pub scope: Scope,
    /// Finished events are returned when there are this many, or after `batch_time`, or when nothing is left to build.
    pub batch_events: usize,
    /// See `batch_events`.
    pub batch_time: Nanos,
    /// Maximum interval between messages to the event manager.
    pub heartbeat: Nanos,
    /// Times of the channel to the event manager.
    pub channel: ChannelTimes,
}
