//! `sheaf extract`: windows of a hit spool as events.

use crate::check_source::seconds;
use crate::console::{count, plural};
use crate::one_file::OneFile;
use crate::run_time::{InvalidTime, RunTime, TimeArgument};
use crate::spool_options::TIME_ZERO_KEY;
use crate::values;
use crate::{Verdict, print};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_spool::client::{Address, Client};
use sheaf_spool::collected::WindowGap;
use sheaf_spool::door::{SOCKET_NAME, welcome};
use sheaf_spool::{Archive, CollectedWindow, segment};
use sheaf_store::event_file::{EventFileWriter, WriterOptions};
use sheaf_store::run::RunReader;
use sheaf_wire::HitInterval;
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::spool_link::{GapReason, SourceRanges, WindowRequest};
use sheaf_wire::stream_file::MAX_PAYLOAD_BYTES;
use sheaf_wire::window::windows;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, RunNumber,
    SessionId, SourceId, TimeBase, TimeUnit, Timestamp, TriggerType, UtcTime,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time within which a spool answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause before a window whose hits are awaited is asked for again.
const WAIT: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct ExtractArguments {
    /// Directory of the spool; `sheaf spool` may be recording into it.
    #[arg(value_name = "SPOOL", default_value = "spool")]
    directory: PathBuf,
    /// Address of a spool that is recording on another host (`sheaf spool --listen`), instead of a directory.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "directory")]
    connect: Option<String>,
    /// Begin of a window: seconds since the run's time 0, such as 12.5 or 300us, or UTC. Repeat it with `--to` for several
    /// windows. Without windows, what the spool holds is shown.
    #[arg(long, value_name = "TIME")]
    from: Vec<TimeArgument>,
    /// End of the window; a hit at this time is not in it.
    #[arg(long, value_name = "TIME")]
    to: Vec<TimeArgument>,
    /// Windows that a filter found: those in the events of an event file or a run directory, which `filter.kind = "coincidence"`
    /// stores. The run and the spool must have the same time 0.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["from", "to"])]
    windows: Option<PathBuf>,
    /// Time by which these windows begin earlier and end later, such as 1ms.
    #[arg(long, value_name = "TIME", requires = "windows", default_value = "0", value_parser = duration)]
    margin: RunTime,
    /// Sources, such as 1-4,0x2100 or !17, or @FILE with one id or range a line [default: all].
    #[arg(long, value_name = "SOURCES", value_parser = values::sources)]
    sources: Option<SourceRanges>,
    /// Recording, as shown without windows [default: the latest].
    #[arg(long, value_name = "SESSION", value_parser = parse_session)]
    session: Option<SessionId>,
    /// Event file to write; it must not exist.
    #[arg(long, value_name = "FILE", default_value = "windows.sheaf")]
    output: PathBuf,
    /// Time to wait for hits of a window that the spool does not have yet.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    wait: Duration,
    /// Key file of the run (`transport.key_file`), for a spool that has a key.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_session(text: &str) -> Result<SessionId, std::num::ParseIntError> {
    u64::from_str_radix(text, 16).map(SessionId)
}

/// Reads a duration such as 1ms.
fn duration(text: &str) -> Result<RunTime, InvalidTime> {
    match text.parse()? {
        TimeArgument::Run(time) => Ok(time),
        TimeArgument::Utc(_) => Err(InvalidTime),
    }
}

/// A spool that is asked.
enum Target {
    Files(Archive),
    Door(Client),
}

impl Target {
    fn open(arguments: &ExtractArguments) -> anyhow::Result<Self> {
        if let Some(address) = &arguments.connect {
            let key = arguments.key.as_deref().map(RunKey::load).transpose()?;
            let address = Address::Tcp(address.clone());
            return Ok(Self::Door(Client::connect(&address, key.as_ref(), PATIENCE)?));
        }
        let directory = &arguments.directory;
        if segment::is_recording(directory) {
            let address = Address::Unix(directory.join(SOCKET_NAME));
            return Ok(Self::Door(Client::connect(&address, None, PATIENCE)?));
        }
        let (archive, damages) = Archive::open(directory)?;
        for (path, damage) in damages {
            log::warn!(
                "{} was not closed: its whole blocks are read, and {} bytes at its end are no block",
                path.display(),
                count(damage.torn_bytes)
            );
        }
        if archive.latest().is_none() {
            bail!("{} has no segments of a hit spool", directory.display());
        }
        Ok(Self::Files(archive))
    }

