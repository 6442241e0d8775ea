//! The interface for programs: a running `sheaf serve` compared with its description, by schemathesis.

use crate::build::{self, Profile};
use crate::{python, shell, workspace};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the check.
const FOLDER: &str = "tools/openapi";

/// Number of generated requests of each kind for every change: about half a minute together.
const EXAMPLES: u32 = 15;

/// Options of `cargo xtask openapi`.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenapiArguments {
    /// Number of generated requests of each kind.
    #[arg(long, value_name = "N", default_value_t = EXAMPLES)]
    examples: u32,
    /// Command to check, instead of the release build.
    #[arg(long, value_name = "FILE")]
    sheaf: Option<PathBuf>,
}

impl Default for OpenapiArguments {
    fn default() -> Self {
        Self { examples: EXAMPLES, sheaf: None }
    }
}

/// `cargo xtask openapi`.
pub(crate) fn command(arguments: &OpenapiArguments) -> Result<()> {
    let environment = workspace::target_directory()?.join("openapi-python");
    // Registries are settings of the machine. Without one, nothing is known of the interface.
    let python = match prepare(&environment) {
        Ok(python) => python,
        Err(error) => {
            println!(
                "left out: the interface for programs, because schemathesis cannot be installed: {error:#}"
            );
            return Ok(());
        }
    };
    let sheaf = match &arguments.sheaf {
        Some(sheaf) => std::path::absolute(sheaf).with_context(|| sheaf.display().to_string())?,
        None => build::sheaf(Profile::Release)?,
    };
    let mut check = Command::new(python);
    check.arg("check.py").arg(sheaf).arg(arguments.examples.to_string());
    shell::run(check.current_dir(workspace::root().join(FOLDER)))
}

/// Installs schemathesis in an environment of its own, unless it is there, and returns its interpreter.
fn prepare(environment: &Path) -> Result<PathBuf> {
    let python = environment.join("bin/python3");
    if !python::has(python.as_os_str(), "schemathesis") {
        shell::run(Command::new(python::package_interpreter()).args(["-m", "venv"]).arg(environment))?;
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            "requirements.txt",
        ]);
        shell::run(pip.current_dir(workspace::root().join(FOLDER)))?;
    }
    Ok(python)
}
