//! `sheaf source frames`: the frames of emulated front ends as they send them, before hits are cut into slices.

use crate::console::{count, plural};
use crate::free_running::FreeRunning;
use crate::plan::Plan;
use crate::timed::TimedSources;
use crate::{Verdict, print, record, space, truth};
use anyhow::{Context, bail};
use clap::Args;
use sheaf_config::{FramePacing, HitTimes};
use sheaf_source::{Source, SourcePoll};
use sheaf_store::fragment_stream::{StreamHeader, StreamWriter, file_name};
use sheaf_wire::{SourceId, Timestamp};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct FramesArguments {
    /// Configuration file with emulated front ends (`[source.free_running]`).
    config: PathBuf,
    /// Directory for the streams, one for each source. It is made if it does not exist, and must have no streams.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Emulated time, in place of `source.free_running.duration_s`.
    #[arg(long, value_name = "SECONDS", value_parser = crate::check_source::seconds)]
    seconds: Option<Duration>,
}

/// Runs `sheaf source frames`.
pub(crate) fn command(arguments: &FramesArguments) -> anyhow::Result<Verdict> {
    let mut config = truth::emulated(&arguments.config, arguments.seconds)?;
    config.source.free_running.pacing = FramePacing::Full;
    record::prepare(&arguments.output)?;
    space::require(&arguments.output, config.output.keep_free.0)?;
    let plan = Plan::new(config)?;
    let timed = plan.timed.as_ref().context("the run has no sources of hits")?;
    let emulated = timed.emulated().context("the run has no emulated front ends")?;
    for source in timed.cards() {
        let header = StreamHeader {
            source: *source,
            run: plan.config.run.number,
            has_events: true,
            has_times: plan.config.source.timed.times == HitTimes::Fragment,
            time_base: None,
        };
        let path = arguments.output.join(file_name(*source));
        let metadata = metadata(&plan, (timed, emulated), *source);
        let mut stream = StreamWriter::create(&path, header, &metadata)?;
        let mut frames = timed.emulated_source(&plan.config, *source)?;
        frames.start();
        loop {
            match frames.poll(Timestamp::ZERO) {
                SourcePoll::Fragment(frame) => stream.append(&frame)?,
                SourcePoll::Ended => break,
                // The counter was not reset yet in the frames up to here.
                SourcePoll::NotBefore(_) => {}
                other => bail!("source {source} gives frames as fast as they are taken, but said {other:?}"),
            }
        }
        let written = stream.finish()?;
        let (frames, bytes) = (plural(written.records, "frame"), count(written.payload_bytes));
        print::print(&format!("source {source}: {frames}, {bytes} bytes\n"))?;
    }
    Ok(Verdict::Good)
}

/// Returns the metadata of a stream: the clock of its source, as a table of `[clocks]` has it.
fn metadata(plan: &Plan, (timed, emulated): (&TimedSources, &FreeRunning), source: SourceId) -> String {
    let feed = timed.feed(&plan.config, source);
    let clock = serde_json::json!({
        "tick": feed.tick.to_string(),
        "drift": feed.drift.to_string(),
        "offset": feed.offset.to_string(),
        "bits": feed.bits.unwrap_or(emulated.counter_bits()),
    });
    serde_json::json!({ "software": crate::SOFTWARE, "clock": clock }).to_string()
}
