//! Programs of the user that a node starts, from the configuration.

use crate::Verdict;
use crate::arguments::GuardArguments;
use crate::own_program::own_program;
use crate::plan::Plan;
use anyhow::{Context, bail};
use rustix::fs::{Access, access};
use sheaf_config::{Config, NodeConfig, Program, ProgramStart, Restart, SourceKind};
use sheaf_feed::environment;
use sheaf_node::programs::{LaunchProgram, ProgramProcess, ProgramRules, ProgramSetup, Programs, guard};
use sheaf_node::restarts::RestartPolicy;
use sheaf_protocol::Identity;
use sheaf_source::Source;
use sheaf_wire::{Nanos, Role, SourceId};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Programs of nodes of this process, by the names of the nodes.
pub(crate) type RunningPrograms = Vec<(String, Programs)>;

/// Programs of nodes of this process, whose accounts the summary asks for.
pub(crate) type EndingPrograms = Arc<Mutex<RunningPrograms>>;

/// Checks that the programs of the nodes of this host exist on it.
///
/// # Errors
/// The first that cannot be started, and why.
pub(crate) fn check(plan: &Plan) -> anyhow::Result<()> {
    for node in plan.nodes_here().filter(|node| node.id.role == Role::Readout) {
        for start in plan.config.programs_of(node) {
            find(&start)?;
        }
    }
    Ok(())
}

/// Returns the path of a program.
fn find(start: &ProgramStart<'_>) -> anyhow::Result<PathBuf> {
    let Program { command, directory, .. } = start.program;
    let what = || {
        format!("program {} (`programs.{0}.command`) cannot be started", table(&start.name, start.program))
    };
    find_command(command, directory.as_deref()).with_context(what)
}

/// Returns the path of the program of a command that runs in a directory.
pub(crate) fn find_command(command: &[String], directory: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        bail!("{} is not a directory; correct `directory`", directory.display());
    }
    resolve(command.first().map(String::as_str).unwrap_or_default())
}

/// Returns the variables of an environment that the configuration lists.
pub(crate) fn variables(listed: &[String]) -> Vec<(String, OsString)> {
    let variable = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.into()));
    listed.iter().filter_map(variable).collect()
}

/// Returns the arguments of the guard of a command.
pub(crate) fn guarded(config: &Config, command: Vec<OsString>) -> Vec<OsString> {
    let grace = config.source.command.stop_timeout;
    let mut arguments: Vec<OsString> = vec!["guard".into(), "--quiet".into()];
    arguments.push(format!("--grace-ms={}", grace.0.div_ceil(1_000_000)).into());
    arguments.push("--".into());
    arguments.extend(command);
    arguments
}

/// Returns the name of the program's table: processes for one source each have its number behind.
fn table<'a>(name: &'a str, program: &Program) -> &'a str {
    let split = name.rsplit_once('.').filter(|_| program.per_source);
    split.map_or(name, |(table, _)| table)
}

/// Finds a program as a shell does.
fn resolve(name: &str) -> anyhow::Result<PathBuf> {
    let can_run = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        let path = std::path::absolute(name).context("cannot determine the working directory")?;
        let shown = path.display();
        if !path.exists() {
            bail!("{shown} does not exist; relative paths start at the working directory of sheaf");
        }
        if !can_run(&path) {
            bail!(
                "{shown} cannot be executed; run `chmod +x {shown}`, or name its interpreter: `command = [\"python3\", \"{name}\"]`"
            );
        }
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| can_run(path));
    found.with_context(|| {
        format!("there is no program `{name}` in PATH; install it, or write its path: `./{name}` is the one in the working directory of sheaf")
    })
}

impl Plan {
    /// Starts the programs that feed sources of a readout unit, and returns these. Output of the programs goes to
    /// `directory`, if the run has one.
    pub(crate) fn start_programs(
        &self,
        me: &Identity,
        node: &NodeConfig,
        sources: Vec<Box<dyn Source>>,
        (directory, waker): (Option<&Path>, Waker),
        ending: &EndingPrograms,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let starts = self.starts(me, node)?;
        if starts.is_empty() {
            return Ok(sources);
        }
        let feed = &self.config.source.feed;
        let is_required = |source: &SourceId| !self.config.source.optional.contains(source);
        let log = |start: &Start| Some(directory?.join(format!("{}.{}.log", me.node, start.name)));
        let setup = |start: &Start| ProgramSetup {
            name: start.name.clone(),
            sources: start.sources.clone(),
            awaited: feed.wait && start.sources.iter().any(is_required),
            log: log(start).filter(|_| self.config.source.command.log.is_some()),
            counts: start.is_own,
        };
        let setups = starts.iter().map(setup).collect();
        let launch = launcher(starts)?;
        let programs = Programs::start(me.node, setups, rules(&self.config), launch, waker)
            .context("correct its table in [programs]; its output up to then is in its log")?;
        let sources = sources.into_iter().map(|source| programs.watch(source)).collect();
        ending.lock().unwrap_or_else(PoisonError::into_inner).push((self.full_name(me.node), programs));
        Ok(sources)
    }

