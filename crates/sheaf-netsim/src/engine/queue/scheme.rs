//! Handling of a frame by a switch.

use crate::scenario::{Switching, WhenFull};
use crate::units::Picos;

/// The kinds of switching that this engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Each input has a buffer of `frames` frames, and the sender has as many credits.
    InputBuffers { frames: u32, credit_delay: Picos, cut_through: bool },
    /// Each output has a queue.
    OutputQueues {
        /// Capacity of one queue, in bytes.
        queue_bytes: u64,
        /// Maximum bytes that all queues of a switch hold together; `u64::MAX`: no bound.
        memory_bytes: u64,
        full: WhenFull,
    },
}

impl Scheme {
    /// The scheme for `switching`; `None` where another engine simulates it.
    pub(super) fn of(switching: &Switching) -> Option<Self> {
        Some(match *switching {
            Switching::CutThrough { buffer_messages, credit_delay } => {
                Self::InputBuffers { frames: buffer_messages, credit_delay, cut_through: true }
            }
            Switching::StoreAndForward { buffer_messages, credit_delay } => {
                Self::InputBuffers { frames: buffer_messages, credit_delay, cut_through: false }
            }
            Switching::OutputQueued { buffer_bytes, full } => {
                let queue_bytes = buffer_bytes.unwrap_or(u64::MAX);
                Self::OutputQueues { queue_bytes, memory_bytes: u64::MAX, full }
            }
            Switching::SharedMemory { buffer_bytes, output_bytes, full } => {
                Self::OutputQueues { queue_bytes: output_bytes, memory_bytes: buffer_bytes, full }
            }
            Switching::Wormhole { .. }
            | Switching::InputQueued { .. }
            | Switching::Unbuffered
            | Switching::SlottedBuffered { .. } => return None,
        })
    }

    /// Returns the number of frames that a sender may send before it receives credits.
    pub(super) fn room(self) -> u32 {
        match self {
            Self::InputBuffers { frames, .. } => frames,
            Self::OutputQueues { .. } => u32::MAX,
        }
    }

    #[inline]
    pub(super) fn has_input_buffers(self) -> bool {
        matches!(self, Self::InputBuffers { .. })
    }

    #[inline]
    pub(super) fn cuts_through(self) -> bool {
        matches!(self, Self::InputBuffers { cut_through: true, .. })
    }

    /// Returns whether full queues stop their senders.
    #[inline]
    pub(super) fn pauses(self) -> bool {
        matches!(self, Self::OutputQueues { full: WhenFull::Pause, .. })
    }
}
