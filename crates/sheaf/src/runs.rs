//! `sheaf run`: one run or several consecutive runs. Each has its own number, directory and ledger, and loads the code
//! that is installed when it begins.
//!
//! | module | holds |
//! |---|---|
//! | `before` | parts that the next run goes on with |
//! | `conducting` | a run from its start to its record |
//! | `succession` | one run after the other, also without a gap |

mod before;
mod conducting;
mod succession;

use crate::arguments::RunArguments;
use crate::claims::{Claim, Seen};
use crate::code::{self, Code};
use crate::console::{self, Console, LOG_NAME};
use crate::controlled::{Controlled, Switching};
use crate::early_farms::EarlyFarms;
use crate::excluding::Excludables;
use crate::gate::remote_page_of_runs;
use crate::hooks::{HookedRun, Hooks, RunHooks};
use crate::host_message::HostRun;
use crate::network::{self, Listeners};
use crate::page::Page;
use crate::plan::Plan;
use crate::processes::NextInProcesses;
use crate::records::comments::{self, Comment};
use crate::records::{Like, configuration_name};
use crate::remote::{GiveUp, Hosts};
use crate::run_directory::{RunDirectory, Scratch};
use crate::signals::Steering;
use crate::summary::cpu_seconds;
use crate::{
    SOFTWARE, Verdict, files, next, people, placement, programs, rehearsal, remote, slow_control, space,
    supervisor,
};
use anyhow::{Context, anyhow, bail};
use sheaf_config::{Config, HookTransition, OutputKind, Protection, Run, SourceKind, TransportKind};
use sheaf_key::RunKey;
use sheaf_monitor::values::ValueKeeper;
use sheaf_node::{Clock, Exclusions, RunControls};
use sheaf_store::run::{ConfigurationOrigin, SequenceRecord};
use sheaf_telemetry::log_as;
use sheaf_wire::{Nanos, RunNumber, Timestamp};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
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
            let has_processes = arguments.processes || config.has_agents();
            controlled.note_configuration(&config, has_processes, no_succession(&config))?;
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
    let own = (excluded != Exclusions::default() || config.run.continuous).then(Arc::<RunControls>::default);
    let controls = controlled.map(Controlled::controls).or(own.as_ref());
    if let Some(controls) = controls {
        controls.excluded.set(excluded);
    }
    if config.run.continuous
        && let Some(why) = no_succession(&config)
    {
        bail!("`run.continuous`: no run can follow another one without a gap: {why}");
    }
    let switching = controlled.map(Controlled::switching);
    let limits = switching.map_or_else(Limits::default, |_| Limits::of_file(arguments));
    let can_switch = no_succession(&config).is_none();
    let (values, early_farms) = (&values, Arc::default());
    let next_in_processes = NextInProcesses::default();
    let seen = Seen {
        page: page.and_then(Page::address),
        launch: arguments.control.controlled.as_deref(),
        operator: arguments.control.operator.as_deref(),
    };
    let claim = Mutex::new(Claim::take(&config, seen)?);
    let runs = Runs {
        claim,
        arguments,
        console,
        steering,
        several,
        page,
        controls,
        values,
        origin,
        switching,
        limits,
        can_switch,
        early_farms,
        next_in_processes,
    };
    let verdict = runs.make_all(&config)?;
    if let Some(page) = page.filter(|_| controlled.is_none() && !unseen) {
        page.linger(config.monitor.linger.to_std(), steering.stop());
    }
    Ok(verdict)
}

/// Returns why no run can follow another one without a gap, in words; `None` if one can.
fn no_succession(config: &Config) -> Option<String> {
    if config.manager.standby > 0 {
        return Some("its event manager has a standby, which follows one run only".to_owned());
    }
    if config.readout.protect != Protection::None {
        return Some("its readout units have mirrors, which follow one run only".to_owned());
    }
    let why = "its data are cut by time, and the accounts of hits are those of one run";
    config.source.is_timed().then(|| why.to_owned())
}

/// Conditions of a configuration file that end a run, without those that were given for one run.
#[derive(Clone, Copy, Default)]
struct Limits {
    events: Option<u64>,
    duration: Option<Nanos>,
}

