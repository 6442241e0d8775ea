//! News of links: what a transport tells the driver of a node about the connections to its peers.
//!
//! Where there is recovery, it sees by itself who is there. Elsewhere the cluster stands in for a kernel: connections close
//! when a process ends or its link carries nothing for too long, and are made anew when both sides are there.

use super::{Happening, Post};
use crate::log::Line;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_wire::{NodeId, Role, SessionId, Timestamp};
use std::collections::BTreeMap;

/// Returns whether two roles exchange messages.
pub(in crate::cluster) fn talk(one: Role, other: Role) -> bool {
    one != other && !matches!((one, other), (Role::Readout, Role::Output) | (Role::Output, Role::Readout))
}

/// Arrival of the latest report by node and peer: reports of a link keep their order.
#[derive(Debug, Default)]
pub(super) struct LinkNews(BTreeMap<(NodeId, NodeId), Timestamp>);

impl Post {
    /// Whether the cluster stands in for the kernels of the nodes.
    pub(in crate::cluster) fn tells_of_links(&self) -> bool {
        self.link_news.is_some() && self.links.is_none()
    }

    /// Tells a life of a node after a while how its link to a peer is now.
    pub(in crate::cluster) fn tell_link(
        &mut self,
        (node, session): (NodeId, SessionId),
        peer: NodeId,
        link: LinkStatus,
    ) {
        let delay = self.network.delay(&mut self.dice);
        let Some(LinkNews(latest)) = &mut self.link_news else { return };
        let latest = latest.entry((node, peer)).or_default();
        *latest = (*latest).max(self.now + delay);
        let at = *latest;
        self.plan(at, Happening::LinkNews(node, session, peer, link));
    }

    /// Tells a life of a node at once what recovery says of its link to a peer.
    pub(super) fn hear_of_link(
        &mut self,
        (node, session): (NodeId, SessionId),
        peer: NodeId,
        link: LinkStatus,
    ) {
        if self.link_news.is_some() {
            self.plan(self.now, Happening::LinkNews(node, session, peer, link));
        }
    }

    /// Records that a node receives a report of a link.
    pub(in crate::cluster) fn note_link(&mut self, node: NodeId, peer: NodeId, link: LinkStatus) {
        self.note(Line::LinkNews { node, peer, is_up: link == LinkStatus::Up });
    }
}
