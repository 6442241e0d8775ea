//! Runs of the swarm against one planted bug.

use super::planting::NUMBER;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Sizes of the lots in which seeds are run. Lots grow because most bugs are found early, and the rest of a lot is then wasted.
const LOTS: [u64; 5] = [10, 90, 400, 1_500, 8_000];

/// Time after which a lot is considered to hang: each seed is bounded, and a thousand take seconds.
const WATCHDOG: Duration = Duration::from_mins(15);

/// Memory limit of the swarm: a planted bug may allocate without bound.
const MEMORY_BYTES: u64 = 8 << 30;

/// Maximum length of the description of a violation.
const HOW_LENGTH: usize = 110;

/// Way in which a bug was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Kind of the run.
    pub(super) kind: &'static str,
    /// Seed of the run, if known.
    pub(super) seed: Option<u64>,
    /// Violated condition.
    pub(super) how: String,
}

/// A kind of run, and its share of the runs.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    arguments: &'static [&'static str],
    one_of: u64,
}

/// The roles alone, and the drivers, whose runs take much longer.
const KINDS: [Kind; 3] = [
    Kind { name: "roles", arguments: &[], one_of: 1 },
    Kind { name: "drivers, slowness", arguments: &["--drivers", "slowness"], one_of: 10 },
    Kind { name: "drivers, faults", arguments: &["--drivers", "faults"], one_of: 10 },
];

/// The swarm, built with all bugs.
#[derive(Debug)]
pub(super) struct Hunter {
    swarm: PathBuf,
    /// Number of runs of the roles that are tried against each bug.
    seeds: u64,
    /// Runs that fail without any bug, by the name of their kind, and the violation of the first.
    excused: BTreeMap<&'static str, (BTreeSet<u64>, Found)>,
}

/// Result of some runs of one kind.
struct Lot {
    failed: Vec<Found>,
    /// Whether all runs of the lot were tried.
    is_whole: bool,
}

impl Hunter {
    /// Tries all seeds without any bug. Seeds that fail cannot detect bugs and are excused.
    pub(super) fn new(swarm: PathBuf, seeds: u64) -> Result<Self> {
        let mut hunter = Self { swarm, seeds, excused: BTreeMap::new() };
        for kind in KINDS {
            let all = 0..seeds.div_ceil(kind.one_of);
            let lot = hunter.run(0, kind, all.clone(), u64::MAX)?;
            let Some(first) = lot.failed.first().cloned() else { continue };
            let failed: BTreeSet<u64> = lot.failed.iter().filter_map(|found| found.seed).collect();
            // If the swarm gave up, the results of the other seeds are unknown.
            let failed = if lot.is_whole { failed } else { all.collect() };
            hunter.excused.insert(kind.name, (failed, first));
        }
        Ok(hunter)
    }

    /// Returns the number of excused runs and the first of them, for each kind with runs that fail without any bug.
    pub(super) fn excused(&self) -> impl Iterator<Item = (usize, &Found)> {
        self.excused.values().map(|(seeds, first)| (seeds.len(), first))
    }

    /// Runs seeds of each kind with one bug. Returns the first that fails.
    pub(super) fn hunt(&self, bug: u32) -> Result<Option<Found>> {
        let mut start = 0;
        for lot in LOTS.into_iter().chain(std::iter::repeat(10_000)) {
            let end = (start + lot).min(self.seeds);
            if start == end {
                return Ok(None);
            }
            for kind in KINDS {
                let (first, last) = (start.div_ceil(kind.one_of), end.div_ceil(kind.one_of));
                let excused = self.excused.get(kind.name).map(|(seeds, _)| seeds);
                let is_excused = |seed: &u64| excused.is_some_and(|seeds| seeds.contains(seed));
                if (first..last).all(|seed| is_excused(&seed)) {
                    continue;
                }
                // One more than are excused, so that at least one of the failures counts.
                let enough = 1 + (first..last).filter(|seed| is_excused(seed)).count() as u64;
                let lot = self.run(bug, kind, first..last, enough)?;
                let found = lot.failed.into_iter().find(|found| !found.seed.as_ref().is_some_and(is_excused));
                if found.is_some() {
                    return Ok(found);
                }
            }
            start = end;
        }
        Ok(None)
    }

    /// Runs seeds with a bug until `failures_max` have failed.
    fn run(&self, bug: u32, kind: Kind, seeds: Range<u64>, failures_max: u64) -> Result<Lot> {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={MEMORY_BYTES}")).arg(&self.swarm).args(kind.arguments).arg("--json");
        command.args(["--start", &seeds.start.to_string()]);
        command.args(["--runs", &(seeds.end - seeds.start).to_string()]);
        command.args(["--failures", &failures_max.to_string()]);
        command.env(NUMBER, bug.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start prlimit")?;
        let mut pipe = child.stdout.take().context("standard output is a pipe")?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).map(|_| text)
        });
        let unnamed =
            |how: String| Lot { failed: vec![Found { kind: kind.name, seed: None, how }], is_whole: false };
        let Some(status) = wait(&mut child)? else {
            return Ok(unnamed(format!("one of the seeds {seeds:?} does not end")));
        };
        let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
        if status.success() {
            return Ok(Lot { failed: Vec::new(), is_whole: true });
        }
        let how = || format!("the swarm ended with {status} at one of the seeds {seeds:?}");
        Ok(failures(kind.name, seeds.end - seeds.start, &text).unwrap_or_else(|| unnamed(how())))
    }
}

/// Waits under the watchdog; `None` if it had to be killed.
fn wait(child: &mut Child) -> Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > WATCHDOG {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the failures in the swarm's report in the order of their seeds; `None` if the text is not such a report or has none.
fn failures(kind: &'static str, runs: u64, json: &str) -> Option<Lot> {
    let report: Value = serde_json::from_str(json).ok()?;
    let found = |failure: &Value| {
        let how = failure["violations"][0].as_str().unwrap_or("no violation is given");
        let how = how.lines().next().unwrap_or_default();
        Found { kind, seed: failure["seed"].as_u64(), how: how.chars().take(HOW_LENGTH).collect() }
    };
    let mut failed: Vec<Found> = report["failures"].as_array()?.iter().map(found).collect();
    failed.sort_by_key(|found| found.seed);
    let is_whole = report["runs"].as_u64() == Some(runs);
    (!failed.is_empty()).then_some(Lot { failed, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_in_the_order_of_their_seeds() {
        let json = r#"{"runs": 7, "failures": [{"seed": 9, "violations": ["b"]}, {"seed": 4, "violations": ["a\nmore"]}]}"#;
        let lot = failures("roles", 7, json).expect("there are two");
        let seeds: Vec<_> = lot.failed.iter().map(|found| (found.seed, found.how.as_str())).collect();
        assert_eq!(seeds, [(Some(4), "a"), (Some(9), "b")]);
        assert!(lot.is_whole);
        assert!(!failures("roles", 100, json).expect("there are two").is_whole);
        assert!(failures("roles", 7, "{\"runs\": 7, \"failures\": []}").is_none());
        assert!(failures("roles", 7, "killed").is_none());
    }
}
