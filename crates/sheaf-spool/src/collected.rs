//! The parts of an answer as one window.

use crate::archive::WindowAnswer;
use sheaf_wire::HitInterval;
use sheaf_wire::SourceId;
use sheaf_wire::spool_link::GapReason;
use std::collections::BTreeMap;

/// An interval that a spool does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowGap {
    /// The source.
    pub source: SourceId,
    /// The interval.
    pub interval: HitInterval,
    /// Reason.
    pub reason: GapReason,
}

/// The hits of a window, and what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedWindow {
    /// The hits of each source, one after another in order of time. A source without hits in the window has none.
    pub hits: BTreeMap<SourceId, Vec<u8>>,
    /// Intervals that the spool does not have.
    pub gaps: Vec<WindowGap>,
}

impl CollectedWindow {
    /// Adds a part. The parts of a source come in order of time.
    pub fn add(&mut self, answer: WindowAnswer<'_>) {
        match answer {
            WindowAnswer::Hits(part, hits) => {
                self.hits.entry(part.source).or_default().extend_from_slice(hits);
            }
            WindowAnswer::Gap(part, reason) => {
                self.gaps.push(WindowGap { source: part.source, interval: part.interval, reason });
            }
        }
    }

    /// Number of hits.
    #[must_use]
    pub fn hit_count(&self) -> u64 {
        self.hits.values().map(|hits| (hits.len() / sheaf_wire::hit::HIT_BYTES) as u64).sum()
    }
}
