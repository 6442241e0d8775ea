//! The command line of the test programs.

use crate::values::{self, ValueError};
use anyhow::bail;
use clap::{Args, Subcommand};
use sheaf_bench::payload::Use;
use sheaf_bench::store::Policy;
use sheaf_bench::transport::Transport;
use sheaf_config::TransportKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

const AFTER_HELP: &str = "\
Examples:
  sheaf bench builder --readouts 2 --builders 2 --transport tcp --processes --baseline
  sheaf bench builder --readouts 1,2,4,8 --builders 1,2,4,8 --size 2Ki       scan the numbers of nodes
  sheaf bench builder --size 2Ki,16Ki --rms 0,0.5,1,2                        scan the spread of fragment sizes
  sheaf bench stream --transport tcp --baseline --plot stream.svg            measure a link and fit its speed
  sheaf bench mstream --senders 16 --receivers 1                             measure a merger
  sheaf bench pingpong --json                                                compare pairs of processors
  sheaf bench memory                                                         measure the memory bandwidth
  sheaf bench farm --plot farm.svg                                           measure a filter farm
  sheaf bench feed --size 256,2Ki --batch 1,256                              measure programs that feed a run

Ctrl-C ends a scan; the points measured so far are printed.";

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Event builder: N readout units, M builder units and an event manager, with as many triggers as they accept.
    Builder(BuilderArguments),
    /// Stream from one sender to one receiver, as fast as the link takes it.
    Stream(StreamArguments),
    /// Streams from N senders to M receivers: every sender sends to all receivers in turn.
    Mstream(MstreamArguments),
    /// Round-trip time of a message.
    Roundtrip(RoundtripArguments),
    /// Hand-over of messages, one way or both at once, between processors that share a core, a NUMA node, or neither.
    Pingpong(PingpongArguments),
    /// Copies, reads, fills, gathers and hands over memory between processors, without a network.
    Memory(MemoryArguments),
    /// Storage of accepted events on a disk, as in a run, compared with plain writes under the same flush policy.
    Store(StoreArguments),
    /// Filter farm: workers with a filter that takes a given processor time for an event.
    Farm(FarmArguments),
    /// Programs that feed a run: one into a readout unit that only counts, and an event builder whose sources are fed, compared
    /// with one whose sources are emulated.
    Feed(FeedArguments),
    /// A program that feeds a measurement.
    #[command(hide = true)]
    Feeder {
        /// Assignment of the program, as JSON.
        assignment: String,
    },
    /// A node of a measurement in processes.
    #[command(hide = true)]
    Node {
        /// Assignment of the node, as JSON.
        assignment: String,
    },
}

impl BenchCommand {
    pub(super) fn output(&self) -> &Output {
        match self {
            Self::Builder(arguments) => &arguments.scan.output,
            Self::Stream(arguments) => &arguments.link.scan.output,
            Self::Mstream(arguments) => &arguments.link.scan.output,
            Self::Roundtrip(arguments) => &arguments.link.scan.output,
            Self::Pingpong(arguments) => &arguments.link.scan.output,
            Self::Memory(arguments) => &arguments.scan.output,
            Self::Store(arguments) => &arguments.output,
            Self::Farm(arguments) => &arguments.output,
            Self::Feed(arguments) => &arguments.scan.output,
            Self::Node { .. } | Self::Feeder { .. } => &Output { json: true, plot: None },
        }
    }
}

