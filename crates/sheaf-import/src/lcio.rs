//! LCIO files (`.slcio`), as far as raw data need them.
//!
//! LCIO is the event data model of linear-collider studies; its files are SIO streams. Everything is big-endian and
//! padded to four bytes. There is no file header: a file is a sequence of records.
//!
//! | part | bytes |
//! |---|---|
//! | record | header length u32, marker `abadcafe`, options u32 (bit 0: zlib), stored bytes u32, unpacked bytes u32, name length u32, name; at the header's end the data, padded where they are compressed |
//! | block, in a record's data | length u32 (all of it), marker `deadbeef`, version u32 (LCIO major, minor), name length u32, name, body |
//! | string | length u32, bytes, padding |
//! | event header (record `LCEventHeader`, block `EventHeader`) | run i32, event i32, time i64, detector string, n u32, n times (collection name, type name), parameters |
//! | event (record `LCEvent`) | a block per collection, named after it |
//! | parameters | three maps, to lists of i32, f32 and strings: n u32, n times (name, m u32, m values) |
//! | collection of `LCGenericObject` | flags u32 (bit 31: all objects have the same size), parameters, [the three counts], n u32, n times ([counts of i32, f32 and f64, u32 each], the values, pointer tag u32) |
//!
//! [`sio`] reads records and blocks; [`event`] reads their contents. Lengths are checked against the bytes available:
//! memory is bounded by the file and by [`sio::MAX_RECORD_BYTES`], even for damaged files.

pub mod cursor;
pub mod error;
pub mod event;
pub mod sio;

pub use error::{SlcioError, SlcioProblem};
pub use event::{EventReader, GenericObject, GenericObjects, LcioEvent};

#[cfg(test)]
mod tests;
