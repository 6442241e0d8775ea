//! Arguments of the commands that do not define their own, and the changes that `sheaf run` makes to a configuration.

use crate::values::{self, ValueError};
use clap::Args;
use sheaf_config::{
    Config, LogFormat, Pacing, Protection, Setting, SizeModel, SourceKind, TransportKind, Trigger,
    TriggerMode,
};
use sheaf_store::event_file::StreamName;
use sheaf_store::run::SequenceRecord;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;
use std::str::FromStr;

/// A library that a process of its own loads.
#[derive(Debug, Args)]
pub(crate) struct LibraryArguments {
    /// The shared library.
    #[arg(long = "library", value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// The function that gives its table.
    #[arg(long, value_name = "NAME")]
    pub(crate) symbol: String,
    /// A text for the library.
    #[arg(long, value_name = "TEXT")]
    pub(crate) parameters: String,
}

#[derive(Debug, Args)]
pub(crate) struct PreprocessorArguments {
    #[command(flatten)]
    pub(crate) library: LibraryArguments,
    /// The number of the run.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) run: u32,
}

#[derive(Debug, Args)]
pub(crate) struct GuardArguments {
    /// Time that the program has to end after SIGTERM when its readout unit has died.
    #[arg(long, value_name = "TIME")]
    pub(crate) grace_ms: u64,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct PollArguments {
    #[command(flatten)]
    pub(crate) library: LibraryArguments,
    /// Size of the largest fragment.
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_fragment: u64,
    /// Number of fragments of a poll.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) batch: usize,
}

#[derive(Debug, Args)]
pub(crate) struct PollTriggerArguments {
    #[command(flatten)]
    pub(crate) library: LibraryArguments,
    /// Size of the largest payload; 0 if the run takes none.
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_payload: u64,
    /// Number of triggers of a poll.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) batch: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RehearsalArguments {
    /// The number of the run.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) run: u32,
}

/// Arguments by which a controller starts a run.
#[derive(Debug, Default, Args)]
pub(crate) struct ControlledArguments {
    /// Follow a controller, in the directory of a launch.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) controlled: Option<PathBuf>,
    /// Wait for the controller before the run takes triggers.
    #[arg(long, requires = "controlled", hide = true)]
    pub(crate) held: bool,
    /// A comment for the record of the run.
    #[arg(long, value_name = "TEXT", requires = "controlled", hide = true)]
    pub(crate) comment: Option<String>,
    /// Who has started the run.
    #[arg(long, value_name = "NAME", requires = "controlled", hide = true)]
    pub(crate) operator: Option<String>,
    /// Set a key of the configuration.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting, requires = "controlled", hide = true)]
    pub(crate) set: Vec<Setting>,
    /// The sequence that the run belongs to.
    #[arg(long, value_name = "NAME", requires = "sequence_row", hide = true)]
    pub(crate) sequence: Option<String>,
    /// Its row in the sequence, from 1.
    #[arg(long, value_name = "N", requires = "sequence", hide = true)]
    pub(crate) sequence_row: Option<u32>,
}

/// Returns the key and the value of `KEY=VALUE`.
fn parse_setting(text: &str) -> Result<Setting, String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok(Setting { key: key.to_owned(), value: value.to_owned() })
}

impl ControlledArguments {
    /// Returns the row of a sequence that the run belongs to, for its record.
    pub(crate) fn sequence_record(&self) -> Option<SequenceRecord> {
        let values = self.set.iter().map(|Setting { key, value }| (key.clone(), value.clone())).collect();
        Some(SequenceRecord { name: self.sequence.clone()?, row: self.sequence_row?, values })
    }

