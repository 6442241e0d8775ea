//! `roundtrip`, `stream`, `mstream`, `pingpong`: transports, without the event builder.

use super::arguments::{
    LinkArguments, MstreamArguments, PingpongArguments, RoundtripArguments, StreamArguments,
};
use super::limits::Limit;
use super::processes;
use super::report::{Curve, Picture, Report, Sample, Scanned, column};
use super::scan::Scan;
use anyhow::Context;
use serde_json::{Map, Value, json};
use sheaf_bench::cpu::Placement;
use sheaf_bench::job::{Job, Measurement, Task};
use sheaf_bench::local;
use sheaf_bench::payload::Use;
use sheaf_bench::transport::Transport;

/// Default duration of a repetition, in seconds.
const SECONDS: f64 = 0.3;
/// Number of polls of an idle node of a stream before it sleeps, the same as of a worker of the event builder.
const SPINS: u32 = 32;
/// The same for times, which would else be those of waking up: some 100 microseconds. No longer, because a thread that has
/// used up its share of a processor that others want, too, is kept waiting for milliseconds.
const SPINS_FOR_TIMES: u32 = 4_000;

/// Round trips at a lower rate than this would be too few to measure in passing.
const SLOWEST_TRIPS_HZ: f64 = 20.0;

const THROUGHPUT: Picture = Picture {
    figure: "bytes_per_second",
    label: "throughput",
    factor: 1.0,
    unit: "B/s",
    size: "message size",
    is_time: false,
};

/// One sender, one receiver.
pub(super) fn stream(arguments: &StreamArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    streams("stream", &arguments.link, (1, 1), arguments.baseline, scan)
}

/// N senders, M receivers.
pub(super) fn mstream(arguments: &MstreamArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let shape = (arguments.senders, arguments.receivers);
    streams("mstream", &arguments.link, shape, arguments.baseline, scan)
}

fn streams(
    bench: &'static str,
    arguments: &LinkArguments,
    (senders, receivers): (u16, u16),
    baseline: bool,
    scan: &Scan<'_>,
) -> anyhow::Result<Report> {
    let transport = arguments.transport()?;
    let limit = Limit::of(transport.uses_sockets(), usize::from(receivers));
    let limit = baseline.then_some(limit);
    let sizes = arguments.scan.sizes(64, 1 << 20, 2);
    let scanning = scan.over(1, Scanned::Size, &sizes, arguments.scan.repeat);
    let base = job(arguments, Task::Stream, transport, arguments.spins.unwrap_or(SPINS));
    let name = format!("{senders} to {receivers}, {transport}");
    let points = scanning.curve(&name, |bytes| {
        let job = Job { senders, receivers, bytes, ..base };
        let measured = run(&job, arguments.processes, &[], scan)?;
        let mut sample = throughput(&measured);
        if let Some(limit) = limit {
            let most = limit.measure(bytes, job.seconds)?;
            sample.push(("limit_bytes_per_second", most));
            sample.push(("fraction_of_limit", measured.bytes_per_second / most));
        }
        Ok(Some(sample))
    })?;
    let shape = json!({ "senders": senders, "receivers": receivers });
    let curve = Curve::new(name, shape, points).fitted("messages_per_second", |rate| 1e9 / rate);
    let mut report = report(bench, arguments, &base, vec![curve], scan);
    report.title = format!("{bench}: {senders} to {receivers} over {transport}");
    if let Some(limit) = limit {
        report.settings.insert("limit".into(), json!(limit.name()));
        report.subtitle.push_str(&format!("; limit: {}", limit.name()));
    }
    report.columns = vec![
        column("messages_per_second", "messages/s", 1.0, 0),
        column("bytes_per_second", "MB/s", 1e6, 1),
        column("cpu_ns_per_message", "cpu ns/msg", 1.0, 0),
        column("limit_bytes_per_second", "limit MB/s", 1e6, 1),
        column("fraction_of_limit", "of limit %", 0.01, 1),
    ];
    Ok(report)
}

fn throughput(measured: &Measurement) -> Sample {
    #[expect(clippy::cast_precision_loss, reason = "counts are shown to a few digits")]
    let (sent, received) = (measured.sent as f64, measured.received as f64);
    vec![
        ("messages_per_second", measured.messages_per_second),
        ("bytes_per_second", measured.bytes_per_second),
        ("cpu_seconds", measured.cpu_seconds),
        ("messages_sent", sent),
        ("messages_received", received),
    ]
}

