//! Decisions and events exchanged by a builder unit and its driver.

use super::BuilderUnit;
use super::assembly::AssemblyKey;
use crate::output::StoragePlace;
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{DropReason, Event, EventId, Payload};
use std::sync::Arc;

/// Decision of the driver on a built event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The event is stored with the configured durability.
    Stored,
    /// An output node has stored the event at this place.
    StoredAt(StoragePlace),
    /// The filter has rejected the event.
    Rejected,
    /// The event could not or must not be stored: `content_mismatch` or `storage_failed`.
    Dropped(DropReason),
}

/// Event for the driver of a builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuilderEvent<P> {
    /// All nodes are connected.
    Started,
    /// An event is built. The driver reads it at once ([`BuilderUnit::lend`](super::BuilderUnit::lend)) or takes it
    /// ([`BuilderUnit::take`](super::BuilderUnit::take)). It answers with
    /// [`BuilderUnit::handle_decision`](super::BuilderUnit::handle_decision), in any order of events.
    Built(Built),
    /// A part of an event is built, because the [`Scope`](super::Scope) has a first step. The driver gives it back with
    /// [`BuilderUnit::handle_part_decision`](super::BuilderUnit::handle_part_decision), in any order.
    Part(Event<P>),
    /// A run record for the output. Repeats have the same number.
    Record(Arc<RunRecord>),
    /// The event manager has closed the run. No run records follow.
    Closed,
    /// The event manager has given this session up: built events that were not returned are built elsewhere. The driver
    /// ends this machine and starts a new one with a greater session.
    Fenced,
    /// The event manager has restarted and has lost the state of this run.
    ManagerRestarted,
}

/// Handle of a built event, which stays in the builder unit until the driver takes or decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built(pub(super) AssemblyKey);

impl Built {
    /// Returns the event's id.
    #[must_use]
    pub fn event(self) -> EventId {
        self.0.event
    }
}

/// Event queued for the driver. Built events and parts stay in their assemblies until the driver takes them.
#[derive(Debug)]
pub(super) enum QueuedEvent<P> {
    Built(AssemblyKey),
    Part(AssemblyKey),
    /// Boxed because it is rare and much larger than a key.
    Other(Box<BuilderEvent<P>>),
}

impl<P: Payload> BuilderUnit<P> {
    /// Returns whether the run has closed and the event manager has this builder's books, or has given it up.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.fenced || (self.closed && self.channel.is_settled())
    }

    /// Returns whether the event manager has closed the run.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether the run has closed and another one follows in this node.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Returns whether the event manager has given this session up.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }
}