/// Points of a scan, and the time for each.
#[derive(Debug, Args)]
pub(crate) struct ScanArguments {
    /// Payload size of one message or fragment; several separated by commas. Suffixes: Ki and Mi (powers of 1,024), k
    /// and M (powers of 1,000).
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = parse_size)]
    pub(super) size: Vec<u64>,
    /// Duration of each repetition.
    #[arg(long, value_name = "S", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(super) seconds: Option<f64>,
    /// Number of repetitions of each point; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Destinations of the figures.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(super) json: bool,
    /// Plot the curves, with the fit `time = offset + size / speed`.
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArguments {
    /// Transport of the messages.
    #[arg(long, value_name = "memory|tcp|shm|udp|libfabric-shm|libfabric-tcp", value_parser = Transport::from_str)]
    pub(super) transport: Option<Transport>,
    /// Run each node in its own process.
    #[arg(long)]
    pub(super) processes: bool,
    /// Use of payload: senders write and receivers read every byte once, or the payload is not accessed.
    #[arg(long, value_name = "write-read|descriptor", default_value = "write-read", value_parser = parse_payload)]
    pub(super) payload: Use,
    /// Warm-up time before each repetition.
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = parse_warm_up)]
    pub(super) warm_up: f64,
    /// Number of polls of an idle node before it sleeps [default: 32; for times 4000, on one core 0].
    #[arg(long, value_name = "N")]
    pub(super) spins: Option<u32>,
    #[command(flatten)]
    pub(super) scan: ScanArguments,
}

