//! Messages of readout units and their mirrors, as a simulated network sees them: which have agreed, and that both send the same.

use super::order::Message;
use crate::violation::{Violation, violation};
use sheaf_wire::message::{Body, MirrorStep, Vote, VoteAnswer};
use sheaf_wire::{NodeId, Role, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Maximum number of violations in a report.
const VIOLATIONS_MAX: usize = 3;

/// Number of a message in a channel from a session of a readout unit to a session of a peer.
type Place = (NodeId, SessionId, NodeId, SessionId, u64);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// Readout units that have heard of their mirrors.
    protected: BTreeSet<u16>,
    /// Readout units of which one of the two has asked the event manager to act without the other one.
    contested: BTreeSet<u16>,
    /// Readout units for which the event manager has answered such a request.
    decided: BTreeSet<u16>,
    /// Readout units of which the mirror was let act.
    replaced: BTreeSet<u16>,
    /// Nodes that have told a replica of the event manager that they vote.
    voting: BTreeSet<NodeId>,
    /// Hash of each message that was sent in a channel, and the node that sent it first.
    sent: BTreeMap<Place, (u64, NodeId)>,
    /// Number of messages that both have sent.
    repeated: u64,
    violations: Vec<Violation>,
}

impl Twins {
    /// Records a message that a node sends.
    pub(super) fn sent(&mut self, from: NodeId, to: NodeId, message: &Message) {
        let header = &message.header;
        match &message.body {
            Body::Mirror(MirrorStep::Granted(_)) => {
                self.decided.insert(to.index);
                self.replaced.insert(to.index);
            }
            Body::Mirror(_) if from.role == Role::Manager => {
                self.decided.insert(to.index);
            }
            Body::Mirror(_) => {
                self.contested.insert(from.index);
            }
            Body::Voted(VoteAnswer { vote: Vote::Joined, .. }) => {
                self.voting.insert(from);
            }
            _ => {}
        }
        if header.sequence == 0 || header.sender.role != Role::Readout || to.role == Role::Mirror {
            return;
        }
        let place = (header.sender, header.session, to, header.acknowledged_session, header.sequence);
        let mut hasher = DefaultHasher::new();
        format!("{:?}", message.body).hash(&mut hasher);
        let hash = hasher.finish();
        let (first, by) = *self.sent.entry(place).or_insert((hash, from));
        self.repeated += u64::from(by != from);
        if first != hash && self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation!(
                "{from} sent another message {} of {} to {to} than {by}: {:?}",
                header.sequence,
                header.sender,
                message.body
            ));
        }
    }

    /// Records a message that a node has polled.
    pub(super) fn arrived(&mut self, from: NodeId, node: NodeId) {
        if (from.role, node.role) == (Role::Mirror, Role::Readout) {
            self.protected.insert(node.index);
        }
    }

    /// Returns whether a readout unit and its mirror follow one another. `None` if that is over.
    pub(super) fn are_protected(&self, index: u16) -> Option<bool> {
        (!self.contested.contains(&index)).then(|| self.protected.contains(&index))
    }

    /// Returns whether a readout unit or its mirror votes, as far as the event manager has decided which of the two acts.
    pub(super) fn has_vote(&self, index: u16, is_unit_live: bool) -> bool {
        if self.replaced.contains(&index) {
            return self.voting.contains(&NodeId::mirror(index));
        }
        let is_unit_voting = is_unit_live && self.voting.contains(&NodeId::readout(index));
        is_unit_voting && (!self.contested.contains(&index) || self.decided.contains(&index))
    }

    /// Returns the number of messages that were sent by a readout unit and by its mirror.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
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
    use sheaf_wire::{RunNumber, Term};

    fn message(sequence: u64, body: Body<bytes::Bytes>) -> Message {
        let header = Header {
            run: RunNumber(1),
            sender: NodeId::readout(0),
            session: SessionId(1),
            sequence,
            acknowledged: 0,
            acknowledged_session: SessionId(2),
            term: Term(0),
        };
        Message { header, body }
    }

    #[test]
    fn a_mirror_must_send_what_its_readout_unit_has_sent() {
        let mut twins = Twins::default();
        let (unit, mirror, builder) = (NodeId::readout(0), NodeId::mirror(0), NodeId::builder(0));
        twins.sent(unit, builder, &message(1, Body::Acknowledge));
        twins.sent(mirror, builder, &message(1, Body::Acknowledge));
        assert!(twins.violations().is_empty() && twins.repeated() == 1);
        assert_eq!(twins.are_protected(0), Some(false));
        twins.arrived(mirror, unit);
        assert_eq!(twins.are_protected(0), Some(true));
        let other = Body::Mirror(MirrorStep::StrikeOff);
        twins.sent(mirror, builder, &message(1, other));
        assert_eq!((twins.violations().len(), twins.are_protected(0)), (1, None));
    }
}
