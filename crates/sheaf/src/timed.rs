//! Sources of time slices, made from the configuration.

use crate::address::resolve;
use crate::blocks::blocks;
use crate::decoders::{self, Decoders};
use crate::free_running::FreeRunning;
use crate::{recorded_slices, recording};
use anyhow::{Context, bail};
use sheaf_config as conf;
use sheaf_config::{BuildBy, Config, FrontEnd, HitTimes, SourceKind};
use sheaf_node::coincidence::{ClusterConditions, Margins};
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_source::free_running::FrameSource;
use sheaf_source::timed::slice_source::scan_streams;
use sheaf_source::timed::sources::scan_capture;
use sheaf_source::timed::{self, FeedConfig};
use sheaf_source::{Source, StreamSet};
use sheaf_telemetry::log_as;
use sheaf_time::clock::PulseConfig;
use sheaf_time::{CoincidenceConfig, Picos, Rule, SliceConfig};
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::{
    ByteCount, ClockDrift, ExactNanos, RunNumber, SourceId, TimeBase, TimeUnit, Timestamp, UtcTime,
};
use std::path::PathBuf;

/// Self-triggered front ends of a run.
pub(crate) struct TimedSources {
    cards: Vec<SourceId>,
    /// The clocks of cards that have one of their own.
    clocks: Vec<conf::CardClock>,
    /// Cards that have a clock and sent nothing in the capture, with the name of the clock.
    unseen: Vec<(String, SourceId)>,
    /// Fragment time that is time 0 of the run, and its unit.
    zero: Zero,
    run: RunNumber,
    from: From,
    /// The emulated detector, if the fragments are its frames.
    emulated: Option<FreeRunning>,
}

/// A time of fragments.
#[derive(Clone, Copy)]
struct Zero {
    time: Timestamp,
    unit: TimeUnit,
}

impl Zero {
    /// Time 0 of packets.
    const OF_PACKETS: Self = Self { time: Timestamp::ZERO, unit: TimeUnit::NANOSECOND };

    /// Time 0 of packets by the clock of triggers.
    fn of_triggers(timed: &conf::Timed, time_base: Option<TimeBase>) -> Self {
        let unit = time_base.map_or(TimeUnit::NANOSECOND, |base| base.unit);
        Self { time: timed.zero.unwrap_or(Timestamp::ZERO), unit }
    }
}

enum From {
    /// A file, and the first and last slice of all cards in it.
    Capture(PathBuf, (u64, u64)),
    /// An address.
    Packets(String),
    /// Fragment streams or emulated frames, and the first and last slice of all sources in them.
    Streams((u64, u64)),
    /// Fragments of programs or a library.
    Fragments,
}

impl TimedSources {
    /// Reads of a capture which cards are in it, and from when to when they see anything; of a recording, the latter. `None` where
    /// events are built by number.
    pub(crate) fn new(
        config: &Config,
        streams: Option<&StreamSet>,
        time_base: Option<TimeBase>,
    ) -> anyhow::Result<Option<Self>> {
        if config.source.build_by != BuildBy::Number && !config.source.kind.is_timed() {
            return Self::of_fragments(config, streams, time_base).map(Some);
        }
        let timed = &config.source.timed;
        let clocks: Vec<conf::CardClock> = config.clocks.values().cloned().collect();
        let listed: Vec<SourceId> =
            config.node.iter().filter_map(|node| node.sources.as_ref()).flatten().copied().collect();
        let listed = if listed.is_empty() { timed.cards.clone() } else { listed };
        match (config.source.kind, &timed.file, &timed.listen) {
            (SourceKind::Capture, Some(file), _) => {
                check_clocks(config, &timed.cards)?;
                let decoders = Decoders::new(&config.source, config.run.number)?;
                let of_card = |card| feed(timed, &clocks, card, Zero::OF_PACKETS);
                let extent = scan_capture(file, &|| decoders.make(), &listed, &of_card)?;
                Ok(Some(Self {
                    unseen: clocks_without_card(config, &extent.cards),
                    cards: extent.cards,
                    clocks,
                    run: config.run.number,
                    zero: Zero::of_triggers(timed, time_base),
                    from: From::Capture(file.clone(), extent.slices),
                    emulated: None,
                }))
            }
            (SourceKind::Packets, _, Some(listen)) => {
                check_clocks(config, &listed)?;
                Ok(Some(Self {
                    cards: listed,
                    clocks,
                    run: config.run.number,
                    zero: Zero::of_triggers(timed, time_base),
                    unseen: Vec::new(),
                    from: From::Packets(listen.clone()),
                    emulated: None,
                }))
            }
            _ => Ok(None),
        }
    }

