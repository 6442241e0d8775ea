//! A source whose fragments are frames of hits.

use super::FreeRunningError;
use super::clock::{EmulatedClock, FrameClock};
use super::detector::{Detector, FrameHit, SourceView};
use super::frame_writer::{FrameWriter, RecordNumbers, largest_numbers};
use super::pulses::EmulatedPulses;
use crate::random::{Draws, Purpose};
use crate::timed::{FeedBooks, FeedConfig, HitDescription, HitTimes};
use crate::{Source, SourcePoll, SourceStats};
use bytes::BytesMut;
use sheaf_time::{Moment, Picos};
use sheaf_wire::{ByteCount, EventId, ExactNanos, Fragment, Nanos, NumberMark, SourceId, Timestamp};
use std::ops::Range;
use std::sync::Arc;

/// Mean number of hits in the time within which a counter must be read, if only hits tell that it has started again. The probability
/// that there is none is 1e-13.
const HITS_A_LAP: f64 = 30.0;

/// When frames are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePace {
    /// As fast as they are taken.
    FullSpeed,
    /// When their time is over, as a detector sends them. It cannot be held back.
    Live {
        /// Number of frames that the front end holds, 1 or more. If more are due, the oldest are lost.
        buffer_frames: u64,
    },
}

/// Frames of the sources of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSourceConfig {
    /// Number of frames of each source. `None`: until it is stopped.
    pub frames: Option<u64>,
    /// Maximum number of places by which a frame comes too early or too late.
    pub disorder_frames: u32,
    /// When they are given.
    pub pace: FramePace,
}

/// Order in which the frames of a source are given: groups of frames in order, and those of a group in any.
#[derive(Clone, Debug)]
struct FrameOrder {
    draws: Draws,
    group_frames: u64,
    frames: u64,
    /// The group whose order is known.
    group: Option<u64>,
    order: Vec<u64>,
}

impl FrameOrder {
    /// Returns the end of the group of the frame with this place.
    fn group_end(&self, place: u64) -> u64 {
        let end = (place / self.group_frames).saturating_add(1).saturating_mul(self.group_frames);
        end.min(self.frames)
    }

    /// Returns the frame with this place, which is below the number of frames.
    fn frame(&mut self, place: u64) -> u64 {
        if self.group_frames == 1 {
            return place;
        }
        let (group, first) = (place / self.group_frames, place / self.group_frames * self.group_frames);
        if self.group != Some(group) {
            self.group = Some(group);
            self.order.clear();
            self.order.extend(first..self.group_end(place));
            let mut draws = self.draws.sequence(EventId(group));
            for last in (1..self.order.len()).rev() {
                self.order.swap(last, draws.below(last as u64 + 1) as usize);
            }
        }
        self.order[(place - first) as usize]
    }
}

/// A source whose fragments are the frames of an emulated front end.
#[derive(Debug)]
pub struct FrameSource {
    id: SourceId,
    detector: Arc<Detector>,
    view: SourceView,
    clock: EmulatedClock,
    pulses: Option<EmulatedPulses>,
    writer: FrameWriter,
    /// The fragment time that is time 0 of the run, if hits count from the time of their fragment.
    zero: Option<Timestamp>,
    pace: FramePace,
    order: FrameOrder,
    /// Number of frames that were given or lost.
    place: u64,
    start: Option<Timestamp>,
    hits: Vec<FrameHit>,
    buffer: BytesMut,
    lost: u64,
    stopped: bool,
    stats: SourceStats,
}

