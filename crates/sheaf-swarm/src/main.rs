//! Runs simulated clusters from the command line: one seed with its log, or many seeds on all cores.

mod small;
mod worlds;

use clap::Parser;
use serde_json::json;
use sheaf_swarm::coverage::Coverage;
use sheaf_swarm::drivers::Family;
use sheaf_swarm::{Failure, Options, Report, run, run_with_log};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs simulated event-building clusters under random faults and checks their books.
///
/// Each run is determined by its seed. Exit status: 0 if every run ended with balanced books, otherwise 1.
#[derive(Debug, Parser)]
#[command(name = "sheaf-swarm", version)]
struct Arguments {
    /// Run only this seed.
    #[arg(long, conflicts_with_all = ["runs", "start"])]
    seed: Option<u64>,
    /// Print the run log (with --seed).
    #[arg(long, requires = "seed")]
    log: bool,
    /// Search for the smallest run that violates the same rule (with --seed).
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Print the options (with --seed).
    #[arg(long, requires = "seed")]
    options: bool,
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1_000)]
    runs: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Number of failures after which the remaining seeds are skipped.
    #[arg(long, value_name = "N", default_value_t = 20)]
    failures: usize,
    /// Number of threads. Default: one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Fail if the runs together do not reach every drop reason, reason of a missing source and counter that a simulation can reach.
    #[arg(long, conflicts_with_all = ["seed", "drivers"])]
    reach_everything: bool,
    /// Draw only runs in which sources give windows of their hits on request.
    #[arg(long, conflicts_with_all = ["drivers", "table"])]
    windows: bool,
    /// Print one JSON object on standard output, and nothing else.
    #[arg(long)]
    json: bool,
    /// Run the real drivers instead of the roles alone: `slowness`, where nothing may be lost, `faults`, `standby`, with two replicas of the
    /// event manager, `mirrors`, with mirrors of readout units, or `protected`, with both
    #[arg(long, value_name = "FAMILY")]
    drivers: Option<Families>,
    /// Print how often each option is drawn by this number of runs, without running them. With --drivers: by that number of
    /// each family
    #[arg(long)]
    table: bool,
}

/// Families of runs of the drivers.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Families {
    /// Nodes, filters and disks are slow; no node dies.
    Slowness,
    /// Nodes are also killed, and disks refuse to write.
    Faults,
    /// The event manager has a standby. One of the two is killed, frozen or unreachable.
    Standby,
    /// Readout units have mirrors. One of each two is killed, frozen or unreachable.
    Mirrors,
    /// Both, with faults of both.
    Protected,
}

impl From<Families> for Family {
    fn from(family: Families) -> Self {
        match family {
            Families::Slowness => Self::Slowness,
            Families::Faults => Self::Faults,
            Families::Standby => Self::Standby,
            Families::Mirrors => Self::Mirrors,
            Families::Protected => Self::Protected,
        }
    }
}

