//! `farm`: throughput of workers with a filter that takes a given processor time per event.
//!
//! The reference is table 3 of R. Bock et al., "The Use of Low-cost SMPs in the Atlas Level-2 Trigger": four worker
//! threads on four processors, events of four fragments of 1 kB, 100 to 400 microseconds for each. *Useful* is the
//! filter's processor time over the processor time available to workers. *Overhead* is the additional processor time of
//! a worker per event.

use super::arguments::{FarmArguments, FarmTransport};
use super::bounds;
use super::builder::{Quiet, outcome};
use super::processes::Companions;
use super::report::{Curve, Picture, Report, Sample, Scanned, column};
use super::scan::Scan;
use crate::plan::Plan;
use crate::summary::Summary;
use anyhow::Context;
use serde_json::{Map, json};
use sheaf_bench::cpu;
use sheaf_config::{Config, Content, FilterKind, OutputKind, SizeModel};
use sheaf_wire::{ByteCount, Nanos};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Microseconds of the filter, useful time in percent, microseconds of overhead: the reference's table 3, for four
/// workers.
const DOCUMENT: [(u64, f64, f64); 4] =
    [(100, 0.35, 189.0), (200, 0.61, 127.0), (300, 0.69, 135.0), (400, 0.75, 132.0)];

/// The document's workers.
const DOCUMENT_WORKERS: u16 = 4;

pub(super) fn measure(arguments: &FarmArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    // Impossible configurations are reported before anything is measured.
    for workers in &arguments.workers {
        for filter_us in &arguments.filter_us {
            Plan::new(configuration(arguments, *workers, *filter_us)?)?;
        }
    }
    let repeat = arguments.repeat;
    let scanning = scan.over(arguments.workers.len(), Scanned::FilterTime, &arguments.filter_us, repeat);
    let quiet = Quiet::new();
    let mut curves = Vec::new();
    for workers in arguments.workers.iter().copied() {
        let name = name(workers);
        let points = scanning.curve(&name, |filter_us| {
            let mut config = configuration(arguments, workers, filter_us)?;
            let joining = match arguments.transport {
                FarmTransport::Tcp if workers > 0 => Some(Joining::start(&mut config, workers)?),
                FarmTransport::Tcp | FarmTransport::Memory => None,
            };
            let outcome = outcome(config, false, scan)?;
            drop(joining);
            Ok(outcome.map(|(summary, _)| sample(&summary, workers, filter_us)))
        })?;
        curves.push(Curve::new(name, json!({ "workers": workers }), points));
    }
    drop(quiet);
    Ok(report(arguments, curves, scan))
}

fn name(workers: u16) -> String {
    match workers {
        0 => "the builder unit's own thread".into(),
        1 => "1 worker".into(),
        _ => format!("{workers} workers"),
    }
}

/// Workers that join over the network, as those of other hosts do. They end with the run.
struct Joining(Companions);

