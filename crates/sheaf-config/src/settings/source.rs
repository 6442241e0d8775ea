//! Where fragments come from.

use super::described::Described;
use super::free_running::FreeRunning;
use super::hits::{HitDecoder, Hits};
use super::programs::{SourceCommand, SourceLibrary};
use super::{GIB, HOUR, KIB, MAX_INTEGER, MAX_SOURCES, MIB, TIB};
use crate::choice::choice;
use crate::codec::{
    address, bytes, drift, exact_time, maybe, microseconds, name_list, path, period, pick, real, signed,
    source_id, source_list, switch, time_unit, utc_time, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, ClockDrift, EventId, ExactNanos, Nanos, SourceId, TimeUnit, Timestamp, UtcTime};
use std::path::PathBuf;

choice! {
    /// Kind of sources.
    SourceKind {
        /// emulated fragments, see `[source.emulated]`; with `build_by = "time"`, emulated frames of hits, see `[source.free_running]`
        Emulated = "emulated",
        /// recorded fragment streams, see `[source.replay]`
        Replay = "replay",
        /// time slices of the packets in a capture file, see `[source.timed]`
        Capture = "capture",
        /// time slices of live packets, see `[source.timed]`
        Packets = "packets",
        /// programs of your own, see `[source.feed]`
        Feed = "feed",
        /// programs of your own that Sheaf starts and ends, see `[programs.NAME]`
        Command = "command",
        /// a shared library of your own, see `[source.library]`
        Library = "library",
        /// live packets that are described by their fields, see `[source.stream]`
        Stream = "stream",
    }
}

impl SourceKind {
    /// Whether event ids come with the data of this kind, however events are built.
    #[must_use]
    fn has_own_ids(self) -> bool {
        self != Self::Emulated
    }

    /// Whether the configuration numbers the sources.
    #[must_use]
    pub fn is_numbered(self) -> bool {
        matches!(self, Self::Emulated | Self::Stream | Self::Library) || self.is_fed()
    }

    /// Whether programs give the fragments.
    #[must_use]
    pub fn is_fed(self) -> bool {
        matches!(self, Self::Feed | Self::Command)
    }

    /// Whether one readout unit of a host receives all its packets.
    #[must_use]
    pub fn shares_socket(self) -> bool {
        matches!(self, Self::Packets | Self::Stream)
    }

    /// Whether front ends send packets of hits.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Capture | Self::Packets)
    }
}

choice! {
    /// Common property of the fragments of an event.
    BuildBy {
        /// the event number that comes with each fragment
        Number = "number",
        /// the time: fragments hold hits, which are cut into time slices, see `[source.timed]`
        Time = "time",
        /// a window of time around the time of a trigger: fragments hold hits, which are kept until they are requested, see
        /// `[windows]`
        Window = "window",
    }
}