impl FrameSource {
    /// Makes a source of `detector`, with the clock and the id of `feed` and frames of this layout.
    ///
    /// # Errors
    /// A [`FreeRunningError`].
    pub fn new(
        detector: Arc<Detector>,
        layout: Arc<HitDescription>,
        feed: &FeedConfig,
        config: FrameSourceConfig,
    ) -> Result<Self, FreeRunningError> {
        let (id, clock) = (feed.card, EmulatedClock::new(feed)?);
        let view = SourceView::new(&detector, id)?;
        let &super::DetectorConfig { seed, channels, ref flash, frame, .. } = detector.config();
        let needed = u32::BITS - channels.saturating_sub(1).leading_zeros();
        let bits = u32::BITS - largest_numbers(&layout).channel.leading_zeros();
        if needed > bits {
            return Err(FreeRunningError::Narrow { what: "a channel", bits, needed });
        }
        let bits = feed.bits.unwrap_or(layout.time.bits());
        let (during, span) = (clock.during(Moment::ZERO), frame + flash.jitter);
        let span_ticks = during.map(|clock| clock.ticks(clock.reset + span) - clock.ticks(clock.reset) + 1);
        let span_ticks = span_ticks.ok_or(FreeRunningError::Clock {
            tick: feed.tick,
            drift: feed.drift,
            offset: feed.offset,
        })?;
        let writer = FrameWriter::new(layout, bits, span_ticks)?;
        let zero = match feed.times {
            HitTimes::Counter => None,
            HitTimes::Fragment { zero, .. } => Some(zero),
        };
        let group_frames = u64::from(config.disorder_frames) + 1;
        let source = Self {
            id,
            view,
            clock,
            pulses: EmulatedPulses::new(feed.pulses, writer.pulse_resets(), config.disorder_frames)?,
            writer,
            zero,
            pace: config.pace,
            order: FrameOrder {
                draws: Draws::new(seed, id, Purpose::FrameOrder),
                group_frames,
                frames: config.frames.unwrap_or(u64::MAX),
                group: None,
                order: Vec::new(),
            },
            place: 0,
            start: None,
            hits: Vec::new(),
            buffer: BytesMut::new(),
            lost: 0,
            stopped: false,
            stats: SourceStats::default(),
            detector,
        };
        source.check_lap(bits, span_ticks, feed.offset)?;
        Ok(source)
    }

    /// Checks that a reader of the frames notices each time that the counter starts again.
    fn check_lap(&self, bits: u32, span_ticks: u64, offset: ExactNanos) -> Result<(), FreeRunningError> {
        let (source_id, lap) = (self.id, self.clock.lap(bits));
        let &super::DetectorConfig { noise_hz, ref flash, frame, .. } = self.detector.config();
        if self.zero.is_some() {
            let needed = u64::BITS - span_ticks.leading_zeros();
            let narrow = FreeRunningError::Narrow { what: "the counter of a fragment", bits, needed };
            return if needed > bits { Err(narrow) } else { Ok(()) };
        }
        let needed = frame.times(self.order.group_frames.saturating_add(1)) + flash.jitter;
        if lap.0 / 2 <= needed.0 {
            return Err(FreeRunningError::Lap { source_id, bits, lap, needed });
        }
        // The first reading is taken for one of the first lap.
        let first = self.clock.during(Moment(needed.0)).map(|clock| clock.ticks(Picos::ZERO));
        if first.is_none_or(|ticks| bits < 64 && ticks >> bits > 0) {
            return Err(FreeRunningError::Offset { source_id, offset, lap });
        }
        #[expect(clippy::cast_precision_loss, reason = "a mean")]
        let hits = noise_hz * (lap.0 / 2 - needed.0) as f64 * 1e-12;
        if !self.writer.has_markers() && hits < HITS_A_LAP {
            return Err(FreeRunningError::Unseen { source_id, lap, noise_hz });
        }
        Ok(())
    }

    /// Returns the first moment at which the source sees something that has a time.
    #[must_use]
    pub fn first_seen(&self) -> Moment {
        let first = self.clock.reset();
        self.pulses.map_or(first, |pulses| pulses.first(first))
    }

