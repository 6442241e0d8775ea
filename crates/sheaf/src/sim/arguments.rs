//! The command line of `sheaf sim`.

use crate::values::{self, ValueError};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Examples:
  sheaf sim --list                                  list the built-in scenarios
  sheaf sim forty-nodes --plot plots                simulate one of them and plot the result
  sheaf sim my-network.toml --json                  simulate a network of your own
  sheaf sim paper                                   compare with the figures of the documents
  sheaf sim calibrate measured.json > hosts.json    describe the hosts from measurements
  sheaf sim predict --calibration hosts.json --readouts 512 --builders 512

A scenario is a TOML file: docs/reference/scenario.md lists all keys. A list in place of a value is a sweep.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct SimArguments {
    #[command(subcommand)]
    pub(crate) verb: Option<SimVerb>,
    /// Scenario file, or name of a built-in scenario.
    #[arg(required_unless_present = "list")]
    pub(crate) scenario: Option<String>,
    /// List the built-in scenarios.
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) list: bool,
    /// Use this seed instead of the scenario's.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// Write plots of the result to this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Common {
    /// Number of threads [default: one for each processor]. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimVerb {
    /// Simulate the figures of theory and of the documents, and print both.
    Paper(Common),
    /// Measure the simulator's own speed.
    Bench(BenchArguments),
    /// Derive a description of the hosts from measurements of a small system.
    Calibrate(CalibrateArguments),
    /// Predict the throughput of a large system, as a band.
    Predict(PredictArguments),
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Number of ports of the network: a power of 8.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) ports: u32,
    /// Approximate duration of the measurement at each fidelity.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_seconds(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.01..=3600.0, "a number of seconds")
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Measured points, as `sheaf bench --json` prints them, or a list of objects with `size_bytes`,
    /// `bytes_per_second`, `readouts` and `builders`.
    pub(crate) measurements: PathBuf,
    /// Print a table instead of the JSON that `sheaf sim predict` reads.
    #[arg(long)]
    pub(crate) table: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrafficShape {
    /// Push: sources send data as they come.
    Push,
    /// Pull: builders request events.
    Pull,
    /// Barrel shifter: sources send in time slots.
    Barrel,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArguments {
    /// Number of readout units of the large system.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub(crate) readouts: u32,
    /// Number of builder units of the large system.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub(crate) builders: u32,
    /// Description of the hosts, as `sheaf sim calibrate` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// Time that a host spends per message, in addition to the time for its bytes, without a calibration.
    #[arg(long, value_name = "NS", default_value_t = 0.0, conflicts_with = "calibration", value_parser = parse_nanos)]
    pub(crate) overhead_ns: f64,
    /// Rate at which a host moves bytes, if there is no calibration [default: that of its link].
    #[arg(long, value_name = "GBIT/S", conflicts_with = "calibration", value_parser = parse_gigabits)]
    pub(crate) host_gbps: Option<f64>,
    /// Rate of the links.
    #[arg(long, value_name = "GBIT/S", default_value_t = 100.0, value_parser = parse_gigabits)]
    pub(crate) link_gbps: f64,
    /// Mean size of a fragment.
    #[arg(long, value_name = "BYTES", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub(crate) size: u32,
    /// Standard deviation of that size (log-normal); 0: fixed size.
    #[arg(long, value_name = "BYTES", default_value_t = 0.0, value_parser = parse_rms)]
    pub(crate) rms: f64,
    /// Traffic shape.
    #[arg(long, value_enum, default_value = "pull")]
    pub(crate) traffic: TrafficShape,
    /// Scenario for network and switches: a file, or the name of a built-in one.
    #[arg(long, value_name = "SCENARIO", conflicts_with_all = ["leaf_ports", "spines", "buffer_bytes"])]
    pub(crate) network: Option<String>,
    /// Number of hosts on one leaf switch; with fewer hosts there is only one switch.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) leaf_ports: u32,
    /// Number of spine switches [default: as many as hosts on a leaf].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) spines: Option<u32>,
    /// Bytes that an output of a switch holds before it pauses its senders.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) buffer_bytes: u64,
    /// Number of seeds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: u32,
    /// Length of each run, in fragments per source.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=1_000_000_000))]
    pub(crate) messages: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn parse_nanos(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.0..=1e9, "a number of nanoseconds")
}

fn parse_gigabits(text: &str) -> Result<f64, ValueError> {
    values::within(text, 1e-6..=1e5, "a number of Gbit/s")
}

fn parse_rms(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.0..=1e9, "a number of bytes")
}
