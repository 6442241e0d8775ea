//! A short run of the released command with its output on disk, and that output verified.

use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// Runs for two seconds with the embedded default, then a number of events with every role in a process of its own.
pub(crate) fn command() -> Result<()> {
    let sheaf = build::sheaf(Profile::Release)?;
    let directory = workspace::target_directory()?.join("smoke");
    for more in [&["--duration", "2"][..], &["--processes", "--events", "20000", "--full-speed"]] {
        if directory.exists() {
            std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        run_and_verify(&sheaf, &directory, more)?;
    }
    std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())
}

fn run_and_verify(sheaf: &Path, directory: &Path, more: &[&str]) -> Result<()> {
    let directory = directory.to_str().context("the target directory is not UTF-8")?;
    let arguments = [&["run", "--output", directory], more].concat();
    let command = || Command::new(sheaf);
    let Stored { events: stored, output } = stored_and_verified(&command, &arguments)?;
    let mut dump = Command::new(sheaf);
    dump.args(["dump", "--csv", &output]);
    let dumped = shell::output(&mut dump)?;
    let header = dumped.lines().next().unwrap_or_default();
    ensure!(header == "event,source,time_ns,bytes,crc32", "the dump begins with {header:?}");
    let ids = dumped.lines().skip(1).filter_map(|line| line.split(',').next());
    let events: HashSet<&str> = ids.collect();
    ensure!(events.len() as u64 == stored, "{stored} events are stored, {} are in the files", events.len());
    println!("sheaf run {}: {stored} events stored and verified, and as many in the dump", more.join(" "));
    Ok(())
}

/// Events of a run, and the directory with them.
struct Stored {
    events: u64,
    output: String,
}

/// Runs the first command of the README, `sheaf run` without a configuration, and verifies its files. `sheaf` makes a call of the
/// command without arguments. The output goes to the working directory of the command.
pub(crate) fn first_command(sheaf: &dyn Fn() -> Command) -> Result<()> {
    let Stored { events, output } = stored_and_verified(sheaf, &["run"])?;
    println!("{}: {events} events stored and verified in {output}", shell::typed(&sheaf()));
    Ok(())
}

/// Makes a run and verifies its files.
fn stored_and_verified(sheaf: &dyn Fn() -> Command, arguments: &[&str]) -> Result<Stored> {
    let mut run = sheaf();
    run.args(arguments).args(["--quiet", "--json"]);
    let run: Value = json(&mut run)?;
    let events = run["ledger"]["stored"]
        .as_u64()
        .context("the summary does not contain the number of stored events")?;
    ensure!(run["ledger"]["balanced"] == true, "the ledger does not balance: {}", run["ledger"]);
    ensure!(events > 0, "no event was stored");
    let output =
        run["output"].as_str().context("the summary does not contain the run's directory")?.to_owned();
    let mut verify = sheaf();
    verify.args(["verify", "--json", &output]);
    json(&mut verify)?;
    Ok(Stored { events, output })
}

/// Runs the command, which must succeed and print one JSON object.
fn json(command: &mut Command) -> Result<Value> {
    let printed = shell::output(command)?;
    let value: Value = serde_json::from_str(&printed).context("standard output is not one JSON value")?;
    ensure!(value.is_object(), "standard output is not a JSON object");
    Ok(value)
}
