//! `sheaf run`: one run or several consecutive runs. Each has its own number, directory and ledger, and loads the code
//! that is installed when it begins.

use crate::arguments::{ControlledArguments, RunArguments};
use crate::code::{self, Code};
use crate::commands::{CommandsEnd, RunCommands};
use crate::console::{self, Console, LOG_NAME};
use crate::controlled::{Controlled, LaunchDirectory};
use crate::excluding::Excludables;
use crate::gate::remote_page_of_runs;
use crate::given::given;
use crate::hooks::{HookedRun, Hooks, OwedHooks, RunHooks};
use crate::host_message::HostRun;
use crate::network::{self, Listeners};
use crate::page::{Page, View};
use crate::plan::Plan;
use crate::processes::Places;
use crate::records::comments::{self, Comment};
use crate::records::{Like, configuration_name};
use crate::remote::Hosts;
use crate::run::{Outcome, in_process};
use crate::run_directory::{OtherParts, RunDirectory, Scratch};
use crate::signals::Steering;
use crate::summary::{EarlyEnd, cpu_seconds, headline};
use crate::{
    SOFTWARE, Verdict, files, histograms, next, people, placement, processes, programs, records, rehearsal,
    remote, slow_control, space, supervisor, tracing,
};
use anyhow::{Context, bail};
use sheaf_config::{Config, HookTransition, OutputKind, Run, SourceKind, TransportKind};
use sheaf_key::RunKey;
use sheaf_monitor::values::ValueKeeper;
use sheaf_node::{Clock, Exclusions, RunControls};
use sheaf_store::run::ConfigurationOrigin;
use sheaf_telemetry::{codes, log_as};
use sheaf_wire::{RunNumber, Timestamp};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Makes runs until their number is reached or a signal ends them, and prints the summary of each.
pub(crate) fn command(arguments: &RunArguments, console: &Console) -> anyhow::Result<Verdict> {
    let steering = Steering::watch()?;
    let controlled = Controlled::open(arguments, &steering)?;
    let outcome = make_all(arguments, console, &steering, controlled.as_ref());
    if let Some(controlled) = controlled {
        controlled.close(&outcome)?;
    }
    outcome
}

/// Makes runs until their number is reached or a signal ends them.
fn make_all(
    arguments: &RunArguments,
    console: &Console,
    steering: &Steering,
    controlled: Option<&Controlled>,
) -> anyhow::Result<Verdict> {
    let (config, origin) = configuration(arguments)?;
    console.keep_log("run", config.log.format)?;
    let values =
        slow_control::keep(&config, slow_control::sent_to_run(arguments.control.controlled.as_deref()))?;
    let page = match controlled {
        Some(controlled) => {
            let has_agents = config.nodes()?.iter().any(|node| node.agent.is_some());
            controlled.note_configuration(&config, arguments.processes || has_agents)?;
            Some(controlled.page().clone())
        }
        None => {
            let wanted = arguments.page.as_ref().map(|address| address.as_deref());
            let shown = slow_control::of_runs(&config, &values);
            Page::open(&config, wanted, || remote_page_of_runs(&config), Some(shown))?
        }
    };
    // The metrics tell when a run takes triggers.
    let unseen = page.is_none() && config.hooks_at(HookTransition::AfterStart).next().is_some();
    let page = page.or_else(|| unseen.then(Page::unseen));
    let (several, page) = (config.run.runs != Some(1), page.as_ref());
    let excluded = excluded(arguments, &config)?;
    let own = (excluded != Exclusions::default()).then(Arc::<RunControls>::default);
    let controls = controlled.map(Controlled::controls).or(own.as_ref());
    if let Some(controls) = controls {
        controls.excluded.set(excluded);
    }
    let runs = Runs { arguments, console, steering, several, page, controls, values: &values, origin };
    let mut verdict = Verdict::Good;
    let mut last = None;
    for count in 1_u32.. {
        if !steering.begin_run() {
            break;
        }
        let (run, of_run) = runs.make(config.clone(), last)?;
        if of_run == Verdict::NotGood {
            verdict = Verdict::NotGood;
        }
        if config.run.runs.is_some_and(|runs| count >= runs) {
            break;
        }
        last = Some(run);
    }
    if let Some(page) = page.filter(|_| controlled.is_none() && !unseen) {
        page.linger(config.monitor.linger.to_std(), steering.stop());
    }
    Ok(verdict)
}

