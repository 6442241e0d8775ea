//! The truth: what each source sees, and when.
//!
//! A frame of a source has the hits of noise in its time, and the hits of the flashes in its time, which come a little later. So hits of a
//! frame may be after its end by the jitter.

use super::FreeRunningError;
use crate::random::{DrawSequence, Draws, Purpose};
use sheaf_time::{Moment, Picos};
use sheaf_wire::{EventId, Hit, SourceId};

/// The longest frame.
pub const LONGEST_FRAME: Picos = Picos(1_000_000_000_000);

/// The shortest frame.
const SHORTEST_FRAME: Picos = Picos(1_000_000);

/// The mean number of hits that a frame may have.
pub const MOST_HITS: u64 = 1 << 20;

/// Bits of the number of a flash that tell its place in its frame: twice the mean number of hits that a frame may have. The others are enough
/// for 100 days of the shortest frames.
const PLACE_BITS: u32 = 21;

/// Picoseconds of a second.
const SECOND_PS: f64 = 1e12;

/// Sources, noise and flashes of a detector.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorConfig {
    /// Seed of all random numbers.
    pub seed: u64,
    /// All sources.
    pub sources: Vec<SourceId>,
    /// Channels of a source, from 0 on.
    pub channels: u32,
    /// Largest measured value. The values of noise are in the lowest quarter, those of flashes above it.
    pub max_value: u16,
    /// Mean rate of the noise of each source, in hits per second. The noise is a Poisson process.
    pub noise_hz: f64,
    /// Flashes.
    pub flash: FlashConfig,
    /// Length of a frame.
    pub frame: Picos,
    /// Maximum time by which a hit comes after a later one in its frame.
    pub disorder: Picos,
}

/// Flashes that several sources see.
#[derive(Clone, Debug, PartialEq)]
pub struct FlashConfig {
    /// Mean rate, in flashes per second. They are a Poisson process.
    pub rate_hz: f64,
    /// Number of sources that see a flash: adjacent ones in the list, from a random one on; the first one follows the last one.
    pub sources: usize,
    /// Hits of a flash in each source that sees it.
    pub hits: u32,
    /// Maximum time from a flash to a hit. All times up to it are equally probable.
    pub jitter: Picos,
}

/// A flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// Its number: ascending with time, with gaps.
    pub number: u64,
    /// When it happens.
    pub time: Moment,
    /// Place of the first source that sees it.
    first: usize,
}

/// A hit of a frame, and its place in the order of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHit {
    /// Frames are in the order of this number.
    pub order: u64,
    /// Time after the begin of the frame.
    pub after_begin: Picos,
    /// Channel.
    pub channel: u32,
    /// Measured value.
    pub value: u16,
    /// 1 for hits of a flash, 0 for noise.
    pub extra: u16,
}

/// A detector whose truth is known.
#[derive(Clone, Debug)]
pub struct Detector {
    config: DetectorConfig,
    flashes: Draws,
    /// Mean times between flashes, and between the hits of the noise of a source.
    flash_gap_ps: f64,
    noise_gap_ps: f64,
    /// Number of values of the noise.
    noise_values: u64,
}

