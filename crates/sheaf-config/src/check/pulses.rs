//! Settings of pulses that clocks follow.

use super::Checker;
use crate::Config;
use crate::error::ErrorKind;
use crate::settings::{FrontEnd, HitTimes};
use sheaf_wire::{ClockDrift, ExactNanos};

const PERIOD: &str = "source.timed.pulse_period";

impl Checker<'_> {
    /// Pulses of a reference, and resets of counters.
    pub(super) fn pulses(&mut self) {
        let Config { source, clocks, .. } = self.config;
        if !source.is_timed() {
            return;
        }
        let (timed, kinds) = (&source.timed, &source.hits.pulse_kinds);
        let (front_end, is_described) = (timed.front_end, timed.front_end == FrontEnd::Described);
        if timed.pulse_period.is_none() {
            if is_described && !kinds.is_empty() {
                let found = format!("`source.hits.pulse_kinds` is set, but `{PERIOD}` is not");
                let right = "write the time between pulses, such as `pulse_period = \"1 s\"`";
                self.fail(ErrorKind::Missing, &["source.hits.pulse_kinds", PERIOD], found, right);
            }
            let delayed = clocks.iter().find(|(_, clock)| clock.pulse_delay != ExactNanos::ZERO);
            if let Some((name, _)) = delayed {
                let key = format!("clocks.{name}.pulse_delay");
                let found = format!("`{key}` is set, but `{PERIOD}` is not");
                self.fail(
                    ErrorKind::Missing,
                    &[&key, PERIOD],
                    found,
                    "write the time between pulses, or remove the delay",
                );
            }
            return;
        }
        if is_described && kinds.is_empty() {
            let found = format!("`{PERIOD}` is set, but `source.hits.pulse_kinds` is not");
            let right = "write which kinds of records are pulses, such as `pulse_kinds = [5]`";
            self.fail(ErrorKind::Missing, &[PERIOD, "source.hits.pulse_kinds"], found, right);
        }
        if matches!(front_end, FrontEnd::Vmm3a | FrontEnd::Hits) {
            let found =
                format!("`{PERIOD}` is set, but front ends of the kind \"{front_end}\" send no pulses");
            self.fail(ErrorKind::Conflict, &[PERIOD, "source.timed.front_end"], found, "remove it");
        }
        if timed.times == HitTimes::Fragment {
            let found = format!("`{PERIOD}` is set, but hits count from the time of their fragment");
            let right = "remove it, or `times`: pulses set the time of a counter";
            self.fail(ErrorKind::Conflict, &[PERIOD, "source.timed.times"], found, right);
        }
        if timed.pulse_tolerance <= ClockDrift::ZERO {
            let found = format!("`source.timed.pulse_tolerance` is {}", timed.pulse_tolerance);
            let right = "write a deviation above 0, such as `\"100 ppm\"`";
            self.fail(ErrorKind::BadValue, &["source.timed.pulse_tolerance"], found, right);
        }
    }
}
