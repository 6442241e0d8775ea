//! Slowness: no process dies, but something is slow or stops for a while. No event may be lost, incomplete or stored twice, and the
//! command must exit with 0.

use super::{Case, Outcome, always, join_processor, nightly, or_skip};
use crate::torture::books::{Promise, number};
use crate::torture::machine::{BusyLoops, Disk, Quota};
use crate::torture::process::{self, tool};
use crate::torture::run::{Run, written};
use crate::torture::system::System;
use crate::torture::trial::Trial;
use crate::workspace;
use anyhow::{Context as _, Result};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    always("slow-filter", slow_filter),
    always("slow-filter-in-workers", slow_filter_in_workers),
    always("slow-filter-in-processes", slow_filter_in_processes),
    always("one-long-call", one_long_call),
    always("busy-loops", busy_loops),
    nightly("quota", quota),
    nightly("slow-disk", slow_disk),
    nightly("disk-of-a-megabyte-a-second", disk_of_a_megabyte_a_second),
    always("hanging-disk", hanging_disk),
    always("freeze-builder", |trial| freeze(trial, "bu1", 0)),
    nightly("freeze-manager", |trial| freeze(trial, "evm", 0)),
    always("freeze-output", |trial| freeze(trial, "out0", 2)),
    always("freeze-worker", freeze_worker),
    nightly("freeze-processor", freeze_processor),
    always("freeze-everything", freeze_everything),
    nightly("freeze-consumer", freeze_consumer),
    nightly("long-run-with-outputs", long_run_with_outputs),
];

/// Transports of runs in processes.
const TRANSPORTS: [&str; 2] = ["tcp", "shm"];

/// Returns a system of some seconds, over a random transport.
fn system(trial: &mut Trial) -> System {
    let mut system = System::new(trial.by_scale(12_000, 40_000));
    system.transport = trial.dice.pick(&TRANSPORTS);
    system
}

/// Ends the run and checks that it has lost nothing.
fn end(trial: &mut Trial, run: Run, system: &System) -> Result<Outcome> {
    let ended = run.end()?;
    let summary = trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    let quarantined = summary.map_or(0, |summary| number(&summary["counters"]["quarantined"]));
    if quarantined > 0 {
        trial.problem(format!("{quarantined} events are quarantined although no filter failed"));
    }
    Ok(Outcome::Done)
}

/// Compiles the filter that sleeps.
pub(super) fn sleeping_filter(trial: &Trial) -> Result<String> {
    let library = trial.directory.join("libsleeper.so");
    let source = trial.directory.join("sleeper.c");
    std::fs::write(&source, include_str!("../filter.c"))?;
    let include = workspace::root().join("crates/sheaf-capi/include");
    let words = [&include, &library, &source].map(|path| path.display().to_string());
    tool("cc", &["-O1", "-shared", "-fPIC", "-I", &words[0], "-o", &words[1], &words[2]])?;
    Ok(words[1].clone())
}

/// Returns a system with a filter that sleeps or computes for the same time for each event.
fn slow_system(trial: &mut Trial, workers: u64) -> Result<System> {
    let call_us = trial.dice.magnitude(100, trial.by_scale(100_000, 5_000_000));
    // Number of events that takes some seconds to judge, regardless of the speed of the rest.
    let computes = trial.dice.below(3) == 0 && call_us < 20_000;
    let total_us = trial.by_scale(4_000_000, 40_000_000) * if computes { 1 } else { 2 * workers.max(1) };
    let mut system = System::new((total_us / call_us).clamp(8, 12_000));
    system.processes = trial.dice.below(2) == 0;
    system.transport = if system.processes { trial.dice.pick(&TRANSPORTS) } else { "memory" };
    // Triggers as fast as the credit permits, as by default.
    system.rate_hz = 0;
    if computes {
        system.set("filter", format!("kind = \"busy\"\nbusy_us = {call_us}"));
    } else {
        let library = sleeping_filter(trial)?;
        let filter = format!("kind = \"library\"\npath = {library:?}\nparameters = \"1 0 {call_us}\"");
        system.set("filter", filter);
    }
    let how = if computes { "computes" } else { "sleeps" };
    trial.note(format!("the filter {how} for {call_us} us, {} events", system.events));
    Ok(system)
}

