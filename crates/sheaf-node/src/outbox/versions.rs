//! Agreement with each peer on a version of the protocol, or a parting in words.
//!
//! The first frame on each link is a [`Hello`], in both directions. A link without a common version carries nothing more. A node other
//! than the event manager that cannot talk to the active event manager leaves the run, as does a mirror that cannot talk to its readout unit;
//! of two others the one that was started later leaves, so that a newcomer never harms a run that goes on.

use super::{Kind, Outbox};
use crate::repeats::Repeats;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_telemetry::log_as;
use sheaf_transport::Frame;
use sheaf_wire::message::hello::{Hello, VersionRange};
use sheaf_wire::{NodeId, Role, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// Name and version of this software.
const SOFTWARE: &str = concat!("sheaf ", env!("CARGO_PKG_VERSION"));

/// Versions of a node and its peers.
pub(super) struct Versions {
    own: Hello,
    /// Peers whose link is up and carries nothing.
    parted: BTreeSet<NodeId>,
    /// Latest reason for which there is no link with a peer, until there is one.
    reasons: BTreeMap<NodeId, String>,
    /// Partings, and agreements of different releases, by peer and its versions.
    logged: Repeats<(NodeId, VersionRange)>,
    /// Reason for which this node leaves the run.
    leaves: Option<String>,
}

impl Versions {
    pub(super) fn new(session: SessionId) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own = Hello { session, versions: VersionRange::OWN, software: SOFTWARE.to_owned(), host };
        Self {
            own,
            parted: BTreeSet::new(),
            reasons: BTreeMap::new(),
            logged: Repeats::default(),
            leaves: None,
        }
    }
}

impl Outbox {
    /// Sends the first frame on a link.
    pub(super) fn say_hello(&mut self, peer: NodeId) {
        let frame = Frame::new(self.versions.own.emit().into(), []);
        self.send_frame(peer, frame, Kind::Other);
    }

    /// Takes the first frame of a peer.
    pub(super) fn hear_hello(&mut self, from: NodeId, bytes: &[u8]) {
        match Hello::parse(bytes) {
            Ok(hello) => self.judge(from, &hello),
            Err(error) => {
                let node = self.endpoint.node();
                log_as!(MESSAGE_BAD, node = node, peer = from; "{node}: a hello from {from} was dropped: {error}");
                self.stats.bad_messages += 1;
            }
        }
    }

    /// Goes on with a peer, or parts from it.
    pub(super) fn judge(&mut self, from: NodeId, theirs: &Hello) {
        let (node, own) = (self.endpoint.node(), &self.versions.own);
        let why = match (own.versions.common(theirs.versions), pair_of(node.role, from.role)) {
            (None, _) => format!(
                "{from} ({theirs}) speaks {} of the protocol, and {node} ({own}) {}; install the same release of sheaf on both hosts",
                theirs.versions, own.versions
            ),
            (Some(_), Some(pair)) if theirs.software != own.software => format!(
                "{from} is {theirs}, and {node} is {own}; install the same release of sheaf for {pair}"
            ),
            (Some(version), _) => {
                self.versions.reasons.remove(&from);
                if theirs.software != own.software
                    && let Some(times) = self.versions.logged.note((from, theirs.versions))
                {
                    let own = &self.versions.own;
                    log_as!(
                        RELEASES_DIFFER, node = node, peer = from;
                        "{from} is {theirs}, and {node} is {own}: they use version {version} of the protocol{times}"
                    );
                }
                return;
            }
        };
        self.part(from, theirs, why);
    }

    fn part(&mut self, from: NodeId, theirs: &Hello, why: String) {
        if !self.versions.parted.insert(from) {
            return;
        }
        self.drop_waiting(from);
        self.note_link(from, LinkStatus::Down);
        self.stats.refused_links += 1;
        let node = self.endpoint.node();
        if let Some(times) = self.versions.logged.note((from, theirs.versions)) {
            log_as!(LINK_REFUSED, node = node, peer = from; "{node}: no link with {from}: {why}{times}");
        }
        if self.is_to_leave(from, theirs) {
            self.versions.leaves.get_or_insert_with(|| why.clone());
        }
        self.versions.reasons.insert(from, why);
    }

    /// Returns whether this node leaves the run because it has no version in common with this peer.
    fn is_to_leave(&self, from: NodeId, theirs: &Hello) -> bool {
        let active = self.member.as_ref().map_or(NodeId::MANAGER, |links| links.member.active());
        match (self.endpoint.node().role, from.role) {
            (Role::Manager, _) => false,
            (_, Role::Manager) => from == active,
            // A readout unit goes on without its mirror.
            (Role::Readout, Role::Mirror) => false,
            (Role::Mirror, Role::Readout) => true,
            _ => theirs.session != SessionId(0) && theirs.session < self.versions.own.session,
        }
    }

    /// Takes note that the link with a peer is down. Returns whether the two had parted.
    pub(super) fn forget_parting(&mut self, peer: NodeId) -> bool {
        self.versions.parted.remove(&peer)
    }

    /// Returns whether the link with a peer carries nothing, because there is no common version.
    pub(crate) fn is_parted_from(&self, peer: NodeId) -> bool {
        !self.versions.parted.is_empty() && self.versions.parted.contains(&peer)
    }

    /// Returns the reason for which this node has to leave the run, if there is one.
    pub(crate) fn reason_to_leave(&self) -> Option<&str> {
        self.versions.leaves.as_deref()
    }

    /// Returns the reason for which there is no link with a peer, if it is their versions.
    pub(crate) fn reason_against(&self, peer: NodeId) -> Option<&str> {
        self.versions.reasons.get(&peer).map(String::as_str)
    }
}

/// Returns the name of two nodes that repeat each other's work, and must therefore be of the same release.
fn pair_of(one: Role, other: Role) -> Option<&'static str> {
    match (one, other) {
        (Role::Manager, Role::Manager) => Some("the event manager and its standby"),
        (Role::Readout, Role::Mirror) | (Role::Mirror, Role::Readout) => {
            Some("a readout unit and its mirror")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
