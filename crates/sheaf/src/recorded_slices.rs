//! The division of time into slices, as streams of slices state it in their metadata.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, FilterKind, Timed};
use sheaf_source::StreamSet;
use sheaf_store::fragment_stream::StreamReader;
use sheaf_wire::Nanos;
use std::path::Path;

/// Key of the slices in the metadata of a stream.
pub(crate) const KEY: &str = "slices";

/// Slices of a stream. Slice `n` begins `n` times the length after time 0 of its hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedSlices {
    length_ns: u64,
    before_ns: u64,
    after_ns: u64,
}

impl RecordedSlices {
    /// The slices of a configuration.
    pub(crate) fn of(timed: &Timed) -> Self {
        Self { length_ns: timed.slice.0, before_ns: timed.before.0, after_ns: timed.after.0 }
    }

    /// Reads the slices of a stream, if its metadata state them.
    fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let reader = StreamReader::open(path)?;
        // Any other metadata are the user's.
        let Ok(serde_json::Value::Object(mut metadata)) = serde_json::from_str(reader.metadata()) else {
            return Ok(None);
        };
        let slices = metadata.remove(KEY).map(serde_json::from_value).transpose();
        slices.with_context(|| format!("`{KEY}` in the metadata of {} is invalid", path.display()))
    }
}

/// Checks that recorded slices can be cut again: with overlaps, they have some hits twice.
///
/// # Errors
/// If a stream states that its slices overlap.
pub(crate) fn require_without_overlap(streams: &StreamSet) -> anyhow::Result<()> {
    for stream in streams.streams() {
        let Some(RecordedSlices { before_ns, after_ns, .. }) = RecordedSlices::read(&stream.path)? else {
            continue;
        };
        if before_ns > 0 || after_ns > 0 {
            bail!(
                "{} has time slices that overlap by {before_ns} ns before and {after_ns} ns after, so that some hits are there twice; \
                 record slices without overlap, or replay them as they are (`source.build_by = \"number\"`)",
                stream.path.display()
            );
        }
    }
    Ok(())
}

/// Sets the slices of a replay with the filter `coincidence` to those that its streams state, if they do.
///
/// # Errors
/// If the streams have different slices, or the configuration sets others.
pub(crate) fn take(streams: &StreamSet, config: &mut Config) -> anyhow::Result<()> {
    if config.filter.kind != FilterKind::Coincidence {
        return Ok(());
    }
    let mut first: Option<(&Path, RecordedSlices)> = None;
    for stream in streams.streams() {
        let Some(slices) = RecordedSlices::read(&stream.path)? else { continue };
        match first {
            None => first = Some((&stream.path, slices)),
            Some((path, other)) if other != slices => {
                let (path, stream) = (path.display(), stream.path.display());
                bail!(
                    "{path} and {stream} have different time slices; `sheaf inspect --json` shows their metadata"
                );
            }
            Some(_) => {}
        }
    }
    let Some((path, slices)) = first else { return Ok(()) };
    let timed = &mut config.source.timed;
    let configured = RecordedSlices::of(timed);
    if configured != slices && configured != RecordedSlices::of(&Timed::default()) {
        let RecordedSlices { length_ns, before_ns, after_ns } = slices;
        bail!(
            "{} has time slices of {length_ns} ns, with {before_ns} ns before and {after_ns} ns after, and `[source.timed]` sets \
             others; remove `slice_us`, `before_us` and `after_us`",
            path.display()
        );
    }
    (timed.slice, timed.before, timed.after) =
        (Nanos(slices.length_ns), Nanos(slices.before_ns), Nanos(slices.after_ns));
    Ok(())
}
