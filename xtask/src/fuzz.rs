//! Fuzzing: finding new inputs with libFuzzer, and replaying the committed ones.

use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Folder of the fuzz targets, which is a workspace of its own.
const FOLDER: &str = "fuzz";

/// Maximum length of an input. Small inputs run faster, and shorter ones suffice to reach every limit of the parsers.
const INPUT_BYTES_MAX: u32 = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArguments {
    /// The target; all in turn where not given.
    target: Option<String>,
    /// Maximum duration of fuzzing for each target. Default: 60, or no limit with --executions.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Maximum number of executions of each target. Default: no limit.
    #[arg(long, value_name = "N")]
    executions: Option<u64>,
}

/// When fuzzing of a target ends: at the first of the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Duration.
    pub(crate) seconds: Option<u64>,
    /// Number of executions.
    pub(crate) executions: Option<u64>,
}

impl FuzzArguments {
    fn limits(&self) -> Limits {
        let default = self.executions.is_none().then_some(60);
        Limits { seconds: self.seconds.or(default), executions: self.executions }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShrinkArguments {
    /// The target; all in turn where not given.
    target: Option<String>,
}

/// Returns the names of all targets: the files of `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let folder = workspace::root().join(FOLDER).join("fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if let (Some("rs"), Some(name)) = (path.extension().and_then(|e| e.to_str()), path.file_stem()) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the given target, or all.
fn chosen(target: Option<&String>) -> Result<Vec<String>> {
    let known = targets()?;
    match target {
        None => Ok(known),
        Some(name) if known.contains(name) => Ok(vec![name.clone()]),
        Some(name) => bail!("there is no fuzz target {name}; the targets are {}", known.join(", ")),
    }
}

/// `cargo xtask fuzz`.
pub(crate) fn command(arguments: &FuzzArguments) -> Result<()> {
    fuzz_in_turn(&chosen(arguments.target.as_ref())?, arguments.limits())
}

/// Fuzzes all targets in turn.
pub(crate) fn fuzz_all(limits: Limits) -> Result<()> {
    fuzz_in_turn(&targets()?, limits)
}

/// Fuzzes targets in turn, and prints the number of executions of each.
fn fuzz_in_turn(targets: &[String], limits: Limits) -> Result<()> {
    let mut counts = Vec::new();
    for target in targets {
        let began = Instant::now();
        counts.push((target.as_str(), fuzz(target, limits)?, began.elapsed().as_secs_f64()));
    }
    println!("\n{:<24} {:>16} {:>10}", "target", "executions", "seconds");
    for (target, executions, seconds) in &counts {
        println!("{target:<24} {executions:>16} {seconds:>10.1}");
    }
    let executions: u64 = counts.iter().map(|(_, executions, _)| executions).sum();
    let seconds: f64 = counts.iter().map(|(.., seconds)| seconds).sum();
    println!("{:<24} {executions:>16} {seconds:>10.1}", "all");
    Ok(())
}

/// Fuzzes a target. Returns the number of executions.
fn fuzz(target: &str, limits: Limits) -> Result<u64> {
    let mut command = cargo_fuzz("run", target)?;
    command.args(["--", &format!("-max_len={INPUT_BYTES_MAX}")]);
    command.args(limits.seconds.map(|seconds| format!("-max_total_time={seconds}")));
    command.args(limits.executions.map(|executions| format!("-runs={executions}")));
    // Without libFuzzer's periodic status lines.
    command.args(["-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1", "-verbosity=0"]);
    println!("$ {}", shell::typed(&command));
    let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start cargo-fuzz")?;
    let said = BufReader::new(child.stderr.take().context("standard error is a pipe")?);
    let mut executions = 0;
    for line in said.split(b'\n') {
        let line = line.context("cannot read what cargo-fuzz says")?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        executions = executions_in(&line).unwrap_or(executions);
    }
    let status = child.wait().context("cargo-fuzz does not end")?;
    ensure!(
        status.success(),
        "an input in {FOLDER}/artifacts/{target} breaks {target}; fix the parser, then move the input to {FOLDER}/corpus/{target}"
    );
    Ok(executions)
}

/// Returns the number of executions if this is the line of libFuzzer's statistics that has it.
fn executions_in(line: &str) -> Option<u64> {
    line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok()
}

/// `cargo xtask fuzz-shrink`.
pub(crate) fn shrink(arguments: &ShrinkArguments) -> Result<()> {
    for target in chosen(arguments.target.as_ref())? {
        shell::run(&mut cargo_fuzz("cmin", &target)?)?;
    }
    println!("now run `cargo xtask fuzz-seeds`: seeds are kept even if they reach no new code");
    Ok(())
}

/// Returns `cargo fuzz VERB TARGET` with a nightly compiler if one is installed: the address sanitizer needs it.
fn cargo_fuzz(verb: &str, target: &str) -> Result<Command> {
    let works = |program: &str, arguments: &[&str]| {
        let mut probe = Command::new(program);
        probe.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    if !works("cargo-fuzz", &["--version"]) {
        bail!(
            "cargo-fuzz is not installed: run `cargo install cargo-fuzz` (`cargo xtask fuzz-replay` does not need it)"
        );
    }
    let has_nightly = works("rustup", &["run", "nightly", "rustc", "--version"]);
    let mut command = if has_nightly { Command::new("rustup") } else { Command::new("cargo") };
    if has_nightly {
        command.args(["run", "nightly", "cargo"]);
    }
    command.args(["fuzz", verb, "--fuzz-dir", FOLDER]);
    if !has_nightly {
        println!("no nightly toolchain: fuzzing without the address sanitizer");
        command.args(["--sanitizer", "none"]);
    }
    // Both were set by the cargo that runs this and would override the toolchain.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command.arg(target).current_dir(workspace::root());
    Ok(command)
}

/// `cargo xtask fuzz-replay`.
pub(crate) fn replay() -> Result<()> {
    shell::run(&mut shell::cargo(&[
        "test",
        "--package",
        "xtask",
        "--test",
        "fuzz_corpus",
        "--",
        "--nocapture",
    ]))
}

/// `cargo xtask fuzz-seeds`.
pub(crate) fn seeds() -> Result<()> {
    let mut make = shell::cargo(&["test", "--quiet", "--package", "xtask", "--test", "fuzz_corpus", "seeds"]);
    shell::run(make.env("UPDATE_SEEDS", "1"))?;
    for target in targets()? {
        let folder = workspace::root().join(FOLDER).join("corpus").join(&target);
        let (files, bytes) = count(&folder)?;
        println!("{target}: {files} inputs, {bytes} bytes");
    }
    Ok(())
}

fn count(folder: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        files += 1;
        bytes += entry?.metadata()?.len();
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_the_statistics() {
        assert_eq!(executions_in("stat::number_of_executed_units: 1048576"), Some(1_048_576));
        assert_eq!(executions_in("stat::average_exec_per_sec:     80659"), None);
        assert_eq!(executions_in("Running: corpus/message"), None);
    }

    #[test]
    fn a_number_of_executions_is_not_cut_by_the_default_duration() {
        let limits = |seconds, executions| {
            let Limits { seconds, executions } = FuzzArguments { target: None, seconds, executions }.limits();
            (seconds, executions)
        };
        assert_eq!(limits(None, None), (Some(60), None));
        assert_eq!(limits(None, Some(1_000)), (None, Some(1_000)));
        assert_eq!(limits(Some(5), Some(1_000)), (Some(5), Some(1_000)));
    }
}
