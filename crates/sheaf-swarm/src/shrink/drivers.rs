//! Simpler runs of the drivers.

use super::{Simplify, shorter};
use crate::drivers::DriverOptions;

impl Simplify for DriverOptions {
    const CHANGES: &'static [fn(&mut Self, &Self)] = &[
        // One node or source less.
        |options, _| options.outputs = 0,
        |options, _| options.outputs = options.outputs.saturating_sub(1),
        |options, _| options.builders = 1,
        |options, _| options.builders = options.builders.saturating_sub(1),
        |options, _| options.readouts = 1,
        |options, _| options.readouts = options.readouts.saturating_sub(1),
        |options, _| options.sources_per_readout = 1,
        // Something as it is in plain options.
        |options, plain| options.filter = plain.filter,
        |options, plain| options.filter.workers = plain.filter.workers,
        |options, plain| options.filter.dies = plain.filter.dies,
        |options, plain| options.filter.hangs = plain.filter.hangs,
        |options, plain| options.filter.time = plain.filter.time,
        |options, plain| options.filter.long = plain.filter.long,
        |options, plain| options.filter.reject = plain.filter.reject,
        |options, plain| options.disk = plain.disk,
        |options, plain| options.disk.is_beside = plain.disk.is_beside,
        |options, plain| options.disk.room = plain.disk.room,
        |options, plain| options.disk.left_out = plain.disk.left_out,
        |options, plain| options.disk.uploads = plain.disk.uploads,
        |options, plain| options.supervisor = plain.supervisor,
        |options, plain| options.corrupt = plain.corrupt,
        |options, plain| options.links = plain.links.clone(),
        |options, plain| options.gathering = plain.gathering,
        |options, plain| options.trigger_period = plain.trigger_period,
        |options, plain| options.announce = plain.announce,
        |options, plain| options.steps = plain.steps,
        |options, plain| options.line_rate = plain.line_rate,
        |options, plain| options.pace = plain.pace,
        |options, plain| (options.slots, options.batch_events) = (plain.slots, plain.batch_events),
        |options, plain| options.memory = plain.memory,
        |options, plain| options.buffer = plain.buffer,
        |options, plain| options.queue_events = plain.queue_events,
    ];

    fn plain(&self) -> Self {
        Self { seed: self.seed, ..Self::default() }
    }

    fn with_fewer_faults(&self) -> Vec<Self> {
        shorter(&self.faults).into_iter().map(|faults| Self { faults, ..self.clone() }).collect()
    }

    fn events_mut(&mut self) -> &mut u64 {
        &mut self.events
    }

    fn forget_absent(&mut self) {
        let nodes = self.nodes();
        self.faults.retain(|fault| nodes.contains(&fault.node));
        let sources = u32::from(self.readouts) * u32::from(self.sources_per_readout);
        self.steps.first = self.steps.first.min(sources.saturating_sub(1));
    }

    fn is_valid(&self) -> bool {
        // A voter may be restarted, and the others must be a majority.
        let voters = self.readouts + self.builders + self.outputs;
        (!self.standby || voters >= 3)
            && self.readouts > 0
            && self.builders > 0
            && self.sources_per_readout > 0
    }
}
