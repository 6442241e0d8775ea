//! Inputs of a readout unit, as it sends them to its mirror, and which of the two acts.

use super::Message;
use crate::{Fragment, Nanos, NodeId, SessionId, Timestamp};

/// An input of a readout unit. The inputs of a round are between its [`UnitInput::Round`] and its [`UnitInput::End`].
///
/// A readout unit is deterministic: the same inputs in the same order make the same state, messages and books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitInput<P> {
    /// A round begins.
    Round {
        /// Time of the round, on the clock of the unit.
        now: Timestamp,
        /// Time for which the unit was held up before the round.
        stall: Nanos,
    },
    /// A message of a node. It has no payload.
    Message(Box<Message<P>>),
    /// The link to a node is up, or down.
    Link {
        /// The node.
        node: NodeId,
        /// Whether the link is up.
        up: bool,
    },
    /// Fragments that were read from a source. They follow those that were read before.
    Fragments {
        /// Place of the source among those of the unit.
        source: u16,
        /// The fragments.
        fragments: Vec<Fragment<P>>,
    },
    /// The unit takes the fragments that were read from a source, as far as it has room.
    Offer {
        /// Place of the source among those of the unit.
        source: u16,
    },
    /// A source has ended.
    SourceEnd {
        /// Place of the source among those of the unit.
        source: u16,
    },
    /// The builder units that are answered at the end of the round, in order.
    Answers(Vec<u16>),
    /// The round ends.
    End {
        /// Digest of the books of the unit at this time, if they are to be compared.
        digest: Option<u32>,
    },
}

impl<P> UnitInput<P> {
    /// Returns the number of fragments.
    #[must_use]
    pub fn fragments(&self) -> usize {
        match self {
            Self::Fragments { fragments, .. } => fragments.len(),
            _ => 0,
        }
    }
}

/// A step that decides whether a readout unit or its mirror acts. The event manager knows, and each of the two asks it before it acts
/// without the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorStep {
    /// A readout unit asks to go on without its mirror.
    StrikeOff,
    /// Answer to a readout unit: it acts alone.
    Alone,
    /// A mirror asks to take over from this session of its readout unit.
    TakeOver(SessionId),
    /// Answer to a mirror: it acts for this session of its readout unit.
    Granted(SessionId),
    /// Answer to a readout unit: its mirror acts.
    Superseded,
    /// Answer to a mirror: its readout unit acts without it, or another session of it.
    StruckOff,
}
