//! Sources of time slices, made from the configuration.

use crate::blocks::blocks;
use crate::hits;
use anyhow::{Context, bail};
use sheaf_config as conf;
use sheaf_config::{Config, FrontEnd, SourceKind};
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_source::Source;
use sheaf_source::timed::sources::scan_capture;
use sheaf_source::timed::{Decoder, FeedConfig, HitRecords, Vmm3a};
use sheaf_time::{CoincidenceConfig, Picos, Rule, SliceConfig};
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::{ByteCount, ClockDrift, ExactNanos, SourceId};
use std::net::ToSocketAddrs;
use std::path::PathBuf;

/// Self-triggered front ends of a run.
pub(crate) struct TimedSources {
    cards: Vec<SourceId>,
    /// The clocks of cards that have one of their own.
    clocks: Vec<conf::CardClock>,
    decoders: Decoders,
    /// Cards that have a clock and sent nothing in the capture, with the name of the clock.
    unseen: Vec<(String, SourceId)>,
    from: From,
}

/// Kind of the packets of all cards.
enum Decoders {
    Vmm3a,
    Described(HitRecords),
}

impl Decoders {
    fn new(source: &conf::Source) -> anyhow::Result<Self> {
        Ok(match source.timed.front_end {
            FrontEnd::Vmm3a => Self::Vmm3a,
            FrontEnd::Described => Self::Described(hits::decoder(source)?),
        })
    }

    /// Returns a decoder that has seen no packet.
    fn make(&self) -> Box<dyn Decoder> {
        match self {
            Self::Vmm3a => Box::new(Vmm3a::new()),
            Self::Described(decoder) => Box::new(decoder.clone()),
        }
    }
}

enum From {
    /// A file, and the first and last slice of all cards in it.
    Capture(PathBuf, (u64, u64)),
    /// An address.
    Packets(String),
}

impl TimedSources {
    /// Reads of a capture which cards are in it, and from when to when they see anything. `None` where the sources are
    /// others.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Option<Self>> {
        let timed = &config.source.timed;
        let clocks: Vec<conf::CardClock> = config.clocks.values().cloned().collect();
        let listed: Vec<SourceId> =
            config.node.iter().filter_map(|node| node.sources.as_ref()).flatten().copied().collect();
        let listed = if listed.is_empty() { timed.cards.clone() } else { listed };
        match (config.source.kind, &timed.file, &timed.listen) {
            (SourceKind::Capture, Some(file), _) => {
                check_clocks(config, &timed.cards)?;
                let decoders = Decoders::new(&config.source)?;
                let of_card = |card| feed(timed, &clocks, card);
                let extent = scan_capture(file, &|| decoders.make(), &listed, &of_card)?;
                Ok(Some(Self {
                    unseen: clocks_without_card(config, &extent.cards),
                    cards: extent.cards,
                    clocks,
                    decoders,
                    from: From::Capture(file.clone(), extent.slices),
                }))
            }
            (SourceKind::Packets, _, Some(listen)) => {
                check_clocks(config, &listed)?;
                let decoders = Decoders::new(&config.source)?;
                Ok(Some(Self {
                    cards: listed,
                    clocks,
                    decoders,
                    unseen: Vec::new(),
                    from: From::Packets(listen.clone()),
                }))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn cards(&self) -> &[SourceId] {
        &self.cards
    }

    /// Warns of clocks of cards that sent nothing in the capture.
    pub(crate) fn report_unseen(&self) {
        for (clock, card) in &self.unseen {
            log::warn!(
                "`clocks.{clock}.cards` names card {card}, which has no packet in the capture; check the number of the card"
            );
        }
    }

    /// The sources of one readout unit.
    pub(crate) fn open(
        &self,
        source: &conf::Source,
        cards: &[SourceId],
        memory: &FragmentMemory,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let timed = &source.timed;
        let largest = largest(timed);
        let block_bytes = usize::try_from(source.block.max(largest).0).unwrap_or(usize::MAX);
        let size = PoolSize { block_bytes, blocks: blocks(source, largest) };
        match &self.from {
            From::Capture(file, slices) => {
                let open = |card: &SourceId| -> anyhow::Result<Box<dyn Source>> {
                    let config = feed(timed, &self.clocks, *card);
                    Ok(memory.captured((file, *slices), self.decoders.make(), &config, size)?)
                };
                cards.iter().map(open).collect()
            }
            From::Packets(listen) => {
                let mut addresses =
                    listen.to_socket_addrs().with_context(|| format!("cannot resolve {listen}"))?;
                let address = addresses.next().with_context(|| format!("cannot resolve {listen}"))?;
                let cards: Vec<FeedConfig> =
                    cards.iter().map(|card| feed(timed, &self.clocks, *card)).collect();
                Ok(memory.received(address, &|| self.decoders.make(), &cards, size)?)
            }
        }
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

/// Returns how the packets of a card are read: as `[source.timed]` sets for all, except for the card's own clock
/// settings.
fn feed(timed: &conf::Timed, clocks: &[conf::CardClock], card: SourceId) -> FeedConfig {
    let own = clocks.iter().find(|clock| clock.cards.contains(&card));
    let tolerance = own.and_then(|clock| clock.tolerance).unwrap_or(timed.tolerance);
    FeedConfig {
        card,
        tick: own.and_then(|clock| clock.tick).unwrap_or(timed.tick),
        drift: own.map_or(ClockDrift::ZERO, |clock| clock.drift),
        offset: own.map_or(ExactNanos::ZERO, |clock| clock.offset),
        bits: own.and_then(|clock| clock.bits),
        tolerance: Picos::from_nanos(tolerance.0),
        held_hits: own.and_then(|clock| clock.held_hits).unwrap_or(timed.held_hits) as usize,
        slices: slices(timed),
    }
}
