//! `builder`: the whole event builder, as `sheaf run` runs it, with as many triggers as it can take and no output.

use super::arguments::BuilderArguments;
use super::limits::Limit;
use super::links::SleepyTrips;
use super::report::{Curve, Picture, Report, Sample, Scanned, column};
use super::scan::Scan;
use super::{bounds, configured};
use crate::page::View;
use crate::plan::Plan;
use crate::processes::{self, NextInProcesses, Places};
use crate::run::{Onset, in_process};
use crate::run_directory::{RunDirectory, Scratch};
use crate::summary::{Summary, cpu_seconds};
use anyhow::{Context, bail};
use log::LevelFilter;
use serde_json::{Map, json};
use sheaf_bench::payload::Use;
use sheaf_bench::transport::Transport;
use sheaf_config::{Config, Content, OutputKind, SizeModel, TransportKind, TriggerMode};
use sheaf_key::RunKey;
use sheaf_node::Clock;
use sheaf_wire::{ByteCount, Nanos};
use std::sync::Arc;

/// Default duration of a run, in seconds.
const SECONDS: f64 = 2.0;

/// A system to measure.
#[derive(Clone, Copy, Debug)]
struct System {
    readouts: u16,
    builders: u16,
    /// Standard deviation of the sizes as a fraction of their mean.
    rms: f64,
}

impl System {
    fn name(self) -> String {
        let Self { readouts, builders, rms } = self;
        let sizes = if rms > 0.0 { format!("log-normal, rms {rms} x mean") } else { "fixed size".to_owned() };
        format!("{readouts} x {builders}, {sizes}")
    }

    fn nodes(self) -> usize {
        usize::from(self.readouts) + usize::from(self.builders) + 1
    }
}

pub(super) fn measure(arguments: &BuilderArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let kind = transport(arguments)?;
    let systems = systems(arguments)?;
    let sizes = arguments.scan.sizes(64, 1 << 20, 4);
    let seconds = arguments.scan.seconds.unwrap_or(SECONDS);
    // Impossible configurations are reported before anything is measured.
    for system in &systems {
        for size in &sizes {
            Plan::new(configuration(arguments, kind, *system, *size, seconds)?)?;
        }
    }
    let limit_of = |system: System| {
        let limit = Limit::of(kind == TransportKind::Tcp, system.nodes());
        (arguments.baseline && arguments.rate.is_none()).then_some(limit)
    };
    let trip = match kind {
        TransportKind::Memory => Some(Transport::Memory),
        TransportKind::Tcp => Some(Transport::Tcp),
        TransportKind::Shm => Some(Transport::Shm),
        TransportKind::Udp => Some(Transport::Udp),
        _ => None,
    };
    let trip = trip.zip(arguments.rate).filter(|_| arguments.baseline);
    let scanning = scan.over(systems.len(), Scanned::Size, &sizes, arguments.scan.repeat);
    // The runs and processes of the measurement would log about themselves.
    let quiet = Quiet::new();
    let mut curves = Vec::new();
    for system in systems.iter().copied() {
        let points = scanning.curve(&system.name(), |size| {
            let config = configuration(arguments, kind, system, size, seconds)?;
            let Some(mut sample) = run(config, arguments.processes, scan)? else { return Ok(None) };
            if let Some(limit) = limit_of(system) {
                let most = limit.measure(size, seconds)?;
                let rate = figure(&sample, "bytes_per_second");
                sample.push(("limit_bytes_per_second", most));
                sample.push(("fraction_of_limit", rate / most));
            }
            if let Some((transport, rate)) = trip {
                let time = SleepyTrips {
                    transport,
                    rate_hz: rate,
                    processes: arguments.processes,
                    payload: arguments.payload,
                    bytes: size,
                }
                .median_ns(scan)?;
                let latency = figure(&sample, "latency_ns.p50");
                sample.push(("roundtrip_ns.p50", time));
                sample.push(("latency_in_roundtrips", latency / time));
            }
            Ok(Some(sample))
        })?;
        let about =
            json!({ "readouts": system.readouts, "builders": system.builders, "rms_fraction": system.rms });
        let curve = Curve::new(system.name(), about, points);
        curves.push(curve.fitted("fragments_per_second", |rate| 1e9 / rate));
    }
    drop(quiet);
    let mut report = report(arguments, kind, seconds, curves, scan);
    if let Some(limit) = systems.first().copied().and_then(limit_of) {
        report.settings.insert("limit".into(), json!(limit.name()));
        report.subtitle.push_str(&format!("; limit: {}", limit.name()));
    }
    Ok(report)
}

/// The figure of this name, or 0.
pub(super) fn figure(sample: &Sample, name: &str) -> f64 {
    sample.iter().find(|(of, _)| *of == name).map_or(0.0, |(_, value)| *value)
}

