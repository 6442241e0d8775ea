//! Content of a chart, as plain data.

use thiserror::Error;

/// Curves over one pair of axes. Make one with [`Chart::new`] and fill its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title, in one line.
    pub title: String,
    /// Conditions of the measurement, below the title, broken into lines; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, drawn in this order: the last is on top.
    pub series: Vec<Series>,
    /// Areas behind the curves.
    pub bands: Vec<Band>,
    /// Lines across the plot, with a label: limits, nominal values.
    pub references: Vec<Reference>,
    /// Facts that a reader needs to trust the figures: method, machine, commit. Below the plot, broken into lines; may
    /// be empty.
    pub caption: String,
    /// Width of the picture in pixels, with legend and margins.
    pub width: u32,
    /// Height of the picture in pixels, with title and caption.
    pub height: u32,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Which quantity.
    pub label: String,
    /// Its unit; empty for a pure number.
    pub unit: String,
    /// Mapping of values to places.
    pub scale: Scale,
    /// Notation of values.
    pub notation: Notation,
    /// First and last value that are shown; what lies outside is cut off. Without it, what the data need, rounded: on
    /// a linear axis with zero where that costs no more than half of the axis.
    pub range: Option<(f64, f64)>,
}

/// Mapping of values to places on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    #[default]
    Linear,
    /// Equal ratios are equally far apart; marked at powers of ten.
    Log10,
    /// Equal ratios are equally far apart; marked at powers of two.
    Log2,
}

/// Notation of values beside an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    /// `0.05`, `1500`.
    #[default]
    Plain,
    /// With the prefixes of powers of ten: `20 µ`, `3.5 M`. For units that take a prefix.
    Si,
    /// With the prefixes of powers of two: `64`, `4 Ki`, `1 Mi`.
    Binary,
    /// As a percentage: 0.95 is `95 %`.
    Percent,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; without a name it is not there (an error bar's companion, a continuation).
    pub name: String,
    /// Its points, in the order in which lines join them.
    pub points: Vec<Point>,
    /// Form of the drawing.
    pub draw: Draw,
    /// Which colour of the palette, and which marker; any number, they repeat. Without it the series' place in the
    /// chart. For a fit that belongs to points: the same number as theirs.
    pub colour: Option<usize>,
}

/// Form in which a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// A line with a marker at each point.
    #[default]
    LineAndPoints,
    /// A line.
    Line,
    /// A broken line: models and fits beside measurements.
    Dashed,
    /// Markers.
    Points,
    /// A line that stays until the next point and then jumps: histograms, values that hold until they change.
    Steps,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where, horizontally.
    pub x: f64,
    /// Where, vertically.
    pub y: f64,
    /// The ends of its error bar, lower one first: values of y, not distances.
    pub interval: Option<(f64, f64)>,
}

/// An area between two curves, in light colour: a spread, a tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Its name in the legend; without a name it is not there.
    pub name: String,
    /// x, lower y, upper y, from left to right.
    pub edges: Vec<(f64, f64, f64)>,
    /// Which colour of the palette, as in [`Series`]. Without it, grey.
    pub colour: Option<usize>,
}

/// A line across the plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Where.
    pub at: Mark,
    /// Label beside the line.
    pub label: String,
}

/// Where a reference line is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// Upright, at this x.
    X(f64),
    /// Level, at this y.
    Y(f64),
}

/// Why a chart cannot be drawn.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Nothing to draw.
    #[error("chart \"{title}\" has no points; it needs at least one series or band that is not empty")]
    Empty {
        /// The chart's title.
        title: String,
    },
    /// A value has no place on its axis.
    #[error("{what}: {value} has no place on the {scale} axis \"{axis}\"; {remedy}")]
    Value {
        /// Which series, band or line.
        what: String,
        /// The value.
        value: f64,
        /// The axis' label.
        axis: String,
        /// The axis' scale, in a word.
        scale: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// An empty or invalid range.
    #[error(
        "axis \"{axis}\": from {from} to {to} is not a range for this scale; the first value must be below the second"
    )]
    Range {
        /// The axis' label.
        axis: String,
        /// Its first value.
        from: f64,
        /// Its last value.
        to: f64,
    },
    /// Title, legend and caption leave no room for the plot.
    #[error(
        "a picture of {width} x {height} pixels has no room for chart \"{title}\"; at least {at_least_width} x {at_least_height} are needed"
    )]
    Room {
        /// The chart's title.
        title: String,
        /// The width asked for.
        width: u32,
        /// The height asked for.
        height: u32,
        /// A width that would do.
        at_least_width: u32,
        /// A height that would do.
        at_least_height: u32,
    },
    /// The drawing library refused.
    #[error("chart \"{title}\" could not be drawn: {cause}")]
    Backend {
        /// The chart's title.
        title: String,
        /// Its error message.
        cause: String,
    },
}

impl Chart {
    /// A chart of 800 x 500 pixels without curves.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            x,
            y,
            series: Vec::new(),
            bands: Vec::new(),
            references: Vec::new(),
            caption: String::new(),
            width: 800,
            height: 500,
        }
    }
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            scale: Scale::Linear,
            notation: Notation::Plain,
            range: None,
        }
    }

    /// A logarithmic axis, marked at powers of ten and written with prefixes.
    #[must_use]
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log10, notation: Notation::Si, ..Self::linear(label, unit) }
    }

    /// A logarithmic axis of sizes in bytes, marked at powers of two.
    #[must_use]
    pub fn bytes(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log2, notation: Notation::Binary, ..Self::linear(label, "B") }
    }

    /// The same axis with values written in another way.
    #[must_use]
    pub fn written(self, notation: Notation) -> Self {
        Self { notation, ..self }
    }

    /// The same axis from `from` to `to`.
    #[must_use]
    pub fn between(self, from: f64, to: f64) -> Self {
        Self { range: Some((from, to)), ..self }
    }
}

impl Series {
    /// Returns a series that is drawn as `draw`.
    #[must_use]
    pub fn new(name: impl Into<String>, draw: Draw, points: impl IntoIterator<Item = Point>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), draw, colour: None }
    }

    /// Points joined by a line.
    #[must_use]
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Self {
        Self::new(name, Draw::LineAndPoints, points)
    }

    /// The same series in colour `colour` of the palette.
    #[must_use]
    pub fn coloured(self, colour: usize) -> Self {
        Self { colour: Some(colour), ..self }
    }
}

impl Point {
    /// A point without an error bar.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, interval: None }
    }

    /// The same point with an error bar from `low` to `high`.
    #[must_use]
    pub const fn within(self, low: f64, high: f64) -> Self {
        Self { interval: Some((low, high)), ..self }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self::new(x, y)
    }
}