    /// Returns the description of the spool.
    fn description(&self) -> anyhow::Result<Value> {
        let text = match self {
            Self::Files(archive) => welcome(archive),
            Self::Door(client) => client.welcome().to_owned(),
        };
        serde_json::from_str(&text).context("the description of the spool is invalid")
    }

    /// Returns a window as soon as no hits of it are awaited, or at `until`.
    fn window_when_held(
        &mut self,
        request: &WindowRequest,
        until: Instant,
    ) -> anyhow::Result<CollectedWindow> {
        loop {
            let window = self.window(request)?;
            let is_awaited = window.gaps.iter().any(|gap| gap.reason == GapReason::Awaited);
            if !is_awaited || Instant::now() >= until {
                return Ok(window);
            }
            std::thread::sleep(WAIT);
        }
    }

    fn window(&mut self, request: &WindowRequest) -> anyhow::Result<CollectedWindow> {
        match self {
            Self::Files(archive) => {
                let mut window = CollectedWindow::default();
                archive.answer(request, &mut |answer| {
                    window.add(answer);
                    Ok(())
                })?;
                Ok(window)
            }
            Self::Door(client) => Ok(client.window(request)?.0),
        }
    }
}

/// Runs `sheaf extract`.
pub(crate) fn command(arguments: &ExtractArguments) -> anyhow::Result<Verdict> {
    if arguments.from.len() != arguments.to.len() {
        bail!(
            "there are {} `--from` and {} `--to`; each window has both",
            arguments.from.len(),
            arguments.to.len()
        );
    }
    let mut target = Target::open(arguments)?;
    let description = target.description()?;
    if arguments.from.is_empty() && arguments.windows.is_none() {
        show(arguments, &description)?;
        return Ok(Verdict::Good);
    }
    let session = Session::find(&description, arguments.session)?;
    let windows = match &arguments.windows {
        Some(path) => stored_windows(path, arguments.margin)?,
        None => {
            let windows = arguments.from.iter().zip(&arguments.to);
            windows.map(|(from, to)| session.window(*from, *to)).collect::<anyhow::Result<Vec<_>>>()?
        }
    };
    let sources = arguments.sources.clone().unwrap_or_default();
    let mut out = Out::create(&arguments.output, &session)?;
    let mut reports = Vec::new();
    let until = Instant::now() + arguments.wait;
    for (event, window) in windows.into_iter().enumerate() {
        let request =
            WindowRequest { number: 0, window, session: Some(session.id), sources: sources.clone() };
        let collected = target.window_when_held(&request, until)?;
        let report = WindowReport::new(event as u64, window, &collected);
        out.write(&report, collected)?;
        reports.push(report);
    }
    out.finish()?;
    match arguments.json {
        true => print::print_json(&reports)?,
        false => {
            let mut text: String = reports.iter().map(WindowReport::text).collect();
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "{} in {}", plural(reports.len() as u64, "event"), arguments.output.display());
            print::print(&text)?;
        }
    }
    let is_whole = reports.iter().all(|report| report.not_held.is_empty());
    Ok(if is_whole { Verdict::Good } else { Verdict::NotGood })
}

/// Returns the windows in the payloads of stored events, with a margin on both sides.
fn stored_windows(path: &Path, margin: RunTime) -> anyhow::Result<Vec<HitInterval>> {
    let mut found = Vec::new();
    for stored in RunReader::open(path).with_context(|| format!("cannot read {}", path.display()))? {
        let stored = stored.with_context(|| format!("cannot read {}", path.display()))?;
        let windows = windows(&stored.verdict.payload)
            .with_context(|| format!("event {} of {}", stored.event.id, path.display()))?;
        found.extend(windows.map(|window| HitInterval {
            from_ps: window.begin_ps.saturating_sub(margin.0),
            until_ps: window.end_ps.saturating_add(margin.0),
        }));
    }
    if found.is_empty() {
        bail!("no event in {} has a window; `filter.kind = \"coincidence\"` stores them", path.display());
    }
    Ok(found)
}