impl Joining {
    fn start(config: &mut Config, workers: u16) -> anyhow::Result<Self> {
        // A port that is free now: the builder unit listens there a moment later.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.context("there is no free port on loopback")?.to_string();
        config.filter.listen = Some(address.clone());
        let mut joining = Self(Companions::default());
        for _ in 0..workers {
            let mut command =
                Command::new(std::env::current_exe().context("cannot determine the path of this program")?);
            command.args(["processor", "--supervised", "--quiet", "--wait", "20", "--join", &address]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            joining.0.0.push(command.spawn().context("cannot start a worker")?);
        }
        Ok(joining)
    }
}

/// One readout unit with all sources and one builder unit, so that few threads compete with the workers.
fn configuration(arguments: &FarmArguments, workers: u16, filter_us: u64) -> anyhow::Result<Config> {
    let mut config = Config::default();
    let emulated = &mut config.source.emulated;
    (emulated.mean, emulated.rms) = (ByteCount(arguments.size), ByteCount::ZERO);
    emulated.size = SizeModel::Fixed;
    emulated.checksum = false;
    emulated.content = Content::Fill;
    config.source.count = Some(arguments.fragments);
    (config.readout.count, config.builder.count) = (1, 1);
    config.builder.check_content = false;
    config.output.kind = OutputKind::None;
    config.run.duration = Some(Nanos::from(std::time::Duration::from_secs_f64(arguments.seconds)));
    let filter = &mut config.filter;
    if filter_us > 0 {
        filter.kind = FilterKind::Busy;
        filter.busy = Nanos::from_micros(filter_us);
    }
    match arguments.transport {
        FarmTransport::Memory => {
            filter.workers = Some(workers);
            filter.processes = arguments.processes && workers > 0;
        }
        // Only the measurement starts them, and events wait for them.
        FarmTransport::Tcp => (filter.workers, filter.patience) = (Some(0), None),
    }
    bounds::set(&mut config);
    config.validate()?;
    Ok(config)
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn sample(summary: &Summary, workers: u16, filter_us: u64) -> Sample {
    let mut sample = vec![
        ("events_per_second", summary.events_per_second),
        ("bytes_per_second", summary.bytes_per_second),
        ("events", summary.events_built as f64),
    ];
    let sum = |of: fn(&crate::summary::WorkerSummary) -> f64| summary.workers.iter().map(of).sum::<f64>();
    let judged = sum(|worker| worker.judged as f64);
    // The builder unit's own thread keeps no account. Its filter took the configured time.
    let filter_s = match workers {
        0 => summary.events_built as f64 * filter_us as f64 * 1e-6,
        _ => sum(|worker| worker.filter_s),
    };
    let processors = usize::from(workers.max(1)).min(cpu::usable().len().max(1));
    sample.push(("useful_fraction", filter_s / (summary.seconds * processors as f64)));
    if workers > 0 && judged > 0.0 {
        let worker_s = sum(|worker| worker.worker_s);
        let beside = (worker_s - filter_s - sum(|worker| worker.idle_s)).max(0.0);
        sample.push(("useful_fraction_of_worker_time", filter_s / worker_s));
        sample.push(("overhead_ns", beside / judged * 1e9));
    }
    if workers == DOCUMENT_WORKERS
        && let Some((_, useful, beside_us)) = DOCUMENT.iter().find(|(at, ..)| *at == filter_us)
    {
        sample.push(("document_useful_fraction", *useful));
        sample.push(("document_overhead_ns", beside_us * 1e3));
    }
    sample
}

fn report(arguments: &FarmArguments, curves: Vec<Curve>, scan: &Scan<'_>) -> Report {
    let mut settings = Map::new();
    let over_network = arguments.transport == FarmTransport::Tcp;
    settings.insert("processes".into(), json!(arguments.processes || over_network));
    settings.insert("transport".into(), json!(if over_network { "tcp" } else { "memory" }));
    settings.insert("fragments".into(), json!(arguments.fragments));
    settings.insert("size_bytes".into(), json!(arguments.size));
    settings.insert("seconds".into(), json!(arguments.seconds));
    settings.insert("repetitions".into(), json!(arguments.repeat));
    let workers = match (arguments.transport, arguments.processes) {
        (FarmTransport::Tcp, _) => "processes over TCP",
        (FarmTransport::Memory, true) => "processes",
        (FarmTransport::Memory, false) => "threads",
    };
    let (fragments, size, repeat, seconds) =
        (arguments.fragments, arguments.size, arguments.repeat, arguments.seconds);
    Report {
        bench: "farm",
        title: format!("trigger farm, workers are {workers}"),
        subtitle: format!(
            "{fragments} fragments of {size} bytes an event; medians of {repeat} x {seconds} s"
        ),
        settings,
        scanned: Scanned::FilterTime,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: vec![
            column("events_per_second", "events/s", 1.0, 0),
            column("bytes_per_second", "MB/s", 1e6, 1),
            column("useful_fraction", "useful %", 0.01, 1),
            column("document_useful_fraction", "document %", 0.01, 1),
            column("useful_fraction_of_worker_time", "of worker %", 0.01, 1),
            column("overhead_ns", "overhead us", 1e3, 2),
            column("document_overhead_ns", "document us", 1e3, 1),
        ],
        picture: Picture {
            figure: "useful_fraction",
            label: "useful time of the workers' processors",
            factor: 100.0,
            unit: "%",
            size: "processor time of the filter for an event",
            is_time: false,
        },
    }
}
