//! The sources of a replay, and reports of what its recording lacks.

use crate::console::{count, plural};
use anyhow::bail;
use sheaf_config::{Config, TriggerMode};
use sheaf_source::StreamSet;
use sheaf_source::stream_set::StreamInfo;
use sheaf_store::fragment_stream::Ending;
use sheaf_telemetry::log_as;
use sheaf_wire::SourceId;
use std::collections::BTreeSet;

/// Returns the sources of a replay: those that the configuration expects, or else those that have streams.
///
/// # Errors
/// If a stream is of a source that is not expected, or a source that is to announce events has no stream.
pub(crate) fn sources(streams: &StreamSet, config: &Config) -> anyhow::Result<Vec<SourceId>> {
    // The streams of other partitions may be beside those of this one.
    if let Some(own) = config.sources_of_partition() {
        return Ok(own.into_iter().collect());
    }
    let expected: BTreeSet<SourceId> = config.source.replay.expected.iter().copied().collect();
    if expected.is_empty() {
        return Ok(streams.streams().iter().map(|stream| stream.source).collect());
    }
    if let Some(stranger) = streams.streams().iter().find(|stream| !expected.contains(&stream.source)) {
        let (path, source) = (stranger.path.display(), stranger.source);
        bail!(
            "{path} is of source {source}, which is not in `source.replay.expected`; add the source there, or move the \
             stream elsewhere"
        );
    }
    let reference = config.trigger.source.filter(|_| config.trigger.mode == TriggerMode::Source);
    if let Some(absent) = reference.filter(|reference| !streams.has(*reference)) {
        let directory = streams.directory().display();
        bail!("source {absent} gives the triggers (`trigger.source`), and {directory} has no stream of it");
    }
    Ok(expected.into_iter().collect())
}

/// Warns of defects of a recording that concern some sources: damage, streams that are cut off, expected sources without a
/// stream.
pub(crate) fn report_defects(
    streams: &StreamSet,
    expected: &[SourceId],
    concerns: impl Fn(SourceId) -> bool,
) {
    for stream in streams.streams().iter().filter(|stream| concerns(stream.source)) {
        report_damage(stream);
        report_end(stream);
    }
    let directory = streams.directory().display();
    for source in expected.iter().filter(|source| !streams.has(**source) && concerns(**source)) {
        log_as!(
            STREAM_MISSING, source = source;
            "{directory} has no stream of source {source}, which `source.replay.expected` lists: every event lacks it"
        );
    }
}

fn report_damage(stream: &StreamInfo) {
    let path = stream.path.display();
    match stream.counts.corrupt_headers + stream.counts.corrupt_payloads {
        0 => {}
        1 => log_as!(
            STREAM_DAMAGED, source = stream.source;
            "{path}: 1 damaged record is skipped; `sheaf verify {path}` shows it"
        ),
        damaged => log_as!(
            STREAM_DAMAGED, source = stream.source;
            "{path}: {} damaged records are skipped; `sheaf verify {path}` lists them",
            count(damaged)
        ),
    }
}

fn report_end(stream: &StreamInfo) {
    if let Some(Ending::Unfinished { offset, .. }) = stream.ending {
        let (path, source, records) =
            (stream.path.display(), stream.source, plural(stream.counts.records, "fragment"));
        log_as!(
            STREAM_DAMAGED, source = source;
            "{path} is cut off at byte {offset}, after {records}: later events lack source {source}; copy the stream again if \
             the original is whole"
        );
    }
}
