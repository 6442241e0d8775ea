//! Counts of callers that a door did not let in.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reason why a caller was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorRefusal {
    /// Its process belongs to another user of the host.
    AnotherUser,
    /// It sent nothing in the time that a greeting may take, or hung up before.
    Silent,
    /// Its greeting is not one of this release of Sheaf.
    NotUnderstood,
    /// There were as many guests as the door admits.
    Full,
}

impl DoorRefusal {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::AnotherUser, Self::Silent, Self::NotUnderstood, Self::Full];
}

impl fmt::Display for DoorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnotherUser => "its process belongs to another user of this host",
            Self::Silent => "it sent no greeting",
            Self::NotUnderstood => "its greeting is not one of this release of Sheaf",
            Self::Full => "as many programs are connected as the node admits",
        })
    }
}

/// Counts by reason, written by the door's thread and read by the node's.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; DoorRefusal::ALL.len()]);

impl Refusals {
    pub(super) fn count(&self, reason: DoorRefusal) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn of(&self, reason: DoorRefusal) -> u64 {
        self.0[reason as usize].load(Ordering::Relaxed)
    }
}
