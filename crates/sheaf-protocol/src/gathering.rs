//! Policy by which super-fragments reach the builders. It is one choice for a run, from which each role's own setting follows.

use crate::builder::Asking;
use crate::manager::Shaping;
use sheaf_wire::{ByteCount, Nanos};

/// Policy by which super-fragments reach the builders in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gathering {
    /// Builders request all assigned events from every readout unit at once.
    #[default]
    Pull,
    /// Builders request from readout units in turn, with at most this number of bytes in flight.
    Paced {
        /// Bytes in flight to one builder.
        credit: ByteCount,
    },
    /// The event manager informs readout units which builder unit builds each event, and they send without a
    /// request.
    Push,
    /// Readout units send in the time slots of a barrel shifter.
    Barrel {
        /// Bytes in flight to one builder while the barrel shifter is stopped.
        credit: ByteCount,
        /// Interval at which the event manager sends the time of the slots to readout units.
        tick: Nanos,
    },
}

impl Gathering {
    /// Returns the policy of builders.
    #[must_use]
    pub fn asking(self) -> Asking {
        match self {
            Self::Pull => Asking::AtOnce,
            Self::Paced { credit } => Asking::Paced(credit),
            Self::Push => Asking::Unasked,
            Self::Barrel { credit, .. } => Asking::Barrel(credit),
        }
    }

    /// Returns the policy of the event manager.
    #[must_use]
    pub fn shaping(self) -> Shaping {
        match self {
            Self::Pull | Self::Paced { .. } => Shaping::Pull,
            Self::Push => Shaping::Push,
            Self::Barrel { tick, .. } => Shaping::Barrel { tick },
        }
    }
}
