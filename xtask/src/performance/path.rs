//! Cost of a fragment on its way, for each transport: counted, not timed.
//!
//! The canonical workload (`sheaf-node/examples/canonical`) runs all roles on one thread and prints the counters of its endpoints.
//! Valgrind's cachegrind counts instructions and simulates caches. Two runs of different lengths are measured; their difference
//! excludes start and end of a run.

use crate::build::{self, Profile};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The name of the table on the page.
pub(super) const NAME: &str = "path";

const EVENTS: [u64; 2] = [5_000, 15_000];
const FRAGMENTS_AN_EVENT: u64 = 2;
const FRAGMENT_BYTES: &str = "2048";

/// Simulated caches: 48 KiB of first-level data cache and 2 MiB of second-level cache, as a core of the machine of the page.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=49152,12,64", "--LL=2097152,16,64"];

const TRANSPORTS: [&str; 3] = ["memory", "shm", "tcp"];
const PAYLOADS: [&str; 2] = ["descriptor", "write-read"];

/// Returns the number of times that a processor reads or writes the payload of a transport: in the source and in the
/// builder, and over TCP twice in the kernel, which reads and writes each time.
fn touches(transport: &str, payload: &str) -> u32 {
    match (transport, payload) {
        ("tcp", "write-read") => 6,
        ("tcp", _) => 4,
        (_, "write-read") => 2,
        _ => 0,
    }
}

/// Counts by their names.
type Counts = BTreeMap<String, u64>;

/// Returns the block of the table.
pub(super) fn block(conditions: &str) -> Result<String> {
    let workload = build::canonical(Profile::Dist)?;
    let mut text = format!(
        "```sh\ncargo xtask performance {NAME}    # canonical memory|shm|tcp EVENTS {FRAGMENT_BYTES} descriptor|write-read\n```\n\n\
         Counted on {conditions}, with {}; a fragment more of 2 kB.\n\n\
         | transport | payload | touches of a payload byte | bytes copied outside of the kernel | system calls | instructions | \
         misses of the first-level cache | of the second |\n|---|---|---|---|---|---|---|---|\n",
        CACHES[1..].join(" ")
    );
    for transport in TRANSPORTS {
        for payload in PAYLOADS {
            eprintln!("$ canonical {transport} {payload} under cachegrind");
            let [short, long] =
                [EVENTS[0], EVENTS[1]].map(|events| count(&workload, transport, payload, events));
            let (short, long) = (short?, long?);
            let more = (EVENTS[1] - EVENTS[0]) * FRAGMENTS_AN_EVENT;
            let each = |name: &str| {
                let at = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
                at(&long).saturating_sub(at(&short)) as f64 / more as f64
            };
            writeln!(
                text,
                "| {transport} | {payload} | {} | {:.1} | {:.3} | {:.0} | {:.1} | {:.1} |",
                touches(transport, payload),
                each("bytes_copied"),
                each("system_calls"),
                each("I refs"),
                each("D1 misses"),
                each("LLd misses"),
            )?;
        }
    }
    Ok(text)
}

/// Returns all counts of a run with this number of events.
fn count(workload: &Path, transport: &str, payload: &str, events: u64) -> Result<Counts> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]).args(CACHES);
    command.arg(workload).args([transport, events.to_string().as_str(), FRAGMENT_BYTES, payload]);
    let output = command.output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the workload failed under valgrind: {}", said.trim_end());
    let mut counts = of_valgrind(&said);
    ensure!(counts.len() == 3, "valgrind printed no counts: {}", said.trim_end());
    counts.extend(of_workload(&String::from_utf8_lossy(&output.stdout)));
    Ok(counts)
}

/// Returns the numbers in lines such as `==1== D1  misses:   12,345  ( 1 rd + 2 wr)`.
fn of_valgrind(said: &str) -> Counts {
    let number = |line: &str| {
        let (_, line) = line.split_once("== ")?;
        let (name, rest) = line.split_once(':')?;
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let digits = rest.split_whitespace().next()?.replace(',', "");
        let wanted = ["I refs", "D1 misses", "LLd misses"].contains(&name.as_str());
        Some((name, digits.parse().ok()?)).filter(|_| wanted)
    };
    said.lines().filter_map(number).collect()
}

/// Returns the numbers in lines such as `system_calls    42    0.001 per fragment`.
fn of_workload(said: &str) -> Counts {
    let number = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, count) = (words.next()?, words.next()?.parse().ok()?);
        line.ends_with("per fragment").then(|| (name.to_owned(), count))
    };
    said.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_output_of_valgrind_and_the_workload() {
        let said = "==7== I   refs:      1,234,567\n==7== I1  misses:            9\n\
                    ==7== D1  misses:        1,000  (    400 rd   +     600 wr)\n==7== LLd misses: 12 (1 rd + 11 wr)\n";
        let counts = of_valgrind(said);
        let expected = [("D1 misses", 1_000), ("I refs", 1_234_567), ("LLd misses", 12)];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
        let said =
            "40000 fragments of 2048 bytes over tcp\nsystem_calls           1234     0.0308 per fragment\n";
        assert_eq!(of_workload(said), [("system_calls".to_owned(), 1234)].into());
    }
}
