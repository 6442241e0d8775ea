//! Measures event building over ZeroMQ and over Open MPI, alternating with `sheaf bench builder`: `benches/compare/`.
//!
//! Programs that are not installed are named and left out. Every repetition runs all programs once, one after the
//! other, so that a disturbance of the machine affects all of them.

use crate::bench::machine::Machine;
use crate::bench::median;
use crate::build::{self, Profile};
use crate::{shell, workspace};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// Readout units and builder units.
    #[arg(long, value_name = "NxM,...", value_delimiter = ',', default_value = "2x2,4x4")]
    shapes: Vec<String>,
    /// Fragment sizes in bytes.
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "2048,16384")]
    sizes: Vec<u64>,
    /// Duration of each measurement.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
    /// Number of measurements of each figure. The median is reported.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// One program to measure.
struct Contestant {
    name: &'static str,
    program: Program,
}

enum Program {
    Sheaf { binary: PathBuf, transport: &'static str },
    ZeroMq { binary: PathBuf, transport: &'static str },
    Mpi { binary: PathBuf, mode: &'static str, layer: &'static str },
}

/// An event-building system to measure.
#[derive(Clone, Copy)]
struct System {
    readouts: u32,
    builders: u32,
    bytes: u64,
    seconds: f64,
}

/// `cargo xtask compare`.
pub(crate) fn command(arguments: &CompareArguments) -> Result<()> {
    let mut systems = Vec::new();
    for shape in &arguments.shapes {
        let (readouts, builders) = parse_shape(shape)?;
        let system = |&bytes: &u64| System { readouts, builders, bytes, seconds: arguments.seconds };
        systems.extend(arguments.sizes.iter().map(system));
    }
    let (contestants, absent) = contestants()?;
    let machine = Machine::here();
    let commit = workspace::commit().unwrap_or_else(|| "unknown".to_owned());
    eprintln!("machine: {machine}\ncommit:  {commit}");
    if let Some(warning) = machine.warning() {
        eprintln!("warning: {warning}");
    }
    for what in &absent {
        eprintln!("not installed: {what}");
    }
    let mut results = Vec::new();
    for system in systems {
        let mut rates = vec![Vec::new(); contestants.len()];
        for _ in 0..arguments.repeat {
            for (contestant, rates) in contestants.iter().zip(&mut rates) {
                match contestant.measure(system) {
                    Ok(rate) => rates.push(rate),
                    Err(error) => eprintln!("{}: {error:#}", contestant.name),
                }
            }
        }
        let measured = contestants.iter().zip(rates).filter(|(_, rates)| !rates.is_empty());
        for (contestant, rates) in measured {
            results.push(Row { name: contestant.name, system, runs: rates.len(), rate: median(rates) });
        }
    }
    if arguments.json {
        let rows: Vec<Value> = results.iter().map(Row::to_json).collect();
        println!(
            "{}",
            json!({ "machine": machine.to_json(), "commit": commit, "absent": absent, "rows": rows })
        );
    } else {
        print_table(&results);
    }
    Ok(())
}

fn parse_shape(shape: &str) -> Result<(u32, u32)> {
    let parsed = shape.split_once('x').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
    let parsed = parsed.filter(|&(n, m)| n > 0 && m > 0);
    parsed.with_context(|| format!("{shape} is not a shape; use READOUTSxBUILDERS, such as 2x2"))
}

/// Returns the programs that can be measured here, and reasons for those that cannot.
fn contestants() -> Result<(Vec<Contestant>, Vec<String>)> {
    let binary = build::sheaf(Profile::Dist)?;
    let mut found = Vec::new();
    for (name, transport) in [("sheaf, tcp", "tcp"), ("sheaf, shared memory", "shm")] {
        found.push(Contestant { name, program: Program::Sheaf { binary: binary.clone(), transport } });
    }
    let mut absent = Vec::new();
    match compile("cc", "zeromq", &["-lzmq"]) {
        Ok(binary) => {
            for (name, transport) in [("ZeroMQ push-pull, tcp", "tcp"), ("ZeroMQ push-pull, ipc", "ipc")] {
                found.push(Contestant {
                    name,
                    program: Program::ZeroMq { binary: binary.clone(), transport },
                });
            }
        }
        Err(why) => absent.push(format!("ZeroMQ ({why:#}); Debian has it in libzmq3-dev")),
    }
    match compile("mpicc", "mpi", &[]) {
        Ok(binary) => {
            for (name, mode, layer) in [
                ("Open MPI Isend/Irecv, shared memory", "isend", "vader"),
                ("Open MPI Alltoallv, shared memory", "alltoallv", "vader"),
                ("Open MPI Isend/Irecv, tcp", "isend", "tcp"),
                ("Open MPI Alltoallv, tcp", "alltoallv", "tcp"),
            ] {
                let program = Program::Mpi { binary: binary.clone(), mode, layer };
                found.push(Contestant { name, program });
            }
        }
        Err(why) => {
            absent.push(format!("Open MPI ({why:#}); Debian has it in libopenmpi-dev and openmpi-bin"))
        }
    }
    Ok((found, absent))
}

/// Compiles `benches/compare/NAME.c`. The error is one line of the compiler's output.
fn compile(compiler: &str, name: &str, libraries: &[&str]) -> Result<PathBuf> {
    let directory = workspace::target_directory()?.join("compare");
    std::fs::create_dir_all(&directory)?;
    let (source, binary) =
        (workspace::root().join(format!("benches/compare/{name}.c")), directory.join(name));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-o"]).arg(&binary).arg(source).args(libraries);
    let output = command.output().with_context(|| compiler.to_owned())?;
    if output.status.success() {
        return Ok(binary);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error") || line.contains("cannot find"));
    bail!("{}", line.unwrap_or("the compiler failed").trim())
}

impl Contestant {
    /// Measures the fragments per second of one run.
    fn measure(&self, system: System) -> Result<f64> {
        let System { readouts, builders, bytes, seconds } = system;
        let traffic = [readouts.to_string(), builders.to_string(), bytes.to_string(), seconds.to_string()];
        let mut command = match &self.program {
            Program::Sheaf { binary, transport } => sheaf(binary, transport, &traffic),
            Program::ZeroMq { binary, transport } => {
                let mut command = Command::new(binary);
                command.arg(transport).args(&traffic);
                command
            }
            Program::Mpi { binary, mode, layer } => {
                let mut command = Command::new("mpirun");
                // More ranks than processors: they must yield to each other.
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                command.args(["--mca", "mpi_yield_when_idle", "1", "--mca", "btl", &format!("self,{layer}")]);
                command
                    .args(["-np", &(readouts + builders).to_string()])
                    .arg(binary)
                    .arg(mode)
                    .args(&traffic);
                command
            }
        };
        command.stdin(Stdio::null());
        let said = shell::output(&mut command)?;
        let said: Value = serde_json::from_str(said.trim()).context("the program printed no JSON")?;
        let rate = said["fragments_per_second"].as_f64().filter(|rate| *rate > 0.0);
        rate.context("no event was built")
    }
}

fn sheaf(binary: &Path, transport: &str, [readouts, builders, bytes, seconds]: &[String; 4]) -> Command {
    let mut command = Command::new(binary);
    command.args(["--quiet", "bench", "builder", "--processes", "--json", "--repeat", "1"]);
    command.args(["--transport", transport, "--readouts", readouts, "--builders", builders]);
    command.args(["--size", bytes, "--seconds", seconds]);
    command
}

/// A median.
struct Row {
    name: &'static str,
    system: System,
    runs: usize,
    rate: f64,
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    fn bytes_per_second(&self) -> f64 {
        self.rate * self.system.bytes as f64
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "readouts": self.system.readouts,
            "builders": self.system.builders,
            "size_bytes": self.system.bytes,
            "runs": self.runs,
            "fragments_per_second": self.rate,
            "bytes_per_second": self.bytes_per_second(),
        })
    }
}

fn print_table(rows: &[Row]) {
    println!("| system | shape | fragment | million fragments/s | GB/s | runs |\n|---|---|---|---|---|---|");
    for row in rows {
        let System { readouts, builders, bytes, .. } = row.system;
        let (rate, speed) = (row.rate / 1e6, row.bytes_per_second() / 1e9);
        println!(
            "| {} | {readouts}x{builders} | {bytes} B | {rate:.3} | {speed:.2} | {} |",
            row.name, row.runs
        );
    }
    if rows.is_empty() {
        println!("nothing was measured");
    }
}

#[cfg(test)]
mod tests {
    use super::parse_shape;

    #[test]
    fn a_shape_is_two_numbers_above_zero() {
        assert_eq!(parse_shape("16x1").ok(), Some((16, 1)));
        for wrong in ["0x2", "2", "2x", "axb"] {
            assert!(parse_shape(wrong).is_err(), "{wrong}");
        }
    }
}