impl Arguments {
    /// Returns the options of the run with this seed.
    fn draw(&self, seed: u64) -> Options {
        if self.windows { Options::random_with_windows(seed) } else { Options::random(seed) }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.table {
        let end = arguments.start.saturating_add(arguments.runs);
        let table = match arguments.drivers {
            Some(_) => sheaf_swarm::table::driver_markdown(arguments.start..end),
            None => sheaf_swarm::table::markdown(arguments.start..end),
        };
        print(&table);
        return ExitCode::SUCCESS;
    }
    let good = match arguments.seed {
        _ if arguments.drivers.is_some() => {
            worlds::run(&arguments, arguments.drivers.map_or(Family::Slowness, Family::from))
        }
        Some(seed) => run_one(&arguments, seed),
        None => run_many(&arguments),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes to standard output. A closed pipe is not an error.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn print_aside(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn run_one(arguments: &Arguments, seed: u64) -> bool {
    let options = arguments.draw(seed);
    if arguments.shrink {
        print(&small::roles(&options, arguments.log));
        return run(&options).is_ok();
    }
    if arguments.options {
        print_aside(&format!("{options:#?}\n"));
    }
    let (result, log) = if arguments.log { run_with_log(&options) } else { (run(&options), String::new()) };
    // With JSON, standard output is reserved for the object.
    if arguments.json {
        print_aside(&log);
    } else {
        print(&log);
    }
    match &result {
        Ok(report) if arguments.json => print(&format!("{}\n", report_json(seed, report))),
        Ok(report) => print(&summary_of_one(seed, report)),
        Err(failure) if arguments.json => print(&format!("{}\n", failure_json(failure))),
        Err(failure) => print(&failure_text(failure)),
    }
    result.is_ok()
}

fn summary_of_one(seed: u64, report: &Report) -> String {
    let Report { ledger, fragments, .. } = report;
    let mut text = format!("seed {seed}: good, ended at {} after {} steps\n", report.end, report.steps);
    let mut line = |name: &str, value: &dyn std::fmt::Debug| {
        let _ = writeln!(text, "  {name}: {value:?}");
    };
    line("events", ledger);
    line("fragments", fragments);
    line("missing", &report.missing);
    line("counters", &report.counters);
    line("faults", &report.faults);
    line("operator", &report.operator);
    line("network", &report.network);
    let _ = writeln!(text, "  log: {} lines, hash {:016x}", report.lines, report.hash);
    text
}

fn failure_text(failure: &Failure) -> String {
    let commit = option_env!("SHEAF_COMMIT").map_or(String::new(), |commit| format!("commit: {commit}\n"));
    format!("{failure}\n{commit}")
}

fn report_json(seed: u64, report: &Report) -> serde_json::Value {
    let dropped: serde_json::Map<String, serde_json::Value> = report
        .ledger
        .dropped
        .iter()
        .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
        .collect();
    json!({
        "seed": seed,
        "good": true,
        "events": {
            "received": report.ledger.received,
            "stored": report.ledger.stored,
            "rejected": report.ledger.rejected,
            "dropped": dropped,
            "in_flight": report.ledger.in_flight,
            "incomplete": report.incomplete,
        },
        "balanced": report.ledger.is_balanced(),
        "end_ns": report.end.0,
        "log_lines": report.lines,
        "log_hash": format!("{:016x}", report.hash),
    })
}

fn failure_json(failure: &Failure) -> serde_json::Value {
    json!({
        "seed": failure.options.seed,
        "good": false,
        "violations": failure.violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "at_ns": failure.at.0,
        "log_hash": format!("{:016x}", failure.hash),
        "commit": option_env!("SHEAF_COMMIT"),
        "replay": failure.replay(),
    })
}

/// Sums over many runs.
#[derive(Debug, Default)]
struct Totals {
    runs: u64,
    events: u64,
    stored: u64,
    incomplete: u64,
    dropped: u64,
    crashes: u64,
    given_up: u64,
    steps: u64,
    /// Maximum number of steps of a run, and its seed.
    longest: (u64, u64),
    /// Maximum fraction of the step limit that a run needed, in thousandths, and its seed.
    nearest: (u64, u64),
    /// Combined hash of all runs, equal if all runs are equal.
    hash: u64,
    coverage: Coverage,
    failures: Vec<Failure>,
}

impl Totals {
    fn add(&mut self, options: &Options, result: Result<Report, Box<Failure>>) {
        let seed = options.seed;
        self.runs += 1;
        match result {
            Ok(report) => {
                self.coverage.add(&report);
                self.events += report.ledger.received;
                self.stored += report.ledger.stored;
                self.incomplete += report.incomplete;
                self.dropped += report.ledger.dropped_total();
                self.crashes += report.faults.builder_crashes + report.faults.readout_crashes;
                self.given_up += report.faults.given_up;
                self.steps += report.steps;
                self.longest = self.longest.max((report.steps, seed));
                let bound = options.steps_until(report.end);
                self.nearest = self.nearest.max((1_000 * report.steps / bound, seed));
                self.hash = self.hash.wrapping_add(sheaf_swarm::dice::mix(seed ^ report.hash));
            }
            Err(failure) => self.failures.push(*failure),
        }
    }
}

fn run_many(arguments: &Arguments) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.unwrap_or(cores).max(1);
    let end = arguments.start.saturating_add(arguments.runs);
    let next = AtomicU64::new(arguments.start);
    let totals = Mutex::new(Totals::default());
    let is_done = AtomicBool::new(false);
    #[expect(clippy::disallowed_methods, reason = "it is told how long it took; no run sees a clock")]
    let began = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(&next, end, arguments, &totals))).collect();
        let progress = scope.spawn(|| show_progress(arguments.runs, &totals, &is_done));
        for worker in workers {
            // A panic in a run is a bug like any other. The panic hook prints it with its seed.
            let _ = worker.join();
        }
        is_done.store(true, Ordering::Release);
        progress.thread().unpark();
    });
    let mut totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    totals.failures.sort_by_key(|failure| failure.options.seed);
    let unreached = if arguments.reach_everything { totals.coverage.unreached() } else { Vec::new() };
    if !unreached.is_empty() {
        print_aside(&format!("no run reached {}\n", unreached.join(", ")));
    }
    let good = totals.failures.is_empty() && totals.runs == arguments.runs && unreached.is_empty();
    report_many(arguments, &totals, began.elapsed(), good);
    good
}