/// Returns what is excluded from the beginning. A controller may have excluded sources and nodes that the configuration has no more.
fn excluded(arguments: &RunArguments, config: &Config) -> anyhow::Result<Exclusions> {
    if arguments.exclude.is_empty() {
        return Ok(Exclusions::default());
    }
    let excludables = Excludables::of(config)?;
    match arguments.control.controlled {
        Some(_) => Ok(excludables.known(&arguments.exclude)),
        None => excludables.select(&arguments.exclude),
    }
}

/// Name of a configuration, and where it comes from.
type NameAndOrigin = (Option<String>, Option<ConfigurationOrigin>);

/// Returns the configuration, with its name and where it comes from.
fn configuration(arguments: &RunArguments) -> anyhow::Result<(Config, NameAndOrigin)> {
    if arguments.processes && arguments.transport == Some(TransportKind::Memory) {
        bail!(
            "--processes needs --transport tcp, shm or mixed: the memory transport works only within one process"
        );
    }
    let set = &arguments.control.set;
    let mut origin = (arguments.config.as_deref().and_then(configuration_name), None);
    let config = match &arguments.config {
        _ if arguments.like.is_some() => {
            let runs = arguments.output.clone().unwrap_or_else(|| Run::default().output);
            let like = Like::find(arguments.like.as_deref().unwrap_or_default(), &runs)?;
            let config = like.config(|config| arguments.apply(config))?;
            for warning in like.check(&config)? {
                log_as!(CODE_CHANGED; "{warning}");
            }
            origin = (like.name, Some(like.origin));
            config
        }
        path if !set.is_empty() => {
            Config::load_with_settings(path.as_deref(), set, |config| arguments.apply(config))?
        }
        Some(path) => Config::load_with(path, |config| arguments.apply(config))?,
        None => {
            let mut config = Config::default();
            arguments.apply(&mut config);
            config.validate()?;
            config
        }
    };
    crate::console::name_sources(&config.names);
    let replay_flags = arguments.replay_flags();
    if config.source.kind != SourceKind::Replay && !replay_flags.is_empty() {
        bail!("{} needs --replay DIR, or a configuration of a replay", replay_flags.join(", "));
    }
    Ok((config, origin))
}

/// Preparations of a run.
struct Prepared {
    scratch: Scratch,
    /// The hosts of the nodes that agents start.
    hosts: Option<Hosts>,
    /// The sockets of the nodes of this host, if there are such hosts.
    listeners: Option<Listeners>,
    /// Digits of the key by which processes of nodes know each other, where the configuration names none.
    key: Option<String>,
}

/// Time in which addresses become free that nodes of an earlier run have, which end now.
const ADDRESS_IN_USE: Duration = Duration::from_secs(5);

/// Settings that all runs share.
struct Runs<'a> {
    arguments: &'a RunArguments,
    console: &'a Console,
    steering: &'a Steering,
    several: bool,
    /// The page that shows the runs, if there is one.
    page: Option<&'a Page>,
    /// Requests of a controller, if there is one.
    controls: Option<&'a Arc<RunControls>>,
    /// Values from outside.
    values: &'a ValueKeeper,
    /// Name and origin of the configuration.
    origin: NameAndOrigin,
}

