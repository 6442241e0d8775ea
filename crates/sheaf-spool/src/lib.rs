//! Hit spools: the hits of free-running front ends in a ring of segment files, and windows of them.
//!
//! | module | holds |
//! |---|---|
//! | [`books`] | counters: every hit is in exactly one |
//! | [`gathering`] | slices of many sources to blocks of consecutive times |
//! | [`ring`] | decisions: when to begin, close and delete segments |
//! | [`disk`] | the place of segments, which tests replace by one that is full |
//! | [`writer`] | blocks to segments |
//! | [`segment`] | contents of a segment: from its index, or by reading all of it |
//! | [`catalog`] | contents of all segments |
//! | [`archive`] | answers to requests for windows |
//! | [`spool`] | a recording: gathering, and a thread with a writer |
//! | [`conversation`] | the side of the spool in the request protocol, without I/O |
//! | [`door`] | sockets at which requesters join, and a thread for each |
//! | [`client`] | the side of a requester |
//! | [`collected`] | the parts of an answer as one window |
//!
//! Byte layouts are in `sheaf_wire::spool_file` and `sheaf_wire::spool_link`. Reading never locks out writing: a requester
//! copies a part of the catalog, and reads files by itself. A segment that is deleted meanwhile is a gap with a reason.
//!
//! Deliberate limits: hits have the 16 bytes of `sheaf_wire::hit`; a spool has one writer; each recording has a timeline of
//! its own, since front ends may have been reset in between.

#![forbid(unsafe_code)]

pub mod archive;
pub mod books;
pub mod catalog;
pub mod client;
pub mod collected;
pub mod conversation;
pub mod disk;
pub mod door;
pub mod gathering;
pub mod ring;
pub mod segment;
pub mod spool;
pub mod writer;

pub use archive::Archive;
pub use books::SpoolBooks;
pub use client::{Address, Client, ClientError};
pub use collected::CollectedWindow;
pub use door::{Door, DoorOptions};
pub use spool::{Spool, SpoolError, SpoolOptions, WhenFull};
