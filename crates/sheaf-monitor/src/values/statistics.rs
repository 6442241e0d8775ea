//! Numbers of a value during a run.

/// Numbers of a value from the beginning of a run on. Times are milliseconds of one clock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statistics {
    began: u64,
    /// Time up to which the value is accounted for.
    accounted: u64,
    extremes: Option<Extremes>,
    /// Sum of the value times the time for which it was that.
    weighted: f64,
    /// Time in which the value was fresh.
    known: u64,
    /// Readings that came during the run.
    pub(crate) readings: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Extremes {
    first: f64,
    last: f64,
    minimum: f64,
    maximum: f64,
}

/// A value that was the present one for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) value: f64,
    /// When it was read.
    pub(crate) from: u64,
    /// When it is stale.
    pub(crate) until: u64,
}

impl Statistics {
    /// Begins at this time, with the value that is fresh then.
    pub(crate) fn begin(now: u64, fresh: Option<f64>) -> Self {
        let mut begun =
            Self { began: now, accounted: now, extremes: None, weighted: 0.0, known: 0, readings: 0 };
        if let Some(value) = fresh {
            begun.note(value);
        }
        begun
    }

    /// Takes a reading.
    pub(crate) fn add(&mut self, value: f64) {
        self.readings += 1;
        self.note(value);
    }

    fn note(&mut self, value: f64) {
        let before =
            self.extremes.unwrap_or(Extremes { first: value, last: value, minimum: value, maximum: value });
        self.extremes = Some(Extremes {
            first: before.first,
            last: value,
            minimum: before.minimum.min(value),
            maximum: before.maximum.max(value),
        });
    }

    /// Accounts for the time up to `now`, in which the value was that of `span` as long as it was fresh.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
    pub(crate) fn account(&mut self, now: u64, span: Option<Span>) {
        if let Some(Span { value, from, until }) = span {
            let time = until.min(now).saturating_sub(from.max(self.accounted));
            self.weighted += value * time as f64;
            self.known += time;
        }
        self.accounted = self.accounted.max(now);
    }

    /// Returns first, last, minimum and maximum; `None` if the value was never known.
    pub(crate) fn extremes(&self) -> Option<[f64; 4]> {
        self.extremes.map(|Extremes { first, last, minimum, maximum }| [first, last, minimum, maximum])
    }

    /// Returns the mean over the time in which the value was known.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
    pub(crate) fn mean(&self) -> Option<f64> {
        let Extremes { last, minimum, maximum, .. } = self.extremes?;
        let mean = if self.known == 0 { last } else { self.weighted / self.known as f64 };
        // Rounding must not put it outside.
        Some(mean.clamp(minimum, maximum))
    }

    /// Returns the time for which the value was not known, in milliseconds.
    pub(crate) fn unknown(&self) -> u64 {
        (self.accounted - self.began).saturating_sub(self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mean_is_over_time_and_stale_time_is_unknown() {
        let mut statistics = Statistics::begin(1_000, None);
        statistics.account(2_000, None);
        statistics.add(10.0);
        let first = Span { value: 10.0, from: 2_000, until: 7_000 };
        statistics.account(5_000, Some(first));
        statistics.add(40.0);
        let second = Span { value: 40.0, from: 5_000, until: 6_000 };
        statistics.account(9_000, Some(second));
        assert_eq!(statistics.extremes(), Some([10.0, 40.0, 10.0, 40.0]));
        assert_eq!(statistics.mean(), Some(17.5), "3 s of 10 and 1 s of 40");
        assert_eq!((statistics.unknown(), statistics.readings), (4_000, 2));
    }

    #[test]
    fn a_value_that_was_never_known_has_no_numbers() {
        let mut statistics = Statistics::begin(0, None);
        statistics.account(5_000, None);
        assert_eq!((statistics.extremes(), statistics.mean(), statistics.unknown()), (None, None, 5_000));
    }

    proptest! {
        /// The mean is between the extremes, known and unknown time are the time, and time is not counted twice.
        #[test]
        fn numbers_of_a_run_hold_together(
            initial in proptest::option::of(-1e30..1e30_f64),
            steps in proptest::collection::vec((0_u64..5_000, -1e30..1e30_f64, 0_u64..3_000, 0_u64..4_000), 0..40),
        ) {
            let mut now = 10_000;
            let mut statistics = Statistics::begin(now, initial);
            let mut span = initial.map(|value| Span { value, from: 9_000, until: 11_000 });
            for (pause, value, age, lasts) in &steps {
                now += pause;
                statistics.account(now, span);
                statistics.add(*value);
                let from = now.saturating_sub(*age);
                span = Some(Span { value: *value, from, until: from + lasts });
            }
            statistics.account(now, span);
            prop_assert!(statistics.unknown() <= now - 10_000);
            prop_assert_eq!(statistics.unknown() + statistics.known, now - 10_000);
            prop_assert_eq!(statistics.readings, steps.len() as u64);
            match statistics.extremes() {
                Some([first, last, minimum, maximum]) => {
                    let mean = statistics.mean().expect("there is one");
                    prop_assert!(minimum <= mean && mean <= maximum);
                    prop_assert!(minimum <= first && first <= maximum && minimum <= last && last <= maximum);
                }
                None => prop_assert!(steps.is_empty() && initial.is_none()),
            }
        }
    }
}