fn work(next: &AtomicU64, end: u64, arguments: &Arguments, totals: &Mutex<Totals>) {
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let options = arguments.draw(seed);
        let result = std::panic::catch_unwind(|| run(&options));
        let Ok(mut totals) = totals.lock() else {
            return;
        };
        match result {
            Ok(result) => totals.add(&options, result),
            Err(panic) => totals.add(&options, Err(panic_failure(&options, panic.as_ref()))),
        }
        if totals.failures.len() >= arguments.failures {
            next.store(end, Ordering::Relaxed);
        }
    }
}

/// Converts a panic to a failure.
fn panic_failure(options: &Options, panic: &(dyn std::any::Any + Send)) -> Box<Failure> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Box::new(Failure {
        options: options.clone(),
        violations: vec![format!("a machine panicked: {text}").into()],
        at: sheaf_wire::Timestamp::ZERO,
        hash: 0,
    })
}

fn show_progress(runs: u64, totals: &Mutex<Totals>, is_done: &AtomicBool) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    while !is_done.load(Ordering::Acquire) {
        std::thread::park_timeout(Duration::from_millis(250));
        if let Ok(totals) = totals.lock() {
            print_aside(&format!("\r{} of {runs} runs, {} failed", totals.runs, totals.failures.len()));
        }
    }
    print_aside("\r\x1b[K");
}

fn report_many(arguments: &Arguments, totals: &Totals, took: Duration, good: bool) {
    let Totals { runs, events, stored, incomplete, dropped, crashes, given_up, steps, longest, .. } = totals;
    if arguments.json {
        let failures: Vec<_> = totals.failures.iter().map(failure_json).collect();
        let object = json!({
            "good": good, "runs": runs, "start": arguments.start, "events": events, "stored": stored,
            "incomplete": incomplete, "dropped": dropped, "crashes": crashes, "sessions_given_up": given_up,
            "steps": steps, "seconds": took.as_secs_f64(), "hash": format!("{:016x}", totals.hash),
            "failures": failures,
        });
        print(&format!("{object}\n"));
        return;
    }
    for failure in &totals.failures {
        print(&format!("{}\n", failure_text(failure)));
    }
    if let Some(failure) = totals.failures.first() {
        print(&format!("the first failure, made small:\n{}\n", small::roles(&failure.options, false)));
        let seeds: Vec<String> =
            totals.failures.iter().map(|failure| failure.options.seed.to_string()).collect();
        print(&format!("failed seeds: {}\n", seeds.join(" ")));
    }
    print(&format!(
        "{runs} runs from seed {} in {:.1} s: {} failed; {events} events, {stored} stored ({incomplete} incomplete), \
         {dropped} dropped; {crashes} crashes, {given_up} builder sessions given up; {steps} steps, at most {} (seed {}), at most {} \u{2030} of its bound (seed {}); hash {:016x}\n",
        arguments.start,
        took.as_secs_f64(),
        totals.failures.len(),
        longest.0,
        longest.1,
        totals.nearest.0,
        totals.nearest.1,
        totals.hash,
    ));
}
