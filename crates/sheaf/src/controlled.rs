//! `sheaf run` under a controller: the run follows its orders, and tells it what it is doing.
//!
//! The process listens at a socket in the directory of its launch. A controller that dies leaves it alone; the next one calls again. At
//! the end the process writes its result into a file, for a controller that is not there at that moment.

mod directory;
mod line;
mod station;
mod switching;

use crate::Verdict;
use crate::arguments::RunArguments;
use crate::excluding::Excludables;
use crate::page::Page;
use crate::plan::triggers_of;
use crate::signals::Steering;
use crate::summary::headline;
use anyhow::Context as _;
use sheaf_config::Config;
use sheaf_control::{Exclusions, RunResult};
use sheaf_monitor::RunVerdict;
use sheaf_node::RunControls;
use std::sync::Arc;

pub(crate) use directory::LaunchDirectory;
pub(crate) use line::{Ended, Line};
use station::{Impossible, Station};
pub(crate) use switching::Switching;

/// The end of run control in the process of a run.
pub(crate) struct Controlled {
    directory: LaunchDirectory,
    station: Arc<Station>,
    page: Page,
}

impl Controlled {
    /// Begins to listen for controllers. The process becomes the leader of a session, so that all of its nodes can be found.
    pub(crate) fn open(arguments: &RunArguments, steering: &Steering) -> anyhow::Result<Option<Self>> {
        let Some(path) = &arguments.control.controlled else { return Ok(None) };
        // It fails where the process leads a session already.
        let _ = rustix::process::setsid();
        let directory = LaunchDirectory::new(path.clone());
        directory.note_process().context("cannot note this process for its controller")?;
        let listener = directory.listen().context("cannot listen for a controller")?;
        let mut exclusions = Exclusions::default();
        for text in &arguments.exclude {
            // The controller names sources by number, and nodes by name.
            match text.parse() {
                Ok(source) => drop(exclusions.sources.insert(source)),
                Err(_) => drop(exclusions.nodes.insert(text.clone())),
            }
        }
        let station = Station::begin(listener, steering.clone(), arguments.control.held, exclusions)?;
        let page = Page::to(station.clone());
        Ok(Some(Self { directory, station, page }))
    }

    /// Who sees the runs of this process.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// Requests of the controller to the event manager.
    pub(crate) fn controls(&self) -> &Arc<RunControls> {
        self.station.controls()
    }

    /// Returns the requests of the controller for the next run.
    pub(crate) fn switching(&self) -> &Switching {
        self.station.switching()
    }

    /// Tells the controller what it has to know of the configuration. `has_processes` tells whether each node is a process, `no_switch` why no
    /// run can follow another one without a gap.
    pub(crate) fn note_configuration(
        &self,
        config: &Config,
        has_processes: bool,
        no_switch: Option<String>,
    ) -> anyhow::Result<()> {
        let why = "its triggers come from its data, and its readout units would stop at different events";
        let no_pause = (!triggers_of(config.trigger.mode).can_pause()).then(|| why.to_owned());
        let threads = "they are threads of one process (`sheaf serve --processes`)";
        let no_recover = (!has_processes).then(|| threads.to_owned());
        let impossible = Impossible { no_pause, no_recover, no_switch };
        self.station.note_configuration(Excludables::of(config)?, impossible);
        Ok(())
    }

    /// Leaves the result of the run for the controller.
    pub(crate) fn close(self, outcome: &anyhow::Result<Verdict>) -> anyhow::Result<()> {
        let told = self.station.told_of_end();
        let verdict: Option<&RunVerdict> = told.verdict.as_ref();
        let text = match outcome {
            Err(error) => with_reason(told.why.as_deref(), &crate::describe(error)),
            Ok(_) => {
                let headline = verdict
                    .and_then(|verdict| headline(verdict.lines.iter().map(String::as_str)))
                    .unwrap_or("it was stopped before it took triggers");
                // A run that ends early says why, also if nothing is lost.
                with_reason(told.why.as_deref(), headline)
            }
        };
        let result = RunResult {
            run: told.run,
            begun: told.has_begun,
            good: outcome.as_ref().is_ok_and(|verdict| *verdict == Verdict::Good),
            complete: told.is_complete,
            triggers: told.triggers,
            text,
        };
        self.directory.write_result(&Ended { result, verdict: told.verdict.clone() })?;
        self.station.end();
        Ok(())
    }
}

/// Returns the end of a run in a sentence, behind the reason for it.
pub(crate) fn with_reason(why: Option<&str>, text: &str) -> String {
    why.map_or_else(|| text.to_owned(), |why| format!("{why}; {text}"))
}
