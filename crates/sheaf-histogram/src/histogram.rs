//! A histogram: axes, contents, checks, and sums of several.

use crate::values;
use serde::{Deserialize, Serialize};

/// Largest number of bins of a histogram, those for underflow and overflow not counted.
pub const MAX_BINS: u64 = 65_536;

/// Longest name of a histogram or a publisher, in bytes.
pub const MAX_NAME: usize = 64;

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 128;

/// Largest number: sums of products of such numbers are finite.
const LARGEST: f64 = 1e150;

/// Returns whether a text can be the name of a histogram or a publisher: letters, digits, `_`, `-` and `.`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    // `.` and `..` have another meaning in addresses.
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_letter) && !text.starts_with('.')
}

/// An axis with bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Number of bins, without those for underflow and overflow.
    #[serde(deserialize_with = "values::whole")]
    pub bins: u32,
    /// Lower edge of the first bin, which belongs to it.
    pub low: f64,
    /// Upper edge of the last bin, which does not belong to it.
    pub high: f64,
    /// Quantity and unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

impl Axis {
    fn has_bins_of(&self, other: &Self) -> bool {
        (self.bins, self.low, self.high) == (other.bins, other.low, other.high)
    }

    /// Returns the number of cells: bins, underflow and overflow.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.bins as usize + 2
    }

    /// Returns the centre of a bin; 0 is the first one.
    #[must_use]
    pub fn centre(&self, bin: u32) -> f64 {
        self.low + (self.high - self.low) * (f64::from(bin) + 0.5) / f64::from(self.bins)
    }
}

/// Kind of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistogramKind {
    /// Counts in bins of one quantity.
    #[serde(rename = "1d")]
    Line,
    /// Counts in bins of two quantities.
    #[serde(rename = "2d")]
    Map,
    /// Mean of one quantity in bins of another one.
    #[serde(rename = "profile")]
    Profile,
}

impl HistogramKind {
    /// Returns the name, as in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Line => "1d",
            Self::Map => "2d",
            Self::Profile => "profile",
        }
    }
}

/// Defect of a histogram.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// The name has other characters or another length.
    #[error("a name has 1 to {MAX_NAME} letters, digits, `_`, `-` and `.`, and does not begin with `.`")]
    Name,
    /// A title is too long.
    #[error("a title has at most {MAX_TITLE} bytes")]
    Title,
    /// The number of axes is wrong.
    #[error("a histogram of kind {kind} has {expected} axes, not {axes}")]
    Axes {
        /// The kind.
        kind: &'static str,
        /// The number of axes that it has.
        axes: usize,
        /// The number of axes that it must have.
        expected: usize,
    },
    /// An axis has no bins, or no width.
    #[error("an axis needs at least one bin, and a low end below its high end")]
    Range,
    /// It has too many bins.
    #[error("{0} bins exceed {MAX_BINS}, the limit of a histogram")]
    Bins(u64),
    /// A list has another length than the axes imply.
    #[error("`{list}` has {length} values; the axes imply {expected}")]
    Length {
        /// Name of the list.
        list: &'static str,
        /// Its length.
        length: usize,
        /// The length that the axes imply.
        expected: usize,
    },
    /// A value is too large.
    #[error("`{0}` has a value beyond 1e150")]
    Value(&'static str),
}

/// A histogram. Cells are the underflow, the bins and the overflow of the first axis; those of a map are rows of such cells, from the
/// underflow to the overflow of the second axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Name, unique in a run.
    pub name: String,
    /// Kind.
    pub kind: HistogramKind,
    /// Title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// One axis, or two of a map.
    pub axes: Vec<Axis>,
    /// Title of the quantity of a profile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_title: String,
    /// Source whose data are shown, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "values::some_whole")]
    pub source: Option<u32>,
    /// Number of values that were filled.
    #[serde(deserialize_with = "values::whole")]
    pub entries: u64,
    /// Number of values that were not numbers (NaN) and are in no cell.
    #[serde(default, deserialize_with = "values::whole")]
    pub nan: u64,
    /// Sum of the weights in each cell.
    #[serde(serialize_with = "values::serialize")]
    pub contents: Vec<f64>,
    /// Sum of the squared weights in each cell. Empty where all weights are 1: it is that of `contents` then.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "values::serialize")]
    pub squares: Vec<f64>,
    /// Sum of weight times y in each cell of a profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "values::serialize")]
    pub sums: Vec<f64>,
    /// Sum of weight times y squared in each cell of a profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "values::serialize")]
    pub sums2: Vec<f64>,
    /// Sums of w, wx and wx² over values in range, and of wy and wy² in a map. They give mean and RMS without the width of bins.
    #[serde(serialize_with = "values::serialize")]
    pub moments: Vec<f64>,
}

