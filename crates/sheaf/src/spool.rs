//! `sheaf spool`: keeps the hits of free-running front ends in a ring of files, and gives out windows of them.

use crate::address::resolve;
use crate::check_source::seconds;
use crate::console::{count, plural};
use crate::listening::{self, Arrived, Listened, Then, listen_to};
use crate::plan::Plan;
use crate::run_time::RunTime;
use crate::spool_options::spool_options;
use crate::summary::HitLedger;
use crate::values;
use crate::{Verdict, print, signals};
use anyhow::bail;
use clap::Args;
use serde::Serialize;
use sheaf_config::{Config, FramePacing, SourceKind};
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_spool::door::{DoorCounts, SOCKET_NAME};
use sheaf_spool::spool::SpoolRecovery;
use sheaf_spool::{Door, DoorOptions, Spool, SpoolBooks, SpoolOptions};
use sheaf_wire::HitInterval;
use sheaf_wire::{ByteCount, Nanos, Timestamp, UtcTime};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time between two progress lines.
const PROGRESS: Duration = Duration::from_secs(10);

/// Smallest size of a spool: eight segments of four blocks.
const LEAST_KEEP: ByteCount = ByteCount::mib(8);

#[derive(Debug, Args)]
pub(crate) struct SpoolArguments {
    /// Configuration file of the sources whose hits are kept.
    config: PathBuf,
    /// Directory of the files. It is made if it does not exist; what an earlier recording left there counts towards the size.
    #[arg(long, value_name = "DIR", default_value = "spool")]
    directory: PathBuf,
    /// Size of all files; the oldest are deleted to keep it.
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = values::bytes)]
    keep: ByteCount,
    /// Size of a file [default: 256MiB, or an eighth of the spool].
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    segment: Option<ByteCount>,
    /// Address for requests over the network. Requesters need the key of the run (`transport.key_file`), if it has one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Number of requesters at a time.
    #[arg(long, value_name = "N", default_value_t = 16)]
    requesters: u16,
    /// UTC of the run's time 0, so that windows can be asked for in UTC.
    #[arg(long, value_name = "UTC")]
    time_zero: Option<UtcTime>,
    /// Time after the start of the sources after which it ends.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Serve requests after the sources have ended, until Ctrl-C.
    #[arg(long)]
    serve: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Summary of a recording.
#[derive(Debug, Serialize)]
struct SpoolSummary {
    seconds: f64,
    sources: u64,
    hits: HitLedger,
    spool: BTreeMap<&'static str, u64>,
    requests: BTreeMap<&'static str, u64>,
    segments_held: u64,
    bytes_held: u64,
    from_ps: Option<u64>,
    until_ps: Option<u64>,
    balanced: bool,
    #[serde(skip)]
    books: SpoolBooks,
}

