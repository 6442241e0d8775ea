//! Where fragments come from.

use super::{GIB, HOUR, KIB, MAX_INTEGER, MAX_SOURCES, MIB, TIB};
use crate::codec::{
    address, bytes, id_list, maybe, microseconds, path, pick, real, signed, switch, whole, zero_is_none,
};
use crate::knob::{choice, section};
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::path::PathBuf;

choice! {
    /// What the sources are.
    SourceKind {
        /// fragments are made up, see `[source.emulated]`
        Emulated = "emulated",
        /// fragments are read from recorded streams, see `[source.replay]`
        Replay = "replay",
        /// time slices are made of the packets in a capture, see `[source.timed]`
        Capture = "capture",
        /// time slices are made of packets as they come, see `[source.timed]`
        Packets = "packets",
    }
}

impl SourceKind {
    /// Whether event ids come with the data, so that triggers follow them.
    #[must_use]
    pub fn has_own_ids(self) -> bool {
        self != Self::Emulated
    }

    /// Whether events are time slices, of front ends that have no event number.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Capture | Self::Packets)
    }
}

section! {
    /// The sources: how many, which may be silent, where their fragments come from.
    Source "source" {
        /// What the sources are.
        kind: SourceKind = SourceKind::Emulated, "kind", pick();
        /// How many sources are emulated, with the ids 0, 1, ... 0: one for each readout unit; or, where `[[node]]`
        /// tables list sources, those. A replay has the sources that its directory has.
        count: Option<u32> = None, "count", zero_is_none(whole(1, MAX_SOURCES));
        /// The sources that an event may lack and still be complete. All others are required. Numbers, or ranges
        /// such as `"10-19"`.
        optional: Vec<SourceId> = Vec::new(), "optional", id_list(u64::from(u32::MAX));
        /// The memory that one source writes its fragments into, at most. It is used again as fragments are released; a
        /// source that has filled it waits.
        memory: ByteCount = ByteCount(8 * MIB), "memory_bytes", bytes(64 * KIB, TIB);
        /// The size of one block of that memory. A block holds many fragments; where a fragment can be larger, the
        /// block is as large as that.
        block: ByteCount = ByteCount(256 * KIB), "block_bytes", bytes(4 * KIB, GIB);
    }
    nested {
        /// Made-up fragments.
        emulated: Emulated;
        /// Recorded fragments.
        replay: Replay;
        /// Self-triggered front ends.
        timed: Timed;
    }
}

choice! {
    /// How the sizes of emulated fragments are distributed.
    SizeModel {
        /// all of `mean_bytes`
        Fixed = "fixed",
        /// log-normal with mean `mean_bytes` and standard deviation `rms_bytes`
        LogNormal = "lognormal",
        /// normal with mean `mean_bytes` and standard deviation `rms_bytes`, without what is below `minimum_bytes`
        Normal = "normal",
        /// `minimum_bytes` with the probability `peak_share`, else more, with an exponential tail so that the mean is
        /// `mean_bytes`
        MinimumPeaked = "minimum-peaked",
    }
}

choice! {
    /// What is in emulated fragments.
    Content {
        /// a pattern made of source, event and offset, by which a builder can check every byte
        Pattern = "pattern",
        /// one byte value; the memory is written, the content cannot be checked
        Fill = "fill",
        /// memory prepared once and shared by all fragments: nothing is written per fragment, for rate tests
        None = "none",
    }
}

