//! Sums in equal slices of time, for several columns.

use super::float;
use crate::units::Picos;

/// Between half as many and `most` slices; their width is a power of two of picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    /// One row for each slice.
    sums: Vec<u64>,
    columns: usize,
    most: usize,
    /// The width is 2^`shift` picoseconds.
    shift: u32,
    /// The end of the last slice that there is a row for.
    limit: Picos,
}

impl Slices {
    pub(super) fn new(most: usize, columns: usize) -> Self {
        Self { sums: vec![0; most * columns], columns, most, shift: 0, limit: Picos(most as u64) }
    }

    /// The width of a slice in picoseconds.
    pub(super) fn width(&self) -> u64 {
        1 << self.shift
    }

    #[inline]
    pub(super) fn add(&mut self, column: usize, value: u64, now: Picos) {
        while now >= self.limit {
            self.join();
        }
        let row = usize::try_from(now.0 >> self.shift).expect("there are few slices");
        self.sums[row * self.columns + column] += value;
    }

    /// Joins the slices in pairs, so that they are twice as long.
    #[cold]
    fn join(&mut self) {
        // From the present width to the one that holds the limit's double in one step each: at most 64 times in a run.
        for row in 0..self.most {
            for column in 0..self.columns {
                let pair = |offset: usize| {
                    let source = (2 * row + offset) * self.columns + column;
                    self.sums.get(source).copied().unwrap_or(0)
                };
                let sum = pair(0) + pair(1);
                self.sums[row * self.columns + column] = sum;
            }
        }
        self.shift += 1;
        self.limit = Picos(self.limit.0.saturating_mul(2));
    }

    /// The sums of a column per second, for each whole slice until `end`. One slice that is not whole is better than
    /// none.
    pub(super) fn rates(&self, column: usize, end: Picos) -> Vec<f64> {
        let whole = usize::try_from(end.0 >> self.shift).unwrap_or(self.most).min(self.most);
        if whole == 0 {
            return vec![self.rate_since(column, Picos::ZERO, end)];
        }
        let seconds = Picos(self.width()).as_secs_f64();
        (0..whole).map(|row| float(self.sums[row * self.columns + column].into()) / seconds).collect()
    }

    /// Returns the sum of a column per second from the first slice that begins at `from` or later to `end`; of the last
    /// slice if there is none.
    pub(super) fn rate_since(&self, column: usize, from: Picos, end: Picos) -> f64 {
        let last = usize::try_from(end.0 >> self.shift).unwrap_or(self.most).min(self.most - 1);
        // A last slice that has just begun has little data: the one before is included.
        let latest = last.saturating_sub(1);
        let first = usize::try_from(from.0.div_ceil(self.width())).unwrap_or(latest).min(latest);
        let sum: u64 = (first..=last).map(|row| self.sums[row * self.columns + column]).sum();
        let span = end.since(Picos((first as u64) << self.shift)).as_secs_f64();
        if span > 0.0 { float(sum.into()) / span } else { 0.0 }
    }
}
