//! Series of the counters that all roles have, and of drops by reason.

use sheaf_protocol::ledger::Counter;
use sheaf_telemetry::catalog;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{Metric, SeriesId, SeriesList};
use sheaf_wire::DropReason;
use sheaf_wire::message::Count;

/// Series of the lines of a report.
#[derive(Debug)]
pub(super) struct CountSeries {
    /// By code of the counter.
    counters: Vec<Option<SeriesId>>,
    /// By code of the reason.
    drops: Vec<Option<SeriesId>>,
    sum_of_drops: Option<SeriesId>,
}

impl CountSeries {
    /// Lists no series.
    pub(super) fn new() -> Self {
        let codes = Counter::ALL.iter().map(|counter| usize::from(counter.code())).max().unwrap_or(0);
        let reasons = DropReason::ALL.iter().map(|reason| usize::from(reason.code())).max().unwrap_or(0);
        Self { counters: vec![None; codes + 1], drops: vec![None; reasons + 1], sum_of_drops: None }
    }

    /// Lists the counters that have a metric of their own.
    pub(super) fn with_counters(mut self, list: &mut SeriesList) -> Self {
        for counter in Counter::ALL {
            if let Some(metric) = metric_of(counter) {
                self.counters[usize::from(counter.code())] = Some(list.add(metric, &[]));
            }
        }
        self
    }

    /// Takes the value of a counter for a series.
    pub(super) fn with(mut self, counter: Counter, series: SeriesId) -> Self {
        self.counters[usize::from(counter.code())] = Some(series);
        self
    }

    /// Lists the drops for these reasons.
    pub(super) fn with_drops(
        mut self,
        list: &mut SeriesList,
        metric: &'static Metric,
        reasons: impl Iterator<Item = DropReason>,
    ) -> Self {
        for reason in reasons {
            self.drops[usize::from(reason.code())] = Some(list.add(metric, &[reason.name()]));
        }
        self
    }

    /// Takes the sum of all drops for a series.
    pub(super) fn with_sum_of_drops(mut self, series: SeriesId) -> Self {
        self.sum_of_drops = Some(series);
        self
    }

    /// Writes the lines of a report, which `each` passes on. Lines of the same counter are added up.
    pub(super) fn write(&self, to: &mut Writing<'_>, each: impl FnOnce(&mut dyn FnMut(Count))) {
        self.counters.iter().chain(&self.drops).flatten().for_each(|series| to.set(*series, 0));
        let mut dropped = 0;
        each(&mut |count| {
            let (series, code) = match Counter::from_code(count.code) {
                Some(Counter::Dropped) => {
                    dropped += count.value;
                    (&self.drops, count.reason)
                }
                _ => (&self.counters, count.code),
            };
            if let Some(Some(series)) = series.get(usize::from(code)) {
                to.add(*series, count.value);
            }
        });
        if let Some(series) = self.sum_of_drops {
            to.set(series, dropped);
        }
    }
}

/// Returns the metric of a counter. The bins of ledgers have none of their own.
fn metric_of(counter: Counter) -> Option<&'static Metric> {
    catalog::ALL.iter().copied().find(|metric| {
        let name = metric.name.strip_prefix("sheaf_").and_then(|name| name.strip_suffix("_total"));
        name == Some(counter.name())
    })
}

/// Reasons for which fragments are dropped.
pub(super) fn fragment_reasons() -> impl Iterator<Item = DropReason> {
    DropReason::ALL.into_iter().filter(|reason| reason.code() < DropReason::Incomplete.code())
}

/// Reasons for which events are dropped.
pub(super) fn event_reasons() -> impl Iterator<Item = DropReason> {
    DropReason::ALL.into_iter().filter(|reason| reason.code() >= DropReason::Incomplete.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_beside_the_bins_has_a_metric() {
        let bins =
            [Counter::Received, Counter::Stored, Counter::Rejected, Counter::Dropped, Counter::InFlight];
        for counter in Counter::ALL {
            assert_eq!(metric_of(counter).is_none(), bins.contains(&counter), "{}", counter.name());
        }
    }
}
