//! Parts in which an event is built: the sources of the first part and of each later one.

use super::asks::Asks;
use super::assembly::Assembly;
use super::scope::{Ask, Plans, Selection};
use super::{BuilderConfig, More, ReadoutSources, index_u16};
use sheaf_wire::message::{EventRange, PARTS_NOT_ASKED};
use sheaf_wire::{MissingReason, MissingSource, Payload, SourceId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Parts {
    plans: Plans,
    /// Whether readout units without a request for an event are informed of it.
    announces_all: bool,
}

impl Parts {
    pub(super) fn new(config: &BuilderConfig) -> Self {
        Self { plans: Plans::new(&config.scope, &config.readouts), announces_all: config.scope.announces_all }
    }

    /// Begins the first part of an event, or its only one.
    pub(super) fn begin<P: Payload>(&self, assembly: &mut Assembly<P>) {
        let plan = self.plans.of(assembly.trigger_type);
        // Those of the event that had the place before.
        assembly.windows.clear();
        match &plan.steps {
            Some((first, _)) => assembly.begin_part(1, |readout| first.has(readout)),
            None => assembly.begin_part(0, |readout| plan.asks(readout)),
        }
        assembly.selection = plan.steps.as_ref().map(|(first, _)| first.clone());
    }

    /// Begins the next part of an event. Returns `false` if none of the wanted sources is left: then the event is
    /// unchanged.
    pub(super) fn begin_next<P: Payload>(
        &self,
        assembly: &mut Assembly<P>,
        more: &More,
        readouts: &[ReadoutSources],
    ) -> bool {
        let Some(selection) = self.select(assembly, more, readouts) else {
            return false;
        };
        let Some(part) = assembly.part.checked_add(1) else {
            return false;
        };
        let silent: Vec<u16> = assembly.absent.iter().map(|(readout, _)| *readout).collect();
        assembly.begin_part(part, |readout| selection.has(readout) && !silent.contains(&index_u16(readout)));
        for readout in silent {
            let missing =
                |source: &SourceId| MissingSource { source: *source, reason: MissingReason::ReadoutSilent };
            assembly.missing.extend(selection.of(usize::from(readout)).iter().map(missing));
        }
        assembly.is_last = !matches!(more, More::Sources(_));
        if let More::Windows(windows) = more {
            assembly.windows.clone_from(windows);
        }
        assembly.selection = Some(selection);
        true
    }

    /// Requests the part of an event that has begun.
    pub(super) fn ask<P: Payload>(&self, assembly: &Assembly<P>, readouts: usize, asks: &mut Asks) {
        let plan = self.plans.of(assembly.trigger_type);
        let range = EventRange::one(assembly.event, assembly.attempt);
        let is_begin = assembly.part <= 1;
        for readout in 0..readouts {
            let is_asked = match &assembly.selection {
                Some(selection) => selection.has(readout),
                None => plan.asks(readout),
            };
            if is_asked && assembly.is_awaited(readout) {
                asks.ask(index_u16(readout), assembly.ask(readout), range);
            } else if is_begin && self.announces_all {
                let nothing = Ask { part: 1, sources: Some(Arc::from([])) };
                asks.ask_at_once(index_u16(readout), nothing, range);
            }
        }
    }

    /// Returns the sources that are wanted, answer the trigger, and have not been requested. Returns `None`
    /// if there are none.
    fn select<P: Payload>(
        &self,
        assembly: &Assembly<P>,
        more: &More,
        readouts: &[ReadoutSources],
    ) -> Option<Arc<Selection>> {
        let plan = self.plans.of(assembly.trigger_type);
        let rest = plan.steps.as_ref().map(|(_, rest)| rest);
        let selection = match (more, rest) {
            (More::All | More::Windows(_), Some(rest)) if assembly.part == 1 => rest.clone(),
            _ => {
                let named: BTreeSet<SourceId> = assembly.named_sources().collect();
                let listed = match more {
                    More::All | More::Windows(_) => None,
                    More::Sources(sources) => Some(sources.iter().copied().collect::<BTreeSet<_>>()),
                };
                Arc::new(Selection::new(readouts, |readout, source| {
                    plan.asks(readout)
                        && !named.contains(&source)
                        && listed.as_ref().is_none_or(|listed| listed.contains(&source))
                }))
            }
        };
        (!selection.is_empty()).then_some(selection)
    }
}

/// Lists the readout units without a request in this attempt, for the report to the event manager. A previous builder
/// may have requested the event from them, and readout units book fragments by the latest request that they received.
pub(super) fn name_unasked<P: Payload>(assembly: &mut Assembly<P>, readouts: &[ReadoutSources]) {
    if assembly.attempt <= 1 {
        return;
    }
    let named: BTreeSet<SourceId> = assembly.named_sources().collect();
    for (index, readout) in readouts.iter().enumerate() {
        if !readout.sources.iter().any(|source| named.contains(source)) {
            assembly.absent.push((index_u16(index), PARTS_NOT_ASKED));
        }
    }
}
