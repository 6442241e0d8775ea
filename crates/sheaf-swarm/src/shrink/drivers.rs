//! Simpler runs of the drivers.

use super::{Simplify, shorter};
use crate::drivers::DriverOptions;

impl Simplify for DriverOptions {
    fn simpler(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut offer = |change: &dyn Fn(&mut Self)| {
            let mut simpler = self.clone();
            change(&mut simpler);
            let nodes = simpler.nodes();
            simpler.faults.retain(|fault| nodes.contains(&fault.node));
            if simpler != *self
                && simpler.readouts > 0
                && simpler.builders > 0
                && simpler.sources_per_readout > 0
            {
                all.push(simpler);
            }
        };
        for faults in shorter(&self.faults) {
            offer(&|options| options.faults.clone_from(&faults));
        }
        for events in [self.events / 2, self.events * 3 / 4, self.events - 1] {
            offer(&|options| options.events = events.max(1));
        }
        for change in NODES {
            offer(change);
        }
        for change in FEATURES {
            offer(&|options| change(options, &self.plain()));
        }
        all
    }

    fn plain(&self) -> Self {
        Self { seed: self.seed, ..Self::default() }
    }
}

/// One node or source less.
const NODES: &[&dyn Fn(&mut DriverOptions)] = &[
    &|options| options.outputs = 0,
    &|options| options.outputs = options.outputs.saturating_sub(1),
    &|options| options.builders = 1,
    &|options| options.builders = options.builders.saturating_sub(1),
    &|options| options.readouts = 1,
    &|options| options.readouts = options.readouts.saturating_sub(1),
    &|options| options.sources_per_readout = 1,
];

/// Something as it is in plain options.
const FEATURES: &[fn(&mut DriverOptions, &DriverOptions)] = &[
    |options, plain| options.filter = plain.filter,
    |options, plain| options.filter.workers = plain.filter.workers,
    |options, plain| options.filter.dies = plain.filter.dies,
    |options, plain| options.filter.hangs = plain.filter.hangs,
    |options, plain| options.filter.time = plain.filter.time,
    |options, plain| options.filter.long = plain.filter.long,
    |options, plain| options.filter.reject = plain.filter.reject,
    |options, plain| options.disk = plain.disk,
    |options, plain| options.links = plain.links.clone(),
    |options, plain| options.gathering = plain.gathering,
    |options, plain| options.trigger_period = plain.trigger_period,
    |options, plain| options.pace = plain.pace,
    |options, plain| (options.slots, options.batch_events) = (plain.slots, plain.batch_events),
    |options, plain| options.queue_events = plain.queue_events,
];
