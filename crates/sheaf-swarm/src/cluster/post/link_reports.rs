//! Reports of links: the state of connections to peers that a transport reports to the driver of a node.
//!
//! Recovery detects by itself which peers are reachable. Without recovery the cluster replaces the kernel: connections close
//! when a process ends or its link carries nothing for too long, and are made again when both sides are running.

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
pub(super) struct LinkReports(BTreeMap<(NodeId, NodeId), Timestamp>);

impl Post {
    /// Returns whether the cluster reports links in place of the nodes' kernels.
    pub(in crate::cluster) fn reports_links(&self) -> bool {
        self.link_reports.is_some() && self.links.is_none()
    }

    /// Reports the state of a link to a session of a node, after a delay.
    pub(in crate::cluster) fn report_link(
        &mut self,
        (node, session): (NodeId, SessionId),
        peer: NodeId,
        link: LinkStatus,
    ) {
        let delay = self.network.delay(&mut self.dice);
        let Some(LinkReports(latest)) = &mut self.link_reports else { return };
        let latest = latest.entry((node, peer)).or_default();
        *latest = (*latest).max(self.now + delay);
        let at = *latest;
        self.plan(at, Happening::LinkReport(node, session, peer, link));
    }

    /// Reports the state of a link that recovery has detected to a session of a node, at once.
    pub(super) fn report_recovered_link(
        &mut self,
        (node, session): (NodeId, SessionId),
        peer: NodeId,
        link: LinkStatus,
    ) {
        if self.link_reports.is_some() {
            self.plan(self.now, Happening::LinkReport(node, session, peer, link));
        }
    }

    /// Records that a node receives a report of a link.
    pub(in crate::cluster) fn note_link(&mut self, node: NodeId, peer: NodeId, link: LinkStatus) {
        self.note(Line::LinkReport { node, peer, is_up: link == LinkStatus::Up });
    }
}
