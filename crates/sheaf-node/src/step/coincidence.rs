//! Coincidences as the first step: the hits of all other sources are requested in their windows.

use super::{StepFilter, StepVerdict, whole_slice};
use crate::coincidence::CoincidenceFilter;
use crate::filter::FilterFailure;
use bytes::Bytes;
use sheaf_filter::abi::STEP_MAX_WINDOWS;
use sheaf_protocol::builder::More;
use sheaf_time::SliceConfig;
use sheaf_wire::Event;
use sheaf_wire::HitInterval;
use sheaf_wire::window::Window;

/// Finds coincidences in time slices of the sources of the first step, and requests the hits of the other sources in their windows. Slices
/// without a coincidence are rejected.
///
/// If a slice cannot be judged, all of its hits are requested, and the filter of the built event says why. If it has more than 64
/// windows, the last ones are requested as one, with the time between them.
pub struct CoincidenceStep {
    filter: CoincidenceFilter,
    slices: SliceConfig,
    requested: u64,
    joined: u64,
    failed: u64,
}

impl CoincidenceStep {
    /// Returns a step filter of slices that are cut like this.
    #[must_use]
    pub fn new(filter: CoincidenceFilter, slices: SliceConfig) -> Self {
        Self { filter, slices, requested: 0, joined: 0, failed: 0 }
    }
}

impl StepFilter for CoincidenceStep {
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        let mut windows: Vec<HitInterval> = match self.filter.find(part) {
            Ok(found) => {
                let interval =
                    |window: &Window| HitInterval { from_ps: window.begin_ps, until_ps: window.end_ps };
                found.iter().map(interval).collect()
            }
            Err(_) => {
                self.failed += 1;
                vec![whole_slice(&self.slices, part.id)]
            }
        };
        if windows.is_empty() {
            return Ok(StepVerdict::Reject);
        }
        if windows.len() > STEP_MAX_WINDOWS {
            let last = windows.split_off(STEP_MAX_WINDOWS - 1);
            self.joined += last.len() as u64;
            windows.extend(last.into_iter().reduce(HitInterval::hull));
        }
        self.requested += windows.len() as u64;
        Ok(StepVerdict::More(More::Windows(windows)))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("windows_requested", self.requested),
            ("windows_joined", self.joined),
            ("slices_not_judged", self.failed),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coincidence::{ClusterConditions, Margins};
    use crate::examples::{SLICES, slice};
    use sheaf_time::{CoincidenceConfig, Picos, Rule};

    fn step() -> CoincidenceStep {
        let config = CoincidenceConfig { rule: Rule::Gap(Picos(5)), min_sources: 2, max_items: 100 };
        let margins = Margins { before: Picos(10), after: Picos(20) };
        let filter = CoincidenceFilter::new(config, SLICES, ClusterConditions::default(), margins);
        CoincidenceStep::new(filter, SLICES)
    }

    fn requested(step: &mut CoincidenceStep, part: &Event<Bytes>) -> Option<Vec<(u64, u64)>> {
        match step.judge(part).unwrap() {
            StepVerdict::More(More::Windows(windows)) => {
                Some(windows.iter().map(|window| (window.from_ps, window.until_ps)).collect())
            }
            StepVerdict::Reject => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn windows_of_coincidences_are_requested_and_other_slices_rejected() {
        let mut step = step();
        let part = slice(5, &[&[50_000, 50_300], &[50_003, 50_900]]);
        assert_eq!(requested(&mut step, &part), Some(vec![(49_990, 50_024)]), "it begins before the slice");
        assert_eq!(requested(&mut step, &slice(5, &[&[50_000], &[50_300]])), None);
    }

    #[test]
    fn a_slice_that_cannot_be_judged_is_requested_whole() {
        let mut step = step();
        assert_eq!(requested(&mut step, &slice(5, &[&[70_000], &[70_000]])), Some(vec![(50_000, 60_000)]));
        assert!(step.counters().contains(&("slices_not_judged", 1)));
    }

    #[test]
    fn many_windows_are_few_requests_and_nothing_is_left_out() {
        let mut step = step();
        let times: Vec<u64> = (0..100).map(|at| 50_000 + at * 100).collect();
        let windows = requested(&mut step, &slice(5, &[&times, &times])).unwrap();
        assert_eq!(windows.len(), STEP_MAX_WINDOWS);
        assert!(times.iter().all(|time| windows.iter().any(|(from, until)| (*from..*until).contains(time))));
        assert_eq!(windows.last(), Some(&(56_290, 59_921)));
        assert!(step.counters().contains(&("windows_joined", 37)));
    }
}