    /// Returns the processes that feed sources of a readout unit.
    fn starts(&self, me: &Identity, node: &NodeConfig) -> anyhow::Result<Vec<Start>> {
        let socket = std::path::absolute(self.config.feed_socket(me.node))
            .context("cannot determine the working directory")?;
        let start =
            |name: String, sources: Vec<SourceId>, command: Vec<OsString>, program: Option<&Program>| {
                let arguments = guarded(&self.config, command);
                let own = program.map(|program| program.environment.as_slice()).unwrap_or_default();
                let mut variables = variables(own);
                let list: Vec<String> = sources.iter().map(SourceId::to_string).collect();
                variables.push((environment::ADDRESS.into(), socket.clone().into()));
                variables.push((environment::SOURCES.into(), list.join(",").into()));
                variables.push((environment::NAME.into(), name.clone().into()));
                variables.push((environment::RUN.into(), me.run.to_string().into()));
                let directory = program.and_then(|program| program.directory.clone());
                Start { name, sources, arguments, variables, directory, is_own: program.is_none() }
            };
        if let Some(command) = self.poll_command() {
            let sheaf = own_program().context("cannot determine the path of this program")?;
            let command = std::iter::once(sheaf.into()).chain(command).collect();
            return Ok(vec![start("library".to_owned(), node.sources.clone(), command, None)]);
        }
        let of_program = |found: ProgramStart<'_>| {
            let arguments = found.program.command.iter().skip(1).map(OsString::from);
            let command = std::iter::once(find(&found)?.into()).chain(arguments).collect();
            Ok(start(found.name, found.sources, command, Some(found.program)))
        };
        self.config.programs_of(node).into_iter().map(of_program).collect()
    }
}

/// A process that feeds sources or gives triggers, behind a guard.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) sources: Vec<SourceId>,
    /// Arguments of the guard.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<(String, OsString)>,
    pub(crate) directory: Option<PathBuf>,
    /// Whether it is a process of Sheaf.
    pub(crate) is_own: bool,
}

/// Returns how the programs are launched: each behind a guard, which is a process of this program.
pub(crate) fn launcher(starts: Vec<Start>) -> anyhow::Result<LaunchProgram> {
    own_program().context("cannot determine the path of this program")?;
    Ok(Box::new(move |index, pipe| {
        let Start { arguments, variables, directory, .. } = &starts[index];
        let (stream, its_end) = UnixStream::pair()?;
        let mut command = Command::new(own_program()?);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        // In a group of its own: Ctrl-C ends the run, and that ends its programs.
        command.process_group(0).stdin(OwnedFd::from(its_end)).stdout(pipe.try_clone()?).stderr(pipe);
        let child = sheaf_machine::ignoring_next_run_signal(&mut command).spawn()?;
        Ok(ProgramProcess { stream, child: Some(child) })
    }))
}

pub(crate) fn rules(config: &Config) -> ProgramRules {
    let command = &config.source.command;
    let restarts = RestartPolicy {
        pause: (command.restart_min, command.restart_max),
        works_after: command.works_after,
        // The last death of a row is not followed by a restart.
        in_a_row: command.max_deaths.map(|most| most - 1),
    };
    ProgramRules {
        restarts: (command.restart == Restart::OnFailure).then_some(restarts),
        stop_timeout: command.stop_timeout,
        log_bytes: command.log.map_or(0, |bytes| bytes.0),
        log_lines: command.log_lines,
    }
}

/// Returns the time that programs may take to end after the end of a run.
pub(crate) fn time_to_end(config: &Config) -> Nanos {
    let has_programs = matches!(config.source.kind, SourceKind::Command | SourceKind::Library)
        || config.trigger.mode.starts_supervisor();
    if has_programs { Nanos(config.source.command.stop_timeout.0.saturating_mul(2)) } else { Nanos::ZERO }
}

/// `sheaf guard`: starts a program and ends with it. The readout unit is at the other end of standard input.
pub(crate) fn command(arguments: &GuardArguments) -> anyhow::Result<Verdict> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("cannot use standard input")?;
    let [program, rest @ ..] = &arguments.command[..] else { bail!("there is no program to start") };
    let mut command = Command::new(program);
    command.args(rest);
    sheaf_machine::dying_with_this_thread(&mut command);
    guard::guard(UnixStream::from(input), &mut command, Nanos::from_millis(arguments.grace_ms))
        .context("cannot watch the program")?;
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let shell = resolve("sh").expect("there is a shell");
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        let absent = resolve("no-such-program").expect_err("there is none").to_string();
        assert!(absent.contains("no program `no-such-program` in PATH"), "{absent}");
        let absent = resolve("./no-such-program").expect_err("there is none").to_string();
        assert!(absent.contains("does not exist"), "{absent}");
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("board.py");
        std::fs::write(&script, "").expect("a file");
        let error = resolve(&script.display().to_string()).expect_err("not executable").to_string();
        assert!(error.contains("chmod +x"), "{error}");
    }
}
