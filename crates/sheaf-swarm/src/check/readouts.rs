//! Readout units, observed independently: the inputs and outputs of each determine its expected counts and the permitted reasons.

use super::Evidence;
use crate::options::Options;
use crate::payload::SimPayload;
use crate::source::Planned;
use crate::violation::{Violation, violation};
use sheaf_protocol::ledger::Counter;
use sheaf_wire::message::{Body, EventRange, EventWindow, Message, SuperFragments};
use sheaf_wire::{DropReason, EventId, MissingReason, MissingSource, NodeId, SourceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Current life of a readout unit.
#[derive(Clone, Debug, Default)]
pub struct ReadoutLife {
    /// Whether the run was already in progress when it began, so that earlier fragments of its sources are lost.
    joins_late: bool,
    /// Highest event that each source has delivered.
    highest: BTreeMap<SourceId, EventId>,
    /// Number of fragments that arrived after one of a higher event.
    out_of_order: u64,
    /// Fragments that were held when they arrived. Recorded only if sources repeat fragments.
    held: BTreeSet<(SourceId, EventId)>,
    /// Number of repeated fragments of which the first was certainly held.
    duplicates: u64,
    /// Earliest possible time of the first request for each event.
    asked: BTreeMap<EventId, Timestamp>,
    /// Answered events, with attempt and part if they are built in parts.
    answered: BTreeSet<(EventId, u16, u16)>,
    /// Number of repeated answers.
    repeated: u64,
    /// Ended sources, with the time of their end.
    ended: BTreeMap<SourceId, Timestamp>,
}

impl ReadoutLife {
    pub(crate) fn new(joins_late: bool) -> Self {
        Self { joins_late, ..Self::default() }
    }

    /// Records a fragment that was taken, and is held from now on or was dropped. `has_ended`: whether its event has ended.
    pub(crate) fn see_fragment(
        &mut self,
        options: &Options,
        planned: &Planned,
        is_held: bool,
        has_ended: bool,
    ) {
        let Planned { event, source, .. } = *planned;
        if source.0 >= u32::from(options.source_count()) {
            return;
        }
        // Windows are complete in any order, and given once.
        if options.is_on_request(source) {
            return;
        }
        let highest = self.highest.entry(source).or_insert(event);
        self.out_of_order += u64::from(event < *highest);
        *highest = event.max(*highest);
        if !options.sources.duplicate.is_possible() {
            return;
        }
        if is_held {
            self.held.insert((source, event));
        } else if !has_ended && self.held.contains(&(source, event)) {
            self.duplicates += 1;
        }
    }

    pub(crate) fn see_end(&mut self, now: Timestamp, source: SourceId) {
        self.ended.entry(source).or_insert(now);
    }

    /// Records the arrival of a message. The channel may deliver messages of the event manager later, after a missing one.
    pub(crate) fn see_message(&mut self, now: Timestamp, message: &Message<SimPayload>) {
        match &message.body {
            Body::FragmentRequest(ranges) => ranges.iter().for_each(|range| self.see_asked(now, range)),
            Body::PartRequest(request) => {
                request.ranges.iter().for_each(|range| self.see_asked(now, range));
            }
            Body::WindowRequest(request) => {
                let one = |wanted: &EventWindow| EventRange::one(wanted.event, wanted.attempt);
                request.events.iter().for_each(|wanted| self.see_asked(now, &one(wanted)));
            }
            Body::Dispatch(destinations) => {
                destinations.iter().for_each(|to| self.see_asked(now, &to.events));
            }
            _ => {}
        }
    }

    fn see_asked(&mut self, now: Timestamp, range: &EventRange) {
        for number in 0..u64::from(range.count) {
            self.asked.entry(EventId(range.first.0.saturating_add(number))).or_insert(now);
        }
    }

    /// Records super-fragments that are sent.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub(crate) fn see_answer(
        &mut self,
        options: &Options,
        answer: &SuperFragments<SimPayload>,
    ) -> Result<(), Violation> {
        let mut missing = answer.missing.iter();
        for entry in &answer.entries {
            for event in entry.events() {
                self.repeated += u64::from(!self.answered.insert((event, entry.attempt, entry.part)));
                for missing in missing.by_ref().take(usize::from(entry.missing)) {
                    self.check_missing(options, event, missing)?;
                }
            }
        }
        Ok(())
    }

    fn check_missing(
        &self,
        options: &Options,
        event: EventId,
        missing: &MissingSource,
    ) -> Result<(), Violation> {
        let MissingSource { source, reason } = *missing;
        if reason != MissingReason::SourceSilent || options.is_on_request(source) {
            return Ok(());
        }
        let is_optional = u16::try_from(source.0).is_ok_and(|number| options.is_optional(number));
        if self.joins_late && !is_optional {
            return Err(violation!(
                "source {source} misses in event {event} as {reason}, and the unit was started again"
            ));
        }
        // No source counts as silent before the timeout for silent sources, and ended sources are not awaited.
        if let (Some(asked), Some(ended)) = (self.asked.get(&event), self.ended.get(&source))
            && *asked + options.times.merge > *ended
        {
            return Err(violation!(
                "source {source} misses in event {event} as {reason}; it ended at {ended}, the event was asked for at {asked}"
            ));
        }
        Ok(())
    }
}