impl Detector {
    /// Checks a configuration.
    ///
    /// # Errors
    /// A [`FreeRunningError`].
    pub fn new(config: DetectorConfig) -> Result<Self, FreeRunningError> {
        let DetectorConfig { seed, ref sources, noise_hz, ref flash, frame, disorder, .. } = config;
        for rate_hz in [noise_hz, flash.rate_hz] {
            if !(rate_hz.is_finite() && rate_hz >= 0.0) {
                return Err(FreeRunningError::Rate { rate_hz });
            }
        }
        if !(SHORTEST_FRAME..=LONGEST_FRAME).contains(&frame) {
            return Err(FreeRunningError::Frame { frame });
        }
        for (what, time) in [("a jitter", flash.jitter), ("a disorder", disorder)] {
            if time > frame {
                return Err(FreeRunningError::Longer { what, time, frame });
            }
        }
        if flash.sources > sources.len() {
            return Err(FreeRunningError::FlashSources { seen: flash.sources, sources: sources.len() });
        }
        let hits = mean_hits(&config);
        if hits > MOST_HITS {
            return Err(FreeRunningError::FrameHits { frame, hits });
        }
        Ok(Self {
            flashes: Draws::new(seed, SourceId(0), Purpose::Flash),
            flash_gap_ps: SECOND_PS / flash.rate_hz,
            noise_gap_ps: SECOND_PS / noise_hz,
            noise_values: u64::from(config.max_value / 4) + 1,
            config,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &DetectorConfig {
        &self.config
    }

    /// Returns the begin of a frame.
    #[must_use]
    pub fn begin(&self, frame: u64) -> Moment {
        Moment(self.config.frame.times(frame).0)
    }

    /// Returns the place of a source.
    ///
    /// # Errors
    /// [`FreeRunningError::NoSource`].
    pub fn place(&self, source: SourceId) -> Result<usize, FreeRunningError> {
        let place = self.config.sources.iter().position(|other| *other == source);
        place.ok_or(FreeRunningError::NoSource(source))
    }

    /// Returns the flashes in the time of a frame, in order.
    pub fn flashes(&self, frame: u64) -> impl Iterator<Item = Flash> + use<'_> {
        let mut draws = self.flashes.sequence(EventId(frame));
        let mut time = 0_u64;
        (0_u64..1 << PLACE_BITS).map_while(move |place| {
            time = time.saturating_add(draws.exponential(self.flash_gap_ps));
            let first = draws.below(self.config.sources.len() as u64) as usize;
            let number = frame << PLACE_BITS | place;
            let is_in_frame = time < self.config.frame.0;
            is_in_frame.then(|| Flash { number, time: self.begin(frame) + Picos(time), first })
        })
    }

    /// Returns whether the source at this place sees a flash.
    #[must_use]
    pub fn sees(&self, place: usize, flash: &Flash) -> bool {
        let sources = self.config.sources.len();
        (place + sources - flash.first) % sources < self.config.flash.sources
    }

    /// Returns the sources that see a flash, and the hits of each at their true times.
    pub fn hits_of(&self, flash: &Flash) -> impl Iterator<Item = (SourceId, Vec<Hit>)> + use<'_> {
        let (flash, sources) = (*flash, self.config.sources.iter().enumerate());
        sources.filter(move |(place, _)| self.sees(*place, &flash)).map(move |(_, source)| {
            let draws = Draws::new(self.config.seed, *source, Purpose::FlashHits);
            let hits = self.flash_hits(&flash, draws).map(|(delay, channel, value)| Hit {
                time_ps: (flash.time + delay).0,
                channel,
                value,
                extra: 1,
            });
            (*source, hits.collect())
        })
    }

    /// Returns delay, channel and value of the hits of a flash in a source.
    fn flash_hits(&self, flash: &Flash, draws: Draws) -> impl Iterator<Item = (Picos, u32, u16)> + use<'_> {
        let mut draws = draws.sequence(EventId(flash.number));
        let DetectorConfig { ref flash, channels, max_value, .. } = self.config;
        (0..flash.hits).map(move |_| {
            let delay = draws.below(flash.jitter.0 + 1);
            let channel = draws.below(u64::from(channels)) as u32;
            let value = self.noise_values + draws.below(u64::from(max_value) + 1 - self.noise_values);
            (Picos(delay), channel, (value as u16).min(max_value))
        })
    }
}

/// Returns the mean number of hits of a source in a frame.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean"
)]
fn mean_hits(config: &DetectorConfig) -> u64 {
    let DetectorConfig { noise_hz, ref flash, frame, .. } = *config;
    let per_second = noise_hz + flash.rate_hz * f64::from(flash.hits.max(1));
    (per_second * frame.0 as f64 / SECOND_PS) as u64
}

/// One source of a detector.
#[derive(Clone, Debug)]
pub struct SourceView {
    place: usize,
    noise: Draws,
    flash_hits: Draws,
}

impl SourceView {
    /// Returns the view of the source with this id.
    ///
    /// # Errors
    /// [`FreeRunningError::NoSource`].
    pub fn new(detector: &Detector, source: SourceId) -> Result<Self, FreeRunningError> {
        let draws = |purpose| Draws::new(detector.config.seed, source, purpose);
        Ok(Self {
            place: detector.place(source)?,
            noise: draws(Purpose::Noise),
            flash_hits: draws(Purpose::FlashHits),
        })
    }

    /// Puts the hits of a frame into `hits`, in the order of the frame.
    pub fn frame(&self, detector: &Detector, frame: u64, hits: &mut Vec<FrameHit>) {
        hits.clear();
        let disorder = detector.config.disorder.0;
        let mut draws = self.noise.sequence(EventId(frame));
        self.noise(detector, &mut draws, hits);
        let noise = hits.len();
        for flash in detector.flashes(frame).filter(|flash| detector.sees(self.place, flash)) {
            let begin = flash.time.since(detector.begin(frame));
            for (delay, channel, value) in detector.flash_hits(&flash, self.flash_hits) {
                let after_begin = begin + delay;
                hits.push(FrameHit { order: after_begin.0, after_begin, channel, value, extra: 1 });
            }
        }
        if disorder > 0 {
            hits.iter_mut().for_each(|hit| hit.order += draws.below(disorder + 1));
            hits.sort_unstable_by_key(|hit| hit.order);
        } else if hits.len() > noise {
            // Two sorted parts, mostly.
            hits.sort_by_key(|hit| hit.order);
        }
    }

    /// Adds the noise of a frame, in order of time.
    fn noise(&self, detector: &Detector, draws: &mut DrawSequence, hits: &mut Vec<FrameHit>) {
        let DetectorConfig { frame, channels, .. } = detector.config;
        let mut time = draws.exponential(detector.noise_gap_ps);
        while time < frame.0 {
            let bits = draws.bits();
            // The halves of a draw are independent.
            let channel = (((bits >> 32) * u64::from(channels)) >> 32) as u32;
            let value = (((bits & 0xffff_ffff) * detector.noise_values) >> 32) as u16;
            hits.push(FrameHit { order: time, after_begin: Picos(time), channel, value, extra: 0 });
            time = time.saturating_add(draws.exponential(detector.noise_gap_ps));
        }
    }
}
