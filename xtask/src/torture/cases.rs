//! The cases: what is done to a run, and what the documentation promises of it.
//!
//! | module | cases |
//! |---|---|
//! | `slowness` | everybody lives and something is slow: nothing may be lost |
//! | `resources` | disks, descriptors and memory that run out; strangers at the doors |
//! | `deaths` | somebody is killed, or asked to end: the run ends as the pages on operating say |
//! | `endurance` | a long run with a death every ten seconds: memory and descriptors do not grow |

mod deaths;
mod endurance;
mod resources;
mod slowness;

use super::run::{Run, run_directory};
use super::trial::Trial;
use anyhow::{Result, ensure};

/// One kind of fault.
#[derive(Debug)]
pub(super) struct Case {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Whether it is tried for every change, and not only at night.
    pub(super) for_every_change: bool,
    /// Does it, and takes note of what is wrong. An error: it could not be done, or nothing can be said of it.
    pub(super) work: fn(&mut Trial) -> Result<Outcome>,
}

impl Case {
    /// Returns whether it kills or stops processes.
    pub(super) fn hits_processes(&self) -> bool {
        ["kill-", "freeze-", "restart-"].iter().any(|begin| self.name.starts_with(begin))
    }
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was done; whether all is well is in the problems of the trial.
    Done,
    /// It cannot be done on this machine, and why.
    Skipped(String),
}

/// Families of cases, in the order in which they are tried.
pub(super) const FAMILIES: [(&str, &[Case]); 4] = [
    ("slowness", slowness::CASES),
    ("resources", resources::CASES),
    ("deaths", deaths::CASES),
    ("endurance", endurance::CASES),
];

pub(super) use endurance::SOAK;

/// A case for every change.
const fn always(name: &'static str, work: fn(&mut Trial) -> Result<Outcome>) -> Case {
    Case { name, for_every_change: true, work }
}

/// A case for the night.
const fn nightly(name: &'static str, work: fn(&mut Trial) -> Result<Outcome>) -> Case {
    Case { name, for_every_change: false, work }
}

/// Starts a processor by hand that judges events of builder unit 0.
fn join_processor(trial: &Trial) -> Result<Run> {
    let door = run_directory(&trial.output)?.join("bu0.farm").display().to_string();
    let mut processor = trial.sheaf("processor", &["processor", "--join", &door, "--wait", "60"])?;
    ensure!(processor.says("judging events")?, "a processor could not join at {door}");
    Ok(processor)
}

/// Skips the case where what it needs cannot be had.
macro_rules! or_skip {
    ($needed:expr) => {
        match $needed {
            Ok(needed) => needed,
            Err(reason) => return Ok($crate::torture::cases::Outcome::Skipped(format!("{reason:#}"))),
        }
    };
}
use or_skip;