    /// Time slices of the fragments of other sources.
    fn of_fragments(
        config: &Config,
        streams: Option<&StreamSet>,
        time_base: Option<TimeBase>,
    ) -> anyhow::Result<Self> {
        let timed = &config.source.timed;
        let clocks: Vec<conf::CardClock> = config.clocks.values().cloned().collect();
        let run = config.run.number;
        let Some(streams) = streams else {
            let cards: Vec<SourceId> = config.nodes()?.into_iter().flat_map(|node| node.sources).collect();
            check_clocks(config, &cards)?;
            let unit = time_base.map_or(TimeUnit::NANOSECOND, |base| base.unit);
            let zero = Zero { time: timed.zero.unwrap_or(Timestamp::ZERO), unit };
            let timed =
                Self { cards, clocks, unseen: Vec::new(), zero, run, from: From::Fragments, emulated: None };
            return if config.source.emulates_hits() { timed.of_emulated(config) } else { Ok(timed) };
        };
        if timed.times == HitTimes::Fragment {
            streams.require_times()?;
        }
        if timed.front_end == FrontEnd::Hits {
            recorded_slices::require_without_overlap(streams)?;
        }
        let unit = time_base.map_or(TimeUnit::NANOSECOND, |base| base.unit);
        let earliest = streams.earliest().map(|earliest| whole_second(earliest, unit));
        let zero = Zero { time: timed.zero.or(earliest).unwrap_or(Timestamp::ZERO), unit };
        let cards = recording::sources(streams, config)?;
        check_clocks(config, &cards)?;
        let of_source = |source| feed(timed, &clocks, source, zero);
        let decoders = match decoders::python(&config.source)? {
            Some(process) => Decoders::Asked(process, config.source.decoder.counter_bits),
            None => Decoders::new(&config.source, run)?,
        };
        let slices = scan_streams(streams, &|| decoders.make(), &of_source)?;
        let from = From::Streams(slices);
        Ok(Self { cards, clocks, unseen: Vec::new(), zero, run, from, emulated: None })
    }

    /// Emulates the detector of these sources. The run knows their clocks, but for the drifts that pulses are to tell.
    fn of_emulated(self, config: &Config) -> anyhow::Result<Self> {
        let emulated = FreeRunning::new(config, self.cards.clone())?;
        let timed = &config.source.timed;
        let from = From::Streams(emulated.slices(&slices(timed)));
        let sliced = Self { clocks: emulated.known_clocks(config), from, emulated: Some(emulated), ..self };
        for card in &sliced.cards {
            sliced.emulated_source(config, *card)?;
        }
        Ok(sliced)
    }

    /// Returns the emulated frames of a source.
    ///
    /// # Errors
    /// Why they cannot be emulated.
    pub(crate) fn emulated_source(&self, config: &Config, card: SourceId) -> anyhow::Result<FrameSource> {
        let emulated = self.emulated.as_ref().context("the sources are not emulated")?;
        emulated.source(&feed(&config.source.timed, emulated.clocks(), card, self.zero))
    }

    /// Returns the emulated detector, if there is one.
    pub(crate) fn emulated(&self) -> Option<&FreeRunning> {
        self.emulated.as_ref()
    }

    /// Returns the time slices of the fragments of `sources`. Captures and packets are slices already.
    pub(crate) fn slice(
        &self,
        (config, source): (&Config, &conf::Source),
        sources: Vec<Box<dyn Source>>,
        memory: &FragmentMemory,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let slices = match &self.from {
            From::Capture(..) | From::Packets(_) => return Ok(sources),
            From::Streams(slices) => Some(*slices),
            From::Fragments => None,
        };
        let size = pool_size(source);
        let decoders = Decoders::new(source, self.run)?;
        let process = decoders::python(source)?;
        let slice = |mut inner: Box<dyn Source>| {
            if let Some(process) = &process {
                inner = process.decode(inner);
            }
            let config = self.feed(config, inner.id());
            Ok(memory.sliced((inner, slices), decoders.make()?, &config, size)?)
        };
        sources.into_iter().map(slice).collect()
    }

