//! Memory through which a thread publishes the values of its series.
//!
//! The values are behind a sequence number, which is odd while the thread writes. A reader copies all values and keeps them only if the
//! number was even and is unchanged. So a reader never sees values of two moments, and the thread never waits for a reader.

use crate::buckets;
use crate::metric::{Kind, Metric};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Number of copies that a reader tries before it gives up. A thread writes for a microsecond, so more than a few mean that the
/// thread was suspended while it wrote.
const ATTEMPTS: u32 = 64;

/// A metric with values for its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The metric.
    pub metric: &'static Metric,
    /// Values of [`Metric::labels`], in their order.
    pub labels: Vec<String>,
    /// Position of its first value.
    first: usize,
    /// Number of values.
    length: usize,
}

impl Series {
    /// Returns the number of values: several for a histogram or a row, otherwise one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it is a row without values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns this series' part of all values of its publication.
    #[must_use]
    pub fn values<'a>(&self, all: &'a [u64]) -> &'a [u64] {
        all.get(self.first..self.first + self.len()).unwrap_or_default()
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let index = self.metric.labels.iter().position(|label| *label == name)?;
        self.labels.get(index).map(String::as_str)
    }
}

/// Which of a thread's series a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesId(usize);

impl SeriesId {
    /// Returns the id of the series that is `offset` places behind this one in the list. For series with one value, and for the values of a row.
    #[must_use]
    pub const fn plus(self, offset: usize) -> Self {
        Self(self.0 + offset)
    }
}

/// The series of a thread, while they are listed.
#[derive(Clone, Debug, Default)]
pub struct SeriesList {
    series: Vec<Series>,
    values: usize,
}

impl SeriesList {
    /// Adds a series. `labels` are the values of the metric's labels, in their order.
    ///
    /// # Panics
    /// If their number is not that of the metric's labels: a mistake of the program.
    pub fn add(&mut self, metric: &'static Metric, labels: &[&str]) -> SeriesId {
        let length = if metric.kind == Kind::Histogram { buckets::VALUES } else { 1 };
        self.add_series(metric, labels, length)
    }

    /// Adds a row of this many values. The id is that of the first.
    pub fn add_row(&mut self, metric: &'static Metric, length: usize) -> SeriesId {
        self.add_series(metric, &[], length)
    }

    fn add_series(&mut self, metric: &'static Metric, labels: &[&str], length: usize) -> SeriesId {
        assert_eq!(labels.len(), metric.labels.len(), "{}: a value for each label", metric.name);
        let series = Series {
            metric,
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            first: self.values,
            length,
        };
        let id = SeriesId(self.values);
        self.values += series.len();
        self.series.push(series);
        id
    }

    /// Makes the memory for the values, all 0, and the side that writes it.
    #[must_use]
    pub fn publish(self) -> Publisher {
        let mut by_metric = HashMap::<_, Vec<usize>>::new();
        for (place, series) in self.series.iter().enumerate() {
            by_metric.entry(series.metric.name).or_default().push(place);
        }
        let publication = Arc::new(Publication {
            series: self.series,
            by_metric,
            sequence: AtomicU64::new(0),
            at_ns: AtomicU64::new(0),
            values: (0..self.values).map(|_| AtomicU64::new(0)).collect(),
        });
        Publisher { publication }
    }
}

/// Published values, for readers.
#[derive(Debug)]
pub struct Publication {
    series: Vec<Series>,
    /// Places of the series of each metric, by its name. Readers ask for each metric many times a second, and there may be thousands of series.
    by_metric: HashMap<&'static str, Vec<usize>>,
    /// Number of changes, times two; odd during one.
    sequence: AtomicU64,
    /// When the values were published, on the clock of their node.
    at_ns: AtomicU64,
    values: Box<[AtomicU64]>,
}

impl Publication {
    /// Returns the series, in the order in which they were listed.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Returns the series of a metric, in the order in which they were listed.
    pub fn series_of(&self, metric: &Metric) -> impl Iterator<Item = &Series> {
        let places = self.by_metric.get(metric.name).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|place| &self.series[*place])
    }

    /// Returns how often values were published. A thread that works publishes again and again, also if nothing has changed.
    #[must_use]
    pub fn publications(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed) / 2
    }

    /// Copies all values, published together, into `values`, and returns when they were, in nanoseconds on the clock of their node.
    /// Returns `None`, with `values` unchanged, if the thread was suspended while it published.
    pub fn read(&self, values: &mut Vec<u64>) -> Option<u64> {
        let mut copy = Vec::with_capacity(self.values.len());
        for attempt in 0..ATTEMPTS {
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                copy.clear();
                copy.extend(self.values.iter().map(|value| value.load(Ordering::Relaxed)));
                let at_ns = self.at_ns.load(Ordering::Relaxed);
                // The second look at the number must come after all these loads.
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    *values = copy;
                    return Some(at_ns);
                }
            }
            if attempt >= ATTEMPTS / 2 {
                std::thread::yield_now();
            }
        }
        None
    }
}

