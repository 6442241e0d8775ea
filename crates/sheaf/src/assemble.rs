//! From the plan of a run to its sources, filters and outputs.

use crate::blocks::{PAGE_BYTES, blocks};
use crate::described;
use crate::filters;
use crate::plan::Plan;
use crate::timed;
use crate::windows;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, NodeConfig, SourceKind};
use sheaf_node::builder::Judgement;
use sheaf_node::content::ContentCheck;
use sheaf_node::sink::{EventSink, NullSink};
use sheaf_node::sources::FragmentMemory;
use sheaf_protocol::Identity;
use sheaf_shm::Arena;
use sheaf_source::content::Content;
use sheaf_source::emulator::{EmulatedTime, TriggerFault};
use sheaf_source::pacing::{Pace, Schedule};
use sheaf_source::replay::ReplayConfig;
use sheaf_source::script::Defects;
use sheaf_source::size_model::{SizeConfig, SizeShape};
use sheaf_source::{AbsentSource, EmulatorConfig, Source, StreamSet};
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::num::NonZeroU64;
use std::path::Path;
use std::task::Waker;

impl Plan {
    pub(crate) fn judgement(&self, me: &Identity, directory: Option<&Path>) -> anyhow::Result<Judgement> {
        let Config { builder, source, trigger, .. } = &self.config;
        // The payloads of triggers are no pattern; their checksum tells the same.
        let pattern = source.emulates_events()
            && source.emulated.content == conf::Content::Pattern
            && trigger.network.payload_source.is_none();
        let check = match (builder.check_content, pattern) {
            (false, _) if builder.read_payload => ContentCheck::Read,
            (false, _) => ContentCheck::Off,
            (true, false) => ContentCheck::Checksum,
            (true, true) => ContentCheck::Pattern,
        };
        let filter = filters::of_builder(&self.loading(), me.run)?;
        // Where output nodes store, the builder unit has no files.
        let sink = self.sink(me, directory.filter(|_| self.config.output.nodes == 0))?;
        Ok(Judgement { check, numbers: self.number_check(), filter, sink })
    }

    /// Makes the sink to which a node's session writes events.
    pub(crate) fn sink(&self, me: &Identity, directory: Option<&Path>) -> anyhow::Result<Box<dyn EventSink>> {
        Ok(match directory {
            Some(directory) => crate::output::files(self, me, directory)?,
            None => Box::new(NullSink::default()),
        })
    }

    /// The sources of a node; with an arena, emulated ones write there.
    pub(crate) fn sources(
        &self,
        me: &Identity,
        node: &NodeConfig,
        arena: Option<&Arena>,
        waker: Waker,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let memory = FragmentMemory::of(arena);
        let Some(payloads) = self.payload_source(me, node, &memory, waker.clone())? else {
            return self.sources_of_kind(me, node, &memory, waker);
        };
        let id = payloads.id();
        let mut others = node.clone();
        others.sources.retain(|source| *source != id);
        let mut sources = match others.sources.is_empty() {
            true => Vec::new(),
            false => self.sources_of_kind(me, &others, &memory, waker)?,
        };
        let at = node.sources.iter().position(|source| *source == id).unwrap_or(0);
        sources.insert(at, payloads);
        Ok(sources)
    }

    /// The sources of a node that are of the configured kind.
    fn sources_of_kind(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        // Hits are copied when windows are cut.
        let all_windows = self.config.source.is_windowed();
        let memory_of_slices = if all_windows { &FragmentMemory::Heap } else { memory };
        let slices = self.slices_of_kind(me, node, memory_of_slices, waker)?;
        windows::cut(&self.config, &node.name, slices, memory)
    }

    /// The sources of a node, or time slices of them where events are built by time.
    fn slices_of_kind(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        match &self.timed {
            Some(timed) if timed.are_packets() => {
                timed.open((&self.config, &self.loading().source), &node.sources, memory)
            }
            Some(timed) => {
                // Fragments are copied when they are cut: other processes need not read them.
                let sources = self.fragments_of_kind(me, node, &FragmentMemory::Heap, waker)?;
                timed.slice((&self.config, &self.loading().source), sources, memory)
            }
            None => self.fragments_of_kind(me, node, memory, waker),
        }
    }

    /// The sources of a node whose fragments have event ids, or are built by time like others.
    fn fragments_of_kind(
        &self,
        me: &Identity,
        node: &NodeConfig,
        memory: &FragmentMemory,
        waker: Waker,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        if let Some(fed) = self.fed_sources(me, node, memory, waker)? {
            return Ok(fed);
        }
        if let Some(polled) = self.library_sources(me, node, memory)? {
            return Ok(polled);
        }
        if self.config.source.kind == SourceKind::Stream {
            return described::open(&self.config.source, self.max_fed_fragment(), &node.sources, memory);
        }
        let source = |id: &SourceId| match (&self.streams, &self.timed) {
            (Some(streams), _) => self.replayed(*id, streams),
            (None, Some(timed)) => Ok(Box::new(timed.emulated_source(&self.config, *id)?) as Box<dyn Source>),
            (None, None) => self.emulated(*id, memory),
        };
        node.sources.iter().map(source).collect()
    }