    /// Returns the time at which the next frame is given, counted from the start; loses frames that are due for too long.
    fn due(&mut self, now: Timestamp, buffer_frames: u64) -> Timestamp {
        let start = *self.start.get_or_insert(now);
        let frame_ns = self.detector.config().frame.as_nanos().max(1);
        let over = (now.since(start).0 / frame_ns).min(self.order.frames);
        // The frames of a group that is not complete are not due.
        let held = buffer_frames.max(1).saturating_add(self.order.group_frames - 1);
        let lost = over.saturating_sub(self.place).saturating_sub(held);
        self.place += lost;
        self.lost += lost;
        start + Nanos(self.order.group_end(self.place).saturating_mul(frame_ns))
    }

    /// Writes a frame. `None`: the clock of the source is reset after its end, or the timeline ends before it.
    fn write(&mut self, number: u64) -> Option<Fragment<bytes::Bytes>> {
        let &super::DetectorConfig { ref flash, frame, .. } = self.detector.config();
        let begin = self.detector.begin(number);
        let (time, clock) = match self.zero {
            None => (Timestamp(begin.0 / 1_000), self.clock.during(begin)?),
            Some(zero) => {
                let (since_zero_ns, clock) = self.clock.from_fragment(begin)?;
                (zero + Nanos(since_zero_ns), clock)
            }
        };
        if clock.reset >= frame + flash.jitter {
            return None;
        }
        self.view.frame(&self.detector, number, &mut self.hits);
        self.buffer.reserve(self.writer.room(self.hits.len()));
        let pulses = self.pulses;
        let mut counted_from = pulses.as_ref().map_or(0, |pulses| pulses.last_reset(&self.clock, begin));
        let first = clock.ticks(clock.reset).wrapping_sub(counted_from);
        self.writer.begin(self.id, number, first, &mut self.buffer);
        let mut from = clock.reset;
        for pulse in pulses.iter().flat_map(|pulses| pulses.during(begin, clock.reset, frame)) {
            self.write_hits(&clock, counted_from, from..pulse);
            let ticks = clock.ticks(pulse);
            self.writer.pulse(ticks.wrapping_sub(counted_from), &mut self.buffer);
            if self.writer.pulse_resets() == Some(true) {
                counted_from = ticks;
            }
            from = pulse;
        }
        self.write_hits(&clock, counted_from, from..Picos(u64::MAX));
        let payload = self.buffer.split().freeze();
        Some(Fragment {
            event: EventId(number),
            source: self.id,
            time,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        })
    }
}

impl FrameSource {
    /// Writes the hits of the frame in this time. The counter was 0 after `counted_from` ticks.
    #[inline]
    fn write_hits(&mut self, clock: &FrameClock, counted_from: u64, during: Range<Picos>) {
        let hits = self.hits.iter().filter(|hit| during.contains(&hit.after_begin));
        let hits = hits.map(|hit| {
            let FrameHit { after_begin, channel, value, extra, .. } = *hit;
            (clock.ticks(after_begin).wrapping_sub(counted_from), RecordNumbers { channel, value, extra })
        });
        self.writer.hits(hits, self.hits.len(), &mut self.buffer);
    }
}

impl Source for FrameSource {
    fn id(&self) -> SourceId {
        self.id
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.stopped {
            return SourcePoll::Ended;
        }
        if let FramePace::Live { buffer_frames } = self.pace {
            let due = self.due(now, buffer_frames);
            if self.place < self.order.frames && now < due {
                return SourcePoll::NotBefore(due);
            }
        }
        if self.place >= self.order.frames {
            return SourcePoll::Ended;
        }
        let number = self.order.frame(self.place);
        self.place += 1;
        let Some(fragment) = self.write(number) else { return SourcePoll::NotBefore(now) };
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(fragment.payload.len());
        SourcePoll::Fragment(fragment)
    }

    fn keeps_data(&self) -> bool {
        self.pace == FramePace::FullSpeed
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn stats(&self) -> SourceStats {
        let timed = FeedBooks { packets_dropped: self.lost, ..FeedBooks::default() };
        SourceStats { timed: Some(timed), ..self.stats.clone() }
    }
}
