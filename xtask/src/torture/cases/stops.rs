//! A node hangs while a run is stopped, again and again, under one controller. Every stop ends within its limits and says what it has cut, no
//! process is left, and the next run begins.

use super::control::check_state;
use super::{Case, Outcome, always};
use crate::torture::controller::Controller;
use crate::torture::process::{self, signal};
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[always("freeze-at-stop", freeze_at_stop)];

/// `control.stop_timeout_ms` and `control.cut_timeout_ms`.
const LIMITS_MS: [u64; 2] = [300, 300];

/// Time beyond the limits that a busy machine may need to kill processes and to notice it.
const MARGIN_MS: u64 = 60_000;

const NODES: [&str; 6] = ["evm", "ru0", "ru1", "bu0", "bu1", "out0"];

fn freeze_at_stop(trial: &mut Trial) -> Result<Outcome> {
    let stops = trial.stops.unwrap_or_else(|| trial.by_scale(6, 100));
    let mut system = System::new(0);
    system.rate_hz = 2_000;
    system.outputs = 1;
    let [drain, cut] = LIMITS_MS;
    system.set("control", format!("stop_timeout_ms = {drain}\ncut_timeout_ms = {cut}"));
    let mut controller = Controller::begin(trial, &system)?;
    let (mut longest_ms, mut means) = (0, BTreeMap::<String, u64>::new());
    for stop in 1..=stops {
        controller.command("start", json!({}))?;
        let pause = trial.dice.magnitude(1, 300);
        std::thread::sleep(Duration::from_millis(pause));
        let victim = trial.dice.pick(&NODES);
        let of_case = process::marked(&trial.mark).into_iter();
        let mut nodes = of_case.filter(|process| process.node() == Some(victim));
        let node = nodes.next().with_context(|| format!("run {stop} has no process {victim}"))?;
        signal(node.id, "STOP")?;
        trial.tally.freezes += 1;
        let operation = controller.command("stop", json!({}))?;
        let took_ms =
            operation["ended_ms"].as_u64().unwrap_or(u64::MAX) - operation["began_ms"].as_u64().unwrap_or(0);
        longest_ms = longest_ms.max(took_ms);
        if took_ms > drain + cut + MARGIN_MS {
            trial.problem(format!("stop {stop} with a frozen {victim} took {took_ms} ms: {operation}"));
        }
        let state = check_state(trial, &controller, &["stop_cut", "killed", "run_failed"])?;
        check_cut(trial, &state, (stop, victim));
        let faults = state["faults"].as_array().into_iter().flatten();
        let used: Vec<&str> = faults.filter_map(|fault| fault["code"].as_str()).collect();
        *means.entry(used.join(" and ")).or_default() += 1;
        let left = process::marked(&trial.mark).len();
        if left > 1 {
            trial.problem(format!("{left} processes are left after stop {stop} with a frozen {victim}"));
        }
        controller.command("reset", json!({}))?;
        clean(trial, stop)?;
    }
    let means: Vec<_> = means.iter().map(|(faults, times)| format!("{times} times {faults}")).collect();
    trial.note(format!("{stops} stops, the longest took {longest_ms} ms; faults: {}", means.join(", ")));
    check_state(trial, &controller, &[])?;
    controller.end(trial)?;
    trial.collect_processes();
    Ok(Outcome::Done)
}

/// Checks that run control says which means ended the run, and what became of it.
fn check_cut(trial: &mut Trial, state: &Value, (stop, victim): (u64, &str)) {
    let last = &state["last_run"];
    if last["run"] != stop || last["good"] == true && last["text"].as_str().is_none_or(str::is_empty) {
        trial.problem(format!("after stop {stop} with a frozen {victim}, the last run is {last}"));
    }
    let faults = state["faults"].as_array().into_iter().flatten();
    let says_cut = faults.filter(|fault| fault["code"] == "stop_cut" || fault["code"] == "killed").count();
    if says_cut == 0 {
        trial.problem(format!("stop {stop} with a frozen {victim} does not say what it has cut: {state}"));
    }
}

/// Verifies a run, and removes its files so that many stops do not fill the disk.
fn clean(trial: &mut Trial, number: u64) -> Result<()> {
    let run = trial.run(number);
    let verify = std::process::Command::new(&trial.sheaf).args(["verify", "--json"]).arg(&run).output()?;
    let report: Value = serde_json::from_slice(&verify.stdout).unwrap_or_default();
    // A run that was killed was not closed, which is status 3.
    let is_read = verify.status.code().is_some_and(|code| code == 0 || code == 3);
    if !is_read || report["duplicates"] != 0 {
        trial.problem(format!("verify of run {number} ended with {}: {report}", verify.status));
    }
    for entry in std::fs::read_dir(&run)?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "sheaf") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
