//! Types common to all sans-IO machines: identity and deadline.

use crate::message::{Body, Header, Message};
use crate::{NodeId, RunNumber, SessionId, Term, Timestamp};
use serde::{Deserialize, Serialize};

/// Identity of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its role and index.
    pub node: NodeId,
    /// The run that it takes part in. Messages of other runs are refused.
    pub run: RunNumber,
    /// Its incarnation: greater than that of any earlier life of this node.
    pub session: SessionId,
}

impl Identity {
    /// A message outside any channel.
    #[must_use]
    pub fn plain<P>(&self, body: Body<P>) -> Message<P> {
        let header = Header {
            run: self.run,
            sender: self.node,
            session: self.session,
            sequence: 0,
            acknowledged: 0,
            acknowledged_session: SessionId(0),
            term: Term(0),
        };
        Message { header, body }
    }

    /// A message outside any channel, for one session of the receiver: the receiver's next session ignores it.
    #[must_use]
    pub fn plain_for<P>(&self, session: SessionId, body: Body<P>) -> Message<P> {
        let Message { header, body } = self.plain(body);
        Message { header: Header { acknowledged_session: session, ..header }, body }
    }
}

/// Latest time at which a machine needs a call of `handle_timeout`, and the reason. Each kind of machine has reasons
/// `W` of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline<W> {
    /// The instant.
    pub at: Timestamp,
    /// The reason, for logs: an idle or stuck system explains itself.
    pub why: W,
}

impl<W> Deadline<W> {
    /// The earlier of two deadlines; on a tie the first.
    #[must_use]
    pub fn earliest(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}