    /// Returns whether the row of a sequence sets a key of this table, or this key.
    fn sets(&self, key: &str) -> bool {
        let of_table = |set: &Setting| set.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        self.set.iter().any(|set| set.key == key || of_table(set))
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunArguments {
    /// Configuration file (TOML) [default: an emulated detector for ten seconds].
    pub(crate) config: Option<PathBuf>,
    /// Use the configuration of an earlier run: its number, its directory, or the name of a configuration (NAME, NAME@VERSION).
    #[arg(long, value_name = "RUN|NAME", conflicts_with_all = ["config", "replay"])]
    pub(crate) like: Option<String>,
    /// Exclude a source, by number or name, or a readout unit or builder unit: events are complete without it. May be repeated.
    #[arg(long, value_name = "SOURCE|NODE")]
    pub(crate) exclude: Vec<String>,
    /// Run a partition of the system, which the configuration describes in `[partition.NAME]` [default: the whole system].
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Number of readout units [default: 4].
    #[arg(long, value_name = "N")]
    pub(crate) readouts: Option<u16>,
    /// Number of builder units [default: 4].
    #[arg(long, value_name = "M")]
    pub(crate) builders: Option<u16>,
    /// Number of output nodes that store events for the builder units; 0: builder units store their own [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) outputs: Option<u16>,
    /// Number of standby event managers, 0 or 1: one takes over when the event manager dies [default: 0].
    #[arg(long, value_name = "N")]
    pub(crate) standby: Option<u16>,
    /// Protection of what readout units hold: "none" or "mirror" [default: none].
    #[arg(long)]
    pub(crate) protect: Option<Protection>,
    /// Mean size of emulated fragments [default: 2048].
    #[arg(long, value_name = "BYTES")]
    pub(crate) fragment_size: Option<u64>,
    /// Standard deviation of the fragment size (log-normal); 0: fixed size [default: the mean].
    #[arg(long, value_name = "BYTES")]
    pub(crate) fragment_rms: Option<u64>,
    /// Stop after K triggers; 0: no limit.
    #[arg(long, value_name = "K")]
    pub(crate) events: Option<u64>,
    /// Number of triggers per second (implies `--trigger-mode fixed`, unless the mode is `poisson`).
    #[arg(long, value_name = "HZ")]
    pub(crate) trigger_rate: Option<f64>,
    /// Source of triggers [default: `trigger.mode` of the configuration; without one, `poisson` at 10,000 Hz].
    #[arg(long, value_name = "free|fixed|poisson|source|seen|network|command|library", value_parser = TriggerMode::from_str)]
    pub(crate) trigger_mode: Option<TriggerMode>,
    /// Stop after this many seconds; 0: no limit [default: 10, unless something else ends the run].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) duration: Option<Nanos>,
    /// Number of consecutive runs; 0: until Ctrl-C. `sheaf next` ends the current run early and starts the next [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    /// Take triggers as fast as builder units accept events; the same as `--trigger-mode free`.
    #[arg(long, conflicts_with_all = ["replay", "trigger_rate", "trigger_mode"])]
    pub(crate) full_speed: bool,
    /// Transport for messages between nodes [default: memory].
    #[arg(long, value_name = "memory|tcp|udp|ethernet|shm|mixed|libfabric", value_parser = TransportKind::from_str)]
    pub(crate) transport: Option<TransportKind>,
    /// Run each role in its own process, over TCP on loopback or through shared memory.
    #[arg(long)]
    pub(crate) processes: bool,
    /// Run all nodes on this host, also those that agents start on other hosts.
    #[arg(long)]
    pub(crate) local: bool,
    /// Serve a page that shows the run, and its metrics, at this loopback address [default: `monitor.listen` of the configuration;
    /// without one, 127.0.0.1:7070, or another port if that one is taken].
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true)]
    pub(crate) page: Option<Option<String>>,
    /// Form of messages on standard error [default: `log.format` of the configuration; without one, text].
    #[arg(long, value_name = "text|json", value_parser = LogFormat::from_str)]
    pub(crate) log: Option<LogFormat>,
    /// Directory in which the run directory is created [default: runs].
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Build events from the fragment streams in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) replay: Option<PathBuf>,
    /// Number of passes over the replayed data, with renumbered events; 0: until stopped.
    #[arg(long, value_name = "TIMES")]
    pub(crate) loops: Option<u32>,
    /// Replay at full speed, at the recorded times, or at the rate of `--rate`.
    #[arg(long, value_name = "full|recorded|fixed", value_parser = Pacing::from_str)]
    pub(crate) pacing: Option<Pacing>,
    /// Replay at this rate, whether or not the system keeps up (implies `--pacing fixed`).
    #[arg(long, value_name = "HZ")]
    pub(crate) rate: Option<f64>,
    /// Replay only every N-th event.
    #[arg(long, value_name = "N")]
    pub(crate) rate_division: Option<u32>,
    /// Pause between two fragments of a replayed source.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) pause_us: Option<u64>,
    /// Print the summary as JSON on standard output, one object per line for several runs.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) control: ControlledArguments,
}

/// Trigger rate of a run without a configuration, in Hz: with its 4 sources of 2 KiB, 82 MB/s.
const TRIGGER_RATE_HZ: f64 = 10_000.0;

impl RunArguments {
    /// Returns the replay flags that were given.
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

