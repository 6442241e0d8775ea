//! Reasons why a worker cannot have an event.

use sheaf_wire::ByteCount;

/// Reason why a worker cannot have an event. The event then counts as one that its filter could not judge.
#[derive(Debug, thiserror::Error)]
pub(super) enum GiveError {
    /// The worker was told to end, or its link has been closed.
    #[error("the worker is gone")]
    Gone,
    /// The worker has more events than it asked for.
    #[error("the worker's ring is full")]
    Full,
    /// The farm was set up without a door for processes.
    #[error("the farm has no memory to share")]
    NoMemory,
    /// The record of the event exceeds the ring.
    #[error("the event has more fragments than the ring to its processor has room for")]
    TooManyFragments,
    /// The event exceeds the largest frame of the link.
    #[error("the event takes {bytes} on its way to a processor; at most {limit} are sent")]
    TooLarge {
        /// Size of its frame.
        bytes: ByteCount,
        /// Largest frame of the link.
        limit: ByteCount,
    },
    /// The payload is on the heap.
    #[error("the payload lies in memory that no other process can read")]
    Unreadable,
    /// The operating system does not share memory with the process.
    #[error("cannot share memory: {0}")]
    Share(std::io::Error),
}
