//! Readout units and builder units that an operator has excluded.
//!
//! The driver passes the complete set. An exclusion of a readout unit begins at an exact event, above all events in flight, and ends in the same
//! way. The event manager sends it to the builder units in order with their assignments, so it works even if the readout unit is dead. An
//! excluded builder unit gets no further events as long as another one lives, and completes those that it has.

use super::releases::ExcludedRange;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::ReadoutExclusion;
use sheaf_wire::{EventId, NodeId, Role};
use std::collections::{BTreeMap, BTreeSet};

/// See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ExcludedNodes {
    wanted: BTreeSet<NodeId>,
    current: BTreeSet<NodeId>,
    /// Exclusions of each readout unit that events in flight may be of.
    ranges: BTreeMap<u16, Vec<ExcludedRange>>,
}

impl ExcludedNodes {
    /// Takes the nodes that are to be excluded, in a run with this number of readout units and builder units. Other nodes are left out,
    /// and all of a role if none of it would be left.
    pub(super) fn want(&mut self, nodes: impl IntoIterator<Item = NodeId>, [readouts, builders]: [u16; 2]) {
        let nodes: BTreeSet<_> = nodes.into_iter().collect();
        let of = |role, count| {
            let its: Vec<_> = nodes.iter().filter(|node| node.role == role && node.index < count).collect();
            if its.len() < usize::from(count) { its } else { Vec::new() }
        };
        let [readouts, builders] = [of(Role::Readout, readouts), of(Role::Builder, builders)];
        self.wanted = readouts.into_iter().chain(builders).copied().collect();
    }

    pub(super) fn has(&self, node: NodeId) -> bool {
        self.current.contains(&node)
    }

    /// Returns the excluded nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.current.iter().copied()
    }

    /// Returns whether there is something to change.
    pub(super) fn is_due(&self) -> bool {
        self.wanted != self.current
    }

    /// Begins and ends exclusions as wanted. Returns the nodes of which something has changed, and whether each is excluded now.
    pub(super) fn change(&mut self) -> Vec<(NodeId, bool)> {
        let changed = self.wanted.symmetric_difference(&self.current);
        let changed = changed.map(|node| (*node, self.wanted.contains(node))).collect();
        self.current.clone_from(&self.wanted);
        changed
    }

    /// Records from which event on a readout unit is excluded, or included again. All events below `floor` have ended. Returns the exclusions of
    /// the unit that other events may be of.
    pub(super) fn note(&mut self, order: ReadoutExclusion, floor: EventId) -> &[ExcludedRange] {
        let ranges = self.ranges.entry(order.readout).or_default();
        ranges.retain(|(_, end)| end.is_none_or(|end| end > floor));
        match (order.excluded, ranges.last_mut()) {
            (true, _) => ranges.push((order.event, None)),
            (false, Some((_, end))) => *end = Some(order.event),
            (false, None) => {}
        }
        ranges
    }

    /// Returns the orders that a builder unit needs which has joined.
    pub(super) fn orders(&self) -> Vec<ReadoutExclusion> {
        let all =
            self.ranges.iter().flat_map(|(readout, ranges)| ranges.iter().map(|range| (*readout, *range)));
        let orders = all.flat_map(|(readout, (first, end))| {
            let begin = ReadoutExclusion { readout, excluded: true, event: first };
            let end = end.map(|event| ReadoutExclusion { readout, excluded: false, event });
            std::iter::once(begin).chain(end)
        });
        orders.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(excluded: bool, event: u64) -> ReadoutExclusion {
        ReadoutExclusion { readout: 1, excluded, event: EventId(event) }
    }

    #[test]
    fn a_builder_that_joins_learns_of_all_exclusions_that_its_events_may_be_of() {
        let mut excluded = ExcludedNodes::default();
        excluded.note(order(true, 5), EventId(0));
        excluded.note(order(false, 9), EventId(4));
        excluded.note(order(true, 12), EventId(8));
        assert_eq!(excluded.orders(), [order(true, 5), order(false, 9), order(true, 12)]);
        excluded.note(order(false, 30), EventId(9));
        assert_eq!(excluded.orders(), [order(true, 12), order(false, 30)]);
    }

    #[test]
    fn readout_units_and_builder_units_can_be_excluded() {
        let mut excluded = ExcludedNodes::default();
        let nodes = [NodeId::MANAGER, NodeId::readout(1), NodeId::builder(2), NodeId::output(0)];
        excluded.want(nodes, [2, 3]);
        assert!(excluded.is_due());
        assert_eq!(excluded.change(), [(nodes[1], true), (nodes[2], true)]);
        assert!(!excluded.is_due() && excluded.has(nodes[1]) && !excluded.has(nodes[0]));
        excluded.want([nodes[2]], [2, 3]);
        assert_eq!(excluded.change(), [(nodes[1], false)]);
        excluded.want([NodeId::readout(0), NodeId::readout(1), NodeId::builder(7), nodes[2]], [2, 3]);
        assert!(!excluded.is_due(), "one readout unit stays, so none is excluded");
    }
}