section! {
    /// The sources: their number, which of them may be silent, and where their fragments come from.
    Source "source" {
        /// Kind of sources.
        kind: SourceKind = SourceKind::Emulated, "kind", pick();
        /// Common property of the fragments of an event, for the kinds `emulated`, `replay`, `feed`, `command` and `library`. Captures and
        /// packets of hits are always built by time, or by window.
        build_by: BuildBy = BuildBy::Number, "build_by", pick();
        /// Number of sources that are emulated, fed by programs or described, with the ids 0, 1, ... 0: one per readout unit,
        /// or those that the `[[node]]` tables list. A replay has the sources of its directory.
        count: Option<u32> = None, "count", zero_is_none(whole(1, MAX_SOURCES));
        /// Ids of the sources that are emulated, fed by programs or described, in place of `count`, if they are not 0, 1, ...: a list, or a text
        /// such as `"1-454, 70000-70010, !17"`. They are shared out among the readout units in this order.
        ids: Vec<SourceId> = Vec::new(), "ids", source_list();
        /// Source map: a CSV file with the names of sources in the columns `source` and `name`, and groups of sources, separated by `;`, in columns
        /// `group`. Other columns are passed over. A table `[source.names]` names sources as well: `7 = "left"`. Names may stand for sources
        /// in this file, and are shown with ids. Relative paths start at the working directory of the process.
        map: Option<PathBuf> = None, "map", maybe(path());
        /// Optional sources: an event without them is complete. All other sources are required.
        optional: Vec<SourceId> = Vec::new(), "optional", source_list();
        /// Unit of the times that programs give with fragments, of `source.stream.time`, and of the times of events: those of their
        /// fragments, or those that a trigger supervisor gives. A trigger without a time has that of the system. Files state it. Default: `1 ns`; of a
        /// replay, the unit of its streams.
        time_unit: Option<TimeUnit> = None, "time_unit", maybe(time_unit());
        /// Time 0 of these times. Files state it. Default: unknown; of a replay, the one of its streams.
        epoch: Option<UtcTime> = None, "epoch", maybe(utc_time());
        /// Maximum memory for the fragments of one source. It is reused as fragments are released; a source that has
        /// filled it waits.
        memory: ByteCount = ByteCount(8 * MIB), "memory_bytes", bytes(64 * KIB, TIB);
        /// Size of one block of `memory_bytes`. A block holds many fragments; if a fragment can be larger, the block
        /// is as large as the largest fragment.
        block: ByteCount = ByteCount(256 * KIB), "block_bytes", bytes(4 * KIB, GIB);
    }
    nested {
        /// Emulated fragments.
        emulated: Emulated;
        /// Emulated front ends without event numbers.
        free_running: FreeRunning;
        /// Recorded fragments.
        replay: Replay;
        /// Self-triggered front ends.
        timed: Timed;
        /// Programs of your own.
        feed: Feed;
        /// Programs of your own that Sheaf starts.
        command: SourceCommand;
        /// A shared library.
        library: SourceLibrary;
        /// Described packets.
        stream: Described;
        /// Described packets of hits.
        hits: Hits;
        /// Decoder of your own.
        decoder: HitDecoder;
    }
}

impl Source {
    /// Whether hits are cut into time slices. These are events, unless triggers ask for windows of them.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.kind.is_timed() || self.build_by != BuildBy::Number
    }

    /// Whether events are windows of hits around the times of triggers.
    #[must_use]
    pub fn is_windowed(&self) -> bool {
        self.build_by == BuildBy::Window
    }

    /// Whether fragments with event numbers are emulated.
    #[must_use]
    pub fn emulates_events(&self) -> bool {
        self.kind == SourceKind::Emulated && !self.is_timed()
    }

    /// Whether front ends that send hits are emulated.
    #[must_use]
    pub fn emulates_hits(&self) -> bool {
        self.kind == SourceKind::Emulated && self.is_timed()
    }

    /// Whether event ids come with the data, so that triggers follow them.
    #[must_use]
    pub fn has_own_ids(&self) -> bool {
        !self.is_windowed() && (self.kind.has_own_ids() || self.emulates_hits())
    }

    /// Whether processes give the fragments: programs, or one that polls a library.
    #[must_use]
    pub fn is_fed(&self) -> bool {
        self.kind.is_fed() || (self.kind == SourceKind::Library && self.library.isolated)
    }
}

choice! {
    /// Distribution of the sizes of emulated fragments.
    SizeModel {
        /// all fragments have `mean_bytes`
        Fixed = "fixed",
        /// log-normal with mean `mean_bytes` and standard deviation `rms_bytes`
        LogNormal = "lognormal",
        /// normal with mean `mean_bytes` and standard deviation `rms_bytes`, truncated below `minimum_bytes`
        Normal = "normal",
        /// `minimum_bytes` with the probability `peak_share`, else more, with an exponential tail so that the mean is
        /// `mean_bytes`
        MinimumPeaked = "minimum-peaked",
    }
}

choice! {
    /// Content of emulated fragments.
    Content {
        /// a pattern of source, event and offset, from which a builder unit can check every byte
        Pattern = "pattern",
        /// the event number in the first 8 bytes, the least significant first, then the pattern: for `[check_fields.NAME]`
        Number = "number",
        /// one byte value: memory is written, content cannot be checked
        Fill = "fill",
        /// memory that is prepared once and shared by all fragments: nothing is written per fragment, for rate tests
        None = "none",
    }
}

