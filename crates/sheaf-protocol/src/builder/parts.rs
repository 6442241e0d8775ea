//! Events that are built in parts: the driver filters each part and decides whether to request more.

use super::assembly::AssemblyKey;
use super::scope::{Ask, Plan, Selection};
use super::{BuilderUnit, IncompletePolicy, More, News, PartDecision, index_u16};
use crate::ledger::Counter;
use sheaf_wire::message::{Assignment, EventRange, PARTS_NOT_ASKED};
use sheaf_wire::{DropReason, Event, MissingReason, MissingSource, Outcome, Payload, SourceId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

impl<P: Payload> BuilderUnit<P> {
    /// Takes the decision about a part of an event, together with the part:
    /// [`BuilderEvent::Part`](super::BuilderEvent::Part) has given it. Decisions about parts come in any order, and need not
    /// wait for those about whole events.
    ///
    /// An event that is built on keeps what it has. Of a readout unit that was silent in an earlier part nothing is asked any
    /// more: its sources are missing.
    ///
    /// # Panics
    /// If no such part was given out.
    pub fn handle_part_decision(&mut self, now: Timestamp, part: Event<P>, decision: PartDecision) {
        if self.fenced {
            return;
        }
        let key = self.assemblies.find(part.id).expect("a decision follows a part");
        let assembly = &mut self.assemblies[key];
        assert!(assembly.at_driver && assembly.attempt == part.attempt, "event {}: no part is out", part.id);
        assembly.at_driver = false;
        (assembly.fragments, assembly.missing) = (part.fragments, part.missing);
        self.books.count(Counter::JudgedParts, 1);
        let (outcome, reason) = match decision {
            PartDecision::Rejected => {
                self.books.count(Counter::RejectedParts, 1);
                (Outcome::Rejected, None)
            }
            PartDecision::Dropped(reason) => (Outcome::Dropped, Some(reason)),
            PartDecision::More(more) if self.build_on(now, key, &more) => return,
            PartDecision::Enough | PartDecision::More(_) => {
                self.assemblies[key].is_last = true;
                self.complete(now, key);
                return;
            }
        };
        self.end_part(now, key, outcome, reason);
    }

    /// Ends an event without requesting more of it.
    pub(super) fn end_part(
        &mut self,
        now: Timestamp,
        key: AssemblyKey,
        outcome: Outcome,
        reason: Option<DropReason>,
    ) {
        let incomplete = self.assemblies[key].is_incomplete(&self.config.optional);
        self.name_unasked(key);
        self.finish(now, key, outcome, reason, incomplete);
    }

    /// Begins events that are requested in parts.
    pub(super) fn begin_in_parts(&mut self, now: Timestamp, assignments: &[Assignment]) {
        for assignment in assignments {
            let Some(key) = self.assemblies.find(assignment.event) else {
                continue;
            };
            let plan = self.plans.of(assignment.trigger_type).clone();
            let first = plan.steps.as_ref().map(|(first, _)| first.clone());
            match &first {
                Some(first) => self.assemblies[key].begin_part(1, |readout| first.has(readout)),
                None => self.assemblies[key].begin_part(0, |readout| plan.asks(readout)),
            }
            self.assemblies[key].selection = first;
            let key = self.assemblies.find(assignment.event).unwrap_or(key);
            self.waits.begin(now, key, &self.assemblies);
            self.ask_for_part(key, &plan);
            if self.assemblies[key].awaited == 0 {
                // No source answers triggers of this type.
                self.complete(now, key);
            }
        }
    }

    fn ask_for_part(&mut self, key: AssemblyKey, plan: &Plan) {
        let assembly = &self.assemblies[key];
        let range = EventRange::one(assembly.event, assembly.attempt);
        let is_begin = assembly.part <= 1;
        let asks: Vec<(u16, Option<Ask>)> = (0..self.config.readouts.len())
            .map(|readout| {
                let is_asked = match &assembly.selection {
                    Some(selection) => selection.has(readout),
                    None => plan.asks(readout),
                };
                let ask = (is_asked && assembly.is_awaited(readout)).then(|| assembly.ask(readout));
                (index_u16(readout), ask)
            })
            .collect();
        for (readout, ask) in asks {
            match ask {
                Some(ask) => self.asks.ask(readout, ask, range),
                None if is_begin && self.config.scope.tells_all => {
                    let nothing = Ask { part: 1, sources: Some(Arc::from([])) };
                    self.asks.tell(readout, nothing, range);
                }
                None => {}
            }
        }
    }

    /// Gives a part to the driver. False if the event is at its end instead.
    pub(super) fn hand_over_part(&mut self, key: AssemblyKey) -> bool {
        let assembly = &mut self.assemblies[key];
        let incomplete = assembly.is_incomplete(&self.config.optional);
        if assembly.is_last || (incomplete && self.config.incomplete == IncompletePolicy::Drop) {
            return false;
        }
        self.asks.give_up_all(&mut self.assemblies[key]);
        let assembly = &mut self.assemblies[key];
        assembly.sort();
        assembly.sum_up(incomplete);
        assembly.at_driver = true;
        self.news.push_back(News::Part(key));
        true
    }

    /// Requests more of an event. Returns false if none of the wanted sources is left.
    fn build_on(&mut self, now: Timestamp, key: AssemblyKey, more: &More) -> bool {
        let plan = self.plans.of(self.assemblies[key].trigger_type).clone();
        let Some(selection) = self.select(key, &plan, more) else {
            return false;
        };
        let assembly = &mut self.assemblies[key];
        let Some(part) = assembly.part.checked_add(1) else {
            return false;
        };
        self.books.count(Counter::ContinuedEvents, 1);
        let silent: Vec<u16> = assembly.absent.iter().map(|(readout, _)| *readout).collect();
        assembly.begin_part(part, |readout| selection.has(readout) && !silent.contains(&index_u16(readout)));
        for readout in silent {
            let missing =
                |source: &SourceId| MissingSource { source: *source, reason: MissingReason::ReadoutSilent };
            assembly.missing.extend(selection.of(usize::from(readout)).iter().map(missing));
        }
        assembly.is_last = *more == More::All;
        assembly.selection = Some(selection);
        let key = self.assemblies.find(key.event).unwrap_or(key);
        if self.assemblies[key].awaited == 0 {
            self.complete(now, key);
            return true;
        }
        self.waits.begin(now, key, &self.assemblies);
        self.ask_for_part(key, &plan);
        true
    }

    /// Returns the sources that are wanted, answer the trigger, and have not been requested. Returns `None`
    /// if there are none.
    fn select(&self, key: AssemblyKey, plan: &Plan, more: &More) -> Option<Arc<Selection>> {
        let assembly = &self.assemblies[key];
        let rest = plan.steps.as_ref().map(|(_, rest)| rest);
        let selection = match (more, rest) {
            (More::All, Some(rest)) if assembly.part == 1 => rest.clone(),
            _ => {
                let named: BTreeSet<SourceId> = assembly.named_sources().collect();
                let listed = match more {
                    More::All => None,
                    More::Sources(sources) => Some(sources.iter().copied().collect::<BTreeSet<_>>()),
                };
                Arc::new(Selection::new(&self.config.readouts, |readout, source| {
                    plan.asks(readout)
                        && !named.contains(&source)
                        && listed.as_ref().is_none_or(|listed| listed.contains(&source))
                }))
            }
        };
        (!selection.is_empty()).then_some(selection)
    }

    /// Lists the readout units without a request in this attempt, for the report to the event manager. A
    /// previous builder may have requested the event from them, and readout units book fragments by the latest
    /// request that they received.
    pub(super) fn name_unasked(&mut self, key: AssemblyKey) {
        let assembly = &mut self.assemblies[key];
        if assembly.attempt <= 1 {
            return;
        }
        let named: BTreeSet<SourceId> = assembly.named_sources().collect();
        for (index, readout) in self.config.readouts.iter().enumerate() {
            if !readout.sources.iter().any(|source| named.contains(source)) {
                assembly.absent.push((index_u16(index), PARTS_NOT_ASKED));
            }
        }
    }
}
