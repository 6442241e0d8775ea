//! The event manager has a standby, and either is killed or frozen. No event is lost or stored twice, and the books balance.

use super::{Case, Outcome, always, nightly};
use crate::torture::books::{Promise, number};
use crate::torture::process::signal;
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::Result;

pub(super) const CASES: &[Case] = &[
    always("kill-active-manager", kill_active),
    always("kill-standby-manager", kill_standby),
    nightly("freeze-active-manager", freeze_active),
    nightly("kill-voter-and-manager", kill_voter_and_active),
    nightly("kill-managers-in-turn", kill_in_turn),
    nightly("step-down-in-turn", step_down_in_turn),
];

/// Starts a run with a standby, and waits until the run is protected.
fn start(trial: &mut Trial, config: &str) -> Result<(Run, System)> {
    let mut system = System::new(trial.by_scale(16_000, 60_000));
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    // A standby that is slow on a busy machine is not struck off.
    system.set("manager", format!("standby = 1\nstandby_lag_ms = 60000\n{config}"));
    let mut run = trial.start(&system)?;
    if !run.says("has a standby")? {
        trial.problem("the run has no standby");
    }
    Ok((run, system))
}

fn check(trial: &mut Trial, run: Run, system: &System, promise: &Promise) -> Result<Outcome> {
    let ended = run.end()?;
    if let Some(summary) = trial.check(&ended, promise, system.readouts)? {
        let gap = number(&summary["ledger"]["time"]["dead_ns"]["take_over"]);
        let overs = number(&summary["trouble"]["take_overs"]);
        trial.note(format!("take-overs: {overs}, {} us without an event manager", gap / 1_000));
    }
    Ok(Outcome::Done)
}

/// Suspicion by silence takes longer than a busy machine may stop a process: only the kernel tells of the death.
fn kill_active(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 60000")?;
    let percent = trial.moment();
    trial.kill(&mut run, "evm", percent)?;
    check(trial, run, &system, &Promise::nothing_lost().saying("evm1 takes over from evm"))
}

fn kill_standby(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 60000")?;
    let percent = trial.moment();
    trial.kill(&mut run, "evm1", percent)?;
    check(trial, run, &system, &Promise::nothing_lost().saying("the run goes on without a standby"))
}

fn freeze_active(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 500")?;
    let percent = trial.moment();
    if trial.wait_for(&mut run, percent)?
        && let Some(active) = run.node("evm", 0)?
    {
        let time = trial.freeze_time();
        trial.freeze("evm", &[active], time);
    }
    check(trial, run, &system, &Promise::nothing_lost())
}

/// A voter that was started again has forgotten its votes, and gets them back from the others.
fn kill_voter_and_active(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 60000")?;
    let percent = trial.dice.between(5, 45);
    let killed = trial.kill(&mut run, "bu0", percent)?;
    run.node("bu0", killed)?;
    let percent = trial.dice.between(50, 90);
    trial.kill(&mut run, "evm", percent)?;
    check(trial, run, &system, &Promise::nothing_lost().saying("evm1 takes over from evm"))
}

/// Each replica that is killed joins again before the next one is killed.
fn kill_in_turn(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 60000")?;
    let kills = trial.by_scale(3, 12);
    for (kill, percent) in (1..).zip(trial.moments(kills)) {
        let active = if kill % 2 == 1 { "evm" } else { "evm1" };
        trial.kill(&mut run, active, percent)?;
        if !run.says_times("has a standby again", kill)? {
            break;
        }
    }
    check(trial, run, &system, &Promise::nothing_lost().saying("evm1 takes over from evm"))
}

/// Each replica that has stepped down joins again before the next one does.
fn step_down_in_turn(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, "suspect_after_ms = 60000")?;
    let times = trial.by_scale(3, 12);
    for (time, percent) in (1..).zip(trial.moments(times)) {
        let active = if time % 2 == 1 { "evm" } else { "evm1" };
        if !trial.wait_for(&mut run, percent)? {
            break;
        }
        let Some(process) = run.node(active, 0)? else { break };
        signal(process, "USR2")?;
        if !run.says_times("has a standby again", time)? {
            break;
        }
    }
    check(trial, run, &system, &Promise::nothing_lost().saying("evm has stepped down, and evm1 takes over"))
}
