//! Simpler runs of the roles.

use super::{Simplify, shorter};
use crate::dice::Ratio;
use crate::options::{FaultKind, FeedOptions, Options, TriggerOptions};
use sheaf_wire::{NodeId, Role};

impl Simplify for Options {
    const CHANGES: &'static [fn(&mut Self, &Self)] = &[
        // One node or source less.
        |options, _| options.system.outputs = 0,
        |options, _| options.system.outputs = options.system.outputs.saturating_sub(1),
        |options, _| options.system.builders = 1,
        |options, _| options.system.builders = options.system.builders.saturating_sub(1),
        |options, _| options.system.readouts = 1,
        |options, _| options.system.readouts = options.system.readouts.saturating_sub(1),
        |options, _| options.system.sources_per_readout = 1,
        |options, _| {
            options.system.sources_per_readout = options.system.sources_per_readout.saturating_sub(1)
        },
        |options, _| options.system.optional_sources = 0,
        // Something as it is in plain options.
        |options, _| options.farm = None,
        |options, _| options.recovery = None,
        |options, _| options.preprocessing = None,
        |options, _| options.uploads = None,
        |options, _| options.consumers = None,
        |options, _| options.feed = None,
        |options, _| options.feed = options.feed.map(|feed| FeedOptions { loses_end: false, ..feed }),
        |options, _| options.feed = options.feed.map(|feed| FeedOptions { records: None, ..feed }),
        |options, _| options.slices = None,
        |options, _| options.windows = None,
        |options, _| {
            if let Some(windows) = &mut options.windows {
                (windows.late, windows.expired, windows.zero) = Default::default();
            }
        },
        |options, _| {
            if let Some(windows) = &mut options.windows {
                windows.late = Ratio::NEVER;
            }
        },
        |options, _| {
            if let Some(windows) = &mut options.windows {
                windows.expired = Ratio::NEVER;
            }
        },
        |options, _| options.numbers = None,
        |options, _| {
            if let Some(numbers) = &mut options.numbers {
                numbers.faults.pop();
            }
        },
        |options, _| options.streams.clear(),
        |options, plain| options.steps = plain.steps.clone(),
        |options, plain| options.network = plain.network.clone(),
        |options, plain| options.sources = plain.sources.clone(),
        |options, plain| options.storage = plain.storage.clone(),
        |options, plain| options.bounds = plain.bounds.clone(),
        |options, plain| options.times = plain.times.clone(),
        |options, plain| options.gathering = plain.gathering,
        |options, plain| options.slots = plain.slots.clone(),
        |options, plain| options.policy = plain.policy,
        |options, _| options.held_until = None,
        |options, _| options.pauses.clear(),
        |options, _| options.exclusions.clear(),
        |options, _| options.node_exclusions.clear(),
        |options, _| options.requirements.clear(),
        |options, _| options.supervisor = None,
        |options, _| {
            options.supervisor = None;
            options.triggers = TriggerOptions::Free;
        },
        |options, _| {
            if let Some(supervisor) = &mut options.supervisor {
                supervisor.deaths = None;
            }
        },
        |options, _| options.through_codec = false,
        |options, plain| options.timer_slack = plain.timer_slack,
        |options, plain| options.network.loss = plain.network.loss,
        |options, plain| options.network.duplicate = plain.network.duplicate,
        |options, plain| options.network.reorder = plain.network.reorder,
        |options, plain| options.network.clog = plain.network.clog,
        |options, plain| options.sources.silent = plain.sources.silent,
        |options, plain| options.sources.duplicate = plain.sources.duplicate,
        |options, plain| options.sources.out_of_order = plain.sources.out_of_order,
        |options, plain| options.sources.oversize = plain.sources.oversize,
        |options, plain| options.sources.unknown_event = plain.sources.unknown_event,
        |options, plain| options.sources.unknown_source = plain.sources.unknown_source,
        |options, plain| options.sources.pause = plain.sources.pause,
        |options, plain| options.sources.surplus = plain.sources.surplus,
        |options, plain| options.sources.slow = plain.sources.slow,
        |options, plain| options.sources.early_end = plain.sources.early_end,
        |options, plain| options.storage.reject = plain.storage.reject,
        |options, plain| options.storage.fail = plain.storage.fail,
        |options, plain| options.storage.mismatch = plain.storage.mismatch,
        |options, plain| options.storage.slow_builder = plain.storage.slow_builder,
        |options, plain| options.storage.queue_events = plain.storage.queue_events,
        |options, plain| options.storage.late = plain.storage.late,
        |options, plain| options.times.silence = plain.times.silence,
    ];

    fn plain(&self) -> Self {
        Self { seed: self.seed, ..Self::default() }
    }

    fn with_fewer_faults(&self) -> Vec<Self> {
        let faults = shorter(&self.faults).into_iter().map(|faults| Self { faults, ..self.clone() });
        let stops = shorter(&self.stops).into_iter().map(|stops| Self { stops, ..self.clone() });
        let pauses = shorter(&self.pauses).into_iter().map(|pauses| Self { pauses, ..self.clone() });
        let exclusions =
            shorter(&self.exclusions).into_iter().map(|exclusions| Self { exclusions, ..self.clone() });
        let nodes = shorter(&self.node_exclusions)
            .into_iter()
            .map(|node_exclusions| Self { node_exclusions, ..self.clone() });
        faults.chain(stops).chain(pauses).chain(exclusions).chain(nodes).collect()
    }

    fn events_mut(&mut self) -> &mut u64 {
        &mut self.events
    }

    fn forget_absent(&mut self) {
        let (nodes, farm, builders) = (self.nodes(), self.farm, self.system.builders);
        let (feed, readouts) = (self.feed, self.system.readouts);
        let is_there = |node: &NodeId| nodes.contains(node);
        self.faults.retain(|fault| match &fault.kind {
            FaultKind::Crash { node, .. } | FaultKind::Stall { node, .. } => is_there(node),
            FaultKind::Link { from, to, .. } => is_there(from) && is_there(to),
            FaultKind::KillProcessor { builder, place } => {
                *builder < builders && farm.is_some_and(|farm| *place < farm.processors)
            }
            FaultKind::Program { readout, place, .. } => {
                *readout < readouts && feed.is_some_and(|feed| *place < feed.programs)
            }
            FaultKind::Freeze { .. } => true,
        });
        let sources = self.source_count();
        let optional = &mut self.system.optional_sources;
        *optional = (*optional).min(sources.saturating_sub(1));
        self.steps.first = self.steps.first.min(sources);
        self.sources.slow = self.sources.slow.filter(|(source, _)| *source < sources);
        self.sources.early_end = self.sources.early_end.filter(|(source, _)| *source < sources);
        if let Some(numbers) = &mut self.numbers {
            numbers.faults.retain(|fault| fault.source < sources);
            numbers.reference = numbers.reference.filter(|source| *source < sources);
        }
        self.storage.slow_builder = self.storage.slow_builder.filter(|(builder, _)| *builder < builders);
        let is_of_role = |role| nodes.iter().any(|node| node.role == role);
        debug_assert!(is_of_role(Role::Manager), "there is an event manager");
    }

    fn is_valid(&self) -> bool {
        self.validate().is_ok()
    }
}
