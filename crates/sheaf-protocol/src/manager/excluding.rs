//! Coordination about sources that an operator has excluded: orders to readout units, their answers, and what event files say.

use super::exclusions::Answered;
use super::{EventManager, ManagerEvent};
use crate::ledger::Counter;
use sheaf_wire::exclusion_record::ExclusionRecord;
use sheaf_wire::message::{Body, Exclusion};
use sheaf_wire::{EventId, NodeId, SourceId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Takes the sources that an operator wants to be excluded, as a whole: they are missing in further events, which are complete without
    /// them. A source that was excluded and is not among them is included again, from its next fragment on. Sources that no readout
    /// unit reads are left out.
    pub fn handle_exclusions(&mut self, sources: impl IntoIterator<Item = SourceId>) {
        self.exclusions.want(sources);
        self.exclude();
    }

    /// Returns the exclusions of the run so far, in the order in which they began.
    #[must_use]
    pub fn exclusions(&self) -> &[ExclusionRecord] {
        self.exclusions.listed()
    }

    /// Returns the sources that are excluded now, with the first event without each. A source that returns is excluded until its next
    /// fragment.
    pub fn excluded(&self) -> impl Iterator<Item = (SourceId, EventId)> {
        self.exclusions.lasting()
    }

    pub(super) fn handle_excluded(&mut self, now: Timestamp, answer: Exclusion) {
        match self.exclusions.note(answer) {
            Answered::Begun => {
                self.events
                    .push_back(ManagerEvent::SourceExcluded { source: answer.source, first: answer.event });
            }
            Answered::Ended => {
                self.events
                    .push_back(ManagerEvent::SourceIncluded { source: answer.source, first: answer.event });
            }
            Answered::Known => {}
            Answered::Unexpected => self.counters.count(Counter::UnexpectedMessages, 1),
        }
        while let Some(exclusion) = self.exclusions.next_to_record() {
            // Events may lack these fragments nevertheless, if the answer took longer than they did. Their files cannot have this
            // record any more; the list of the run has it.
            if self.records.is_closed() {
                self.counters.count(Counter::StaleMessages, 1);
            } else {
                self.records.keep_own(exclusion.to_run_record(now));
            }
        }
    }

    /// Sends orders to readout units.
    pub(super) fn exclude(&mut self) {
        let Self { exclusions, peers, flow, .. } = self;
        while let Some((readout, order)) = exclusions.next_order(
            |index| peers.is_open(NodeId::readout(index)),
            |has_restarted| {
                if has_restarted { flow.ceiling() } else { flow.floor() }
            },
        ) {
            peers.push(NodeId::readout(readout), Body::Exclude(order));
        }
    }
}
