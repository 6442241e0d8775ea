//! Draws the components around the roles. Each uses dice of its own, so that the rest of a seed's run does not depend on it.

use super::Swarm;
use crate::dice::{Dice, Ratio};
use crate::options::{
    ConsumerOptions, Fault, FaultKind, FeedOptions, MAX_RECORD_BYTES, ObjectStoreOptions,
    PreprocessingOptions, ProgramFault, RecordOptions, SliceOptions, TriggerOptions, stream_rules,
};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::sampler::Selection;
use sheaf_wire::{ByteCount, ByteRate, Nanos, Tags, Timestamp};

/// Approximate sum of all slow calls of preprocessors in a run.
const SLOW_TOGETHER: Nanos = Nanos::from_millis(500);

impl Swarm {
    pub(super) fn around(&mut self) {
        self.preprocessing();
        self.streams();
        self.uploads();
        self.consumers();
        self.slices();
        self.feed();
    }

    /// Draws programs that feed sources.
    fn feed(&mut self) {
        let mut dice = Dice::new(self.options.seed, 20);
        if dice.below(4) > 0 {
            return;
        }
        let waits = self.options.policy == IncompletePolicy::Wait;
        let mut setup = FeedOptions {
            every: dice.pick(&[1, 1, 2, 3]),
            programs: dice.pick(&[1, 1, 2]),
            keeps: dice.below(2) == 0 || waits,
            window_fragments: dice.pick(&[1, 4, 16, 64]),
            window_events: dice.pick(&[1, 4, 16]),
            way: dice.time_between(Nanos::ZERO, Nanos::from_micros(50)),
            start: dice.pick(&[Nanos::from_micros(100), Nanos::from_millis(5), Nanos::from_millis(300)]),
            retry: dice.time_between(Nanos::from_micros(50), Nanos::from_millis(5)),
            repeats: dice.pick(&[0, 1, 5]),
            declines: !self.is_calm && dice.below(12) == 0,
            loses_end: false,
            records: records(&mut Dice::new(self.options.seed, 24)),
        };
        self.options.feed = Some(setup);
        if self.is_calm {
            return;
        }
        for _ in 0..dice.pick(&[0, 1, 3, 10]) {
            let at = Timestamp(dice.below(self.busy_time().0));
            let readout = u16::try_from(dice.below(self.options.system.readouts.into())).unwrap_or(0);
            let place = u16::try_from(dice.below(setup.programs.into())).unwrap_or(0);
            let longest = dice.pick(&[2, 20, 3_000]);
            let lasts = dice.time_between(Nanos::ZERO, Nanos::from_millis(longest));
            let is_lossy = dice.below(2) == 0;
            let fault = match dice.below(5) {
                0 | 1 => ProgramFault::Dies { back_after: lasts, is_lossy },
                2 => ProgramFault::Stalls { lasts },
                3 => ProgramFault::Leaves { is_lossy },
                _ => ProgramFault::Overdraws,
            };
            self.options.faults.push(Fault { at, kind: FaultKind::Program { readout, place, fault } });
        }
        setup.loses_end = dice.below(3) == 0;
        self.options.feed = Some(setup);
    }

    /// Draws preprocessing, whose calls may be slower than every timeout, fail and hang.
    fn preprocessing(&mut self) {
        let mut dice = Dice::new(self.options.seed, 11);
        if dice.below(4) > 0 {
            return;
        }
        let time = dice.time_between(Nanos::ZERO, Nanos::from_micros(50));
        let slow_time = dice.time_between(Nanos::from_millis(1), Nanos::from_millis(100));
        let fragments = self.options.events * u64::from(self.options.source_count());
        let share = 1_000_000 * SLOW_TOGETHER.0 / slow_time.0 / fragments.max(1);
        let slow = match dice.below(3) {
            0 => Ratio::per_million(u32::try_from(share.min(500_000)).unwrap_or(0)),
            _ => Ratio::NEVER,
        };
        let mut ratio = || match self.is_calm {
            true => Ratio::NEVER,
            false => Ratio::per_million(dice.pick(&[0, 0, 0, 5_000, 50_000])),
        };
        let (fails, hangs) = (ratio(), ratio());
        let patient = Nanos(slow_time.0 + time.0 + 1);
        let time_limit = match self.is_calm {
            true => patient,
            false => dice.pick(&[patient, patient, Nanos::from_millis(2)]),
        };
        let extra = ByteCount(dice.pick(&[0, 0, 50, 500]));
        self.options.preprocessing = Some(PreprocessingOptions {
            workers: dice.pick(&[1, 1, 2, 4]),
            outstanding_events: dice.pick(&[1, 2, 8, 64]),
            every: dice.pick(&[1, 1, 2, 3]),
            time,
            slow,
            slow_time,
            time_limit,
            factor: dice.pick(&[1, 2, 10]),
            extra,
            fails,
            hangs: Ratio::per_million(hangs.per_million / 10),
        });
    }

