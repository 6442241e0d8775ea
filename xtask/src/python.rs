//! The Python package: built as its users build it, and tested.

use crate::optional::tests;
use crate::{shell, workspace};
use anyhow::{Context as _, Result};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// The environment variable that names the Python interpreter.
pub(crate) const PYTHON_VARIABLE: &str = "SHEAF_PYTHON";

/// The environment variable that names the interpreter of the package, if it differs: the importers need old versions of modules
/// of which the package needs new ones.
pub(crate) const PACKAGE_PYTHON_VARIABLE: &str = "SHEAF_PACKAGE_PYTHON";

/// The environment variable that tells the package's tests where the command is.
const COMMAND_VARIABLE: &str = "SHEAF_COMMAND";

/// The folder of the package.
const FOLDER: &str = "crates/sheaf-python";

/// Returns the interpreter of the importers.
pub(crate) fn interpreter() -> OsString {
    std::env::var_os(PYTHON_VARIABLE).unwrap_or_else(|| "python3".into())
}

/// Returns the interpreter of the Python package.
pub(crate) fn package_interpreter() -> OsString {
    std::env::var_os(PACKAGE_PYTHON_VARIABLE).unwrap_or_else(interpreter)
}

/// Returns whether an interpreter can import these modules, with the package's own sources on its search path.
pub(crate) fn has_beside_sources(interpreter: &OsStr, modules: &str) -> bool {
    let mut probe = importing(interpreter, modules);
    probe.env("PYTHONPATH", workspace::root().join(FOLDER).join("python"));
    probe.status().is_ok_and(|status| status.success())
}

/// Returns whether an interpreter can import these modules.
pub(crate) fn has(interpreter: &OsStr, modules: &str) -> bool {
    importing(interpreter, modules).status().is_ok_and(|status| status.success())
}

fn importing(interpreter: &OsStr, modules: &str) -> Command {
    let mut probe = Command::new(interpreter);
    probe.args(["-c", &format!("import {modules}")]).stdout(Stdio::null()).stderr(Stdio::null());
    probe
}

/// Builds and installs the package with pip, as its page says, and runs its tests.
pub(crate) fn package_tests() -> Result<()> {
    let python = package_interpreter();
    for (modules, why) in [
        ("sys; assert sys.version_info >= (3, 11)", "is older than 3.11"),
        ("pip, maturin", "has no pip or no maturin"),
        ("pytest, numpy", "has no pytest or no numpy"),
    ] {
        if !has(&python, modules) {
            println!("left out: {} {why}; name another with {PACKAGE_PYTHON_VARIABLE}", python.display());
            return Ok(());
        }
    }
    let folder = workspace::root().join(FOLDER);
    let target = workspace::target_directory()?;
    let installed = target.join("python-package");
    if installed.exists() {
        std::fs::remove_dir_all(&installed).with_context(|| installed.display().to_string())?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // All requirements are installed. The development profile shares the build artifacts of the other steps.
    pip.args(["--no-build-isolation", "--no-deps", "--target"]).arg(&installed).arg(&folder);
    pip.env("MATURIN_PEP517_ARGS", "--profile dev").env("CARGO_TARGET_DIR", &target);
    shell::forget_this_package(&mut pip);
    // Without isolation the build looks for the program maturin, which is beside the interpreter.
    pip.env("PATH", path_with(Path::new(&python).parent())?);
    shell::run(&mut pip)?;
    put_beside_sources(&installed, &folder)?;

    // Built as for the tests of the command, which are usually built already.
    shell::run(tests().args(["--quiet", "--no-run", "--test", "command"]))?;
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest"]).current_dir(&folder);
    pytest.env("PYTHONPATH", folder.join("python"));
    pytest.env(COMMAND_VARIABLE, target.join("debug/sheaf"));
    shell::run(&mut pytest)?;
    // The example filter must decide alike in all its languages; this includes Python.
    let mut twins = tests();
    twins.args(["--quiet", "--test", "same_decisions"]);
    shell::run(twins.env("PYTHONPATH", folder.join("python")).env(PYTHON_VARIABLE, &python))?;
    // The example of a whole set-up has a filter, a monitor and board readers in Python.
    let mut shift = tests();
    shift.args(["--quiet", "--test", "command", "shift::"]);
    shell::run(shift.env(PACKAGE_PYTHON_VARIABLE, &python))?;
    if !has(&python, "mypy") {
        println!("left out: types, because {} has no mypy", python.display());
        return Ok(());
    }
    let mut mypy = Command::new(&python);
    shell::run(
        mypy.args(["-m", "mypy", "-p", "sheaf"]).current_dir(&folder).env("MYPYPATH", folder.join("python")),
    )
}

/// Returns the search path for programs, with `folder` first.
pub(crate) fn path_with(folder: Option<&Path>) -> Result<OsString> {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let first = folder.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&known)))
        .context("a folder's name contains a colon")
}

/// Copies the extension module beside the sources, where the tests and examples import it.
fn put_beside_sources(installed: &Path, folder: &Path) -> Result<()> {
    let package = installed.join("sheaf");
    for entry in std::fs::read_dir(&package).with_context(|| package.display().to_string())? {
        let path = entry?.path();
        if let Some(name) = path.file_name()
            && path.extension().is_some_and(|extension| extension == "so")
        {
            let copy = folder.join("python/sheaf").join(name);
            std::fs::copy(&path, &copy).with_context(|| copy.display().to_string())?;
        }
    }
    Ok(())
}
