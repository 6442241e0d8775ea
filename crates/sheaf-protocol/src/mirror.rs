//! A mirror of a readout unit: a second machine that has whatever the unit has, and acts for it when the unit has died.
//!
//! The readout unit is deterministic. So its inputs are replicated, and not its state: the unit sends what it takes, round by round, to its mirror,
//! which does the same with a role of its own that has the identity of the unit. Fragments are among the inputs, so that each of them is sent to
//! the mirror once. **The unit sends nothing, and confirms no fragment to a source, before the mirror has the inputs that caused it.** So no other
//! node depends on anything that the mirror lacks, and a source that waits for the confirmation still has its fragments.
//!
//! # Which of the two acts
//! The event manager knows. The mirror asks it to [take over](MirrorStep::TakeOver) when it hears nothing of the unit any more, and the event
//! manager grants that if it does not hear the unit either. The unit asks it to [strike the mirror off](MirrorStep::StrikeOff) when the mirror is gone
//! or has confirmed nothing for too long, and acts alone only after the answer. The first of these two requests decides, and there is no
//! second one in a run. Even if both live, they do not both act: a unit whose mirror has taken over holds messages that nobody confirms.
//!
//! Nodes address messages for the unit to its mirror once a message of the unit has come from the mirror.
//!
//! A unit that sends a message after its mirror has taken over is [told so](MirrorStep::Superseded), by the mirror itself, by the event manager or by
//! a builder unit: it may not know who is the event manager by then.
//!
//! # Modules
//! | module | holds |
//! |---|---|
//! | `sender` | the part of a readout unit that has a mirror |
//! | `receiver` | the part of a mirror |

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{MirrorReceiver, UnitRound};
pub use sender::{MirrorFragments, MirrorSender};

use crate::channel::ChannelTimes;
use sheaf_wire::message::MirrorStep;
use sheaf_wire::{ByteCount, Nanos};

/// Number of signs of life within the silence after which a unit is suspected.
const HEARTBEATS: u64 = 5;

/// Longest interval of signs of life, and of repeated requests to the event manager.
const LONGEST_HEARTBEAT: Nanos = Nanos::from_millis(100);

/// Parameters of a readout unit and its mirror.
#[derive(Clone, Copy, Debug)]
pub struct MirrorConfig {
    /// Silence after which a readout unit whose link is up is suspected.
    pub suspicion: Nanos,
    /// Time for which messages of the unit wait for its mirror before the unit asks to go on without it.
    pub lag: Nanos,
    /// Time for which the unit waits for its mirror before the run.
    pub start: Nanos,
    /// Maximum payload of a message with inputs (a single fragment may be larger).
    pub message_bytes: ByteCount,
    /// Times of the channel between them.
    pub channel: ChannelTimes,
}

impl MirrorConfig {
    /// Returns the interval of signs of life and of repeated requests.
    fn heartbeat(&self) -> Nanos {
        Nanos(self.suspicion.0 / HEARTBEATS).min(LONGEST_HEARTBEAT)
    }
}

/// Event for the driver of a readout unit that has a mirror, or of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorEvent {
    /// The mirror follows its unit.
    Protected,
    /// The unit goes on without its mirror.
    Unprotected,
    /// The mirror acts for the unit from now on: it has all that the unit has sent or confirmed.
    TookOver,
    /// The mirror has taken over from this unit, which has no more part in the run.
    Superseded,
    /// The mirror has no more part in the run: the unit goes on without it, or has begun a new session.
    StruckOff,
    /// The mirror has other books than its unit. That would be a bug, and it leaves.
    Diverged,
}