section! {
    /// Emulated sources: fragment sizes and content.
    Emulated "source.emulated" {
        /// Distribution of fragment sizes.
        size: SizeModel = SizeModel::LogNormal, "size", pick();
        /// Mean payload of a fragment.
        mean: ByteCount = ByteCount(2_048), "mean_bytes", bytes(0, GIB), flag "--fragment-size";
        /// Standard deviation of the payload, for the models `lognormal` and `normal`.
        rms: ByteCount = ByteCount(2_048), "rms_bytes", bytes(0, GIB), flag "--fragment-rms";
        /// Minimum payload. The position of the peak for the model `minimum-peaked`.
        minimum: ByteCount = ByteCount::ZERO, "minimum_bytes", bytes(0, GIB);
        /// Share of fragments in the peak of the model `minimum-peaked`.
        peak_share: f64 = 0.5, "peak_share", real(0.0, 0.999);
        /// Maximum payload; larger draws are reduced to it. 0: chosen by the model (`fixed`: the mean;
        /// `minimum-peaked`: 32 times the mean; else the mean plus 32 times the standard deviation), so that the mean
        /// is not visibly affected.
        maximum: Option<ByteCount> = None, "maximum_bytes", zero_is_none(bytes(1, GIB));
        /// Rate of each source, in events per second, with the trigger modes `source` and `seen`. Default: as fast as
        /// the readout unit takes them. In other modes sources follow the triggers.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9));
        /// Content of the fragments.
        content: Content = Content::Pattern, "content", pick();
        /// Whether fragments carry a CRC-32C of their payload.
        checksum: bool = true, "checksum", switch();
        /// Seed: the same seed gives the same fragments.
        seed: u64 = 1, "seed", whole(0, MAX_INTEGER);
        /// Source that misses triggers, to see what `[check]` does: it numbers all later events too low. Default: none.
        faulty_source: Option<SourceId> = None, "faulty_source", maybe(source_id());
        /// First event that `faulty_source` misses.
        faulty_event: EventId = EventId(1_000), "faulty_event", whole(0, MAX_INTEGER);
        /// Number of triggers that `faulty_source` misses. A negative number: it counts the trigger of `faulty_event` so many
        /// times more.
        faulty_triggers: i64 = 1, "faulty_triggers", signed(-64, 64);
    }
}

impl Emulated {
    /// The greatest size that a fragment can have: `maximum_bytes`, or what the model makes of 0 there.
    #[must_use]
    pub fn effective_maximum(&self) -> ByteCount {
        let chosen = match self.size {
            SizeModel::Fixed => self.mean.0,
            SizeModel::MinimumPeaked => self.mean.0.saturating_mul(32),
            SizeModel::LogNormal | SizeModel::Normal => {
                self.mean.0.saturating_add(self.rms.0.saturating_mul(32))
            }
        };
        self.maximum.unwrap_or(ByteCount(chosen.min(GIB)))
    }
}

choice! {
    /// Pacing of replayed fragments.
    Pacing {
        /// as fast as the readout unit takes them
        Full = "full",
        /// at the intervals of their recorded times, divided by `speed`
        Recorded = "recorded",
        /// at `rate_hz`, whether or not the readout unit keeps up (open loop): delayed fragments catch up
        Fixed = "fixed",
    }
}

section! {
    /// Replayed sources: recorded fragment streams, one file per source.
    Replay "source.replay" {
        /// Directory with the streams, required for the kind `replay`. Relative paths start at the working directory
        /// of the process.
        directory: Option<PathBuf> = None, "directory", maybe(path()), flag "--replay";
        /// Sources that the directory must have. A run warns of each that has no stream, and every event lacks it. A stream of a
        /// source that is not in the list is an error. Default: the sources that have
        /// streams, so that a stream that was lost is not noticed.
        expected: Vec<SourceId> = Vec::new(), "expected", source_list();
        /// Number of passes over the streams. From the second pass on, events are renumbered so that ids continue. 0:
        /// no limit.
        loop_count: Option<u32> = Some(1), "loop_count", zero_is_none(whole(1, u64::from(u32::MAX)));
        /// Pacing of the fragments.
        pacing: Pacing = Pacing::Full, "pacing", pick();
        /// Rate of the pacing `fixed`, in events per second.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9));
        /// Sends only one event in this many and skips the others.
        rate_division: u32 = 1, "rate_division", whole(1, u64::from(u32::MAX));
        /// Minimum pause between two fragments of a source, with every pacing.
        pause: Nanos = Nanos::ZERO, "pause_us", microseconds(Nanos::ZERO, HOUR);
        /// Speed of the pacing `recorded`, as a multiple of real time.
        speed: f64 = 1.0, "speed", real(1e-6, 1e6);
    }
}

