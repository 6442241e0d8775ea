//! `feed`: programs that feed a run, as those of the boards of an experiment do.
//!
//! `link` has one program and one readout unit that accepts and counts. `builder` has the whole event builder with one
//! program for each readout unit; the same builder with emulated sources, which write as many bytes, runs in turn with it.
//! `packets` has one described source and a front end on a thread; a bare loop that receives the same packets runs in turn with it.

use super::arguments::{FeedArguments, FeedPart, FeedTransport};
use super::builder::{Quiet, figure, run_once, sample};
use super::limits::Limit;
use super::processes::Companions;
use super::report::{Curve, Picture, Report, Sample, Scanned, column};
use super::scan::Scan;
use super::{bounds, feeders};
use crate::plan::Plan;
use crate::run_directory::Scratch;
use crate::summary::Summary;
use anyhow::{Context, bail};
use serde_json::{Map, json};
use sheaf_bench::feed::{CountError, Counter, FeedPath};
use sheaf_bench::job::BenchError;
use sheaf_bench::packets::{PacketError, PacketSender};
use sheaf_config::{Config, Content, OutputKind, SizeModel, SourceKind, TransportKind, TriggerMode};
use sheaf_wire::{ByteCount, Nanos, NodeId};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Fraction of the rate of the bare loop at which nothing should be lost.
const PACKET_LOAD: f64 = 0.9;

/// Default duration of a repetition, in seconds.
const SECONDS: f64 = 1.0;

pub(super) fn measure(arguments: &FeedArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let sizes: Vec<u64> = arguments.scan.sizes(64, 64 << 10, 4).into_iter().map(|size| size.max(1)).collect();
    let has = |part| arguments.part.contains(&part);
    // Impossible configurations are reported before anything is measured.
    for size in sizes.iter().filter(|_| has(FeedPart::Builder)) {
        Plan::new(configuration(arguments, *size, None)?)?;
    }
    let links: Vec<(FeedPath, u32)> =
        paths(arguments).flat_map(|path| arguments.batch.iter().map(move |batch| (path, *batch))).collect();
    let links = if has(FeedPart::Link) { links } else { Vec::new() };
    let builders = if has(FeedPart::Builder) { arguments.batch.as_slice() } else { &[] };
    let packet_curves = usize::from(has(FeedPart::Packets));
    let scanning =
        scan.over(links.len() + builders.len() + packet_curves, Scanned::Size, &sizes, arguments.scan.repeat);
    // The runs and programs of the measurement would log about themselves.
    let quiet = Quiet::new();
    let mut curves = Vec::new();
    for (path, batch) in links {
        let name = format!("one readout unit that counts, {}, {}", path.name(), in_words(batch));
        let points = scanning.curve(&name, |size| link(arguments, path, (size, batch), scan).map(Some))?;
        let limit = limit_of(path);
        let about =
            json!({ "part": "link", "transport": path.name(), "batch": batch, "limit": limit.name() });
        curves.push(Curve::new(name, about, points));
    }
    for batch in builders.iter().copied() {
        let (readouts, units) = (arguments.readouts, arguments.builders);
        let name = format!("event builder {readouts} x {units}, shm, {}", in_words(batch));
        let points = scanning.curve(&name, |size| builder(arguments, (size, batch), scan))?;
        let about = json!({ "part": "builder", "transport": "shm", "batch": batch });
        curves.push(Curve::new(name, about, points));
    }
    if has(FeedPart::Packets) {
        let name = "described packets over UDP";
        let points = scanning.curve(name, |size| packets(arguments, size, scan).map(Some))?;
        curves.push(Curve::new(name.to_owned(), json!({ "part": "packets", "transport": "udp" }), points));
    }
    drop(quiet);
    Ok(report(arguments, curves, scan))
}

fn paths(arguments: &FeedArguments) -> impl Iterator<Item = FeedPath> {
    arguments.transport.iter().map(|transport| match transport {
        FeedTransport::Shm => FeedPath::Shm,
        FeedTransport::Tcp => FeedPath::Tcp,
    })
}

fn in_words(batch: u32) -> String {
    if batch == 1 { "one fragment a call".to_owned() } else { format!("{batch} fragments a call") }
}

fn limit_of(path: FeedPath) -> Limit {
    match path {
        FeedPath::Shm => Limit::Copy,
        FeedPath::Tcp => Limit::Socket,
    }
}

fn seconds(arguments: &FeedArguments) -> f64 {
    arguments.scan.seconds.unwrap_or(SECONDS)
}

