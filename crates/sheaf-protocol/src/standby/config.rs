//! Parameters of two replicas of the event manager, and what follows from them.

use super::proposer::VoteTimes;
use crate::channel::ChannelTimes;
use sheaf_wire::{Nanos, NodeId};

/// Number of signs of life within the silence after which the active replica is suspected.
const HEARTBEATS: u64 = 5;

/// Longest interval of signs of life. Requests to voters are repeated as often, and a process whose end the kernel has reported is succeeded
/// at once, however long a silent one may be silent.
const LONGEST_HEARTBEAT: Nanos = Nanos::from_millis(100);

/// Times of the replicas.
#[derive(Clone, Copy, Debug)]
pub struct StandbyTimes {
    /// Silence after which the active replica is suspected.
    pub suspicion: Nanos,
    /// Time for which messages wait for the standby before it is struck off.
    pub lag: Nanos,
    /// Time for which the active replica waits for its standby before the run begins.
    pub start: Nanos,
    /// Time without a majority of the voters after which the replica gives up.
    pub quorum: Nanos,
}

impl StandbyTimes {
    /// Returns the interval of signs of life to the other replica and to voters.
    pub(super) fn heartbeat(&self) -> Nanos {
        Nanos(self.suspicion.0 / HEARTBEATS).min(LONGEST_HEARTBEAT)
    }

    /// Returns the times of requests to voters.
    pub(super) fn votes(&self) -> VoteTimes {
        let heartbeat = self.heartbeat();
        VoteTimes { retransmit: Nanos(heartbeat.0 / 2), retry: Nanos(heartbeat.0 / 4) }
    }
}

/// Parameters of a replica.
#[derive(Clone, Debug)]
pub struct StandbyConfig {
    /// The voters, in the same order at both replicas.
    pub voters: Vec<NodeId>,
    /// All nodes of the run.
    pub nodes: Vec<NodeId>,
    /// Times of the replicas.
    pub times: StandbyTimes,
    /// Number of rounds after which digests are compared.
    pub rounds_per_digest: u32,
    /// Times of the channel between them.
    pub channel: ChannelTimes,
}

/// Returns the nodes that vote: of the candidates, the largest odd number up to `most`, in their order.
#[must_use]
pub fn voters(candidates: impl IntoIterator<Item = NodeId>, most: usize) -> Vec<NodeId> {
    let mut voters: Vec<NodeId> = candidates.into_iter().take(most).collect();
    if voters.len().is_multiple_of(2) {
        voters.pop();
    }
    voters
}

/// Returns the silence of the active replica after which a voter agrees to a take-over. It is shorter than `suspicion`, so that voters agree
/// before the standby asks them.
#[must_use]
pub const fn voters_silence(suspicion: Nanos) -> Nanos {
    Nanos(suspicion.0 - suspicion.0 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_and_votes_do_not_wait_for_a_long_suspicion() {
        let times = |suspicion| {
            let other = Nanos::from_secs(1);
            StandbyTimes { suspicion, lag: other, start: other, quorum: other }
        };
        assert_eq!(times(Nanos::from_millis(250)).heartbeat(), Nanos::from_millis(50));
        let patient = times(Nanos::from_secs(600));
        assert_eq!(patient.heartbeat(), LONGEST_HEARTBEAT);
        assert!(patient.votes().retransmit < LONGEST_HEARTBEAT);
    }
}
