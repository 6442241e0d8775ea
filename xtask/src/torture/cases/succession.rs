//! Runs that follow one another without a gap, in processes that stay: each event is in exactly one run, and there is no dead time between
//! them.
//!
//! Short runs end before the next one is asked for, while it is prepared, and after that: which of them is a matter of chance.

use super::{Case, Outcome, always};
use crate::torture::books::{Promise, number};
use crate::torture::process::{self, signal};
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[always("short-runs", short_runs), always("kill-in-short-runs", kills)];

/// Nodes whose death costs no event.
const VICTIMS: [&str; 3] = ["bu0", "bu1", "out0"];

/// Returns a system whose runs have this many events, and the number of runs.
fn system(trial: &mut Trial, events: u64) -> (System, u64) {
    let runs = trial.switches.map_or_else(|| trial.by_scale(30, 300), |switches| switches + 1);
    let mut system = System::new(events);
    system.rate_hz = 1_000;
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system.outputs = trial.dice.below(2);
    system.set("run", format!("number = 1\ncontinuous = true\nruns = {runs}"));
    trial.note(format!("{runs} runs of {events} events over {}", system.transport));
    (system, runs)
}

fn short_runs(trial: &mut Trial) -> Result<Outcome> {
    let events = trial.dice.magnitude(1, 100);
    let (system, runs) = system(trial, events);
    let run = trial.start(&system)?;
    end(trial, run, (runs, events))
}

/// Nodes are killed again and again, also while they hand over and while they prepare the next run.
fn kills(trial: &mut Trial) -> Result<Outcome> {
    let events = trial.dice.between(100, 200);
    let (system, runs) = system(trial, events);
    let mut run = trial.start(&system)?;
    run.expect_bytes(runs * system.stored_bytes());
    // A kill in every fourth run: a node that dies too often is given up, as in a longer run.
    let kills = runs / 4;
    for kill in 1..=kills {
        if !run.reaches_part(kill, kills + 1)? {
            break;
        }
        let pause = trial.dice.magnitude(1, 200);
        std::thread::sleep(Duration::from_millis(pause));
        let victim = trial.dice.pick(&VICTIMS);
        let mut of_case = process::marked(&trial.mark).into_iter();
        // It may be absent, because it is being started again.
        if let Some(node) = of_case.rfind(|process| process.node() == Some(victim)) {
            let _ = signal(node.id, "KILL");
            trial.tally.kills += 1;
        }
    }
    end(trial, run, (runs, events))
}

/// Waits for the end of the command, and checks what it leaves: each of `runs` runs with this many events.
fn end(trial: &mut Trial, run: Run, (runs, events): (u64, u64)) -> Result<Outcome> {
    let ended = run.end()?;
    if !ended.status.success() {
        trial.problem(format!("the runs ended with {}: {}", ended.status, ended.stderr));
    }
    check_runs(trial, runs, events)?;
    Ok(Outcome::Done)
}

/// Checks the files, the books and the times of all runs.
fn check_runs(trial: &mut Trial, runs: u64, events: u64) -> Result<()> {
    let found = trial.runs();
    if found != (1..=runs).collect() {
        trial.problem(format!("there are the runs {found:?}, and not 1 to {runs}"));
    }
    // The end of the run before, and the next event.
    let (mut ended_ns, mut next_event) = (None, 0);
    for run in found {
        let directory = trial.run(run);
        let verify = trial.verify(&directory, &Promise::nothing_lost())?;
        if verify["ids"] != json!({ "first": next_event, "last": next_event + events - 1 })
            || verify["ids_absent"] != 0
            || verify["events_incomplete"] != 0
        {
            trial.problem(format!("run {run} should have {events} events from {next_event}: {verify}"));
        }
        next_event += events;
        let record = std::fs::read_to_string(directory.join("run.json"));
        let record = record.with_context(|| format!("run {run} has no record"))?;
        let record: Value = serde_json::from_str(&record)?;
        ended_ns = check_books(trial, &record, (run, events), ended_ns);
    }
    Ok(())
}

/// Checks the books of a run that began when the one before ended. Returns when this one ended.
fn check_books(
    trial: &mut Trial,
    record: &Value,
    (run, events): (u64, u64),
    began_ns: Option<u64>,
) -> Option<u64> {
    let ledger = &record["ledger"];
    let is_kept = ledger["stored"] == events && ledger["triggers"] == events && ledger["balanced"] == true;
    trial.tally.lost += events.saturating_sub(number(&ledger["stored"]));
    let time = &ledger["time"];
    let has_dead_time = time["dead_ns"].as_object().is_none_or(|causes| !causes.is_empty());
    let follows = began_ns.is_none_or(|began_ns| time["started_ns"] == began_ns);
    if !is_kept || has_dead_time || !follows || record["end"]["good"] != true {
        let gap = if follows { "" } else { ", and did not begin when the run before ended" };
        trial
            .problem(format!("run {run} lost events, has dead time, or is not good{gap}: {}", record["end"]));
        trial.problem(format!("its books: {ledger}"));
    }
    time["triggers_ended_ns"].as_u64()
}
