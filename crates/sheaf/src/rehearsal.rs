//! Rehearsal of a run: its filter, step filter and preprocessor are loaded before it begins.

use crate::own_program::own_program;
use crate::{
    Verdict, active, code, decoders, describe, filters, library, poll_trigger, print, python, steps,
};
use anyhow::{Context, bail};
use sheaf_config::{Config, FilterKind};
use sheaf_wire::RunNumber;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time that loading everything once may take. Files may come from a cold disk or over a network.
const REHEARSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Loads all external code of the run once, in a process of its own, so that errors, including crashes, are found
/// before the run begins.
///
/// # Errors
/// Returns the first filter, step filter or preprocessor that cannot be loaded, with the reason.
pub(crate) fn rehearse(config: &Config, run: RunNumber) -> anyhow::Result<()> {
    rehearse_python(config)?;
    if !code::loads_libraries(config) {
        return Ok(());
    }
    let program = own_program().context("cannot determine the path of this program")?;
    let mut command = Command::new(program);
    command.args(["rehearsal", "--quiet", "--run", &run.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let command = sheaf_machine::ignoring_next_run_signal(&mut command);
    let mut child =
        command.spawn().context("cannot start the process that loads the filter for a rehearsal")?;
    if let Some(mut input) = child.stdin.take() {
        // The child reports its errors itself.
        let _ = input.write_all(config.to_toml().as_bytes());
    }
    let status = wait(&mut child, "what the run loads")?;
    let mut said = String::new();
    if let Some(output) = &mut child.stdout {
        output.read_to_string(&mut said).context("cannot read the output of the rehearsal")?;
    }
    if status.success() {
        return Ok(());
    }
    match said.trim() {
        "" => bail!(
            "the process that loaded the run's code for a rehearsal ended: {status}; {}",
            code::named_files(config)
        ),
        why => bail!("{why}"),
    }
}

/// Waits for a process that may hang.
///
/// # Errors
/// That it hangs; it is killed.
fn wait(child: &mut Child, what: &str) -> anyhow::Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a process")? {
            return Ok(status);
        }
        if start.elapsed() > REHEARSAL_TIMEOUT {
            // Fails where it has ended at last.
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "the process that loads {what} for a rehearsal does not end; does its initialisation block?"
            );
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// `sheaf rehearsal`: loads the code named by the configuration on standard input. Prints the error, if any.
pub(crate) fn command(run: u32) -> anyhow::Result<Verdict> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the configuration")?;
    let config = Config::parse(&text, "the run's configuration")?;
    match load(&config, RunNumber(run)) {
        Ok(()) => Ok(Verdict::Good),
        Err(error) => {
            // The parent prints it. An error of this process would be printed twice.
            print::print(&describe(&error))?;
            Ok(Verdict::NotGood)
        }
    }
}

fn load(config: &Config, run: RunNumber) -> anyhow::Result<()> {
    if code::loads_filter_library(config) {
        drop(filters::open(config, run)?);
    }
    drop(steps::step_filter(config, run)?);
    drop(active::preprocessor(config, run)?);
    library::check(config)?;
    poll_trigger::check(config)?;
    decoders::check(config, run)?;
    Ok(())
}

/// Loads a filter in Python with its parameters; [`NO_FILTER`] if only the filter is at fault.
const REHEARSAL: &str = "\
import sys
import sheaf.processor
try:
    sheaf.load_filter(sys.argv[1], sys.argv[2])
except BaseException as error:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    sys.exit(3)
";

/// Exit status of [`REHEARSAL`] if the package is installed and the filter cannot be loaded.
const NO_FILTER: i32 = 3;

/// For a filter in Python, asks its interpreter before the run begins whether it can run the filter: workers that end
/// at once would be restarted again and again.
///
/// # Errors
/// That the interpreter lacks the package, or the error in the filter.
pub(crate) fn rehearse_python(config: &Config) -> anyhow::Result<()> {
    let filter = &config.filter;
    if filter.kind != FilterKind::Python || !filter.processes {
        return Ok(());
    }
    let (shown, name) = (filter.python.display(), filters::python_name(filter));
    let mut command = Command::new(&filter.python);
    command
        .args(["-c", REHEARSAL, &name, &filter.parameters])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = python::leaving_no_trace(&mut command).spawn();
    let mut child = started.with_context(|| {
        format!("cannot start {shown}; `filter.python` must be a Python interpreter with the package `sheaf`")
    })?;
    wait(&mut child, "the filter in Python")?;
    let output = child.wait_with_output().context("cannot read the output of the interpreter")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.trim_end().lines().next_back().unwrap_or("it gave no reason").to_owned();
    if output.status.code() == Some(NO_FILTER) {
        bail!("{shown} cannot load the filter {name} (`filter.path`): {why}");
    }
    bail!(
        "{shown} (`filter.python`) cannot import the package `sheaf`: {why}; install it for this interpreter \
         (`{shown} -m pip install ./crates/sheaf-python`), or name one that has it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A program in place of the interpreter.
    fn interpreter(directory: &Path, script: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.join("python");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        path
    }

    #[test]
    fn an_interpreter_without_the_package_is_told_by_its_name_before_the_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let lacks =
            interpreter(directory.path(), "echo Traceback >&2; echo \"No module named 'sheaf'\" >&2; exit 1");
        let rehearse = |python: &Path| {
            let mut config = Config::default();
            (config.filter.kind, config.filter.processes) = (FilterKind::Python, true);
            config.filter.python = python.into();
            config.filter.path = Some("mine.py".into());
            rehearse_python(&config)
        };
        let error = rehearse(&lacks).expect_err("it has no package").to_string();
        let said =
            format!("{} (`filter.python`) cannot import the package `sheaf`: No module", lacks.display());
        assert!(error.starts_with(&said), "{error}");
        let has = interpreter(directory.path(), "test \"$3\" = mine.py");
        assert!(rehearse(&has).is_ok());
        let fails = interpreter(directory.path(), "echo 'SyntaxError: mine' >&2; exit 3");
        let error = rehearse(&fails).expect_err("its filter is none").to_string();
        assert!(
            error.ends_with("cannot load the filter mine.py (`filter.path`): SyntaxError: mine"),
            "{error}"
        );
        let error = rehearse(&directory.path().join("none")).expect_err("there is none").to_string();
        assert!(error.contains("cannot start") && error.contains("`filter.python`"), "{error}");
    }
}
