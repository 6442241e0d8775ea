//! An HDF5 file of events: its columns, reading and writing it.
//!
//! `docs/reference/hdf5.md` has the layout: flat columns, ragged data as one long column with offsets. Which events go into which
//! file, and when, is in [`hdf5`](crate::hdf5).

mod column;
mod read_column;
mod reader;
mod records;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{About, Writer};

use sheaf_wire::{EventId, SourceId};
use std::io;
use std::path::PathBuf;

type Result5<T> = hdf5_metno::Result<T>;

/// The value of the attribute `format`.
pub const FORMAT: &str = "sheaf-hdf5";
/// The value of the attribute `version`.
pub const VERSION: u32 = 1;

/// Compression of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    #[default]
    None,
    /// With deflate (gzip), 1 to 9: every HDF5 library reads it.
    Deflate(u8),
    /// With Zstandard, 1 to 22: libhdf5 needs the plugin of filter 32015 to write and to read it.
    Zstd(u8),
}

impl Compression {
    /// The level of deflate that is taken where none is asked for.
    pub const DEFLATE_LEVEL: u8 = 1;
    /// The level of Zstandard that is taken where none is asked for.
    pub const ZSTD_LEVEL: u8 = 3;

    /// Returns whether libhdf5 has the required filter.
    pub(crate) fn is_available(self) -> bool {
        !matches!(self, Self::Zstd(_)) || hdf5_metno::filters::Filter::user(ZSTD_FILTER, &[]).is_available()
    }
}

/// The number under which the HDF Group has registered Zstandard.
pub(crate) const ZSTD_FILTER: i32 = 32015;

/// The file cannot be read, or an event in it.
#[derive(Debug, thiserror::Error)]
#[error("cannot read HDF5 file {path}: {error}")]
pub(crate) struct ReadError {
    pub(crate) path: PathBuf,
    pub(crate) error: ReadFault,
}

/// Error of libhdf5, or difference from the layout.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    #[error(transparent)]
    Hdf5(#[from] hdf5_metno::Error),
    /// The path cannot be opened, or is no regular file.
    #[error(transparent)]
    Open(#[from] io::Error),
    #[error("it is not a file of the format `{FORMAT}`")]
    Format,
    #[error(
        "it is `{FORMAT}` version {0}, this release reads version {VERSION}; read it with the release of sheaf that made it, or a later one"
    )]
    Version(u32),
    #[error("{column} ends at {len}, before {end}")]
    Short { column: String, len: u64, end: u64 },
    #[error("{column} has offsets that decrease or lie beyond the end")]
    Offsets { column: String },
    #[error("event {event}: {code} is not a reason for a missing source")]
    Reason { event: EventId, code: u8 },
    #[error(
        "event {event}, source {source_id}: the payload's checksum is {stored:08x}, its bytes have {computed:08x}"
    )]
    Checksum { event: EventId, source_id: SourceId, stored: u32, computed: u32 },
}
