//! `sheaf tap`: events of a run in progress, printed or saved.

use crate::arguments::TapArguments;
use crate::console::{count, plural};
use crate::one_file::OneFile;
use crate::tap_stream::TappedStream;
use crate::{Verdict, signals};
use anyhow::{Context, bail};
use serde::Serialize;
use sheaf_store::event_file::{EventFileWriter, Metadata, WriterOptions};
use sheaf_store::run::{Manifest, newest_of};
use sheaf_tap::client::Welcome;
use sheaf_tap::taps::{Next, TapOptions, Taps};
use sheaf_wire::event_file::{FileHeader, StoredEvent};
use sheaf_wire::{ByteCount, Nanos, NodeId, SourceNames, TimeUnit, Timestamp};
use std::io::{BufWriter, Stdout, Write, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Idle time after which the output so far is flushed from this process.
const QUIET: Duration = Duration::from_millis(100);

/// Resolves the run to join: the newest of a directory of runs; an address stays as it is.
fn target(asked: &str) -> String {
    let newest = newest_of(Path::new(asked)).ok();
    newest.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| asked.to_owned())
}

/// Joins a run and gives out events until it ends.
pub(crate) fn command(arguments: &TapArguments) -> anyhow::Result<Verdict> {
    let stop = signals::stop_flag()?;
    let target = target(&arguments.target);
    let stream = match &arguments.stream {
        // The selection of the stream is in the builder's description of its run.
        Some(name) => {
            let options = TapOptions { key: arguments.key.clone(), ..TapOptions::default() };
            let Some(asking) = join(&target, arguments.wait, &options, &stop)? else {
                return Ok(Verdict::Good);
            };
            Some(TappedStream::find(name, asking.welcome())?)
        }
        None => None,
    };
    let options = TapOptions {
        tags: stream.as_ref().map_or(&arguments.tags[..], TappedStream::tags).to_vec(),
        prescale: arguments.prescale,
        rate_hz: arguments.rate,
        name: format!("sheaf tap, process {}", std::process::id()),
        key: arguments.key.clone(),
    };
    let Some(mut taps) = join(&target, arguments.wait, &options, &stop)? else {
        return Ok(Verdict::Good);
    };
    let mut out = Out::new(arguments, taps.welcome())?;
    let mut events = 0;
    let is_last = |events: u64| arguments.events.is_some_and(|most| events >= most);
    while !stop.load(Ordering::Relaxed) && !is_last(events) {
        match taps.next(QUIET)? {
            Next::Event(_, stored) if stream.as_ref().is_some_and(|it| !it.takes(&stored)) => {}
            Next::Event(builder, stored) => {
                out.take(builder, &stored)?;
                events += 1;
            }
            Next::Nothing => out.flush()?,
            Next::Ended => break,
        }
    }
    out.finish()?;
    let counts = taps.counts();
    let others = if counts.seen > 0 {
        format!(
            "; of {} events accepted meanwhile, {} were missed",
            count(counts.seen),
            count(counts.missed())
        )
    } else {
        String::new()
    };
    log::info!("{}{others}", plural(events, "event"));
    Ok(Verdict::Good)
}

