//! The command line of `sheaf lab`.

use crate::values::{self, ValueError};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Examples:
  sheaf lab list                                   list the built-in scenarios and the existing labs
  sheaf lab run first-switch --plot plots          run one of them and plot the result
  sheaf lab run my-switch.toml --json              run a scenario of your own
  sheaf lab up first-switch                        create only the network
  sheaf lab exec ru0 ping -c 3 10.80.0.6           run a command on one of its hosts
  sheaf lab down                                   remove the network
  sheaf lab paper                                  repeat the measurements of the documents
  sheaf lab buffer output-buffer                   find the size of a switch's output buffer

A scenario is a TOML file: docs/reference/lab-scenario.md lists all keys. A list in place of a value is a sweep.
The lab creates network namespaces, which needs root privileges.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) verb: LabVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// Create the network of a scenario, run the event builder on it, measure, and remove the network.
    Run(RunArguments),
    /// Create the network of a scenario and keep it.
    Up(UpArguments),
    /// Run a command on a host or switch of a lab created with `up`.
    Exec(ExecArguments),
    /// Remove a lab created with `up`, and the remains of labs whose processes were killed.
    Down(DownArguments),
    /// Measure the figures of the documents, and print both.
    Paper(PaperArguments),
    /// Find the output buffer of a scenario's switch by varying the builders' credit.
    Buffer(RunArguments),
    /// List the built-in scenarios and the existing labs.
    List(ListArguments),
    /// Remove a lab when standard input ends. A lab starts this command as its watchdog.
    #[command(hide = true)]
    Watch {
        /// Whose lab it is.
        owner: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Scenario file, or name of a built-in scenario.
    pub(crate) scenario: String,
    /// Duration of data taking, instead of `run.duration_s`.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Write plots of the result to this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// Measure only this one [default: all but `soak`, which takes ten minutes].
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Write plots of the results to this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// Scenario file, or name of a built-in scenario. The first point of a sweep is used.
    pub(crate) scenario: String,
    /// Name of the lab.
    #[arg(long, value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// Name of the lab.
    #[arg(long, value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
    /// Host or switch, as listed by `sheaf lab list`.
    pub(crate) host: String,
    /// Command with its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArguments {
    /// Name of the lab.
    #[arg(value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
    /// All labs created with `up`.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_seconds(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.1..=86_400.0, "a number of seconds")
}

fn parse_name(text: &str) -> Result<String, ValueError> {
    if sheaf_lab::owner::is_name(text) { Ok(text.to_owned()) } else { Err(ValueError::Name) }
}