impl Runs<'_> {
    /// Makes the run that follows `last`, prints its summary, and returns its number.
    ///
    /// # Errors
    /// That it could not begin or did not complete. No other run follows, because it would fail in the same way.
    fn make(&self, mut config: Config, last: Option<RunNumber>) -> anyhow::Result<(RunNumber, Verdict)> {
        // A number that is to be found is found when the directory is made: another command may have taken the next.
        let is_found = config.run.number == RunNumber(0) && config.output.kind != OutputKind::None;
        if let Some(RunNumber(last)) = last.filter(|_| !is_found) {
            let next = last.checked_add(1).context("all run numbers are taken")?;
            config.run.number = RunNumber(next);
        }
        let (clock, before) = (Clock::new(), last.map_or(0.0, |_| cpu_seconds()));
        let created = clock.now();
        // The plan first: a run that cannot be leaves no directory behind.
        files::give_access(config.run.access);
        let mut plan = Plan::new(config)?;
        plan.report_defects(|_| true);
        plan.report_names();
        plan.make_key()?;
        placement::rehearse(&plan)?;
        programs::check(&plan)?;
        supervisor::check(&plan)?;
        space::check(&plan.config)?;
        let hooks = Hooks::find(&plan.config)?;
        let directory = RunDirectory::create(&mut plan.config, created)?;
        let run = plan.config.run.number;
        let log = directory.as_ref().map(|directory| directory.path.join(LOG_NAME));
        console::begin_run(run.0, log.as_deref().map(|log| (log, plan.config.log.max.0)));
        if let Some(directory) = &directory {
            self.comment(&directory.path)?;
            directory.note_origin(self.origin.clone(), self.arguments.control.sequence_record())?;
        }
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let hooks = Arc::new(hooks.of_run(self.hooked(run, path.as_deref()), self.page.cloned()));
        // Hooks are last: nothing else keeps the run from starting after them.
        let prepared = self.prepare(&mut plan, directory.as_ref(), created).and_then(|prepared| match hooks
            .before_start(self.steering)
        {
            Ok(()) => Ok(prepared),
            Err(error) => {
                prepared.hosts.iter().for_each(Hosts::abandon);
                Err(error)
            }
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                if let Some(directory) = directory {
                    directory.abandon();
                }
                return Err(error).with_context(|| format!("run {run} is not started"));
            }
        };
        let launch = self.arguments.control.controlled.clone().map(LaunchDirectory::new);
        if let Some((launch, owed)) = launch.as_ref().zip(OwedHooks::of(&hooks, &plan.config))
            && let Err(error) = launch.owe_hooks(&owed)
        {
            log_as!(CONTROL_NOT_RECORDED; "{}; hooks after the end are not called if this process dies", crate::describe(&error));
        }
        let made = self.conduct(Arc::new(plan), directory, prepared, &hooks, (clock, before));
        hooks.after_stop(made.as_ref().err());
        launch.inspect(LaunchDirectory::forget_hooks);
        made.map(|verdict| (run, verdict))
    }

    /// Makes a run for which everything is ready, and closes it. `before` is the processor time of earlier runs, in seconds.
    fn conduct(
        &self,
        plan: Arc<Plan>,
        directory: Option<RunDirectory>,
        Prepared { scratch, hosts, listeners, key }: Prepared,
        hooks: &Arc<RunHooks>,
        (clock, before): (Clock, f64),
    ) -> anyhow::Result<Verdict> {
        let run = plan.config.run.number;
        let has_processes = self.has_processes(&plan);
        if let Some(directory) = &directory {
            directory.note_hooks(hooks.take_records())?;
        }
        let log = given(self.arguments, self.steering, clock.now());
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
        self.values.begin_run();
        let _after_start = hooks.watch_start(self.page)?;
        let before_stop = hooks.guard_stop(self.steering)?;
        let mut outcome = if has_processes {
            let places = Places {
                directory: directory.as_ref(),
                scratch: &scratch,
                hosts: hosts.as_ref(),
                listeners,
                key: key.as_deref(),
            };
            processes::run(&plan, places, stop, view)?
        } else {
            in_process(&plan, path, stop.clone(), view, clock)?
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
        outcome.summary.cpu_seconds -= if has_processes { 0.0 } else { before };
        if let Some(directory) = &directory {
            let (at, has_begun) = (clock.now(), outcome.summary.has_begun());
            let summary = outcome.summary.to_string();
            let kept = headline(summary.lines()).unwrap_or("it took no triggers");
            let text = format!("run {run} ended: {kept}");
            directory.note_commands(&commands, &CommandsEnd { at, has_begun, text: &text });
        }
        self.close((directory, hosts), outcome, &plan, hooks, clock)
    }

    /// Returns the description of the run in the input of hooks.
    fn hooked(&self, run: RunNumber, directory: Option<&Path>) -> HookedRun {
        let ControlledArguments { comment, operator, .. } = &self.arguments.control;
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        HookedRun {
            run: run.0,
            directory: directory.map(whole),
            configuration: self.arguments.config.as_deref().map(whole),
            operator: operator.clone().unwrap_or_else(people::user),
            comment: comment.clone(),
            sequence: self.arguments.control.sequence_record(),
        }
    }

    /// Adds the comment of the operator to the record of the run.
    fn comment(&self, directory: &Path) -> anyhow::Result<()> {
        let ControlledArguments { comment, operator, .. } = &self.arguments.control;
        match comment {
            Some(text) => comments::add(directory, &Comment::new(operator.as_deref(), Some(text), None)),
            None => Ok(()),
        }
    }

    /// Returns whether each role of this host runs in a process of its own.
    fn has_processes(&self, plan: &Plan) -> bool {
        self.arguments.processes || plan.has_agents()
    }

    /// Copies the code that the run loads, checks that it can be loaded, and has agents prepare the nodes of their hosts.
    fn prepare(
        &self,
        plan: &mut Plan,
        directory: Option<&RunDirectory>,
        created: Timestamp,
    ) -> anyhow::Result<Prepared> {
        let scratch = Scratch::new(directory)?;
        let loading = code::of_roles(&plan.config, |role| plan.has_here(role));
        let (code, mut records) = Code::take(&loading, &scratch.path)?;
        plan.code = code;
        rehearsal::rehearse(&plan.code.in_place(&loading), plan.config.run.number)?;
        code::report(&records);
        let listeners =
            plan.has_agents().then(|| network::configured_listeners(plan, ADDRESS_IN_USE)).transpose()?;
        let has_own_key = plan.config.transport.key_file.is_none() && self.has_processes(plan);
        let key = has_own_key.then(RunKey::make_digits).transpose()?.map(|(_, digits)| digits);
        let hosts = plan.has_agents().then(|| self.call_agents(plan, key.clone(), created)).transpose()?;
        if let Some(hosts) = &hosts {
            let compared = hosts.compare_code(&records);
            if let Err(error) = compared {
                hosts.abandon();
                return Err(error);
            }
            records.extend(hosts.code_besides(&records));
        }
        if let Some(directory) = directory.filter(|_| !records.is_empty()) {
            directory.note_code(records)?;
        }
        Ok(Prepared { scratch, hosts, listeners, key })
    }

    /// Has agents prepare the nodes of their hosts.
    fn call_agents(&self, plan: &Plan, key: Option<String>, created: Timestamp) -> anyhow::Result<Hosts> {
        let run = HostRun {
            software: SOFTWARE.to_owned(),
            number: plan.config.run.number.0,
            created_ns: created.0,
            host: next::host(),
            process: std::process::id(),
            configuration: plan.effective_configuration(),
            nodes: Vec::new(),
            key,
            metrics: self.page.is_some(),
            is_steered: self.controls.is_some(),
            is_back: false,
        };
        Hosts::prepare(plan, &run, &remote::tell(self.page))
    }

    fn close(
        &self,
        (directory, hosts): (Option<RunDirectory>, Option<Hosts>),
        outcome: Outcome,
        plan: &Plan,
        hooks: &RunHooks,
        clock: Clock,
    ) -> anyhow::Result<Verdict> {
        let Outcome { mut summary, stored, errors } = outcome;
        summary.name_sources(&plan.config.names);
        if let Some(page) = self.page {
            page.end_run(&summary);
        }
        let end = summary.end_record(&plan.config, errors.first().map(String::as_str));
        if let Some(page) = self.page {
            page.note_end(&end, summary.triggers());
        }
        hooks.note_end(&end, &summary);
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let close = || match (directory, hosts) {
            (Some(directory), hosts) => {
                let others = hosts.as_ref().map(|hosts| -> &dyn OtherParts { hosts });
                directory.close(&stored, (summary.ledger_json(), end), clock.now(), others)
            }
            (None, Some(hosts)) => {
                hosts.abandon();
                Ok(())
            }
            (None, None) => Ok(()),
        };
        let text = summary.to_string();
        if let Some(kept) = headline(text.lines()) {
            console::note(&codes::RUN_ENDED, &format!("run {} has ended: {kept}", plan.config.run.number));
        }
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
