//! Events that may be the cause of the death of builder units.
//!
//! A builder unit that dies has hundreds of events, and at most one of them is the cause. So a death counts as a failed attempt of an
//! event ([`ManagerConfig::max_attempts`](super::ManagerConfig::max_attempts)) only if no other event can be the cause: it was the
//! only event, or the only *suspect*, which is an event that was already in a builder unit that died. To find the cause among
//! suspects, the number of suspects assigned to one builder unit decreases with the deaths that they have seen, down to one.

use super::entry::Entry;
use serde::{Deserialize, Serialize};

/// Maximum number of suspects at a builder unit, by the deaths that they have seen: one, two, and more.
const ROOM: [u32; 3] = [64, 8, 1];

/// Suspects at a builder unit.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Suspects {
    count: u32,
    /// Smallest limit of any of them.
    room: u32,
}

impl Entry {
    pub(super) fn is_suspect(&self) -> bool {
        self.deaths > 0
    }

    /// Returns the maximum number of suspects in a builder unit that has this one.
    fn room(&self) -> u32 {
        let deaths = usize::from(self.deaths).clamp(1, ROOM.len());
        if self.is_suspect() { ROOM[deaths - 1] } else { u32::MAX }
    }
}

impl Suspects {
    /// Returns whether this event may be assigned to the builder unit, too.
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
