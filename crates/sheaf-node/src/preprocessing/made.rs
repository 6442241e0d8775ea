//! The outcome of preprocessing a fragment.

use bytes::Bytes;

/// The outcome for a fragment.
pub(super) enum Made {
    /// Nothing: its source is none of those that are processed.
    NotWanted,
    /// Nothing: it is to leave as it is.
    Kept,
    /// Nothing: there was no memory for the result.
    NoMemory,
    /// Nothing: what was made of its event was more than a frame can carry.
    TooLarge,
    /// Nothing, and why.
    Failed(String),
    /// A new payload.
    New { payload: Bytes, checksum: Option<u32> },
}