fn slow_filter(trial: &mut Trial) -> Result<Outcome> {
    let system = or_skip!(slow_system(trial, 0));
    let run = trial.start(&system)?;
    end(trial, run, &system)
}

fn slow_filter_in_workers(trial: &mut Trial) -> Result<Outcome> {
    let mut system = or_skip!(slow_system(trial, 2));
    system.set("filter", "workers = 2\ntime_limit_ms = 0");
    let run = trial.start(&system)?;
    end(trial, run, &system)
}

fn slow_filter_in_processes(trial: &mut Trial) -> Result<Outcome> {
    let mut system = or_skip!(slow_system(trial, 2));
    // The time limit is for a filter that hangs; it is far above the duration of a call.
    system.set("filter", "workers = 2\nprocesses = true\ntime_limit_ms = 60000\npatience_ms = 0");
    system.set("manager", "stop_timeout_ms = 180000");
    let run = trial.start(&system)?;
    end(trial, run, &system)
}

/// One of thousands of calls takes longer than any node's patience.
fn one_long_call(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    let call_us = trial.dice.between(5_000_000, trial.by_scale(8_000_000, 60_000_000));
    let event = trial.dice.below(system.events / 2);
    let library = or_skip!(sleeping_filter(trial));
    let parameters = format!("{} {event} {call_us}", system.events);
    let filter = format!("kind = \"library\"\npath = {library:?}\nparameters = {parameters:?}");
    system.set("filter", filter);
    trial.note(format!("judging event {event} takes {:.1} s", call_us as f64 / 1e6));
    let run = trial.start(&system)?;
    end(trial, run, &system)
}

fn busy_loops(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let count = trial.dice.between(4, 16);
    let loops = BusyLoops::start(count)?;
    trial.note(format!("{count} busy loops beside the run"));
    let run = trial.start(&system)?;
    let outcome = end(trial, run, &system);
    drop(loops);
    outcome
}

fn quota(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let percent = trial.dice.between(10, 50);
    let quota = or_skip!(Quota::new(&trial.mark, percent));
    let run = trial.start_below(&quota.prefix(), &system)?;
    let outcome = end(trial, run, &system)?;
    let throttled = quota.throttled();
    trial.note(format!("the run had {percent} % of a processor, and was throttled {throttled} times"));
    if throttled == 0 {
        trial.problem("the quota was never exhausted");
    }
    Ok(outcome)
}

/// Returns a system that writes to a disk that can be frozen.
fn on_disk(trial: &mut Trial) -> Result<(System, Disk)> {
    let mut system = system(trial);
    system.outputs = trial.dice.below(2);
    let disk = Disk::freezable(&trial.directory.join("image"), &trial.directory.join("disk"))?;
    trial.output = disk.path.join("runs");
    Ok((system, disk))
}

/// The disk works for a tenth of each second.
fn slow_disk(trial: &mut Trial) -> Result<Outcome> {
    let (mut system, mut disk) = or_skip!(on_disk(trial));
    system.set("output", "sync = \"fsync\"");
    let mut run = trial.start(&system)?;
    let mut halts = 0;
    while halts < trial.by_scale(5, 30) && run.reaches(halts * 3)? {
        disk.freeze()?;
        std::thread::sleep(Duration::from_millis(900));
        disk.thaw()?;
        std::thread::sleep(Duration::from_millis(100));
        halts += 1;
    }
    trial.note(format!("the disk was frozen {halts} times for 0.9 s"));
    end(trial, run, &system)
}

/// Bytes of event files that may be written in a second.
const DISK_RATE: f64 = 1e6;

