//! The command `sheaf`: the only crate that knows all transports, sources and sinks.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the command line |
//! | `arguments` | the arguments of its commands |
//! | `address` | addresses in configurations and on the command line |
//! | `plan` | the configuration and everything derived from it for nodes and roles |
//! | `assemble` | makes sources, filters and outputs from the plan |
//! | `blocks` | the memory of emulated sources |
//! | `farms`, `early_farms` | the filter farm of a configuration; farms and preprocessors that are made before their run begins |
//! | `fed`, `described`, `timed` | makes live sources from the configuration |
//! | `free_running` | makes emulated front ends without event numbers from it |
//! | `describe` | `sheaf source`, and of it `sheaf source describe` |
//! | `check_source` | `sheaf source check` |
//! | `truth` | `sheaf source truth` |
//! | `frames` | `sheaf source frames` |
//! | `record` | `sheaf record` |
//! | `spool` | `sheaf spool` |
//! | `extract` | `sheaf extract`: windows of a hit spool |
//! | `verify_spool` | `sheaf verify` of a hit spool |
//! | `run_time` | points in time of a run, as arguments have them |
//! | `one_file` | an event file with a name of the user's choice |
//! | `listening` | the sources of a configuration without a run |
//! | `code` | the run's own copies of the libraries and scripts that it loads |
//! | `decoders` | decoders of hits of a configuration |
//! | `python` | how functions in Python are started |
//! | `rehearsal` | loads these once before the run |
//! | `filters` | the filter of a configuration |
//! | `output` | makes the files of accepted events from the configuration |
//! | `names` | names of nodes in the configuration |
//! | `drivers` | drivers of the nodes of this process, made from roles and endpoints |
//! | `placement` | processors of the threads of nodes |
//! | `network` | endpoints for one process, and for a node of many |
//! | `runs` | `sheaf run`, one run after the other |
//! | `run` | all roles in this process |
//! | `mirrors` | mirrors of readout units |
//! | `processes` | `sheaf run --processes`, each role in its own process |
//! | `node_process`, `node_output` | such a process, and its standard output |
//! | `node` | `sheaf node`, one role |
//! | `agent` | `sheaf agent`, which starts nodes of runs on its host |
//! | `host_run` | `sheaf host-run`, which looks after the nodes of a run on such a host, and of those that follow it |
//! | `remote` | such hosts, as the run sees them |
//! | `host_message` | messages between the two |
//! | `page` | the page and the metrics of a run |
//! | `serve` | `sheaf serve`, run control with a page |
//! | `ctl` | `sheaf ctl`, commands to it |
//! | `partitions`, `claims` | `sheaf partitions`, and the nodes that runs of parts of a system claim |
//! | `token`, `people` | `sheaf token`, and who may give commands |
//! | `control_directory` | the directory of a controller |
//! | `controlled` | a run that follows a controller |
//! | `steered` | requests to nodes in processes of their own |
//! | `hooks` | commands of the user before and after transitions of a run |
//! | `user_command` | commands of the user, with deadlines and bounded output |
//! | `notify` | notices of alarms to a command and to Alertmanager |
//! | `trace` | `sheaf trace`: traces of events |
//! | `tracing` | stamps of the nodes of a run, and the file of its traces |
//! | `relay` | metrics, messages and stamps of a node, for the process that has started it |
//! | `programs` | programs that readout units start, and `sheaf guard`, which each of them is behind |
//! | `library` | sources of a library, and `sheaf poll`, a process that polls it |
//! | `processor` | `sheaf processor`, a worker of a farm |
//! | `launch` | `sheaf launch`: starts a configuration on one host or many |
//! | `leaving` | nodes that end before the event manager tells them to |
//! | `summary`, `table` | the summary at the end, as JSON and as a table |
//! | `run_directory` | the directory of a run, its manifest, and how it is sealed |
//! | `run_paths` | the path of that directory |
//! | `space` | free space on the disk of a run |
//! | `consumers` | doors of builders for consumers |
//! | `console` | progress line and log on standard error |
//! | `print` | text and JSON on standard output |
//! | `signals` | Ctrl-C and termination |
//! | `log_search` | `sheaf log`: the messages of a run |
//! | `records` | `sheaf runs`: the runs that there are, out of their directories |
//! | `next` | `sheaf next`, which asks a running process for its next run |
//! | `emulate_trigger` | `sheaf emulate-trigger`, a trigger supervisor |
//! | `poll_trigger` | `sheaf poll-trigger`, a trigger supervisor that polls a library |
//! | `trigger_connection` | the connection of such a supervisor to the event manager |
//! | `supervisor` | a trigger supervisor that the event manager starts |
//! | `doctor` | `sheaf doctor` |
//! | `bench` | `sheaf bench`, the test programs |
//! | `sim` | `sheaf sim`: scenarios, the documents' figures, calibration, prediction |
//! | `lab` | `sheaf lab`: real nodes behind virtual switches |
//! | `model` | `sheaf model`: the paper model of a described detector |
//! | `manual` | `sheaf completions` and `sheaf manual`: the command line for shells and for `man` |
//! | `tap` | `sheaf tap`: events of a run in progress |
//! | `export` | `sheaf export`, in builds with HDF5 |
//! | `histograms` | histograms that consumers publish during a run |
//! | `slow_control` | values from outside of the run |
//! | `hdf5` | streams whose files become HDF5 files, in builds that have it |
//! | `objects` | `sheaf upload`, and the object store of a run, in builds that have one |
//! | `files` | `sheaf inspect`, `verify`, `dump`, `import` |

