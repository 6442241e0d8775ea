//! Files of Sheaf: fragment streams in, event files out, and the tools that read both.
//!
//! | module | holds |
//! |---|---|
//! | [`fragment_stream`] | writer and reader of a fragment stream: one file per source, for replay and import |
//! | [`event_file`] | writer and reader of event files: built events, one sequence of files per builder session |
//! | [`streams`] | selection of the files of an accepted event, and their writer |
//! | [`run`] | run directories: the manifest, sealing the files of a session that died, reading a run as a whole |
//! | [`verify`] | all checks of these files |
//! | [`inspect`] | describes the content of these files |
//! | [`dump`] | prints one line per fragment of these files |
//! | [`content_error`] | reasons why the contents of a path cannot be read |
//! | [`kind`] | determines the kind of a path |
//! | `hdf5` | runs as HDF5 files, for analysis (feature `hdf5`) |
//! | [`upload`] | the port to an uploader of closed files |
//! | `hexadecimal` | checksums in JSON |
//! | [`id_set`] | a compact set of event ids |
//! | `whole_file` | files that are replaced as a whole |
//!
//! Byte layouts are in `sheaf-wire`; this crate does the I/O. It has no clock and no thread of its own: a writer gets
//! the time from its caller. File content is never trusted: damage is a typed error or a count, costs only the affected
//! record, and no length is used before it was compared with the file's size.

#![forbid(unsafe_code)]

mod block_reader;
pub mod content_error;
pub mod dump;
pub mod event_file;
pub mod fragment_stream;
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "hdf5")]
pub mod hdf5;
#[cfg(feature = "hdf5")]
mod hdf5_file;
mod hexadecimal;
pub mod id_set;
pub mod inspect;
pub mod kind;
pub mod regular;
pub mod run;
pub mod streams;
pub mod upload;
pub mod verify;
mod whole_file;

#[cfg(test)]
mod testing;

pub use whole_file::{draft_of, write_whole};
