//! Minimum numbers of nodes, and what a run does when it has fewer.
//!
//! A node counts as missing if it has never connected, or is given up as lost. One that restarts within that time is not missing, nor is one that an operator has excluded. The
//! run does not start while a requirement is not met; when its time to wait is over, it has failed. In the run, requirements are compared with
//! the nodes at each check for lost peers.

use super::{EventManager, ManagerEvent};
use serde::{Deserialize, Serialize};
use sheaf_wire::{NodeId, Timestamp};
use std::collections::BTreeSet;

/// Nodes of which a run requires a minimum number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Name in messages.
    pub name: String,
    /// The nodes, without the event manager.
    pub nodes: BTreeSet<NodeId>,
    /// Minimum number of them.
    pub least: usize,
    /// Action when fewer are left while the run is in progress.
    pub on_loss: LossAction,
}

/// Action of a run that has lost too many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossAction {
    /// It goes on, and reports it.
    Continue,
    /// It takes no triggers until enough nodes are back. A run that [cannot be paused](super::Triggers::can_pause) goes on.
    Pause,
    /// It takes no more triggers, builds the events in flight, and ends.
    Stop,
}

/// See the [module](self).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Requirements {
    all: Vec<Requirement>,
    /// Nodes that are missing for each requirement that is not met.
    unmet: Vec<Option<BTreeSet<NodeId>>>,
}

impl Requirements {
    pub(super) fn new(all: Vec<Requirement>) -> Self {
        let unmet = vec![None; all.len()];
        Self { all, unmet }
    }

    /// Returns the first requirement that is not met without the nodes that are missing.
    fn first_unmet(&self, is_missing: impl Fn(NodeId) -> bool) -> Option<usize> {
        self.all.iter().position(|one| one.missing(&is_missing).is_some())
    }

    /// Compares all with the nodes, and returns what has changed.
    fn compare(&mut self, is_missing: impl Fn(NodeId) -> bool) -> Vec<ManagerEvent> {
        let mut news = Vec::new();
        for (requirement, (one, unmet)) in self.all.iter().zip(&mut self.unmet).enumerate() {
            let missing = one.missing(&is_missing);
            match (unmet.is_some(), &missing) {
                (false, Some(missing)) => news.push(ManagerEvent::RequirementUnmet {
                    requirement,
                    missing: missing.iter().copied().collect(),
                }),
                (true, None) => news.push(ManagerEvent::RequirementMet { requirement }),
                _ => {}
            }
            *unmet = missing;
        }
        news
    }

    /// Returns the indices of those that are not met.
    #[cfg(test)]
    pub(super) fn unmet(&self) -> impl Iterator<Item = usize> {
        self.unmet.iter().enumerate().filter(|(_, missing)| missing.is_some()).map(|(index, _)| index)
    }

    /// Returns whether a requirement with this consequence is not met.
    fn some_unmet(&self, on_loss: LossAction) -> bool {
        self.with_unmet(on_loss).next().is_some()
    }

    /// Returns the only node that is missing for requirements with this consequence.
    pub(super) fn the_only_missing(&self, on_loss: LossAction) -> Option<NodeId> {
        let mut nodes = self.with_unmet(on_loss).flatten();
        let first = nodes.next()?;
        nodes.all(|node| node == first).then_some(*first)
    }

    fn with_unmet(&self, on_loss: LossAction) -> impl Iterator<Item = &BTreeSet<NodeId>> {
        let all = self.all.iter().zip(&self.unmet).filter(move |(one, _)| one.on_loss == on_loss);
        all.filter_map(|(_, unmet)| unmet.as_ref())
    }
}

impl Requirement {
    /// Returns the missing nodes if too many are.
    fn missing(&self, is_missing: impl Fn(NodeId) -> bool) -> Option<BTreeSet<NodeId>> {
        let missing: BTreeSet<_> = self.nodes.iter().copied().filter(|node| is_missing(*node)).collect();
        (self.nodes.len() - missing.len() < self.least).then_some(missing)
    }
}

impl<P: Clone> EventManager<P> {
    /// Returns the name of a requirement.
    #[must_use]
    pub fn requirement_name(&self, requirement: usize) -> Option<&str> {
        self.requirements.all.get(requirement).map(|one| &*one.name)
    }

    /// Returns the nodes whose loss can pause the run.
    #[must_use]
    pub fn pausing_nodes(&self) -> BTreeSet<NodeId> {
        let pausing = self.requirements.all.iter().filter(|one| one.on_loss == LossAction::Pause);
        pausing.flat_map(|one| one.nodes.iter().copied()).collect()
    }

    /// Returns the first requirement that keeps the run from starting.
    pub(super) fn unmet_at_start(&self, now: Timestamp) -> Option<usize> {
        self.requirements.first_unmet(|node| self.peers.is_lost(node, now) && !self.excluded_nodes.has(node))
    }

    /// Compares the requirements with the nodes, and pauses, resumes or ends the run.
    pub(super) fn check_requirements(&mut self, now: Timestamp) {
        if !self.phase.is_running() {
            return;
        }
        let Self { requirements, peers, excluded_nodes, .. } = self;
        let news = requirements.compare(|node| peers.is_lost(node, now) && !excluded_nodes.has(node));
        if news.is_empty() {
            return;
        }
        self.events.extend(news);
        if self.requirements.some_unmet(LossAction::Stop) {
            self.dead_time.end(now);
            self.phase.drain(now);
            return;
        }
        self.phase.hold_back(self.can_pause() && self.requirements.some_unmet(LossAction::Pause));
        self.dead_time.turn(now, self.shut());
    }
}