    /// Returns how the packets or fragments of a source are read and cut. Windows are cut out of slices, so that these need no overlap.
    pub(crate) fn feed(&self, config: &Config, source: SourceId) -> FeedConfig {
        let feed = feed(&config.source.timed, &self.clocks, source, self.zero);
        match config.gives_windows(source) {
            true => FeedConfig {
                slices: SliceConfig { before: Picos(0), after: Picos(0), ..feed.slices },
                ..feed
            },
            false => feed,
        }
    }

    /// Returns unit and epoch of the times of slices, given those of fragments.
    pub(crate) fn time_base(&self, config: &Config, fragments: Option<TimeBase>) -> Option<TimeBase> {
        if self.are_packets() || config.source.is_windowed() {
            return fragments;
        }
        // A counter has no epoch. The fragments of slices have nanoseconds since time 0 of the run.
        let epoch = fragments?.epoch.filter(|_| config.source.timed.times == HitTimes::Fragment)?;
        let zero_ns = i64::try_from(self.zero.unit.nanos(self.zero.time.0)).ok()?;
        let epoch = UtcTime::from_nanos(epoch.nanos().checked_add(zero_ns)?);
        Some(TimeBase { unit: TimeUnit::NANOSECOND, epoch: Some(epoch) })
    }

    /// Returns the time that is time 0 of the run, and its unit.
    pub(crate) fn zero(&self) -> (Timestamp, TimeUnit) {
        (self.zero.time, self.zero.unit)
    }

    /// Returns whether the sources are those of a capture or of packets, and not the fragments of others.
    pub(crate) fn are_packets(&self) -> bool {
        matches!(self.from, From::Capture(..) | From::Packets(_))
    }

    pub(crate) fn cards(&self) -> &[SourceId] {
        &self.cards
    }

    /// Warns of clocks of cards that sent nothing in the capture.
    pub(crate) fn report_unseen(&self) {
        for (clock, card) in &self.unseen {
            log_as!(
                CARD_UNUSED;
                "`clocks.{clock}.cards` names card {card}, which has no packet in the capture; check the number of the card"
            );
        }
    }

    /// The sources of one readout unit, whose cards are in a capture or send packets.
    pub(crate) fn open(
        &self,
        (config, source): (&Config, &conf::Source),
        cards: &[SourceId],
        memory: &FragmentMemory,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let size = pool_size(source);
        let decoders = Decoders::new(source, self.run)?;
        match &self.from {
            From::Capture(file, slices) => {
                let open = |card: &SourceId| -> anyhow::Result<Box<dyn Source>> {
                    let config = self.feed(config, *card);
                    Ok(memory.captured((file, *slices), decoders.make()?, &config, size)?)
                };
                cards.iter().map(open).collect()
            }
            From::Packets(listen) => {
                let address = resolve(listen)?;
                let cards: Vec<FeedConfig> = cards.iter().map(|card| self.feed(config, *card)).collect();
                Ok(memory.received(address, &|| decoders.make(), &cards, size)?)
            }
            From::Streams(_) | From::Fragments => bail!("the sources have no packets"),
        }
    }
}

/// Returns the size of the pool of a source: blocks hold full slices.
pub(crate) fn pool_size(source: &conf::Source) -> PoolSize {
    let largest = largest(&source.timed);
    let block_bytes = usize::try_from(source.block.max(largest).0).unwrap_or(usize::MAX);
    PoolSize { block_bytes, blocks: blocks(source, largest) }
}

/// Returns the last whole second that is not after `time`; `time` itself if a second is not a whole number of units.
fn whole_second(time: Timestamp, unit: TimeUnit) -> Timestamp {
    const SECOND_NS: u64 = 1_000_000_000;
    let (nanos, units) = unit.fraction();
    match SECOND_NS * u64::from(units) {
        scaled if scaled.is_multiple_of(u64::from(nanos)) => {
            let second = scaled / u64::from(nanos);
            Timestamp(time.0 / second * second)
        }
        _ => time,
    }
}

