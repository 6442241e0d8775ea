//! A source that generates its fragments.
//!
//! It is free-running: events `first`, `first + 1`, ... as fast as its readout unit takes them, or at a rate. Its
//! [`Script`] defines its behaviour at each event.

use crate::batch::{Batch, BatchEnd, length_u32};
use crate::block_writer::BlockWriter;
use crate::content::{self, Content};
use crate::pacing::{FragmentTiming, Pace, PaceError, Pacer};
use crate::script::{Act, Defects, Script, ScriptError};
use crate::size_model::SizeConfig;
use crate::{Source, SourcePoll, SourceStats};
use bytes::Bytes;
use sheaf_buffer::{Block, Heap, Memory, Pool};
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{ByteCount, EventId, Fragment, Nanos, NumberMark, SourceId, Span, Timestamp};
use std::collections::VecDeque;

/// Maximum number of events without a fragment in one poll: a source that is always silent must not hold the thread of
/// its readout unit.
const SILENT_EVENTS_PER_POLL: u32 = 64;

/// Time of an emulated fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmulatedTime {
    /// When it is handed out.
    #[default]
    Now,
    /// A clock that ticks once per event: the same for all sources, and the same in every run.
    PerEvent {
        /// The time of the first event.
        origin: Timestamp,
        /// From one event to the next.
        period: Nanos,
    },
}

/// Triggers that a source misses, or counts too often. It numbers its fragments one after another, so that those of all later events
/// have the numbers of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerFault {
    /// First event that it misses, or the one that it counts too often.
    pub event: EventId,
    /// Number of triggers that it misses. Negative: it has so many fragments too many of the event.
    pub missed: i64,
}

impl TriggerFault {
    /// Returns the event whose data the fragment with this number has.
    fn event_of(&self, number: EventId) -> EventId {
        let moved = EventId(number.0.saturating_add_signed(self.missed));
        if number < self.event { number } else { moved.max(self.event) }
    }
}

/// Configuration of an emulated source. Sources of one run share it: they differ by their id.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatorConfig {
    /// Seed of all random numbers.
    pub seed: u64,
    /// The first event id.
    pub first_event: EventId,
    /// Number of events; `None`: until stopped.
    pub events: Option<u64>,
    /// Size of the fragments.
    pub size: SizeConfig,
    /// Content of the fragments.
    pub content: Content,
    /// Whether the source computes a checksum over each.
    pub checksum: bool,
    /// The time in each.
    pub time: EmulatedTime,
    /// When they may go. [`Recorded`](crate::pacing::Schedule::Recorded) follows [`EmulatorConfig::time`], where that
    /// ticks per event, and is full speed where it does not.
    pub pace: Pace,
    /// Defects of the source.
    pub defects: Defects,
    /// Triggers that it misses, or counts twice.
    pub fault: Option<TriggerFault>,
    /// The size of the blocks that fragments are written into; at least that of the largest fragment.
    pub block_size: ByteCount,
    /// Maximum number of the source's blocks. Its memory never exceeds `block_size * max_blocks`.
    pub max_blocks: usize,
}

/// Reason why an [`EmulatorConfig`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EmulatorError {
    /// Sizes or defects are wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The pace is wrong.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// The largest fragment would never find room.
    #[error("blocks of {block_size} cannot hold the largest fragment, {max_fragment}")]
    BlockTooSmall {
        /// The configured block size.
        block_size: ByteCount,
        /// The largest fragment that sizes and defects allow.
        max_fragment: ByteCount,
    },
    /// There is no memory.
    #[error("an emulated source needs at least 1 block")]
    NoBlocks,
}

/// An emulated source, with its memory on the heap or where a transport has it.
#[derive(Debug)]
pub struct EmulatedSource<M: Memory = Heap> {
    id: SourceId,
    script: Script,
    config: EmulatorConfig,
    pacer: Pacer,
    maker: Maker<M>,
    /// Number of events of the run that were begun.
    begun: u64,
    /// Fragment that is due next, kept while it waits for time or memory.
    turn: Option<Turn>,
    /// The second copy of the fragment just handed out.
    repeat: Option<(Fragment<Bytes>, FragmentTiming)>,
    /// Late events, in the order of their turns.
    late: VecDeque<LateTurn>,
    starved: bool,
    stopped: bool,
    stats: SourceStats,
}

/// A fragment to be made and handed out.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Event whose data it has.
    event: EventId,
    /// Event that the fragment says it is of.
    number: EventId,
    place: FragmentTiming,
    size: ByteCount,
    oversize: bool,
    late: bool,
    duplicate: bool,
}

#[derive(Clone, Copy, Debug)]
struct LateTurn {
    /// Number of events of the run that must have been begun before.
    after: u64,
    turn: Turn,
}

