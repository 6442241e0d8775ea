//! A long run at a steady rate in which a process is killed every ten seconds. Nothing is lost, and the surviving processes use no
//! more memory and descriptors at the end than at the beginning.

use super::{Case, Outcome, nightly};
use crate::torture::books::Promise;
use crate::torture::growth::{Growth, Sampler};
use crate::torture::process::{self, Process};
use crate::torture::run::Run;
use crate::torture::system::System;
use crate::torture::trial::Trial;
use anyhow::Result;

/// Name of the case that `--soak` runs.
pub(in crate::torture) const SOAK: &str = "soak";

pub(super) const CASES: &[Case] = &[nightly(SOAK, soak)];

const RATE_HZ: u64 = 10_000;

/// Number of triggers between two kills: ten seconds.
const TRIGGERS_PER_DEATH: u64 = 10 * RATE_HZ;

/// Prescale of the filter, so that the files of an hour are small enough to be checked event by event.
const KEPT_ONE_IN: u64 = 20;

/// Permitted growth of the memory in bytes per hour.
const GROWTH_MAX: f64 = 1e6;

/// Minimum length of a soak whose memory is judged: in a shorter one a single new page gives a steep slope.
const JUDGED_FROM_MINUTES: u64 = 30;

/// Processes that are killed, in turn. The other nodes live as long as the run.
const VICTIMS: [&str; 3] = ["bu0", "a worker", "out0"];

fn soak(trial: &mut Trial) -> Result<Outcome> {
    let minutes = trial.soak_minutes.unwrap_or(trial.by_scale(1, 10));
    let mut system = System::new(minutes * 60 * RATE_HZ);
    system.transport = trial.dice.pick(&["tcp", "shm"]);
    system.rate_hz = RATE_HZ;
    system.outputs = 2;
    system.fragment_bytes = 100;
    system.kept_one_in = KEPT_ONE_IN;
    system.set("filter", "workers = 1\nprocesses = true\npatience_ms = 0");
    trial.note(format!("{} triggers over {}", system.events, system.transport));
    let mut run = trial.start(&system)?;
    let sampler = Sampler::start(&trial.mark);
    let deaths = (system.events / TRIGGERS_PER_DEATH).saturating_sub(1);
    for death in 1..=deaths {
        if !run.reaches_part(death, deaths + 1)? {
            trial.problem(format!("the run ended before death {death} of {deaths}"));
            break;
        }
        kill(trial, &mut run, VICTIMS[death as usize % VICTIMS.len()])?;
    }
    let all = run.reaches_part(1, 1)?;
    let growth = sampler.end();
    trial.note(format!("killed {} processes", trial.tally.kills));
    if all {
        judge(trial, &growth, minutes);
    }
    let ended = run.end()?;
    trial.check(&ended, &Promise::nothing_lost().saying("it is restarted"), system.readouts)?;
    Ok(Outcome::Done)
}

fn kill(trial: &mut Trial, run: &mut Run, victim: &str) -> Result<()> {
    let process = run.process(|process: &Process| match victim {
        "a worker" => process.is_processor(),
        node => process.node() == Some(node),
    })?;
    if let Some(process) = process {
        process::signal(process.id, "KILL")?;
        trial.tally.kills += 1;
    }
    Ok(())
}

/// Records the memory and descriptors of each process, and growth as a problem.
fn judge(trial: &mut Trial, growth: &[Growth], minutes: u64) {
    for Growth { process, bytes_an_hour, bytes, descriptors: (first, last) } in growth {
        let megabytes = bytes / 1e6;
        let slope = bytes_an_hour / 1e6;
        trial.note(format!(
            "{process} uses {megabytes:.1} MB, {slope:+.2} MB/h, {first} to {last} descriptors"
        ));
        if minutes >= JUDGED_FROM_MINUTES && *bytes_an_hour > GROWTH_MAX {
            trial.problem(format!("the memory of {process} grows by {slope:.2} MB an hour"));
        }
        if last > first {
            trial.problem(format!("the descriptors of {process} grow from {first} to {last}"));
        }
    }
    if growth.is_empty() {
        trial.problem("no process survived the whole run");
    }
}
