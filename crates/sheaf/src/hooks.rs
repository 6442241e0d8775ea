//! Hooks: commands of the user before and after the transitions of a run.
//!
//! The process of the run calls them, so `sheaf run` and `sheaf serve` are the same here, and a controller that dies changes nothing. No
//! thread that carries data knows of them. `docs/decisions/0076-hooks.md` has the reasons.
//!
//! | module | holds |
//! |---|---|
//! | `guards` | the threads that wait for the start and for requests to stop |

mod guards;

use crate::page::Page;
use crate::programs;
use crate::signals::Steering;
use crate::summary::Summary;
use crate::user_command::{CommandEnd, UserCommand};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sheaf_config::{Config, Hook, HookTransition};
use sheaf_store::run::{EndRecord, HookRecord, Manifest, SequenceRecord};
use sheaf_telemetry::log_as;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The hooks of a configuration, whose programs exist.
pub(crate) struct Hooks(Vec<FoundHook>);

struct FoundHook {
    name: String,
    hook: Hook,
    program: PathBuf,
}

impl Hooks {
    /// Finds the programs of all hooks.
    ///
    /// # Errors
    /// The first that cannot be started, and why.
    pub(crate) fn find(config: &Config) -> anyhow::Result<Self> {
        let found = |(name, hook): (&String, &Hook)| {
            let program = programs::find_command(&hook.command, None)
                .with_context(|| format!("hook {name} (`hook.{name}.command`) cannot be started"))?;
            Ok(FoundHook { name: name.clone(), hook: hook.clone(), program })
        };
        config.hooks.iter().map(found).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Returns the hooks of a run. The page shows which one it waits for.
    pub(crate) fn of_run(self, run: HookedRun, page: Option<Page>) -> RunHooks {
        RunHooks { hooks: self.0, run, page, records: Mutex::default(), end: Mutex::default() }
    }
}

/// A run, in the input of hooks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HookedRun {
    pub(crate) run: u32,
    /// Whole path; `None` where nothing is written.
    pub(crate) directory: Option<PathBuf>,
    /// Whole path of the configuration.
    pub(crate) configuration: Option<PathBuf>,
    /// Who has started the run.
    pub(crate) operator: String,
    pub(crate) comment: Option<String>,
    pub(crate) sequence: Option<SequenceRecord>,
}

/// Hooks after the end of a run that its process has not called yet. They are left for a controller in case that the process dies.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OwedHooks {
    run: HookedRun,
    /// Text of the configuration.
    configuration: String,
}

impl OwedHooks {
    /// Returns those of a run that begins, if it has any.
    pub(crate) fn of(hooks: &RunHooks, config: &Config) -> Option<Self> {
        let has_some = hooks.has(HookTransition::AfterStop);
        has_some.then(|| Self { run: hooks.run.clone(), configuration: config.to_toml() })
    }

    /// Calls them in place of the process, which died in this way.
    ///
    /// # Errors
    /// If one of their programs is not there any more.
    pub(crate) fn call(self, how: &str) -> anyhow::Result<()> {
        let config = Config::parse(&self.configuration, "the configuration of the run")?;
        let hooks = Hooks::find(&config)?.of_run(self.run, None);
        hooks.note_failure(format!("the process of the run died: {how}"));
        hooks.after_stop(None);
        Ok(())
    }
}

/// The end of a run, in the input of hooks.
#[derive(Clone, Debug, Default, Serialize)]
struct HookedEnd {
    reason: String,
    detail: Option<String>,
    good: bool,
    /// Whether triggers were taken.
    begun: bool,
    /// Accepted events that were lost.
    lost: u64,
    triggers: u64,
    stored: u64,
    rejected: u64,
    dropped: u64,
    seconds: f64,
}

/// Text on standard input of a hook.
#[derive(Serialize)]
struct Input<'a> {
    hook: &'a str,
    transition: String,
    #[serde(flatten)]
    run: &'a HookedRun,
    end: Option<&'a HookedEnd>,
}

/// See the [module](self).
pub(crate) struct RunHooks {
    hooks: Vec<FoundHook>,
    run: HookedRun,
    page: Option<Page>,
    /// Those that were called and are not in the record of the run yet.
    records: Mutex<Vec<HookRecord>>,
    end: Mutex<Option<HookedEnd>>,
}

impl RunHooks {
    /// Calls the hooks before the start.
    ///
    /// # Errors
    /// If the run is refused: a required hook failed, or the run was stopped meanwhile.
    pub(crate) fn before_start(&self, steering: &Steering) -> anyhow::Result<()> {
        self.call_all(HookTransition::BeforeStart, || steering.is_over())
    }

    /// Takes the end of the run.
    pub(crate) fn note_end(&self, end: &EndRecord, summary: &Summary) {
        let EndRecord { reason, detail, good, lost } = end.clone();
        let ledger = &summary.ledger;
        *self.end() = Some(HookedEnd {
            reason,
            detail,
            good,
            begun: summary.started_at_ns.is_some(),
            lost,
            triggers: ledger.triggers,
            stored: ledger.stored,
            rejected: ledger.rejected,
            dropped: ledger.dropped.values().sum(),
            seconds: summary.seconds,
        });
    }