    /// Draws streams for tags, with prescales. Events that no stream takes are rejected.
    fn streams(&mut self) {
        let mut dice = Dice::new(self.options.seed, 12);
        if dice.below(2) == 0 {
            return;
        }
        let names = ["default", "physics", "monitor", "calibration"];
        let first = usize::from(dice.below(2) == 0);
        let count = usize::try_from(dice.between(1, 3)).unwrap_or(1);
        let mut rules = Vec::new();
        for name in &names[first..(first + count).min(names.len())] {
            let tags = if *name == "default" { Tags::NONE } else { Tags(dice.below(16)) };
            rules.push((*name, tags, dice.pick(&[1, 1, 2, 7])));
        }
        self.options.streams = stream_rules(&rules);
    }

    /// Draws uploads of files to an object store. Their events count late, and file by file.
    fn uploads(&mut self) {
        let mut dice = Dice::new(self.options.seed, 13);
        if dice.below(5) > 0 {
            return;
        }
        self.options.uploads = Some(ObjectStoreOptions {
            rotate_events: dice.pick(&[1, 2, 8, 64]),
            rotate: dice.time_between(Nanos::from_micros(500), Nanos::from_millis(5)),
            quiet: dice.time_between(Nanos::from_micros(100), Nanos::from_millis(2)),
            time: dice.time_between(Nanos::from_micros(10), Nanos::from_millis(2)),
            connections: dice.pick(&[1, 2, 4]),
            fails: Ratio::percent(dice.pick(&[0, 0, 10, 50])),
        });
    }

    /// Draws consumers that read, read slowly, or never read.
    fn consumers(&mut self) {
        let mut dice = Dice::new(self.options.seed, 14);
        if dice.below(3) > 0 {
            return;
        }
        let event = self.options.sources.largest.0 * u64::from(self.options.source_count()) + 1;
        let selections = (0..dice.between(1, 4)).map(|_| {
            let selection = Selection {
                tags: Tags(dice.pick(&[0, 0, 1, 6])),
                prescale: dice.pick(&[0, 1, 1, 3]),
                interval: dice.pick(&[Nanos::ZERO, Nanos::ZERO, Nanos::from_millis(30)]),
            };
            let pace = dice.time_between(Nanos::ZERO, Nanos::from_millis(2));
            (selection, (dice.below(4) > 0).then_some(pace))
        });
        let selections = selections.collect();
        self.options.consumers = Some(ConsumerOptions {
            selections,
            queue_events: dice.pick(&[1, 4, 64]),
            queue: ByteCount(dice.pick(&[event / 2 + 1, 4 * event, 100 * event])),
            interval: dice.pick(&[Nanos::ZERO, Nanos::from_millis(10)]),
            copy_rate: dice.pick(&[None, None, ByteRate::new(10_000_000)]),
        });
    }

    /// Draws sources that divide their items into time slices. Sources that skip empty slices are missing in their events.
    fn slices(&mut self) {
        let mut dice = Dice::new(self.options.seed, 15);
        let is_apt = matches!(self.options.triggers, TriggerOptions::Announced { stride: 1, .. });
        if !is_apt || dice.below(3) == 0 {
            return;
        }
        let waits = self.options.policy == IncompletePolicy::Wait;
        let all = self.is_calm || waits || dice.below(2) == 0;
        self.options.slices = Some(SliceOptions {
            items: dice.pick(&[1, 3, 10]),
            disorder: dice.pick(&[0, 500, 3_000]),
            tolerance: dice.pick(&[0, 500, 3_000]),
            held: dice.pick(&[2, 16, 1_000]),
            before: dice.pick(&[0, 0, 200, 1_500]),
            after: dice.pick(&[0, 0, 200, 1_500]),
            max_items: dice.pick(&[2, 16, 1_000]),
            max_empty: if all { u64::MAX } else { dice.pick(&[0, 1, 3]) },
        });
    }
}

/// Draws run records of programs.
fn records(dice: &mut Dice) -> Option<RecordOptions> {
    (dice.below(2) == 0).then(|| RecordOptions {
        count: dice.pick(&[0, 1, 3, 30]),
        pause: dice.time_between(Nanos::ZERO, Nanos::from_millis(5)),
        bytes: dice.pick(&[0, 100, MAX_RECORD_BYTES, MAX_RECORD_BYTES + 1]),
        same_number: dice.below(8) == 0,
        late: dice.below(2) == 0,
    })
}
