//! Holds and pauses of the operator, sources that were excluded, and who knows of them.

use crate::payload::SimPayload;
use sheaf_protocol::manager::EventManager;
use sheaf_wire::{NodeId, SessionId};
use std::collections::BTreeSet;

/// Number of holds and pauses of a run, by what they met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorCounts {
    /// Releases of a start that was ready.
    pub ready: u64,
    /// Stops of a run whose start was held.
    pub stops_held: u64,
    /// Pauses of the run.
    pub pauses: u64,
    /// Pauses during which events in flight are built.
    pub pauses_in_flight: u64,
    /// Ends of pauses.
    pub resumed: u64,
    /// Stops of a paused run.
    pub stops_paused: u64,
    /// Readout units that were told of a pause.
    pub told: u64,
    /// Of these, those that had lost their state before.
    pub told_again: u64,
    /// Exclusions of sources.
    pub excluded: u64,
    /// Ends of exclusions.
    pub included: u64,
    /// Exclusions that were told to a readout unit that had lost its state.
    pub excluded_again: u64,
    /// Exclusions of nodes.
    pub excluded_nodes: u64,
    /// Nodes that are excluded now.
    pub excluded_now: BTreeSet<NodeId>,
    /// Requirements that were not met any more.
    pub unmet: u64,
    /// Requirements that were met again.
    pub met: u64,
    /// Indices of the requirements that are not met now.
    pub unmet_now: BTreeSet<usize>,
    /// Whether the run was paused when its triggers ended, unless that changed in the same moment.
    pub ended_paused: Option<bool>,
}

impl OperatorCounts {
    /// Returns the name of each count, and the count.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("release of a ready run", self.ready),
            ("stop of a held run", self.stops_held),
            ("pause", self.pauses),
            ("pause with events in flight", self.pauses_in_flight),
            ("resumption", self.resumed),
            ("stop of a paused run", self.stops_paused),
            ("pause told to a readout unit", self.told),
            ("pause told to a readout unit that was restarted", self.told_again),
            ("exclusion of a source", self.excluded),
            ("end of an exclusion", self.included),
            ("exclusion told to a readout unit that was restarted", self.excluded_again),
            ("exclusion of a node", self.excluded_nodes),
            ("requirement that is not met", self.unmet),
            ("requirement that is met again", self.met),
        ]
    }

    pub(crate) fn see_stop(&mut self, manager: &EventManager<SimPayload>, is_held: bool) {
        self.stops_held += u64::from(is_held);
        self.stops_paused += u64::from(manager.is_paused());
    }

    pub(crate) fn see_told(&mut self, session: SessionId, paused: bool) {
        self.told += u64::from(paused);
        self.told_again += u64::from(paused && session > SessionId(1));
    }
}
