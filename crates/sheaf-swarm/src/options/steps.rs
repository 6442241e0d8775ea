//! Options of events in steps, and of trigger types.

use super::{Options, TriggerOptions};
use crate::dice::Ratio;
use sheaf_wire::Nanos;

/// Steps in which events are built, if not all sources at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Number of sources that are requested first; 0: all at once.
    pub first: u16,
    /// Events that are rejected after a part has been judged.
    pub reject: Ratio,
    /// Events that need no more than the first step.
    pub enough: Ratio,
    /// Events of which a region of interest is requested after the first step. For every other such event, the rest is
    /// requested after that. The rest of all other events is requested after the first step.
    pub region: Ratio,
    /// Minimum time of the judgement of a part; the maximum is three times as long.
    pub judge: Nanos,
    /// Number of trigger types; up to 1, all readout units answer every trigger.
    pub types: u16,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self {
            first: 0,
            reject: Ratio::NEVER,
            enough: Ratio::NEVER,
            region: Ratio::NEVER,
            judge: Nanos::from_micros(10),
            types: 0,
        }
    }
}

impl Options {
    /// Checks that the options of steps and trigger types are compatible.
    pub(super) fn steps_may_be(&self) -> bool {
        let is_pushed = matches!(self.gathering, sheaf_protocol::gathering::Gathering::Push);
        // Trigger types are assigned by the event manager, but announced ids come from sources.
        let is_announced = matches!(self.triggers, TriggerOptions::Announced { .. });
        let has_types = self.steps.types > 1;
        !(self.is_selective() && is_pushed || has_types && is_announced)
    }
}
