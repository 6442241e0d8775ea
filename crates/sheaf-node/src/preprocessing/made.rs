//! The outcome of preprocessing a fragment.

use bytes::Bytes;
use sheaf_filter::FilterFailure;

/// The outcome for a fragment.
pub(super) enum Made {
    /// No result: the source is not among those that are processed.
    NotWanted,
    /// Nothing: it is to leave as it is.
    Kept,
    /// Nothing: there was no memory for the result.
    NoMemory,
    /// No result: the results of its event exceeded the size of a frame.
    TooLarge,
    /// Nothing, and why.
    Failed(FilterFailure),
    /// A new payload.
    New { payload: Bytes, checksum: Option<u32> },
}