    /// Returns whether somebody has chosen the settings, so that defaults for a first try have no place.
    fn has_configuration(&self) -> bool {
        self.config.is_some() || self.like.is_some()
    }

    /// Makes the changes to a configuration that the flags ask for.
    pub(crate) fn apply(&self, config: &mut Config) {
        if self.local {
            config.without_agents();
        }
        if self.partition.is_some() {
            config.run.partition.clone_from(&self.partition);
        }
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
        if let Some(count) = self.standby {
            config.manager.standby = count;
        }
        if let Some(protection) = self.protect {
            config.readout.protect = protection;
        }
        self.apply_sizes(config);
        let is_emulated = config.source.kind == SourceKind::Emulated;
        self.apply_trigger(&mut config.trigger, is_emulated);
        if let Some(kind) = self.transport {
            config.transport.kind = kind;
        }
        if self.processes && config.transport.kind == TransportKind::Memory {
            config.transport.kind = TransportKind::Tcp;
        }
        if let Some(format) = self.log {
            config.log.format = format;
        }
        if let Some(output) = &self.output {
            config.run.output.clone_from(output);
        }
        if let Some(runs) = self.runs {
            config.run.runs = Some(runs).filter(|runs| *runs > 0);
        }
        if self.control.controlled.is_some() {
            // The controller decides about the next one.
            config.run.runs = Some(1);
        }
        self.apply_length(config);
    }

