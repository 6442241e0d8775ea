//! The end of a run that no builder unit, or no readout unit, is left for.
//!
//! Such a run takes no data, and nobody may be there to see it. It stays in dead time, which is counted, for some time
//! ([`ManagerConfig::desertion_timeout`](super::ManagerConfig::desertion_timeout)): nodes that are started again meanwhile go on with
//! it. Then it ends.

use super::{EventManager, ManagerEvent, ReadoutState, readout_node};
use sheaf_wire::{Role, Timestamp};

/// Nobody of a role is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Desertion {
    role: Role,
    since: Timestamp,
    /// Time of the last look.
    looked_at: Timestamp,
}

impl<P: Clone> EventManager<P> {
    /// Looks whether somebody is left of each role that a run needs, and ends the run when nobody has come for long enough.
    pub(super) fn look_for_deserters(&mut self, now: Timestamp) {
        let role = if self.phase.is_running() { self.deserted_role(now) } else { None };
        let Some(role) = role else {
            self.desertion = None;
            return;
        };
        let limit = self.config.desertion_timeout;
        let Some(Desertion { since, looked_at, .. }) = self.desertion.filter(|before| before.role == role)
        else {
            self.desertion = Some(Desertion { role, since: now, looked_at: now });
            self.events.push_back(ManagerEvent::Deserted { role, limit });
            return;
        };
        // Where this node was held up itself, the time for others to come begins anew.
        let was_held_up = now.since(looked_at) >= self.config.patience.absence;
        let since = if was_held_up { now } else { since };
        self.desertion = Some(Desertion { role, since, looked_at: now });
        if now.since(since) >= limit {
            self.dead_time.end(now);
            self.phase.give_up(now);
            self.events.push_back(ManagerEvent::GivenUp { role, limit });
        }
    }

    fn deserted_role(&self, now: Timestamp) -> Option<Role> {
        let is_gone = |index| self.is_gone(index, now);
        if self.builders.iter().all(|(_, builder)| !builder.lives()) {
            Some(Role::Builder)
        } else {
            (0..self.readouts.len()).all(is_gone).then_some(Role::Readout)
        }
    }

    /// Returns whether a readout unit was never there, or has died and was given up. One whose link is up may be frozen, and resume.
    fn is_gone(&self, index: usize, now: Timestamp) -> bool {
        let node = readout_node(index);
        self.peers.is_lost(node, now) && !self.peers.is_up(node)
    }

    /// Returns whether the sources of all remaining readout units have ended. That none remains says nothing about sources.
    pub(super) fn all_sources_ended(&self, now: Timestamp) -> bool {
        // Sources that know how many events there are to be run ahead of the triggers, and end before the last of them.
        if self.config.triggers != super::Triggers::Announced && self.config.max_events.is_some() {
            return false;
        }
        let has_ended = |readout: &ReadoutState| {
            readout.status.is_some_and(|status| status.sources_ended >= status.sources)
        };
        self.readouts.iter().any(has_ended)
            && self
                .readouts
                .iter()
                .enumerate()
                .all(|(index, readout)| has_ended(readout) || self.is_gone(index, now))
    }
}