impl Limits {
    /// Returns those of the file. A run under a controller has no limit unless the file sets one.
    fn of_file(arguments: &RunArguments) -> Self {
        let partition = arguments.partition.as_deref();
        let load = |file: &Path| {
            let choose = |config: &mut Config| {
                if partition.is_some() {
                    config.run.partition = partition.map(str::to_owned);
                }
            };
            Config::load_with(file, choose).ok()
        };
        let Some((file, config)) = arguments.config.as_deref().and_then(|file| Some((file, load(file)?)))
        else {
            return Self::default();
        };
        let duration = config.run.duration.filter(|_| Config::sets(file, "run.duration_s", partition));
        Self { events: config.run.events, duration }
    }
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
        None if arguments.partition.is_some() => {
            bail!("--partition needs a configuration that describes the partitions; name its file")
        }
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
    hosts: Option<Arc<Hosts>>,
    /// The sockets of the nodes of this host, if there are such hosts.
    listeners: Option<Listeners>,
    /// Digits of the key by which processes of nodes know each other, where the configuration names none.
    key: Option<String>,
}

/// A run for which everything is ready.
struct Ready {
    plan: Arc<Plan>,
    directory: Option<RunDirectory>,
    prepared: Prepared,
    hooks: Arc<RunHooks>,
    clock: Clock,
    /// Processor time of earlier runs, in seconds.
    cpu_before: f64,
    /// Whether messages of this process go to its log.
    has_log: bool,
    /// Request of a controller for it to follow another run: number of the order, and time in milliseconds since 1970.
    asked: Option<(u64, u64)>,
}

impl Ready {
    /// Gives up the run, which another one was to hand over to.
    fn abandon(self) {
        let Self { plan, directory, prepared, hooks, .. } = self;
        prepared.hosts.iter().for_each(|hosts| hosts.abandon());
        let why = anyhow!("run {} is not started: the run before it was stopped", plan.config.run.number);
        hooks.after_stop(Some(&why));
        directory.into_iter().for_each(RunDirectory::abandon);
    }
}

/// Has the messages of this process go to the log of a run from now on.
fn begin_log(plan: &Plan, directory: Option<&RunDirectory>) {
    let log = directory.map(|directory| directory.path.join(LOG_NAME));
    console::begin_run(plan.config.run.number.0, log.as_deref().map(|log| (log, plan.config.log.max.0)));
    directory.inspect(|directory| directory.begin());
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
    /// Requests of a controller for the next run, if there is one.
    switching: Option<&'a Switching>,
    /// Conditions that end a run which follows another one.
    limits: Limits,
    /// Whether a controller may ask for the next run.
    can_switch: bool,
    early_farms: Arc<EarlyFarms>,
    /// News of the next run by nodes that are processes.
    next_in_processes: NextInProcesses,
    /// Nodes that no other run has, if the system has partitions.
    claim: Mutex<Option<Claim>>,
}

/// The run in progress, for one that is to follow it without a gap.
struct Present<'a> {
    /// Key of its links.
    key: Option<&'a RunKey>,
    /// The hosts of its nodes that agents have started.
    hosts: Option<&'a Arc<Hosts>>,
    give_up: GiveUp<'a>,
}

/// A run that somebody has asked for.
struct Wanted {
    config: Config,
    comment: Option<String>,
    operator: Option<String>,
    sequence: Option<SequenceRecord>,
    /// Request of a controller for it to follow another run: number of the order, and time in milliseconds since 1970.
    asked: Option<(u64, u64)>,
}

