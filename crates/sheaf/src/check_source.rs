//! `sheaf source check`: shows what the sources of a configuration send, without a run.

mod address;
mod tally;

use crate::Verdict;
use crate::console::{count, count_f64, plural};
use crate::listening::{Arrived, Listened, Then, listen};
use crate::values::ValueError;
use crate::{print, signals};
use anyhow::bail;
use clap::Args;
use serde::Serialize;
use sheaf_config::Config;
use sheaf_wire::SourceId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tally::{Spread, Tally};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Configuration file whose sources are read, or an address HOST:PORT whose UDP packets are shown.
    target: String,
    /// Number of fragments (of packets, for an address) after which it ends.
    #[arg(long, value_name = "N")]
    fragments: Option<u64>,
    /// Time after the start of the sources after which it ends.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Reads a time from the command line.
pub(crate) fn seconds(text: &str) -> Result<Duration, ValueError> {
    let valid = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    valid.ok_or(ValueError::Negative("a number of seconds"))
}

/// Findings at one source.
#[derive(Debug, Serialize)]
struct SourceReport {
    source: String,
    fragments: u64,
    bytes: u64,
    fragments_per_second: f64,
    size_bytes: Option<Quantiles>,
    first_event: Option<u64>,
    last_event: Option<u64>,
    /// Places where event ids are missing, and the number of these.
    gaps: u64,
    missing_ids: u64,
    /// Event ids not above the greatest before, and of these, ids equal to the one before.
    out_of_order: u64,
    repeated: u64,
    /// Differences between consecutive times of the source; of arrivals, if it has no times.
    time_difference_ns: Option<Quantiles>,
    has_times: bool,
    /// Times below the one before.
    times_back: u64,
    first_payload: String,
    /// Counters of the source, but for zeros.
    counters: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Quantiles {
    min: u64,
    median: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    seconds: f64,
    sources: Vec<SourceReport>,
    program_failures: u64,
}

/// Runs `sheaf source check`.
pub(crate) fn command(arguments: &CheckArguments) -> anyhow::Result<Verdict> {
    let stop = signals::stop_flag()?;
    let mut left = arguments.fragments.unwrap_or(u64::MAX);
    let path = Path::new(&arguments.target);
    let report = if path.exists() {
        let config = Config::load(path)?;
        crate::console::name_sources(&config.names);
        let mut tallies: BTreeMap<SourceId, Tally> = BTreeMap::new();
        let mut take = |arrived: Arrived<'_>| {
            tallies.entry(arrived.source).or_default().take(Some(arrived.event), &arrived);
            left -= 1;
            Ok(if left == 0 { Then::Stop } else { Then::GoOn })
        };
        let measured = listen(config, None, (&stop, arguments.seconds), &mut take, &mut |_| {})?;
        of_sources(&tallies, &measured)
    } else if let Some(address) = address::resolve(&arguments.target) {
        address::listen(address, arguments.fragments, (&stop, arguments.seconds))?
    } else {
        bail!("{} is neither a configuration file nor an address HOST:PORT", arguments.target);
    };
    match arguments.json {
        true => print::print_json(&report)?,
        false => print::print(&report.text())?,
    }
    Ok(if report.is_good() { Verdict::Good } else { Verdict::NotGood })
}

fn of_sources(tallies: &BTreeMap<SourceId, Tally>, measured: &Listened) -> Report {
    let silent = Tally::default();
    let of_source = |(source, stats): &(SourceId, sheaf_source::SourceStats)| {
        let tally = tallies.get(source).unwrap_or(&silent);
        let stream = stats.stream.iter().flat_map(|books| books.fields());
        let timed = stats.timed.iter().flat_map(|books| books.fields());
        let polled = stats.polled.iter().flat_map(|books| books.fields());
        let own = [
            ("out_of_memory", stats.out_of_memory),
            ("damaged_headers", stats.corrupt_headers),
            ("damaged_payloads", stats.corrupt_payloads),
            ("read_errors", stats.read_errors),
        ];
        let named = |(name, value): (&str, u64)| (name.to_owned(), value);
        let counters = stream.chain(timed.map(|(name, value)| (name.to_string(), value)));
        let counters = counters.chain(polled.map(named)).chain(own.into_iter().map(named));
        let mut report = tally.report(source.to_string(), measured.time);
        report.counters = counters.filter(|(_, value)| *value > 0).collect();
        report
    };
    let sources = measured.stats.iter().map(of_source).collect();
    Report { seconds: measured.time.as_secs_f64(), sources, program_failures: measured.failures }
}

