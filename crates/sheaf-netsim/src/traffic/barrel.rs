//! A barrel shifter: in slot *t* source *s* sends to builder *(s + t) mod n*, so that no two sources send to one
//! builder at once.
//!
//! - **Turn**: as many slots as there are builders, or sources if there are more; a source without a builder in a slot
//!   is idle in it.
//! - **Events** go to the builders in turn, as the slots do: event *e* to builder *e mod n*, whatever the assignment
//!   of the scenario.
//! - **Blocks**: with `block_bytes` of 0 a slot carries one fragment of any size. Otherwise the fragments for a builder
//!   form a stream, of which each slot carries the next `block_bytes`, so that a block can hold several fragments and a
//!   fragment can span several blocks. That makes all slots alike, whatever the fragments' sizes.
//! - **Slots** begin by the source's own clock, which starts late by up to `start_skew` and deviates by up to
//!   `clock_ppm`. A block is cut to fit the slot without its guard; a whole fragment is not, and its source is late for
//!   the next slots until it has caught up. Without slots a source continues when its block has left, and idles for the
//!   guard.
//! - **Synchronised**: all sources wait at the end of a turn until the last block of the turn has left; the slots of
//!   the next turn are counted from there. Sources with nothing to send send a block of one byte then: its header keeps
//!   the others in step.
//! - **Ahead**: sources send different amounts for one event, and so drift apart in the stream of events. A source that
//!   is [`AHEAD`] events of a builder ahead of the last incomplete one sends what it has; its readout unit has no more.

use super::assignment::Triggers;
use super::book::Book;
use super::chance::{Purpose, bits, unit};
use super::placement::Roster;
use super::sizes::FragmentSizes;
use super::{Message, Next, SetupError, Summary, Traffic, Wake};
use crate::network::EndpointId;
use crate::scenario::{BarrelShifter, EventTraffic};
use crate::units::{Picos, Rate};

/// Number of events of each builder that a readout unit holds.
pub const AHEAD: u64 = 256;

#[derive(Clone, Copy, Debug, Default)]
struct SourceState {
    /// Slots begun.
    slot: u64,
    /// From when and which slot on time is counted.
    origin: Picos,
    origin_slot: u64,
    /// Error of its clock, in parts per billion.
    clock_ppb: i64,
    /// Free-running: it idles until then.
    idle_until: Picos,
    /// Blocks that have not left.
    leaving: u32,
}

/// Position of one source in the stream for one builder.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Which of the builder's events comes next.
    row: u64,
    /// Rest of its fragment; 0: it is not begun.
    left: u32,
}

/// Content of a block: pieces of consecutive events of one builder.
#[derive(Clone, Copy, Debug)]
struct Block {
    builder: u32,
    first_row: u64,
    rows: u32,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Barrel {
    roster: Roster,
    sizes: FragmentSizes,
    triggers: Triggers,
    book: Book,
    shape: BarrelShifter,
    /// Bytes of one block; 0: one fragment.
    block_bytes: u32,
    /// Time for which a source without anything to send stays idle, if there are no slots.
    idle_time: Picos,
    /// Slots of a turn.
    turn: u64,
    sources: Vec<SourceState>,
    /// By source, then builder.
    streams: Vec<Stream>,
    /// Blocks under way, found by the token of their message.
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Synchronised: turns that may be begun, sources at the end of the last of them, and those that sleep there.
    turns_open: u64,
    at_end: u32,
    waiting: Vec<EndpointId>,
}

impl Barrel {
    /// A workload on a network with `endpoints` endpoints, whose links have the rate `rate`.
    ///
    /// # Errors
    /// Returns the invalid parameter of `traffic` or `shape`.
    pub fn new(
        traffic: &EventTraffic,
        shape: BarrelShifter,
        rate: Rate,
        endpoints: u32,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let roster = Roster::new(&traffic.placement, endpoints)?;
        let sizes = FragmentSizes::drawn(traffic.size, traffic.correlation, seed)?;
        super::check_rate(traffic.event_rate)?;
        let block_bytes = block_bytes(shape, rate)?;
        let nominal = if block_bytes == 0 { mean_bytes(&sizes) } else { u64::from(block_bytes) };
        let turn = roster.builders_of(0).len().max(roster.sources_of(0).len()) as u64;
        let source = |number: u32| SourceState {
            origin: start_skew(shape, seed, number),
            clock_ppb: clock_ppb(shape, seed, number),
            ..SourceState::default()
        };
        Ok(Self {
            sizes,
            triggers: Triggers::new(traffic.event_rate, seed),
            book: Book::new(roster.builder_count()),
            block_bytes,
            idle_time: rate.time_for(nominal),
            turn,
            sources: (0..roster.source_count()).map(source).collect(),
            streams: vec![Stream::default(); roster.sources().len() * roster.builders().len()],
            blocks: Vec::new(),
            free: Vec::new(),
            turns_open: 1,
            at_end: 0,
            waiting: Vec::new(),
            shape,
            roster,
        })
    }

