//! Two replicas of the event manager: who votes which is active, and their time limits.

use crate::plan::Plan;
use sheaf_protocol::standby::{StandbyConfig, StandbyTimes, VoteTimes};
use sheaf_wire::{Nanos, NodeId, Role};

/// Part of `manager.suspect_after_ms` after which a voter does not hear the event manager any more: it agrees to a take-over before the
/// standby asks for it.
const VOTERS_PART: u64 = 4;

/// Number of signs of life within `manager.suspect_after_ms`.
const HEARTBEATS: u64 = 5;

/// Number of rounds after which digests of the replicas are compared.
const ROUNDS_PER_DIGEST: u32 = 1_024;

/// Time without a majority of the voters after which an event manager gives up.
const QUORUM: Nanos = Nanos::from_secs(10);

impl Plan {
    /// Returns whether the event manager has a standby.
    pub(crate) fn has_standby(&self) -> bool {
        self.count(Role::Manager) > 1
    }

    /// Returns the nodes that vote: an odd number, at most as many as configured.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        let roles = [Role::Readout, Role::Output, Role::Builder];
        let candidates: Vec<NodeId> =
            roles.into_iter().flat_map(|role| self.of_role(role)).map(|node| node.id).collect();
        let most = candidates.len().min(usize::from(self.config.manager.voters));
        let odd = if most.is_multiple_of(2) { most.saturating_sub(1) } else { most };
        candidates.into_iter().take(odd).collect()
    }

    /// Returns the silence of the event manager after which a node agrees to a take-over, if the node votes.
    pub(crate) fn vote_of(&self, node: NodeId) -> Option<Nanos> {
        let suspect_after = self.config.manager.suspect_after;
        let is_voter = self.voters().contains(&node);
        is_voter.then_some(Nanos(suspect_after.0 - suspect_after.0 / VOTERS_PART))
    }

    /// Returns the configuration of the replicas.
    pub(crate) fn standby(&self) -> StandbyConfig {
        let manager = &self.config.manager;
        let nodes = self.nodes.iter().map(|node| node.id).filter(|node| node.role != Role::Manager);
        let heartbeat = Nanos(manager.suspect_after.0 / HEARTBEATS);
        StandbyConfig {
            voters: self.voters(),
            nodes: nodes.collect(),
            times: StandbyTimes {
                heartbeat,
                suspicion: manager.suspect_after,
                lag: manager.standby_lag,
                start: manager.start_timeout,
                quorum: QUORUM,
            },
            rounds_per_digest: ROUNDS_PER_DIGEST,
            channel: self.channel(),
            votes: VoteTimes { retransmit: Nanos(heartbeat.0 / 2), retry: Nanos(heartbeat.0 / 4) },
        }
    }
}
