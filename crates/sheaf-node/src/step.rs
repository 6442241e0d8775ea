//! Decisions on the first step of an event, before the rest of it is requested.

pub(crate) mod beside;
mod coincidence;
mod library;

pub use coincidence::CoincidenceStep;
pub use library::FromLibrary;

use crate::filter::{Filter, FilterFailure};
use beside::StepsBeside;
use bytes::Bytes;
use sheaf_protocol::builder::More;
use sheaf_time::SliceConfig;
use sheaf_wire::{Event, EventId, HitInterval, SourceId};

/// Verdict of a step filter on a part of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepVerdict {
    /// The event is rejected; nothing more of it is asked for.
    Reject,
    /// The event needs no more sources. It goes to the filter unchanged.
    Enough,
    /// More sources are requested: either all remaining ones, after which the event goes to the filter, or those of a
    /// region of interest, after which the step filter sees it again.
    More(More),
}

/// Filters parts of events, with building in steps: a quick decision near the builder unit, before most of the event
/// has been transferred. Accepted events go to the [`Filter`] when they are built.
pub trait StepFilter: Send {
    /// Decides on an event of which this part has been built. Sources that are neither in its fragments nor missing
    /// have not been requested.
    ///
    /// # Errors
    /// A [`FilterFailure`] if the filter has no verdict. The rest of the event is then requested, so that nothing is
    /// lost, and the filter decides.
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure>;

    /// Returns the request for the rest of an event for which [`Self::judge`] failed.
    fn request_rest(&mut self, _part: &Event<Bytes>) -> More {
        More::All
    }

    /// Returns its counters by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Failure of a step filter, and the request for the rest of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepFailure {
    pub(crate) failure: FilterFailure,
    pub(crate) rest: More,
}

/// Has a part judged.
pub(crate) fn judge(filter: &mut dyn StepFilter, part: &Event<Bytes>) -> Result<StepVerdict, StepFailure> {
    filter.judge(part).map_err(|failure| StepFailure { failure, rest: filter.request_rest(part) })
}

/// Returns the time of a slice, without its overlaps.
fn whole_slice(slices: &SliceConfig, slice: EventId) -> HitInterval {
    let begin = |slice: u64| slices.begin(slice).0;
    HitInterval { from_ps: begin(slice.0), until_ps: begin(slice.0.saturating_add(1)) }
}

/// A step filter of a builder unit.
pub(crate) enum Steps {
    /// On the builder unit's own thread: it is known to be quick.
    Here(Box<dyn StepFilter>),
    /// On a thread of its own.
    Beside(StepsBeside),
}

impl Steps {
    /// Returns whether a part is still being filtered.
    pub(crate) fn is_judging(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Beside(steps) => steps.is_judging(),
        }
    }

    /// Ends the work and returns the counters.
    pub(crate) fn finish(&mut self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Here(filter) => filter.counters(),
            Self::Beside(steps) => steps.finish(),
        }
    }
}

/// Any filter as a step filter: if it accepts, the rest of the event is requested. Its tags and payload are discarded.
pub struct Accepted<F>(pub F);

impl<F: Filter> StepFilter for Accepted<F> {
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        let verdict = self.0.judge(part)?;
        Ok(if verdict.accepted { StepVerdict::More(More::All) } else { StepVerdict::Reject })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }
}

/// Requests the rest of every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskForAll;

impl StepFilter for AskForAll {
    fn judge(&mut self, _part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        Ok(StepVerdict::More(More::All))
    }
}

/// Decides by the size of the part, which is a measure of activity if front ends suppress zeros.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// An event is rejected if its first step has less payload, in bytes.
    pub minimum: u64,
    /// Sources with a region of interest: if such a source has at least [`Self::minimum`] bytes, the sources of its
    /// region are requested. If the list is empty, all remaining sources are.
    pub regions: Vec<(SourceId, Vec<SourceId>)>,
}

impl StepFilter for Activity {
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        if part.payload_bytes() < self.minimum {
            return Ok(StepVerdict::Reject);
        }
        if self.regions.is_empty() {
            return Ok(StepVerdict::More(More::All));
        }
        let is_active = |source: SourceId| {
            let fragment = part.fragments.iter().find(|fragment| fragment.source == source);
            fragment.is_some_and(|fragment| fragment.payload.len() as u64 >= self.minimum)
        };
        let is_here = |source: SourceId| {
            part.fragments.iter().any(|fragment| fragment.source == source)
                || part.missing.iter().any(|missing| missing.source == source)
        };
        let active = self.regions.iter().filter(|(source, _)| is_active(*source));
        let mut wanted: Vec<SourceId> = active.flat_map(|(_, region)| region).copied().collect();
        wanted.retain(|source| !is_here(*source));
        wanted.sort_unstable();
        wanted.dedup();
        Ok(match wanted.is_empty() {
            true => StepVerdict::Enough,
            false => StepVerdict::More(More::Sources(wanted)),
        })
    }
}

#[cfg(test)]
mod tests;