section! {
    /// Sources that programs of your own feed. Each readout unit accepts them at a socket of its host.
    Feed "source.feed" {
        /// Directory of the sockets, one for each readout unit: `ru0.feed` and so on. They have the same paths in every run, so
        /// that a program can wait for the next one. Relative paths start at the working directory of the process. Default: `run.output`.
        directory: Option<PathBuf> = None, "directory", maybe(path());
        /// TCP address at which programs of other hosts connect, as `host:port`: readout unit 0 listens at this port, readout
        /// unit 1 at the next, and so on. Anyone who can reach it can feed sources of the run, unless `transport.key_file` or
        /// `transport.tls` is set. Default: none.
        listen: Option<String> = None, "listen", maybe(address());
        /// Names accepted in the certificates of programs that connect at `listen`, if `transport.tls` is set. One of them must
        /// be among the subject alternative names of the certificate. The certificate of a node is not accepted.
        guest_names: Vec<String> = vec!["source".to_owned()], "guest_names", name_list();
        /// Whether the run starts only when a program feeds each required source. There is no time limit: people may start
        /// these programs by hand.
        wait: bool = true, "wait", switch();
        /// Maximum number of fragments of a source that a program may send before the readout unit has accepted them. Their
        /// payload is limited to half of `source.memory_bytes`.
        window_fragments: u32 = 65_536, "window_fragments", whole(1, 1 << 24);
        /// Maximum number of programs that are connected to a readout unit.
        max_clients: u32 = 1_024, "max_clients", whole(1, 65_536);
    }
}

choice! {
    /// Kind of self-triggered front end.
    FrontEnd {
        /// VMM3a chips behind RD51's scalable readout system
        Vmm3a = "vmm3a",
        /// front ends of your own, described in `[source.hits]`
        Described = "described",
        /// a shared library of your own, see `[source.decoder]`
        Library = "library",
        /// a function in Python, see `[source.decoder]`; only with `source.build_by = "time"`
        Python = "python",
        /// hits of Sheaf, as they are in time slices: programs that decode their data themselves, or recorded slices
        Hits = "hits",
    }
}

choice! {
    /// Origin of the times of hits.
    HitTimes {
        /// the clock of the front end, which counts on from packet to packet
        Counter = "counter",
        /// the time of the fragment that holds the hits
        Fragment = "fragment",
    }
}

