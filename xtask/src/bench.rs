//! Measures the figures of `benches/README.md` with the command in the profile `dist`, and runs the crates' own benchmarks.
//! Figures are reported and never asserted: a number without its machine says nothing.

pub(crate) mod machine;

use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use machine::Machine;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    /// Benchmarks to run (see `--list`). Default: all.
    names: Vec<String>,
    /// List the benchmarks.
    #[arg(long)]
    list: bool,
    /// Number of measurements of each figure. The median is reported.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Duration of each run.
    #[arg(long, value_name = "N", default_value_t = 4)]
    seconds: u32,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Run the benchmarks inside the crates instead (`cargo bench`).
    #[arg(long, conflicts_with_all = ["runs", "seconds", "json"])]
    crates: bool,
}

/// One figure: a call of `sheaf run`.
struct Case {
    name: &'static str,
    about: &'static str,
    /// Arguments of `sheaf run`; paths are from the root of the repository.
    arguments: &'static [&'static str],
    /// Whether events are written, to a directory that is removed afterwards.
    writes: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "memory",
        about: "one process, 4x4, fixed 2 kB, content not written and not checked, no output",
        arguments: &["benches/memory.toml"],
        writes: false,
    },
    Case {
        name: "memory-fill",
        about: "the same with every payload byte written by its source",
        arguments: &["benches/memory-fill.toml"],
        writes: false,
    },
    Case {
        name: "processes",
        about: "each role a process, TCP on loopback, 2x2, fixed 2 kB, no output",
        arguments: &["benches/processes.toml", "--processes"],
        writes: false,
    },
    Case {
        name: "default",
        about: "the embedded default at full speed: 4x4, log-normal around 2 kB, checkable content, event files",
        arguments: &["--full-speed"],
        writes: true,
    },
];

/// `cargo xtask bench`.
pub(crate) fn command(arguments: &BenchArguments) -> Result<()> {
    if arguments.crates {
        return bench_crates(&arguments.names);
    }
    if arguments.list {
        for Case { name, about, .. } in CASES {
            println!("{name}: {about}");
        }
        return Ok(());
    }
    let cases = chosen(&arguments.names)?;
    let sheaf = build::sheaf(Profile::Dist)?;
    let machine = Machine::here();
    let commit = workspace::commit().unwrap_or_else(|| "unknown".to_owned());
    if !arguments.json {
        println!("machine: {machine}\ncommit:  {commit}");
        if let Some(warning) = machine.warning() {
            println!("warning: {warning}");
        }
    }
    let mut measured = Vec::new();
    for case in cases {
        measured.push(measure(case, &sheaf, arguments)?);
    }
    if arguments.json {
        println!("{}", json!({ "machine": machine.to_json(), "commit": commit, "cases": measured }));
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| {
        let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
        let case = CASES.iter().find(|case| case.name == name);
        case.with_context(|| format!("there is no benchmark {name}; the benchmarks are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

/// Runs one case the requested number of times, prints every run, and returns all results.
fn measure(case: &Case, sheaf: &Path, arguments: &BenchArguments) -> Result<Value> {
    let scratch = workspace::target_directory()?.join("bench");
    let seconds = arguments.seconds.to_string();
    let mut words = vec!["run", "--quiet", "--json", "--duration", &seconds];
    words.extend(case.arguments);
    let typed = format!("sheaf {}{}", words.join(" "), if case.writes { " --output DIR" } else { "" });
    if !arguments.json {
        println!("\n{}: {}\n$ {typed}", case.name, case.about);
        println!(
            "{:>5}  {:>14}  {:>12}  {:>8}  {:>14}  {:>10}",
            "run", "fragments/s", "events/s", "MB/s", "p50 latency us", "peak MB"
        );
    }
    let mut runs = Vec::new();
    for number in 1..=arguments.runs {
        let mut command = Command::new(sheaf);
        command.args(&words).current_dir(workspace::root());
        if case.writes {
            remove(&scratch)?;
            command.arg("--output").arg(&scratch);
        }
        let summary: Value = serde_json::from_str(&shell::output(&mut command)?)?;
        ensure!(summary["ledger"]["balanced"] == true, "the ledger of run {number} does not balance");
        if !arguments.json {
            println!("{number:>5}  {}", Figures::of(&summary)?);
        }
        runs.push(summary);
    }
    remove(&scratch)?;
    let rates = runs.iter().map(|run| Ok(Figures::of(run)?.fragments_per_second)).collect::<Result<_>>()?;
    let median = median(rates);
    if !arguments.json {
        println!("{:>5}  {median:>14.0}  fragments/s, median of {}", "=>", arguments.runs);
    }
    Ok(json!({
        "name": case.name, "about": case.about, "command": typed,
        "fragments_per_second_median": median, "runs": runs,
    }))
}

fn remove(scratch: &Path) -> Result<()> {
    if scratch.exists() {
        std::fs::remove_dir_all(scratch).with_context(|| scratch.display().to_string())?;
    }
    Ok(())
}

/// Figures of a run that are printed.
struct Figures {
    fragments_per_second: f64,
    events_per_second: f64,
    bytes_per_second: f64,
    latency_p50_ns: f64,
    peak_rss_bytes: f64,
}

impl Figures {
    fn of(summary: &Value) -> Result<Self> {
        let number = |value: &Value, name: &str| {
            value[name].as_f64().with_context(|| format!("the summary of the run has no number {name}"))
        };
        Ok(Self {
            fragments_per_second: number(summary, "fragments")? / number(summary, "seconds")?,
            events_per_second: number(summary, "events_per_second")?,
            bytes_per_second: number(summary, "bytes_per_second")?,
            latency_p50_ns: number(&summary["latency_ns"], "p50")?,
            peak_rss_bytes: number(summary, "peak_rss_bytes")?,
        })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>14.0}  {:>12.0}  {:>8.0}  {:>14.0}  {:>10.0}",
            self.fragments_per_second,
            self.events_per_second,
            self.bytes_per_second / 1e6,
            self.latency_p50_ns / 1e3,
            self.peak_rss_bytes / 1e6,
        )
    }
}

/// Returns the median; for an even number of values, the mean of the two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Runs the benchmarks of the crates with these names, or all.
fn bench_crates(names: &[String]) -> Result<()> {
    let known = workspace::benchmarks()?;
    for name in names {
        if !known.iter().any(|(_, benchmark)| benchmark == name) {
            let all: Vec<_> = known.iter().map(|(_, benchmark)| benchmark.as_str()).collect();
            bail!("no crate has a benchmark {name}; the benchmarks are {}", all.join(", "));
        }
    }
    println!("machine: {}\ncommit:  {}", Machine::here(), workspace::commit().unwrap_or_default());
    for (package, benchmark) in known {
        if names.is_empty() || names.contains(&benchmark) {
            shell::run(&mut shell::cargo(&[
                "bench",
                "--profile",
                "dist",
                "--package",
                &package,
                "--bench",
                &benchmark,
            ]))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![5.0, 1.0, 3.0]).to_bits(), 3.0_f64.to_bits());
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5_f64.to_bits());
    }

    #[test]
    fn every_configuration_that_is_measured_is_valid() {
        for argument in
            CASES.iter().flat_map(|case| case.arguments).filter(|argument| argument.ends_with(".toml"))
        {
            let loaded = sheaf_config::Config::load(&workspace::root().join(argument));
            assert!(loaded.is_ok(), "{argument}: {loaded:?}");
        }
    }
}
