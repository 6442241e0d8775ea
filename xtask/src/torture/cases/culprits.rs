//! Something makes dead time, and the alarm about it must name what, with a remedy that helps.
//!
//! Nobody dies here, and how long the alarm takes depends on the machine. So a case waits for the alarm, gives it some further states of
//! the run, and looks at what it says then.

use super::slowness::sleeping_filter;
use super::{Case, Outcome, agents, always, or_skip};
use crate::torture::controller::Controller;
use crate::torture::machine::{Disk, Hosts};
use crate::torture::process::{self, signal};
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    always("culprit-source", slow_source),
    always("culprit-readout", slow_readout),
    always("culprit-filter", slow_filter),
    always("culprit-slots", few_slots),
    always("culprit-disk", slow_disk),
    always("culprit-cable", lossy_cable),
];

/// States of the run between the alarm and the look at it: two seconds at their ordinary rate.
const STATES: u64 = 20;

/// Time after which the alarm is considered not to come.
const WATCHDOG: Duration = Duration::from_mins(5);

/// Part of each period in which something is stopped, and the rest, in which it works.
const STOPPED: Duration = Duration::from_millis(900);
const WORKS: Duration = Duration::from_millis(50);

/// Parts of the alarm that must be there.
struct Expected {
    /// Names of which the alarm must give one; none if it must name nothing.
    culprits: &'static [&'static str],
    /// Words of the text and of the remedy.
    text: &'static str,
    remedy: &'static str,
}

/// Returns a system at a rate that it takes without dead time if nothing is slow.
fn system(trial: &mut Trial) -> System {
    let mut system = System::new(0);
    system.rate_hz = trial.dice.between(1_000, 2_000);
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    // Room for less than a tenth of a second, so that everything that is slow makes dead time.
    system.set("builder", format!("slots = {}", 2 * QUEUE_EVENTS));
    system.set("trigger", format!("queue_events = {QUEUE_EVENTS}"));
    system
}

/// Triggers that wait for a builder unit, at most.
const QUEUE_EVENTS: u64 = 32;

