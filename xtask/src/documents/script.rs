//! The shell script of a page, and its results.
//!
//! One shell runs all blocks of a page. It writes its progress to a separate file, so that a failure names its line.

use super::needs::Machine;
use super::network;
use super::output;
use super::page::{Action, Block, Page};
use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time after which a page is considered to hang.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Folder in a page's directory for the files of the harness.
const OWN: &str = ".docs-test";

/// Opening of a script. A failing command ends the script and is written to the progress. Background commands are recorded when
/// the next command begins, because the shell's own list forgets those that have ended.
const PROLOGUE: &str = r#"set -eE -o pipefail
own=$PWD/.docs-test
exec 3>>"$own/progress"
trap 'echo "status $? of: $BASH_COMMAND" >&3' ERR
last_job= jobs_begun=()
trap '[ "${!:-}" = "$last_job" ] || { last_job=$!; jobs_begun+=("$last_job"); }' DEBUG
"#;

/// End of a script. Commands that still run in the background are interrupted, as by Ctrl-C, and must succeed. The shell has no
/// status of those that the page itself has waited for.
const EPILOGUE: &str = r#"echo "commands in the background" >&3
for job in $(jobs -p); do kill -INT "$job" 2>/dev/null || true; done
for job in "${jobs_begun[@]}"; do
    ended=0
    wait "$job" 2>"$own/wait" || ended=$?
    if grep -q "not a child" "$own/wait"; then continue; fi
    case $ended in 0 | 130) ;; *) echo "status $ended of a command in the background" >&3; exit 1 ;; esac
done
"#;

/// Results of the blocks of a page.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) run: usize,
    /// Line and reason of each block that did not run.
    pub(super) skipped: Vec<(usize, String)>,
}

/// Runs a page in its directory.
///
/// # Errors
///
/// If a command fails, or its output differs from that on the page.
pub(super) fn run(machine: &Machine, page: &Page, directory: &Path) -> Result<Outcome> {
    let own = directory.join(OWN);
    std::fs::create_dir_all(own.join("bin"))?;
    let mut outcome = Outcome::default();
    let mut script = PROLOGUE.to_owned();
    for (index, block) in page.blocks.iter().enumerate() {
        if let Some(reason) = reason_to_skip(machine, block) {
            outcome.skipped.push((block.line, reason));
        } else if let Some(commands) = commands(block, index, &own)? {
            outcome.run += 1;
            let out = own.join(format!("{index}.out"));
            let (line, out) = (block.line, out.display());
            let _ = writeln!(script, "echo {line} >&3\n{{\n{commands}}} >'{out}' 2>&1");
        }
    }
    script.push_str(EPILOGUE);
    std::fs::write(own.join("script"), script)?;
    let status = execute(machine, directory)?;
    if !status.success() {
        bail!("{}", failure(page, directory));
    }
    compare_outputs(page, &outcome, &own)?;
    Ok(outcome)
}

fn reason_to_skip(machine: &Machine, block: &Block) -> Option<String> {
    match &block.action {
        Action::Skip(reason) => Some(reason.clone()),
        Action::Python(_) => machine.lacks(&["python3".to_owned()]).or_else(|| machine.lacks(&block.needs)),
        _ => machine.lacks(&block.needs),
    }
}

/// Returns the shell commands of a block; `None` if there is nothing to run.
fn commands(block: &Block, index: usize, own: &Path) -> Result<Option<String>> {
    let kept = |text: &str, kind: &str| -> Result<String> {
        let name = format!("{index}.{kind}");
        std::fs::write(own.join(&name), text)?;
        // Absolute path: the page may have changed the directory.
        Ok(format!("'{}'", own.join(name).display()))
    };
    let commands = match &block.action {
        Action::Shell { commands, status: 0 } => commands.clone(),
        Action::Shell { commands, status } => {
            format!("set +eE\n{commands}ended=$?\nset -eE\n[ $ended = {status} ]\n")
        }
        Action::Python(text) => format!("python3 {}\n", kept(text, "py")?),
        // Findings about this machine are not faults of the page.
        Action::Configuration(text) => {
            format!("sheaf doctor --config {} || [ $? = 3 ]\n", kept(text, "toml")?)
        }
        Action::File { name, text } => {
            format!("mkdir -p \"$(dirname '{name}')\"\ncp {} '{name}'\n", kept(text, "text")?)
        }
        Action::Output(_) if !block.before.is_empty() => String::new(),
        Action::Output(_) | Action::Skip(_) => return Ok(None),
    };
    Ok(Some(format!("{}{commands}", block.before)))
}

