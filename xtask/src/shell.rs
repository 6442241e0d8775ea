//! Runs programs, and prints each command and how long it took.

use crate::root::root;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Returns whether a program can be started and tells its version.
pub(crate) fn tells_version(program: &mut Command) -> bool {
    program.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    program.status().is_ok_and(|status| status.success())
}

/// Returns whether this process belongs to root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
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

/// Steps of a longer task. Each is preceded by a line with its name; a table of their times follows at the end.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

/// A step that has ended.
#[derive(Debug)]
struct Step {
    name: &'static str,
    duration: Duration,
    /// Processor time of the programs that have ended in this step; `None` if the system does not tell.
    processor: Option<Duration>,
}

impl Steps {
    /// Runs one step.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let (began, processor_before) = (Instant::now(), processor_time_of_programs());
        let result = work();
        let duration = began.elapsed();
        let processor = processor_time_of_programs().zip(processor_before);
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        println!("== {name}: {verdict} in {:.1} s", duration.as_secs_f64());
        let processor = processor.map(|(after, before)| after.saturating_sub(before));
        self.done.push(Step { name, duration, processor });
        result.with_context(|| format!("step \"{name}\""))
    }

    /// Prints that all steps passed.
    pub(crate) fn finish(&self) {
        println!("\nall {} steps passed", self.done.len());
    }
}

impl Drop for Steps {
    /// Prints the duration and the processor time of each step, also if one failed.
    fn drop(&mut self) {
        println!("\n{:>10}{:>11}", "elapsed", "processor");
        for step in &self.done {
            println!("{}", row(step.duration, step.processor, step.name));
        }
        let duration = self.done.iter().map(|step| step.duration).sum();
        let processor = self.done.iter().map(|step| step.processor).sum();
        println!("{}", row(duration, processor, "in all"));
    }
}

/// Returns a line of the table of times.
fn row(duration: Duration, processor: Option<Duration>, name: &str) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    format!("{:>10}{:>11}  {name}", seconds(duration), processor.map_or(String::new(), seconds))
}

/// Returns the processor time of all programs that this process has started and that have ended, including those that they have
/// started.
fn processor_time_of_programs() -> Option<Duration> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain spaces. The fields are described in proc_pid_stat(5).
    let mut fields = status.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    // A tick is 10 ms in this file, whatever the kernel's own is.
    Some(Duration::from_millis(10 * ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_have_ended_take_processor_time() {
        let before = processor_time_of_programs().expect("Linux has /proc");
        let mut after = before;
        // A loop that is too short for a tick may be counted as none: the amount of work ends the test.
        while after == before {
            let mut shell = Command::new("sh");
            output(shell.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])).expect("it runs");
            after = processor_time_of_programs().expect("Linux has /proc");
        }
        assert!(after > before);
    }
}
