//! Definition of a metric.

/// Definition of a metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name, with its unit, and `_total` if it is a counter: `sheaf_live_seconds_total`.
    pub name: &'static str,
    /// Behavior of the values over time.
    pub kind: Kind,
    /// Unit of the values.
    pub unit: Unit,
    /// Labels of its series, besides that of the node.
    pub labels: &'static [&'static str],
    /// Meaning, as a sentence.
    pub help: &'static str,
    /// Whether series are left out that have always been 0 and whose last label is not empty, because there may be many of them.
    pub sparse: bool,
}

/// Behavior of a metric's values over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows from 0, until its node begins again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Numbers of durations by length ([`crate::buckets`]), and the sum of these durations.
    Histogram,
    /// Always 1: its labels say what something is. No node publishes it.
    Info,
    /// A value for each readout unit, in the order of the configuration. For the map of the page: systems that keep metrics do not get it.
    Row,
}

impl Kind {
    /// Returns the name in exposition formats and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
            Self::Row => "row",
        }
    }
}

/// Unit of a metric. Published values are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds, published as nanoseconds.
    Seconds,
}

impl Unit {
    /// Returns a published value in this unit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "metrics are shown as floating-point numbers")]
    pub fn scale(self, value: u64) -> f64 {
        match self {
            Self::Count | Self::Bytes => value as f64,
            Self::Seconds => value as f64 / 1e9,
        }
    }

    /// Returns the unit's name in metric names; `None` for counts.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Count => None,
            Self::Bytes => Some("bytes"),
            Self::Seconds => Some("seconds"),
        }
    }
}

impl Metric {
    /// Returns the name of the family in `OpenMetrics`: without `_total`.
    #[must_use]
    pub fn family(&self) -> &'static str {
        let suffix = if self.kind == Kind::Info { "_info" } else { "_total" };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }
}
