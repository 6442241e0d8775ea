//! Uploads of closed files of builders and output nodes to an object store.

use super::Cluster;
use super::post::Happening;
use super::shelf::Files;
use crate::dice::Dice;
use sheaf_wire::{NodeId, Role, SessionId};

impl Cluster {
    /// Checks whether the open file of a node is to be closed, and begins its upload.
    pub(super) fn happen_close_file(&mut self, node: NodeId, session: SessionId) {
        if self.host(node).session != session {
            return;
        }
        let now = self.post.now;
        let again = self.shelf(node).and_then(|(files, _)| files.close_due(now));
        if let Some(at) = again {
            self.post.plan(at, Happening::CloseFile(node, session));
        }
        self.begin_uploads(node, session);
    }

    fn shelf(&mut self, node: NodeId) -> Option<(&mut dyn Files, &mut Dice)> {
        let Self { post, builders, outputs, .. } = self;
        let index = usize::from(node.index);
        let files = match node.role {
            Role::Output => outputs[index].shelf.as_mut().map(|shelf| shelf as &mut dyn Files),
            _ => builders[index].shelf.as_mut().map(|shelf| shelf as &mut dyn Files),
        };
        Some((files?, &mut post.dice))
    }

    fn begin_uploads(&mut self, node: NodeId, session: SessionId) {
        let now = self.post.now;
        let begun = self.shelf(node).map(|(files, dice)| files.begin_uploads(now, dice)).unwrap_or_default();
        for (number, at) in begun {
            self.post.plan(at, Happening::Uploaded(node, session, number));
        }
    }

    /// Handles a file that is in the object store. Its events count when those of earlier files do.
    pub(super) fn happen_uploaded(&mut self, node: NodeId, session: SessionId, number: u64) {
        if self.host(node).session != session {
            return;
        }
        let index = usize::from(node.index);
        if node.role == Role::Output {
            let counting = self.outputs[index].shelf.as_mut().map(|shelf| shelf.arrive(number));
            for ticket in counting.unwrap_or_default() {
                self.report_output_soon(index, ticket);
            }
        } else {
            let counting = self.builders[index].shelf.as_mut().map(|shelf| shelf.arrive(number));
            for (event, decision) in counting.unwrap_or_default() {
                self.report_soon(index, event, decision);
            }
        }
        self.begin_uploads(node, session);
    }
}