    /// The events.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// When the next slot of a source begins.
    fn slot_begins(&self, source: u32) -> Picos {
        let state = &self.sources[source as usize];
        let Some(slot) = self.shape.slot else {
            return state.origin.max(state.idle_until);
        };
        let nominal = i128::from(state.slot - state.origin_slot) * i128::from(slot.0);
        let real = nominal + nominal * i128::from(state.clock_ppb) / 1_000_000_000;
        state.origin + Picos(u64::try_from(real).unwrap_or(u64::MAX))
    }

    /// Returns the builder of a source's next slot; `None` if there are more sources than builders and the slot has
    /// none.
    fn builder_in_slot(&self, source: u32) -> Option<u32> {
        let builders = self.roster.builders_of(source);
        let first_source = self.roster.sources_of(builders.start).start;
        let number = (u64::from(source - first_source) + self.sources[source as usize].slot) % self.turn;
        u32::try_from(number).ok().map(|number| builders.start + number).filter(|to| builders.contains(to))
    }

    /// Returns whether the source has reached the end of the turns that may be begun.
    fn is_at_end(&self, source: u32) -> bool {
        self.shape.synchronised && self.sources[source as usize].slot >= self.turns_open * self.turn
    }

    /// Returns whether an event has been triggered, and is close enough to the incomplete ones.
    fn is_there(&mut self, event: u64, now: Picos) -> bool {
        let builders = u64::from(self.roster.builder_count());
        while self.book.opened() <= event {
            let number = self.book.opened();
            if number >= self.book.first() + AHEAD * builders || self.triggers.count(now) <= number {
                return false;
            }
            let builder = u32::try_from(number % builders).unwrap_or(0);
            self.book.open(builder, self.roster.sources_of(builder).len().try_into().unwrap_or(u32::MAX));
        }
        true
    }

    /// The next block of a source for a builder: its size and its token. Nothing if there is nothing to send.
    fn compose(&mut self, source: u32, builder: u32, now: Picos) -> Option<(u32, u64)> {
        let builders = u64::from(self.roster.builder_count());
        let place = source as usize * self.roster.builders().len() + builder as usize;
        let mut stream = self.streams[place];
        let mut block = Block { builder, first_row: stream.row, rows: 0 };
        let mut filled = 0;
        loop {
            let event = stream.row * builders + u64::from(builder);
            if stream.left == 0 {
                if !self.is_there(event, now) {
                    break;
                }
                stream.left = self.sizes.bytes(event, source);
                self.book.hand_over(event, now);
            }
            let room = if self.block_bytes == 0 { stream.left } else { self.block_bytes - filled };
            let piece = stream.left.min(room);
            stream.left -= piece;
            filled += piece;
            block.rows += 1;
            if stream.left == 0 {
                stream.row += 1;
            } else {
                self.book.add_piece(event);
            }
            if self.block_bytes == 0 || filled == self.block_bytes {
                break;
            }
        }
        self.streams[place] = stream;
        if filled == 0 && !self.shape.synchronised {
            return None;
        }
        let token = self.keep(block);
        Some((filled.max(1), u64::from(token)))
    }

