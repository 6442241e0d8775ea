//! The end of a run without any builder unit, or without any readout unit.
//!
//! Such a run takes no data, perhaps unattended. It stays in dead time, which is counted, for a limited time
//! ([`ManagerConfig::desertion_timeout`]), during which restarted nodes continue it. Then it ends.

use super::{ManagerConfig, ManagerEvent};
use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Role, Timestamp};

/// State while no node of a role is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Deserted {
    role: Role,
    since: Timestamp,
    /// Time of the last check.
    checked_at: Timestamp,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Desertion {
    /// Time that the run waits.
    limit: Nanos,
    /// If no check was made for this time, this node was stalled itself.
    absence: Nanos,
    deserted: Option<Deserted>,
}

impl Desertion {
    pub(super) fn new(config: &ManagerConfig) -> Self {
        Self { limit: config.desertion_timeout, absence: config.patience.absence, deserted: None }
    }

    /// Records the role without any node left, if there is one. Returns an event if that began now, or has lasted so
    /// long that the run ends ([`ManagerEvent::GivenUp`]).
    pub(super) fn check(&mut self, now: Timestamp, role: Option<Role>) -> Option<ManagerEvent> {
        let Some(role) = role else {
            self.deserted = None;
            return None;
        };
        let limit = self.limit;
        let Some(Deserted { since, checked_at, .. }) = self.deserted.filter(|before| before.role == role)
        else {
            self.deserted = Some(Deserted { role, since: now, checked_at: now });
            return Some(ManagerEvent::Deserted { role, limit });
        };
        // If this node was stalled itself, the time limit restarts.
        let was_stalled = now.since(checked_at) >= self.absence;
        let since = if was_stalled { now } else { since };
        self.deserted = Some(Deserted { role, since, checked_at: now });
        (now.since(since) >= limit).then_some(ManagerEvent::GivenUp { role, limit })
    }
}
