//! Configuration of an event manager.

use super::Requirement;
use crate::channel::ChannelTimes;
use crate::liveness::Patience;
use crate::numbering::ShiftConfig;
use serde::{Deserialize, Serialize};
use sheaf_wire::{ByteCount, EventId, Nanos, SourceId, TriggerMix, TriggerType};
use std::collections::BTreeMap;

/// Source of triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Triggers {
    /// As fast as credit permits: an event is triggered when a builder can take it.
    Free,
    /// From the driver, through [`EventManager::handle_trigger`](super::EventManager::handle_trigger).
    Driven,
    /// From a trigger supervisor, with their ids, through
    /// [`EventManager::handle_external_trigger`](super::EventManager::handle_external_trigger). The driver raises busy.
    External,
    /// From the readout units' announcements of new event ids.
    Announced,
}

impl Triggers {
    /// Returns whether a run with these triggers can be paused. Announced triggers cannot: each readout unit would stop at another
    /// event.
    #[must_use]
    pub const fn can_pause(self) -> bool {
        !matches!(self, Self::Announced)
    }
}

/// The event manager's part in shaping the readout units' traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shaping {
    /// Builders request super-fragments from the readout units.
    #[default]
    Pull,
    /// Each assignment is announced to the readout units with the builder of the event, and they send without requests.
    Push,
    /// Builders request super-fragments, and readout units send them in the time slots of a barrel shifter. The event manager
    /// announces the epoch of the slots, and stops the barrel shifter while a node is missing.
    Barrel {
        /// Interval at which the time is sent to readout units, and missing nodes are detected.
        tick: Nanos,
    },
}

/// Configuration of the event manager. Memory: some 100 bytes for each event in flight. Events in flight are bounded by
/// `queue_events` plus all builders' slots, or, if triggers are announced, by the readout units' buffers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ManagerConfig {
    /// Number of readout units.
    pub readouts: u16,
    /// Number of builders.
    pub builders: u16,
    /// Number of output nodes; 0 if builders store events themselves.
    pub outputs: u16,
    /// Index of the readout unit that reads each source. Sources that are not listed are neither renumbered nor excluded.
    pub readout_of: BTreeMap<SourceId, u16>,
    /// Source of triggers.
    pub triggers: Triggers,
    /// Id of the first event, if the event manager numbers events.
    pub first_event: EventId,
    /// Maximum number of triggers to accept; no limit if `None`.
    pub max_events: Option<u64>,
    /// Type of triggers without a type of their own.
    pub trigger_type: TriggerType,
    /// Mix of trigger types. If it is not empty, it overrides the types of all triggers.
    pub trigger_mix: TriggerMix,
    /// Maximum number of events that wait for a builder. If triggers are announced, the readout units' buffers are the bound instead.
    pub queue_events: usize,
    /// Number of consecutive events assigned to one builder at a time.
    pub batch_events: usize,
    /// Maximum number of failed attempts of an event: the builder could not build it, or died with no other event as a possible cause.
    /// Giving it back to make way for others, or falling silent, does not count.
    pub max_attempts: u16,
    /// Expected size of an event until the first one is built. `None`: a builder's memory divided by its slots.
    pub expected_event: Option<ByteCount>,
    /// Minimum numbers of nodes.
    pub requirements: Vec<Requirement>,
    /// Time for which the event manager waits for missing nodes.
    pub start_timeout: Nanos,
    /// After the last trigger: time to wait for the next event to end while no builder unit reports work in
    /// progress. The remaining events are then dropped.
    pub stop_timeout: Nanos,
    /// Time after which a run without any builder, or without any readout unit, ends.
    pub desertion_timeout: Nanos,
    /// Time after which a node without a sign of life is given up. The events of such a builder are assigned to others.
    pub patience: Patience,
    /// Heartbeat interval: in the worst case, every node receives a message of the event manager in every second interval.
    pub heartbeat: Nanos,
    /// Ended events are announced to the readout units in batches; a batch is closed after this time.
    pub batch_time: Nanos,
    /// Shaping of the readout units' traffic.
    pub shaping: Shaping,
    /// Times of the channels.
    pub channel: ChannelTimes,
    /// Recognition of shifts of event numbers, where check values are compared.
    pub shifts: Option<ShiftConfig>,
}