impl EmulatedSource {
    /// Makes the emulated source with this id.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn new(id: SourceId, config: &EmulatorConfig) -> Result<Self, EmulatorError> {
        Self::with_memory(id, config, Heap)
    }
}

impl<M: Memory> EmulatedSource<M> {
    /// As [`EmulatedSource::new`], with fragments written into blocks of `memory`.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn with_memory(id: SourceId, config: &EmulatorConfig, memory: M) -> Result<Self, EmulatorError> {
        let script = Script::new(config.seed, id, &config.size, &config.defects)?;
        let (block_size, max_fragment) = (config.block_size, script.max_size());
        if block_size < max_fragment {
            return Err(EmulatorError::BlockTooSmall { block_size, max_fragment });
        }
        if config.max_blocks == 0 {
            return Err(EmulatorError::NoBlocks);
        }
        Ok(Self {
            id,
            maker: Maker::new(config, max_fragment, memory),
            pacer: Pacer::new(&config.pace)?,
            script,
            config: config.clone(),
            begun: 0,
            turn: None,
            repeat: None,
            late: VecDeque::new(),
            starved: false,
            stopped: false,
            stats: SourceStats::default(),
        })
    }

    /// Returns the script of the source.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Returns the next fragment to deliver, or the reason why there is none now.
    fn next_turn(&mut self, now: Timestamp) -> Result<Turn, SourcePoll> {
        for _ in 0..SILENT_EVENTS_PER_POLL {
            if let Some(late) = self.late.pop_front_if(|late| late.after <= self.begun) {
                return Ok(late.turn);
            }
            let Some((number, event)) = self.next_numbered() else {
                // At the end nothing is left to be later than.
                return self.late.pop_front().map(|late| late.turn).ok_or(SourcePoll::Ended);
            };
            let place = self.place(self.begun);
            self.begun += 1;
            let Act::Fragment { size, oversize, late, duplicate } = self.script.act(event) else {
                self.stats.silent += 1;
                continue;
            };
            let turn = Turn { event, number, place, size, oversize, late, duplicate };
            if !late {
                return Ok(turn);
            }
            let after = self.begun.saturating_add(self.config.defects.late_by);
            self.late.push_back(LateTurn { after, turn });
        }
        Err(SourcePoll::NotBefore(now))
    }

    /// Returns the number of the next fragment, and the event whose data it has.
    fn next_numbered(&self) -> Option<(EventId, EventId)> {
        let Some(fault) = self.config.fault else {
            return self.next_event().map(|event| (event, event));
        };
        let number = EventId(self.config.first_event.0.checked_add(self.begun)?);
        let event = fault.event_of(number);
        let is_over =
            |events| event.0.checked_sub(self.config.first_event.0).is_none_or(|place| place >= events);
        (!self.config.events.is_some_and(is_over)).then_some((number, event))
    }

    #[inline]
    fn next_event(&self) -> Option<EventId> {
        if self.config.events.is_some_and(|events| self.begun >= events) {
            return None;
        }
        self.config.first_event.0.checked_add(self.begun).map(EventId)
    }

    fn place(&self, position: u64) -> FragmentTiming {
        let elapsed = match self.config.time {
            EmulatedTime::Now => Nanos::ZERO,
            EmulatedTime::PerEvent { period, .. } => Nanos(period.0.saturating_mul(position)),
        };
        FragmentTiming { position, elapsed }
    }

    fn make(&mut self, turn: Turn, now: Timestamp) -> Option<Fragment<Bytes>> {
        let payload = self.maker.payload(self.id, turn.event, turn.size.as_usize())?;
        let checksum = self.config.checksum.then(|| crc32c(&payload));
        Some(Fragment {
            event: turn.number,
            source: self.id,
            time: self.time_of(turn, now),
            checksum,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        })
    }

    fn time_of(&self, turn: Turn, now: Timestamp) -> Timestamp {
        match self.config.time {
            EmulatedTime::Now => now,
            EmulatedTime::PerEvent { origin, .. } => origin + turn.place.elapsed,
        }
    }

    fn hand_out(&mut self, fragment: Fragment<Bytes>, place: FragmentTiming, now: Timestamp) -> SourcePoll {
        self.count(fragment.payload.len(), place, now);
        SourcePoll::Fragment(fragment)
    }

    fn count(&mut self, bytes: usize, place: FragmentTiming, now: Timestamp) {
        self.pacer.sent(now, place);
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(bytes);
    }

    fn count_defects(&mut self, turn: Turn) {
        self.stats.oversize += u64::from(turn.oversize);
        self.stats.late += u64::from(turn.late);
    }

    fn note_starved(&mut self) {
        self.stats.out_of_memory += u64::from(!self.starved);
        self.starved = true;
    }

    /// Makes fragments side by side until something is in the way.
    fn fill(&mut self, now: Timestamp, most: usize, fragments: &mut Vec<Fragment<Span>>) -> BatchEnd {
        let is_regular = self.script.is_faultless() && self.config.fault.is_none();
        if is_regular && self.pacer.is_free() && self.turn.is_none() {
            return self.fill_freely(now, most, fragments);
        }
        while fragments.len() < most {
            let turn = match self.turn.take().map_or_else(|| self.next_turn(now), Ok) {
                Ok(turn) => turn,
                Err(SourcePoll::NotBefore(at)) => return BatchEnd::NotBefore(at),
                Err(_) => return BatchEnd::Ended,
            };
            let length = turn.size.as_usize();
            let obstacle = if turn.duplicate || !(fragments.is_empty() || self.maker.continues_for(length)) {
                // The rare fragment that is returned twice is returned alone, and so begins a batch that needs another
                // block.
                Err(BatchEnd::More)
            } else {
                self.pacer.admit(now, turn.place).map_err(BatchEnd::NotBefore)
            };
            if let Err(end) = obstacle {
                self.turn = Some(turn);
                return end;
            }
            let Some(span) = self.maker.append(self.id, turn.event, length) else {
                self.turn = Some(turn);
                self.note_starved();
                return BatchEnd::OutOfMemory;
            };
            self.starved = false;
            self.count_defects(turn);
            self.count(length, turn.place, now);
            let time = self.time_of(turn, now);
            fragments.push(Fragment {
                event: turn.number,
                source: self.id,
                time,
                checksum: None,
                processed: false,
                mark: NumberMark::NONE,
                payload: span,
            });
        }
        BatchEnd::More
    }
}

