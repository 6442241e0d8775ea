//! The command line.

use crate::agent::AgentArguments;
use crate::arguments::{
    CompletionsArguments, DoctorArguments, DumpArguments, ExportArguments, GuardArguments, ImportArguments,
    ManualArguments, NextArguments, PathArguments, PollArguments, PollTriggerArguments,
    PreprocessorArguments, ProcessorArguments, RehearsalArguments, RunArguments, TapArguments,
};
use crate::bench::arguments::BenchArguments;
use crate::ctl::CtlArguments;
use crate::describe::SourceArguments;
use crate::emulate_trigger::EmulateTriggerArguments;
use crate::extract::ExtractArguments;
use crate::lab::arguments::LabArguments;
use crate::launch::LaunchArguments;
use crate::log_search::LogArguments;
use crate::model::ModelArguments;
use crate::node::NodeArguments;
use crate::objects::UploadArguments;
use crate::partitions::PartitionsArguments;
use crate::record::RecordArguments;
use crate::records::RunsArguments;
use crate::serve::ServeArguments;
use crate::sim::arguments::SimArguments;
use crate::spool::SpoolArguments;
use crate::token::TokenArguments;
use crate::top::TopArguments;
use crate::trace::TraceArguments;
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};
use std::sync::LazyLock;

/// Event builder for physics experiments: collects the fragments of each event, filters it, and stores it.
///
/// Without a command, `sheaf` runs an emulated detector for ten seconds and writes its events under `runs/`.
#[derive(Debug, Parser)]
#[command(name = "sheaf", version, long_version = &**LONG_VERSION, propagate_version = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// More verbose output on standard error (twice: everything).
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 900)]
    verbose: u8,
    /// Print only errors on standard error.
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 901)]
    quiet: bool,
}

/// Optional parts of the command, and whether this build has them.
const PARTS: [(&str, bool); 6] = [
    ("sqlite", cfg!(feature = "sqlite")),
    ("postgres", cfg!(feature = "postgres")),
    ("s3", cfg!(feature = "s3")),
    ("hdf5", cfg!(feature = "hdf5")),
    ("libfabric", cfg!(feature = "libfabric")),
    ("libraries of filters, sources and triggers", !cfg!(target_feature = "crt-static")),
];

/// Version, platform and optional parts, for `--version`.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let parts = |is_there: bool| -> String {
        let names = PARTS.iter().filter(|(_, there)| *there == is_there).map(|(name, _)| *name);
        let names: Vec<_> = names.collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    };
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    format!(
        "{}\nplatform: {}-{}, {linked}\nwith: {}\nwithout: {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        parts(true),
        parts(false)
    )
});

const AFTER_HELP: &str = "\
Examples:
  sheaf run --readouts 2 --builders 2 --duration 5      run an emulated detector in one process
  sheaf run --processes --events 100000                 run each role in its own process
  sheaf bench builder --transport tcp --processes       measure the event builder over TCP
  sheaf import sdhcal RAW.slcio streams                 convert detector data to one file per source
  sheaf run --replay streams                            build events from those files
  sheaf processor --join runs/run000001/bu0.farm        filter events of a run in progress
  sheaf verify runs/run000001                           check every checksum of a run
  sheaf dump runs/run000001 --csv                       print one line per fragment
  sheaf tap runs/run000001                              watch a run in progress
  sheaf serve run.toml                                  serve run control with a page; `sheaf ctl start` starts a run
  sheaf log --severity warning                          show what went wrong in the newest run
  sheaf runs list                                       list all runs, with their numbers and how they ended
  sheaf trace                                           list remarkable events of the last run; `sheaf trace RUN EVENT` shows one
  sheaf doctor --config run.toml                        find settings of this host that slow a run
  sheaf sim --list                                      list the networks to simulate
  sheaf model level2                                    calculate ports and messages of a trigger
  sheaf lab run first-switch                            run nodes behind a virtual switch

Exit status: 0 success; 1 failure; 2 wrong arguments; 3 completed, but the ledger does not balance or problems were found.";

impl Cli {
    /// Parses the command line of this process. A negative number is the value of its option, so that the error names the
    /// option and its range.
    pub(crate) fn from_arguments() -> Result<Self, clap::Error> {
        let mut matches = allow_negative_numbers(Self::definition()).try_get_matches()?;
        Self::from_arg_matches_mut(&mut matches)
    }

    /// Returns all commands and flags with their help.
    pub(crate) fn definition() -> clap::Command {
        <Self as CommandFactory>::command()
    }