/// Turns the log down while it lives.
pub(super) struct Quiet(LevelFilter);

impl Quiet {
    pub(super) fn new() -> Self {
        let before = log::max_level();
        if before == LevelFilter::Info {
            log::set_max_level(LevelFilter::Error);
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        log::set_max_level(self.0);
    }
}

fn transport(arguments: &BuilderArguments) -> anyhow::Result<TransportKind> {
    match (arguments.transport, arguments.processes) {
        (Some(TransportKind::Memory), true) => {
            bail!(
                "--processes needs --transport tcp, shm or mixed: the memory transport works only within one process"
            )
        }
        (Some(kind), _) => Ok(kind),
        (None, true) => Ok(TransportKind::Tcp),
        (None, false) => Ok(TransportKind::Memory),
    }
}

fn systems(arguments: &BuilderArguments) -> anyhow::Result<Vec<System>> {
    let (readouts, builders) = (&arguments.readouts, &arguments.builders);
    let count = readouts.len().max(builders.len());
    if [readouts, builders].into_iter().any(|list| list.len() != 1 && list.len() != count) {
        bail!(
            "--readouts has {} values and --builders {}; give as many of both, or one of either",
            readouts.len(),
            builders.len()
        );
    }
    let shape = |place: usize| (readouts[place % readouts.len()], builders[place % builders.len()]);
    let system = |(readouts, builders)| {
        let with = move |rms: &f64| System { readouts, builders, rms: *rms };
        arguments.rms.iter().map(with)
    };
    Ok((0..count).map(shape).flat_map(system).collect())
}

fn configuration(
    arguments: &BuilderArguments,
    kind: TransportKind,
    system: System,
    size: u64,
    seconds: f64,
) -> anyhow::Result<Config> {
    let file =
        arguments.config.as_deref().map(|path| anyhow::Ok((path, configured::read(path)?))).transpose()?;
    let mut config = file.as_ref().map(|(_, file)| file.clone()).unwrap_or_default();
    let emulated = &mut config.source.emulated;
    emulated.mean = ByteCount(size);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size"
    )]
    let rms = (size as f64 * system.rms).round() as u64;
    emulated.rms = ByteCount(rms);
    emulated.size = if rms == 0 { SizeModel::Fixed } else { SizeModel::LogNormal };
    emulated.minimum = ByteCount::ZERO;
    emulated.maximum = None;
    emulated.checksum = false;
    emulated.content = match arguments.payload {
        Use::WriteRead => Content::Fill,
        Use::Descriptor => Content::None,
    };
    config.builder.check_content = false;
    config.builder.read_payload = arguments.payload == Use::WriteRead;
    config.readout.count = system.readouts;
    config.builder.count = system.builders;
    config.transport.kind = kind;
    config.output.kind = OutputKind::None;
    config.run.events = None;
    if let Some(rate) = arguments.rate {
        (config.trigger.mode, config.trigger.rate_hz) = (TriggerMode::Fixed, Some(rate));
    }
    let nanos = |seconds| Nanos::from(std::time::Duration::from_secs_f64(seconds));
    config.run.warm_up = nanos(arguments.warm_up);
    config.run.duration = Some(nanos(arguments.warm_up + seconds));
    match &file {
        Some((path, file)) => configured::refuse_ignored(path, file, &config)?,
        None => bounds::set(&mut config),
    }
    config.validate()?;
    Ok(config)
}

/// One run. `None` where a signal ended it.
fn run(config: Config, in_processes: bool, scan: &Scan<'_>) -> anyhow::Result<Option<Sample>> {
    let ended = outcome(config, in_processes, scan)?;
    ended.map(|(summary, cpu)| sample(&summary, cpu)).transpose()
}

/// Runs the builder and returns its summary and processor time in seconds. `None` if a signal ended the run.
///
/// # Errors
/// That the run failed, or that its ledger does not balance.
pub(super) fn outcome(
    mut config: Config,
    in_processes: bool,
    scan: &Scan<'_>,
) -> anyhow::Result<Option<(Summary, f64)>> {
    loop {
        let ended = run_once(config.clone(), in_processes, scan)?;
        let nothing_built = ended.as_ref().is_some_and(|(summary, _)| summary.fragments == 0);
        let longer = config.run.duration.map(|duration| Nanos(duration.0.saturating_mul(2)));
        // A machine that did something else all the time is measured for longer.
        if !nothing_built || longer.is_none_or(|longer| longer > LONGEST_REPETITION) {
            return Ok(ended);
        }
        config.run.duration = longer;
    }
}

/// A run in which nothing was built is not repeated for longer than this.
const LONGEST_REPETITION: Nanos = Nanos::from_secs(60);

