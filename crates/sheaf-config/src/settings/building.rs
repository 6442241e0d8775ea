//! Composition of events and the order of requests: steps, and types of triggers.

use super::{GIB, HOUR, MAX_NODES};
use crate::choice::choice;
use crate::codec::{
    bytes, id_list, maybe, microseconds, parameters, path, pick, source_list, switch, symbol, whole,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos, SourceId, TriggerType};
use std::path::PathBuf;

choice! {
    /// Filter of the first step.
    StepFilterKind {
        /// the rest of every event is requested
        All = "all",
        /// the rest of every `prescale`-th event is requested, other events are rejected
        Prescale = "prescale",
        /// events whose first step has less than `minimum_bytes` of payload are rejected, the rest of others is
        /// requested
        Activity = "activity",
        /// time slices without a coincidence, as `[filter]` defines it, are rejected; of others, the hits of the remaining sources are
        /// requested in the windows of the coincidences, see `[windows]`
        Coincidence = "coincidence",
        /// a step filter in the shared library `path` decides: reject, accept, or request further sources or windows of their hits
        Library = "library",
    }
}

section! {
    /// Event building in steps: some sources first, the others after these have been judged.
    Building "building" {
        /// Sources of the first step. If set, builder units request these first, and the others only for events that
        /// pass. Not with `shaping.policy` "push".
        first_step: Vec<SourceId> = Vec::new(), "first_step", source_list();
        /// Filter of the first step. `[filter]` judges the complete event.
        filter: StepFilterKind = StepFilterKind::All, "filter", pick();
        /// With the filter `prescale`: keeps one event in N.
        prescale: u32 = 1, "prescale", whole(1, u64::from(u32::MAX));
        /// With the filter `activity`: minimum payload of the first step of an event that is kept.
        minimum: ByteCount = ByteCount::ZERO, "minimum_bytes", bytes(0, GIB);
        /// With the filter `library`: whether it requests windows of time. The sources that are not in the first step then keep their hits
        /// and give those in the windows, see `[windows]`. Requires `source.build_by` "time".
        windows: bool = false, "windows", switch();
        /// With the filter `library`: path of the shared library, which is loaded when the run starts.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// With the filter `library`: function of the library that returns the step filter.
        symbol: String = "sheaf_step_filter".into(), "symbol", symbol();
        /// With the filter `library`: text that is passed to the step filter. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
    }
}

impl Building {
    /// Returns whether the first step finds windows of time, in which the hits of the other sources are requested.
    #[must_use]
    pub fn finds_windows(&self) -> bool {
        let does_filter = match self.filter {
            StepFilterKind::Coincidence => true,
            StepFilterKind::Library => self.windows,
            StepFilterKind::All | StepFilterKind::Prescale | StepFilterKind::Activity => false,
        };
        does_filter && !self.first_step.is_empty()
    }
}

section! {
    /// A type of trigger, and the readout units that answer it: events are complete without the others. With such
    /// tables, emulated triggers have these types in proportion to their weights; the type of an event follows from
    /// `trigger.seed` and its id. The name is only a label.
    TriggerClass "triggers.NAME" {
        /// Trigger type of its events, in the experiment's own numbering.
        trigger_type: TriggerType = TriggerType(0), "type", whole(0, u64::from(u16::MAX));
        /// Relative frequency: with the weights 3 and 1, three of four triggers are of the first type.
        weight: u32 = 1, "weight", whole(0, 1 << 30);
        /// The readout units that answer, by their place among the readout units, from 0. Numbers, or ranges such as
        /// `"4-7"`. None stands for all.
        readouts: Vec<u16> = Vec::new(), "readouts", id_list(MAX_NODES - 1);
        /// With `source.build_by = "window"`: time before the trigger that belongs to its window. Default: that of `[windows]`.
        before: Option<Nanos> = None, "before_us", maybe(microseconds(Nanos::ZERO, HOUR));
        /// With `source.build_by = "window"`: time from the trigger on that belongs to its window. Default: that of `[windows]`.
        after: Option<Nanos> = None, "after_us", maybe(microseconds(Nanos::ZERO, HOUR));
    }
}
