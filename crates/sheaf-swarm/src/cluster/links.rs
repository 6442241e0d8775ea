//! Links between nodes as reported to their drivers, in runs in which drivers receive such reports.

use super::Cluster;
use super::post::{Happening, talk};
use sheaf_protocol::liveness::LinkStatus;
use sheaf_wire::{Nanos, NodeId, Role, SessionId};

impl Cluster {
    /// A node is there from now on, or no more: its peers hear of it, and it of them.
    pub(super) fn change_links(&mut self, node: NodeId, link: LinkStatus) {
        if !self.post.reports_links() {
            return;
        }
        for peer in self.options.nodes() {
            if talk(node.role, peer.role) && self.is_up(peer) {
                self.report_link(peer, node, link);
                if link == LinkStatus::Up {
                    self.report_link(node, peer, link);
                }
            }
        }
    }

    fn report_link(&mut self, node: NodeId, peer: NodeId, link: LinkStatus) {
        let session = self.host(node).session;
        self.post.report_link((node, session), peer, link);
    }

    /// A link that carries nothing in one direction is closed after the time for which an absent peer is waited for, and made anew
    /// when the fault is over.
    pub(super) fn plan_severance(&mut self, from: NodeId, to: NodeId, lasts: Nanos) {
        let (now, until_closed) = (self.post.now, self.options.times.peer);
        if self.post.reports_links() && talk(from.role, to.role) && lasts > until_closed {
            self.post.plan(now + until_closed, Happening::Severed(from, to, LinkStatus::Down));
            self.post.plan(now + lasts, Happening::Severed(from, to, LinkStatus::Up));
        }
    }

    /// The link of two nodes is closed, or made anew.
    pub(super) fn happen_severed(&mut self, from: NodeId, to: NodeId, link: LinkStatus) {
        if self.is_up(from) && self.is_up(to) {
            self.report_link(from, to, link);
            self.report_link(to, from, link);
        }
    }

    /// Handles a report of a link to a node.
    pub(super) fn handle_link_report(
        &mut self,
        node: NodeId,
        session: SessionId,
        peer: NodeId,
        link: LinkStatus,
    ) {
        if self.host(node).session != session || !self.is_up(node) {
            return;
        }
        let now = self.post.now;
        self.post.note_link(node, peer, link);
        if (node.role, peer.role) == (Role::Builder, Role::Output) {
            let index = usize::from(node.index);
            if let Some(sender) = &mut self.builders[index].sender {
                sender.handle_link(now, peer, link);
            }
            self.settle_sender(index);
            return;
        }
        self.watch.lives.see_link(now, &self.options, (node, peer), link);
        if let Some(machine) = self.machine(node) {
            machine.handle_link(now, peer, link);
        }
        self.settle(node);
    }
}