/// As [`outcome`], but not repeated where nothing was built.
pub(super) fn run_once(
    mut config: Config,
    in_processes: bool,
    scan: &Scan<'_>,
) -> anyhow::Result<Option<(Summary, f64)>> {
    let clock = Clock::new();
    let directory = RunDirectory::create(&mut config, clock.now())?;
    let plan = Arc::new(Plan::new(config)?);
    let console = scan.console.silent();
    let view = View { console: &console, page: None, controls: None, traces: None };
    let before = cpu_seconds();
    let outcome = if in_processes {
        let scratch = Scratch::new(directory.as_ref())?;
        let has_key_file = plan.config.transport.key_file.is_some();
        let key = (!has_key_file).then(RunKey::make_digits).transpose()?.map(|(_, digits)| digits);
        let places = Places {
            directory: directory.as_ref(),
            scratch: &scratch,
            hosts: None,
            listeners: None,
            key: key.as_deref(),
        };
        let onset = processes::Onset { next: &NextInProcesses::default(), goes_on: false, before: None };
        processes::run(&plan, places, scan.stop, (view, onset))?.0
    } else {
        in_process(
            &plan,
            None,
            scan.stop.clone(),
            view,
            Onset { clock, before: None, early_farms: Arc::default() },
        )?
        .0
    };
    let summary = outcome.summary;
    if summary.interrupted {
        return Ok(None);
    }
    if let Some(error) = outcome.errors.first() {
        bail!("{error}");
    }
    if !summary.is_good() {
        bail!("the books of the run do not balance: {}", summary.ledger.problems.join("; "));
    }
    // Of one process the summary has the time since its start, with all runs before.
    let cpu = if in_processes { summary.cpu_seconds } else { cpu_seconds() - before };
    Ok(Some((summary, cpu)))
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
pub(super) fn sample(summary: &Summary, cpu: f64) -> anyhow::Result<Sample> {
    (summary.fragments > 0).then_some(()).context("no event was built in this time; increase --seconds")?;
    let fragments = summary.fragments as f64;
    let incomplete = summary.events_incomplete as f64;
    let dropped = summary.ledger.dropped.values().sum::<u64>() as f64;
    Ok(vec![
        ("fragments_per_second", summary.fragments_per_second),
        ("events_per_second", summary.events_per_second),
        ("bytes_per_second", summary.bytes_per_second),
        ("latency_ns.p50", summary.latency_ns.p50 as f64),
        ("latency_ns.p99", summary.latency_ns.p99 as f64),
        ("latency_ns.max", summary.latency_ns.max as f64),
        ("cpu_seconds", cpu),
        ("cpu_ns_per_fragment", cpu / fragments * 1e9),
        ("peak_rss_bytes", summary.peak_rss_bytes as f64),
        ("events", summary.events_built as f64),
        ("fragments", fragments),
        ("events_incomplete", incomplete),
        ("events_dropped", dropped),
    ])
}

fn report(
    arguments: &BuilderArguments,
    kind: TransportKind,
    seconds: f64,
    curves: Vec<Curve>,
    scan: &Scan<'_>,
) -> Report {
    let mut settings = Map::new();
    settings.insert("transport".into(), json!(kind.to_string()));
    settings.insert("processes".into(), json!(arguments.processes));
    settings.insert("payload".into(), json!(arguments.payload));
    settings.insert("trigger_rate_hz".into(), json!(arguments.rate));
    settings.insert("seconds".into(), json!(seconds));
    settings.insert("warm_up_seconds".into(), json!(arguments.warm_up));
    settings.insert("repetitions".into(), json!(arguments.scan.repeat));
    let place = if arguments.processes { "each role a process" } else { "one process" };
    let payload = match arguments.payload {
        Use::WriteRead => "payload written and read",
        Use::Descriptor => "payload not touched",
    };
    let repeat = arguments.scan.repeat;
    Report {
        bench: "builder",
        title: format!("event builder over {kind}"),
        subtitle: format!("{place}, {payload}, no output; medians of {repeat} x {seconds} s"),
        settings,
        scanned: Scanned::Size,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: vec![
            column("fragments_per_second", "fragments/s", 1.0, 0),
            column("events_per_second", "events/s", 1.0, 0),
            column("bytes_per_second", "MB/s", 1e6, 1),
            column("latency_ns.p50", "p50 us", 1e3, 1),
            column("latency_ns.p99", "p99 us", 1e3, 1),
            column("cpu_ns_per_fragment", "cpu ns/frag", 1.0, 0),
            column("limit_bytes_per_second", "limit MB/s", 1e6, 1),
            column("fraction_of_limit", "of limit %", 0.01, 1),
            column("roundtrip_ns.p50", "round trip us", 1e3, 1),
            column("latency_in_roundtrips", "round trips", 1.0, 1),
        ],
        picture: Picture {
            figure: "bytes_per_second",
            label: "throughput of the system",
            factor: 1.0,
            unit: "B/s",
            size: "mean fragment size",
            is_time: false,
        },
    }
}
