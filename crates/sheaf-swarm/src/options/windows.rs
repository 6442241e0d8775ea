//! Options of windows of hits that sources give on request.

use super::{Options, TriggerOptions};
use crate::dice::{Ratio, mix};
use sheaf_protocol::builder::{TriggerWindows, WindowExtent};
use sheaf_protocol::gathering::Gathering;
use sheaf_wire::{EventId, HitInterval, Nanos, SourceId, TimeUnit, Timestamp, TriggerType};
use std::collections::BTreeMap;

/// The only type of triggers, if they have no types.
pub(crate) const PLAIN_TYPE: TriggerType = TriggerType(1);

/// Bytes that a builder adds to the expected size of an answer, at most.
const REQUEST_BYTES: u64 = 64;

/// Maximum number of windows of an event that is built in steps.
const STEP_WINDOWS: u64 = 3;

/// Sources that keep their hits, and give windows of them on request. Of events in one step these are all sources, and each trigger
/// stands for a window. Of events in steps, these are the sources that are not in the first step, which finds the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Mean time from a request to its answer.
    pub delay: Nanos,
    /// Requests whose answers take `late_time` longer.
    pub late: Ratio,
    /// See `late`.
    pub late_time: Nanos,
    /// Requests for hits that are no longer kept.
    pub expired: Ratio,
    /// Trigger time that is time 0 of the hits.
    pub zero: Timestamp,
    /// Window around a trigger.
    pub extent: WindowExtent,
    /// Window around a trigger of type 1, if it has its own.
    pub of_type: Option<WindowExtent>,
}

impl WindowOptions {
    /// Returns whether every request can be answered by hits.
    #[must_use]
    pub fn has_all(&self) -> bool {
        !self.expired.is_possible() && self.zero == Timestamp::ZERO
    }

    /// Returns the longest time from a request to its answer.
    #[must_use]
    pub(crate) fn longest(&self) -> Nanos {
        // The largest draw is 45 times the mean.
        Nanos(48 * self.delay.0 + if self.late.is_possible() { self.late_time.0 } else { 0 })
    }
}

impl Options {
    /// Returns whether a source gives windows of its hits on request.
    #[must_use]
    pub fn is_on_request(&self, source: SourceId) -> bool {
        self.windows.is_some() && u16::try_from(source.0).is_ok_and(|number| !self.is_first(number))
    }

    /// Returns the sources of a readout unit that give windows of their hits on request.
    pub(crate) fn sources_on_request(&self, readout: u16) -> Vec<SourceId> {
        let sources = (0..self.source_count()).map(|number| SourceId(u32::from(number)));
        let is_here = |source: &SourceId| self.readout_of(*source).index == readout;
        sources.filter(|source| is_here(source) && self.is_on_request(*source)).collect()
    }

    /// Returns whether all sources give their hits on request.
    #[must_use]
    pub fn has_trigger_windows(&self) -> bool {
        self.windows.is_some() && self.steps.first == 0
    }

    /// Returns the windows for which triggers stand.
    #[must_use]
    pub fn trigger_windows(&self) -> Option<TriggerWindows> {
        let setup = self.windows.filter(|_| self.has_trigger_windows())?;
        let by_type: BTreeMap<_, _> = setup.of_type.map(|extent| (PLAIN_TYPE, extent)).into_iter().collect();
        Some(TriggerWindows { zero: setup.zero, unit: TimeUnit::NANOSECOND, extent: setup.extent, by_type })
    }

    /// Returns the windows that the first step of an event finds.
    #[must_use]
    pub fn step_windows(&self, event: EventId) -> Vec<HitInterval> {
        let draw = |place: u64| mix(mix(self.seed ^ 0x3177 ^ event.0) ^ place);
        let window = |place: u64| {
            let from_ps = event.0 * 1_000_000 + draw(place) % 1_000_000;
            HitInterval { from_ps, until_ps: from_ps + 1 + draw(place + STEP_WINDOWS) % 1_000_000 }
        };
        (0..1 + draw(2 * STEP_WINDOWS) % STEP_WINDOWS).map(window).collect()
    }

    /// Returns the longest time from a request of hits to its answer.
    pub(crate) fn window_time(&self) -> Nanos {
        self.windows.map_or(Nanos::ZERO, |setup| setup.longest())
    }

    /// Returns the longest time from the assignment of an event until its requests for hits are answered. Requests beyond the credit of
    /// a builder wait for the answers before them, and a readout unit whose sources take their time holds a quarter of the credit.
    pub(crate) fn windows_in_turn(&self) -> Nanos {
        let Gathering::Paced { credit } = self.gathering else {
            return self.window_time();
        };
        let readouts = u64::from(self.system.readouts);
        let given = self.sources.largest.0 * u64::from(self.system.sources_per_readout);
        let expected = self.bounds.expected_event.map_or(0, |bytes| bytes.0 / readouts);
        let together = credit.0 / 4 / (given.max(expected) + REQUEST_BYTES);
        let requests = u64::from(self.bounds.slots) * readouts;
        Nanos(self.window_time().0 * requests.div_ceil(together.max(1)))
    }

    /// Checks that windows are compatible with the other options.
    pub(super) fn windows_may_be(&self) -> bool {
        let Some(setup) = &self.windows else { return true };
        let is_pushed = matches!(self.gathering, Gathering::Push);
        let is_off = self.numbers.as_ref().is_some_and(|numbers| !numbers.faults.is_empty());
        let is_possible = if self.has_trigger_windows() {
            // Triggers have times, and no source has anything of its own to send.
            matches!(self.triggers, TriggerOptions::Driven { .. })
                && self.sources.surplus == 0
                && self.sources.early_end.is_none()
                && !self.sources.end
                && self.sources.defects().into_iter().all(|ratio| !ratio.is_possible())
        } else {
            // All that is not in the first step is requested by window, and the first step finds windows in every event.
            let by_reference =
                matches!(self.triggers, TriggerOptions::Announced { reference_only: true, .. });
            let reference_gives = !by_reference || !self.is_on_request(SourceId(0));
            let ends_early = self.sources.early_end.map(|(number, _)| SourceId(u32::from(number)));
            reference_gives
                && !ends_early.is_some_and(|source| self.is_on_request(source))
                && !self.steps.region.is_possible()
                && self.steps.types <= 1
                && setup.zero == Timestamp::ZERO
        };
        is_possible && !is_pushed && !is_off && self.feed.is_none()
    }
}
