//! The cases: faults of a run, and the promises of the documentation.
//!
//! | module | cases |
//! |---|---|
//! | `slowness` | no process dies and something is slow: nothing may be lost |
//! | `resources` | disks, descriptors and memory that run out; strangers at the doors |
//! | `deaths` | a process is killed or asked to end: the run ends as documented |
//! | `standby` | the event manager or its standby is killed or frozen: nothing is lost |
//! | `mirrors` | a readout unit or its mirror is killed or frozen: nothing is lost |
//! | `programs` | programs that feed a run are killed or stopped: no fragment is lost or doubled |
//! | `control` | the controller is killed and started again: its run goes on, and commands have one effect |
//! | `culprits` | something makes dead time: the alarm names it, with a remedy that helps |
//! | `stops` | a node hangs while a run is stopped: each stop ends within its limits |
//! | `succession` | runs follow one another without a gap: each event is in exactly one, and there is no dead time |
//! | `agents` | agents are killed and stopped: their nodes come back in the same run, and what was lost is named |
//! | `database` | the database of runs cannot be used: runs are good, and their records come in later |
//! | `endurance` | a long run with a kill every ten seconds: memory and descriptors do not grow |

mod agents;
mod control;
mod culprits;
mod database;
mod deaths;
mod endurance;
mod mirrors;
mod programs;
mod resources;
mod slowness;
mod standby;
mod stops;
mod succession;

use super::run::{Run, run_directory};
use super::trial::Trial;
use anyhow::{Result, ensure};

/// One kind of fault.
#[derive(Debug)]
pub(super) struct Case {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// Whether the case runs for every change, and not only at night.
    pub(super) for_every_change: bool,
    /// Runs the case and records problems. An error means that the case could not be run or its result not be determined.
    pub(super) work: fn(&mut Trial) -> Result<Outcome>,
}

impl Case {
    /// Returns whether the case kills or stops processes.
    pub(super) fn hits_processes(&self) -> bool {
        ["kill-", "freeze-", "restart-"].iter().any(|begin| self.name.starts_with(begin))
    }
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The case was run. The problems of the trial tell whether it passed.
    Done,
    /// The case cannot be run on this machine, with the reason.
    Skipped(String),
}

/// Families of cases, in the order in which they are tried.
pub(super) const FAMILIES: [(&str, &[Case]); 13] = [
    ("slowness", slowness::CASES),
    ("resources", resources::CASES),
    ("deaths", deaths::CASES),
    ("standby", standby::CASES),
    ("mirrors", mirrors::CASES),
    ("programs", programs::CASES),
    ("control", control::CASES),
    ("culprits", culprits::CASES),
    ("stops", stops::CASES),
    ("succession", succession::CASES),
    ("agents", agents::CASES),
    ("database", database::CASES),
    ("endurance", endurance::CASES),
];

pub(super) use endurance::SOAK;

/// Returns a case for every change.
const fn always(name: &'static str, work: fn(&mut Trial) -> Result<Outcome>) -> Case {
    Case { name, for_every_change: true, work }
}

/// Returns a case for nightly runs.
const fn nightly(name: &'static str, work: fn(&mut Trial) -> Result<Outcome>) -> Case {
    Case { name, for_every_change: false, work }
}

/// Starts a processor, as by hand, that judges events of builder unit 0.
fn join_processor(trial: &Trial) -> Result<Run> {
    let door = run_directory(&trial.output)?.join("bu0.farm").display().to_string();
    let mut processor = trial.sheaf("processor", &["processor", "--join", &door, "--wait", "60"])?;
    ensure!(processor.says("judging events")?, "a processor could not join at {door}");
    Ok(processor)
}

/// Skips the case if a resource that it needs is not available.
macro_rules! or_skip {
    ($needed:expr) => {
        match $needed {
            Ok(needed) => needed,
            Err(reason) => return Ok($crate::torture::cases::Outcome::Skipped(format!("{reason:#}"))),
        }
    };
}
use or_skip;