    fn keep(&mut self, block: Block) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize] = block;
            return index;
        }
        self.blocks.push(block);
        u32::try_from(self.blocks.len() - 1).expect("blocks under way are far fewer than 2^32")
    }

    fn end(&mut self, message: &Message, now: Picos, lost: bool) {
        let index = u32::try_from(message.token).expect("blocks carry the tokens that they were given");
        let Block { builder, first_row, rows } = self.blocks[index as usize];
        self.free.push(index);
        let builders = u64::from(self.roster.builder_count());
        for row in first_row..first_row + u64::from(rows) {
            self.book.end_piece(row * builders + u64::from(builder), now, lost);
        }
    }

    /// Ends the slot of a source, which moves to the next slot with a builder, or to the end of the turn.
    fn pass_slot(&mut self, source: u32) {
        self.sources[source as usize].slot += 1;
        if self.shape.synchronised {
            while !self.is_at_end(source) && self.builder_in_slot(source).is_none() {
                self.sources[source as usize].slot += 1;
            }
        }
    }

    /// All sources are at the end of the turn: the next may be begun.
    fn open_turn(&mut self, now: Picos, wake: &mut Wake) {
        self.at_end = 0;
        let first = self.turns_open * self.turn;
        self.turns_open += 1;
        for state in &mut self.sources {
            (state.origin, state.origin_slot) = (now, first);
        }
        self.waiting.drain(..).for_each(|sender| wake.sender(sender));
    }
}

impl Traffic for Barrel {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        let Some(source) = self.roster.source_at(sender) else {
            return Next::Sleep;
        };
        loop {
            if self.is_at_end(source) {
                self.waiting.push(sender);
                return Next::Sleep;
            }
            let begins = self.slot_begins(source);
            if begins > now {
                return Next::At(begins);
            }
            let builder = self.builder_in_slot(source);
            let block = builder.and_then(|builder| Some((builder, self.compose(source, builder, now)?)));
            self.pass_slot(source);
            let state = &mut self.sources[source as usize];
            let Some((builder, (bytes, token))) = block else {
                state.idle_until = now + self.idle_time;
                continue;
            };
            state.leaving += 1;
            let destination = self.roster.builders()[builder as usize];
            return Next::Send(Message { source: sender, destination, bytes, token, born: now });
        }
    }

    fn delivered(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.end(message, now, false);
    }

    fn lost(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.end(message, now, true);
    }

    fn sent(&mut self, message: &Message, now: Picos, wake: &mut Wake) {
        let source = self.roster.source_at(message.source).expect("only sources send blocks");
        let state = &mut self.sources[source as usize];
        state.idle_until = state.idle_until.max(now + self.shape.guard);
        state.leaving -= 1;
        if state.leaving == 0 && self.is_at_end(source) {
            self.at_end += 1;
            if self.at_end == self.roster.source_count() {
                self.open_turn(now, wake);
            }
        }
    }

    fn complete_events(&self) -> u64 {
        self.book.counts().complete
    }

    fn ended_events(&self) -> u64 {
        self.book.counts().ended()
    }

    fn summary(&self) -> Summary {
        self.book.summary()
    }
}

/// Returns the bytes of a block: those that fit the slot without its guard.
fn block_bytes(shape: BarrelShifter, rate: Rate) -> Result<u32, SetupError> {
    let Some(slot) = shape.slot else {
        return Ok(shape.block_bytes);
    };
    if shape.guard >= slot {
        return Err(SetupError::Guard { guard: shape.guard, slot });
    }
    let open = slot - shape.guard;
    let bytes = u128::from(open.0) * u128::from(rate.0) / 8_000_000_000_000;
    let most = u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
    Ok(if shape.block_bytes == 0 { 0 } else { shape.block_bytes.min(most) })
}

fn mean_bytes(sizes: &FragmentSizes) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of sizes below 2^32")]
    let bytes = sizes.mean() as u64;
    bytes.max(1)
}

fn start_skew(shape: BarrelShifter, seed: u64, source: u32) -> Picos {
    let part = bits(seed, Purpose::StartSkew, u64::from(source), 0);
    let skew = (u128::from(part) * u128::from(shape.start_skew.0)) >> 64;
    Picos(u64::try_from(skew).unwrap_or(u64::MAX))
}

/// Between minus and plus half of the difference that is allowed between two clocks.
fn clock_ppb(shape: BarrelShifter, seed: u64, source: u32) -> i64 {
    let part = unit(bits(seed, Purpose::ClockRate, u64::from(source), 0)) - 0.5;
    #[expect(clippy::cast_possible_truncation, reason = "below 2^32 times 1000")]
    let ppb = (part * f64::from(shape.clock_ppm) * 1000.0) as i64;
    ppb
}

#[cfg(test)]
mod tests;