/// One program and a readout unit that counts, then the machine's limit.
#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn link(
    arguments: &FeedArguments,
    path: FeedPath,
    (size, batch): (u64, u32),
    scan: &Scan<'_>,
) -> anyhow::Result<Sample> {
    let scratch = Scratch::new(None)?;
    let mut programs = Companions::default();
    let counted = (|| {
        let mut counter = Counter::open(path, &scratch.path, size)?;
        feeders::start(arguments, (size, batch), counter.address(), 0, &mut programs)?;
        counter.start(scan.stop, || programs.failed().is_none())?;
        let (warm_up, span) = (arguments.warm_up, seconds(arguments));
        Ok(counter.count(Duration::from_secs_f64(warm_up), Duration::from_secs_f64(span), scan.stop)?)
    })();
    let counted = counted.map_err(|error: anyhow::Error| match error.downcast_ref() {
        Some(CountError::Interrupted) => BenchError::Interrupted.into(),
        _ => error,
    })?;
    if counted.fragments == 0 {
        bail!("no fragment came in this time; increase --seconds");
    }
    let limit = limit_of(path).measure(size, seconds(arguments))?;
    let bytes = counted.bytes as f64 / counted.seconds;
    Ok(vec![
        ("fragments_per_second", counted.fragments as f64 / counted.seconds),
        ("bytes_per_second", bytes),
        ("limit_bytes_per_second", limit),
        ("fraction_of_limit", bytes / limit),
        ("fragments", counted.fragments as f64),
    ])
}

/// A bare loop and a described source that receive as many packets as the kernel takes, and then 90 % of what the bare loop received.
#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn packets(arguments: &FeedArguments, size: u64, scan: &Scan<'_>) -> anyhow::Result<Sample> {
    let span = Duration::from_secs_f64(seconds(arguments));
    let bytes = usize::try_from(size).context("a packet of this size has no place in memory")?;
    let at = |rate| PacketSender { bytes, rate, span, stop: scan.stop };
    let measured = (|| {
        let (bare, described) = (at(None).into_bare_loop()?, at(None).into_described_source()?);
        let most = Some(PACKET_LOAD * bare.rate());
        Ok((bare, described, at(most).into_bare_loop()?, at(most).into_described_source()?))
    })();
    let (bare, described, bare_at_load, described_at_load) = measured.map_err(|error| match error {
        PacketError::Interrupted => BenchError::Interrupted.into(),
        error => anyhow::Error::from(error),
    })?;
    Ok(vec![
        ("fragments_per_second", described.rate()),
        ("bytes_per_second", described.rate() * size as f64),
        ("limit_bytes_per_second", bare.rate() * size as f64),
        ("fraction_of_limit", described.rate() / bare.rate()),
        ("fragments", described.received as f64),
        ("sent_at_load", described_at_load.sent as f64),
        ("lost_at_load", described_at_load.lost() as f64),
        ("limit_lost_at_load", bare_at_load.lost() as f64),
    ])
}

/// An event builder whose sources are fed, and the same with emulated sources. `None` where a signal ended one.
fn builder(
    arguments: &FeedArguments,
    (size, batch): (u64, u32),
    scan: &Scan<'_>,
) -> anyhow::Result<Option<Sample>> {
    let scratch = Scratch::new(None)?;
    let fed = configuration(arguments, size, Some(&scratch.path))?;
    let mut programs = Companions::default();
    for index in 0..arguments.readouts {
        let socket = fed.feed_socket(NodeId::readout(index));
        feeders::start(arguments, (size, batch), &socket, u32::from(index), &mut programs)?;
    }
    let before = children_seconds();
    let Some((summary, cpu)) = run_fed(fed, arguments.processes, &mut programs, scan)? else {
        return Ok(None);
    };
    drop(programs);
    // The nodes of `--processes` are children too, and already counted.
    let cpu =
        if arguments.processes { children_seconds() - before } else { cpu + children_seconds() - before };
    let mut fed = sample(&summary, cpu)?;
    let emulated = configuration(arguments, size, None)?;
    let Some((summary, cpu)) = run_once(emulated, arguments.processes, scan)? else { return Ok(None) };
    let emulated = sample(&summary, cpu)?;
    let rate = figure(&emulated, "fragments_per_second");
    let fraction = figure(&fed, "fragments_per_second") / rate;
    fed.extend([
        ("emulated_fragments_per_second", rate),
        ("fraction_of_emulated", fraction),
        ("emulated_cpu_ns_per_fragment", figure(&emulated, "cpu_ns_per_fragment")),
    ]);
    Ok(Some(fed))
}

/// Runs the builder as long as its programs do. `None` where a signal ended the run.
fn run_fed(
    config: Config,
    in_processes: bool,
    programs: &mut Companions,
    scan: &Scan<'_>,
) -> anyhow::Result<Option<(Summary, f64)>> {
    let (stop, over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let failed = programs.failed();
                if failed.is_some() || scan.stop.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                    return failed;
                }
                std::thread::sleep(LOOK);
            }
            None
        });
        let ended = run_once(config, in_processes, &Scan::new(scan.console, &stop));
        over.store(true, Ordering::Relaxed);
        match (ended, watch.join()) {
            // A run that has come to its end is good, whatever its programs think of that.
            (Ok(Some(ended)), _) => Ok(Some(ended)),
            (_, Ok(Some(status))) => bail!("a program that feeds the measurement has failed: {status}"),
            (ended, _) => ended,
        }
    })
}

