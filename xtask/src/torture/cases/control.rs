//! The controller is killed, between commands and in the middle of them, and started again in the same directory. Its run goes on, and a command
//! that is sent again has one effect.

use super::{Case, Outcome, always};
use crate::torture::controller::Controller;
use crate::torture::records::LaunchLog;
use crate::torture::run::written;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    always("kill-controller", kill_in_run),
    always("kill-controller-in-commands", kill_in_commands),
    always("kill-controller-in-stop", kill_in_stop),
    always("kill-controller-in-sequence", kill_in_sequence),
];

/// Time after which a run that writes nothing is considered to hang. Much longer than any fault.
const WATCHDOG: Duration = Duration::from_mins(10);

/// Returns a configuration whose runs go on until they are stopped.
fn endless() -> System {
    let mut system = System::new(0);
    system.rate_hz = 2_000;
    system
}

/// Waits until the event files of all runs have grown by this many bytes.
fn wait_for_bytes(trial: &Trial, more: u64) -> Result<()> {
    let (before, began) = (written(&trial.output), Instant::now());
    while written(&trial.output) < before + more {
        ensure!(began.elapsed() < WATCHDOG, "the watchdog waited in vain until {more} bytes are written");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The controller dies several times in a run, and comes back after a while in which the run goes on without it.
fn kill_in_run(trial: &mut Trial) -> Result<Outcome> {
    let system = endless();
    let mut controller = Controller::begin(trial, &system)?;
    controller.command("start", json!({}))?;
    let kills = trial.by_scale(4, 40);
    for _ in 0..kills {
        let before = trial.dice.between(10_000, 1_000_000);
        wait_for_bytes(trial, before)?;
        controller.kill(trial)?;
        let meanwhile = trial.dice.magnitude(10_000, 2_000_000);
        wait_for_bytes(trial, meanwhile)?;
        controller.serve(trial)?;
        controller.wait_for("the run is reached", |state| state["state"] == "running")?;
    }
    controller.command("stop", json!({}))?;
    trial.note(format!("killed the controller {kills} times in a run"));
    check_state(trial, &controller, &[])?;
    controller.end(trial)?;
    trial.collect_processes();
    trial.check_numbers(1);
    trial.check_good(1, system.readouts)?;
    Ok(Outcome::Done)
}

/// The controller dies between each command and its answer. The client sends the command again, which has one effect.
fn kill_in_commands(trial: &mut Trial) -> Result<Outcome> {
    let system = endless();
    let mut controller = Controller::begin(trial, &system)?;
    let runs = trial.by_scale(3, 25);
    for _ in 0..runs {
        for command in ["configure", "start", "pause", "resume", "stop"] {
            let settings = if command == "configure" { json!({ "comment": "night" }) } else { json!({}) };
            let request = controller.request(command, settings);
            let after = Duration::from_micros(trial.dice.magnitude(1, 30_000));
            controller.ask_and_kill(trial, &request, after)?;
            controller.serve(trial)?;
            let operation = controller.carry_out(&request)?;
            if operation["result"] != "done" {
                trial
                    .problem(format!("`{command}` {after:?} before a kill was not carried out: {operation}"));
            }
            // The same name once more, after everything is done.
            let again = controller.ask(&request)?;
            if again["operation"]["id"] != operation["id"] {
                trial.problem(format!("`{command}` sent again is another operation: {again}"));
            }
            if command == "start" || command == "resume" {
                wait_for_bytes(trial, 20_000)?;
            }
        }
    }
    trial.note(format!("killed the controller in each of {} commands", 5 * runs));
    check_state(trial, &controller, &[])?;
    let launches: Vec<LaunchLog> = LaunchLog::all(controller.directory());
    controller.end(trial)?;
    trial.collect_processes();
    trial.check_numbers(runs);
    for run in 1..=runs {
        trial.check_good(run, system.readouts)?;
    }
    if launches.len() as u64 != runs.min(LaunchLog::KEPT) {
        trial.problem(format!("{} processes of runs were started for {runs} runs", launches.len()));
    }
    for LaunchLog { number, text } in launches {
        for (words, effects) in [("info: the run is paused: no triggers", 1), ("info: the run is resumed", 1)]
        {
            let found = text.matches(words).count();
            if found != effects {
                trial.problem(format!("launch {number} says `{words}` {found} times, expected {effects}"));
            }
        }
    }
    Ok(Outcome::Done)
}

/// The controller dies while a run is being stopped, which takes a while because its filter is slow.
fn kill_in_stop(trial: &mut Trial) -> Result<Outcome> {
    let mut system = endless();
    // Some 300 events are in flight, and take a second and a half.
    system.set("filter", "kind = \"busy\"\nbusy_us = 10000").set("builder", "slots = 64");
    system.set("trigger", "queue_events = 200");
    let mut controller = Controller::begin(trial, &system)?;
    let runs = trial.by_scale(3, 25);
    for _ in 0..runs {
        controller.command("start", json!({}))?;
        wait_for_bytes(trial, 5_000)?;
        let stop = controller.request("stop", json!({}));
        let after = Duration::from_millis(trial.dice.magnitude(1, 1_500));
        controller.ask_and_kill(trial, &stop, after)?;
        if trial.dice.below(2) == 0 {
            let pause = Duration::from_millis(trial.dice.magnitude(1, 3_000));
            std::thread::sleep(pause);
        }
        controller.serve(trial)?;
        let operation = controller.carry_out(&stop);
        let state = controller.wait_for("the run has ended", |state| state["state"] == "idle")?;
        // A run that ended before the request arrived cannot be stopped.
        if operation.is_err() && state["last_run"]["run"].is_null() {
            trial.problem(format!("a stop was neither carried out nor too late: {operation:?}"));
        }
    }
    trial.note(format!("killed the controller in {runs} stops"));
    check_state(trial, &controller, &[])?;
    controller.end(trial)?;
    trial.collect_processes();
    trial.check_numbers(runs);
    for run in 1..=runs {
        trial.check_good(run, system.readouts)?;
    }
    Ok(Outcome::Done)
}

/// The controller dies again and again while it makes the runs of a table. Each row is made once, with the number of triggers that it says.
fn kill_in_sequence(trial: &mut Trial) -> Result<Outcome> {
    let mut system = endless();
    system.rate_hz = 4_000;
    let mut controller = Controller::begin(trial, &system)?;
    let rows = trial.by_scale(5, 40);
    let events: Vec<u64> = (0..rows).map(|_| trial.dice.between(500, 6_000)).collect();
    let lines: String = events.iter().map(|events| format!("{events}\n")).collect();
    let request = controller.sequence(&format!("run.events\n{lines}"));
    let after = Duration::from_micros(trial.dice.magnitude(1, 30_000));
    controller.ask_and_kill(trial, &request, after)?;
    controller.serve(trial)?;
    controller.ask(&request)?;
    let mut kills = 1;
    loop {
        let pause = Duration::from_millis(trial.dice.magnitude(1, 3_000));
        std::thread::sleep(pause);
        let sequence = controller.state()?["sequence"].take();
        if sequence["state"] != "running" {
            break;
        }
        controller.kill(trial)?;
        kills += 1;
        controller.serve(trial)?;
    }
    trial.note(format!("killed the controller {kills} times in a sequence of {rows} runs"));
    controller.wait_for("the last run has ended", |state| state["state"] == "idle")?;
    let table = controller.get("/api/v1/sequence")?;
    if table["sequence"]["state"] != "ended" || table["sequence"]["done"] != rows {
        trial.problem(format!("the sequence was not made: {}", table["sequence"]));
    }
    for (row, events) in table["rows"].as_array().into_iter().flatten().zip(&events) {
        let is_done = row["state"] == "done" && row["triggers"] == *events && row["attempts"] == 1;
        if !is_done || row["run"] != row["row"] {
            trial.problem(format!("a row of {events} events was not made once: {row}"));
        }
    }
    check_state(trial, &controller, &[])?;
    controller.end(trial)?;
    trial.collect_processes();
    trial.check_numbers(rows);
    for run in 1..=rows {
        trial.check_good(run, system.readouts)?;
    }
    Ok(Outcome::Done)
}

/// Checks that there is no run, and no fault other than these.
pub(super) fn check_state(trial: &mut Trial, controller: &Controller, faults: &[&str]) -> Result<Value> {
    let state = controller.state()?;
    if state["state"] != "idle" {
        trial.problem(format!("run control is {} at the end", state["state"]));
    }
    for fault in state["faults"].as_array().into_iter().flatten() {
        if !faults.iter().any(|permitted| fault["code"] == *permitted) {
            trial.problem(format!("there is a fault: {fault}"));
        }
    }
    Ok(state)
}
