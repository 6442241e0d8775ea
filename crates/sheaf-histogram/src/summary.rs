//! A few numbers of a histogram, and a sketch with few bins.

use crate::histogram::{Histogram, HistogramKind, mean_of};
use crate::record::RecordedHistogram;
use serde::Serialize;

/// A few numbers of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistogramSummary {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: HistogramKind,
    /// Title.
    pub title: String,
    /// Titles of the axes, and of the quantity of a profile.
    pub axes: Vec<String>,
    /// Source whose data are shown, if it is one.
    pub source: Option<u32>,
    /// Number of values that were filled.
    pub entries: u64,
    /// Number of values that were not numbers.
    pub nan: u64,
    /// Sum of the weights below and above the axes.
    pub outside: f64,
    /// Mean of the values in range, for each axis; empty without any.
    pub mean: Vec<f64>,
    /// Standard deviation of the values in range, for each axis; empty without any.
    pub rms: Vec<f64>,
    /// Number of publishers; all that have ended are one.
    pub publishers: usize,
    /// Time at which one of its publishers published last, in milliseconds since 1970.
    pub updated_ms: u64,
}

impl HistogramSummary {
    /// Returns the summary of a histogram.
    #[must_use]
    pub fn of(RecordedHistogram { histogram, publishers, updated_ms }: &RecordedHistogram) -> Self {
        let value_title = Some(&histogram.value_title).filter(|title| !title.is_empty());
        let titles = histogram.axes.iter().map(|axis| &axis.title).chain(value_title);
        let (mean, rms) = moments(&histogram.moments).into_iter().unzip();
        Self {
            name: histogram.name.clone(),
            kind: histogram.kind,
            title: histogram.title.clone(),
            axes: titles.cloned().collect(),
            source: histogram.source,
            entries: histogram.entries,
            nan: histogram.nan,
            outside: outside(histogram),
            mean,
            rms,
            publishers: *publishers,
            updated_ms: *updated_ms,
        }
    }
}

/// Returns mean and standard deviation for each axis.
fn moments(moments: &[f64]) -> Vec<(f64, f64)> {
    let [weight, of_axes @ ..] = moments else { return Vec::new() };
    if *weight <= 0.0 {
        return Vec::new();
    }
    let of_axis = |sums: &[f64]| {
        let mean = sums[0] / weight;
        (mean, (sums[1] / weight - mean * mean).max(0.0).sqrt())
    };
    of_axes.chunks_exact(2).map(of_axis).collect()
}

fn outside(histogram: &Histogram) -> f64 {
    let columns = histogram.axes[0].cells();
    let rows = histogram.axes.get(1).map_or(1, crate::Axis::cells);
    let is_outside = |cell: &usize| {
        let (row, column) = (cell / columns, cell % columns);
        column == 0 || column + 1 == columns || (rows > 1 && (row == 0 || row + 1 == rows))
    };
    (0..histogram.contents.len()).filter(is_outside).map(|cell| histogram.contents[cell]).sum()
}

/// A histogram with few bins, to be drawn: sums of neighbouring bins in range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sketch {
    /// Number of bins of the first axis.
    pub columns: u32,
    /// Number of bins of the second axis of a map, otherwise 1.
    pub rows: u32,
    /// Ends of the first axis as far as it is drawn.
    pub x: [f64; 2],
    /// Ends of the second axis of a map, otherwise 0.
    pub y: [f64; 2],
    /// Sums of the contents, row by row; means of a profile, `null` without entries.
    pub values: Vec<Option<f64>>,
    /// Standard errors of the means of a profile; otherwise empty.
    pub errors: Vec<Option<f64>>,
    /// The same values of the reference, scaled to the same sum of weights; empty without one, and for maps.
    pub reference: Vec<Option<f64>>,
}

