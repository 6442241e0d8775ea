//! `sheaf source truth`: the flashes of emulated front ends and their hits, at their true times.
//!
//! It is a command and no key of the configuration: the truth is a function of the configuration, so it needs no run, and is the same
//! for runs in threads and in processes, none of which has all sources.

use crate::Verdict;
use crate::plan::Plan;
use anyhow::{Context, bail};
use clap::Args;
use sheaf_config::Config;
use sheaf_wire::{Hit, Nanos, RunNumber, SourceId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct TruthArguments {
    /// Configuration file with emulated front ends (`[source.free_running]`).
    config: PathBuf,
    /// File for the table. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Emulated time, in place of `source.free_running.duration_s`.
    #[arg(long, value_name = "SECONDS", value_parser = crate::check_source::seconds)]
    seconds: Option<Duration>,
}

/// The first line of the table.
const COLUMNS: &str = "flash,flash_ps,source,channel,value,hit_ps";

/// Runs `sheaf source truth`.
pub(crate) fn command(arguments: &TruthArguments) -> anyhow::Result<Verdict> {
    let plan = Plan::new(emulated(&arguments.config, arguments.seconds)?)?;
    match &arguments.output {
        Some(path) => {
            let cannot = || format!("cannot write {}", path.display());
            let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
            write(&plan, &mut file)?;
            file.flush().with_context(cannot)?;
        }
        None => {
            let mut out = BufWriter::new(stdout().lock());
            write(&plan, &mut out)?;
            out.flush().context("cannot write to standard output")?;
        }
    }
    Ok(Verdict::Good)
}

/// Reads a configuration with emulated front ends, whose time has an end.
///
/// # Errors
/// If it has none, or no end.
pub(crate) fn emulated(path: &Path, seconds: Option<Duration>) -> anyhow::Result<Config> {
    let mut config = Config::load(path)?;
    crate::console::name_sources(&config.names);
    if !config.source.emulates_hits() {
        bail!(
            "{} has no emulated front ends whose truth is known: they have `kind = \"emulated\"` and `build_by = \"time\"`",
            path.display()
        );
    }
    if config.run.number == RunNumber(0) {
        config.run.number = RunNumber(1);
    }
    if let Some(seconds) = seconds {
        let nanos = u64::try_from(seconds.as_nanos()).unwrap_or(u64::MAX);
        config.source.free_running.duration = Some(Nanos(nanos));
    }
    if config.source.free_running.duration.is_none() {
        bail!("the emulated time has no end; add --seconds or set `source.free_running.duration_s`");
    }
    Ok(config)
}

fn write(plan: &Plan, out: &mut dyn Write) -> anyhow::Result<()> {
    let timed = plan.timed.as_ref().context("the run has no sources of hits")?;
    let emulated = timed.emulated().context("the run has no emulated front ends")?;
    let frames = emulated.frames().context("the emulated time has no end")?;
    let mut first_seen = BTreeMap::new();
    for source in timed.cards() {
        first_seen.insert(*source, timed.emulated_source(&plan.config, *source)?.first_seen().0);
    }
    let sees =
        |source: SourceId, hit: &Hit| first_seen.get(&source).is_some_and(|first| hit.time_ps >= *first);
    writeln!(out, "{COLUMNS}")?;
    let flashes = (0..frames).flat_map(|frame| emulated.detector().flashes(frame));
    for (number, flash) in flashes.enumerate() {
        for (source, hits) in emulated.detector().hits_of(&flash) {
            for hit in hits.iter().filter(|hit| sees(source, hit)) {
                let Hit { channel, value, time_ps, .. } = hit;
                writeln!(out, "{number},{},{source},{channel},{value},{time_ps}", flash.time.0)?;
            }
        }
    }
    Ok(())
}