mod active;
mod address;
mod agent;
mod arguments;
mod assemble;
mod begin_records;
mod bench;
mod blocks;
mod check_source;
mod claims;
mod cli;
mod code;
mod commands;
mod console;
mod consumers;
mod control_directory;
mod controlled;
mod ctl;
mod database;
mod decoders;
mod describe;
mod described;
mod doctor;
mod drivers;
mod early_farms;
mod emulate_trigger;
mod excluding;
mod export;
mod extract;
mod farms;
mod fed;
mod files;
mod filters;
mod frames;
mod free_running;
mod gate;
mod given;
mod hdf5;
mod histograms;
mod hits;
mod hooks;
mod host_message;
mod host_run;
mod lab;
mod launch;
mod leaving;
mod library;
mod listening;
mod log_search;
mod manual;
mod mirrors;
mod model;
mod names;
mod network;
mod next;
mod node;
mod node_output;
mod node_process;
mod notify;
mod numbering;
mod objects;
mod one_file;
mod output;
mod own_program;
mod page;
mod partitions;
mod people;
mod periodic;
mod placement;
mod plan;
mod poll_trigger;
mod print;
mod processes;
mod processor;
mod programs;
mod python;
mod record;
mod recorded_slices;
mod recording;
mod records;
mod rehearsal;
mod relay;
mod remote;
mod replicas;
mod run;
mod run_directory;
mod run_paths;
mod run_time;
mod runs;
mod scenarios;
mod serve;
mod signals;
mod sim;
mod slow_control;
mod space;
mod spool;
mod spool_options;
mod steered;
mod steps;
mod summary;
mod supervisor;
mod table;
mod tap;
mod tap_stream;
mod timed;
mod token;
mod top;
mod trace;
mod tracing;
mod trigger_connection;
mod truth;
mod user_command;
mod values;
mod verify_spool;
mod windows;

use clap::error::ErrorKind;
use cli::{Cli, Command};
use std::error::Error as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Name and version, as files and manifests have them.
const SOFTWARE: &str = concat!("sheaf ", env!("CARGO_PKG_VERSION"));

/// The work was not done, or not all of it.
const EXIT_FAILED: u8 = 1;

/// The work was done, and its books do not balance, it lost something, or its check found problems.
pub(crate) const EXIT_NOT_GOOD: u8 = 3;

/// The work was done, on a run in progress: nothing is wrong so far.
const EXIT_IN_PROGRESS: u8 = 4;

/// Result of a command that did its work, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Good,
    /// Nothing is wrong so far with a run in progress.
    InProgress,
    /// The ledger does not balance, something was lost, or a file has problems: everything was printed.
    NotGood,
    /// A library has refused to be opened: the reason was printed. Only for the run that has started this process.
    Refused,
}

