//! Numbers over time in rings of three resolutions, and their binary form.
//!
//! A row has one number for each column; NaN where nothing is known. Rows are taken every 100 ms. Ten of them become a row of the ring
//! with the next resolution, which has the mean of what was known.

/// Resolutions: milliseconds between rows, and number of rows kept. 5 minutes, 2 hours and 7 days.
pub(crate) const RINGS: [(u32, usize); 3] = [(100, 3_000), (1_000, 7_200), (10_000, 60_480)];

/// Rows of one ring that become a row of the next.
const ROWS_TOGETHER: usize = 10;

/// First bytes of a binary answer: "SHLV", little endian.
const MAGIC: u32 = 0x564C_4853;

/// Rows of one resolution.
#[derive(Debug)]
struct Ring {
    step_ms: u32,
    capacity: usize,
    columns: usize,
    /// Row by row; the oldest is overwritten.
    values: Vec<f32>,
    /// Number of rows so far.
    rows: u64,
}

impl Ring {
    fn new(step_ms: u32, capacity: usize, columns: usize) -> Self {
        Self { step_ms, capacity, columns, values: Vec::new(), rows: 0 }
    }

    fn push(&mut self, row: &[f32]) {
        if self.values.len() < self.capacity * self.columns {
            self.values.extend_from_slice(row);
        } else {
            let at = self.place(self.rows);
            self.values[at..at + self.columns].copy_from_slice(row);
        }
        self.rows += 1;
    }

    /// Returns the position of a row's first value.
    fn place(&self, row: u64) -> usize {
        // The remainder is smaller than the capacity, which is a usize.
        usize::try_from(row % self.capacity as u64).unwrap_or(0) * self.columns
    }

    fn row(&self, row: u64) -> &[f32] {
        let at = self.place(row);
        &self.values[at..at + self.columns]
    }

