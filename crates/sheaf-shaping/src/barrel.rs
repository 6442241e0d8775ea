//! The barrel shifter, from the view of one of its senders.
//!
//! In slot *t* source *i* serves builder *(i + t) mod n*, so that no two sources send to one builder at once, and no
//! output of the switch is overloaded. *n* is the number of builders, or of sources if there are more; a source without
//! a builder in a slot is idle in it.
//!
//! A slot carries a *block*: a number of bytes from the queue of its builder, regardless of fragment boundaries. A
//! block that is partly empty takes as long as a full one if the line's rate is known, so that sources stay in step.
//!
//! - **Free-running**: the next slot begins when the block has been sent and its time is over; if the line has no rate,
//!   when the block has been sent or nothing waits. Pieces do not divide a block: a piece of which at least half fits
//!   is sent, and the excess is taken from the next block; a rest of less than half a piece is added to that. So a line
//!   carries its blocks on average. Slots begin by the source's clock, even after a pause. A builder's link that takes
//!   nothing holds its slot, and so delays the source: in this way the network separates sources that share a slot. It
//!   holds for at most `patience`.
//! - **Synchronised**: slot *t* begins *t* times (a block's time plus the guard) after the epoch. Data that could not
//!   be sent before the guard begins wait for the next turn; a user that cuts pieces fills the slot with a shorter one.

use super::block_time;
use sheaf_wire::{ByteCount, ByteRate, Nanos, Timestamp};

/// When slots begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotSchedule {
    /// By the source's own work.
    FreeRunning,
    /// By the clock, from an epoch that the event manager announces. Needs a line rate.
    Synchronised,
}

/// Configuration of a barrel shifter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrelConfig {
    /// Number of builders.
    pub builders: usize,
    /// Number of sources.
    pub senders: usize,
    /// Bytes on the wire that a slot carries: at least one unit, or two where slots are synchronised. A source that is
    /// late for its slot, because its thread slept, sends less: slots should be much longer than that delay.
    pub block: ByteCount,
    /// Between two blocks nothing is sent for this time: clocks differ, and cables.
    pub guard: Nanos,
    /// When slots begin.
    pub slots: SlotSchedule,
    /// Free-running: how long a link that takes nothing holds its slot.
    pub patience: Nanos,
}

/// Data that wait for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes that wait for it.
    pub bytes: u64,
    /// Its link takes nothing now.
    pub is_pressed: bool,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Barrel {
    config: BarrelConfig,
    unit: u64,
    /// Synchronised: a piece is cut to the rest of its slot, unless that is less than this; a unit if pieces are whole.
    least: u64,
    block: u64,
    me: u64,
    /// Slots of a turn.
    turn: u64,
    rate: Option<ByteRate>,
    epoch: Timestamp,
    /// The slot that is open or comes next.
    slot: u64,
    /// When it began, or begins.
    begins: Timestamp,
    /// Rest of its block; below zero if a piece exceeded it.
    left: i64,
    /// Something went to its builder.
    was_used: bool,
    /// Its builder's link took nothing for some of its time.
    was_pressed: bool,
    passed: u64,
    passed_empty: u64,
}

impl Barrel {
    /// The barrel of source `me`, whose largest piece has `unit` bytes.
    #[must_use]
    pub fn new(config: BarrelConfig, rate: Option<ByteRate>, unit: u64, me: usize) -> Self {
        assert!(
            rate.is_some() || config.slots == SlotSchedule::FreeRunning,
            "synchronised slots have a length only where the line has a rate"
        );
        // A source that is a little late for its slot must still get a unit into it.
        let units = if config.slots == SlotSchedule::Synchronised { 2 } else { 1 };
        let block = config.block.0.max(units * unit);
        Self {
            unit,
            least: unit,
            block,
            me: me as u64,
            turn: config.builders.max(config.senders).max(1) as u64,
            rate,
            epoch: Timestamp::ZERO,
            slot: 0,
            begins: Timestamp::ZERO,
            left: signed(block),
            was_used: false,
            was_pressed: false,
            passed: 0,
            passed_empty: 0,
            config,
        }
    }

    /// Pieces are cut to the rest of a synchronised slot, but not below `least` bytes.
    pub fn cut_from(&mut self, least: u64) {
        self.least = least.clamp(1, self.unit);
    }

    /// The largest piece that may go where `left` bytes of a block are left.
    #[must_use]
    pub fn largest_piece(&self, left: u64) -> u64 {
        match self.config.slots {
            SlotSchedule::FreeRunning => self.unit,
            SlotSchedule::Synchronised => self.unit.min(left),
        }
    }

    /// Returns the number of builders.
    #[must_use]
    pub fn builders(&self) -> usize {
        self.config.builders
    }

    /// Begins anew with the present slot.
    pub fn begin(&mut self, now: Timestamp) {
        self.begins = self.begins.max(now);
        self.left = signed(self.block);
    }

    /// Slots are counted from `epoch`. Without effect where they are free-running.
    pub fn set_epoch(&mut self, epoch: Timestamp) {
        self.epoch = epoch;
    }

    /// Slots that have passed, and how many of them carried nothing.
    #[must_use]
    pub fn slots_passed(&self) -> (u64, u64) {
        (self.passed, self.passed_empty)
    }

    /// Returns the time for which a slot is open, if known.
    fn open_time(&self) -> Option<Nanos> {
        self.rate.map(|rate| block_time(rate, self.block))
    }

