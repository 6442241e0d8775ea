//! The command line of `sheaf lab`.

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Examples:
  sheaf lab list                                   the scenarios that ship, and the labs that there are
  sheaf lab run first-switch --plot plots          one of them, with pictures
  sheaf lab run my-switch.toml --json              one of your own
  sheaf lab up first-switch                        the network alone, to play with
  sheaf lab exec ru0 ping -c 3 10.80.0.6           a command on one of its hosts
  sheaf lab down                                   removes it
  sheaf lab paper                                  the documents' measurements beside ours
  sheaf lab buffer output-buffer                   how large an output buffer is, found from outside

A scenario is a TOML file: docs/reference/lab-scenario.md has every key. A list in place of a value is a sweep.
The lab makes network namespaces and needs the right to: run it as root.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) verb: LabVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// Make the network of a scenario, run the event builder on it, measure, and remove it.
    Run(RunArguments),
    /// Make the network of a scenario, and leave it.
    Up(UpArguments),
    /// Run a command on a host or switch of a lab that was made with `up`.
    Exec(ExecArguments),
    /// Remove a lab that was made with `up`, and what labs left whose processes were killed.
    Down(DownArguments),
    /// Measure what the documents have figures for, and print both.
    Paper(PaperArguments),
    /// Find the output buffer of a scenario's switch by varying the builders' credit.
    Buffer(RunArguments),
    /// Show the scenarios that ship, and the labs that there are.
    List(ListArguments),
    /// Remove a lab when standard input ends: started by a lab to look after it.
    #[command(hide = true)]
    Watch {
        /// Whose lab it is.
        owner: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A scenario file, or the name of a scenario that ships.
    pub(crate) scenario: String,
    /// Take data for so long, instead of `run.duration_s`.
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Draw the result into this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// Measure this one only. Without it all but `soak`, which takes ten minutes.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Draw the results into this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// A scenario file, or the name of a scenario that ships. Of a sweep the first point is taken.
    pub(crate) scenario: String,
    /// Name of the lab.
    #[arg(long, value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArguments {
    /// The lab's name.
    #[arg(long, value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
    /// A host or switch, as `sheaf lab list` shows them.
    pub(crate) host: String,
    /// The command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArguments {
    /// The lab's name.
    #[arg(value_name = "NAME", default_value = "lab", value_parser = parse_name)]
    pub(crate) name: String,
    /// All labs that were made with `up`.
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Print JSON on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.1 to 86400 is needed".into())
}

fn parse_name(text: &str) -> Result<String, String> {
    if sheaf_lab::owner::is_name(text) {
        return Ok(text.to_owned());
    }
    Err("a name of 1 to 64 letters, digits, `-` or `_` is needed".into())
}
