//! Files of Sheaf: fragment streams in, event files out, and the tools that read both.
//!
//! | module | holds |
//! |---|---|
//! | [`fragment_stream`] | writer and reader of a fragment stream: one file per source, for replay and import |
//! | [`event_file`] | writer and reader of event files: built events, one sequence of files per builder session |
//! | [`streams`] | which files an accepted event goes to, and their writer |
//! | [`run`] | run directories: the manifest, sealing the files of a session that died, reading a run as a whole |
//! | [`verify`] | checks everything that can be checked in any of these |
//! | [`inspect`] | says what is in any of these |
//! | [`dump`] | prints one line per fragment of any of these |
//! | [`kind`] | finds out which of these is at a path |
//! | `hdf5` | runs as HDF5 files, for analysis (feature `hdf5`) |
//! | [`upload`] | the port to an uploader of closed files |
//! | `hexadecimal` | checksums in JSON |
//! | [`id_set`] | a compact set of event ids |
//!
//! Byte layouts are in `sheaf-wire`; here is the I/O. The crate has no clock and no thread of its own: a writer is
//! told the time where it needs one. What a file holds is never trusted: damage is a typed error or a count, costs
//! the record that is hit and no other, and no length is believed before it was compared with the file's size.

#![forbid(unsafe_code)]

mod block_reader;
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

#[cfg(test)]
mod testing;
