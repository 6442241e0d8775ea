//! Fuzzing: finding new inputs with libFuzzer, and replaying the committed ones.

use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Folder of the fuzz targets, which is a workspace of its own.
const FOLDER: &str = "fuzz";

/// Maximum length of an input. Small inputs run faster, and shorter ones suffice to reach every limit of the parsers.
const INPUT_BYTES_MAX: u32 = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArguments {
    /// The target; all in turn where not given.
    target: Option<String>,
    /// Duration of fuzzing for each target.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
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
    for target in chosen(arguments.target.as_ref())? {
        fuzz(&target, arguments.seconds)?;
    }
    Ok(())
}

/// Fuzzes all targets in turn.
pub(crate) fn fuzz_all(seconds: u64) -> Result<()> {
    for target in targets()? {
        fuzz(&target, seconds)?;
    }
    Ok(())
}

fn fuzz(target: &str, seconds: u64) -> Result<()> {
    let mut command = cargo_fuzz("run", target)?;
    command.args(["--", &format!("-max_total_time={seconds}"), &format!("-max_len={INPUT_BYTES_MAX}")]);
    // Without libFuzzer's periodic status lines.
    command.args(["-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1", "-verbosity=0"]);
    shell::run(&mut command).with_context(|| {
        format!("an input in {FOLDER}/artifacts/{target} breaks {target}; fix the parser, then move the input to {FOLDER}/corpus/{target}")
    })
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
