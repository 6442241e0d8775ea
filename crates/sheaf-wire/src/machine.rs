//! Types that all sans-IO machines share: who a machine is, and when it wants to be called.

use crate::message::{Body, Header, Message};
use crate::{NodeId, RunNumber, SessionId, Timestamp};

/// Who a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        };
        Message { header, body }
    }
}

/// When a machine wants `handle_timeout` to be called at the latest, and what for. Each kind of machine has reasons `W` of its own.
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
