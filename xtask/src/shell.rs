//! Runs programs, and prints each command and how long it took.

use crate::root::root;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Returns a call of the cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    forget_this_package(&mut command);
    command
}

/// Removes the environment variables that describe this program's own package. The build script of `ring` depends on them: if they
/// differed between calls of cargo from here and from a shell, each alternation would rebuild `ring` and everything that depends on it.
pub(crate) fn forget_this_package(command: &mut Command) {
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
}

/// Returns the command as it would be typed at the root of the repository.
pub(crate) fn typed(command: &Command) -> String {
    let root = format!("{}/", root().display());
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())))
        .collect();
    let program = command.get_program().to_string_lossy();
    words.push(program.rsplit('/').next().unwrap_or(&program).to_owned());
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().replace(&root, "")));
    words.join(" ")
}

/// Prints the command and runs it with its output shown immediately. A failure is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", typed(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", typed(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", typed(command));
    }
    Ok(())
}

/// Returns whether `pkg-config` finds a library with its headers. `library` has the form `name >= version`.
pub(crate) fn pkg_config_finds(library: &str) -> bool {
    let mut probe = Command::new("pkg-config");
    probe.args(["--exists", library]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Runs the command and returns what it prints on standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", typed(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", typed(command), output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", typed(command)))
}

/// Steps of a longer task. Each is preceded by a line with its name; a table of their durations follows at the end.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, f64)>,
}

impl Steps {
    /// Runs one step.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let began = Instant::now();
        let result = work();
        let seconds = began.elapsed().as_secs_f64();
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        println!("== {name}: {verdict} in {seconds:.1} s");
        self.done.push((name, seconds));
        result.with_context(|| format!("step \"{name}\""))
    }

    /// Prints that all steps passed.
    pub(crate) fn finish(&self) {
        println!("\nall {} steps passed", self.done.len());
    }
}

impl Drop for Steps {
    /// Prints the duration of each step, also if one failed.
    fn drop(&mut self) {
        println!();
        for (name, seconds) in &self.done {
            println!("{seconds:>8.1} s  {name}");
        }
        println!("{:>8.1} s  in all", self.done.iter().map(|(_, seconds)| seconds).sum::<f64>());
    }
}
