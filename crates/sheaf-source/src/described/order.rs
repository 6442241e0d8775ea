//! Packets that wait for those before them.

use super::rollover::Rollover;
use sheaf_wire::{Nanos, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Missing packets that are remembered, to tell a late packet from a repeated one.
const REMEMBERED: usize = 4096;

/// Packets that a counter can skip. One that skips more has begun anew.
const LARGEST_GAP: u64 = 65_536;

/// Buffers that are kept for later use.
const SPARE_BUFFERS: usize = 64;

/// Fates of the packets of a source by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Packets that have not come.
    pub lost: u64,
    /// Packets that waited for another.
    pub waited: u64,
    /// Packets that came after the wait for them had ended. They are read, and do not count as lost.
    pub late: u64,
    /// Packets that had come before.
    pub repeated: u64,
    /// Times that the counter jumped farther than packets can be lost.
    pub jumps: u64,
}

/// Decision about a packet that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is read now. [`Order::next_held`] returns those that are read next.
    Now,
    /// It waits, and was copied.
    Waits,
    /// It has come before.
    Repeated,
    /// The counter has begun anew. The held packets have their turn ([`Order::take_held`]), then it does, after
    /// [`Order::restart`].
    Jumped,
}

/// The packets of one source, put in the order of their numbers.
#[derive(Debug)]
pub struct Order {
    numbers: Rollover,
    /// At most this many packets wait.
    most: usize,
    /// No packet waits longer.
    wait: Nanos,
    /// Number of the next packet, and the lowest number so far.
    next: Option<(u64, u64)>,
    held: BTreeMap<u64, Vec<u8>>,
    /// PacketPath of the packet that waits longest.
    since: Timestamp,
    missing: BTreeSet<u64>,
    /// Repeated packets since one that was not.
    in_a_row: usize,
    spare: Vec<Vec<u8>>,
    counts: OrderCounts,
}

impl Order {
    /// Returns the order of packets with numbers of `bits`, of which `most` wait no longer than `wait`.
    #[must_use]
    pub fn new(bits: u32, most: usize, wait: Nanos) -> Self {
        Self {
            numbers: Rollover::new(bits),
            most,
            wait,
            next: None,
            held: BTreeMap::new(),
            since: Timestamp(0),
            missing: BTreeSet::new(),
            in_a_row: 0,
            spare: Vec::new(),
            counts: OrderCounts::default(),
        }
    }

    /// Decides about a packet with the number that it shows.
    pub fn handle(&mut self, now: Timestamp, shown: u64, packet: &[u8]) -> Turn {
        let turn = match self.numbers.unroll(shown) {
            Some(number) => self.turn(now, number, packet),
            None => Turn::Jumped,
        };
        match turn {
            Turn::Repeated if self.in_a_row < self.most => {
                self.in_a_row += 1;
                self.counts.repeated += 1;
                Turn::Repeated
            }
            // No network repeats so many. The front end has started again.
            Turn::Repeated | Turn::Jumped => {
                self.counts.jumps += 1;
                Turn::Jumped
            }
            Turn::Now | Turn::Waits => {
                self.in_a_row = 0;
                turn
            }
        }
    }

    fn turn(&mut self, now: Timestamp, number: u64, packet: &[u8]) -> Turn {
        let Some((next, lowest)) = self.next else {
            self.next = Some((number.saturating_add(1), number));
            return Turn::Now;
        };
        if number == next {
            self.next = Some((next.saturating_add(1), lowest));
            return Turn::Now;
        }
        if number < next {
            return self.turn_of_earlier(number, (next, lowest));
        }
        if number - next > LARGEST_GAP {
            return Turn::Jumped;
        }
        if self.held.contains_key(&number) {
            return Turn::Repeated;
        }
        if self.held.is_empty() {
            self.since = now;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(packet);
        self.held.insert(number, copy);
        self.counts.waited += 1;
        Turn::Waits
    }

    fn turn_of_earlier(&mut self, number: u64, (next, lowest): (u64, u64)) -> Turn {
        if self.missing.remove(&number) {
            self.counts.lost -= 1;
        } else if number >= lowest {
            return Turn::Repeated;
        } else if lowest - number > LARGEST_GAP {
            return Turn::Jumped;
        } else {
            // It was on its way when the first packet overtook it.
            self.next = Some((next, number));
            self.miss(number + 1..lowest);
        }
        self.counts.late += 1;
        Turn::Now
    }

    /// Returns the next packet that has its turn: all before it have come, or nothing is awaited any more.
    pub fn next_held(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let (next, _) = self.next?;
        let (&number, _) = self.held.first_key_value()?;
        if number > next {
            if self.held.len() <= self.most && now < self.since + self.wait {
                return None;
            }
            self.miss(next..number);
            // Those that wait for a later gap begin to wait now.
            self.since = now;
        }
        self.take_first(number)
    }

    /// Returns the next packet that waits, whatever it waits for.
    pub fn take_held(&mut self) -> Option<Vec<u8>> {
        let (next, _) = self.next?;
        let (&number, _) = self.held.first_key_value()?;
        self.miss(next..number);
        self.take_first(number)
    }

    /// Takes back a buffer of [`Order::next_held`].
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Begins anew with the next packet. No packet waits at that time.
    pub fn restart(&mut self) {
        self.numbers.restart();
        self.next = None;
        self.in_a_row = 0;
        self.missing.clear();
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> OrderCounts {
        self.counts
    }

    fn take_first(&mut self, number: u64) -> Option<Vec<u8>> {
        let (_, lowest) = self.next?;
        self.next = Some((number.saturating_add(1), lowest));
        self.held.remove(&number)
    }

    fn miss(&mut self, numbers: Range<u64>) {
        self.counts.lost += numbers.end - numbers.start;
        self.missing.extend(numbers.end.saturating_sub(REMEMBERED as u64).max(numbers.start)..numbers.end);
        while self.missing.len() > REMEMBERED {
            self.missing.pop_first();
        }
    }
}
