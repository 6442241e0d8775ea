//! Readout units have mirrors, and either of the two is killed or frozen. No fragment is lost, no event is stored twice, and the books
//! balance.

use super::{Case, Outcome, always, nightly};
use crate::torture::books::Promise;
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::Result;

pub(super) const CASES: &[Case] = &[
    always("kill-mirrored-readout", kill_each_unit),
    nightly("kill-mirror", kill_mirror),
    nightly("freeze-mirrored-readout", freeze_unit),
    nightly("kill-mirrored-readouts-and-manager", kill_units_and_manager),
];

/// Starts a run with mirrors, and waits until each readout unit is protected.
fn start(trial: &mut Trial, readouts: u64, suspicion_ms: u64) -> Result<(Run, System)> {
    let system = System::new(trial.by_scale(16_000, 60_000));
    start_system(trial, system, (readouts, suspicion_ms))
}

fn start_system(
    trial: &mut Trial,
    mut system: System,
    (readouts, suspicion_ms): (u64, u64),
) -> Result<(Run, System)> {
    system.readouts = readouts;
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    // A mirror that is slow on a busy machine is not struck off.
    system.set(
        "readout",
        format!("protect = \"mirror\"\nmirror_lag_ms = 60000\nsuspect_after_ms = {suspicion_ms}"),
    );
    let mut run = trial.start(&system)?;
    for unit in 0..readouts {
        if !run.says(&format!("ru{unit} has a mirror"))? {
            trial.problem(format!("ru{unit} has no mirror"));
        }
    }
    Ok((run, system))
}

fn check(trial: &mut Trial, run: Run, system: &System, promise: &Promise) -> Result<Outcome> {
    let ended = run.end()?;
    trial.check(&ended, promise, system.readouts)?;
    Ok(Outcome::Done)
}

/// Kills all readout units, one after another. Suspicion by silence takes longer than a busy machine may stop a process: only the kernel
/// tells of the death.
fn kill_each_unit(trial: &mut Trial) -> Result<Outcome> {
    let readouts = trial.by_scale(2, 8);
    let (mut run, system) = start(trial, readouts, 60_000)?;
    let moments = trial.moments(readouts);
    for (unit, percent) in (0..readouts).zip(moments) {
        trial.kill(&mut run, &format!("ru{unit}"), percent)?;
    }
    let last = format!("mir{} acts for ru{}", readouts - 1, readouts - 1);
    check(trial, run, &system, &Promise::nothing_lost().saying(&last))
}

fn kill_mirror(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, 2, 60_000)?;
    let percent = trial.moment();
    trial.kill(&mut run, "mir0", percent)?;
    check(trial, run, &system, &Promise::nothing_lost().saying("ru0 goes on without mir0"))
}

fn freeze_unit(trial: &mut Trial) -> Result<Outcome> {
    let (mut run, system) = start(trial, 2, 500)?;
    let percent = trial.moment();
    if trial.wait_for(&mut run, percent)?
        && let Some(unit) = run.node("ru0", 0)?
    {
        let time = trial.freeze_time();
        trial.freeze("ru0", &[unit], time);
    }
    check(trial, run, &system, &Promise::nothing_lost())
}

/// The units vote on which event manager is active, and their mirrors vote after them.
fn kill_units_and_manager(trial: &mut Trial) -> Result<Outcome> {
    let mut system = System::new(trial.by_scale(16_000, 60_000));
    system.set("manager", "standby = 1\nstandby_lag_ms = 60000\nsuspect_after_ms = 60000".to_owned());
    let (mut run, system) = start_system(trial, system, (2, 60_000))?;
    if !run.says("evm has a standby")? {
        trial.problem("the run has no standby");
    }
    let moments = trial.moments(4);
    for (unit, percent) in (0..2).zip(&moments) {
        trial.kill(&mut run, &format!("ru{unit}"), *percent)?;
        run.says(&format!("mir{unit} acts for ru{unit}"))?;
    }
    trial.kill(&mut run, "evm", moments[2])?;
    if run.says("evm1 has a standby again")? {
        trial.kill(&mut run, "evm1", moments[3])?;
    }
    check(trial, run, &system, &Promise::nothing_lost().saying("evm1 takes over from evm"))
}
