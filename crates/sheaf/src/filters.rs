//! The filter that a configuration asks for.

use crate::timed;
use anyhow::{Context, bail};
use sheaf_config::{Config, FilterKind};
use sheaf_filter::{AcceptAll, Filter, LibraryFilter, Prescale, Setup};
use sheaf_node::busy::Busy;
use sheaf_node::coincidence::CoincidenceFilter;
use sheaf_wire::RunNumber;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long an interpreter may take to import the package: loading what it needs may take a while on a cold disk.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the filter for a run: one for each builder or processor, each has its own state. A library is loaded here, so
/// that each run has the version that is on disk when it starts.
pub(crate) fn open(config: &Config, run: RunNumber) -> anyhow::Result<Box<dyn Filter>> {
    let filter = &config.filter;
    Ok(match filter.kind {
        FilterKind::AcceptAll => Box::new(AcceptAll),
        FilterKind::Prescale => Box::new(Prescale { factor: filter.prescale }),
        FilterKind::Coincidence => {
            let slices = timed::slices(&config.source.timed);
            Box::new(CoincidenceFilter::new(timed::coincidence(filter), slices))
        }
        FilterKind::Library => {
            let path = filter.path.as_deref().context("`filter.path` is not set")?;
            let setup = Setup { run, tags: filter.tags.clone(), parameters: filter.parameters.clone() };
            Box::new(LibraryFilter::open(path, &filter.symbol, &setup)?)
        }
        FilterKind::Busy => Box::new(Busy { time: filter.busy }),
        FilterKind::Python => bail!(
            "the filter is in Python, and this worker is not; `{} -m sheaf.processor --join DOOR {}` is one",
            filter.python.display(),
            python_name(filter)
        ),
    })
}

/// The filter of a builder unit. Also where workers judge in its place it is made, so that what is wrong with it is found before
/// the run starts; but not in Python, which this process does not speak.
pub(crate) fn of_builder(config: &Config, run: RunNumber) -> anyhow::Result<Box<dyn Filter>> {
    match config.filter.kind {
        FilterKind::Python => Ok(Box::new(AcceptAll)),
        _ => open(config, run),
    }
}

/// Asks the interpreter that is to run the filter whether it has what that takes, before the run begins: workers that end at once
/// would be started again and again.
pub(crate) fn rehearse(config: &Config) -> anyhow::Result<()> {
    let filter = &config.filter;
    if filter.kind != FilterKind::Python || !filter.processes {
        return Ok(());
    }
    can_import(&filter.python)
}

fn can_import(python: &Path) -> anyhow::Result<()> {
    let shown = python.display();
    let mut command = Command::new(python);
    command
        .args(["-c", "import sheaf.processor"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = command.spawn();
    let mut child = started.with_context(|| {
        format!("cannot start {shown}; `filter.python` should be a Python interpreter that has the package `sheaf`")
    })?;
    let start = Instant::now();
    while child.try_wait().context("cannot wait for the interpreter")?.is_none() {
        if start.elapsed() > IMPORT_TIMEOUT {
            // Fails where it has ended at last.
            let _ = child.kill();
            let _ = child.wait();
            bail!(
                "{shown} (`filter.python`) does not come back from `import sheaf`; is it a Python interpreter?"
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().context("cannot hear what the interpreter says")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.trim_end().lines().next_back().unwrap_or("it does not say why").to_owned();
    bail!(
        "{shown} (`filter.python`) cannot import the package `sheaf`: {why}; install it for this interpreter \
         (`{shown} -m pip install ./crates/sheaf-python`), or name one that has it"
    )
}

/// What `sheaf.processor` calls a filter: `file.py:name`, or `file.py`.
pub(crate) fn python_name(filter: &sheaf_config::Filter) -> String {
    let path = filter.path.as_deref().unwrap_or(std::path::Path::new("")).display();
    match &filter.function {
        Some(function) => format!("{path}:{function}"),
        None => path.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let error = can_import(&lacks).expect_err("it has no package").to_string();
        let said =
            format!("{} (`filter.python`) cannot import the package `sheaf`: No module", lacks.display());
        assert!(error.starts_with(&said), "{error}");
        let has = interpreter(directory.path(), "test \"$2\" = 'import sheaf.processor'");
        assert!(can_import(&has).is_ok());
        let error = can_import(&directory.path().join("none")).expect_err("there is none").to_string();
        assert!(error.contains("cannot start") && error.contains("`filter.python`"), "{error}");
    }
}
