//! Errors in LCIO files.

use std::io;

/// The problem, and in which record.
#[derive(Debug, thiserror::Error)]
#[error("record at byte {record_offset}: {problem}")]
pub struct SlcioError {
    /// Where in the file the record begins.
    pub record_offset: u64,
    /// The problem.
    #[source]
    pub problem: SlcioProblem,
}

/// The problem with a record.
#[derive(Debug, thiserror::Error)]
pub enum SlcioProblem {
    /// The operating system refused.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    /// The file or a length in it ends too early.
    #[error("truncated: {what} needs {need} bytes and has {have}")]
    Truncated {
        /// Object that was to be read.
        what: &'static str,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// A marker is not where it should be.
    #[error(
        "not an LCIO file, or damaged: {what} has {found:#010x} where the marker {expected:#010x} should be"
    )]
    BadMarker {
        /// Record or block.
        what: &'static str,
        /// The marker.
        expected: u32,
        /// Value that was found.
        found: u32,
    },
    /// A length contradicts another.
    #[error("damaged: {what} is {found}, expected {expected}")]
    BadLength {
        /// Which length.
        what: &'static str,
        /// Value that the rest of the record implies.
        expected: u64,
        /// Value that was found.
        found: u64,
    },
    /// More than this reader is willing to hold.
    #[error("{what} of {bytes} bytes: this reader takes at most {limit}")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More collections than an event has.
    #[error("damaged: an event of {count} collections, at most {limit} are sensible")]
    TooManyCollections {
        /// Number that the header announces.
        count: u32,
        /// The limit.
        limit: u32,
    },
    /// The compressed data are damaged.
    #[error("compressed data are damaged: {0}")]
    Zlib(#[source] io::Error),
    /// A name or string is not text.
    #[error("damaged: {what} is not UTF-8")]
    NotText {
        /// Which string.
        what: &'static str,
    },
    /// Written by another generation of LCIO.
    #[error("block {block} is of LCIO version {major}.{minor}: this reader knows version 2")]
    Version {
        /// The block.
        block: String,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// A block that the record must have is not there.
    #[error("has no block {block}")]
    MissingBlock {
        /// The block.
        block: String,
    },
    /// An event without the header that must come before it.
    #[error("an event without a header before it")]
    NoEventHeader,
}

/// Short for the result of reading a part of a record.
pub(crate) type Parsed<T> = Result<T, SlcioProblem>;

impl SlcioProblem {
    /// The problem with the place of the record that has it.
    pub(crate) fn at(self, record_offset: u64) -> SlcioError {
        SlcioError { record_offset, problem: self }
    }
}
