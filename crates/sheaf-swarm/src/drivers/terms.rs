//! Messages that nodes take from the replicas of the event manager. Those of each term come from one replica.

use super::order::Message;
use crate::violation::{Violation, violation};
use sheaf_wire::message::{Body, Input};
use sheaf_wire::{NodeId, Role, Term};
use std::collections::BTreeMap;

/// Maximum number of violations in a report.
const VIOLATIONS_MAX: usize = 3;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// The latest term of which each node has taken a message in its session, with the replica.
    heard: BTreeMap<NodeId, (Term, NodeId)>,
    /// The replica of which nodes have taken messages, by term.
    taken: BTreeMap<Term, NodeId>,
    /// Number of messages that each node must have refused in its session.
    refused: BTreeMap<NodeId, u64>,
    /// Sum of these for sessions that ended normally.
    refused_in_all: BTreeMap<NodeId, u64>,
    /// Latest term in which both replicas are known to be in sync.
    protected: Option<Term>,
    /// Number of replicas that have joined.
    joined: u64,
    /// Whether a replica has ended since.
    has_lost_one: bool,
    violations: Vec<Violation>,
}

impl Terms {
    /// Records that a node has polled a message of a replica.
    pub(super) fn arrived(&mut self, from: NodeId, node: NodeId, message: &Message) {
        let term = message.header.term;
        if let (Role::Manager, Body::Inputs(inputs)) = (node.role, &message.body)
            && inputs.iter().any(|input| matches!(input, Input::Admitted))
        {
            (self.protected, self.has_lost_one) = (Some(term), false);
            self.joined += 1;
        }
        if node.role == Role::Manager || matches!(message.body, Body::Vote(_)) {
            return;
        }
        if term > Term(0) {
            // The first replicas are in sync when the voters know them.
            self.protected.get_or_insert(term);
        }
        let (latest, active) = self.heard.get(&node).copied().unwrap_or((Term(0), NodeId::MANAGER));
        if term < latest || (term == latest && from != active) {
            *self.refused.entry(node).or_default() += 1;
            return;
        }
        self.heard.insert(node, (term, from));
        let other = *self.taken.entry(term).or_insert(from);
        if other != from && self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation!(
                "{node} takes a message of {from} in term {term}, which is that of {other}"
            ));
        }
    }

    /// Records the end of a node's session, normal (`is_closed`) or not.
    pub(super) fn session_ends(&mut self, node: NodeId, is_closed: bool) {
        self.heard.remove(&node);
        self.has_lost_one |= node.role == Role::Manager;
        let refused = self.refused.remove(&node).unwrap_or_default();
        if is_closed {
            *self.refused_in_all.entry(node).or_default() += refused;
        }
    }

    /// Returns whether the voters know the replicas: a node has taken a message in a term that they have decided.
    pub(super) fn are_known(&self) -> bool {
        self.taken.keys().any(|term| *term > Term(0))
    }

    /// Returns whether the run can lose a replica.
    pub(super) fn are_protected(&self) -> bool {
        let latest = self.taken.last_key_value().map(|(term, _)| *term);
        self.protected >= latest && self.are_known() && !self.has_lost_one
    }

    /// Returns the minimum number of messages that a node must have counted as refused.
    pub(super) fn least_refused(&self, node: NodeId) -> u64 {
        self.refused_in_all.get(&node).copied().unwrap_or_default()
    }

    /// Returns the number of replicas that have joined.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }

    /// Returns all violations so far.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::message::Header;
    use sheaf_wire::{RunNumber, SessionId};

    fn message(term: u64) -> Message {
        let header = Header {
            run: RunNumber(1),
            sender: NodeId::MANAGER,
            session: SessionId(1),
            sequence: 0,
            acknowledged: 0,
            acknowledged_session: SessionId(0),
            term: Term(term),
        };
        Message { header, body: Body::Acknowledge }
    }

    #[test]
    fn messages_of_earlier_terms_must_be_refused_and_no_term_is_that_of_two_replicas() {
        let mut terms = Terms::default();
        let (node, other) = (NodeId::builder(0), NodeId::builder(1));
        for (replica, term) in [(0, 1), (1, 2), (0, 1), (0, 2), (1, 2)] {
            terms.arrived(NodeId::manager(replica), node, &message(term));
        }
        assert!(terms.are_known() && terms.violations().is_empty());
        terms.session_ends(node, true);
        assert_eq!(terms.least_refused(node), 2);
        terms.arrived(NodeId::MANAGER, other, &message(2));
        assert_eq!(terms.violations().len(), 1, "another node has term 2 from evm1");
    }
}
