//! Votes of one step, of sessions that have not ended.

use sheaf_wire::message::VoterLife;
use sheaf_wire::{NodeId, SessionId};
use std::collections::BTreeMap;

/// Latest known session of each voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lives(BTreeMap<NodeId, SessionId>);

impl Lives {
    pub(super) fn note(&mut self, life: VoterLife) {
        let session = self.0.entry(life.node).or_insert(life.session);
        *session = life.session.max(*session);
    }

    /// Notes a session of a voter that is known.
    pub(super) fn update(&mut self, life: VoterLife) {
        if self.0.contains_key(&life.node) {
            self.note(life);
        }
    }

    /// Notes the sessions of those that are `voters`.
    pub(super) fn merge(&mut self, lives: &[VoterLife], voters: &[NodeId]) {
        for life in lives.iter().filter(|life| voters.contains(&life.node)) {
            self.note(*life);
        }
    }

    pub(super) fn is_current(&self, life: VoterLife) -> bool {
        self.0.get(&life.node).is_none_or(|known| *known <= life.session)
    }

    pub(super) fn to_vec(&self) -> Vec<VoterLife> {
        self.0.iter().map(|(node, session)| VoterLife { node: *node, session: *session }).collect()
    }
}

/// Votes of one step of a ballot, at most one of each voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tally<V>(BTreeMap<NodeId, (SessionId, V)>);

impl<V> Tally<V> {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn insert(&mut self, life: VoterLife, vote: V) {
        self.0.insert(life.node, (life.session, vote));
    }

    pub(super) fn remove(&mut self, voter: NodeId) {
        self.0.remove(&voter);
    }

    /// Drops votes of sessions that have ended.
    pub(super) fn drop_ended(&mut self, lives: &Lives) {
        self.0.retain(|node, (session, _)| lives.is_current(VoterLife { node: *node, session: *session }));
    }

    pub(super) fn contains(&self, voter: NodeId) -> bool {
        self.0.contains_key(&voter)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn votes(&self) -> impl Iterator<Item = &V> {
        self.0.values().map(|(_, vote)| vote)
    }

    pub(super) fn lives(&self) -> Vec<VoterLife> {
        self.0.iter().map(|(node, (session, _))| VoterLife { node: *node, session: *session }).collect()
    }
}
