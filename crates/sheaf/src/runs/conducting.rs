//! A run from its start to its record.

use super::before::Before;
use super::{Ready, Runs, begin_log};
use crate::Verdict;
use crate::commands::{CommandsEnd, RunCommands};
use crate::console;
use crate::controlled::{LaunchDirectory, with_reason};
use crate::given::given;
use crate::hooks::{OwedHooks, RunHooks};
use crate::page::View;
use crate::plan::Plan;
use crate::processes::Places;
use crate::remote::Hosts;
use crate::run::{Onset, Outcome, in_process};
use crate::run_directory::{OtherParts, RunDirectory, Scratch};
use crate::summary::{EarlyEnd, Summary, headline};
use crate::{histograms, processes, records, slow_control, space, tracing};
use anyhow::{Context as _, bail};
use sheaf_control::RunResult;
use sheaf_node::Clock;
use sheaf_store::run::EndRecord;
use sheaf_telemetry::{codes, log_as};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A run whose nodes have ended. Its files and its record are to be closed.
pub(super) struct Conducted {
    plan: Arc<Plan>,
    directory: Option<RunDirectory>,
    hosts: Option<Arc<Hosts>>,
    outcome: Outcome,
    end: EndRecord,
    hooks: Arc<RunHooks>,
    clock: Clock,
    _scratch: Scratch,
}

/// The end of a run that another one has followed, for a controller.
pub(super) struct End {
    run: u32,
    begun: bool,
    triggers: u64,
    text: String,
}

/// Returns what a run has kept, in words.
fn kept(summary: &Summary) -> String {
    headline(summary.to_string().lines()).unwrap_or("it took no triggers").to_owned()
}

impl Conducted {
    pub(super) fn end(&self) -> End {
        let summary = &self.outcome.summary;
        End {
            run: self.plan.config.run.number.0,
            begun: summary.started_at_ns.is_some(),
            triggers: summary.triggers(),
            text: with_reason(self.end.detail.as_deref(), &kept(summary)),
        }
    }
}

impl End {
    /// Returns the result of the run, which was closed in this way.
    pub(super) fn result(self, closed: &anyhow::Result<Verdict>) -> RunResult {
        let Self { run, begun, triggers, text } = self;
        let good = closed.as_ref().is_ok_and(|verdict| *verdict == Verdict::Good);
        let text = closed.as_ref().err().map_or(text, crate::describe);
        RunResult { run: Some(run), begun, good, complete: false, triggers, text }
    }
}