    fn replayed(&self, id: SourceId, streams: &StreamSet) -> anyhow::Result<Box<dyn Source>> {
        if !streams.has(id) {
            return Ok(Box::new(AbsentSource(id)));
        }
        let replay = &self.config.source.replay;
        let schedule = match (replay.pacing, replay.rate_hz) {
            (conf::Pacing::Fixed, Some(rate)) => Schedule::FixedRate { events_per_second: rate },
            (conf::Pacing::Recorded, _) => Schedule::Recorded { speed: replay.speed },
            _ => Schedule::FullSpeed,
        };
        let config = ReplayConfig {
            passes: replay.loop_count.and_then(|count| NonZeroU64::new(u64::from(count))),
            division: NonZeroU64::new(u64::from(replay.rate_division)).unwrap_or(NonZeroU64::MIN),
            pace: Pace { schedule, pause: replay.pause },
            ..ReplayConfig::default()
        };
        Ok(Box::new(streams.source(id, &config).with_context(|| format!("cannot replay source {id}"))?))
    }

    /// Bytes of a node's arena that its sources take.
    pub(crate) fn source_bytes(&self, node: &NodeConfig) -> ByteCount {
        let source = &self.config.source;
        if self.streams.is_some() && self.timed.is_none() {
            return ByteCount::ZERO;
        }
        let maximum = match &self.timed {
            Some(_) => timed::largest(&source.timed),
            None if source.is_fed() || matches!(source.kind, SourceKind::Stream | SourceKind::Library) => {
                self.max_fed_fragment()
            }
            None => source.emulated.effective_maximum(),
        };
        let of_source = |maximum: ByteCount| {
            // A block takes whole pages.
            let block = source.block.max(maximum).0.saturating_add(PAGE_BYTES);
            block.saturating_mul(blocks(source, maximum) as u64)
        };
        let payloads = self.lone_payload_source(node).map(|_| self.config.trigger.network.payload_maximum);
        // Slices that windows are cut out of take as much, if they are in the same memory.
        let of_slices = match source.is_windowed() {
            true => 0,
            false => node.sources.iter().filter(|source| self.config.gives_windows(**source)).count(),
        };
        let others = (node.sources.len() - payloads.iter().len() + of_slices) as u64;
        let of_payloads = payloads.map_or(0, of_source);
        ByteCount(of_source(maximum).saturating_mul(others).saturating_add(of_payloads))
    }

    fn emulated(&self, id: SourceId, memory: &FragmentMemory) -> anyhow::Result<Box<dyn Source>> {
        let Config { source, trigger, run, .. } = &self.config;
        let emulated = &source.emulated;
        let maximum = emulated.effective_maximum();
        // If the data trigger events, the rate of the sources is the trigger rate.
        let schedule = match emulated.rate_hz.filter(|_| self.follows_data()) {
            Some(rate) => Schedule::FixedRate { events_per_second: rate },
            None => Schedule::FullSpeed,
        };
        let config = EmulatorConfig {
            seed: emulated.seed,
            first_event: trigger.first_event,
            events: run.events.filter(|_| !self.goes_on),
            size: SizeConfig { shape: shape(emulated), min: emulated.minimum, max: maximum },
            content: match emulated.content {
                conf::Content::Pattern => Content::Pattern,
                conf::Content::Number => Content::Number,
                conf::Content::Fill => Content::Fill(FILL),
                conf::Content::None => Content::None,
            },
            checksum: emulated.checksum,
            time: EmulatedTime::Now,
            pace: Pace { schedule, pause: Nanos::ZERO },
            defects: Defects::default(),
            fault: emulated
                .faulty_source
                .filter(|faulty| *faulty == id)
                .map(|_| TriggerFault { event: emulated.faulty_event, missed: emulated.faulty_triggers }),
            block_size: source.block.max(maximum),
            max_blocks: blocks(source, maximum),
        };
        memory.emulated(id, &config).with_context(|| format!("cannot emulate source {id}"))
    }
}

/// Byte that fills fragments whose content is not checked: a bit pattern that is easy to see in a hex dump.
const FILL: u8 = 0xa5;

#[expect(clippy::cast_precision_loss, reason = "a mean size is exact far beyond 2^52 bytes' worth of use")]
fn shape(emulated: &conf::Emulated) -> SizeShape {
    let (mean_bytes, rms_bytes) = (emulated.mean.0 as f64, emulated.rms.0 as f64);
    match emulated.size {
        conf::SizeModel::Fixed => SizeShape::Fixed { size: emulated.mean },
        conf::SizeModel::LogNormal => SizeShape::LogNormal { mean_bytes, rms_bytes },
        conf::SizeModel::Normal => SizeShape::Normal { mean_bytes, rms_bytes },
        conf::SizeModel::MinimumPeaked => {
            SizeShape::MinimumPeaked { mean_bytes, at_minimum: emulated.peak_share }
        }
    }
}
