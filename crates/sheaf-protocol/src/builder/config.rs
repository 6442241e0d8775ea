//! Configuration of a builder unit.

use super::{ReadoutSources, Scope, TriggerWindows};
use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::collections::BTreeSet;

/// Treatment of an event that lacks a required source after the readout unit was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompletePolicy {
    /// Wait without limit.
    Wait,
    /// Build it, with the list of missing sources and reasons.
    Store,
    /// Drop it as `incomplete`.
    Drop,
}

/// Way in which a builder obtains its super-fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It requests all assigned events from every readout unit at once.
    #[default]
    AtOnce,
    /// It requests from readout units in turn, with at most this number of bytes in flight.
    Paced(ByteCount),
    /// Readout units send in their time slots. The builder requests everything at once while the barrel shifter is
    /// running. While it is stopped, at most this number of bytes is in flight.
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

/// Configuration of a builder unit. Memory: up to `memory` for payload (a quarter more if readout units send without a
/// request), and about 100 bytes of bookkeeping for each fragment under construction.
#[derive(Clone, Debug)]
pub struct BuilderConfig {
    /// The readout units, by index.
    pub readouts: Vec<ReadoutSources>,
    /// Sources that an event may lack and still be complete.
    pub optional: BTreeSet<SourceId>,
    /// Maximum number of events under construction or waiting for a decision.
    pub slots: u32,
    /// Maximum payload of those events.
    pub memory: ByteCount,
    /// Treatment of incomplete events.
    pub incomplete: IncompletePolicy,
    /// Interval, from the assignment of an event, at which the builder checks whether the readout units that it waits for
    /// are alive. Without effect if `incomplete` is [`IncompletePolicy::Wait`].
    pub event_timeout: Nanos,
    /// Time for which the builder waits for a readout unit without a sign of life. It waits without limit for one that
    /// is alive.
    pub patience: Patience,
    /// Time without an answer after which a request is repeated. The following repetitions come after 2, 4, 8 and every
    /// 16 times this time.
    pub request_retry: Nanos,
    /// Way in which the builder obtains super-fragments.
    pub asking: Asking,
    /// Parts of events, and the order of their requests. With [`Asking::Unasked`], events have one part.
    pub scope: Scope,
    /// Windows of time for which triggers stand, if readout units give hits on request. Without effect with [`Asking::Unasked`].
    pub windows: Option<TriggerWindows>,
    /// Whether readout units have mirrors. One whose link is down is then given up only if the event manager, which lets its mirror act, was heard
    /// meanwhile.
    pub mirrored: bool,
    /// Number of finished events that are returned together. Fewer are returned after `batch_time`, or when no event is
    /// under construction.
    pub batch_events: usize,
    /// Maximum time that finished events wait to be returned.
    pub batch_time: Nanos,
    /// Maximum interval between messages to the event manager.
    pub heartbeat: Nanos,
    /// Times of the channel to the event manager.
    pub channel: ChannelTimes,
}
