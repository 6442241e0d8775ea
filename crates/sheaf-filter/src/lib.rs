//! Filters of built events: the trait, built-in filters, and filters from shared libraries. Preprocessors of fragments
//! use the same interface.
//!
//! | module | holds |
//! |---|---|
//! | [`filter`] | [`Filter`], and two that need no library: [`AcceptAll`], [`Prescale`] |
//! | [`abi`] | the C interface between Sheaf and a filter library: structs and functions |
//! | [`library`] | [`LibraryFilter`]: a filter from a shared library |
//! | [`step`] | [`LibraryStep`]: a library's filter for the first steps of events |
//! | [`preprocess`] | [`Preprocessor`], and [`LibraryPreprocessor`]: processing of fragments before they leave a
//! readout unit |
//! | [`decoder`] | [`LibraryDecoder`]: finding of hits in fragments |
//! | [`source`] | [`LibrarySource`]: sources that are polled for fragments |
//! | [`loading`] | opening of these libraries, and its errors |
//! | [`plugin`] | such libraries in Rust: a type and [`export_filter!`](crate::export_filter),
//! [`export_step_filter!`](crate::export_step_filter), [`export_preprocessor!`](crate::export_preprocessor),
//! [`export_decoder!`](crate::export_decoder),
//! [`export_source!`](crate::export_source), [`export_trigger!`](crate::export_trigger) |
//! | [`trigger`] | [`LibraryTrigger`]: triggers that are polled |
//! | `device` | loading and polling of both |
//! | [`text`] | texts passed to and from C |
//! | [`view`] | an event as filters see it: fragments in place, nothing copied |
//!
//! The crate does not know which code asks for a verdict or what follows from it: builder units and processors call a
//! filter, the command selects it. It starts no process and no thread. A library is code of the process that loads it:
//! one that crashes takes the process with it, unless it runs in worker processes.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod abi;
pub mod decoder;
mod device;
pub mod filter;
pub mod library;
pub mod loading;
pub mod plugin;
pub mod preprocess;
pub mod source;
pub mod step;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trigger;
pub mod view;

pub use decoder::{DecodedHits, HitRoom, LibraryDecoder};
pub use filter::{AcceptAll, Filter, FilterFailure, Prescale};
pub use library::LibraryFilter;
pub use loading::{OpenError, Setup};
pub use plugin::{
    DecoderPlugin, InProcess, Plugin, PluginSetup, PollRoom, PreprocessPlugin, SourcePlugin,
    SourcePluginSetup, StepPlugin, TriggerInfo, TriggerPlugin, TriggerPluginSetup, TriggerRoom,
};
pub use preprocess::{LibraryPreprocessor, Preprocessor, Processed, RawFragment};
pub use sheaf_wire::{
    ByteCount, Event, EventId, HitInterval, MissingReason, Nanos, RunNumber, SourceId, Tags, Timestamp,
    TriggerType, Verdict,
};
pub use source::{LibrarySource, PollEnd, PollError, PollSetup, PolledFragment};
pub use step::{LibraryStep, Step};
pub use trigger::{LibraryTrigger, PolledTrigger, TriggerSetup};
pub use view::{EventView, FragmentView};

/// The example of the page about preprocessors is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/preprocessor.md")]
pub struct PreprocessorPage;

/// The example of the page about decoders is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/decoder.md")]
pub struct DecoderPage;

/// The first example of the page about filters in Rust is compiled as the page has it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/filter-in-rust.md")]
pub struct Page;
