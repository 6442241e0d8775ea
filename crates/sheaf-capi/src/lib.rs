//! Sheaf for programs in C and what speaks its calls: `libsheaf` and its header `include/sheaf.h`.
//!
//! | module | holds |
//! |---|---|
//! | `reader` | the events of files and runs |
//! | `stream` | the fragments of a fragment stream |
//! | `processor` | programs that judge events of a run under way |
//! | `tap` | programs that look on at a run under way |
//! | `stored` | events with their verdicts |
//! | `version` | which Sheaf this is |
//!
//! The header also has what a filter library shares with Sheaf (`sheaf_filter::abi`); such a library does not need to
//! be linked with this one. The header is generated: `cargo xtask docs`.
//!
//! Every function documents the ownership of its results, and answers invalid arguments with an error instead of a
//! crash where they can be detected: a null pointer can, a dangling one cannot.

#![deny(unsafe_op_in_unsafe_fn)]

mod argument;
pub mod processor;
pub mod reader;
pub mod stored;
pub mod stream;
pub mod tap;
pub mod version;