impl<M: Memory> EmulatedSource<M> {
    /// As [`Self::fill`], where nothing goes wrong and every fragment may go at once: every event has a fragment, in
    /// its turn.
    fn fill_freely(&mut self, now: Timestamp, most: usize, fragments: &mut Vec<Fragment<Span>>) -> BatchEnd {
        let (source, before, begun) = (self.id, fragments.len(), self.begun);
        let mut bytes = 0;
        let end = loop {
            if fragments.len() >= most {
                break BatchEnd::More;
            }
            let Some(event) = self.next_event() else {
                break BatchEnd::Ended;
            };
            let length = self.script.regular_size(event).as_usize();
            if !(fragments.is_empty() || self.maker.continues_for(length)) {
                break BatchEnd::More;
            }
            let Some(payload) = self.maker.append(source, event, length) else {
                break BatchEnd::OutOfMemory;
            };
            let time = match self.config.time {
                EmulatedTime::Now => now,
                EmulatedTime::PerEvent { origin, period } => {
                    origin + Nanos(period.0.saturating_mul(self.begun))
                }
            };
            self.begun += 1;
            bytes += length;
            fragments.push(Fragment {
                event,
                source,
                time,
                checksum: None,
                processed: false,
                mark: NumberMark::NONE,
                payload,
            });
        };
        self.starved &= self.begun == begun;
        if end == BatchEnd::OutOfMemory {
            self.note_starved();
        }
        self.stats.fragments += (fragments.len() - before) as u64;
        self.stats.bytes += ByteCount::from(bytes);
        end
    }
}

impl<M: Memory> Source for EmulatedSource<M> {
    fn id(&self) -> SourceId {
        self.id
    }

    /// One that is silent about every event never passes one over.
    fn keeps_data(&self) -> bool {
        !self.script.is_mute()
    }

    fn skip_to(&mut self, event: EventId) {
        let position = event.0.saturating_sub(self.config.first_event.0);
        if position > self.begun {
            self.begun = position;
            self.pacer.begin_at(self.place(position));
        }
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.stopped {
            return SourcePoll::Ended;
        }
        if let Some((fragment, place)) = self.repeat.take() {
            if let Err(ready) = self.pacer.admit(now, place) {
                self.repeat = Some((fragment, place));
                return SourcePoll::NotBefore(ready);
            }
            self.stats.duplicated += 1;
            return self.hand_out(fragment, place, now);
        }
        let turn = match self.turn.map_or_else(|| self.next_turn(now), Ok) {
            Ok(turn) => turn,
            Err(nothing) => return nothing,
        };
        self.turn = Some(turn);
        if let Err(ready) = self.pacer.admit(now, turn.place) {
            return SourcePoll::NotBefore(ready);
        }
        let Some(fragment) = self.make(turn, now) else {
            self.note_starved();
            return SourcePoll::OutOfMemory;
        };
        self.starved = false;
        self.turn = None;
        self.count_defects(turn);
        self.repeat = turn.duplicate.then(|| (fragment.clone(), turn.place));
        self.hand_out(fragment, turn.place, now)
    }

