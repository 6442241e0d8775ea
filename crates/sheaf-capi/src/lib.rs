//! Sheaf for programs in C and what speaks its calls: `libsheaf` and its header `include/sheaf.h`.
//!
//! | module | holds |
//! |---|---|
//! | `version` | which Sheaf this is |
//!
//! The header also has what a filter library shares with Sheaf (`sheaf_filter::abi`); such a library does not need to
//! be linked with this one. The header is generated: `UPDATE_DOCS=1 cargo test -p sheaf-capi --test header`.
//!
//! Every function says who owns what it gives, and answers nonsense with an error, not with a crash, as far as that can be
//! found out: a null pointer can, one that leads nowhere cannot.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod version;