section! {
    /// Emulated sources: fragment sizes and content.
    Emulated "source.emulated" {
        /// How the sizes of fragments are distributed.
        size: SizeModel = SizeModel::LogNormal, "size", pick();
        /// The mean size of a fragment's payload.
        mean: ByteCount = ByteCount(2_048), "mean_bytes", bytes(0, GIB), flag "--fragment-size";
        /// The standard deviation of the size, for the models `lognormal` and `normal`.
        rms: ByteCount = ByteCount(2_048), "rms_bytes", bytes(0, GIB), flag "--fragment-rms";
        /// The least size. For the model `minimum-peaked` it is where the peak is.
        minimum: ByteCount = ByteCount::ZERO, "minimum_bytes", bytes(0, GIB);
        /// The share of fragments in the peak of the model `minimum-peaked`.
        peak_share: f64 = 0.5, "peak_share", real(0.0, 0.999);
        /// The greatest size: greater draws become this. 0: chosen from the model (`fixed`: the mean; `minimum-peaked`:
        /// 32 times the mean; else the mean plus 32 times the rms), so that it cuts no visible part of the mean.
        maximum: Option<ByteCount> = None, "maximum_bytes", zero_is_none(bytes(1, GIB));
        /// How many events a second each source makes of its own accord, with the trigger modes `source` and `seen`.
        /// Without it: as fast as the readout unit takes them. With the other modes sources follow the triggers.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9));
        /// What is in the fragments.
        content: Content = Content::Pattern, "content", pick();
        /// Whether fragments carry a CRC-32C of their payload.
        checksum: bool = true, "checksum", switch();
        /// Start of the random numbers: the same seed gives the same fragments.
        seed: u64 = 1, "seed", whole(0, MAX_INTEGER);
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
    /// When recorded fragments are sent.
    Pacing {
        /// as soon as the readout unit takes them
        Full = "full",
        /// at the distances of their recorded times, divided by `speed`
        Recorded = "recorded",
        /// `rate_hz` events a second, whether or not the readout unit keeps up (open loop): what is late catches up
        Fixed = "fixed",
    }
}

section! {
    /// Replayed sources: recorded fragment streams, one file per source.
    Replay "source.replay" {
        /// The directory with the streams. Needed for the kind `replay`. Relative paths start at the working directory
        /// of the process.
        directory: Option<PathBuf> = None, "directory", maybe(path()), flag "--replay";
        /// How often the streams are played. From the second time on events are renumbered so that ids go on. 0: for
        /// ever.
        loop_count: Option<u32> = Some(1), "loop_count", zero_is_none(whole(1, u64::from(u32::MAX)));
        /// When fragments are sent.
        pacing: Pacing = Pacing::Full, "pacing", pick();
        /// The rate of the pacing `fixed`, in events per second.
        rate_hz: Option<f64> = None, "rate_hz", maybe(real(0.001, 1e9));
        /// Only every so many-th event is sent, the others are skipped.
        rate_division: u32 = 1, "rate_division", whole(1, u64::from(u32::MAX));
        /// The least pause between two fragments of a source, with every pacing.
        pause: Nanos = Nanos::ZERO, "pause_us", microseconds(Nanos::ZERO, HOUR);
        /// The pacing `recorded` plays so many times faster than recorded.
        speed: f64 = 1.0, "speed", real(1e-6, 1e6);
    }
}

choice! {
    /// The kinds of self-triggered front ends whose packets are understood.
    FrontEnd {
        /// VMM3a chips behind RD51's scalable readout system
        Vmm3a = "vmm3a",
    }
}

section! {
    /// Self-triggered front ends: packets of hits with times, which are cut into time slices. A slice is an event.
    Timed "source.timed" {
        /// The pcap or pcapng file. Needed for the kind `capture`. Relative paths start at the working directory of the
        /// process.
        file: Option<PathBuf> = None, "file", maybe(path());
        /// Where packets come to, over UDP. Needed for the kind `packets`; one readout unit reads all cards that send
        /// there.
        listen: Option<String> = None, "listen", maybe(address());
        /// What sends the packets.
        front_end: FrontEnd = FrontEnd::Vmm3a, "front_end", pick();
        /// The cards that are read; each is a source. For the kind `capture` none stands for all that are in the file.
        cards: Vec<SourceId> = Vec::new(), "cards", id_list(u64::from(u32::MAX));
        /// How long a tick of the front ends' clock lasts, in picoseconds: 25,000 for 40 MHz.
        tick_ps: u64 = 25_000, "tick_ps", whole(1, 1_000_000_000_000);
        /// How long a time slice is.
        slice: Nanos = Nanos::from_millis(1), "slice_us", microseconds(Nanos(1_000), HOUR);
        /// How much of the time before a slice is in it too; for clusters by a gap, at least that.
        before: Nanos = Nanos::ZERO, "before_us", microseconds(Nanos::ZERO, HOUR);
        /// How much of the time after a slice is in it too; for clusters by a gap, at least the longest of them and the
        /// gap.
        after: Nanos = Nanos::ZERO, "after_us", microseconds(Nanos::ZERO, HOUR);
        /// By how much hits may come too late; later ones are dropped and counted.
        tolerance: Nanos = Nanos::from_millis(10), "tolerance_us", microseconds(Nanos::ZERO, HOUR);
        /// How many hits of a card wait at most to be put in order; with more, the oldest go out early.
        held_hits: u32 = 1 << 20, "held_hits", whole(1, 1 << 28);
        /// How many hits of a card a slice takes; more are left out and counted. Blocks of the source's memory are at
        /// least 16 bytes times this.
        max_hits: u32 = 65_536, "max_hits", whole(1, 1 << 26);
        /// How many empty slices in a row are given. More are passed over and counted.
        max_empty: u32 = 100_000, "max_empty", whole(0, u64::from(u32::MAX));
    }
}

/// The longest offset of a clock: a day, in picoseconds.
const DAY_PS: i64 = 86_400_000_000_000_000;

section! {
    /// The clock of some cards, where it differs from what `[source.timed]` says of all: another frequency, a cable, a reset at
    /// another time. The name is for the reader.
    CardClock "clocks.NAME" {
        /// The cards with this clock. Numbers, or ranges such as `"10-19"`.
        cards: Vec<SourceId> = Vec::new(), "cards", id_list(u64::from(u32::MAX));
        /// As `source.timed.tick_ps`, for these cards.
        tick_ps: Option<u64> = None, "tick_ps", maybe(whole(1, 1_000_000_000_000));
        /// What time it is when the clock's counter is 0 for the first time, in picoseconds. What would then be before the run's
        /// time 0 is not read, and counted.
        offset_ps: i64 = 0, "offset_ps", signed(-DAY_PS, DAY_PS);
        /// How many bits the counter has before it begins anew at 0. Left out, as many as the front end's packets have.
        bits: Option<u32> = None, "bits", maybe(whole(1, 64));
        /// As `source.timed.tolerance_us`, for these cards.
        tolerance: Option<Nanos> = None, "tolerance_us", maybe(microseconds(Nanos::ZERO, HOUR));
        /// As `source.timed.held_hits`, for these cards.
        held_hits: Option<u32> = None, "held_hits", maybe(whole(1, 1 << 28));
    }
}