section! {
    /// Self-triggered front ends: packets of hits with times, which are cut into time slices. A slice is an event. Also the fragments of
    /// other sources with `source.build_by = "time"`.
    Timed "source.timed" {
        /// Capture file (pcap or pcapng), required for the kind `capture`. Relative paths start at the working
        /// directory of the process.
        file: Option<PathBuf> = None, "file", maybe(path());
        /// UDP address that receives packets, required for the kind `packets`. One readout unit reads all cards that
        /// send to it.
        listen: Option<String> = None, "listen", maybe(address());
        /// Kind of front end that sends the packets. Required with `source.build_by = "time"`.
        front_end: FrontEnd = FrontEnd::Vmm3a, "front_end", pick();
        /// Origin of the times of hits, with `source.build_by = "time"`.
        times: HitTimes = HitTimes::Counter, "times", pick();
        /// Fragment time that is time 0 of the run, in `source.time_unit`, with `times = "fragment"`. Default: for a replay the second of its
        /// earliest fragment, otherwise 0. All hits must be within 213 days after it.
        zero: Option<Timestamp> = None, "zero", maybe(whole(0, MAX_INTEGER));
        /// Cards to read; each is a source. With the kind `capture`, an empty list means all cards in the file.
        cards: Vec<SourceId> = Vec::new(), "cards", source_list();
        /// Period of the clock of the front ends, exactly, or its rate.
        tick: ExactNanos = ExactNanos::from_nanos(25), "tick", period();
        /// Time between pulses of a reference, which come to the clocks of all front ends at its multiples. Clocks follow the pulses: drifts need
        /// not be known, and offsets only within half of it. Hits before the first pulse have no time. Default: no pulses.
        pulse_period: Option<ExactNanos> = None, "pulse_period", maybe(period());
        /// Largest deviation of the rate of a clock from `tick` and `drift`, or from that between the last two pulses. Pulses that come too early
        /// or too late for it are not followed, and counted.
        pulse_tolerance: ClockDrift = ClockDrift::from_ppm(100), "pulse_tolerance", drift();
        /// Length of a time slice.
        slice: Nanos = Nanos::from_millis(1), "slice_us", microseconds(Nanos(1_000), HOUR);
        /// Time before a slice that it also contains; at least the gap, for clusters by gap.
        before: Nanos = Nanos::ZERO, "before_us", microseconds(Nanos::ZERO, HOUR);
        /// Time after a slice that it also contains; at least the longest cluster and the gap, for clusters by gap.
        after: Nanos = Nanos::ZERO, "after_us", microseconds(Nanos::ZERO, HOUR);
        /// Maximum delay of hits; later hits are dropped and counted.
        tolerance: Nanos = Nanos::from_millis(10), "tolerance_us", microseconds(Nanos::ZERO, HOUR);
        /// Maximum number of hits of a card that wait to be sorted; beyond it the oldest are released early.
        held_hits: u32 = 1 << 20, "held_hits", whole(1, 1 << 28);
        /// Maximum number of hits of a card in a slice; further hits are left out and counted. Blocks of the source's
        /// memory are at least 16 bytes times this.
        max_hits: u32 = 65_536, "max_hits", whole(1, 1 << 26);
        /// Fraction of the hits that may be lost: hits that are late, off the timeline, or in slices that are full. If more are lost,
        /// the exit status of the run is 3.
        max_lost_fraction: f64 = 0.0, "max_lost_fraction", real(0.0, 1.0);
        /// Maximum number of consecutive empty slices; further ones are skipped and counted.
        max_empty: u32 = 100_000, "max_empty", whole(0, u64::from(u32::MAX));
    }
}

section! {
    /// Clock of some cards, if it differs from `[source.timed]`: another frequency, cable length or reset time. The
    /// name of the table is only for readers.
    CardClock "clocks.NAME" {
        /// Cards with this clock.
        cards: Vec<SourceId> = Vec::new(), "cards", source_list();
        /// As `source.timed.tick`, for these cards.
        tick: Option<ExactNanos> = None, "tick", maybe(period());
        /// Deviation of the rate of the clock from `tick`, against the reference of the run: a clock with `1 ppm` is fast, and counts
        /// 1,000,001 ticks in the time of 1,000,000.
        drift: ClockDrift = ClockDrift::ZERO, "drift", drift();
        /// Time at which the counter of the clock is 0 for the first time. Hits before time 0 of the run are skipped and counted.
        offset: ExactNanos = ExactNanos::ZERO, "offset", exact_time(200);
        /// Time that the pulses of `source.timed.pulse_period` take to the clock.
        pulse_delay: ExactNanos = ExactNanos::ZERO, "pulse_delay", exact_time(1);
        /// Width of the counter in bits, after which it starts again at 0. Default: the width in the packets of the
        /// front end.
        bits: Option<u32> = None, "bits", maybe(whole(1, 64));
        /// As `source.timed.tolerance_us`, for these cards.
        tolerance: Option<Nanos> = None, "tolerance_us", maybe(microseconds(Nanos::ZERO, HOUR));
        /// As `source.timed.held_hits`, for these cards.
        held_hits: Option<u32> = None, "held_hits", maybe(whole(1, 1 << 28));
    }
}

section! {
    /// Sources that belong together, for the filter `coincidence`: a line of modules, a plane, or a module and its neighbours. Groups may
    /// overlap. The name of the table is only for readers.
    SourceGroup "groups.NAME" {
        /// Sources of the group.
        sources: Vec<SourceId> = Vec::new(), "sources", source_list();
    }
}
