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
//! | `probability` | distributions of these tests |
//! | `summary` | a few numbers of a histogram, and a sketch with few bins |
//!
//! The crate performs no I/O and reads no clock. `sheaf-monitor` has the socket, the file and the page. Histograms are those of a run as a
//! whole: the crate does not know events, and nothing that carries data knows it.

#![forbid(unsafe_code)]

mod comparison;
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

/// Gives bytes to every parser of this crate: they must return for any.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(publication) = Publication::parse(bytes) {
        let mut store = HistogramStore::new(1, StoreLimits::default());
        let taken = store.take("fuzz", publication.clone(), 1);
        let again = store.take("fuzz", publication, 2);
        assert_eq!(taken.is_ok(), again.is_ok(), "a repeated publication is no other one");
        let record = store.record(3, false);
        let read = HistogramRecord::parse(&record.to_bytes());
        assert!(read.is_ok(), "a record that was written can be read");
    }
    if let Ok(record) = HistogramRecord::parse(bytes) {
        for one in record.histograms.iter().take(8) {
            let _ = HistogramSummary::of(one);
            let _ = Sketch::of(&one.histogram, 64, None);
            for other in record.histograms.iter().take(8) {
                let _ = compare(&one.histogram, &other.histogram);
            }
        }
    }
}

#[cfg(test)]
mod tests;