/// One message there, one back.
pub(super) fn roundtrip(arguments: &RoundtripArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let (arguments, rate_hz) = (&arguments.link, arguments.rate);
    let transport = arguments.transport()?;
    let sizes = arguments.scan.sizes(64, 1 << 20, 2);
    let scanning = scan.over(1, Scanned::Size, &sizes, arguments.scan.repeat);
    let place = Placement::OtherCore.processors();
    // Nodes that wait for long sleep, as a node does at a low rate.
    let waits = place.is_none() || rate_hz.is_some();
    let spins = arguments.spins.unwrap_or(if waits { 0 } else { SPINS_FOR_TIMES });
    let processors: Vec<usize> = place.map_or_else(Vec::new, |(one, other)| vec![one, other]);
    let base = Job { rate_hz, ..job(arguments, Task::RoundTrip, transport, spins) };
    if let Some(rate) = rate_hz {
        anyhow::ensure!(
            rate * base.seconds >= 1.0,
            "{rate} round trips per second make none in {} s: increase --seconds",
            base.seconds
        );
    }
    let points = scanning.curve(transport.name(), |bytes| {
        let measured = run(&Job { bytes, ..base }, arguments.processes, &processors, scan)?;
        let mut sample = times(&measured, "roundtrip_ns.p50", "roundtrip_ns.p99", "roundtrip_ns.max");
        sample.extend(throughput(&measured));
        Ok(Some(sample))
    })?;
    let curve = Curve::new(transport.name(), json!({}), points);
    let picture = Picture {
        figure: "roundtrip_ns.p50",
        label: "round trip, median",
        factor: 1e-9,
        unit: "s",
        is_time: true,
        ..THROUGHPUT
    };
    let curve = curve.fitted("roundtrip_ns.p50", |time| time);
    let mut report = report("roundtrip", arguments, &base, vec![curve], scan);
    report.picture = picture;
    report.title = format!("roundtrip over {transport}");
    if let Some(rate) = rate_hz {
        report.settings.insert("rate_hz".into(), json!(rate));
        report.subtitle.push_str(&format!("; {rate} trips a second, asleep between them"));
    }
    report.columns = vec![
        column("roundtrip_ns.p50", "p50 us", 1e3, 2),
        column("roundtrip_ns.p99", "p99 us", 1e3, 2),
        column("roundtrip_ns.max", "max us", 1e3, 1),
        column("messages_per_second", "messages/s", 1.0, 0),
    ];
    Ok(report)
}

/// Round trips of messages whose sides sleep between messages. A processor that has slept wakes more slowly than one that
/// has just been awake, so that trips without pauses are quicker than any at a low rate.
pub(super) struct SleepyTrips {
    pub(super) transport: Transport,
    pub(super) rate_hz: f64,
    /// Whether each side is a process.
    pub(super) processes: bool,
    pub(super) payload: Use,
    /// Size of a message.
    pub(super) bytes: u64,
}

