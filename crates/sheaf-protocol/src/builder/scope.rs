//! Composition of events and the order of requests: all sources at once, only the readout units of the trigger's type, or
//! some sources first and others after a decision on those.

use sheaf_wire::HitInterval;
use sheaf_wire::message::{Body, EventRange, PartRequest};
use sheaf_wire::{SourceId, TriggerType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Sources of one readout unit. Every builder has the same list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadoutSources {
    /// All its sources.
    pub sources: Vec<SourceId>,
}

/// Composition of events. The default is every source, at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Sources of the first step. If not empty, the driver filters an event when these have answered, and
    /// returns which further sources are requested. If empty, events are built in one step.
    pub first_step: BTreeSet<SourceId>,
    /// Indices of the readout units that answer triggers of a type. All of them answer types that are not listed. An
    /// event is complete without the others.
    pub answering: BTreeMap<TriggerType, BTreeSet<u16>>,
    /// Whether events are announced also to readout units from which nothing is requested. Needed if these would
    /// otherwise drop such an event as never triggered.
    pub announces_all: bool,
}

impl Scope {
    /// Returns whether every event has all sources and is built in one step.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.first_step.is_empty() && self.answering.is_empty()
    }
}

/// Further sources that are wanted after the decision on a part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum More {
    /// All remaining sources. The next decision is on the whole event.
    All,
    /// Those of these sources that answer the trigger and have not been requested. Another decision on the part follows.
    Sources(Vec<SourceId>),
    /// The hits of all remaining sources in these windows of time, at least one. These sources give hits on request. The next decision is
    /// on the whole event.
    Windows(Vec<HitInterval>),
}

/// Decision of the driver on a part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartDecision {
    /// The event is rejected. No further sources are requested.
    Rejected,
    /// The event must not be stored, for this reason.
    Dropped(sheaf_wire::DropReason),
    /// The event is complete without further sources.
    Enough,
    /// Further sources are requested.
    More(More),
}

/// Request to one readout unit in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// Number of the part of the event, from 1, or 0 for the whole event.
    pub(super) part: u16,
    /// Sources of the part. `None` for all of them.
    pub(super) sources: Option<Arc<[SourceId]>>,
}

impl Ask {
    pub(super) fn into_body<P>(self, ranges: Vec<EventRange>) -> Body<P> {
        match self.sources {
            None => Body::FragmentRequest(ranges),
            Some(sources) => {
                Body::PartRequest(PartRequest { part: self.part, sources: sources.to_vec(), ranges })
            }
        }
    }
}

/// Message to a readout unit: the requested sources and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) readout: u16,
    pub(super) ask: Ask,
    /// Whether one of the events was requested from the readout unit before.
    pub(super) is_repeat: bool,
    pub(super) ranges: Vec<EventRange>,
}

/// Some sources of every readout unit.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    readouts: Vec<Arc<[SourceId]>>,
}

impl Selection {
    /// Selects the sources for which `is_wanted` returns `true`. Its arguments are the readout unit's index and the source.
    pub(super) fn new(all: &[ReadoutSources], is_wanted: impl Fn(usize, SourceId) -> bool) -> Self {
        let of = |(index, readout): (usize, &ReadoutSources)| {
            readout.sources.iter().copied().filter(|source| is_wanted(index, *source)).collect()
        };
        Self { readouts: all.iter().enumerate().map(of).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.readouts.iter().all(|sources| sources.is_empty())
    }

    /// Returns the selected sources of one readout unit.
    pub(super) fn of(&self, readout: usize) -> &Arc<[SourceId]> {
        &self.readouts[readout]
    }

    pub(super) fn has(&self, readout: usize) -> bool {
        !self.readouts[readout].is_empty()
    }
}

/// Parts in which events of a trigger type are built.
#[derive(Debug)]
pub(super) struct Plan {
    /// Whether each readout unit answers.
    answers: Vec<bool>,
    /// Sources of the first step and all others. `None` if events are built in one step.
    pub(super) steps: Option<(Arc<Selection>, Arc<Selection>)>,
}

impl Plan {
    fn new(scope: &Scope, readouts: &[ReadoutSources], answering: Option<&BTreeSet<u16>>) -> Self {
        let answers = |index: usize| {
            answering.is_none_or(|some| u16::try_from(index).is_ok_and(|index| some.contains(&index)))
        };
        let is_first = |index, source| answers(index) && scope.first_step.contains(&source);
        let first = Selection::new(readouts, is_first);
        let rest =
            Selection::new(readouts, |index, source| answers(index) && !scope.first_step.contains(&source));
        Self {
            answers: (0..readouts.len()).map(answers).collect(),
            // If no source of the first step answers this trigger type, its events are built in one step.
            steps: (!first.is_empty()).then(|| (Arc::new(first), Arc::new(rest))),
        }
    }

    /// Returns whether a readout unit answers.
    pub(super) fn asks(&self, readout: usize) -> bool {
        self.answers[readout]
    }
}

/// Parts in which events are built, by trigger type.
#[derive(Debug)]
pub(super) struct Plans {
    by_type: BTreeMap<TriggerType, Arc<Plan>>,
    others: Arc<Plan>,
}

impl Plans {
    pub(super) fn new(scope: &Scope, readouts: &[ReadoutSources]) -> Self {
        let plan = |answering| Arc::new(Plan::new(scope, readouts, answering));
        Self {
            by_type: scope.answering.iter().map(|(kind, answering)| (*kind, plan(Some(answering)))).collect(),
            others: plan(None),
        }
    }

    pub(super) fn of(&self, kind: TriggerType) -> &Arc<Plan> {
        self.by_type.get(&kind).unwrap_or(&self.others)
    }
}