/// Runs `sheaf spool`.
pub(crate) fn command(arguments: &SpoolArguments) -> anyhow::Result<Verdict> {
    let mut config = Config::load(&arguments.config)?;
    crate::console::name_sources(&config.names);
    if !config.source.is_timed() {
        bail!(
            "the sources in {} are built by event number, and a hit spool keeps hits with times: write `build_by = \"time\"` in [source] if \
             their fragments hold hits; `sheaf record` writes the fragments of any source",
            arguments.config.display()
        );
    }
    // A window has no borders of slices: overlaps would only be left out again.
    (config.source.timed.before, config.source.timed.after) = (Nanos::ZERO, Nanos::ZERO);
    let plan = listening::plan(config)?;
    let config = &plan.config;
    let allowed_fraction = config.source.timed.max_lost_fraction;
    let (options, slice) = (options(arguments, &plan)?, config.source.timed.slice);
    let stop = signals::stop_flag()?;
    let (spool, recovery) = Spool::open(options)?;
    report(&recovery);
    let door = Door::open(door_options(arguments, config)?, spool.archive().clone())?;
    if let Some(address) = door.address() {
        log::info!("requests are answered at {address}");
    }
    let archive = spool.archive().clone();
    let recording = RefCell::new(Recording { spool, slice, shown: Instant::now() });
    let mut take = |arrived: Arrived<'_>| recording.borrow_mut().take(&arrived);
    let mut tend = |now| recording.borrow_mut().tend(now);
    let listened =
        listen_to(&plan, Some(&arguments.directory), (&stop, arguments.seconds), &mut take, &mut tend);
    // What was received before an error is kept, too.
    let mut spool = recording.into_inner().spool;
    let books = spool.finish(Clock::new().now());
    let listened = listened?;
    if arguments.serve {
        log::info!("the sources have ended; requests are answered until Ctrl-C");
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let requests = door.close();
    drop(spool);
    let held = archive.latest().and_then(|session| archive.held(session));
    let intervals = held.iter().flat_map(|held| held.sources.values()).map(|part| part.interval);
    let whole = intervals.reduce(|one, other| one.hull(other));
    let summary = SpoolSummary::new(&listened, books, requests, whole).with_size(&archive);
    match arguments.json {
        true => print::print_json(&summary)?,
        false => print::print(&summary.text(&arguments.directory.display().to_string()))?,
    }
    let losses = summary.hits.losses(allowed_fraction);
    for loss in &losses {
        log::warn!(
            "{} {} lost, {}: {}; {}",
            count(loss.count),
            loss.what,
            loss.reason,
            loss.cause,
            loss.remedy
        );
    }
    let is_good = losses.is_empty() && books.lost() == 0 && summary.balanced;
    Ok(if is_good { Verdict::Good } else { Verdict::NotGood })
}

fn options(arguments: &SpoolArguments, plan: &Plan) -> anyhow::Result<SpoolOptions> {
    let config = &plan.config;
    if arguments.keep < LEAST_KEEP {
        bail!(
            "`--keep` is {} bytes; a hit spool has at least {}",
            count(arguments.keep.0),
            count(LEAST_KEEP.0)
        );
    }
    let source = &config.source;
    let waits = match source.kind {
        SourceKind::Emulated => source.free_running.pacing == FramePacing::Full,
        kind => matches!(kind, SourceKind::Capture | SourceKind::Replay),
    };
    let sources = plan.nodes.iter().flat_map(|node| node.sources.iter().copied()).collect();
    // Hits whose fragments have times count from an epoch that is known. Counters have none.
    let known = plan.time_base.and_then(|base| base.epoch);
    let place = (&*arguments.directory, arguments.keep);
    let mut options = spool_options(config, place, (sources, waits), arguments.time_zero.or(known));
    if let Some(segment) = arguments.segment {
        let most = ByteCount(arguments.keep.0 / 2);
        if segment > most {
            bail!(
                "`--segment` is {} bytes; it is at most half of `--keep`, {}",
                count(segment.0),
                count(most.0)
            );
        }
        options.segment = segment;
    }
    Ok(options)
}

fn door_options(arguments: &SpoolArguments, config: &Config) -> anyhow::Result<DoorOptions> {
    let listen = arguments.listen.as_deref().map(resolve).transpose()?;
    let key = config.transport.key_file.as_deref().map(RunKey::load).transpose()?;
    if let Some(address) = listen.filter(|address| key.is_none() && !address.ip().is_loopback()) {
        log::warn!(
            "anyone who can reach {address} receives hits of this run; set `transport.key_file` unless the network is private"
        );
    }
    Ok(DoorOptions {
        socket: Some(arguments.directory.join(SOCKET_NAME)),
        listen,
        key,
        connections: arguments.requesters.into(),
        ..DoorOptions::default()
    })
}

fn report(recovery: &SpoolRecovery) {
    for (path, damage) in &recovery.repaired {
        log::warn!(
            "{} was not closed: its whole blocks are kept, and {} bytes of an unfinished block at its end are dropped",
            path.display(),
            count(damage.torn_bytes)
        );
        if damage.damaged_blocks + damage.skipped_bytes > 0 {
            log::warn!(
                "{} has {} and {} bytes that are in no block",
                path.display(),
                plural(damage.damaged_blocks, "damaged block"),
                count(damage.skipped_bytes)
            );
        }
    }
}

struct Recording {
    spool: Spool,
    slice: Nanos,
    shown: Instant,
}

impl Recording {
    fn take(&mut self, arrived: &Arrived<'_>) -> anyhow::Result<Then> {
        let length = self.slice.0.saturating_mul(1_000);
        let from_ps = arrived.event.0.saturating_mul(length);
        let slice = HitInterval { from_ps, until_ps: from_ps.saturating_add(length) };
        self.spool.take(arrived.source, slice, arrived.payload, arrived.now)?;
        Ok(Then::GoOn)
    }

    fn tend(&mut self, now: Timestamp) {
        self.spool.tend(now);
        if self.shown.elapsed() >= PROGRESS {
            self.shown = Instant::now();
            let books = self.spool.books();
            let lost = match books.lost() {
                0 => String::new(),
                lost => format!(", {} lost", count(lost)),
            };
            log::info!(
                "{} spooled{lost}, {} bytes written",
                plural(books.spooled, "hit"),
                count(books.bytes)
            );
        }
    }
}

impl SpoolSummary {
    fn new(listened: &Listened, books: SpoolBooks, requests: DoorCounts, whole: Option<HitInterval>) -> Self {
        let mut hits = HitLedger::default();
        let timed = listened.stats.iter().filter_map(|(_, stats)| stats.timed.as_ref());
        timed.for_each(|books| hits.join(&HitLedger::of(books)));
        // A slice that the source has given when reading ended was not taken.
        let balanced = books.is_balanced() && books.waiting == 0 && hits.problem().is_none();
        Self {
            seconds: listened.time.as_secs_f64(),
            sources: listened.stats.len() as u64,
            hits,
            spool: books.fields().collect(),
            requests: requests.fields().into_iter().collect(),
            segments_held: 0,
            bytes_held: 0,
            from_ps: whole.map(|whole| whole.from_ps),
            until_ps: whole.map(|whole| whole.until_ps),
            balanced,
            books,
        }
    }

    fn with_size(mut self, archive: &sheaf_spool::Archive) -> Self {
        for held in archive.sessions() {
            self.segments_held += held.segments;
            self.bytes_held += held.bytes;
        }
        self
    }

    fn text(&self, directory: &str) -> String {
        let (hits, books) = (&self.hits, &self.books);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: u64, remark: &str| {
            let shown = format!("{name:<20}{:>16}  {remark}", count(value));
            let _ = writeln!(text, "{}", shown.trim_end());
        };
        let packets = plural(hits.packets, "packet");
        line("hits", hits.received, &format!("in {packets} of {}", plural(self.sources, "source")));
        line("  spooled", books.spooled, "");
        for (name, value, remark) in [
            ("late", hits.late, "they came after their slice was complete"),
            ("left out", hits.left_out, "their slice was full"),
            ("untimed", hits.untimed, "they came before the first time marker or pulse"),
            (
                "off timeline",
                hits.off_timeline,
                "their time is before time 0 of the run, or too far behind it",
            ),
            ("unfinished", hits.unfinished, "their slice was not complete at the end"),
            ("queue full", books.queue_full, "the disk was slower than the sources"),
            ("disk full", books.disk_full, "the disk was full, and there was no other segment to delete"),
            ("write failed", books.write_failed, "a segment could not be written; the log says why"),
            ("repeated", books.repeated + books.in_overlap, "in several slices"),
        ] {
            if value > 0 {
                line(&format!("  {name}"), value, remark);
            }
        }
        if hits.packets_lost > 0 {
            line("packets lost", hits.packets_lost, "they did not arrive, by the gaps in their numbers");
        }
        if hits.packets_dropped > 0 {
            line("packets dropped", hits.packets_dropped, "too many waited to be read");
        }
        let remark = format!("in {} of {directory}", plural(self.segments_held, "segment"));
        line("bytes held", self.bytes_held, &remark);
        if books.segments_deleted > 0 {
            line("segments deleted", books.segments_deleted, "to make room");
        }
        for (name, value) in self.requests.iter().filter(|(_, value)| **value > 0) {
            line(&name.replace('_', " "), *value, "");
        }
        let balance =
            if self.balanced { "balanced: each hit is in exactly one line" } else { "NOT BALANCED" };
        let _ = writeln!(text, "{balance}");
        if let (Some(from), Some(until)) = (self.from_ps, self.until_ps) {
            let _ = writeln!(text, "holds {} to {} of this recording", RunTime(from), RunTime(until));
        }
        text
    }
}