impl LinkArguments {
    /// The transport that was asked for, or that fits.
    pub(super) fn transport(&self) -> anyhow::Result<Transport> {
        match (self.transport, self.processes) {
            (Some(kind), true) if !kind.crosses_processes() => {
                bail!(
                    "--processes needs a transport that goes from process to process, such as --transport tcp"
                )
            }
            (Some(kind), _) => Ok(kind),
            (None, true) => Ok(Transport::Tcp),
            (None, false) => Ok(Transport::default()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RoundtripArguments {
    #[command(flatten)]
    pub(super) link: LinkArguments,
    /// Number of round trips per second, at equal intervals with both sides asleep in between, instead of one after
    /// another: shows the cost of wake-ups at a low rate. Sets the default of --spins to 0.
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct StreamArguments {
    #[command(flatten)]
    pub(super) link: LinkArguments,
    /// Measure the machine's limit in turn with the link: a plain vectored socket, or memory.
    #[arg(long)]
    pub(super) baseline: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MstreamArguments {
    /// Number of senders.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) senders: u16,
    /// Number of receivers.
    #[arg(long, value_name = "M", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) receivers: u16,
    #[command(flatten)]
    pub(super) link: LinkArguments,
    /// Measure the machine's limit in turn with the links: a plain vectored socket, or memory.
    #[arg(long)]
    pub(super) baseline: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PingpongArguments {
    #[command(flatten)]
    pub(super) link: LinkArguments,
}

#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    /// Number of threads; several separated by commas [default: 1 and 2, or as many as there are processors].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Vec<u16>,
    /// Memory that each thread goes through in each direction, and that a pair of threads hands over: more than the
    /// caches hold, or as much as a system has in flight.
    #[arg(long, value_name = "BYTES", default_value = "64Mi", value_parser = parse_size)]
    pub(super) working_set: u64,
    #[command(flatten)]
    pub(super) scan: ScanArguments,
}

#[derive(Debug, Args)]
pub(crate) struct BuilderArguments {
    /// Number of readout units; several separated by commas, each measured with its `--builders`.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) readouts: Vec<u16>,
    /// Number of builder units; one value for all, or as many values as `--readouts`.
    #[arg(long, value_name = "M,...", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) builders: Vec<u16>,
    /// Transport of the messages [default: memory; with --processes: tcp].
    #[arg(long, value_name = "KIND", value_parser = TransportKind::from_str)]
    pub(super) transport: Option<TransportKind>,
    /// Run each role in its own process.
    #[arg(long)]
    pub(super) processes: bool,
    /// Use of payload: sources write and builders read every byte once, or the payload is not accessed.
    #[arg(long, value_name = "write-read|descriptor", default_value = "write-read", value_parser = parse_payload)]
    pub(super) payload: Use,
    /// Standard deviation of the sizes as a fraction of their mean (log-normal); 0: fixed size. Several separated by
    /// commas.
    #[arg(long, value_name = "FRACTION,...", value_delimiter = ',', default_value = "0", value_parser = parse_rms)]
    pub(super) rms: Vec<f64>,
    /// Number of triggers per second, at equal intervals, instead of as many as the system accepts: shows the latency
    /// at partial load. With --baseline, the round-trip time of a message over the same transport at the same rate is
    /// measured as well; its two sides sleep between messages.
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    pub(super) rate: Option<f64>,
    /// Configuration for all other settings, instead of bounds that suit the fragment size. A file that sets what the measurement
    /// sets itself, or does not use, is refused.
    #[arg(long, value_name = "CONFIG.toml")]
    pub(super) config: Option<PathBuf>,
    /// Warm-up time before each repetition.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = parse_warm_up)]
    pub(super) warm_up: f64,
    /// Measure the machine's limit in turn with the event builder: a plain vectored socket, or memory.
    #[arg(long)]
    pub(super) baseline: bool,
    #[command(flatten)]
    pub(super) scan: ScanArguments,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// Directory on the disk that is measured [default: that of temporary files].
    pub(super) directory: Option<PathBuf>,
    /// Durability of the writes, several separated by commas [default: all].
    #[arg(long, value_name = "none|flush|fsync-at-end|fsync-each-batch,...", value_delimiter = ',', value_parser = parse_policy)]
    pub(super) sync: Vec<Policy>,
    /// Number of fragments of an event.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) fragments: u32,
    /// Payload size of a fragment; several separated by commas.
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_value = "2000", value_parser = parse_size)]
    pub(super) size: Vec<u64>,
    /// Payload size of each repetition, in millions of bytes, for each of the two sides.
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) megabytes: u64,
    /// Number of repetitions of each point; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct FarmArguments {
    /// Processor time that the filter takes for an event, in microseconds; several separated by commas.
    #[arg(long, value_name = "US,...", value_delimiter = ',', default_value = "0,100,200,300,400", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub(super) filter_us: Vec<u64>,
    /// Number of workers; 0: the builder unit's own thread. Several separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1,2,3,4", value_parser = clap::value_parser!(u16).range(..=256))]
    pub(super) workers: Vec<u16>,
    /// Run workers as processes instead of threads.
    #[arg(long)]
    pub(super) processes: bool,
    /// Path of events to the workers: in memory, or over the network (loopback) with their payload, as to another host;
    /// then the workers are processes.
    #[arg(long, value_enum, default_value = "memory")]
    pub(super) transport: FarmTransport,
    /// Number of fragments of an event.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) fragments: u32,
    /// Payload size of a fragment.
    #[arg(long, value_name = "BYTES", default_value = "1Ki", value_parser = parse_size)]
    pub(super) size: u64,
    /// Duration of each repetition.
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_seconds)]
    pub(super) seconds: f64,
    /// Number of repetitions of each point; figures are medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct FeedArguments {
    /// Measurements, several separated by commas. `link`: one program feeds a readout unit that accepts and counts fragments,
    /// beside the machine's limit. `builder`: an event builder fed through shared memory, one program for each readout unit,
    /// beside the same builder with emulated sources that write as many bytes. `packets`: a described source that receives packets
    /// over UDP on loopback, beside a bare loop of `recvmmsg`, and what is lost at 90 % of the rate of that loop.
    #[arg(
        long,
        value_enum,
        value_name = "link|builder|packets,...",
        value_delimiter = ',',
        default_value = "link,builder"
    )]
    pub(super) part: Vec<FeedPart>,
    /// Path between program and readout unit for `link`; several separated by commas.
    #[arg(long, value_enum, value_name = "shm|tcp,...", value_delimiter = ',', default_value = "shm,tcp")]
    pub(super) transport: Vec<FeedTransport>,
    /// Number of fragments that a program sends in a call; several separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,32,256", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) batch: Vec<u32>,
    /// Number of readout units of `builder`.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) readouts: u16,
    /// Number of builder units of `builder`.
    #[arg(long, value_name = "M", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) builders: u16,
    /// Run each role of `builder` in its own process, over shared memory.
    #[arg(long)]
    pub(super) processes: bool,
    /// Compute a checksum for each fragment, in programs and emulated sources.
    #[arg(long)]
    pub(super) checksum: bool,
    /// Do not keep fragments in the program until they are accepted.
    #[arg(long)]
    pub(super) no_keep: bool,
    /// Write fragments where they are sent from (`reserve` and `commit`), instead of sending them from memory of the program.
    #[arg(long)]
    pub(super) in_place: bool,
    /// Command line of the program to measure, instead of a built-in one. It gets the payload size and the number of
    /// fragments in a call as arguments, and its readout unit and sources from its environment, as one that a run starts. It
    /// feeds all of its sources until the run ends.
    #[arg(long, value_name = "COMMAND")]
    pub(super) client: Option<String>,
    /// Warm-up time before each repetition.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = parse_warm_up)]
    pub(super) warm_up: f64,
    #[command(flatten)]
    pub(super) scan: ScanArguments,
}