impl SleepyTrips {
    /// Measures the median time of a trip, in half a second.
    pub(super) fn median_ns(&self, scan: &Scan<'_>) -> anyhow::Result<f64> {
        let job = Job {
            task: Task::RoundTrip,
            transport: self.transport,
            senders: 1,
            receivers: 1,
            bytes: self.bytes,
            payload: self.payload,
            warm_up_s: 0.1,
            seconds: 0.5,
            spins: 0,
            rate_hz: Some(self.rate_hz.max(SLOWEST_TRIPS_HZ)),
        };
        // Where the kernel puts the nodes, as it does with those of the event builder.
        let measured = run(&job, self.processes, &[], scan)?;
        let median = times(&measured, "p50", "p99", "max").first().map(|(_, time)| *time);
        median.context("no message came back")
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of three digits")]
fn times(measured: &Measurement, p50: &'static str, p99: &'static str, max: &'static str) -> Sample {
    let times = measured.times.iter();
    times
        .flat_map(|times| [(p50, times.p50 as f64), (p99, times.p99 as f64), (max, times.max as f64)])
        .collect()
}

/// Messages to and fro between processors that lie near or far.
pub(super) fn pingpong(arguments: &PingpongArguments, scan: &Scan<'_>) -> anyhow::Result<Report> {
    let arguments = &arguments.link;
    let transport = arguments.transport()?;
    let sizes = arguments.scan.sizes(4, 64 << 10, 4);
    let here: Vec<_> =
        Placement::ALL.into_iter().filter_map(|place| Some((place, place.processors()?))).collect();
    let scanning = scan.over(2 * here.len(), Scanned::Size, &sizes, arguments.scan.repeat);
    let mut curves = Vec::new();
    for (place, (one, other)) in here {
        for (task, direction) in [(Task::RoundTrip, "one way"), (Task::Exchange, "both ways")] {
            let waits = place == Placement::SameCore;
            let spins = arguments.spins.unwrap_or(if waits { 0 } else { SPINS_FOR_TIMES });
            let base = job(arguments, task, transport, spins);
            let name = format!("{}, {direction}", place.name());
            let points = scanning.curve(&name, |bytes| {
                let measured = run(&Job { bytes, ..base }, arguments.processes, &[one, other], scan)?;
                // Two messages pass in a trip there and back, and in an exchange.
                let each = |(name, time): (&'static str, f64)| (name, time / 2.0);
                let times = times(&measured, "latency_ns.p50", "latency_ns.p99", "latency_ns.max");
                let mut sample: Sample = times.into_iter().map(each).collect();
                sample.extend(throughput(&measured));
                Ok(Some(sample))
            })?;
            let about = json!({ "placement": place, "direction": direction, "processors": [one, other] });
            curves.push(Curve::new(name, about, points).fitted("latency_ns.p50", |time| time));
        }
    }
    let base = job(arguments, Task::RoundTrip, transport, 0);
    let picture = Picture {
        figure: "latency_ns.p50",
        label: "time per message, median",
        factor: 1e-9,
        unit: "s",
        is_time: true,
        ..THROUGHPUT
    };
    let mut report = report("pingpong", arguments, &base, curves, scan);
    report.picture = picture;
    report.title = format!("ping-pong over {transport}");
    report.columns = vec![
        column("latency_ns.p50", "p50 us", 1e3, 2),
        column("latency_ns.p99", "p99 us", 1e3, 2),
        column("bytes_per_second", "MB/s", 1e6, 1),
    ];
    let absent = Placement::ALL.into_iter().filter(|place| place.processors().is_none());
    report.left_out = absent.map(|place| format!("{}: this machine has none", place.name())).collect();
    Ok(report)
}

fn job(arguments: &LinkArguments, task: Task, transport: Transport, spins: u32) -> Job {
    Job {
        task,
        transport,
        senders: 1,
        receivers: 1,
        bytes: 0,
        payload: arguments.payload,
        warm_up_s: arguments.warm_up,
        seconds: arguments.scan.seconds.unwrap_or(SECONDS),
        spins,
        rate_hz: None,
    }
}

fn run(job: &Job, processes: bool, processors: &[usize], scan: &Scan<'_>) -> anyhow::Result<Measurement> {
    if processes {
        processes::measure(job, processors, scan.stop)
    } else {
        Ok(local::measure(job, processors, scan.stop)?)
    }
}

/// Makes a report with the picture of throughputs and without columns.
fn report(
    bench: &'static str,
    arguments: &LinkArguments,
    job: &Job,
    mut curves: Vec<Curve>,
    scan: &Scan<'_>,
) -> Report {
    for point in curves.iter_mut().flat_map(|curve| &mut curve.points) {
        let (rate, cpu) = (point.figure("messages_per_second"), point.figure("cpu_seconds"));
        if let (Some(rate), Some(cpu)) = (rate.filter(|rate| rate.median > 0.0), cpu) {
            let each = |value: f64| value / job.seconds / rate.median * 1e9;
            let spread = sheaf_bench::statistics::Spread {
                median: each(cpu.median),
                min: each(cpu.min),
                max: each(cpu.max),
            };
            point.figures.push(("cpu_ns_per_message", spread));
        }
    }
    let mut settings = Map::new();
    let mut set = |name: &str, value: Value| drop(settings.insert(name.to_owned(), value));
    set("transport", json!(job.transport));
    set("processes", json!(arguments.processes));
    set("payload", json!(arguments.payload));
    set("warm_up_s", json!(job.warm_up_s));
    set("seconds", json!(job.seconds));
    set("repetitions", json!(arguments.scan.repeat));
    let place = if arguments.processes { "each node a process" } else { "threads of one process" };
    let payload = match arguments.payload {
        Use::WriteRead => "payload written and read",
        Use::Descriptor => "payload not touched",
    };
    let (repeat, seconds) = (arguments.scan.repeat, job.seconds);
    Report {
        bench,
        title: bench.to_owned(),
        subtitle: format!("{place}, {payload}; medians of {repeat} x {seconds} s"),
        settings,
        scanned: Scanned::Size,
        curves,
        left_out: Vec::new(),
        interrupted: scan.is_stopped(),
        columns: Vec::new(),
        picture: THROUGHPUT,
    }
}