impl Sketch {
    /// Draws a histogram with at most `most` bins; a map has at most `most` columns and as many rows. The reference must have the same bins
    /// to be used.
    #[must_use]
    pub fn of(histogram: &Histogram, most: u32, reference: Option<&Histogram>) -> Self {
        let grid = Grid::of(histogram, most);
        let reference = reference.filter(|reference| reference.has_bins_of(histogram));
        let total = |histogram: &Histogram| grid.sums(histogram, &histogram.contents).iter().sum::<f64>();
        let reference = match (histogram.kind, reference) {
            (_, None) | (HistogramKind::Map, _) => Vec::new(),
            (HistogramKind::Profile, Some(reference)) => {
                grid.means(reference).into_iter().map(|bin| bin.0).collect()
            }
            (HistogramKind::Line, Some(reference)) => {
                let scale = total(histogram) / total(reference);
                let scaled = grid.sums(reference, &reference.contents).into_iter().map(|sum| sum * scale);
                scaled.map(|sum| Some(rounded(sum)).filter(|sum| sum.is_finite())).collect()
            }
        };
        let (values, errors) = match histogram.kind {
            HistogramKind::Profile => grid.means(histogram).into_iter().unzip(),
            _ => {
                let sums = grid.sums(histogram, &histogram.contents);
                (sums.into_iter().map(|sum| Some(rounded(sum))).collect(), Vec::new())
            }
        };
        Self {
            columns: grid.bins[0],
            rows: grid.bins[1],
            x: grid.ends(histogram, 0),
            y: grid.ends(histogram, 1),
            values,
            errors,
            reference,
        }
    }
}

/// Groups of neighbouring bins.
struct Grid {
    /// Number of bins that are one group, for both axes.
    group: [u32; 2],
    /// Number of groups.
    bins: [u32; 2],
}

impl Grid {
    fn of(histogram: &Histogram, most: u32) -> Self {
        let bins = |axis: usize| histogram.axes.get(axis).map_or(1, |axis| axis.bins);
        let group = [bins(0), bins(1)].map(|bins| bins.div_ceil(most.max(1)));
        Self { group, bins: [bins(0).div_ceil(group[0]), bins(1).div_ceil(group[1])] }
    }

    fn ends(&self, histogram: &Histogram, axis: usize) -> [f64; 2] {
        let Some(shown) = histogram.axes.get(axis) else { return [0.0; 2] };
        let part = f64::from(self.group[axis]) * f64::from(self.bins[axis]) / f64::from(shown.bins);
        [shown.low, shown.low + (shown.high - shown.low) * part]
    }

    /// Returns the sums of a list of cells in each group.
    fn sums(&self, histogram: &Histogram, cells: &[f64]) -> Vec<f64> {
        let columns = histogram.axes[0].cells();
        let is_map = histogram.axes.len() > 1;
        let rows = histogram.axes.get(1).map_or(1, |axis| axis.bins as usize);
        let [wide, high] = self.group.map(|group| group as usize);
        let width = self.bins[0] as usize;
        let mut sums = vec![0.0; width * self.bins[1] as usize];
        for row in 0..rows {
            // The first row of a map is its underflow.
            let begin = columns * (row + usize::from(is_map)) + 1;
            for (column, value) in cells[begin..begin + columns - 2].iter().enumerate() {
                sums[row / high * width + column / wide] += value;
            }
        }
        sums
    }

    /// Returns the means of a profile in each group, with their standard errors.
    fn means(&self, histogram: &Histogram) -> Vec<(Option<f64>, Option<f64>)> {
        let squares = if histogram.squares.is_empty() { &histogram.contents } else { &histogram.squares };
        let lists = [&histogram.contents, squares, &histogram.sums, &histogram.sums2];
        let [weights, squares, sums, sums2] = lists.map(|list| self.sums(histogram, list));
        let mean = |bin: usize| match mean_of(weights[bin], squares[bin], (sums[bin], sums2[bin])) {
            Some((mean, error)) => (Some(rounded(mean)), error.map(rounded)),
            None => (None, None),
        };
        (0..weights.len()).map(mean).collect()
    }
}

/// Rounds to about six digits: a picture has no more, and the text of a number is short.
#[expect(clippy::cast_possible_truncation, reason = "the precision of the smaller type is what is wanted")]
fn rounded(value: f64) -> f64 {
    if value.fract() == 0.0 || value.abs() > 1e30 {
        return value;
    }
    let text = f64::from(value as f32);
    let digits = 6.0 - text.abs().log10().ceil();
    let power = 10_f64.powi(digits.clamp(-30.0, 30.0) as i32);
    (text * power).round() / power
}