impl Runs<'_> {
    /// Prepares the run that follows `last`; without a gap, if that is the `present` run.
    fn begin(
        &self,
        wanted: &Wanted,
        last: Option<RunNumber>,
        (clock, present): (Clock, Option<&Present<'_>>),
    ) -> anyhow::Result<Ready> {
        let mut config = wanted.config.clone();
        // A number that is to be found is found when the directory is made: another command may have taken the next.
        let is_found = config.run.number == RunNumber(0) && config.output.kind != OutputKind::None;
        if let Some(RunNumber(last)) = last.filter(|_| !is_found) {
            let next = last.checked_add(1).context("all run numbers are taken")?;
            config.run.number = RunNumber(next);
        }
        let cpu_before = last.map_or(0.0, |_| cpu_seconds());
        let created = clock.now();
        // The plan first: a run that cannot be leaves no directory behind.
        files::give_access(config.run.access);
        let mut plan = Plan::new(config)?;
        plan.goes_on = (plan.config.run.continuous || self.arguments.control.controlled.is_some())
            && no_succession(&plan.config).is_none();
        plan.report_defects(|_| true);
        plan.report_names();
        match present {
            Some(present) => plan.key = present.key.cloned(),
            None => plan.make_key()?,
        }
        placement::rehearse(&plan)?;
        programs::check(&plan)?;
        supervisor::check(&plan)?;
        space::check(&plan.config)?;
        let hooks = Hooks::find(&plan.config)?;
        let directory = RunDirectory::create(&mut plan.config, created)?;
        let run = plan.config.run.number;
        if let Some(claim) = &mut *self.claim.lock().unwrap_or_else(PoisonError::into_inner) {
            claim.note_run(run.0);
        }
        // Until the run begins, messages are those of the run before.
        let has_log = present.is_none();
        if has_log {
            begin_log(&plan, directory.as_ref());
        }
        if let Some(directory) = &directory {
            if let Some(text) = &wanted.comment {
                comments::add(&directory.path, &Comment::new(wanted.operator.as_deref(), Some(text), None))?;
            }
            directory.note_origin(self.origin.clone(), wanted.sequence.clone())?;
        }
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let hooks = Arc::new(hooks.of_run(self.hooked(wanted, run, path.as_deref()), self.page.cloned()));
        // Hooks are last: nothing else keeps the run from starting after them.
        let prepared =
            self.prepare(&mut plan, (directory.as_ref(), created), present).and_then(|prepared| match hooks
                .before_start(self.steering)
            {
                Ok(()) => Ok(prepared),
                Err(error) => {
                    prepared.hosts.iter().for_each(|hosts| hosts.abandon());
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
        let (plan, asked) = (Arc::new(plan), wanted.asked);
        Ok(Ready { plan, directory, prepared, hooks, clock, cpu_before, has_log, asked })
    }

    /// Returns the description of the run in the input of hooks.
    fn hooked(&self, wanted: &Wanted, run: RunNumber, directory: Option<&Path>) -> HookedRun {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        HookedRun {
            run: run.0,
            directory: directory.map(whole),
            configuration: self.arguments.config.as_deref().map(whole),
            operator: wanted.operator.clone().unwrap_or_else(people::user),
            comment: wanted.comment.clone(),
            sequence: wanted.sequence.clone(),
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
        (directory, created): (Option<&RunDirectory>, Timestamp),
        present: Option<&Present<'_>>,
    ) -> anyhow::Result<Prepared> {
        let scratch = Scratch::new(directory)?;
        let loading = code::of_roles(&plan.config, |role| plan.has_here(role));
        let (code, mut records) = Code::take(&loading, &scratch.path)?;
        plan.code = code;
        rehearsal::rehearse(&plan.code.in_place(&loading), plan.config.run.number)?;
        code::report(&records);
        // Nodes that go on have their sockets.
        let has_listeners = plan.has_agents() && present.is_none();
        let listeners =
            has_listeners.then(|| network::configured_listeners(plan, ADDRESS_IN_USE)).transpose()?;
        let has_own_key = plan.config.transport.key_file.is_none() && self.has_processes(plan);
        let key = has_own_key.then(RunKey::make_digits).transpose()?.map(|(_, digits)| digits);
        let call = || {
            let run = self.hosted(plan, key.clone(), created);
            match present.and_then(|present| Some((present.hosts?, present.give_up))) {
                Some((hosts, give_up)) => hosts.prepare_next(plan, &run, give_up),
                None => Hosts::prepare(plan, &run, &remote::tell(self.page)),
            }
        };
        let hosts = plan.has_agents().then(call).transpose()?;
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
        Ok(Prepared { scratch, hosts: hosts.map(Arc::new), listeners, key })
    }

    /// Returns the run as its hosts have to know it.
    fn hosted(&self, plan: &Plan, key: Option<String>, created: Timestamp) -> HostRun {
        HostRun {
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
            goes_on: self.goes_on(&plan.config),
            following: None,
        }
    }
}
