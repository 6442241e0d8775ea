//! What judges built events: the trait, filters that Sheaf brings along, and filters from shared libraries.
//!
//! | module | holds |
//! |---|---|
//! | [`filter`] | [`Filter`], and two that need no library: [`AcceptAll`], [`Prescale`] |
//! | [`abi`] | what Sheaf and a filter library share: structs and functions as C has them |
//! | [`library`] | [`LibraryFilter`]: a filter from a shared library |
//! | [`plugin`] | how such a library is written in Rust: a type and [`export_filter!`](crate::export_filter) |
//! | [`text`] | texts that cross the border to C |
//! | [`view`] | an event as filters see it: fragments where they are, nothing copied |
//!
//! The crate does not know who asks for a verdict or what becomes of it: builder units and processors call a filter, the
//! command decides which. It starts no process and no thread. A library is code of the process that loads it: one that
//! crashes takes the process with it, and is kept from doing so by running it in worker processes.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod abi;
pub mod filter;
pub mod library;
pub mod plugin;
#[cfg(test)]
mod testing;
pub mod text;
pub mod view;

pub use filter::{AcceptAll, Filter, FilterFailure, Prescale};
pub use library::{LibraryFilter, OpenError, Setup};
pub use plugin::{InProcess, Plugin, PluginSetup};
pub use sheaf_wire::{Event, EventId, MissingReason, SourceId, Tags, Timestamp, TriggerType, Verdict};
pub use view::{EventView, FragmentView};

/// The first example of the page about filters in Rust is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/filter-in-rust.md")]
pub struct Page;
