//! Configuration of an event manager.

use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use sheaf_wire::{ByteCount, EventId, Nanos, TriggerMix, TriggerType};

/// Where triggers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triggers {
    /// As fast as credit allows: an event is triggered when a builder can take it.
    Free,
    /// From the driver, through [`EventManager::handle_trigger`](super::EventManager::handle_trigger).
    Driven,
    /// From the readout units' announcements of new event ids.
    Announced,
}

/// Shaping of the readout units' traffic, as far as the event manager takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shaping {
    /// Builders ask them.
    #[default]
    Pull,
    /// Each assignment is announced to them with the builder of the event, and they send unrequested.
    Push,
    /// Builders ask them, and they send in the slots of a barrel shifter: the event manager says from when the slots are
    /// counted, and stops the barrel while a node is missing.
    Barrel {
        /// Interval at which the time is sent to readout units, and missing nodes are detected.
        tick: Nanos,
    },
}

/// Configuration of the event manager. Memory: some 100 bytes for each event in flight. Events in flight are bounded by
/// `queue_events` plus all builders' slots, or, if triggers are announced, by the readout units' buffers.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// Number of readout units.
    pub readouts: u16,
    /// Number of builders.
    pub builders: u16,
    /// Number of output nodes; 0 if builders store events themselves.
    pub outputs: u16,
    /// Where triggers come from.
    pub triggers: Triggers,
    /// The first event's id, where the event manager numbers them.
    pub first_event: EventId,
    /// Maximum number of triggers to accept; no limit if `None`.
    pub max_events: Option<u64>,
    /// The type given to triggers that come without one.
    pub trigger_type: TriggerType,
    /// The types of all triggers, where it has any: those that triggers come with are then without effect.
    pub trigger_mix: TriggerMix,
    /// Events that wait for a builder, at most; where triggers are announced, the readout units' buffers are the bound.
    pub queue_events: usize,
    /// Consecutive events given to one builder at a time.
    pub batch_events: usize,
    /// Number of builders that may fail to build an event, or die while nothing else that they have can be the cause. One that gave it
    /// back to make way for others has not failed, nor has one that fell silent.
    pub max_attempts: u16,
    /// An event's size before any was built; a builder's memory over its slots if `None`.
    pub expected_event: Option<ByteCount>,
    /// Time for which the event manager waits for missing nodes.
    pub start_timeout: Nanos,
    /// After the last trigger: time to wait for the next event to end while no builder unit reports work in
    /// progress. The remaining events are then dropped.
    pub stop_timeout: Nanos,
    /// Time after which a run without any builder, or without any readout unit, ends.
    pub desertion_timeout: Nanos,
    /// Time for which a node without a sign of life is waited for. The events of a builder that is given up go to others.
    pub patience: Patience,
    /// Every node hears of the event manager at least in every second of these intervals, whatever the course of the run.
    pub heartbeat: Nanos,
    /// Ended events are announced to the readout units in batches; a batch is closed after this time.
    pub batch_time: Nanos,
    /// Shaping of the readout units' traffic.
    pub shaping: Shaping,
    /// Times of the channels.
    pub channel: ChannelTimes,
}
