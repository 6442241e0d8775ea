//! What the nodes of a run hand over to the nodes of the next run, where one follows without a gap.
//!
//! Each run has new roles, sessions, files and books. Links, sources, the clock of the triggers and the link to a trigger supervisor go on.

use crate::outbox::Outbox;
use crate::parcels::Parcels;
use crate::readout::Input;
use crate::supervised::Supervised;
use crate::trigger::TriggerClock;
use crate::vigil::LINGER;
use sheaf_wire::{EventId, Timestamp};
use std::task::Waker;

/// See the [module](self).
pub enum Handover {
    /// Of the event manager.
    Manager(Box<ManagerHandover>),
    /// Of a readout unit.
    Readout(Box<ReadoutHandover>),
    /// Of a builder unit.
    Builder(BuilderHandover),
    /// Of an output node.
    Output(OutputHandover),
}

/// What an event manager hands over.
pub struct ManagerHandover {
    pub(crate) outbox: Outbox,
    pub(crate) triggers: Option<TriggerClock>,
    pub(crate) supervised: Option<Supervised>,
    /// First event of the next run.
    pub(crate) next_event: EventId,
    /// When its triggers begin.
    pub(crate) begins_at: Timestamp,
    /// Zero of the times of triggers that count from the start of the first run.
    pub(crate) zero: Timestamp,
}

impl ManagerHandover {
    /// Returns the first event of the next run.
    #[must_use]
    pub fn next_event(&self) -> EventId {
        self.next_event
    }
}

/// What a readout unit hands over.
pub struct ReadoutHandover {
    pub(crate) outbox: Outbox,
    pub(crate) parcels: Parcels,
    pub(crate) inputs: Vec<Input>,
    /// First event of the next run.
    pub(crate) next_event: EventId,
}

/// What a builder unit hands over.
pub struct BuilderHandover {
    pub(crate) outbox: Outbox,
}

/// What an output node hands over.
pub struct OutputHandover {
    pub(crate) outbox: Outbox,
}

impl Handover {
    /// Ends what goes on, because no run follows after all.
    pub fn abandon(self) {
        let mut outbox = match self {
            Self::Manager(handover) => handover.outbox,
            Self::Readout(mut handover) => {
                handover.inputs.iter_mut().for_each(Input::stop);
                handover.outbox
            }
            Self::Builder(handover) => handover.outbox,
            Self::Output(handover) => handover.outbox,
        };
        outbox.endpoint().close(LINGER);
    }

    /// Returns what wakes the thread of the node.
    pub fn waker(&mut self) -> Waker {
        let outbox = match self {
            Self::Manager(handover) => &mut handover.outbox,
            Self::Readout(handover) => &mut handover.outbox,
            Self::Builder(handover) => &mut handover.outbox,
            Self::Output(handover) => &mut handover.outbox,
        };
        outbox.endpoint().waker()
    }
}
