//! Two replicas of the event manager: who votes which is active, and their time limits.

use crate::plan::Plan;
use sheaf_config::{Config, NodeConfig};
use sheaf_protocol::standby::{self, StandbyConfig, StandbyTimes};
use sheaf_wire::{Nanos, NodeId, Role};

/// Number of rounds after which digests of the replicas are compared.
const ROUNDS_PER_DIGEST: u32 = 1_024;

/// Time without a majority of the voters after which an event manager gives up.
const QUORUM: Nanos = Nanos::from_secs(10);

/// Returns those of the nodes that vote: an odd number, at most as many as configured.
pub(crate) fn voters(config: &Config, nodes: &[NodeConfig]) -> Vec<NodeId> {
    let roles = [Role::Readout, Role::Output, Role::Builder];
    let of_role = |role| nodes.iter().filter(move |node| node.id.role == role);
    let candidates = roles.into_iter().flat_map(of_role).map(|node| node.id);
    standby::voters(candidates, usize::from(config.manager.voters))
}

impl Plan {
    /// Returns whether the event manager has a standby.
    pub(crate) fn has_standby(&self) -> bool {
        self.count(Role::Manager) > 1
    }

    /// Returns the nodes that vote: an odd number, at most as many as configured.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        voters(&self.config, &self.nodes)
    }

    /// Returns the silence of the event manager after which a node agrees to a take-over, if the node votes.
    pub(crate) fn vote_of(&self, node: NodeId) -> Option<Nanos> {
        let is_voter = self.voters().contains(&node);
        is_voter.then(|| standby::voters_silence(self.config.manager.suspect_after))
    }

    /// Returns the configuration of the replicas.
    pub(crate) fn standby(&self) -> StandbyConfig {
        let manager = &self.config.manager;
        let nodes = self.nodes.iter().map(|node| node.id).filter(|node| node.role != Role::Manager);
        StandbyConfig {
            voters: self.voters(),
            nodes: nodes.collect(),
            times: StandbyTimes {
                suspicion: manager.suspect_after,
                lag: manager.standby_lag,
                start: manager.start_timeout,
                quorum: QUORUM,
            },
            rounds_per_digest: ROUNDS_PER_DIGEST,
            channel: self.channel(),
        }
    }
}