    /// A limit that is given replaces the default of ten seconds; a replay ends with its data.
    ///
    /// A run under a controller has no limit unless somebody has set one.
    fn apply_length(&self, config: &mut Config) {
        let file = self.config.as_deref();
        let default_duration = !self.has_configuration() && self.duration.is_none();
        let key = "run.duration_s";
        let in_file = || file.is_some_and(|file| Config::sets(file, key, self.partition.as_deref()));
        let is_set = || self.like.is_some() || self.control.sets(key) || in_file();
        if self.like.is_some() && (self.events.is_some() || self.duration.is_some()) {
            (config.run.events, config.run.duration) = (None, None);
        }
        if self.control.controlled.is_some() && !is_set() {
            config.run.duration = None;
        }
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

    /// Sets the trigger of a run without a configuration to a rate that any laptop sustains and that does not fill its
    /// disk.
    fn apply_trigger(&self, trigger: &mut Trigger, is_emulated: bool) {
        let nothing_said = !self.has_configuration()
            && self.trigger_rate.is_none()
            && self.trigger_mode.is_none()
            && !self.control.sets("trigger");
        if self.full_speed {
            (trigger.mode, trigger.rate_hz) = (TriggerMode::Free, None);
        } else if nothing_said && is_emulated {
            (trigger.mode, trigger.rate_hz) = (TriggerMode::Poisson, Some(TRIGGER_RATE_HZ));
        }
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
            if !self.has_configuration() {
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
    /// Directory of the run, or of all runs.
    #[arg(default_value = "runs")]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessorArguments {
    /// Builder unit to join: its socket (`runs/run000001/bu0.farm`), its address on any host (`filter.listen`), the directory of a
    /// run with one builder unit, or the directory of all runs, for the newest.
    #[arg(long, value_name = "SOCKET|DIR|HOST:PORT")]
    pub(crate) join: PathBuf,
    /// PEM files for a run that requires TLS [default: those of `--config`].
    #[arg(long, value_names = ["CERTIFICATE", "KEY", "AUTHORITY"], num_args = 3)]
    pub(crate) tls: Option<Vec<PathBuf>>,
    /// Key file of the run (`transport.key_file`), for a run that has a key and is joined over the network [default: that of
    /// `--config`].
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Use the filter of this configuration instead of the run's.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Number of events to hold at a time, at most as many as the run allows.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ahead: Option<u32>,
    /// Wait at most this long for a run to join [default: 0; with `--stay`: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) wait: Option<Nanos>,
    /// Join the following runs as well, each with the filter that is installed when it begins, until Ctrl-C or until no run
    /// has appeared for `--wait` seconds.
    #[arg(long)]
    pub(crate) stay: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Started by a builder unit: ends with it.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}

#[derive(Debug, Args)]
#[command(override_usage = "sheaf import [OPTIONS] <FORMAT> <FILE>... <DIR>")]
pub(crate) struct ImportArguments {
    /// Format of the data: km3net, lst1 or sdhcal.
    pub(crate) format: String,
    /// Files of one run, followed by the directory for the streams.
    #[arg(required = true, num_args = 1.., value_name = "FILE... DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Run number to store instead of the one in the files.
    #[arg(long)]
    pub(crate) run: Option<u32>,
    /// Replace existing streams in the directory.
    #[arg(long)]
    pub(crate) force: bool,
    /// km3net: time slices to convert (L0, L1, L2, SN) [default: L1].
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// lst1: append the 22 counter bytes of each module to its payload.
    #[arg(long)]
    pub(crate) with_counters: bool,
    /// Python interpreter for km3net and lst1.
    #[arg(long, value_name = "PATH", env = sheaf_import::PYTHON_VARIABLE)]
    pub(crate) python: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// Event files, run directories, fragment streams, or directories of fragment streams; for `verify` also hit spools. For a
    /// directory of runs, its newest run is used.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Use all runs of a directory of runs, not only the newest.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object on standard output, one per line for several paths.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// Event file, run directory, or directory of runs (its newest run).
    pub(crate) path: PathBuf,
    /// HDF5 file to create; it must not exist.
    pub(crate) target: PathBuf,
    /// Export only the events of this stream.
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<StreamName>,
    /// Compression of the columns: `none`, `deflate` or `deflate:1` to `deflate:9`, `zstd` or `zstd:1` to `zstd:22`.
    #[arg(long, value_name = "METHOD", default_value = "none")]
    pub(crate) compression: String,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// Event files, run directories, fragment streams, or directories of fragment streams. For a directory of runs, its
    /// newest run is used.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Use all runs of a directory of runs, not only the newest.
    #[arg(long)]
    pub(crate) all: bool,
    /// Print comma-separated values `event,source,time_ns,bytes,crc32` with a header line (the only format).
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print one line per event with the verdict of its filter, instead of one per fragment:
    /// `event,time_ns,type,incomplete,fragments,missing,bytes,tags,verdict,processed,disagreeing`.
    #[arg(long)]
    pub(crate) verdicts: bool,
    /// Print one line per run record, without reading events:
    /// `kind,source,time_ns,name,bytes,content,first_event,shift,repaired_from_event`.
    #[arg(long, conflicts_with = "verdicts")]
    pub(crate) records: bool,
    /// Add a last column `source_name`, with the name that the run has for the source.
    #[arg(long, conflicts_with_all = ["verdicts", "records"])]
    pub(crate) names: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TapArguments {
    /// Run directory, directory of runs (its newest run), or the address of one builder unit: its socket (`bu0.tap`) or host:port.
    #[arg(value_name = "RUN-DIRECTORY|ADDRESS")]
    pub(crate) target: String,
    /// Select only events with at least one of these tags.
    #[arg(long, value_name = "TAG,...", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
    /// Select only events of this output stream.
    #[arg(long, value_name = "NAME", conflicts_with = "tags")]
    pub(crate) stream: Option<String>,
    /// Keep one in N of the selected events.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prescale: u32,
    /// Stop after this many events [default: until the run ends or Ctrl-C].
    #[arg(long, value_name = "N")]
    pub(crate) events: Option<u64>,
    /// Maximum number of events per second.
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Key file of the run (`transport.key_file`), for a run that has a key and is joined over the network.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Wait at most this long for a run that has not started.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub(crate) wait: Nanos,
    /// Print one line per event (the default).
    #[arg(long)]
    pub(crate) print: bool,
    /// Write the events to this event file, which must not exist.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["print", "json"])]
    pub(crate) save: Option<PathBuf>,
    /// Print one JSON object per event, each on its own line.
    #[arg(long, conflicts_with = "print")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Check the host against the needs of this configuration: processors, memory, sockets, interfaces, output.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Also show settings that are OK.
    #[arg(long)]
    pub(crate) all: bool,
    /// Run the commands of these findings, after confirmation. Without this option nothing is changed.
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', num_args = 1)]
    pub(crate) apply: Vec<String>,
    /// Run commands without confirmation.
    #[arg(long, requires = "apply")]
    pub(crate) yes: bool,
    /// Print one JSON object on standard output.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) json: bool,
    /// Read the files of the kernel below this directory.
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    pub(crate) root: PathBuf,
}

fn parse_rate(text: &str) -> Result<f64, ValueError> {
    values::positive(text, "a number of events per second")
}

pub(crate) fn parse_seconds(text: &str) -> Result<Nanos, ValueError> {
    let seconds = text.parse().ok().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    seconds.map(Nanos::from).ok_or(ValueError::Negative("a number of seconds"))
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell that is to complete commands and flags.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// Directory of the pages, which is created if it is missing.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