/// Joins the run; waits up to `--wait` for one that has not started. Returns `None` if a signal came first.
fn join(target: &str, wait: Nanos, options: &TapOptions, stop: &AtomicBool) -> anyhow::Result<Option<Taps>> {
    let began = Instant::now();
    let mut is_reported = false;
    let taps = Taps::open_when_ready(target, options, || {
        let is_over = stop.load(Ordering::Relaxed) || began.elapsed() >= wait.to_std() || has_ended(target);
        if !is_over && !std::mem::replace(&mut is_reported, true) {
            log::info!("waiting for {target} to accept consumers");
        }
        is_over
    });
    match taps {
        Ok(taps) => Ok(Some(taps)),
        Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a run has ended according to its manifest.
fn has_ended(target: &str) -> bool {
    Manifest::read(Path::new(target))
        .is_ok_and(|manifest| manifest.is_some_and(|manifest| manifest.ended.is_some()))
}

/// Destination of events.
enum Out {
    Lines { out: BufWriter<Stdout>, tags: Vec<String>, unit: TimeUnit, json: bool, names: SourceNames },
    File { writer: Box<EventFileWriter<OneFile>> },
}

impl Out {
    fn new(arguments: &TapArguments, welcome: &Welcome) -> anyhow::Result<Self> {
        let Some(path) = &arguments.save else {
            let out = BufWriter::with_capacity(1 << 16, stdout());
            let unit = welcome.header.time_base.map_or(TimeUnit::NANOSECOND, |base| base.unit);
            let names = Metadata::parse(&welcome.metadata).source_names;
            return Ok(Self::Lines { out, tags: welcome.tag_names(), unit, json: arguments.json, names });
        };
        if path.exists() {
            bail!("{} already exists, and recorded data are never overwritten", path.display());
        }
        let FileHeader { run, node, session, created, time_base, .. } = welcome.header;
        let options = WriterOptions {
            metadata: welcome.metadata.clone(),
            time_base,
            rotate_bytes: ByteCount(u64::MAX),
            rotate_events: u64::MAX,
            ..WriterOptions::new(run, node, session, created)
        };
        let writer = EventFileWriter::new(OneFile(path.clone()), options)?;
        Ok(Self::File { writer: Box::new(writer) })
    }

    fn take(&mut self, builder: NodeId, stored: &StoredEvent<bytes::Bytes>) -> anyhow::Result<()> {
        match self {
            Self::File { writer } => writer.write(&stored.event, &stored.verdict).map_err(Into::into),
            Self::Lines { out, tags, unit, json, names } => {
                let line = Line::new(builder, stored, tags, *unit);
                let written = if *json {
                    let text = serde_json::to_string(&line).context("cannot convert an event to JSON")?;
                    writeln!(out, "{text}")
                } else {
                    writeln!(out, "{}", names.annotate(&line.to_string()))
                };
                written.context("cannot write to standard output")
            }
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::File { writer } => writer.end_batch(Timestamp(0)).map_err(Into::into),
            Self::Lines { out, .. } => out.flush().context("cannot write to standard output"),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Self::File { writer } = self {
            writer.finish()?;
        }
        Ok(())
    }
}

/// An event as a line. Names carry their units.
#[derive(Debug, Serialize)]
struct Line {
    event: u64,
    /// In units of the run.
    time: u64,
    /// The same, if the unit is a nanosecond.
    time_ns: Option<u64>,
    /// Unit of its times.
    #[serde(skip)]
    unit: TimeUnit,
    trigger_type: u16,
    builder: String,
    incomplete: bool,
    tags: Vec<String>,
    bytes: u64,
    verdict_bytes: usize,
    fragments: Vec<FragmentLine>,
    missing: Vec<MissingLine>,
}

#[derive(Debug, Serialize)]
struct FragmentLine {
    source: u32,
    time: u64,
    time_ns: Option<u64>,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct MissingLine {
    source: u32,
    reason: &'static str,
}

impl Line {
    fn new(builder: NodeId, stored: &StoredEvent<bytes::Bytes>, names: &[String], unit: TimeUnit) -> Self {
        let nanos = |time: u64| (unit == TimeUnit::NANOSECOND).then_some(time);
        let StoredEvent { event, verdict, .. } = stored;
        let fragments = event.fragments.iter().map(|fragment| FragmentLine {
            source: fragment.source.0,
            time: fragment.time.0,
            time_ns: nanos(fragment.time.0),
            bytes: fragment.payload.len(),
        });
        let missing = event.missing.iter();
        Self {
            event: event.id.0,
            time: event.time.0,
            time_ns: nanos(event.time.0),
            unit,
            trigger_type: event.trigger_type.0,
            builder: builder.to_string(),
            incomplete: event.incomplete,
            tags: verdict.tags.names(names).map(|name| name.to_string()).collect(),
            bytes: event.payload_bytes(),
            verdict_bytes: verdict.payload.len(),
            fragments: fragments.collect(),
            missing: missing
                .map(|missing| MissingLine { source: missing.source.0, reason: missing.reason.name() })
                .collect(),
        }
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { event, time, builder, bytes, unit, .. } = self;
        let fragments = self.fragments.len();
        let unit = if *unit == TimeUnit::NANOSECOND { "ns".to_owned() } else { format!("x {unit}") };
        write!(f, "event {event} at {time} {unit} from {builder}: {fragments} fragments, {bytes} bytes")?;
        if !self.tags.is_empty() {
            write!(f, ", {}", self.tags.join(" "))?;
        }
        if self.incomplete {
            f.write_str(", incomplete")?;
        }
        for MissingLine { source, reason } in &self.missing {
            write!(f, ", source {source} missing: {reason}")?;
        }
        Ok(())
    }
}