fn execute(machine: &Machine, directory: &Path) -> Result<ExitStatus> {
    let own = directory.join(OWN);
    // Interpreters of virtual environments find their environment by their path, so a link would not work.
    let python = format!("exec '{}' \"$@\"", machine.python.display());
    // A page that builds the workspace would take minutes, and hold the lock of the target directory.
    let cargo = "echo 'docs-test does not build: put a comment `skip ...` before this block' >&2; exit 1";
    for (name, body) in [("python", &*python), ("python3", &*python), ("cargo", cargo)] {
        let path = own.join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable)?;
    }
    std::os::unix::fs::symlink(&machine.sheaf, own.join("bin/sheaf"))?;
    let known = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(own.join("bin")).chain(std::env::split_paths(&known)))?;
    let mut bash = match machine.has_namespaces {
        true => network::own("bash".as_ref()),
        false => Command::new("bash"),
    };
    bash.arg(own.join("script")).current_dir(directory).env("PATH", path).stdin(Stdio::null());
    bash.env("SHEAF_DATA", &machine.data).env("PYTHONPATH", directory.join("crates/sheaf-python/python"));
    // Own process group, so that a page that hangs is ended with all that it has started.
    bash.process_group(0);
    wait(bash.spawn().context("cannot start bash")?)
}

fn wait(mut shell: Child) -> Result<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = shell.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > WATCHDOG {
            let mut kill = Command::new("kill");
            kill.args(["-KILL", "--", &format!("-{}", shell.id())]);
            kill.status().context("cannot start kill")?;
            return Ok(shell.wait()?);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns where the script ended, and the last output of the block there.
fn failure(page: &Page, directory: &Path) -> String {
    let own = directory.join(OWN);
    let progress = std::fs::read_to_string(own.join("progress")).unwrap_or_default();
    let line = progress.lines().filter_map(|line| line.parse::<usize>().ok()).next_back();
    let why = progress.lines().next_back().unwrap_or("the shell did not start");
    let index = page.blocks.iter().position(|block| Some(block.line) == line).unwrap_or(0);
    let printed = std::fs::read_to_string(own.join(format!("{index}.out"))).unwrap_or_default();
    let printed: Vec<&str> = printed.lines().collect();
    let last = printed[printed.len().saturating_sub(15)..].join("\n    ");
    let line = line.unwrap_or(0);
    format!("line {line}: {why}\n    {last}\n    (its directory is kept: {})", directory.display())
}

fn compare_outputs(page: &Page, outcome: &Outcome, own: &Path) -> Result<()> {
    let mut printer = None;
    for (index, block) in page.blocks.iter().enumerate() {
        let is_skipped = outcome.skipped.iter().any(|(line, _)| *line == block.line);
        if !matches!(block.action, Action::Output(_)) || !block.before.is_empty() {
            printer = (!is_skipped).then_some(index);
        }
        let (Action::Output(shown), Some(printer)) = (&block.action, printer) else {
            continue;
        };
        let printed = std::fs::read_to_string(own.join(format!("{printer}.out")))?;
        if let Some(missing) = output::first_missing(shown, &printed) {
            let line = block.line;
            bail!("line {line}: no line like `{missing}` was printed, but:\n{printed}");
        }
    }
    Ok(())
}