/// The disk takes as many bytes as its rate permits, and is halted until it may take more.
fn disk_of_a_megabyte_a_second(trial: &mut Trial) -> Result<Outcome> {
    const STEP: u64 = 100_000;
    let (mut system, mut disk) = or_skip!(on_disk(trial));
    system.set("output", "sync = \"fsync\"");
    let total = system.stored_bytes();
    let mut run = trial.start(&system)?;
    run.reaches_part(1, total)?;
    let (start, mut halts) = (Instant::now(), 0_u64);
    while run.reaches_part((written(&trial.output) + STEP).min(total - STEP), total)? {
        disk.freeze()?;
        let bytes = written(&trial.output);
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let due = Duration::from_secs_f64(bytes as f64 / DISK_RATE);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        disk.thaw()?;
        halts += 1;
        if bytes + STEP >= total {
            break;
        }
    }
    let (took, megabytes) = (start.elapsed().as_secs_f64(), total / 1_000_000);
    trial.note(format!("the disk was halted {halts} times: {megabytes} MB in {took:.1} s"));
    end(trial, run, &system)
}

fn hanging_disk(trial: &mut Trial) -> Result<Outcome> {
    let (system, mut disk) = or_skip!(on_disk(trial));
    let mut run = trial.start(&system)?;
    let (percent, time) = (trial.moment(), trial.freeze_time());
    if trial.wait_for(&mut run, percent)? {
        disk.freeze()?;
        trial.note(format!("the disk was frozen for {:.1} s at {percent} %", time.as_secs_f64()));
        std::thread::sleep(time);
        disk.thaw()?;
    }
    end(trial, run, &system)
}

/// A node is stopped and continued.
fn freeze(trial: &mut Trial, node: &str, outputs: u64) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = outputs;
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    if trial.wait_for(&mut run, percent)?
        && let Some(victim) = run.node(node, 0)?
    {
        trial.freeze(&format!("{node} at {percent} %"), &[victim], time);
    }
    end(trial, run, &system)
}

fn freeze_worker(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 2\nprocesses = true\npatience_ms = 0");
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    if trial.wait_for(&mut run, percent)?
        && let Some(victim) = run.process(process::Process::is_processor)?
    {
        trial.freeze(&format!("a worker at {percent} %"), &[victim.id], time);
    }
    end(trial, run, &system)
}

/// A processor that was started by hand, beside the run's own workers, is stopped and continued.
fn freeze_processor(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.set("filter", "workers = 1\ndoor = true\npatience_ms = 0");
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    run.reaches(1)?;
    let processor = join_processor(trial)?;
    if trial.wait_for(&mut run, percent)? {
        trial.freeze(&format!("a processor at {percent} %"), &[processor.id()], time);
    }
    let outcome = end(trial, run, &system);
    drop(processor);
    outcome
}

/// All processes are stopped and continued, as when a virtual machine is migrated.
fn freeze_everything(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = trial.dice.below(2);
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    if trial.wait_for(&mut run, percent)? {
        let all: Vec<u32> = process::marked(&trial.mark).iter().map(|process| process.id).collect();
        trial.freeze(&format!("every process at {percent} %"), &all, time);
    }
    end(trial, run, &system)
}

/// A consumer that reads nothing does not delay the run.
fn freeze_consumer(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let (percent, time) = (trial.moment(), trial.freeze_time());
    let mut run = trial.start(&system)?;
    run.reaches(1)?;
    let output = crate::torture::run::run_directory(&trial.output)?.display().to_string();
    let consumer = trial.sheaf("consumer", &["tap", &output])?;
    if trial.wait_for(&mut run, percent)? {
        trial.freeze(&format!("a consumer at {percent} %"), &[consumer.id()], time);
    }
    let outcome = end(trial, run, &system).context("with a consumer");
    drop(consumer);
    outcome
}

/// A run without faults lasts longer than any timeout between nodes: live nodes are not given up.
fn long_run_with_outputs(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    system.outputs = 1;
    system.rate_hz = 500;
    system.events = trial.by_scale(25, 60) * system.rate_hz;
    let run = trial.start(&system)?;
    end(trial, run, &system)
}
