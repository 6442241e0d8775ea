//! Policy by which super-fragments reach the builders: one choice for a run, of which each role has a part.

use crate::builder::Asking;
use crate::manager::Shaping;
use sheaf_wire::{ByteCount, Nanos};

/// Shaping of super-fragments to the builders in a whole run; it determines each role's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gathering {
    /// Builders ask every readout unit at once for all that they are given.
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
    /// Readout units send in the slots of a barrel shifter.
    Barrel {
        /// Bytes in flight to one builder while the barrel stands.
        credit: ByteCount,
        /// Interval at which the event manager sends the time of the slots to readout units.
        tick: Nanos,
    },
}

impl Gathering {
    /// The builders' part.
    #[must_use]
    pub fn asking(self) -> Asking {
        match self {
            Self::Pull => Asking::AtOnce,
            Self::Paced { credit } => Asking::Paced(credit),
            Self::Push => Asking::Unasked,
            Self::Barrel { credit, .. } => Asking::Barrel(credit),
        }
    }

    /// The event manager's part.
    #[must_use]
    pub fn shaping(self) -> Shaping {
        match self {
            Self::Pull | Self::Paced { .. } => Shaping::Pull,
            Self::Push => Shaping::Push,
            Self::Barrel { tick, .. } => Shaping::Barrel { tick },
        }
    }
}
