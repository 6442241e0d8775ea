//! Counts the instructions executed per fragment, from its source to the end of its event. Unlike a time, the count does not
//! depend on the load of the machine, so CI detects a change that makes fragments more expensive.
//!
//! CI counts in the profile `release`, whose crates it has built already. The count of the profile `dist`, of which all figures are, is
//! compared every night.

use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// File with the committed counts, from the root of the repository.
const COMMITTED: &str = "benches/instructions.json";

/// Numbers of events of two runs. Their difference excludes start and end of a run.
const EVENTS: [u64; 2] = [5_000, 10_000];

/// Number of fragments of an event of the workload.
const FRAGMENTS_AN_EVENT: u64 = 2;

/// Permitted increase of a count, as a fraction. Differences between minor releases of the compiler stay below it.
const TOLERANCE: f64 = 0.04;

/// Workloads whose instructions are counted: a name, and the arguments before and after the number of events.
const CASES: &[(&str, [&str; 3])] = &[
    ("memory transport, 2 kB, payload not touched", ["memory", "2048", "descriptor"]),
    ("memory transport, 2 kB, payload written and read", ["memory", "2048", "write-read"]),
];

#[derive(Debug, Default, clap::Args)]
pub(crate) struct InstructionsArguments {
    /// Profile of the program. Each has its own committed counts.
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Write the new counts to the committed file, after an improvement or a deliberate increase.
    #[arg(long)]
    update: bool,
}

impl InstructionsArguments {
    /// Compares the counts of the profile of figures.
    pub(crate) fn for_a_night() -> Self {
        Self { profile: Profile::Dist, update: false }
    }
}

/// `cargo xtask instructions`.
pub(crate) fn command(arguments: &InstructionsArguments) -> Result<()> {
    if !shell::tells_version(&mut Command::new("valgrind")) {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the committed counts are for x86_64");
        return Ok(());
    }
    let workload = build::canonical(arguments.profile)?;
    let path = workspace::root().join(COMMITTED);
    let mut all = read(&path)?;
    let committed = all.get(arguments.profile.name()).cloned().unwrap_or_default();
    let mut counted = serde_json::Map::new();
    let mut worse = String::new();
    for (name, words) in CASES {
        let count = count(&workload, words)?;
        let before = committed[*name].as_u64();
        println!("{name}: {count} instructions per fragment{}", compared(count, before));
        if before.is_some_and(|before| ratio(count, before) > 1.0 + TOLERANCE) {
            writeln!(worse, "\n  {name}{}", compared(count, before))?;
        }
        counted.insert((*name).to_owned(), count.into());
    }
    if arguments.update {
        all.insert(arguments.profile.name().to_owned(), counted.into());
        let text = serde_json::to_string_pretty(&all)? + "\n";
        return std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()));
    }
    ensure!(
        worse.is_empty(),
        "fragments have become more expensive:{worse}\nif that is intended, run `cargo xtask instructions --profile {} --update` and commit {COMMITTED}",
        arguments.profile.name()
    );
    Ok(())
}

fn compared(count: u64, before: Option<u64>) -> String {
    match before {
        Some(before) => format!(" ({before} committed, {:+.1} %)", (ratio(count, before) - 1.0) * 100.0),
        None => " (none committed)".to_owned(),
    }
}

fn ratio(count: u64, before: u64) -> f64 {
    count as f64 / before.max(1) as f64
}

fn read(path: &Path) -> Result<serde_json::Map<String, serde_json::Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} was not written by `cargo xtask instructions`", path.display()))
}

/// Returns the number of instructions per additional fragment.
fn count(workload: &Path, [transport, bytes, payload]: &[&str; 3]) -> Result<u64> {
    let mut totals = [0; 2];
    for (total, events) in totals.iter_mut().zip(EVENTS) {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(workload);
        command.args([*transport, events.to_string().as_str(), *bytes, *payload]);
        let output = command.output().context("cannot start valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("the workload failed under valgrind: {}", said.trim_end());
        }
        *total =
            collected(&said).with_context(|| format!("valgrind printed no count: {}", said.trim_end()))?;
    }
    Ok((totals[1] - totals[0]) / ((EVENTS[1] - EVENTS[0]) * FRAGMENTS_AN_EVENT))
}

/// Returns the number in valgrind's line `==1== Collected : 136538442`.
fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_output_of_valgrind() {
        let said = "==7== Events    : Ir\n==7== Collected : 136538442\n==7== \n";
        assert_eq!(collected(said), Some(136_538_442));
        assert_eq!(collected("==7== error"), None);
    }

    #[test]
    fn every_case_has_a_committed_count() {
        let committed = read(&workspace::root().join(COMMITTED)).expect("the file is there");
        for profile in [Profile::Release, Profile::Dist].map(Profile::name) {
            for (name, _) in CASES {
                let count = committed[profile][*name].as_u64();
                assert!(
                    count.is_some(),
                    "`{name}` has none; cargo xtask instructions --profile {profile} --update"
                );
            }
        }
    }
}