    fn poll_batch(&mut self, now: Timestamp, most: usize, batch: &mut Batch) -> BatchEnd {
        let goes_alone = |source: &Self| source.turn.is_some_and(|turn| turn.duplicate);
        if !self.stopped && self.repeat.is_none() && !goes_alone(self) {
            let end = self.fill(now, most, &mut batch.fragments);
            batch.payload = self.maker.cut();
            if self.config.checksum {
                batch.compute_checksums();
            }
            if !(batch.fragments.is_empty() && goes_alone(self)) {
                return end;
            }
        }
        batch.take_one(self.poll(now))
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.repeat = None;
    }

    fn stats(&self) -> SourceStats {
        SourceStats { max_lag: self.pacer.max_lag(), ..self.stats.clone() }
    }
}

/// Makes payloads, side by side until they are cut off.
#[derive(Debug)]
enum Maker<M: Memory> {
    Pattern(BlockWriter<M>),
    Number(BlockWriter<M>),
    Fill(BlockWriter<M>, u8),
    /// Payload is not written: all fragments are ranges of the same memory. The number counts the bytes returned since
    /// the last cut.
    Shared(Bytes, usize),
}

impl<M: Memory> Maker<M> {
    fn new(config: &EmulatorConfig, max_fragment: ByteCount, memory: M) -> Self {
        let (block_bytes, max_blocks) = (config.block_size.as_usize(), config.max_blocks);
        let writer = |memory| BlockWriter::new(Pool::with_memory(memory, block_bytes, max_blocks));
        match config.content {
            Content::Pattern => Self::Pattern(writer(memory)),
            Content::Number => Self::Number(writer(memory)),
            Content::Fill(value) => Self::Fill(writer(memory), value),
            Content::None => Self::Shared(zeros(memory, block_bytes.max(max_fragment.as_usize())), 0),
        }
    }

    /// The payload of `source` in `event` alone, or `None` while no block is free.
    fn payload(&mut self, source: SourceId, event: EventId, length: usize) -> Option<Bytes> {
        self.append(source, event, length).map(|_| self.cut())
    }

    /// Returns whether a payload of this length will directly follow the previous one.
    #[inline]
    fn continues_for(&self, length: usize) -> bool {
        match self {
            Self::Pattern(writer) | Self::Number(writer) | Self::Fill(writer, _) => {
                writer.continues_for(length)
            }
            Self::Shared(buffer, given) => buffer.len() - given >= length,
        }
    }

    /// Makes the payload of `source` in `event`, to be cut off later, or `None` while no block is free.
    #[inline]
    fn append(&mut self, source: SourceId, event: EventId, length: usize) -> Option<Span> {
        let offset = match self {
            Self::Shared(_, given) => {
                *given += length;
                *given - length
            }
            written => written.write(source, event, length)?,
        };
        Some(Span { parcel: 0, offset: length_u32(offset), length: length_u32(length) })
    }

    /// Writes a payload into a block with room for it. Returns where it lies there. Apart from [`Self::append`], so that what writes
    /// nothing is compiled into the loop over fragments.
    #[inline(never)]
    fn write(&mut self, source: SourceId, event: EventId, length: usize) -> Option<usize> {
        match self {
            Self::Pattern(writer) => {
                write(writer, length, |block| content::append(source, event, length, block))
            }
            Self::Number(writer) => {
                write(writer, length, |block| content::append_numbered(source, event, length, block))
            }
            Self::Fill(writer, value) => write(writer, length, |block| block.append_fill(*value, length)),
            Self::Shared(..) => None,
        }
    }

    /// All that was appended since the last cut.
    fn cut(&mut self) -> Bytes {
        match self {
            Self::Pattern(writer) | Self::Number(writer) | Self::Fill(writer, _) => writer.cut(),
            Self::Shared(buffer, given) => buffer.slice(..std::mem::take(given)),
        }
    }
}

/// Writes a payload into a block with room for it. Returns where it lies there.
fn write<M: Memory>(
    writer: &mut BlockWriter<M>,
    length: usize,
    fill: impl FnOnce(&mut M::Block),
) -> Option<usize> {
    let block = writer.room_for(length)?;
    let offset = block.appended();
    fill(block);
    Some(offset)
}

/// `length` zeros in memory of `memory`, or on the heap where that has none.
fn zeros(mut memory: impl Memory, length: usize) -> Bytes {
    match memory.allocate(length) {
        Some(mut block) if length > 0 => {
            block.append_fill(0, length);
            block.cut()
        }
        _ => vec![0; length].into(),
    }
}

#[cfg(test)]
mod tests;
