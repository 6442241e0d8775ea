//! Sources and readout units that the operator excludes: in which events they are missing, and in which they are not.

use super::Evidence;
use crate::options::UNKNOWN_EVENTS;
use crate::violation::{Violation, violation};
use sheaf_wire::{Event, EventId, MissingReason, NodeId, Role, SourceId, Timestamp};
use std::collections::BTreeMap;

/// Built events, with each of their sources that has a fragment (`None`) or is missing for a reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuiltSources {
    built: BTreeMap<(EventId, SourceId), Option<MissingReason>>,
    /// Exclusions of each readout unit: the first event without it, and the first one with it again.
    without: BTreeMap<u16, Vec<(EventId, Option<EventId>)>>,
}

impl BuiltSources {
    pub(crate) fn see_built<P>(&mut self, event: &Event<P>) {
        let here = event.fragments.iter().map(|fragment| (fragment.source, None));
        let missing = event.missing.iter().map(|missing| (missing.source, Some(missing.reason)));
        self.built.extend(here.chain(missing).map(|(source, reason)| ((event.id, source), reason)));
    }

    pub(crate) fn see_node_excluded(&mut self, node: NodeId, excluded: bool, from: EventId) {
        let ranges = match node.role {
            Role::Readout => self.without.entry(node.index).or_default(),
            _ => return,
        };
        match ranges.last_mut().filter(|_| !excluded) {
            Some((_, end)) => *end = Some(from),
            None => ranges.push((from, None)),
        }
    }

    fn is_without(&self, readout: NodeId, event: EventId) -> bool {
        let has =
            |(first, end): &(EventId, Option<EventId>)| *first <= event && end.is_none_or(|end| event < end);
        self.without.get(&readout.index).is_some_and(|ranges| ranges.iter().any(has))
    }
}

/// Checks that a source is missing as excluded in the events of an exclusion, and in no others.
pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    let exclusions = evidence.manager.exclusions();
    let is_excluded = |source: SourceId, event: EventId| {
        exclusions.iter().any(|exclusion| exclusion.source == source && exclusion.has(event))
    };
    for ((event, source), reason) in &evidence.watch.built_sources.built {
        // A wrong number far ahead is in no range.
        if event.0 >= UNKNOWN_EVENTS {
            continue;
        }
        // The event manager decides, so this holds whatever becomes of the unit.
        if evidence.watch.built_sources.is_without(evidence.options.readout_of(*source), *event) {
            if *reason == Some(MissingReason::Excluded) {
                continue;
            }
            let what = "is of a readout unit that is excluded, and is there or missing for another reason";
            violations
                .push(violation!("source {source} {what} in event {event}: {reason:?}, {exclusions:?}"));
            return;
        }
        // A unit that dies takes an answer along that has not arrived, and does not know of exclusions that had ended.
        if evidence.watch.troubles.has_crashed(evidence.options.readout_of(*source), Timestamp::MAX) {
            continue;
        }
        let what = match reason {
            Some(MissingReason::Excluded) if !is_excluded(*source, *event) => {
                "is missing as excluded, and is not"
            }
            Some(MissingReason::Excluded | MissingReason::ReadoutSilent | MissingReason::ReadoutLost) => {
                continue;
            }
            _ if !is_excluded(*source, *event) => continue,
            None => "is excluded, and is there",
            Some(_) => "is excluded, and is missing for another reason",
        };
        violations.push(violation!("source {source} {what} in event {event}: {reason:?}, {exclusions:?}"));
        return;
    }
}
