//! Emulated front ends without event numbers, made from the configuration.

use crate::hits;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, FrontEnd};
use sheaf_source::free_running::frame_writer::largest_numbers;
use sheaf_source::free_running::{
    ClockLimits, Detector, DetectorConfig, FlashConfig, FramePace, FrameSource, FrameSourceConfig,
};
use sheaf_source::timed::{FeedConfig, HitDescription};
use sheaf_time::{Picos, SliceConfig};
use sheaf_wire::{ClockDrift, Nanos, SourceId};
use std::sync::Arc;

/// The emulated detector of a run.
pub(crate) struct FreeRunning {
    detector: Arc<Detector>,
    layout: Arc<HitDescription>,
    frames: FrameSourceConfig,
    /// The clocks of all sources: those of the configuration, and then those that are drawn.
    clocks: Vec<conf::CardClock>,
}

impl FreeRunning {
    /// Makes the detector of a configuration with these sources.
    ///
    /// # Errors
    /// Why it cannot be emulated.
    pub(crate) fn new(config: &Config, mut sources: Vec<SourceId>) -> anyhow::Result<Self> {
        let conf::Source { free_running, timed, .. } = &config.source;
        sources.sort_unstable();
        let layout = match timed.front_end {
            FrontEnd::Hits => Arc::new(HitDescription::of_sheaf()),
            _ => Arc::clone(hits::decoder(&config.source)?.layout()),
        };
        let detector = DetectorConfig {
            seed: free_running.seed,
            channels: if layout.channel.is_some() { free_running.channels } else { 1 },
            max_value: largest_numbers(&layout).value,
            noise_hz: free_running.noise_hz,
            flash: FlashConfig {
                rate_hz: free_running.flash_hz,
                sources: free_running.flash_sources.map_or(sources.len(), |sources| sources as usize),
                hits: free_running.flash_hits,
                jitter: Picos(free_running.flash_jitter_ps),
            },
            frame: Picos::from_nanos(free_running.frame.0),
            disorder: Picos::from_nanos(free_running.disorder.0),
            sources,
        };
        let frames = |duration: Nanos| duration.0.div_ceil(free_running.frame.0.max(1));
        let frames = FrameSourceConfig {
            frames: free_running.duration.map(frames),
            disorder_frames: free_running.disorder_frames,
            pace: match free_running.pacing {
                conf::FramePacing::Full => FramePace::FullSpeed,
                conf::FramePacing::Live => {
                    FramePace::Live { buffer_frames: free_running.buffer_frames.into() }
                }
            },
        };
        let detector = Detector::new(detector).context(CANNOT)?;
        let clocks = clocks(config, &detector.config().sources, layout.counter_bits());
        Ok(Self { detector: Arc::new(detector), layout, frames, clocks })
    }

    /// Returns the clocks of all sources: those of the configuration, and then those that are drawn.
    pub(crate) fn clocks(&self) -> &[conf::CardClock] {
        &self.clocks
    }

    /// Returns the clocks as the run knows them: if pulses tell the drifts of those that are drawn, it does not know these.
    pub(crate) fn known_clocks(&self, config: &Config) -> Vec<conf::CardClock> {
        let mut clocks = self.clocks.clone();
        if config.source.timed.pulse_period.is_some() {
            clocks[config.clocks.len()..].iter_mut().for_each(|drawn| drawn.drift = ClockDrift::ZERO);
        }
        clocks
    }

    /// Returns the first and the last slice in which any source may see something.
    pub(crate) fn slices(&self, slices: &SliceConfig) -> (u64, u64) {
        let Some(frames) = self.frames.frames else { return (0, u64::MAX) };
        let jitter = self.detector.config().flash.jitter;
        (0, slices.number(self.detector.begin(frames) + jitter + slices.before))
    }

    /// Returns a source of frames, which `feed` reads.
    ///
    /// # Errors
    /// Why it cannot be emulated.
    pub(crate) fn source(&self, feed: &FeedConfig) -> anyhow::Result<FrameSource> {
        let source =
            FrameSource::new(Arc::clone(&self.detector), Arc::clone(&self.layout), feed, self.frames);
        source.context(CANNOT)
    }

    /// Returns the emulated detector.
    pub(crate) fn detector(&self) -> &Detector {
        &self.detector
    }

    /// Returns the width of the counters whose clocks state none.
    pub(crate) fn counter_bits(&self) -> u32 {
        self.layout.counter_bits()
    }

    /// Returns the number of frames, if the configuration sets the emulated time.
    pub(crate) fn frames(&self) -> Option<u64> {
        self.frames.frames
    }
}

/// Returns the clocks of the configuration, and draws those of the sources that have none.
fn clocks(config: &Config, sources: &[SourceId], counter_bits: u32) -> Vec<conf::CardClock> {
    let mut clocks: Vec<_> = config.clocks.values().cloned().collect();
    let conf::FreeRunning { seed, max_drift, max_offset, min_counter_bits, .. } = config.source.free_running;
    let limits =
        ClockLimits { drift: max_drift, offset: Picos::from_nanos(max_offset.0), min_bits: min_counter_bits };
    for source in sources {
        if config.clocks.values().any(|clock| clock.cards.contains(source)) {
            continue;
        }
        let drawn = limits.draw(seed, *source, counter_bits);
        clocks.push(conf::CardClock {
            cards: vec![*source],
            drift: drawn.drift,
            offset: drawn.offset,
            bits: Some(drawn.bits),
            ..conf::CardClock::default()
        });
    }
    clocks
}

/// Beginning of the errors of the emulation.
const CANNOT: &str = "[source.free_running] cannot be emulated";