fn main() -> ExitCode {
    let cli = Cli::from_arguments().unwrap_or_else(|error| refuse(&error));
    let console = console::Console::install(cli.verbosity());
    if let Err(error) = sheaf_machine::forget_signal_handlers() {
        console.error(&format!("handlers of signals that libraries have set stay: {error}"));
    }
    // A signal sent to all processes named `sheaf` also reaches those that make no runs. `runs` sets a handler later.
    if let Err(error) = sheaf_machine::ignore_next_run_signal() {
        console.error(&format!("SIGUSR1 ends this process: {error}"));
    }
    let result = match cli.command() {
        Command::Run(arguments) => runs::command(&arguments, &console),
        Command::Serve(arguments) => serve::command(&arguments, &console),
        Command::Agent(arguments) => agent::command(&arguments, &console),
        Command::HostRun => host_run::command(&console),
        Command::Launch(arguments) => launch::command(&arguments),
        Command::Ctl(arguments) => ctl::command(&arguments),
        Command::Top(arguments) => top::command(&arguments),
        Command::Partitions(arguments) => partitions::command(&arguments),
        Command::Token(arguments) => token::command(&arguments),
        Command::Next(arguments) => next::command(&arguments),
        Command::Runs(arguments) => records::command(&arguments, &console),
        Command::Trace(arguments) => trace::command(&arguments),
        Command::Log(arguments) => log_search::command(&arguments),
        Command::EmulateTrigger(arguments) => emulate_trigger::command(&arguments),
        Command::Node(arguments) => node::command(&arguments, &console),
        Command::Processor(arguments) => processor::command(&arguments),
        Command::Preprocessor(arguments) => active::command(&arguments),
        Command::Guard(arguments) => programs::command(&arguments),
        Command::Poll(arguments) => library::command(&arguments),
        Command::PollTrigger(arguments) => poll_trigger::command(&arguments),
        Command::Rehearsal(arguments) => rehearsal::command(arguments.run),
        Command::Bench(arguments) => bench::command(&arguments, &console),
        Command::Import(arguments) => files::import(&arguments),
        Command::Inspect(arguments) => files::inspect(&arguments),
        Command::Verify(arguments) => files::verify(&arguments, &console),
        Command::Dump(arguments) => files::dump(&arguments),
        Command::Export(arguments) => export::command(&arguments),
        Command::Upload(arguments) => objects::command(&arguments),
        Command::Record(arguments) => record::command(&arguments),
        Command::Spool(arguments) => spool::command(&arguments),
        Command::Extract(arguments) => extract::command(&arguments),
        Command::Source(arguments) => describe::command(&arguments),
        Command::Tap(arguments) => tap::command(&arguments),
        Command::Doctor(arguments) => doctor::command(&arguments),
        Command::Sim(arguments) => sim::command(&arguments, &console),
        Command::Lab(arguments) => lab::command(&arguments, &console),
        Command::Model(arguments) => model::command(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Manual(arguments) => manual::command(&arguments),
    };
    let status = match result {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::InProgress) => ExitCode::from(EXIT_IN_PROGRESS),
        Ok(Verdict::NotGood) => ExitCode::from(EXIT_NOT_GOOD),
        Ok(Verdict::Refused) => ExitCode::from(sheaf_node::programs::REFUSED),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            console.error(&describe(&error));
            ExitCode::from(EXIT_FAILED)
        }
    };
    console::flush();
    status
}

/// Prints clap's error about the arguments with the prefix of all errors and ends the process. Help is not an error.
fn refuse(error: &clap::Error) -> ! {
    if error.use_stderr() {
        let text = plain(error);
        // Nothing can be done if standard error is closed.
        let _ = write!(std::io::stderr(), "{}{text}", console::ERROR);
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Returns the text of clap's error without its prefix, and without the words of Rust's number parsers.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!("a command is missing\n\n{text}");
    }
    let text = text.trim_start_matches("error: ");
    let Some(cause) = error.source().map(ToString::to_string) else {
        return text.to_owned();
    };
    let range = cause.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    let better = match (&*cause, range) {
        (_, Some((first, last))) => format!("must be an integer from {first} to {last}"),
        ("number too large to fit in target type", _) => "too large".to_owned(),
        ("invalid digit found in string" | "cannot parse integer from empty string", _) => {
            "must be an integer >= 0".to_owned()
        }
        ("invalid float literal" | "cannot parse float from empty string", _) => {
            "must be a number".to_owned()
        }
        _ => return text.to_owned(),
    };
    text.replacen(&cause, &better, 1)
}

/// Describes an error with its causes, each once: many error texts contain that of their cause.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(cause.trim_end());
        }
    }
    text
}

/// Returns whether the reader of standard output closed it, as `head` does. This is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
