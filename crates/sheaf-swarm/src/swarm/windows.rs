//! Draws sources that give windows of their hits on request. It uses dice of its own, so that all other seeds draw what they would draw
//! without it.

use super::Swarm;
use crate::dice::{Dice, Ratio};
use crate::options::{FaultKind, Options, TriggerOptions, WindowOptions};
use sheaf_protocol::builder::WindowExtent;
use sheaf_protocol::gathering::Gathering;
use sheaf_wire::{Nanos, SourceId, Timestamp};

/// One of so many runs has such sources.
const ONE_IN: u64 = 9;

impl Swarm {
    /// Draws windows, always if they are `wanted`.
    pub(super) fn windows(&mut self, wanted: bool) {
        let mut dice = Dice::new(self.options.seed, 61);
        if dice.below(ONE_IN) > 0 && !wanted {
            return;
        }
        self.options.windows = Some(self.window_options(&mut dice));
        if matches!(self.options.gathering, Gathering::Push) {
            self.options.gathering = Gathering::Pull;
        }
        self.options.feed = None;
        self.options.faults.retain(|fault| !matches!(fault.kind, FaultKind::Program { .. }));
        if let Some(numbers) = &mut self.options.numbers {
            numbers.faults.clear();
        }
        let first = self.options.steps.first.min(self.options.source_count() - 1);
        self.options.steps.first = first;
        match first {
            0 => self.windows_of_triggers(&mut dice),
            _ => self.windows_of_steps(),
        }
    }

    fn window_options(&self, dice: &mut Dice) -> WindowOptions {
        let mean = dice.pick(&[1, 20, 200, 2_000]);
        let times = &self.options.times;
        // Longer than each of the time limits, and than all together.
        let longest = Nanos(2 * (times.event.0 + times.retry.0 + times.merge.0)).min(Nanos::from_millis(300));
        let late = dice.pick(&[0, 0, 1, 10, 40]);
        let expired = dice.pick(&[0, 1, 5, 30]);
        let zero = dice.below(self.busy_time().0 / 2 + 1);
        let has_early = dice.below(2) == 0;
        let mut extent =
            || WindowExtent { before_ps: dice.below(1_000_000_000), after_ps: 1 + dice.below(1_000_000_000) };
        let (extent, other) = (extent(), extent());
        WindowOptions {
            delay: dice.time_between(Nanos::ZERO, Nanos::from_micros(mean)),
            late: Ratio::percent(late),
            late_time: dice.time_between(Nanos::ZERO, longest),
            expired: if self.is_calm { Ratio::NEVER } else { Ratio::percent(expired) },
            zero: Timestamp(if self.is_calm || !has_early { 0 } else { zero }),
            extent,
            of_type: (dice.below(2) == 0).then_some(other),
        }
    }

    /// Lets each trigger stand for a window: triggers have times, and sources have nothing of their own to send.
    fn windows_of_triggers(&mut self, dice: &mut Dice) {
        let Options { sources, triggers, slices, .. } = &mut self.options;
        if !matches!(triggers, TriggerOptions::Driven { .. }) {
            let period = dice.time_between(Nanos::from_micros(10), Nanos::from_micros(200));
            *triggers = TriggerOptions::Driven { period, poisson: dice.below(2) == 0 };
        }
        (sources.surplus, sources.early_end, *slices) = (0, None, None);
        for ratio in sources.defects_mut() {
            *ratio = Ratio::NEVER;
        }
    }

    /// Lets the first step find the windows of all other sources.
    fn windows_of_steps(&mut self) {
        let is_given = self.options.is_on_request(SourceId(0));
        let ending = self.options.sources.early_end.map(|(number, _)| SourceId(u32::from(number)));
        if ending.is_some_and(|source| self.options.is_on_request(source)) {
            self.options.sources.early_end = None;
        }
        let Options { steps, triggers, windows, .. } = &mut self.options;
        (steps.types, steps.region) = (0, Ratio::NEVER);
        if let TriggerOptions::Announced { reference_only, .. } = triggers {
            *reference_only &= !is_given;
        }
        if let Some(windows) = windows {
            windows.zero = Timestamp::ZERO;
        }
    }
}
