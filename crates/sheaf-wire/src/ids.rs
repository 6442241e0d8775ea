//! Numbers that name things: run, event, source, node, session.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a run, chosen by the operator; it is in every message and file, so that leftovers of another run
/// are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunNumber(pub u32);

/// The number of an event within a run. Sources may start anywhere, skip values and deliver out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u64);

/// The number of a source (front end): a module, board or optical link, in the detector's own numbering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceId(pub u32);

/// Type of the trigger that made an event: physics, calibration, random, ... in the experiment's own numbering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TriggerType(pub u16);

/// One incarnation of a node. A node that restarts has a new session, greater than its earlier ones, so that
/// messages and files of its past life are recognised. Never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// The number of a configuration of the two replicas of the event manager. A configuration that replaces another one has
/// a greater term. Zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

/// Role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Role {
    /// Event manager (EVM): owns the trigger stream, assigns events to builders.
    Manager = 1,
    /// Readout unit (RU): merges sources into super-fragments and holds them until released.
    Readout = 2,
    /// Builder unit (BU): gathers one super-fragment per readout unit into an event.
    Builder = 3,
    /// Output node: stores accepted events for builder units.
    Output = 4,
    /// Mirror: has whatever the readout unit with its index has, and takes over when that dies.
    Mirror = 5,
}

impl Role {
    /// The role with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Manager),
            2 => Some(Self::Readout),
            3 => Some(Self::Builder),
            4 => Some(Self::Output),
            5 => Some(Self::Mirror),
            _ => None,
        }
    }
}

/// A node of the system: its role and its index within that role, counted from zero in the configuration's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId {
    /// Role of the node.
    pub role: Role,
    /// Which of the nodes with that role it is.
    pub index: u16,
}

impl NodeId {
    /// The event manager. With a standby, it is the replica that is active at the start of the run, and messages of the active replica
    /// are from here, whichever it is.
    pub const MANAGER: Self = Self { role: Role::Manager, index: 0 };

    /// Replica `index` of the event manager: 0 is active at the start of the run, 1 is its standby.
    #[must_use]
    pub const fn manager(index: u16) -> Self {
        Self { role: Role::Manager, index }
    }

    /// Returns the other replica of the event manager.
    #[must_use]
    pub const fn other_replica(self) -> Self {
        Self::manager(if self.index == 0 { 1 } else { 0 })
    }

    /// Readout unit `index`.
    #[must_use]
    pub const fn readout(index: u16) -> Self {
        Self { role: Role::Readout, index }
    }

    /// Builder unit `index`.
    #[must_use]
    pub const fn builder(index: u16) -> Self {
        Self { role: Role::Builder, index }
    }

    /// Output node `index`.
    #[must_use]
    pub const fn output(index: u16) -> Self {
        Self { role: Role::Output, index }
    }

    /// Mirror of readout unit `index`.
    #[must_use]
    pub const fn mirror(index: u16) -> Self {
        Self { role: Role::Mirror, index }
    }

    /// The node as four bytes of a message: role in the top byte, index in the low two.
    #[must_use]
    pub const fn to_code(self) -> u32 {
        ((self.role as u32) << 24) | self.index as u32
    }

    /// The node with this code.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        if code & 0x00ff_0000 != 0 {
            return None;
        }
        match Role::from_code((code >> 24) as u8) {
            Some(role) => Some(Self { role, index: (code & 0xffff) as u16 }),
            None => None,
        }
    }
}

impl fmt::Display for NodeId {
    /// `evm`, `evm1`, `ru3`, `bu0`, `out1`, `mir3`: the default node names, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Manager if self.index == 0 => f.write_str("evm"),
            Role::Manager => write!(f, "evm{}", self.index),
            Role::Readout => write!(f, "ru{}", self.index),
            Role::Builder => write!(f, "bu{}", self.index),
            Role::Output => write!(f, "out{}", self.index),
            Role::Mirror => write!(f, "mir{}", self.index),
        }
    }
}

macro_rules! display_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}
display_number!(RunNumber, EventId, SourceId, TriggerType, SessionId, Term);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_codes_round_trip_and_refuse_strangers() {
        for node in [
            NodeId::MANAGER,
            NodeId::readout(0),
            NodeId::builder(65_535),
            NodeId::output(7),
            NodeId::mirror(1),
        ] {
            assert_eq!(NodeId::from_code(node.to_code()), Some(node));
        }
        assert_eq!(NodeId::from_code(0), None);
        assert_eq!(NodeId::from_code(0x0201_0000), None);
        assert_eq!(NodeId::from_code(0xff00_0001), None);
    }
}