/// Starts a run, makes something slow with `injure` for as long as its argument is false, and compares the alarm about dead time.
fn compare(
    trial: &mut Trial,
    configuration: &str,
    expected: &Expected,
    injure: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<Outcome> {
    let controller = Controller::begin_with(trial, configuration)?;
    compare_by(trial, controller, expected, injure)
}

/// Does the same with a controller that has begun.
fn compare_by(
    trial: &mut Trial,
    mut controller: Controller,
    expected: &Expected,
    injure: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<Outcome> {
    controller.command("start", json!({}))?;
    let is_over = AtomicBool::new(false);
    let alarm = std::thread::scope(|scope| {
        let injury = scope.spawn(|| injure(&is_over));
        let alarm = alarm_of(&controller);
        is_over.store(true, Ordering::Relaxed);
        injury.join().map_err(|_| anyhow::anyhow!("the thread that makes something slow panicked"))??;
        alarm
    })?;
    let (text, remedy) = (text_of(&alarm["text"]), text_of(&alarm["remedy"]));
    trial.note(format!("the alarm says: {text}; culprit {}; {remedy}", alarm["culprit"]));
    let is_named = match alarm["culprit"].as_str() {
        Some(culprit) => expected.culprits.contains(&culprit),
        None => expected.culprits.is_empty(),
    };
    let is_right = is_named && text.contains(expected.text) && remedy.contains(expected.remedy);
    if !is_right {
        let Expected { culprits, text, remedy } = expected;
        trial.problem(format!(
            "the alarm should name one of {culprits:?} with `{text}` and the remedy `{remedy}`, and is {alarm}"
        ));
    }
    controller.command("stop", json!({}))?;
    controller.end(trial)?;
    Ok(Outcome::Done)
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits for the alarm about dead time, and returns it as it is some states later.
fn alarm_of(controller: &Controller) -> Result<Value> {
    let began = Instant::now();
    let mut since = None;
    loop {
        let state = controller.get("/api/v1/state")?;
        let revision = state["revision"].as_u64().context("a state has a number")?;
        let mut alarms = state["alarms"].as_array().into_iter().flatten();
        match alarms.find(|alarm| alarm["code"] == "dead-time") {
            Some(alarm) if since.is_some_and(|since| revision >= since + STATES) => return Ok(alarm.clone()),
            Some(_) => since = since.or(Some(revision)),
            None => since = None,
        }
        ensure!(began.elapsed() < WATCHDOG, "there is no lasting alarm about dead time: {state}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Calls `halt(true)` to stop something and `halt(false)` to resume it, so that it is stopped for most of the time.
fn slow(is_over: &AtomicBool, mut halt: impl FnMut(bool) -> Result<()>) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        halt(true)?;
        std::thread::sleep(STOPPED);
        halt(false)?;
        std::thread::sleep(WORKS);
    }
    Ok(())
}

/// Stops a process for most of the time.
fn slow_process(id: u32, is_over: &AtomicBool) -> Result<()> {
    slow(is_over, |stops| signal(id, if stops { "STOP" } else { "CONT" }))
}

/// Returns the process of a node, once there is one.
fn process_of(mark: &str, node: &str) -> Result<u32> {
    let began = Instant::now();
    loop {
        if let Some(process) = process::marked(mark).into_iter().find(|process| process.node() == Some(node))
        {
            return Ok(process.id);
        }
        ensure!(began.elapsed() < WATCHDOG, "there is no process of {node}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program of one of two sources works for a twentieth of the time.
fn slow_source(trial: &mut Trial) -> Result<Outcome> {
    let configuration = format!(
        "[run]\noutput = {:?}\nduration_s = 0\n[source]\nkind = \"feed\"\ncount = 2\n[source.feed]\nwindow_fragments = 64\n\
         [readout]\nbuffer_bytes = 65536\n[builder]\ncount = 2\nslots = {}\n[trigger]\nmode = \"command\"\nqueue_events = {}\n\
         [trigger.network]\nmax_rate_hz = 5000\n[trigger.command]\ncommand = [{:?}, \"emulate-trigger\", \"--rate\", \"{}\"]\n\
         [output]\nkeep_free_bytes = 0\n",
        trial.output,
        2 * QUEUE_EVENTS,
        QUEUE_EVENTS,
        trial.sheaf,
        trial.dice.between(3_000, 4_500),
    );
    let mut programs = Vec::new();
    let victim = trial.dice.below(2);
    let expected = Expected {
        culprits: if victim == 1 { &["1"] } else { &["0"] },
        text: "events wait for source",
        remedy: "front end",
    };
    for source in 0..2 {
        programs.push(feeder(trial, source)?);
    }
    let id = programs[usize::from(victim == 1)].id();
    let outcome = compare(trial, &configuration, &expected, |is_over| slow_process(id, is_over));
    for program in programs {
        // It waits for more of the run, which has ended.
        let _ = program.signal("KILL");
        program.end()?;
    }
    outcome
}

/// Starts a program that feeds the source of a readout unit as fast as it is taken.
fn feeder(trial: &Trial, source: u64) -> Result<Run> {
    let assignment = json!({
        "address": trial.output.join(format!("ru{source}.feed")).display().to_string(),
        "sources": [source],
        "bytes": 100,
        "batch": 16,
        "checksum": false,
        "keep": true,
        "in_place": false,
        "events": 1_000_000_000_u64,
    });
    trial.sheaf(&format!("program{source}"), &["bench", "feeder", &assignment.to_string()])
}

/// A readout unit works for a twentieth of the time.
fn slow_readout(trial: &mut Trial) -> Result<Outcome> {
    let system = system(trial);
    let victim = trial.dice.pick(&["ru0", "ru1"]);
    let culprits: &[&str] = if victim == "ru0" { &["ru0"] } else { &["ru1"] };
    let expected = Expected { culprits, text: "events wait for fragments of", remedy: "its host" };
    let mark = trial.mark.clone();
    let configuration = system.to_toml(&trial.output);
    compare(trial, &configuration, &expected, |is_over| slow_process(process_of(&mark, victim)?, is_over))
}

/// The filters of both builder units take longer than the triggers leave.
fn slow_filter(trial: &mut Trial) -> Result<Outcome> {
    let mut system = system(trial);
    let call_us = trial.dice.between(4_000, 20_000);
    let library = or_skip!(sleeping_filter(trial));
    system.set("filter", format!("kind = \"library\"\npath = {library:?}\nparameters = \"1 0 {call_us}\""));
    trial.note(format!("each call of the filter takes {call_us} us"));
    let expected = Expected { culprits: &[], text: "events wait for the filter", remedy: "filter workers" };
    let configuration = system.to_toml(&trial.output);
    compare(trial, &configuration, &expected, |_| Ok(()))
}

/// Builder units have room for one event each.
fn few_slots(trial: &mut Trial) -> Result<Outcome> {
    let mut system = System::new(0);
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system.rate_hz = 50_000;
    system.set("builder", "slots = 1\nreport_events = 1").set("manager", "batch_events = 1");
    let expected = Expected { culprits: &[], text: "too few slots", remedy: "raise `builder.slots`" };
    let configuration = system.to_toml(&trial.output);
    compare(trial, &configuration, &expected, |_| Ok(()))
}

/// The disk works for a twentieth of the time, and events wait until they are on it.
fn slow_disk(trial: &mut Trial) -> Result<Outcome> {
    let mut disk = or_skip!(Disk::freezable(&trial.directory.join("image"), &trial.directory.join("disk")));
    trial.output = disk.path.join("runs");
    let mut system = system(trial);
    system.set("output", "sync = \"fsync\"");
    let expected = Expected { culprits: &[], text: "the output of builders is behind", remedy: "the disk" };
    let configuration = system.to_toml(&trial.output);
    compare(trial, &configuration, &expected, |is_over| {
        slow(is_over, |stops| if stops { disk.freeze() } else { disk.thaw() })
    })
}

/// Payload of a fragment of which the cable would have to pass more than it can.
const LARGE_FRAGMENT: u64 = 2_000;

/// Rate of the cable, in megabits a second. Fragments alone need 16 to 32.
const CABLE_MEGABITS: u64 = 10;
const GOOD_CABLE_MEGABITS: u64 = 10_000;

/// The host of a readout unit has a bad cable: it is slow and loses packets. An agent starts that readout unit.
fn lossy_cable(trial: &mut Trial) -> Result<Outcome> {
    let hosts = or_skip!(Hosts::new(&trial.mark));
    // At first it is good. A kernel without this kind of queue has no bad cable either.
    or_skip!(hosts.spoil(GOOD_CABLE_MEGABITS));
    let mut system = system(trial);
    (system.transport, system.fragment_bytes) = ("tcp", LARGE_FRAGMENT);
    agents::write_key(trial)?;
    system.set("agents", "key_file = \"agents.key\"");
    let mut configuration = system.to_toml(&trial.output).replace("count = 2\n", "");
    let agent = SocketAddr::from((Hosts::FAR, 7000)).to_string();
    let nodes =
        [("evm", "manager"), ("ru0", "readout"), ("ru1", "readout"), ("bu0", "builder"), ("bu1", "builder")];
    for ((name, role), port) in nodes.into_iter().zip(7001..) {
        let (host, started_by) = match name {
            "ru1" => (Hosts::FAR, Some(&*agent)),
            _ => (Hosts::NEAR, None),
        };
        let address = SocketAddr::from((host, port)).to_string();
        configuration += &agents::node(name, role, &address, started_by);
    }
    let program = agents::begin(trial, &hosts.far().prefix(), &agent, 1)?;
    let controller = Controller::begin_on(trial, &configuration, Some(hosts.near().clone()))?;
    // TCP does not share a cable that loses packets fairly: for some time one builder unit may get nearly nothing, and only it waits.
    let culprits = &["ru1", "ru1-bu0", "ru1-bu1"];
    let expected = Expected { culprits, text: "wait for fragments of ru1", remedy: "port" };
    let outcome = compare_by(trial, controller, &expected, |_| hosts.spoil(CABLE_MEGABITS));
    let lost = hosts.lost()?;
    trial.note(format!("the cable has lost {lost} packets"));
    program.signal("TERM")?;
    program.end()?;
    outcome
}
