//! Requirements of a minimum number of nodes, compared with the signs of life that the event manager has received.

use super::Watch;
use crate::options::Options;
use sheaf_protocol::manager::{LossAction, Requirement};
use sheaf_wire::{NodeId, Timestamp};

impl Watch {
    /// Checks that the nodes that are said to be missing are, and no others of the requirement, and that they are too many.
    pub(crate) fn see_unmet(
        &mut self,
        now: Timestamp,
        options: &Options,
        requirement: usize,
        missing: &[NodeId],
    ) {
        let Requirement { nodes, least, on_loss, .. } = &options.requirements[requirement];
        let is_missing = |node: &&NodeId| self.is_missing(now, options, **node);
        let found: Vec<_> = nodes.iter().filter(is_missing).copied().collect();
        if found != missing || nodes.len() - found.len() >= *least {
            self.fail(format!(
                "requirement {requirement} ({least} of {nodes:?}) is not met at {now} without {missing:?}, but {found:?} are missing"
            ));
        }
        if !self.operator.unmet_now.insert(requirement) {
            self.fail(format!("requirement {requirement} was not met before {now} either"));
        }
        self.operator.unmet += 1;
        self.faults.requirement_stops += u64::from(*on_loss == LossAction::Stop);
    }

    /// Returns whether a node is missing. One that the operator has excluded is not.
    fn is_missing(&self, now: Timestamp, options: &Options, node: NodeId) -> bool {
        self.lives.is_missing(now, options, node) && !self.operator.excluded_now.contains(&node)
    }

    /// Checks that enough nodes are there.
    pub(crate) fn see_met(&mut self, now: Timestamp, options: &Options, requirement: usize) {
        let Requirement { nodes, least, .. } = &options.requirements[requirement];
        let there = nodes.iter().filter(|node| !self.is_missing(now, options, **node)).count();
        if there < *least {
            self.fail(format!(
                "requirement {requirement} is met at {now} with {there} nodes, and needs {least}"
            ));
        }
        if !self.operator.unmet_now.remove(&requirement) {
            self.fail(format!("requirement {requirement} was met before {now} as well"));
        }
        self.operator.met += 1;
    }

    /// Returns whether a run that can be paused waits for the nodes of a requirement.
    pub(crate) fn waits_for_nodes(&self, options: &Options) -> bool {
        let pauses = |index: &usize| options.requirements[*index].on_loss == LossAction::Pause;
        self.operator.unmet_now.iter().any(pauses)
    }
}
