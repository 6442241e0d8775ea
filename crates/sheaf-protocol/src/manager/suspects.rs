//! Events that may be what builder units die of.
//!
//! A builder unit that dies takes hundreds of events with it, and at most one of them is the cause. So a death costs an event one of
//! its attempts ([`ManagerConfig::max_attempts`](super::ManagerConfig::max_attempts)) only where nothing else there can be the
//! cause: it was the only event, or the only *suspect*, which is an event that was in a builder unit that died before. To find
//! the cause among suspects, fewer of them are given to one builder unit the more deaths they have seen, down to one at a time.

use super::entry::Entry;

/// Number of suspects that a builder unit has at most, by the deaths that they have seen: one, two, and more.
const ROOM: [u32; 3] = [64, 8, 1];

/// Suspects at a builder unit.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    count: u32,
    /// The least room that one of them asks for.
    room: u32,
}

impl Entry {
    pub(super) fn is_suspect(&self) -> bool {
        self.deaths > 0
    }

    /// Number of suspects that may be in a builder unit together with this one.
    fn room(&self) -> u32 {
        let deaths = usize::from(self.deaths).clamp(1, ROOM.len());
        if self.is_suspect() { ROOM[deaths - 1] } else { u32::MAX }
    }
}

impl Suspects {
    /// Returns whether the builder unit may be given this event, too.
    pub(super) fn may_take(&self, entry: &Entry) -> bool {
        let room = if self.count == 0 { u32::MAX } else { self.room };
        !entry.is_suspect() || self.count < room.min(entry.room())
    }

    pub(super) fn add(&mut self, entry: &Entry) {
        if entry.is_suspect() {
            self.room = if self.count == 0 { entry.room() } else { self.room.min(entry.room()) };
            self.count += 1;
        }
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.count -= u32::from(entry.is_suspect());
    }
}