    /// From the beginning of a slot to the beginning of the next, if that is known.
    fn slot_time(&self) -> Option<Nanos> {
        self.open_time().map(|open| open + self.config.guard)
    }

    /// Returns the builder of a slot; `None` if there are more sources than builders and the slot has none.
    fn builder_in(&self, slot: u64) -> Option<usize> {
        let place = usize::try_from((self.me + slot) % self.turn).ok()?;
        (place < self.config.builders).then_some(place)
    }

    /// Skips the slots that have passed while nothing waited: they were empty.
    pub fn catch_up(&mut self, now: Timestamp) {
        if self.config.slots == SlotSchedule::FreeRunning
            && let Some(slot_time) = self.slot_time()
        {
            let slots = now.since(self.begins).0 / slot_time.0.max(1);
            if slots > 0 {
                let at = Timestamp(self.begins.0 + slots * slot_time.0);
                self.go_to(self.slot + slots, at, 0);
            }
        }
    }

    /// Returns the peer that is served now, and the number of bytes left in its block; or when a peer may be served.
    ///
    /// # Errors
    /// When to ask again, if nothing changes before; `None`: not without a change.
    pub fn choose(
        &mut self,
        now: Timestamp,
        waiting: impl Fn(usize) -> Waiting,
    ) -> Result<(usize, u64), Option<Timestamp>> {
        match self.config.slots {
            SlotSchedule::FreeRunning => self.choose_free(now, waiting),
            SlotSchedule::Synchronised => self.choose_by_clock(now, waiting),
        }
    }

    /// Takes note that `bytes` went to a peer.
    pub fn spent(&mut self, now: Timestamp, peer: usize, bytes: u64) {
        if self.builder_in(self.slot) == Some(peer) && self.begins <= now {
            self.left = self.left.saturating_sub_unsigned(bytes);
            self.was_used = true;
        }
    }

    fn choose_free(
        &mut self,
        now: Timestamp,
        waiting: impl Fn(usize) -> Waiting,
    ) -> Result<(usize, u64), Option<Timestamp>> {
        // Where a slot has no length, a turn of slots without anything to send is passed at once, but only one.
        let mut looks = self.turn;
        loop {
            if self.begins > now {
                return Err(Some(self.begins));
            }
            let builder = self.builder_in(self.slot);
            let waits = builder.map_or(Waiting { bytes: 0, is_pressed: false }, &waiting);
            let piece = self.unit.min(waits.bytes.max(1));
            let fits = u64::try_from(self.left).unwrap_or(0);
            if fits < piece.div_ceil(2) {
                self.pass_full(now);
                continue;
            }
            if let (Some(builder), true) = (builder, waits.bytes > 0) {
                if !waits.is_pressed {
                    return Ok((builder, fits));
                }
                self.was_pressed = true;
                let until = self.begins + self.config.patience;
                if now < until {
                    return Err(Some(until));
                }
            }
            match self.open_time() {
                Some(open) => {
                    let ends = self.begins + open;
                    if now < ends {
                        return Err(Some(ends));
                    }
                    let begins = if self.was_pressed { now } else { ends };
                    self.go_to(self.slot + 1, begins + self.config.guard, 0);
                }
                None if looks == 0 => return Err(None),
                None => {
                    looks -= 1;
                    self.go_to(self.slot + 1, now, 0);
                }
            }
        }
    }

    fn choose_by_clock(
        &mut self,
        now: Timestamp,
        waiting: impl Fn(usize) -> Waiting,
    ) -> Result<(usize, u64), Option<Timestamp>> {
        let (Some(rate), Some(open), Some(slot_time)) = (self.rate, self.open_time(), self.slot_time())
        else {
            return Err(None);
        };
        if now < self.epoch {
            return Err(Some(self.epoch));
        }
        let slot = now.since(self.epoch).0 / slot_time.0.max(1);
        let begins = self.epoch + Nanos(slot * slot_time.0);
        if slot != self.slot || begins != self.begins {
            self.go_to(slot, begins, 0);
        }
        let next = begins + slot_time;
        let Some(builder) = self.builder_in(slot) else {
            return Err(Some(next));
        };
        let waits = waiting(builder);
        let open_for = rate.bytes_in((begins + open).since(now)).0;
        let left = u64::try_from(self.left).unwrap_or(0).min(open_for);
        if waits.bytes == 0 || waits.is_pressed || left < waits.bytes.min(self.least) {
            return Err(Some(next));
        }
        Ok((builder, left))
    }

    /// Ends a slot whose block has been sent.
    fn pass_full(&mut self, now: Timestamp) {
        let begins = match self.slot_time() {
            // A delay of the thread itself is made up for, by up to a slot; a delay of the network is not: it separates
            // sources that share a slot.
            Some(slot_time) if !self.was_pressed => {
                (self.begins + slot_time).max(Timestamp(now.0.saturating_sub(slot_time.0)))
            }
            _ => now + self.config.guard,
        };
        self.go_to(self.slot + 1, begins, self.left);
    }

    /// Advances to a later slot, whose block has `more` bytes than others, or fewer.
    fn go_to(&mut self, slot: u64, begins: Timestamp, more: i64) {
        self.passed += slot.saturating_sub(self.slot);
        let skipped = slot.saturating_sub(self.slot + 1);
        self.passed_empty += skipped + u64::from(!self.was_used && slot > self.slot);
        self.slot = slot;
        self.begins = begins;
        self.left = signed(self.block).saturating_add(more);
        self.was_used = false;
        self.was_pressed = false;
    }
}

/// Bytes of a block, of which there are far fewer than this can be.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
