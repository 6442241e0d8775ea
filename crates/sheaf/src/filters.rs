//! The filter that a configuration asks for.

use crate::{code, timed};
use anyhow::{Context, bail};
use sheaf_config::{Config, FilterKind};
use sheaf_filter::{AcceptAll, Filter, LibraryFilter, Prescale, Setup};
use sheaf_node::busy::Busy;
use sheaf_node::coincidence::CoincidenceFilter;
use sheaf_wire::RunNumber;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes the filter for a run: one for each builder or processor, each has its own state. A library is loaded here.
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
            "the filter is in Python, and this worker is not; use `{} -m sheaf.processor --join DOOR {}`",
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

/// Where the filter is in Python asks the interpreter that is to run it whether it can, before the run begins: workers that end
/// at once would be started again and again.
///
/// # Errors
/// That it lacks the package, or what is wrong with the filter.
pub(crate) fn rehearse_python(config: &Config) -> anyhow::Result<()> {
    let filter = &config.filter;
    if filter.kind != FilterKind::Python || !filter.processes {
        return Ok(());
    }
    let (shown, name) = (filter.python.display(), python_name(filter));
    let mut command = Command::new(&filter.python);
    command
        .args(["-c", REHEARSAL, &name, &filter.parameters])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = leaving_no_trace(&mut command).spawn();
    let mut child = started.with_context(|| {
        format!("cannot start {shown}; `filter.python` should be a Python interpreter that has the package `sheaf`")
    })?;
    code::wait(&mut child, "the filter in Python")?;
    let output = child.wait_with_output().context("cannot read the output of the interpreter")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.trim_end().lines().next_back().unwrap_or("it does not say why").to_owned();
    if output.status.code() == Some(NO_FILTER) {
        bail!("{shown} cannot load the filter {name} (`filter.path`): {why}");
    }
    bail!(
        "{shown} (`filter.python`) cannot import the package `sheaf`: {why}; install it for this interpreter \
         (`{shown} -m pip install ./crates/sheaf-python`), or name one that has it"
    )
}

/// Python, but without compiled files beside the script: that may be the run's copy.
pub(crate) fn leaving_no_trace(python: &mut Command) -> &mut Command {
    python.env("PYTHONDONTWRITEBYTECODE", "1")
}

/// Whether what `filter.path` names is a Python file, and not a module that the interpreter finds by itself.
pub(crate) fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Returns the name of a filter as `sheaf.processor` expects it: `file.py:name`, or `file.py`.
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