    /// Returns the number of the oldest row that is kept.
    fn first(&self) -> u64 {
        self.rows.saturating_sub(self.capacity as u64)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct History {
    /// Unix time of the first row, in milliseconds.
    origin_ms: u64,
    rings: [Ring; RINGS.len()],
}

impl History {
    pub(crate) fn new(origin_ms: u64, columns: usize) -> Self {
        let rings = RINGS.map(|(step_ms, capacity)| Ring::new(step_ms, capacity, columns));
        Self { origin_ms, rings }
    }

    /// Returns the number of rows of 100 ms so far, which is the number of the next.
    pub(crate) fn rows(&self) -> u64 {
        self.rings[0].rows
    }

    /// Returns the number of the row in progress when so much time has passed since the first one.
    pub(crate) fn row_at(passed_ms: u64) -> u64 {
        passed_ms / u64::from(RINGS[0].0)
    }

    /// Adds the row with the next number.
    pub(crate) fn push(&mut self, row: &[f32]) {
        self.rings[0].push(row);
        for ring in 1..self.rings.len() {
            let (finer, coarser) = self.rings.split_at_mut(ring);
            let (finer, coarser) = (&finer[ring - 1], &mut coarser[0]);
            if !finer.rows.is_multiple_of(ROWS_TOGETHER as u64) {
                break;
            }
            coarser.push(&mean(finer));
        }
    }

    /// Adds rows of which nothing is known, up to the row with this number.
    pub(crate) fn fill_up_to(&mut self, row: u64) {
        let unknown = vec![f32::NAN; self.rings[0].columns];
        for _ in self.rows()..row {
            self.push(&unknown);
        }
    }

    /// Returns all rows of the ring with this resolution in binary form; `None` if there is no such ring.
    pub(crate) fn all(&self, step_ms: u32) -> Option<Vec<u8>> {
        let ring = self.rings.iter().find(|ring| ring.step_ms == step_ms)?;
        Some(self.encode(ring, ring.first()))
    }

    /// Returns the rows of 100 ms from this number on in binary form.
    pub(crate) fn from(&self, row: u64) -> Vec<u8> {
        let ring = &self.rings[0];
        self.encode(ring, row.clamp(ring.first(), ring.rows))
    }

    /// Returns at most `most` means over `together` rows of the ring with this resolution, the newest last; `None` where nothing is known.
    pub(crate) fn latest(&self, step_ms: u32, most: usize, together: usize) -> Vec<Option<f32>> {
        let Some(ring) = self.rings.iter().find(|ring| ring.step_ms == step_ms) else { return Vec::new() };
        let groups = usize::try_from(ring.rows - ring.first()).unwrap_or(0) / together;
        let groups = groups.min(most) as u64;
        let first = |group: u64| ring.rows - (groups - group) * together as u64;
        let mean = |group: u64| {
            let known = (first(group)..first(group + 1)).map(|row| ring.row(row)[0]);
            mean_of(known.filter(|value| !value.is_nan()))
        };
        (0..groups).map(|group| Some(mean(group)).filter(|mean| !mean.is_nan())).collect()
    }

    /// Returns a header of 32 bytes and the rows from `first` on, column by column.
    fn encode(&self, ring: &Ring, first: u64) -> Vec<u8> {
        let rows = ring.rows - first;
        let mut bytes = Vec::with_capacity(32 + ring.columns * usize::try_from(rows).unwrap_or(0) * 4);
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        for value in [MAGIC, number(ring.columns), u32::try_from(rows).unwrap_or(u32::MAX), ring.step_ms] {
            bytes.extend(value.to_le_bytes());
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit exactly")]
        let first_ms = (self.origin_ms + first * u64::from(ring.step_ms)) as f64;
        bytes.extend(first_ms.to_le_bytes());
        bytes.extend(ring.rows.wrapping_sub(1).to_le_bytes());
        for column in 0..ring.columns {
            for row in first..ring.rows {
                bytes.extend(ring.row(row)[column].to_le_bytes());
            }
        }
        bytes
    }
}

/// Returns the means of the last rows of a ring, of what is known.
fn mean(ring: &Ring) -> Vec<f32> {
    let rows = ring.rows.saturating_sub(ROWS_TOGETHER as u64)..ring.rows;
    let of_column = |column: usize| {
        mean_of(rows.clone().map(|row| ring.row(row)[column]).filter(|value| !value.is_nan()))
    };
    (0..ring.columns).map(of_column).collect()
}

/// Returns the mean; NaN of nothing.
#[expect(clippy::cast_possible_truncation, reason = "a row has single precision")]
fn mean_of(values: impl Iterator<Item = f32>) -> f32 {
    // The sum has more digits, so that the mean of equal numbers is that number.
    let add = |(sum, count), value: f32| (sum + f64::from(value), count + 1.0);
    let (sum, count) = values.fold((0.0_f64, 0.0_f64), add);
    // No number at all: 0 / 0 is NaN.
    (sum / count) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> (u32, u32, u32, f64, u64, Vec<f32>) {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(u32_at(0), MAGIC);
        let first = f64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        let last = u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"));
        let values =
            bytes[32..].chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")));
        (u32_at(4), u32_at(8), u32_at(12), first, last, values.collect())
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn counting(rows: u64) -> History {
        let mut history = History::new(1_000, 2);
        for row in 0..rows {
            history.push(&[row as f32, -(row as f32)]);
        }
        history
    }

    #[test]
    fn rows_come_back_column_by_column_from_any_row_on() {
        let (columns, rows, step, first, last, values) = decode(&counting(5).from(3));
        assert_eq!((columns, rows, step, first, last), (2, 2, 100, 1_300.0, 4));
        assert_eq!(values, [3.0, 4.0, -3.0, -4.0]);
        assert_eq!(decode(&counting(5).from(9)).1, 0, "there is no such row yet");
    }

    #[test]
    fn ten_rows_become_one_of_the_next_ring() {
        let (_, rows, step, first, last, values) = decode(&counting(25).all(1_000).expect("the ring exists"));
        assert_eq!((rows, step, first, last), (2, 1_000, 1_000.0, 1));
        assert_eq!(values, [4.5, 14.5, -4.5, -14.5]);
        assert_eq!(decode(&counting(99).all(10_000).expect("the ring exists")).1, 0);
        assert_eq!(decode(&counting(100).all(10_000).expect("the ring exists")).1, 1);
        assert!(counting(1).all(5).is_none());
    }

    #[test]
    fn old_rows_are_overwritten() {
        let kept = RINGS[0].1 as u64;
        let history = counting(kept + 10);
        let (_, rows, _, first, last, values) = decode(&history.from(0));
        assert_eq!((u64::from(rows), first, last), (kept, 2_000.0, kept + 9));
        assert!((values[0] - 10.0).abs() < f32::EPSILON);
    }

    #[test]
    fn a_trend_has_the_means_of_the_newest_rows() {
        let history = counting(7);
        assert_eq!(history.latest(100, 60, 2), [Some(1.5), Some(3.5), Some(5.5)]);
        assert_eq!(history.latest(100, 2, 2), [Some(3.5), Some(5.5)]);
        assert_eq!(history.latest(1_000, 60, 10), []);
        let mut gaps = History::new(0, 1);
        gaps.push(&[4.0]);
        gaps.fill_up_to(4);
        assert_eq!(gaps.latest(100, 60, 2), [Some(4.0), None]);
    }

    #[test]
    fn unknown_rows_are_gaps_and_do_not_change_means() {
        let mut history = History::new(0, 1);
        history.push(&[4.0]);
        history.fill_up_to(History::row_at(999));
        assert_eq!(history.rows(), 9);
        history.push(&[6.0]);
        let (.., values) = decode(&history.all(1_000).expect("the ring exists"));
        assert_eq!(values, [5.0]);
        assert!(decode(&history.from(1)).5[0].is_nan());
    }
}