/// Shows what a spool holds.
fn show(arguments: &ExtractArguments, description: &Value) -> anyhow::Result<()> {
    if arguments.json {
        return print::print_json(description);
    }
    let mut text = String::new();
    for session in description["sessions"].as_array().into_iter().flatten() {
        let number = |key: &str| session[key].as_u64().unwrap_or(0);
        let _ = writeln!(
            text,
            "recording {}: {} of {}, {} bytes in {}",
            session["session"].as_str().unwrap_or("?"),
            plural(number("hits"), "hit"),
            plural(number("sources"), "source"),
            count(number("bytes")),
            plural(number("segments"), "segment")
        );
        if session["from_ps"].is_u64() {
            let _ = writeln!(text, "  {} to {}", RunTime(number("from_ps")), RunTime(number("until_ps")));
        }
        if session["has_deleted"] == true {
            let _ = writeln!(text, "  earlier hits were deleted to make room");
        }
    }
    print::print(&text)
}

/// The recording that is asked.
struct Session {
    id: SessionId,
    run: RunNumber,
    metadata: Value,
}

impl Session {
    fn find(description: &Value, wanted: Option<SessionId>) -> anyhow::Result<Self> {
        let name = match wanted {
            Some(wanted) => format!("{:016x}", wanted.0),
            None => description["latest"].as_str().context("the spool has no recording yet")?.to_owned(),
        };
        let id = parse_session(&name).context("the spool has an invalid session")?;
        let mut sessions = description["sessions"].as_array().into_iter().flatten();
        let found = sessions.find(|session| session["session"] == *name);
        if found.is_none() && wanted.is_some() {
            bail!("the spool has no recording {name}; without `--from`, the command shows those that it has");
        }
        let found = found.cloned().unwrap_or_default();
        let run = found["run"].as_u64().and_then(|run| u32::try_from(run).ok()).unwrap_or(0);
        Ok(Self { id, run: RunNumber(run), metadata: found["metadata"].clone() })
    }

    fn window(&self, from: TimeArgument, to: TimeArgument) -> anyhow::Result<HitInterval> {
        let (from, to) = (self.time(from)?, self.time(to)?);
        if from > to {
            bail!("the window begins at {from}, after its end at {to}");
        }
        Ok(HitInterval { from_ps: from.0, until_ps: to.0 })
    }

    /// Returns the UTC of time 0, if it is known.
    fn time_zero(&self) -> Option<UtcTime> {
        self.metadata[TIME_ZERO_KEY].as_i64().map(UtcTime::from_nanos)
    }

    fn time(&self, time: TimeArgument) -> anyhow::Result<RunTime> {
        match time {
            TimeArgument::Run(time) => Ok(time),
            TimeArgument::Utc(time) => {
                let zero = self.time_zero().context(
                    "the spool does not know the UTC of the run's time 0: begin it with `sheaf spool --time-zero`, or give \
                     the window in seconds since time 0",
                )?;
                RunTime::of(time, zero)
                    .context("the window is before the run's time 0, or more than 213 days after it")
            }
        }
    }
}

/// Outcome of a window.
#[derive(Debug, Serialize)]
struct WindowReport {
    event: u64,
    from_ps: u64,
    until_ps: u64,
    hits: u64,
    /// Sources with hits.
    sources: usize,
    /// Sources that have none, although the spool has all of the window.
    silent: Vec<u32>,
    not_held: Vec<NotHeld>,
}

/// An interval of sources that the spool does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct NotHeld {
    from_ps: u64,
    until_ps: u64,
    reason: &'static str,
    sources: Vec<u32>,
}

impl WindowReport {
    fn new(event: u64, window: HitInterval, collected: &CollectedWindow) -> Self {
        let mut gaps: BTreeMap<(HitInterval, GapReason), Vec<u32>> = BTreeMap::new();
        for WindowGap { source, interval, reason } in &collected.gaps {
            gaps.entry((*interval, *reason)).or_default().push(source.0);
        }
        let lacking: BTreeSet<SourceId> = collected.gaps.iter().map(|gap| gap.source).collect();
        let not_held = gaps.into_iter().map(|((interval, reason), sources)| NotHeld {
            from_ps: interval.from_ps,
            until_ps: interval.until_ps,
            reason: reason.name(),
            sources,
        });
        let silent =
            collected.hits.iter().filter(|(source, hits)| hits.is_empty() && !lacking.contains(source));
        Self {
            event,
            from_ps: window.from_ps,
            until_ps: window.until_ps,
            hits: collected.hit_count(),
            sources: collected.hits.values().filter(|hits| !hits.is_empty()).count(),
            silent: silent.map(|(source, _)| source.0).collect(),
            not_held: not_held.collect(),
        }
    }

