//! Resources of a run that are exhausted or fail: disk space, descriptors, memory. Also strangers at its doors.

use super::{Case, Outcome, always, nightly, or_skip};
use crate::torture::books::{Kept, Promise, Status};
use crate::torture::clients::{Strangers, doors};
use crate::torture::machine::Disk;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Result, ensure};
use std::net::TcpListener;

pub(super) const CASES: &[Case] = &[
    always("full-disk-that-is-cleared", full_disk_that_is_cleared),
    always("full-disk", full_disk),
    always("read-only-disk", read_only_disk),
    always("few-descriptors", few_descriptors),
    nightly("little-memory", little_memory),
    always("strangers", strangers),
];

/// Log message for a full disk.
const NO_ROOM: &str = "No space left on device";

/// Returns a system whose disk has room for half of the events.
fn on_small_disk(trial: &mut Trial) -> Result<(System, Disk, u64)> {
    let mut system = System::new(trial.by_scale(12_000, 40_000));
    system.outputs = trial.dice.below(3);
    system.fragment_bytes = 2_000;
    let mebibytes = (system.stored_bytes() >> 20) / 2;
    let disk = Disk::small(&trial.directory.join("disk"), mebibytes)?;
    trial.output = disk.path.join("runs");
    trial.note(format!("a disk of {mebibytes} MiB, {} output nodes", system.outputs));
    Ok((system, disk, mebibytes))
}

/// The run continues without loss once there is room again.
fn full_disk_that_is_cleared(trial: &mut Trial) -> Result<Outcome> {
    let (system, disk, mebibytes) = or_skip!(on_small_disk(trial));
    let mut run = trial.start(&system)?;
    if run.says(NO_ROOM)? {
        disk.resize(mebibytes * 4)?;
        trial.note("made room on the disk");
    } else {
        trial.problem("the run did not report the full disk");
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

/// The operator stops a run whose disk stays full. Stored events remain stored; the others are booked with a reason.
fn full_disk(trial: &mut Trial) -> Result<Outcome> {
    let (mut system, _disk, _) = or_skip!(on_small_disk(trial));
    system.set("manager", "stop_timeout_ms = 2000");
    let mut run = trial.start(&system)?;
    ensure!(run.says(NO_ROOM)?, "the run did not report the full disk");
    run.signal("INT")?;
    if run.says("a second Ctrl-C drops them")? {
        run.signal("INT")?;
    }
    let ended = run.end()?;
    let promise = Promise {
        status: Status::Codes(&[1, 3]),
        kept: Kept::ButDropped(&["stopped"]),
        verify: &[0],
        says: vec![NO_ROOM.to_owned()],
    };
    trial.check(&ended, &promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// A run that cannot write does not begin, and reports the path.
fn read_only_disk(trial: &mut Trial) -> Result<Outcome> {
    let (system, disk, _) = or_skip!(on_small_disk(trial));
    or_skip!(disk.make_read_only());
    let ended = trial.start(&system)?.end()?;
    trial.check_refusal(&ended, &["Read-only file system"]);
    Ok(Outcome::Done)
}

/// The run either has enough and loses nothing, or reports the scarce resource.
fn with_limit(trial: &mut Trial, limit: &str, words: &[&str]) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(4_000, 12_000));
    system.processes = trial.dice.below(2) == 0;
    system.transport = if system.processes { trial.dice.pick(&["tcp", "shm"]) } else { "memory" };
    system.readouts = trial.dice.between(2, 4);
    trial.note(format!("prlimit {limit}, over {}", system.transport));
    let run = trial.start_below(&["prlimit".to_owned(), limit.to_owned()], &system);
    let ended = or_skip!(run).end()?;
    if ended.status.success() {
        trial.note("the limit was sufficient");
        trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    } else {
        trial.check_refusal(&ended, words);
    }
    Ok(Outcome::Done)
}

fn few_descriptors(trial: &mut Trial) -> Result<Outcome> {
    let files = trial.dice.magnitude(8, 200);
    with_limit(trial, &format!("--nofile={files}"), &["Too many open files", "os error 24"])
}

fn little_memory(trial: &mut Trial) -> Result<Outcome> {
    let mebibytes = trial.dice.magnitude(100, 4_000);
    with_limit(trial, &format!("--as={}", mebibytes << 20), &["memory", "os error 12"])
}

/// Minimum number of calls by strangers before the run may end.
const CALLS: u64 = 200;

/// Garbage, slow writers and silent callers at every port and socket.
fn strangers(trial: &mut Trial) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(20_000, 100_000));
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system.set("filter", "workers = 1\ndoor = true\npatience_ms = 0");
    system.set("filter", format!("listen = \"127.0.0.1:{}\"", ports_in_a_row(2)?));
    system.set("consumers", format!("listen = \"127.0.0.1:{}\"", ports_in_a_row(2)?));
    let mut run = trial.start(&system)?;
    run.reaches(1)?;
    let doors = doors(&trial.mark);
    ensure!(!doors.is_empty(), "the run has no listening sockets");
    let strangers = Strangers::call(&doors, &mut trial.dice);
    run.reaches(90)?;
    let calls = strangers.calls();
    drop(strangers);
    trial.note(format!("{calls} calls at {} ports and sockets", doors.len()));
    if calls < CALLS {
        trial.problem(format!("only {calls} calls of strangers in the whole run"));
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost(), system.readouts)?;
    Ok(Outcome::Done)
}

/// Returns the first of `count` consecutive free ports.
fn ports_in_a_row(count: u16) -> Result<u16> {
    let listen = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let first = (0..1000).find_map(|_| {
        let first = listen(0)?.local_addr().ok()?.port();
        let row: Option<Vec<_>> = (0..count).map(|offset| listen(first.checked_add(offset)?)).collect();
        row.map(|_| first)
    });
    first.ok_or_else(|| anyhow::anyhow!("no {count} consecutive ports are free"))
}
