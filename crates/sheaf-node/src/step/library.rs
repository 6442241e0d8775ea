//! Step filters from shared libraries.

use super::{StepFilter, StepVerdict, whole_slice};
use crate::filter::FilterFailure;
use bytes::Bytes;
use sheaf_filter::{LibraryStep, Step};
use sheaf_protocol::builder::More;
use sheaf_time::SliceConfig;
use sheaf_wire::{Event, EventId, HitInterval};

/// A step filter from a shared library.
#[derive(Debug)]
pub struct FromLibrary {
    library: LibraryStep,
    requests: Requests,
}

impl FromLibrary {
    /// Returns a step filter that requests sources by number.
    #[must_use]
    pub fn new(library: LibraryStep) -> Self {
        Self { library, requests: Requests::default() }
    }

    /// Lets it request windows of the hits of the remaining sources, which give hits only by time. The first step consists of slices that
    /// are cut like this.
    #[must_use]
    pub fn with_windows(self, slices: SliceConfig) -> Self {
        Self { requests: Requests { slices: Some(slices), ..self.requests }, ..self }
    }
}

impl StepFilter for FromLibrary {
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        let step = self.library.judge(part)?;
        self.requests.verdict(step, part.id)
    }

    fn request_rest(&mut self, part: &Event<Bytes>) -> More {
        self.requests.rest(part.id)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.requests.counters()
    }
}

/// Requests that a library may make.
#[derive(Debug, Default)]
struct Requests {
    /// The slices of the first step, if the other sources give windows of their hits.
    slices: Option<SliceConfig>,
    windows_requested: u64,
}

impl Requests {
    fn verdict(&mut self, step: Step, event: EventId) -> Result<StepVerdict, FilterFailure> {
        let more = match (step, &self.slices) {
            (Step::Reject, _) => return Ok(StepVerdict::Reject),
            (Step::Enough, _) => return Ok(StepVerdict::Enough),
            (Step::All, _) => self.rest(event),
            (Step::Sources(sources), None) => More::Sources(sources),
            (Step::Windows(windows), Some(_)) => self.windows(windows),
            (Step::Sources(_), Some(_)) => {
                let what = "the step filter requests sources by number, but `building.windows` is true, so that their hits are \
                            requested by time: return windows, or remove `windows` in [building]";
                return Err(FilterFailure(what.into()));
            }
            (Step::Windows(_), None) => {
                let what = "the step filter requests windows of time, but `building.windows` is false: write `windows = true` in \
                            [building], and `build_by = \"time\"` in [source]";
                return Err(FilterFailure(what.into()));
            }
        };
        Ok(StepVerdict::More(more))
    }

    /// Requests all of the rest of an event.
    fn rest(&mut self, event: EventId) -> More {
        match self.slices.as_ref().map(|slices| whole_slice(slices, event)) {
            Some(slice) => self.windows(vec![slice]),
            None => More::All,
        }
    }

    fn windows(&mut self, windows: Vec<HitInterval>) -> More {
        self.windows_requested += windows.len() as u64;
        More::Windows(windows)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.slices.iter().map(|_| ("windows_requested", self.windows_requested)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::SLICES;
    use sheaf_wire::SourceId;

    fn windows() -> Vec<HitInterval> {
        vec![HitInterval { from_ps: 5, until_ps: 9 }, HitInterval { from_ps: 70_000, until_ps: 70_001 }]
    }

    fn sources() -> Vec<SourceId> {
        vec![SourceId(9)]
    }

    fn verdict(requests: &mut Requests, step: Step) -> Result<StepVerdict, String> {
        requests.verdict(step, EventId(7)).map_err(|failure| failure.0)
    }

    #[test]
    fn without_windows_sources_are_requested_by_number() {
        let mut requests = Requests::default();
        assert_eq!(verdict(&mut requests, Step::Reject), Ok(StepVerdict::Reject));
        assert_eq!(verdict(&mut requests, Step::Enough), Ok(StepVerdict::Enough));
        assert_eq!(verdict(&mut requests, Step::All), Ok(StepVerdict::More(More::All)));
        let more = Ok(StepVerdict::More(More::Sources(sources())));
        assert_eq!(verdict(&mut requests, Step::Sources(sources())), more);
        let failure = verdict(&mut requests, Step::Windows(windows())).unwrap_err();
        assert!(failure.contains("write `windows = true` in [building]"), "{failure}");
        assert_eq!(requests.rest(EventId(7)), More::All);
        assert_eq!(requests.counters(), []);
    }

    #[test]
    fn with_windows_everything_is_requested_by_time() {
        let mut requests = Requests { slices: Some(SLICES), windows_requested: 0 };
        let slice = More::Windows(vec![HitInterval { from_ps: 70_000, until_ps: 80_000 }]);
        assert_eq!(verdict(&mut requests, Step::Reject), Ok(StepVerdict::Reject));
        assert_eq!(verdict(&mut requests, Step::Enough), Ok(StepVerdict::Enough));
        assert_eq!(verdict(&mut requests, Step::All), Ok(StepVerdict::More(slice.clone())));
        let failure = verdict(&mut requests, Step::Sources(sources())).unwrap_err();
        assert!(failure.contains("return windows, or remove `windows` in [building]"), "{failure}");
        let more = Ok(StepVerdict::More(More::Windows(windows())));
        assert_eq!(verdict(&mut requests, Step::Windows(windows())), more);
        assert_eq!(requests.rest(EventId(7)), slice);
        assert_eq!(requests.counters(), [("windows_requested", 4)]);
    }
}