/// Measurement of fed sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FeedPart {
    /// One program and a readout unit that counts.
    Link,
    /// A whole event builder.
    Builder,
    /// A source of described packets.
    Packets,
}

/// Path of fragments to a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FeedTransport {
    /// Through shared memory.
    Shm,
    /// Over TCP on loopback.
    Tcp,
}

/// Path of events to the workers of a farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FarmTransport {
    /// By reference, or through shared memory.
    Memory,
    /// Over TCP on loopback.
    Tcp,
}

impl Output {
    /// Fails early for everything that can be known to fail before minutes of measuring.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if !directory.unwrap_or(Path::new(".")).is_dir() {
            bail!("cannot write {}: its directory does not exist", path.display());
        }
        if path.is_dir() {
            bail!("cannot write {}: it is a directory", path.display());
        }
        Ok(())
    }
}

impl ScanArguments {
    /// The sizes asked for, or these: from `first` to `last`, each `factor` times the one before.
    pub(super) fn sizes(&self, first: u64, last: u64, factor: u64) -> Vec<u64> {
        if !self.size.is_empty() {
            return self.size.clone();
        }
        std::iter::successors(Some(first), |size| size.checked_mul(factor))
            .take_while(|size| *size <= last)
            .collect()
    }
}

/// The largest message: the largest frame of any transport is 1 GiB, and several of them must fit into memory.
const LARGEST: u64 = 256 << 20;

fn parse_size(text: &str) -> Result<u64, ValueError> {
    let suffixes = [("Ki", 1 << 10), ("Mi", 1 << 20), ("k", 1_000), ("M", 1_000_000)];
    let cut =
        |&(suffix, factor): &(&str, u64)| text.trim().strip_suffix(suffix).map(|digits| (digits, factor));
    let (digits, factor) = suffixes.iter().find_map(cut).unwrap_or((text.trim(), 1));
    let size = digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.filter(|size| *size <= LARGEST).ok_or(ValueError::Size)
}

fn parse_seconds(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.01..=3600.0, "a number of seconds")
}

fn parse_warm_up(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.0..=60.0, "a number of seconds")
}

fn parse_rate(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.001..=1e9, "a rate in Hz")
}

fn parse_rms(text: &str) -> Result<f64, ValueError> {
    values::within(text, 0.0..=4.0, "a fraction of the mean")
}

fn parse_policy(text: &str) -> Result<Policy, ValueError> {
    let known = Policy::ALL.into_iter().find(|policy| policy.name() == text);
    known.ok_or_else(|| ValueError::Choice(Policy::ALL.map(Policy::name).join(", ")))
}

fn parse_payload(text: &str) -> Result<Use, ValueError> {
    match text {
        "write-read" => Ok(Use::WriteRead),
        "descriptor" => Ok(Use::Descriptor),
        _ => Err(ValueError::Choice("write-read, descriptor".to_owned())),
    }
}
