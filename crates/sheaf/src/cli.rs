//! The command line.

use crate::bench::arguments::BenchArguments;
use crate::lab::arguments::LabArguments;
use crate::model::ModelArguments;
use crate::sim::arguments::SimArguments;
use clap::{Args, Parser, Subcommand};
use sheaf_config::{Config, Pacing, SizeModel, TransportKind, Trigger, TriggerMode};
use sheaf_store::event_file::StreamName;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;
use std::str::FromStr;

/// Builds events: brings the fragments of one event together, judges it, and stores it without losing one.
///
/// Without a command, `sheaf` runs an emulated detector for ten seconds and writes its events under `runs/`.
#[derive(Debug, Parser)]
#[command(name = "sheaf", version, propagate_version = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Say more on standard error (twice: everything).
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 900)]
    verbose: u8,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 901)]
    quiet: bool,
}

const AFTER_HELP: &str = "\
Examples:
  sheaf run --readouts 2 --builders 2 --duration 5      an emulated detector, in this process
  sheaf run --processes --events 100000                 the same, each role in its own process
  sheaf bench builder --transport tcp --processes       how fast it is here
  sheaf import sdhcal RAW.slcio streams                 detector data to one file a source
  sheaf run --replay streams                            events from them
  sheaf processor --join runs/run000001/bu0.farm        judge events of a run that is under way
  sheaf verify runs/run000001                           every checksum of a run
  sheaf dump runs/run000001 --csv                       one line a fragment
  sheaf tap runs/run000001                              events of a run that goes on
  sheaf doctor --config run.toml                        what of this host costs that run something
  sheaf sim --list                                      networks to simulate
  sheaf model level2                                    ports and messages of a trigger, on paper
  sheaf lab run first-switch                            a switch in this machine, and real nodes behind it

Exit status: 0 done; 1 failed; 2 wrong arguments; 3 done, but the books do not balance or problems were found.";