    pub(crate) fn verbosity(&self) -> log::LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => log::LevelFilter::Error,
            (false, 0) => log::LevelFilter::Info,
            (false, 1) => log::LevelFilter::Debug,
            (false, _) => log::LevelFilter::Trace,
        }
    }

    pub(crate) fn command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Run(RunArguments::default()))
    }
}

fn allow_negative_numbers(command: clap::Command) -> clap::Command {
    let is_option = |arg: &clap::Arg| arg.get_long().is_some() && arg.get_action().takes_values();
    command
        .mut_args(|arg| if is_option(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(allow_negative_numbers)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole system on this machine.
    Run(RunArguments),
    /// End the current run in good order and start the next one.
    Next(NextArguments),
    /// Serve run control: a page and an interface from which runs are started, paused and stopped.
    Serve(ServeArguments),
    /// Give a command to a controller that `sheaf serve` has started.
    Ctl(CtlArguments),
    /// Show the state of a run in the terminal: rate, dead time, books, alarms, nodes.
    Top(TopArguments),
    /// Show the partitions of a system, and which runs have them.
    Partitions(PartitionsArguments),
    /// Make, list and remove the tokens of people who give commands to a controller.
    Token(TokenArguments),
    /// List, show, compare and comment on runs.
    Runs(RunsArguments),
    /// Show which stage of an event took how long on which node, or list slow, incomplete, dropped and quarantined events.
    Trace(TraceArguments),
    /// Show and search the messages of a run.
    Log(LogArguments),
    /// Run one node of a system that spans several processes or hosts.
    Node(NodeArguments),
    /// Start nodes on this host for runs of other hosts, as their configurations ask for.
    Agent(AgentArguments),
    /// Start a configuration on one host or many: here, by ssh, systemd, Slurm or Kubernetes.
    Launch(LaunchArguments),
    /// Look after the nodes of a run for an agent, which starts this command itself.
    #[command(hide = true)]
    HostRun,
    /// Give the triggers of a run with `trigger.mode = "network"`, as a trigger supervisor does.
    EmulateTrigger(EmulateTriggerArguments),
    /// Join a builder unit of a run in progress and filter events for it.
    Processor(ProcessorArguments),
    /// Process fragments for a worker of a readout unit, which starts this command itself.
    #[command(hide = true)]
    Preprocessor(PreprocessorArguments),
    /// Start a program that feeds sources, and end it with its readout unit, which starts this command itself.
    #[command(hide = true)]
    Guard(GuardArguments),
    /// Poll a library of sources and feed a readout unit, which starts this command itself.
    #[command(hide = true)]
    Poll(PollArguments),
    /// Poll a library of triggers and give them to an event manager, which starts this command itself.
    #[command(hide = true)]
    PollTrigger(PollTriggerArguments),
    /// Load everything that a run will load; the run starts this command itself.
    #[command(hide = true)]
    Rehearsal(RehearsalArguments),
    /// Measure transports, memory and the whole event builder on this machine.
    Bench(BenchArguments),
    /// Convert detector data into fragment streams, one file per source.
    Import(ImportArguments),
    /// Show the contents of an event file, a run directory, a fragment stream or a directory of streams.
    Inspect(PathArguments),
    /// Check files for wrong checksums, duplicates, gaps and missing sources (exit status 0: good, 3: problems).
    Verify(PathArguments),
    /// Print one line per fragment as comma-separated values.
    Dump(DumpArguments),
    /// Export a run to an HDF5 file, as columns for analysis.
    Export(ExportArguments),
    /// Finish uploading a run whose object store was unavailable when the run ended.
    Upload(UploadArguments),
    /// Show what sources send, without a run, or what a description of packets finds in a capture.
    Source(SourceArguments),
    /// Write the fragments of live sources to fragment streams, for a replay.
    Record(RecordArguments),
    /// Keep the hits of free-running front ends in a ring of files, and give out windows of them.
    Spool(SpoolArguments),
    /// Write the hits of windows of time, out of a hit spool, to an event file.
    Extract(ExtractArguments),
    /// Watch a run in progress: print or save a sample of its events without slowing the run.
    Tap(TapArguments),
    /// Check this host for settings that slow a run: the cost of each, and the command that changes it.
    Doctor(DoctorArguments),
    /// Simulate event building on a switching network before it is bought.
    Sim(SimArguments),
    /// Run and measure the event builder behind virtual switches on this machine.
    Lab(LabArguments),
    /// Calculate ports, messages and bytes of a described detector, with and without grouped readout buffers.
    Model(ModelArguments),
    /// Print a script with which a shell completes commands and flags.
    Completions(CompletionsArguments),
    /// Write a man page for each command.
    Manual(ManualArguments),
}
