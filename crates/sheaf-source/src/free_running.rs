//! Emulated free-running front ends: frames of hits with readings of a counter, without event numbers, whose truth is known.
//!
//! | module | holds |
//! |---|---|
//! | [`detector`] | [`Detector`]: flashes and hits at their true times, the truth |
//! | [`clock`] | [`EmulatedClock`]: true times to readings; clocks that are drawn |
//! | [`frame_writer`] | [`FrameWriter`]: hits to the bytes of a described frame, which [`HitRecords`](crate::timed::HitRecords) reads |
//! | `pulses` | the pulses that the sources read |
//! | [`source`] | [`FrameSource`]: a source whose fragments are frames |
//!
//! Time is divided into frames of one length. The hits of a source in a frame are a pure function of seed, source and number of the
//! frame, so that a source needs nothing of other sources and of earlier frames. [`SliceSource`](crate::timed::SliceSource) makes time
//! slices of the frames, as of the fragments of any source.

pub mod clock;
pub mod detector;
pub mod frame_writer;
mod pulses;
pub mod source;
#[cfg(test)]
mod tests;

pub use clock::{ClockLimits, EmulatedClock};
pub use detector::{Detector, DetectorConfig, Flash, FlashConfig};
pub use frame_writer::FrameWriter;
pub use source::{FramePace, FrameSource, FrameSourceConfig};

use crate::timed::hit_records::HitDescriptionError;
use sheaf_time::Picos;
use sheaf_wire::{ClockDrift, ExactNanos, SourceId};

/// Reason why front ends cannot be emulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FreeRunningError {
    /// A rate is not a number of hits or flashes per second.
    #[error("a rate of {rate_hz} Hz must be a number from 0")]
    Rate {
        /// The rate.
        rate_hz: f64,
    },
    /// A frame has no length, or is too long.
    #[error("a frame of {frame} must be from 1 us to {}", detector::LONGEST_FRAME)]
    Frame {
        /// Length of a frame.
        frame: Picos,
    },
    /// A frame has too many hits.
    #[error(
        "a frame of {frame} has about {hits} hits of a source; {} are possible: make frames shorter, or rates lower",
        detector::MOST_HITS
    )]
    FrameHits {
        /// Length of a frame.
        frame: Picos,
        /// Mean number of hits.
        hits: u64,
    },
    /// Hits come too long after their flash, or are too far out of order.
    #[error("{what} of {time} is longer than a frame, {frame}")]
    Longer {
        /// Name of the time.
        what: &'static str,
        /// The time.
        time: Picos,
        /// Length of a frame.
        frame: Picos,
    },
    /// More sources see a flash than there are.
    #[error("{seen} sources see a flash, but there are {sources}")]
    FlashSources {
        /// Sources that see a flash.
        seen: usize,
        /// All sources.
        sources: usize,
    },
    /// The source is not one of the detector.
    #[error("source {0} is not a source of the detector")]
    NoSource(SourceId),
    /// The layout of the frames.
    #[error(transparent)]
    Layout(#[from] HitDescriptionError),
    /// Two fields share bits.
    #[error("the fields {one} and {other} share bits, so that no frame can have both")]
    SharedBits {
        /// Name of a field.
        one: &'static str,
        /// Name of another one, or of the marks.
        other: &'static str,
    },
    /// A number does not fit into its field.
    #[error("{what} has {bits} bits in a frame, and needs {needed}")]
    Narrow {
        /// Name of the number.
        what: &'static str,
        /// Bits of the field.
        bits: u32,
        /// Bits that are needed.
        needed: u32,
    },
    /// The clock adds to a time in the header, and is narrower.
    #[error(
        "a counter of {bits} bits cannot be written as a sum with a `base` of {base_bits} bits; make them equal"
    )]
    Base {
        /// Bits of the counter.
        bits: u32,
        /// Bits of the field.
        base_bits: u32,
    },
    /// Tick, drift and offset have too many digits, or the offset is too large.
    #[error(
        "a clock with a tick of {tick}, a drift of {drift} and an offset of {offset} cannot be emulated; use numbers with fewer digits"
    )]
    Clock {
        /// Nominal tick.
        tick: ExactNanos,
        /// Drift.
        drift: ClockDrift,
        /// Offset.
        offset: ExactNanos,
    },
    /// Pulses cannot be emulated.
    #[error("the front ends cannot send pulses: {0}")]
    Pulses(&'static str),
    /// The counter rolls over too soon.
    #[error(
        "the counter of source {source_id}, of {bits} bits, starts again every {lap}, and half of that must be longer than {needed}, by which \
         its frames are out of order; make frames shorter or the counter wider"
    )]
    Lap {
        /// The source.
        source_id: SourceId,
        /// Bits of the counter.
        bits: u32,
        /// Time after which it starts again.
        lap: Picos,
        /// Time within which a reading must be followed by another one.
        needed: Picos,
    },
    /// The counter starts again before the first frames end.
    #[error(
        "the counter of source {source_id} was 0 {offset} after time 0 of the run, and starts again every {lap}: it has started again when \
         the first frames end, which nobody can notice; make the offset smaller or the counter wider"
    )]
    Offset {
        /// The source.
        source_id: SourceId,
        /// Offset of its clock.
        offset: ExactNanos,
        /// Time after which the counter starts again.
        lap: Picos,
    },
    /// The counter may start again unnoticed.
    #[error(
        "the counter of source {source_id} starts again every {lap}, and {noise_hz} hits per second are too few to notice each time; \
         describe time markers (`kind` and `marker_kinds` in [source.hits]), or make the counter wider"
    )]
    Unseen {
        /// The source.
        source_id: SourceId,
        /// Time after which the counter starts again.
        lap: Picos,
        /// Rate of its hits.
        noise_hz: f64,
    },
}
