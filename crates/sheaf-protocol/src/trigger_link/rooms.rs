//! Room for triggers in the buffers of a run, and whether it is short.

use sheaf_wire::Timestamp;
use sheaf_wire::trigger_link::BusyReason;
use std::collections::BTreeSet;

/// Buffer whose room limits the triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// Events that wait for a builder unit.
    Queue,
    /// Payloads of triggers that wait for their readout unit.
    Payloads,
    /// Fragments in the readout unit of this index.
    Readout(u16),
}

impl Buffer {
    /// Returns whether triggers without room in it must wait. Readout units that are full hold their sources back instead.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Self::Queue | Self::Payloads)
    }
}

/// Room for triggers in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The buffer.
    pub buffer: Buffer,
    /// Number of further triggers for which it has room.
    pub free: u64,
    /// Number of further triggers that it takes, at least `free`. It is larger if something other than triggers has used room: triggers
    /// in flight need the room that was kept for them.
    pub accepts: u64,
    /// Number of triggers for which it has room when it is empty.
    pub capacity: u64,
    /// Reason of busy if the room is short.
    pub reason: BusyReason,
}

impl Room {
    /// Returns the room that is kept free for triggers in flight. In a small readout unit it is half of the room, so that the unit is
    /// used at all; what does not fit waits in its sources.
    fn reserve(&self, reserve: u64) -> u64 {
        if self.buffer.is_bound() { reserve.min(self.capacity) } else { reserve.min(self.capacity / 2) }
    }

    /// Returns whether the room is short, with hysteresis: at the reserve, and from then on until half of the rest is free.
    fn is_short(&self, reserve: u64, waiting: u64, was_short: bool) -> bool {
        let (free, reserve) = (self.free.saturating_sub(waiting), self.reserve(reserve));
        let enough = reserve + (self.capacity - reserve).div_ceil(2);
        if was_short { free < enough } else { free <= reserve }
    }
}

/// The rooms of all buffers.
#[derive(Clone, Debug)]
pub(super) struct Rooms {
    rooms: Vec<Room>,
    short: BTreeSet<Buffer>,
    /// The buffer for which busy is raised: the first one whose room was short, as long as it is short.
    leading: Option<Buffer>,
    /// When busy was raised, released, or raised for another buffer.
    turned_at: Timestamp,
}

impl Rooms {
    pub(super) fn new(rooms: Vec<Room>) -> Self {
        Self { rooms, short: BTreeSet::new(), leading: None, turned_at: Timestamp::ZERO }
    }

    /// Replaces the rooms.
    pub(super) fn set(&mut self, rooms: impl IntoIterator<Item = Room>) {
        self.rooms.clear();
        self.rooms.extend(rooms);
    }

    /// Returns the number of triggers that all bounded buffers take.
    pub(super) fn free(&self) -> u64 {
        let bounded = self.rooms.iter().filter(|room| room.buffer.is_bound());
        bounded.map(|room| room.accepts).min().unwrap_or(u64::MAX)
    }

    /// Records that a trigger was taken.
    pub(super) fn take(&mut self) {
        for room in &mut self.rooms {
            room.free = room.free.saturating_sub(1);
            room.accepts = room.accepts.saturating_sub(1);
        }
    }

    /// Decides which rooms are short, if `waiting` triggers are to be taken.
    pub(super) fn update(&mut self, now: Timestamp, reserve: u64, waiting: u64) {
        let Self { rooms, short, .. } = self;
        let was_short = std::mem::take(short);
        for room in rooms.iter() {
            if room.is_short(reserve, waiting, was_short.contains(&room.buffer)) {
                short.insert(room.buffer);
            }
        }
        if self.leading.is_none_or(|leading| !self.short.contains(&leading)) {
            let first = self.rooms.iter().filter(|room| self.short.contains(&room.buffer));
            let first = first.min_by_key(|room| room.free).map(|room| room.buffer);
            if first != self.leading {
                (self.leading, self.turned_at) = (first, now);
            }
        }
    }

    /// Returns the reason for busy.
    pub(super) fn reason(&self) -> Option<BusyReason> {
        let leading = self.leading?;
        self.rooms.iter().find(|room| room.buffer == leading).map(|room| room.reason)
    }

    /// Returns when busy was raised or released.
    pub(super) fn turned_at(&self) -> Timestamp {
        self.turned_at
    }
}