impl Histogram {
    /// Checks everything that a reader relies on.
    ///
    /// # Errors
    /// If the histogram has a defect.
    pub fn check(&self) -> Result<(), HistogramError> {
        if !is_name(&self.name) {
            return Err(HistogramError::Name);
        }
        let titles = self.axes.iter().map(|axis| &axis.title).chain([&self.title, &self.value_title]);
        if titles.into_iter().any(|title| title.len() > MAX_TITLE) {
            return Err(HistogramError::Title);
        }
        let expected = if self.kind == HistogramKind::Map { 2 } else { 1 };
        if self.axes.len() != expected {
            let axes = self.axes.len();
            return Err(HistogramError::Axes { kind: self.kind.name(), axes, expected });
        }
        let is_range = |axis: &Axis| {
            axis.bins > 0 && axis.low < axis.high && axis.low.abs() <= LARGEST && axis.high.abs() <= LARGEST
        };
        if !self.axes.iter().all(is_range) {
            return Err(HistogramError::Range);
        }
        let bins: u64 = self.axes.iter().map(|axis| u64::from(axis.bins)).fold(1, u64::saturating_mul);
        if bins > MAX_BINS {
            return Err(HistogramError::Bins(bins));
        }
        self.check_values()
    }

    fn check_values(&self) -> Result<(), HistogramError> {
        let cells = self.cells();
        let is_profile = self.kind == HistogramKind::Profile;
        let of_profile = if is_profile { cells } else { 0 };
        let moments = if self.kind == HistogramKind::Map { 5 } else { 3 };
        let squares = if self.squares.is_empty() { 0 } else { cells };
        let lists = [
            ("contents", &self.contents, cells),
            ("squares", &self.squares, squares),
            ("sums", &self.sums, of_profile),
            ("sums2", &self.sums2, of_profile),
            ("moments", &self.moments, moments),
        ];
        for (list, values, expected) in lists {
            let length = values.len();
            if length != expected {
                return Err(HistogramError::Length { list, length, expected });
            }
            // Also of a value that is not a number.
            if !values.iter().all(|value| value.abs() <= LARGEST) {
                return Err(HistogramError::Value(list));
            }
        }
        Ok(())
    }

    /// Returns the number of cells, as the axes imply it.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.axes.iter().map(Axis::cells).product()
    }

    /// Returns the bytes that it takes in a store: eight for each number, and its texts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let numbers = self.contents.len() + self.squares.len() + self.sums.len() + self.sums2.len();
        let axes: usize = self.axes.iter().map(|axis| axis.title.len() + size_of::<Axis>()).sum();
        let texts = self.name.len() + self.title.len() + self.value_title.len() + axes;
        (8 * (numbers + self.moments.len()) + texts + size_of::<Self>()) as u64
    }

    /// Returns whether another histogram has the same kind and bins, so that both can be added and compared.
    #[must_use]
    pub fn has_bins_of(&self, other: &Self) -> bool {
        let same = |(one, other): (&Axis, &Axis)| one.has_bins_of(other);
        self.kind == other.kind
            && self.axes.len() == other.axes.len()
            && self.axes.iter().zip(&other.axes).all(same)
    }

    /// Returns the sum of the squared weights of a cell.
    #[must_use]
    pub fn square(&self, cell: usize) -> f64 {
        self.squares.get(cell).or_else(|| self.contents.get(cell)).copied().unwrap_or_default()
    }

    /// Adds another one with the same bins. Texts stay.
    ///
    /// # Panics
    /// If the bins differ.
    pub fn add(&mut self, other: &Self) {
        assert!(self.has_bins_of(other), "only histograms with the same bins are added");
        if !(self.squares.is_empty() && other.squares.is_empty()) {
            let whole =
                |one: &Self| if one.squares.is_empty() { one.contents.clone() } else { one.squares.clone() };
            self.squares = whole(self);
            add_lists(&mut self.squares, &whole(other));
        }
        self.entries = self.entries.saturating_add(other.entries);
        self.nan = self.nan.saturating_add(other.nan);
        add_lists(&mut self.contents, &other.contents);
        add_lists(&mut self.sums, &other.sums);
        add_lists(&mut self.sums2, &other.sums2);
        add_lists(&mut self.moments, &other.moments);
    }

    /// Returns the mean and its standard error in a cell of a profile; `None` for the mean of nothing, and for the error of one value.
    #[must_use]
    pub fn mean_in(&self, cell: usize) -> Option<(f64, Option<f64>)> {
        let (sum, sum2) = (*self.sums.get(cell)?, *self.sums2.get(cell)?);
        mean_of(self.contents[cell], self.square(cell), (sum, sum2))
    }
}

/// Returns the mean of y and its standard error from sums of w, w², wy and wy².
pub(crate) fn mean_of(weight: f64, square: f64, (sum, sum2): (f64, f64)) -> Option<(f64, Option<f64>)> {
    if weight <= 0.0 {
        return None;
    }
    let mean = sum / weight;
    let effective = if square > 0.0 { weight * weight / square } else { 0.0 };
    let variance = (sum2 / weight - mean * mean).max(0.0);
    // The sample knows one value less than it has.
    let error = (effective > 1.5).then(|| (variance / (effective - 1.0)).sqrt());
    Some((mean, error))
}

/// Adds numbers. Sums stay within the largest number, so that a sum of valid histograms is valid.
fn add_lists(to: &mut [f64], values: &[f64]) {
    for (sum, value) in to.iter_mut().zip(values) {
        *sum = (*sum + value).clamp(-LARGEST, LARGEST);
    }
}
