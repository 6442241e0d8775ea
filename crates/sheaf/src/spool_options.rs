//! Options of hit spools: those of `sheaf spool`, and those that take what readout units no longer keep.

use crate::recorded_slices::{KEY, RecordedSlices};
use sheaf_config::Config;
use sheaf_node::Clock;
use sheaf_spool::catalog::SOURCES_KEY;
use sheaf_spool::{SpoolOptions, WhenFull};
use sheaf_wire::{ByteCount, RunNumber, SourceId, UtcTime};
use std::path::Path;

/// Key of the UTC of time 0 in the metadata of a spool, ns since 1970.
pub(crate) const TIME_ZERO_KEY: &str = "time_zero_ns";

/// Returns the options of a spool of this size for hits of `sources`. If they `wait`, nothing is dropped.
pub(crate) fn spool_options(
    config: &Config,
    (directory, keep): (&Path, ByteCount),
    (sources, wait): (Vec<SourceId>, bool),
    time_zero: Option<UtcTime>,
) -> SpoolOptions {
    let run = RunNumber(config.run.number.0.max(1));
    let mut metadata = serde_json::json!({ "software": crate::SOFTWARE });
    metadata[SOURCES_KEY] = sources.iter().map(|source| source.0).collect::<Vec<_>>().into();
    metadata[KEY] = serde_json::json!(RecordedSlices::of(&config.source.timed));
    if let Some(zero) = time_zero {
        metadata[TIME_ZERO_KEY] = zero.nanos().into();
    }
    SpoolOptions {
        metadata: metadata.to_string(),
        sources,
        keep_free: config.output.keep_free,
        when_full: if wait { WhenFull::Wait } else { WhenFull::Drop },
        ..SpoolOptions::new(directory, run, Clock::new().now(), keep)
    }
}