/// Compares the counts of each readout unit with its inputs and outputs.
pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Vec<Violation>) {
    for unit in evidence.readouts.iter().flatten() {
        let (node, books) = (unit.identity().node, unit.books());
        let Some(life) = evidence.watch.readout_lives.get(&node) else { continue };
        let counted = |counter| books.counters.get(&counter).copied().unwrap_or_default();
        let out_of_order = counted(Counter::OutOfOrder);
        // Fragments that are renumbered have another order and other repetitions than those that the source gave.
        let is_renumbered = evidence.options.is_renumbered_at(node);
        if out_of_order != life.out_of_order && !is_renumbered {
            let given = life.out_of_order;
            violations.push(violation!(
                "{node} was given {given} fragments out of order, {out_of_order} are booked"
            ));
        }
        let resent = counted(Counter::Resent);
        if resent < life.repeated {
            let repeated = life.repeated;
            violations
                .push(violation!("{node} has repeated {repeated} answers, {resent} are booked as resent"));
        }
        let dropped = |reason| books.fragments.dropped.get(&reason).copied().unwrap_or_default();
        let duplicates = dropped(DropReason::Duplicate);
        // A fragment that was dropped, for lack of a request or with the exclusion of its source, is not held when it is repeated.
        let some_forgotten = dropped(DropReason::UnknownEvent) + dropped(DropReason::Excluded) > 0;
        if !some_forgotten && duplicates < life.duplicates && !is_renumbered {
            let given = life.duplicates;
            violations.push(violation!("{node} was given {given} duplicates, {duplicates} are booked"));
        }
    }
}

/// Current lives of all readout units.
pub type ReadoutRecords = BTreeMap<NodeId, ReadoutLife>;

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::{Nanos, SuperFragment};

    fn planned(event: u64) -> Planned {
        let event = EventId(event);
        Planned { event, origin: event, source: SourceId(0), bytes: 10, trigger: 0, pause: Nanos::ZERO }
    }

    /// Returns an answer to event 5 that lacks source 0.
    fn answer(reason: MissingReason) -> SuperFragments<SimPayload> {
        SuperFragments {
            entries: vec![SuperFragment {
                event: EventId(5),
                count: 1,
                attempt: 0,
                part: 0,
                fragments: 0,
                missing: 1,
            }],
            fragments: Vec::new(),
            missing: vec![MissingSource { source: SourceId(0), reason }],
        }
    }

    #[test]
    fn repeated_and_late_fragments_are_counted() {
        let mut options = Options::default();
        options.sources.duplicate = crate::dice::Ratio::percent(1);
        let mut life = ReadoutLife::new(false);
        for (event, is_held, has_ended) in
            [(1, true, false), (3, true, false), (2, true, false), (3, false, false), (1, false, true)]
        {
            life.see_fragment(&options, &planned(event), is_held, has_ended);
        }
        assert_eq!((life.out_of_order, life.duplicates), (2, 1));
    }

    #[test]
    fn a_source_that_ended_before_its_timeout_is_not_silent() {
        let options = Options::default();
        let range = EventRange::one(EventId(5), 0);
        for (end, is_right) in [(0, false), (options.times.merge.0 - 1, false), (options.times.merge.0, true)]
        {
            let mut life = ReadoutLife::new(false);
            life.see_asked(Timestamp::ZERO, &range);
            life.see_end(Timestamp(end), SourceId(0));
            let answer = answer(MissingReason::SourceSilent);
            assert_eq!(life.see_answer(&options, &answer).is_ok(), is_right, "ended at {end}");
        }
    }

    #[test]
    fn fragments_missing_after_a_restart_are_not_silence() {
        let (options, mut life) = (Options::default(), ReadoutLife::new(true));
        assert!(life.see_answer(&options, &answer(MissingReason::ReadoutRestarted)).is_ok());
        assert!(life.see_answer(&options, &answer(MissingReason::SourceSilent)).is_err());
        assert_eq!(life.repeated, 1);
    }
}