impl Report {
    /// Returns whether each source has sent something, in order and without gaps.
    fn is_good(&self) -> bool {
        let is_good = |it: &SourceReport| it.fragments > 0 && it.gaps == 0 && it.out_of_order == 0;
        self.sources.iter().all(is_good) && self.program_failures == 0
    }

    fn text(&self) -> String {
        let sources = plural(self.sources.len() as u64, "source");
        let mut text = format!("{sources}, read for {:.3} s\n", self.seconds);
        for source in &self.sources {
            source.write(&mut text);
        }
        if self.program_failures > 0 {
            let _ = writeln!(text, "\nprograms failed {} times; see the log", count(self.program_failures));
        }
        text
    }
}

impl SourceReport {
    fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        text.push('\n');
        let mut line = |name: &str, what: &str| {
            let _ = writeln!(text, "  {name:<14}{what}");
        };
        line(
            &self.source,
            &format!("{}, {}/s", plural(self.fragments, "fragment"), count_f64(self.fragments_per_second)),
        );
        let Some(size) = self.size_bytes else { return };
        let range = |it: Quantiles, unit: &str| {
            format!("{} to {} {unit}, median {}", count(it.min), count(it.max), count(it.median))
        };
        line("size", &range(size, "bytes"));
        if let (Some(first), Some(last)) = (self.first_event, self.last_event) {
            line("event ids", &format!("{} to {}", count(first), count(last)));
            line("gaps", &format!("{}, {} missing", count(self.gaps), plural(self.missing_ids, "id")));
            line(
                "disorder",
                &format!(
                    "{} not above an earlier id, {} of them repeated",
                    count(self.out_of_order),
                    count(self.repeated)
                ),
            );
        }
        if let Some(difference) = self.time_difference_ns {
            let own = if self.has_times { "of its own times" } else { "of arrivals: it has no times" };
            line("differences", &range(difference, &format!("ns {own}")));
        }
        if self.times_back > 0 {
            line("", &format!("{} times below the one before", count(self.times_back)));
        }
        line("first bytes", &self.first_payload);
        for (name, value) in &self.counters {
            line("", &format!("{name} {}", count(*value)));
        }
    }
}

impl Tally {
    #[expect(clippy::cast_precision_loss, reason = "rates are quoted to a few digits")]
    fn report(&self, source: String, time: Duration) -> SourceReport {
        let seconds = time.as_secs_f64();
        let quantiles = |spread: &Spread| {
            Some(Quantiles { min: spread.min()?, median: spread.median()?, max: spread.max()? })
        };
        let differences = if self.has_times { &self.own_differences } else { &self.arrivals };
        SourceReport {
            source,
            fragments: self.fragments,
            bytes: self.bytes,
            fragments_per_second: if seconds > 0.0 { self.fragments as f64 / seconds } else { 0.0 },
            size_bytes: quantiles(&self.sizes),
            first_event: self.first_event,
            last_event: self.greatest,
            gaps: self.gaps,
            missing_ids: self.missing,
            out_of_order: self.out_of_order,
            repeated: self.repeated,
            time_difference_ns: quantiles(differences),
            has_times: self.has_times,
            times_back: self.times_back,
            first_payload: self.first_payload.clone(),
            counters: BTreeMap::new(),
        }
    }
}
