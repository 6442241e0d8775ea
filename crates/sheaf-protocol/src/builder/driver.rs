//! Words between a builder unit and its driver.

use super::assembly::AssemblyKey;
use crate::output::StoragePlace;
use sheaf_wire::{DropReason, Event, EventId};

/// Decision of the driver on a built event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is stored, durably as configured.
    Stored,
    /// The same, by an output node at this place.
    StoredAt(StoragePlace),
    /// The filter does not want it.
    Rejected,
    /// It could not be stored or must not be: `content_mismatch` or `storage_failed`.
    Dropped(DropReason),
}

/// Event for the driver of a builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuilderEvent<P> {
    /// All nodes are connected.
    Started,
    /// An event is built. The driver reads it at once ([`BuilderUnit::lend`](super::BuilderUnit::lend)) or takes it ([`BuilderUnit::take`](super::BuilderUnit::take)), and
    /// answers with [`BuilderUnit::handle_decision`](super::BuilderUnit::handle_decision), events in any order.
    Built(Built),
    /// A part of an event is built, where the [`Scope`](super::Scope) has a first step. The driver gives it back with
    /// [`BuilderUnit::handle_part_decision`](super::BuilderUnit::handle_part_decision), in any order.
    Part(Event<P>),
    /// The run closes.
    Closed,
    /// The event manager has given this session up: what was built and not yet returned is built elsewhere. The driver
    /// ends this machine and starts a new one with a greater session.
    Fenced,
    /// The event manager has restarted and has lost the state of this run.
    ManagerRestarted,
}

/// A built event, which is with the builder unit until it is taken or decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built(pub(super) AssemblyKey);

impl Built {
    /// Which event it is.
    #[must_use]
    pub fn event(self) -> EventId {
        self.0.event
    }
}

/// Event queued for the driver. Built events and parts stay in their assemblies until the driver takes them.
#[derive(Debug)]
pub(super) enum News<P> {
    Built(AssemblyKey),
    Part(AssemblyKey),
    /// Rare, and large where it is not boxed.
    Other(Box<BuilderEvent<P>>),
}