impl Runs<'_> {
    /// Makes a run for which everything is ready. `before` is what the run before has left, if this one follows without a gap. Returns what
    /// this run leaves.
    ///
    /// # Errors
    /// If the run did not complete. Its hooks have been called then.
    pub(super) fn conduct(
        &self,
        ready: Ready,
        before: Option<Before>,
    ) -> anyhow::Result<(Conducted, Option<Before>)> {
        let hooks = ready.hooks.clone();
        self.owe_hooks(&ready);
        let number = ready.plan.config.run.number;
        let conducted = self.run_nodes(ready, before);
        if let Err(error) = &conducted {
            hooks.after_stop(Some(error));
            self.launch().inspect(|launch| launch.forget_hooks(number.0));
        }
        conducted
    }

    fn launch(&self) -> Option<LaunchDirectory> {
        self.arguments.control.controlled.clone().map(LaunchDirectory::new)
    }

    fn owe_hooks(&self, ready: &Ready) {
        let (run, owed) = (ready.plan.config.run.number, OwedHooks::of(&ready.hooks, &ready.plan.config));
        if let Some((launch, owed)) = self.launch().zip(owed)
            && let Err(error) = launch.owe_hooks(run.0, &owed)
        {
            log_as!(CONTROL_NOT_RECORDED; "{}; hooks after the end are not called if this process dies", crate::describe(&error));
        }
    }

    fn run_nodes(
        &self,
        Ready { plan, directory, prepared, hooks, clock, cpu_before, has_log, asked }: Ready,
        before: Option<Before>,
    ) -> anyhow::Result<(Conducted, Option<Before>)> {
        let super::Prepared { scratch, hosts, listeners, key } = prepared;
        let run = plan.config.run.number;
        let has_processes = self.has_processes(&plan);
        if !has_log {
            begin_log(&plan, directory.as_ref());
        }
        if let Some(directory) = &directory {
            directory.note_hooks(hooks.take_records())?;
        }
        let log = given(self.arguments, self.steering, (clock.now(), asked.map(|(_, at_ms)| at_ms)));
        let commands = Arc::new(RunCommands::new(&plan.config.names, log));
        let watch_commands =
            directory.as_ref().map(|directory| directory.watch_commands(&commands)).transpose()?;
        if self.several {
            log_as!(RUN_BEGINS; "run {run} begins");
        } else {
            console::note(&codes::RUN_BEGINS, &format!("run {run} begins"));
        }
        if let Some(directory) = &directory {
            records::note(&plan.config, &directory.path);
        }
        let (stop, console) = (self.steering.stop(), self.console);
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let watch = space::Watch::begin(path.as_deref(), plan.config.output.keep_free.0, stop)?;
        let traces = tracing::file(&plan.config, &scratch.path);
        let histograms = histograms::file(&plan.config, &scratch.path);
        let receiver = histograms::begin(&plan.config, &scratch.path);
        let view = View { console, page: self.page, controls: self.controls, traces: traces.as_deref() };
        if let Some(page) = self.page {
            page.begin_run(&plan, path.as_deref(), (view.traces, histograms.as_deref()));
        }
        if let Some((switching, (order, _))) = self.switching.zip(asked) {
            switching.note_begun(order);
        }
        self.values.begin_run();
        let _after_start = hooks.watch_start(self.page)?;
        let before_stop = hooks.guard_stop(self.steering)?;
        let (mut outcome, following) = if has_processes {
            let places = Places {
                directory: directory.as_ref(),
                scratch: &scratch,
                hosts: hosts.as_ref(),
                listeners,
                key: key.as_deref(),
            };
            let before = before.and_then(Before::processes);
            let goes_on = self.goes_on(&plan.config);
            let onset = processes::Onset { next: &self.next_in_processes, goes_on, before };
            let (outcome, family) = processes::run(&plan, places, stop, (view, onset))?;
            if let Some(hosts) = hosts.as_ref().filter(|_| family.is_some()) {
                hosts.note_going_on();
            }
            (outcome, family.map(|family| Before::Processes(Box::new(family))))
        } else {
            let before = before.and_then(Before::threads);
            let onset = Onset { clock, before, early_farms: self.early_farms.clone() };
            let (outcome, following) = in_process(&plan, path, stop.clone(), view, onset)?;
            (outcome, following.map(Before::Threads))
        };
        drop(before_stop);
        let histograms = histograms::finish(receiver);
        drop(watch_commands);
        if let Some(directory) = &directory {
            directory.note_histograms(histograms);
            directory.note_values(slow_control::end_run(self.values));
        }
        let no_room = watch.end().map(|why| EarlyEnd::new("disk_space", why));
        outcome.summary.ended_early = no_room.or(outcome.summary.ended_early);
        // The processor time of this run is that of the process minus the time of earlier runs.
        outcome.summary.cpu_seconds -= if has_processes { 0.0 } else { cpu_before };
        if let Some(directory) = &directory {
            let (at, has_begun) = (clock.now(), outcome.summary.has_begun());
            let text = format!("run {run} ended: {}", kept(&outcome.summary));
            directory.note_commands(&commands, &CommandsEnd { at, has_begun, text: &text });
        }
        let end = self.announce_end(&plan, &mut outcome, &hooks);
        let (_scratch, hooks) = (scratch, hooks.clone());
        Ok((Conducted { plan, directory, hosts, outcome, end, hooks, clock, _scratch }, following))
    }

    /// Announces the end of a run whose nodes have ended.
    fn announce_end(&self, plan: &Plan, outcome: &mut Outcome, hooks: &RunHooks) -> EndRecord {
        let Outcome { summary, errors, .. } = outcome;
        summary.name_sources(&plan.config.names);
        let end = summary.end_record(&plan.config, errors.first().map(String::as_str));
        if let Some(page) = self.page {
            page.end_run(summary);
            page.note_end(&end, summary.triggers());
        }
        hooks.note_end(&end, summary);
        let text = summary.to_string();
        if let Some(kept) = headline(text.lines()) {
            console::note(&codes::RUN_ENDED, &format!("run {} has ended: {kept}", plan.config.run.number));
        }
        end
    }

    /// Closes the files and the record of a run, prints its summary, and calls the hooks after its end.
    ///
    /// # Errors
    /// If it could not be closed, or some of its nodes failed.
    pub(super) fn close(&self, conducted: Conducted) -> anyhow::Result<Verdict> {
        let (number, hooks) = (conducted.plan.config.run.number, conducted.hooks.clone());
        let closed = self.close_run(conducted);
        hooks.after_stop(closed.as_ref().err());
        self.launch().inspect(|launch| launch.forget_hooks(number.0));
        closed
    }

    fn close_run(&self, conducted: Conducted) -> anyhow::Result<Verdict> {
        let Conducted { plan, directory, hosts, outcome, end, clock, .. } = conducted;
        let Outcome { summary, stored, errors, traces } = outcome;
        // Their file is in the directory.
        let _ = traces.map(JoinHandle::join);
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let close = || match (directory, hosts) {
            (Some(directory), hosts) => {
                let others = hosts.as_deref().map(|hosts| -> &dyn OtherParts { hosts });
                directory.close(&stored, (summary.ledger_json(), end), clock.now(), others)
            }
            (None, Some(hosts)) => {
                hosts.abandon();
                Ok(())
            }
            (None, None) => Ok(()),
        };
        // Messages are in front of the books on a terminal.
        console::flush();
        // The books come first: they are printed also where the disk takes nothing more.
        let closed = close();
        // Also where it could not be closed: then the database knows that.
        path.inspect(|path| records::note(&plan.config, path));
        match (self.arguments.json, self.several) {
            (true, false) => crate::print::print_json(&summary)?,
            (true, true) => crate::print::print_json_line(&summary)?,
            (false, _) if summary.has_begun() => crate::print::print(&summary.to_string())?,
            (false, _) => {}
        }
        for error in &errors {
            self.console.error(error);
        }
        closed.context("the run could not be closed")?;
        if !errors.is_empty() {
            bail!("{} of {} nodes failed", errors.len(), plan.nodes.len());
        }
        Ok(if summary.is_good() { Verdict::Good } else { Verdict::NotGood })
    }
}
