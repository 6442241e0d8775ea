//! Filters of built events: the trait, built-in filters, and filters from shared libraries. Preprocessors of fragments
//! use the same interface.
//!
//! | module | holds |
//! |---|---|
//! | [`filter`] | [`Filter`], and two that need no library: [`AcceptAll`], [`Prescale`] |
//! | [`abi`] | what Sheaf and a filter library share: structs and functions as C has them |
//! | [`library`] | [`LibraryFilter`]: a filter from a shared library |
//! | [`step`] | [`LibraryStep`]: a library's filter for the first steps of events |
//! | [`preprocess`] | [`Preprocessor`], and [`LibraryPreprocessor`]: what processes fragments before they leave a readout unit |
//! | [`loading`] | what these libraries have in common: how they are opened, and why that may fail |
//! | [`plugin`] | how such libraries are written in Rust: a type and [`export_filter!`](crate::export_filter), [`export_step_filter!`](crate::export_step_filter), [`export_preprocessor!`](crate::export_preprocessor) |
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
pub mod loading;
pub mod plugin;
pub mod preprocess;
pub mod step;
#[cfg(test)]
mod testing;
pub mod text;
pub mod view;

pub use filter::{AcceptAll, Filter, FilterFailure, Prescale};
pub use library::LibraryFilter;
pub use loading::{OpenError, Setup};
pub use plugin::{InProcess, Plugin, PluginSetup, PreprocessPlugin, StepPlugin};
pub use preprocess::{LibraryPreprocessor, Preprocessor, Processed, RawFragment};
pub use sheaf_wire::{Event, EventId, MissingReason, SourceId, Tags, Timestamp, TriggerType, Verdict};
pub use step::{LibraryStep, Step};
pub use view::{EventView, FragmentView};

/// The example of the page about preprocessors is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/preprocessor.md")]
pub struct PreprocessorPage;

/// The first example of the page about filters in Rust is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/filter-in-rust.md")]
pub struct Page;
