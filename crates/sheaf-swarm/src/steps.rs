//! Two-step building, and triggers that only some readout units answer: the decision on a part of an event, and the sources of the
//! complete event. All of this follows from seed and event id, so that it is the same wherever and however often an event is built.

use crate::dice::{Ratio, mix};
use crate::options::Options;
use sheaf_protocol::builder::{More, PartDecision, Scope};
use sheaf_wire::{EventId, Nanos, SourceId, TriggerMix, TriggerType};

/// Decision on the first step of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Reject,
    Enough,
    Region { then_all: bool },
    All,
}

impl Options {
    /// Returns whether events are built in steps or answered by only some readout units.
    #[must_use]
    pub fn is_selective(&self) -> bool {
        self.steps.first > 0 || self.steps.types > 1
    }

    /// Returns the types of the triggers.
    #[must_use]
    pub fn trigger_mix(&self) -> TriggerMix {
        let types = if self.steps.types > 1 { self.steps.types } else { 0 };
        TriggerMix::new(self.seed, (0..types).map(|kind| (TriggerType(kind), 1)))
    }

    /// Returns the scope of the builders.
    #[must_use]
    pub fn scope(&self) -> Scope {
        let readouts =
            |kind| (0..self.system.readouts).filter(|readout| self.answers(kind, *readout)).collect();
        let types = if self.steps.types > 1 { self.steps.types } else { 0 };
        Scope {
            first_step: (0..self.source_count())
                .filter(|number| self.is_first(*number))
                .map(|number| SourceId(u32::from(number)))
                .collect(),
            answering: (0..types).map(TriggerType).map(|kind| (kind, readouts(kind))).collect(),
            announces_all: self.times.orphan.is_some(),
        }
    }

    pub(crate) fn is_first(&self, number: u16) -> bool {
        let place = |number: u16| (mix(self.seed ^ 0x57e9 ^ u64::from(number)), number);
        let before = (0..self.source_count()).filter(|other| place(*other) < place(number));
        before.count() < usize::from(self.steps.first)
    }

    fn answers(&self, kind: TriggerType, readout: u16) -> bool {
        self.steps.types <= 1
            || !mix(self.seed ^ mix(u64::from(kind.0)) ^ u64::from(readout)).is_multiple_of(3)
    }

    fn is_answered_by(&self, event: EventId, number: u16) -> bool {
        let kind = self.trigger_mix().of(event);
        kind.is_none_or(|kind| self.answers(kind, number / self.system.sources_per_readout))
    }

    /// Returns whether an event is judged in parts, because some source of the first step answers it.
    fn has_first_step(&self, event: EventId) -> bool {
        (0..self.source_count()).any(|number| self.is_first(number) && self.is_answered_by(event, number))
    }

    fn choice(&self, event: EventId) -> Choice {
        let draw = mix(mix(self.seed ^ 0x57e9_0001) ^ event.0) % 1_000_000;
        let mut below = 0;
        let mut falls_in = |ratio: Ratio| {
            below += u64::from(ratio.per_million);
            draw < below
        };
        if falls_in(self.steps.reject) {
            Choice::Reject
        } else if falls_in(self.steps.enough) {
            Choice::Enough
        } else if falls_in(self.steps.region) {
            Choice::Region { then_all: draw.is_multiple_of(2) }
        } else {
            Choice::All
        }
    }

    fn is_of_interest(&self, event: EventId, number: u16) -> bool {
        !self.is_first(number) && mix(mix(self.seed ^ event.0) ^ u64::from(number)).is_multiple_of(2)
    }

    fn region(&self, event: EventId) -> impl Iterator<Item = u16> {
        (0..self.source_count())
            .filter(move |number| self.is_of_interest(event, *number) && self.is_answered_by(event, *number))
    }

    /// Returns the decision on a part of an event that contains these sources, present or missing.
    #[must_use]
    pub fn judge_part(&self, event: EventId, mut named: impl Iterator<Item = SourceId>) -> PartDecision {
        match self.choice(event) {
            Choice::Reject => PartDecision::Rejected,
            Choice::Enough => PartDecision::Enough,
            Choice::All if self.windows.is_some() => {
                PartDecision::More(More::Windows(self.step_windows(event)))
            }
            Choice::All => PartDecision::More(More::All),
            Choice::Region { then_all } => {
                let first =
                    |source: SourceId| u16::try_from(source.0).is_ok_and(|number| self.is_first(number));
                match (named.all(first), then_all) {
                    (true, _) => {
                        let source = |number| SourceId(u32::from(number));
                        PartDecision::More(More::Sources(self.region(event).map(source).collect()))
                    }
                    (false, true) => PartDecision::More(More::All),
                    (false, false) => PartDecision::Enough,
                }
            }
        }
    }

    /// Returns the time that the judgement of a part takes.
    #[must_use]
    pub fn judgement_time(&self, event: EventId) -> Nanos {
        Nanos(self.steps.judge.0 * (1 + mix(self.seed ^ event.0) % 3))
    }

    /// Returns whether an event is rejected before it is complete.
    #[must_use]
    pub fn is_rejected_early(&self, event: EventId) -> bool {
        self.steps.first > 0 && self.has_first_step(event) && self.choice(event) == Choice::Reject
    }

    /// Returns whether a source belongs to a part of an event that is judged: after the first step, or after a region of interest.
    #[must_use]
    pub fn is_in_part(&self, event: EventId, number: u16, is_after_region: bool) -> bool {
        self.is_answered_by(event, number)
            && (self.is_first(number) || (is_after_region && self.is_of_interest(event, number)))
    }

    /// Returns whether a source belongs to a complete event.
    #[must_use]
    pub fn is_in_event(&self, event: EventId, number: u16) -> bool {
        if !self.is_answered_by(event, number) {
            return false;
        }
        if self.steps.first == 0 || !self.has_first_step(event) {
            return true;
        }
        match self.choice(event) {
            Choice::All => true,
            Choice::Reject | Choice::Enough => self.is_first(number),
            Choice::Region { then_all } => {
                let ends_with_region = !then_all || self.region(event).next().is_none();
                !ends_with_region || self.is_in_part(event, number, true)
            }
        }
    }
}
