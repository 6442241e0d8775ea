//! Composition of events and the order of requests: all sources at once, or only the readout units of the trigger's
//! type, or some sources first and others once those have been judged.

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
    /// The readout units that answer triggers of a type, by index; all of them answer types that are not named. An event is
    /// complete without the others.
    pub answering: BTreeMap<TriggerType, BTreeSet<u16>>,
    /// Whether events without any request are also announced to readout units. Needed if these would otherwise drop
    /// such an event as never triggered.
    pub tells_all: bool,
}

impl Scope {
    /// Whether every event is all sources, at once.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.first_step.is_empty() && self.answering.is_empty()
    }
}

/// Sources that are wanted after a part of an event was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum More {
    /// All the rest. The event is not judged in parts again.
    All,
    /// These sources, as far as they are of the event and not in it. Then it is judged again.
    Sources(Vec<SourceId>),
}

/// Decision of the driver on a part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartDecision {
    /// The event is rejected. No further sources are requested.
    Rejected,
    /// The event must not be stored, for this reason.
    Dropped(sheaf_wire::DropReason),
    /// The event is built: it needs no more sources.
    Enough,
    /// Further sources are requested.
    More(More),
}

/// Request to one readout unit in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ask {
    /// Which part of the event, from 1; 0 for the whole.
    pub(super) part: u16,
    /// The sources of the part.
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
    /// Whether the readout unit was asked for one of the events before.
    pub(super) is_repeat: bool,
    pub(super) ranges: Vec<EventRange>,
}

/// Some sources of every readout unit.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    readouts: Vec<Arc<[SourceId]>>,
}

impl Selection {
    /// The sources that `is_wanted` wants, which is given the readout unit's index and the source.
    pub(super) fn new(all: &[ReadoutSources], is_wanted: impl Fn(usize, SourceId) -> bool) -> Self {
        let of = |(index, readout): (usize, &ReadoutSources)| {
            readout.sources.iter().copied().filter(|source| is_wanted(index, *source)).collect()
        };
        Self { readouts: all.iter().enumerate().map(of).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.readouts.iter().all(|sources| sources.is_empty())
    }

    /// The sources of one readout unit.
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
    /// By readout unit: whether it answers.
    answers: Vec<bool>,
    /// Where they are built in steps, the sources of the first one, and all others.
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
            // A trigger that none of the first step's sources answers is built at once.
            steps: (!first.is_empty()).then(|| (Arc::new(first), Arc::new(rest))),
        }
    }

    /// Whether a readout unit answers.
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
