//! Judging of parts of events, with building in steps.

use super::BuilderNode;
use crate::step::{self, StepFailure, StepVerdict, Steps};
use bytes::Bytes;
use sheaf_protocol::builder::{More, PartDecision};
use sheaf_wire::{DropReason, Event, Timestamp};

impl BuilderNode {
    /// Has a part of an event judged.
    pub(super) fn judge_part(&mut self, now: Timestamp, part: Event<Bytes>) {
        if self.pipeline.is_bad(&part) {
            let decision = PartDecision::Dropped(DropReason::ContentMismatch);
            self.role.handle_part_decision(now, part, decision);
            return;
        }
        let answer = match &mut self.steps {
            Some(Steps::Here(filter)) => step::judge(&mut **filter, &part),
            Some(Steps::Beside(steps)) => {
                steps.give(part);
                return;
            }
            None => Ok(StepVerdict::More(More::All)),
        };
        self.follow_step(now, part, answer);
    }

    /// Takes the parts that the step filter on another thread has finished; returns whether there were any.
    pub(super) fn take_judged_parts(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        while let Some(Steps::Beside(steps)) = &mut self.steps
            && let Some((part, answer)) = steps.poll()
        {
            busy = true;
            self.follow_step(now, part, answer);
        }
        busy
    }

    /// Applies the verdict of a step filter on a part.
    fn follow_step(&mut self, now: Timestamp, part: Event<Bytes>, answer: Result<StepVerdict, StepFailure>) {
        let decision = match answer {
            Ok(StepVerdict::Reject) => PartDecision::Rejected,
            Ok(StepVerdict::Enough) => PartDecision::Enough,
            Ok(StepVerdict::More(more)) => PartDecision::More(more),
            Err(StepFailure { failure, rest }) => {
                let what = format_args!("first step: {failure}; the rest of the event is requested");
                self.step_failures.note(self.role.identity().node, part.id, what);
                PartDecision::More(rest)
            }
        };
        self.role.handle_part_decision(now, part, decision);
    }
}