    /// Calls the hooks after the end of the run, and adds the results of all hooks to its record. `failure` is the error of the run, if it
    /// has one.
    pub(crate) fn after_stop(&self, failure: Option<&anyhow::Error>) {
        if let Some(error) = failure {
            self.note_failure(crate::describe(error));
        }
        // These end by themselves or by their time limits: a second request to stop is about the events in flight.
        let _ = self.call_all(HookTransition::AfterStop, || false);
        if let Err(error) = self.write_records() {
            log_as!(HOOK_NOT_RECORDED; "the results of the hooks are not in the record of run {}: {}", self.run.run, crate::describe(&error));
        }
    }

    fn note_failure(&self, why: String) {
        let mut end = self.end();
        let end =
            end.get_or_insert_with(|| HookedEnd { reason: "failure".to_owned(), ..HookedEnd::default() });
        end.good = false;
        end.detail.get_or_insert(why);
    }

    /// Returns the hooks that were called since the last call, for the record of the run.
    pub(crate) fn take_records(&self) -> Vec<HookRecord> {
        std::mem::take(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write_records(&self) -> anyhow::Result<()> {
        let (Some(directory), records) = (&self.run.directory, self.take_records()) else { return Ok(()) };
        if records.is_empty() {
            return Ok(());
        }
        let manifest = Manifest::read(directory)?;
        let mut manifest =
            manifest.with_context(|| format!("{} has no manifest any more", directory.display()))?;
        manifest.hooks.extend(records);
        manifest.write(directory)?;
        Ok(())
    }

    fn has(&self, transition: HookTransition) -> bool {
        self.hooks.iter().any(|found| found.hook.on == Some(transition))
    }

    /// Calls the hooks of a transition, one after the other.
    ///
    /// # Errors
    /// If a required one failed, or they were interrupted. No other is called then.
    fn call_all(&self, transition: HookTransition, is_interrupted: impl Fn() -> bool) -> anyhow::Result<()> {
        for found in self.hooks.iter().filter(|found| found.hook.on == Some(transition)) {
            let name = format!("hook {} ({transition})", found.name);
            if is_interrupted() {
                bail!("the run was stopped before {name}");
            }
            log_as!(HOOK_BEGINS; "{name} begins; it has {} s", found.hook.timeout.to_std().as_secs_f64());
            // A run shows itself what it waits for.
            let shown = self.page.as_ref().filter(|_| self.is_awaited(transition));
            shown.inspect(|page| page.note_waiting(Some(name.clone())));
            let (end, last) = self.call(found, transition, &is_interrupted);
            shown.inspect(|page| page.note_waiting(None));
            let failed = match last {
                last if last.is_empty() => format!("{name} failed: {end}"),
                last => format!("{name} failed: {end}; its last line: {last}"),
            };
            match end {
                end if end.is_good() => log_as!(HOOK_DONE; "{name} is done"),
                CommandEnd::Interrupted => bail!("the run was stopped during {name}"),
                _ if found.hook.is_required() => {
                    bail!(
                        "{failed}; correct what it reports, or set `hook.{}.required = false` to start without it",
                        found.name
                    )
                }
                _ => log_as!(HOOK_FAILED; "{failed}"),
            }
        }
        Ok(())
    }

    /// Returns whether nothing else happens while hooks of a transition are called.
    fn is_awaited(&self, transition: HookTransition) -> bool {
        matches!(transition, HookTransition::BeforeStart | HookTransition::AfterStop)
    }

    /// Calls a hook. Returns its end, and its last line of output.
    fn call(
        &self,
        found: &FoundHook,
        transition: HookTransition,
        is_interrupted: impl Fn() -> bool,
    ) -> (CommandEnd, String) {
        let end = self.end().clone().filter(|_| transition == HookTransition::AfterStop);
        let input = Input {
            hook: &found.name,
            transition: transition.to_string(),
            run: &self.run,
            end: end.as_ref(),
        };
        let mut variables: Vec<(&str, OsString)> = vec![
            ("SHEAF_RUN", self.run.run.to_string().into()),
            ("SHEAF_HOOK", found.name.clone().into()),
            ("SHEAF_TRANSITION", transition.to_string().into()),
        ];
        if let Some(directory) = &self.run.directory {
            variables.push(("SHEAF_DIRECTORY", directory.clone().into()));
        }
        let command = UserCommand {
            program: found.program.as_os_str(),
            arguments: found.hook.command.get(1..).unwrap_or_default(),
            variables: &variables,
            input: &format!("{}\n", serde_json::to_string(&input).unwrap_or_default()),
            timeout: found.hook.timeout.to_std(),
            dies_with_caller: true,
        };
        let (began, mut last) = (Instant::now(), String::new());
        let end = command.run(is_interrupted, |line| {
            log_as!(HOOK_OUTPUT; "{}: {line}", found.name);
            line.clone_into(&mut last);
        });
        let record = HookRecord {
            name: found.name.clone(),
            transition: transition.to_string(),
            seconds: began.elapsed().as_secs_f64(),
            good: end.is_good(),
            status: end.to_string(),
        };
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        (end, last)
    }

    fn end(&self) -> MutexGuard<'_, Option<HookedEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