    fn text(&self) -> String {
        let (from, until) = (RunTime(self.from_ps), RunTime(self.until_ps));
        let (hits, sources) = (plural(self.hits, "hit"), plural(self.sources as u64, "source"));
        let mut text = format!("event {}: {from} to {until}: {hits} of {sources}\n", self.event);
        // Writing to a string cannot fail.
        if !self.silent.is_empty() {
            let _ = writeln!(text, "  no hits: {}", named(&self.silent));
        }
        for NotHeld { from_ps, until_ps, reason, sources } in &self.not_held {
            let reason = reason.replace('_', " ");
            let _ = writeln!(
                text,
                "  {reason}: {}, {} to {}",
                named(sources),
                RunTime(*from_ps),
                RunTime(*until_ps)
            );
        }
        text
    }
}

/// Sources as ranges.
fn named(sources: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for source in sources {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*source) => *last = *source,
            _ => ranges.push((*source, *source)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let noun = if sources.len() == 1 { "source" } else { "sources" };
    format!("{noun} {}", ranges.iter().map(range).collect::<Vec<_>>().join(","))
}

/// The event file.
struct Out(EventFileWriter<OneFile>);

impl Out {
    fn create(path: &Path, session: &Session) -> anyhow::Result<Self> {
        if path.exists() {
            bail!(
                "{} already exists, and recorded data are never overwritten; choose another `--output`",
                path.display()
            );
        }
        let metadata = serde_json::json!({
            "software": crate::SOFTWARE,
            "spool": session.metadata,
            "session": format!("{:016x}", session.id.0),
        });
        let picosecond =
            TimeUnit::from_fraction(1, 1_000).context("a picosecond is no unit: this is a bug in sheaf")?;
        let options = WriterOptions {
            time_base: Some(TimeBase { unit: picosecond, epoch: session.time_zero() }),
            metadata: metadata.to_string(),
            rotate_bytes: ByteCount(u64::MAX),
            rotate_events: u64::MAX,
            ..WriterOptions::new(session.run, NodeId::builder(0), session.id, Clock::new().now())
        };
        Ok(Self(EventFileWriter::new(OneFile(path.to_owned()), options)?))
    }

    /// Writes a window as an event: a fragment of each source that the spool has, the others missing, and the report as payload
    /// of the verdict.
    fn write(&mut self, report: &WindowReport, window: CollectedWindow) -> anyhow::Result<()> {
        // In units of the time base.
        let time = Timestamp(report.from_ps);
        let mut missing: BTreeMap<SourceId, MissingReason> = BTreeMap::new();
        for gap in window.gaps.iter().filter(|gap| !window.hits.contains_key(&gap.source)) {
            let reason = match gap.reason {
                GapReason::Ended => MissingReason::SourceEnded,
                _ => MissingReason::SourceSilent,
            };
            missing.insert(gap.source, reason);
        }
        let mut fragments = Vec::with_capacity(window.hits.len());
        for (source, hits) in window.hits {
            if hits.len() > MAX_PAYLOAD_BYTES as usize {
                let (number, most) =
                    (count((hits.len() / HIT_BYTES) as u64), count(u64::from(MAX_PAYLOAD_BYTES) / 16));
                bail!(
                    "source {source} has {number} hits in the window, and an event has at most {most}; divide the window"
                );
            }
            fragments.push(Fragment {
                event: EventId(report.event),
                source,
                time,
                checksum: None,
                processed: false,
                mark: NumberMark::NONE,
                payload: bytes::Bytes::from(hits),
            });
        }
        let event = Event {
            id: EventId(report.event),
            time,
            trigger_type: TriggerType(0),
            attempt: 1,
            incomplete: !report.not_held.is_empty(),
            fragments,
            missing: missing.into_iter().map(|(source, reason)| MissingSource { source, reason }).collect(),
        };
        let verdict = sheaf_wire::Verdict::accept().with_payload(serde_json::to_vec(report)?);
        self.0.write(&event, &verdict)?;
        // Windows may be large: none is kept in memory.
        self.0.flush()?;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.0.finish()?;
        Ok(())
    }
}
