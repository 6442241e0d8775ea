//! The commands that were given to the process of a run: those that the controller has left in the directory of the launch, and signals.
//!
//! The process is the only one that writes the manifest while it lives. The controller writes down what was asked for before anything is
//! done, so that the process knows it, whether the controller lives or not.

use crate::arguments::RunArguments;
use crate::controlled::LaunchDirectory;
use crate::people;
use crate::signals::{Signal, Steering};
use sheaf_control::record::Goal;
use sheaf_control::{CommandLog, RunCommand};
use sheaf_wire::Timestamp;
use std::sync::{Mutex, PoisonError};

/// Returns a function that returns the commands so far of a run that began at this time. `since_ms` is when a controller asked for it to follow
/// another run in this process, in milliseconds since 1970: earlier commands are those of the other run.
pub(crate) fn given(
    arguments: &RunArguments,
    steering: &Steering,
    (began, since_ms): (Timestamp, Option<u64>),
) -> impl Fn() -> CommandLog + Send + Sync + use<> {
    let launch = arguments.control.controlled.clone().map(LaunchDirectory::new);
    let steering = steering.clone();
    // The commands that the controller has left, and the file that had them.
    let known = Mutex::new((CommandLog::default(), None));
    move || {
        let mut log = match &launch {
            Some(launch) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let (log, seen) = &mut *known;
                if let Some(changed) = launch.changed_commands(seen) {
                    *log = changed;
                    since_ms.into_iter().for_each(|since_ms| log.begin_at(since_ms));
                }
                log.clone()
            }
            None => {
                CommandLog { commands: vec![command((began.as_millis(), "sheaf run"), "start")], left_out: 0 }
            }
        };
        for Signal { at_ms, name, command: asked } in steering.signals() {
            let place = log.commands.partition_point(|known| known.at_ms <= at_ms);
            log.commands.insert(place, command((at_ms, name), asked));
        }
        log
    }
}

/// Returns a command of the user that this process belongs to.
fn command((at_ms, via): (u64, &str), name: &str) -> RunCommand {
    RunCommand {
        at_ms,
        by: people::user(),
        via: Some(via.to_owned()),
        command: name.to_owned(),
        target: None,
        comment: None,
        end: None,
        goal: Goal::None,
    }
}