/// The side of the thread that publishes. There is one for each [`Publication`].
#[derive(Debug)]
pub struct Publisher {
    publication: Arc<Publication>,
}

impl Publisher {
    /// Returns the side for readers.
    #[must_use]
    pub fn publication(&self) -> Arc<Publication> {
        self.publication.clone()
    }

    /// Publishes values together, at a time on the clock of the node, which never goes back. Series that `write` does not set keep their values.
    pub fn publish(&mut self, at_ns: u64, write: impl FnOnce(&mut Writing<'_>)) {
        let publication = &*self.publication;
        let before = publication.sequence.load(Ordering::Relaxed);
        publication.sequence.store(before + 1, Ordering::Relaxed);
        // The odd number must be visible before any of the values.
        fence(Ordering::Release);
        publication.at_ns.fetch_max(at_ns, Ordering::Relaxed);
        write(&mut Writing { values: &publication.values });
        publication.sequence.store(before + 2, Ordering::Release);
    }
}

/// Values while they are published.
#[derive(Debug)]
pub struct Writing<'a> {
    values: &'a [AtomicU64],
}

impl Writing<'_> {
    /// Sets the value of a series, in units of its metric (nanoseconds for seconds).
    #[inline]
    pub fn set(&mut self, series: SeriesId, value: u64) {
        if let Some(place) = self.values.get(series.0) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Adds to the value of a series, which is the last one published unless it was set.
    #[inline]
    pub fn add(&mut self, series: SeriesId, value: u64) {
        if let Some(place) = self.values.get(series.0) {
            // Nobody else writes.
            place.store(place.load(Ordering::Relaxed).saturating_add(value), Ordering::Relaxed);
        }
    }

    /// Sets the values of a histogram ([`buckets::Buckets::values`]).
    pub fn set_histogram(&mut self, series: SeriesId, values: &[u64; buckets::VALUES]) {
        for (offset, value) in values.iter().enumerate() {
            self.set(series.plus(offset), *value);
        }
    }

    /// Sets all values, in the order of the series.
    pub fn set_all(&mut self, values: &[u64]) {
        for (place, value) in self.values.iter().zip(values) {
            place.store(*value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn readers_see_only_values_that_were_published_together() {
        let mut list = SeriesList::default();
        let first = list.add(&catalog::EVENTS, &["stored"]);
        for outcome in 1..64 {
            list.add(&catalog::EVENTS, &[&outcome.to_string()]);
        }
        let mut publisher = list.publish();
        let publication = publisher.publication();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let (mut values, mut seen) = (Vec::new(), 0_u32);
                while values.first() != Some(&20_000) {
                    if publication.read(&mut values).is_some() {
                        assert!(values.iter().all(|value| *value == values[0]), "torn: {values:?}");
                        seen += 1;
                    }
                }
                seen
            });
            for value in 1..=20_000 {
                publisher.publish(value, |to| (0..64).for_each(|offset| to.set(first.plus(offset), value)));
            }
            assert!(reader.join().expect("the reader does not panic") > 0);
        });
        assert_eq!(publisher.publication().publications(), 20_000);
    }

    #[test]
    fn a_reader_gives_up_on_a_thread_that_was_suspended_while_it_published() {
        let mut list = SeriesList::default();
        let id = list.add(&catalog::EVENTS_IN_FLIGHT, &[]);
        let mut publisher = list.publish();
        let publication = publisher.publication();
        publisher.publish(5, |to| {
            to.set(id, 7);
            let mut values = vec![1];
            assert_eq!(publication.read(&mut values), None);
            assert_eq!(values, [1], "values stay as they were");
        });
        let mut values = Vec::new();
        assert_eq!(publication.read(&mut values), Some(5));
        assert_eq!(values, [7]);
    }

    #[test]
    fn each_series_has_its_own_values() {
        let mut list = SeriesList::default();
        let before = list.add(&catalog::EVENTS_IN_FLIGHT, &[]);
        let histogram = list.add(&catalog::EVENT_SECONDS, &[]);
        let after = list.add(&catalog::EVENT_DROPS, &["stopped"]);
        let mut publisher = list.publish();
        let mut durations = buckets::Buckets::default();
        durations.add(15_000, 3);
        publisher.publish(0, |to| {
            to.set(before, 1);
            to.set_histogram(histogram, &durations.values());
            to.set(after, 2);
        });
        let (publication, mut values) = (publisher.publication(), Vec::new());
        assert_eq!(publication.read(&mut values), Some(0));
        let [first, second, third] = publication.series() else { panic!("three series were listed") };
        assert_eq!(first.values(&values), [1]);
        assert_eq!(second.values(&values), durations.values());
        assert_eq!((third.values(&values), third.label("reason")), (&[2][..], Some("stopped")));
    }
}