impl Cli {
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole system on this machine.
    Run(RunArguments),
    /// End the run that is under way in good order, so that the next begins.
    Next(NextArguments),
    /// Run one node of a system that is spread over processes or hosts.
    Node(NodeArguments),
    /// Join a builder unit of a run that is under way, and judge events for it.
    Processor(ProcessorArguments),
    /// Process fragments for a worker of a readout unit, which starts this by itself.
    #[command(hide = true)]
    Preprocessor(PreprocessorArguments),
    /// Load once what a run is to load; the run starts this by itself.
    #[command(hide = true)]
    Rehearsal(RehearsalArguments),
    /// Measure transports, memory and the whole event builder on this machine.
    Bench(BenchArguments),
    /// Turn a detector's data into fragment streams, one file a source.
    Import(ImportArguments),
    /// Say what is in an event file, a run directory, a fragment stream or a directory of streams.
    Inspect(PathArguments),
    /// Check every checksum, duplicate, gap and missing source; the exit status tells (0: good, 3: problems).
    Verify(PathArguments),
    /// Print every fragment as a line of comma-separated values.
    Dump(DumpArguments),
    /// Write a run as columns for analysis, into an HDF5 file.
    Export(ExportArguments),
    /// Bring the object store of a run to what its directory has: for runs that ended while the store was away.
    Upload(UploadArguments),
    /// Join a run that goes on, and print or save events of it; the run does not wait for it.
    Tap(TapArguments),
    /// Read this host and say what of it costs a run something, how much, and the command that would change it.
    Doctor(DoctorArguments),
    /// Simulate switching networks: what a network makes of event building before it is bought.
    Sim(SimArguments),
    /// Run the event builder behind switches that exist on this machine alone, and measure it.
    Lab(LabArguments),
    /// Count ports, messages and bytes of a described detector, with and without grouped readout buffers.
    Model(ModelArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UploadArguments {
    /// The run directory.
    pub(crate) path: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PreprocessorArguments {
    /// The shared library.
    #[arg(long, value_name = "FILE")]
    pub(crate) library: PathBuf,
    /// The function that gives the preprocessor.
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: String,
    /// A text for the preprocessor.
    #[arg(long, value_name = "TEXT")]
    pub(crate) parameters: String,
    /// The number of the run.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) run: u32,
}

#[derive(Debug, Args)]
pub(crate) struct RehearsalArguments {
    /// The number of the run.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) run: u32,
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunArguments {
    /// The configuration, a TOML file; without it, the embedded default: an emulated detector for ten seconds.
    pub(crate) config: Option<PathBuf>,
    /// Readout units [default: 4].
    #[arg(long, value_name = "N")]
    pub(crate) readouts: Option<u16>,
    /// Builder units [default: 4].
    #[arg(long, value_name = "M")]
    pub(crate) builders: Option<u16>,
    /// Output nodes, which store events for the builder units; 0: these do it themselves [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) outputs: Option<u16>,
    /// Mean size of an emulated fragment [default: 2048].
    #[arg(long, value_name = "BYTES")]
    pub(crate) fragment_size: Option<u64>,
    /// Standard deviation of that size (log-normal); 0 for a fixed size. As large as the mean where not given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) fragment_rms: Option<u64>,
    /// End after so many triggers; 0: no limit.
    #[arg(long, value_name = "K")]
    pub(crate) events: Option<u64>,
    /// Triggers a second (implies `--trigger-mode fixed`, unless the mode is `poisson`).
    #[arg(long, value_name = "HZ")]
    pub(crate) trigger_rate: Option<f64>,
    /// Where triggers come from [default: free, as fast as builder units take events].
    #[arg(long, value_name = "free|fixed|poisson|source|seen", value_parser = TriggerMode::from_str)]
    pub(crate) trigger_mode: Option<TriggerMode>,
    /// End after so many seconds; 0: no limit [default: 10, where nothing else ends the run].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) duration: Option<Nanos>,
    /// So many runs, one after the other; 0: until Ctrl-C. `sheaf next` ends a run before its time, and the next begins
    /// [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    /// How messages travel [default: memory].
    #[arg(long, value_name = "memory|tcp|udp|ethernet|shm|mixed|libfabric", value_parser = TransportKind::from_str)]
    pub(crate) transport: Option<TransportKind>,
    /// Each role in a process of its own, over TCP on loopback or through shared memory.
    #[arg(long)]
    pub(crate) processes: bool,
    /// Where the run's directory is made [default: runs].
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Build events from the fragment streams in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) replay: Option<PathBuf>,
    /// Replay so often, with renumbered events; 0: until stopped.
    #[arg(long, value_name = "TIMES")]
    pub(crate) loops: Option<u32>,
    /// Replay as fast as possible, at the recorded times, or at `--rate`.
    #[arg(long, value_name = "full|recorded|fixed", value_parser = Pacing::from_str)]
    pub(crate) pacing: Option<Pacing>,
    /// Replay so many events a second, whether or not the system keeps up (implies `--pacing fixed`).
    #[arg(long, value_name = "HZ")]
    pub(crate) rate: Option<f64>,
    /// Replay only every n-th event.
    #[arg(long, value_name = "N")]
    pub(crate) rate_division: Option<u32>,
    /// Pause between two fragments of a replayed source.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) pause_us: Option<u64>,
    /// Print one JSON object on standard output, and nothing else there; with several runs, one a line.
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunArguments {
    /// The flags that say how to replay, of those that are given.
    pub(crate) fn replay_flags(&self) -> Vec<&'static str> {
        let flags = [
            ("--loops", self.loops.is_some()),
            ("--pacing", self.pacing.is_some()),
            ("--rate", self.rate.is_some()),
            ("--rate-division", self.rate_division.is_some()),
            ("--pause-us", self.pause_us.is_some()),
        ];
        flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect()
    }

    /// Makes the changes to a configuration that the flags ask for.
    pub(crate) fn apply(&self, config: &mut Config) {
        if let Some(directory) = &self.replay {
            config.set_replay(directory.clone());
        }
        self.apply_replay(config);
        if let Some(count) = self.readouts {
            config.readout.count = count;
        }
        if let Some(count) = self.builders {
            config.builder.count = count;
        }
        if let Some(count) = self.outputs {
            config.output.nodes = count;
        }
        self.apply_sizes(config);
        self.apply_trigger(&mut config.trigger);
        if let Some(kind) = self.transport {
            config.transport.kind = kind;
        }
        if self.processes && config.transport.kind == TransportKind::Memory {
            config.transport.kind = TransportKind::Tcp;
        }
        if let Some(output) = &self.output {
            config.run.output.clone_from(output);
        }
        if let Some(runs) = self.runs {
            config.run.runs = Some(runs).filter(|runs| *runs > 0);
        }
        self.apply_length(config);
    }

    /// A limit that is given replaces the default of ten seconds; a replay ends with its data.
    fn apply_length(&self, config: &mut Config) {
        let default_duration = self.config.is_none() && self.duration.is_none();
        if default_duration && (self.events.is_some() || self.replay.is_some()) {
            config.run.duration = None;
        }
        if self.events.is_some() {
            config.run.events = self.events.filter(|events| *events > 0);
        }
        if let Some(duration) = self.duration {
            config.run.duration = Some(duration).filter(|duration| *duration > Nanos::ZERO);
        }
    }

    fn apply_trigger(&self, trigger: &mut Trigger) {
        if let Some(rate) = self.trigger_rate {
            trigger.rate_hz = Some(rate);
            if self.trigger_mode.is_none() && trigger.mode != TriggerMode::Poisson {
                trigger.mode = TriggerMode::Fixed;
            }
        }
        if let Some(mode) = self.trigger_mode {
            trigger.mode = mode;
        }
    }

    fn apply_sizes(&self, config: &mut Config) {
        let emulated = &mut config.source.emulated;
        if let Some(mean) = self.fragment_size {
            emulated.mean = ByteCount(mean);
            if self.config.is_none() {
                emulated.rms = ByteCount(mean);
            }
        }
        if let Some(rms) = self.fragment_rms {
            emulated.rms = ByteCount(rms);
            if rms == 0 {
                emulated.size = SizeModel::Fixed;
            }
        }
    }

    fn apply_replay(&self, config: &mut Config) {
        let replay = &mut config.source.replay;
        if let Some(loops) = self.loops {
            replay.loop_count = Some(loops).filter(|loops| *loops > 0);
        }
        if let Some(rate) = self.rate {
            replay.rate_hz = Some(rate);
            replay.pacing = Pacing::Fixed;
        }
        if let Some(pacing) = self.pacing {
            replay.pacing = pacing;
        }
        if let Some(division) = self.rate_division {
            replay.rate_division = division;
        }
        if let Some(pause) = self.pause_us {
            replay.pause = Nanos::from_micros(pause);
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct NextArguments {
    /// The directory of a run, or of runs one of which goes on.
    #[arg(default_value = "runs")]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// The configuration, the same on every host.
    pub(crate) config: PathBuf,
    /// The node's name in it.
    pub(crate) name: String,
    /// Listen here instead of at the node's address in the configuration, where that is not an address of this host.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// The number of this run, instead of `run.number` of the configuration.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) run: Option<u32>,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
    /// Started by `sheaf run --processes` or `sheaf lab`: ends with its parent, takes its listening socket from standard
    /// input if there is one.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
    /// The file of the key that `sheaf run --processes` has made for the links of its nodes.
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) run_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessorArguments {
    /// The door of a builder unit (`runs/run000001/bu0.farm`), the directory of a run with one builder unit or that of all runs
    /// (the newest is meant), or the address of a builder unit on any host (`filter.listen`).
    #[arg(long, value_name = "DOOR|HOST:PORT")]
    pub(crate) join: PathBuf,
    /// Certificate, key and authority, PEM files, where the run asks for them; else those of `--config` are taken.
    #[arg(long, value_names = ["CERTIFICATE", "KEY", "AUTHORITY"], num_args = 3)]
    pub(crate) tls: Option<Vec<PathBuf>>,
    /// The file of the run's key (`transport.key_file`), where the run has one and is joined over the network; else that of `--config`
    /// is taken.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Take the filter from this configuration instead of the run's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Have so many events at a time, at most as many as the run allows.
    #[arg(long, value_name = "EVENTS")]
    pub(crate) ahead: Option<u32>,
    /// Wait so long for the door to be there.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) wait: Option<Nanos>,
    /// Join the next run, too, when this one is over, with the filter that is installed then: until Ctrl-C, or until there was no
    /// run for as long as `--wait` says.
    #[arg(long)]
    pub(crate) stay: bool,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
    /// Started by a builder unit: ends with it.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "sheaf import [OPTIONS] <FORMAT> <FILE>... <DIR>")]
pub(crate) struct ImportArguments {
    /// km3net, lst1 or sdhcal.
    pub(crate) format: String,
    /// The files of one run, then the directory for the streams.
    #[arg(required = true, num_args = 1.., value_name = "FILE... DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Store under this run number instead of the one in the files.
    #[arg(long)]
    pub(crate) run: Option<u32>,
    /// Replace streams that are in the directory.
    #[arg(long)]
    pub(crate) force: bool,
    /// km3net: which time slices to take (L0, L1, L2, SN).
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// lst1: append each module's 22 counter bytes to its payload.
    #[arg(long)]
    pub(crate) with_counters: bool,
    /// The Python interpreter for km3net and lst1.
    #[arg(long, value_name = "PATH", env = sheaf_import::PYTHON_VARIABLE)]
    pub(crate) python: Option<PathBuf>,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// Event files, run directories, fragment streams, or directories of fragment streams. A directory of runs stands for its newest
    /// run.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Take all runs of directories of runs.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object on standard output, and nothing else there; of several paths, one a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// An event file, a run directory, or a directory of runs, which stands for its newest run.
    pub(crate) path: PathBuf,
    /// The HDF5 file, which must not exist.
    pub(crate) target: PathBuf,
    /// The events of this stream alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<StreamName>,
    /// How columns are compressed: `none`, `deflate` or `deflate:1` to `deflate:9`, `zstd` or `zstd:1` to `zstd:22`.
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub(crate) compression: String,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// An event file, a run directory, a fragment stream, or a directory of fragment streams. A directory of runs stands for its
    /// newest run.
    pub(crate) path: PathBuf,
    /// As comma-separated values `event,source,time_ns,bytes,crc32` with a header line. The only format so far.
    #[arg(long)]
    pub(crate) csv: bool,
    /// One line an event with what its filter said, not one a fragment:
    /// `event,time_ns,type,incomplete,fragments,missing,bytes,tags,verdict,processed`.
    #[arg(long)]
    pub(crate) verdicts: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TapArguments {
    /// The directory of a run, or of runs, which stands for its newest; or the address of one builder's door: a socket, or host:port.
    #[arg(value_name = "RUN-DIRECTORY|ADDRESS")]
    pub(crate) target: String,
    /// Only events with one of these tags.
    #[arg(long, value_name = "TAG,...", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
    /// Only events that go to this stream of the run's files.
    #[arg(long, value_name = "NAME", conflicts_with = "tags")]
    pub(crate) stream: Option<String>,
    /// Only one of so many of those.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prescale: u32,
    /// End after so many events; without it, with the run or with Ctrl-C.
    #[arg(long, value_name = "N")]
    pub(crate) events: Option<u64>,
    /// At most so many events a second.
    #[arg(long, value_name = "HZ")]
    pub(crate) rate: Option<f64>,
    /// Print a line for each event: the default.
    #[arg(long)]
    pub(crate) print: bool,
    /// Write the events to this event file, which must not exist.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["print", "json"])]
    pub(crate) save: Option<PathBuf>,
    /// Print a JSON object on a line of its own for each event, and nothing else on standard output.
    #[arg(long, conflicts_with = "print")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Compare the host with what this configuration wants of it: processors, memory, sockets, interfaces, output.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show also what is as it should be.
    #[arg(long)]
    pub(crate) all: bool,
    /// Run the commands of these findings, after asking; nothing is ever changed without this.
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', num_args = 1)]
    pub(crate) apply: Vec<String>,
    /// Do not ask before commands are run.
    #[arg(long, requires = "apply")]
    pub(crate) yes: bool,
    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) json: bool,
    /// Read the files of the kernel below this directory.
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub(crate) root: PathBuf,
}

fn parse_seconds(text: &str) -> Result<Nanos, String> {
    let seconds = text.parse().ok().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    seconds.map(Nanos::from).ok_or_else(|| "not a number of seconds from 0 on".to_owned())
}