/// Returns the cards that have a clock and are not among `cards`, with the name of the clock.
fn clocks_without_card(config: &Config, cards: &[SourceId]) -> Vec<(String, SourceId)> {
    let clocks = config.clocks.iter();
    let named = clocks.flat_map(|(name, clock)| clock.cards.iter().map(move |card| (name.clone(), *card)));
    named.filter(|(_, card)| !cards.contains(card)).collect()
}

/// Checks that the clocks are of cards in the list, if there is one.
fn check_clocks(config: &Config, listed: &[SourceId]) -> anyhow::Result<()> {
    match clocks_without_card(config, listed).first() {
        Some((clock, card)) if !listed.is_empty() => bail!(
            "`clocks.{clock}.cards` names card {card}, which is not a card of the run; add it to `source.timed.cards` or \
             remove it from the clock"
        ),
        _ => Ok(()),
    }
}

/// The largest fragment: a full slice.
pub(crate) fn largest(timed: &conf::Timed) -> ByteCount {
    ByteCount(u64::from(timed.max_hits) * HIT_BYTES as u64)
}

/// Returns the division of time into slices.
pub(crate) fn slices(timed: &conf::Timed) -> SliceConfig {
    SliceConfig {
        length: Picos::from_nanos(timed.slice.0),
        before: Picos::from_nanos(timed.before.0),
        after: Picos::from_nanos(timed.after.0),
        max_items: timed.max_hits as usize,
        max_empty: u64::from(timed.max_empty),
    }
}

/// Returns the definition of a coincidence. A cluster of a slice has at most the items of the slice.
pub(crate) fn coincidence(filter: &conf::Filter) -> CoincidenceConfig {
    CoincidenceConfig {
        rule: filter.window_ps.map_or(Rule::Gap(Picos(filter.gap_ps)), |window| Rule::Window(Picos(window))),
        min_sources: filter.min_sources as usize,
        max_items: usize::MAX,
    }
}

/// Returns the conditions of a coincidence beyond the number of its sources.
pub(crate) fn conditions(config: &Config) -> ClusterConditions {
    let conf::Filter { min_hits, min_sum, min_groups, min_sources_in_group, .. } = config.filter;
    ClusterConditions {
        min_hits: min_hits as usize,
        min_sum,
        groups: config.groups.values().map(|group| group.sources.iter().copied().collect()).collect(),
        min_groups: min_groups as usize,
        min_sources_in_group: min_sources_in_group as usize,
    }
}

/// Returns the time around a coincidence that belongs to its window.
pub(crate) fn margins(filter: &conf::Filter) -> Margins {
    Margins {
        before: Picos::from_nanos(filter.margin_before.0),
        after: Picos::from_nanos(filter.margin_after.0),
    }
}

/// Returns how the packets of a card are read: as `[source.timed]` sets for all, except for the card's own clock
/// settings. `zero` is the fragment time that is time 0 of the run.
fn feed(timed: &conf::Timed, clocks: &[conf::CardClock], card: SourceId, zero: Zero) -> FeedConfig {
    let own = clocks.iter().find(|clock| clock.cards.contains(&card));
    let tolerance = own.and_then(|clock| clock.tolerance).unwrap_or(timed.tolerance);
    FeedConfig {
        card,
        tick: match timed.front_end {
            FrontEnd::Hits => ExactNanos::from_picos(1),
            _ => own.and_then(|clock| clock.tick).unwrap_or(timed.tick),
        },
        drift: own.map_or(ClockDrift::ZERO, |clock| clock.drift),
        offset: own.map_or(ExactNanos::ZERO, |clock| clock.offset),
        bits: own.and_then(|clock| clock.bits),
        pulses: timed.pulse_period.map(|period| PulseConfig {
            period,
            delay: own.map_or(ExactNanos::ZERO, |clock| clock.pulse_delay),
            tolerance: timed.pulse_tolerance,
        }),
        times: match timed.times {
            HitTimes::Counter => timed::HitTimes::Counter,
            HitTimes::Fragment => timed::HitTimes::Fragment { zero: zero.time, unit: zero.unit },
        },
        tolerance: Picos::from_nanos(tolerance.0),
        held_hits: own.and_then(|clock| clock.held_hits).unwrap_or(timed.held_hits) as usize,
        slices: slices(timed),
    }
}
