//! Histograms that consumers publish while a run lasts.
//!
//! | module | holds |
//! |---|---|
//! | `histogram` | a histogram: axes, contents, checks, and sums of several |
//! | `values` | numbers as JSON, whole ones without a fraction |
//! | `publication` | a message of a publisher, and its receipt |
//! | `store` | the histograms of a run, by publisher, within limits |
//! | `record` | the record of a run: the file `histograms.json` |
//! | `comparison` | tests whether two histograms have the same shape |
//! | `fuzz` | the parsers as a function of any bytes, and seeds for fuzzing |
//! | `probability` | distributions of these tests |
//! | `summary` | a few numbers of a histogram, and a sketch with few bins |
//!
//! The crate performs no I/O and reads no clock. `sheaf-monitor` has the socket, the file and the page. Histograms are those of a run as a
//! whole: the crate does not know events, and nothing that carries data knows it.

#![forbid(unsafe_code)]

mod comparison;
#[doc(hidden)]
pub mod fuzz;
mod histogram;
mod probability;
mod publication;
mod record;
mod store;
mod summary;
mod values;

pub use comparison::{HistogramComparison, HistogramDifference, compare};
pub use histogram::{Axis, Histogram, HistogramError, HistogramKind, MAX_BINS, MAX_NAME, MAX_TITLE, is_name};
pub use publication::{Publication, Receipt, Refusal, RefusalReason};
pub use record::{HistogramRecord, PublisherRecord, RecordError, RecordedHistogram};
pub use store::{HistogramStore, StoreLimits};
pub use summary::{HistogramSummary, Sketch};

#[cfg(test)]
mod tests;