/// Interval at which programs are looked after.
const LOOK: Duration = Duration::from_millis(10);

/// Unit of times in `/proc`, whatever the kernel's own tick.
const USER_HZ: f64 = 100.0;

/// The processor time of children of this process that have ended, in seconds. 0 where the system does not say.
#[expect(clippy::cast_precision_loss, reason = "hundredths of a second of a few years fit exactly")]
fn children_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in brackets and may have spaces; the times of children are fields 16 and 17 of the line.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / USER_HZ
}

/// The builder with sources that are fed at sockets in a directory, or emulated.
fn configuration(arguments: &FeedArguments, size: u64, fed: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = Config::default();
    let emulated = &mut config.source.emulated;
    (emulated.mean, emulated.rms, emulated.minimum) = (ByteCount(size), ByteCount::ZERO, ByteCount::ZERO);
    (emulated.size, emulated.content) = (SizeModel::Fixed, Content::Fill);
    emulated.checksum = arguments.checksum;
    config.builder.check_content = false;
    config.builder.read_payload = true;
    (config.readout.count, config.builder.count) = (arguments.readouts, arguments.builders);
    config.transport.kind = if arguments.processes { TransportKind::Shm } else { TransportKind::Memory };
    config.output.kind = OutputKind::None;
    let nanos = |seconds| Nanos::from(Duration::from_secs_f64(seconds));
    config.run.warm_up = nanos(arguments.warm_up);
    config.run.duration = Some(nanos(arguments.warm_up + seconds(arguments)));
    bounds::set(&mut config);
    if let Some(directory) = fed {
        (config.source.kind, config.trigger.mode) = (SourceKind::Feed, TriggerMode::Seen);
        config.source.feed.directory = Some(directory.to_owned());
        // Otherwise the memory is divided into a few large blocks.
        config.readout.max_fragment = Some(ByteCount(size));
    }
    config.validate().context("this builder cannot be measured")?;
    Ok(config)
}

fn report(arguments: &FeedArguments, curves: Vec<Curve>, scan: &Scan<'_>) -> Report {
    let mut settings = Map::new();
    let (readouts, builders) = (arguments.readouts, arguments.builders);
    let (repeat, seconds, keep) = (arguments.scan.repeat, seconds(arguments), !arguments.no_keep);
    settings.insert("readouts".into(), json!(readouts));
    settings.insert("builders".into(), json!(builders));
    settings.insert("processes".into(), json!(arguments.processes));
    settings.insert("checksum".into(), json!(arguments.checksum));
    settings.insert("keep".into(), json!(keep));
    settings.insert("in_place".into(), json!(arguments.in_place));
    settings.insert("client".into(), json!(arguments.client));
    settings.insert("seconds".into(), json!(seconds));
    settings.insert("warm_up_seconds".into(), json!(arguments.warm_up));
    settings.insert("repetitions".into(), json!(repeat));
    let program = match &arguments.client {
        Some(client) => format!("`{client}`"),
        None if arguments.in_place => "fragments are written in place".to_owned(),
        None if keep => "fragments are kept until they are accepted".to_owned(),
        None => "fragments are not kept".to_owned(),
    };
    Report {
        bench: "feed",
        title: "programs that feed a run".to_owned(),
        subtitle: format!("{program}; medians of {repeat} x {seconds} s"),
        settings,
        scanned: Scanned::Size,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: vec![
            column("fragments_per_second", "fragments/s", 1.0, 0),
            column("bytes_per_second", "MB/s", 1e6, 1),
            column("limit_bytes_per_second", "limit MB/s", 1e6, 1),
            column("fraction_of_limit", "of limit %", 0.01, 1),
            column("emulated_fragments_per_second", "emulated/s", 1.0, 0),
            column("fraction_of_emulated", "of it %", 0.01, 1),
            column("sent_at_load", "sent at 90 %", 1.0, 0),
            column("lost_at_load", "lost", 1.0, 0),
            column("limit_lost_at_load", "limit lost", 1.0, 0),
            column("cpu_ns_per_fragment", "cpu ns/frag", 1.0, 0),
            column("emulated_cpu_ns_per_fragment", "emulated ns", 1.0, 0),
        ],
        picture: Picture {
            figure: "bytes_per_second",
            label: "throughput",
            factor: 1.0,
            unit: "B/s",
            size: "fragment size",
            is_time: false,
        },
    }
}
