//! Results of a test program: curves of points, each a median of repetitions.

use serde_json::{Map, Value, json};
use sheaf_bench::fit::Fit;
use sheaf_bench::statistics::Spread;
use std::collections::BTreeMap;

/// A named figure of one repetition. A dot in a name makes an object of it in JSON: `latency_ns.p50`.
pub(super) type Sample = Vec<(&'static str, f64)>;

/// Parameter in which the points of a curve differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// The size of a fragment, message or block, in bytes.
    Size,
    /// Processor time of the filter for an event, in microseconds.
    FilterTime,
}

impl Scanned {
    /// Its name in JSON.
    fn key(self) -> &'static str {
        match self {
            Self::Size => "size_bytes",
            Self::FilterTime => "filter_us",
        }
    }
}

/// Results of a test program.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Which.
    pub(super) bench: &'static str,
    /// One line with the measured quantity and its conditions.
    pub(super) title: String,
    pub(super) subtitle: String,
    /// The conditions, for JSON.
    pub(super) settings: Map<String, Value>,
    pub(super) scanned: Scanned,
    pub(super) curves: Vec<Curve>,
    /// Measurements that are not possible on this machine, with reasons.
    pub(super) left_out: Vec<String>,
    /// Whether a signal ended it.
    pub(super) interrupted: bool,
    /// Which figures stand in the table.
    pub(super) columns: Vec<Column>,
    /// Plot of the results.
    pub(super) picture: Picture,
}

/// A column of the table.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// The figure's name.
    pub(super) figure: &'static str,
    pub(super) header: &'static str,
    /// Divisor for the value that is shown.
    pub(super) unit: f64,
    pub(super) decimals: usize,
}

/// A column of the table, in this order of its parts.
pub(super) const fn column(figure: &'static str, header: &'static str, unit: f64, decimals: usize) -> Column {
    Column { figure, header, unit, decimals }
}

/// Description of a plot over the size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    pub(super) figure: &'static str,
    pub(super) label: &'static str,
    /// The figure in the base unit of the axis: nanoseconds become seconds with 1e-9.
    pub(super) factor: f64,
    pub(super) unit: &'static str,
    /// Label of the horizontal axis.
    pub(super) size: &'static str,
    /// Whether the figure is a time per message, to be fitted, instead of a throughput.
    pub(super) is_time: bool,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Settings that distinguish it from other curves, for JSON.
    pub(super) settings: Map<String, Value>,
    pub(super) points: Vec<Point>,
    pub(super) fit: Option<Fit>,
}

/// Medians at one size or time.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) at: u64,
    /// In the order of the samples.
    pub(super) figures: Vec<(&'static str, Spread)>,
}

impl Point {
    /// Of the repetitions there.
    pub(super) fn of(at: u64, samples: &[Sample]) -> Self {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut names: Vec<&'static str> = Vec::new();
        for (name, value) in samples.iter().flatten() {
            if !names.contains(name) {
                names.push(name);
            }
            values.entry(name).or_default().push(*value);
        }
        let figure = |name| Some((name, Spread::of(values.remove(name)?)?));
        Self { at, figures: names.into_iter().filter_map(figure).collect() }
    }

    pub(super) fn figure(&self, name: &str) -> Option<Spread> {
        self.figures.iter().find(|(figure, _)| *figure == name).map(|(_, spread)| *spread)
    }

    fn to_json(&self, scanned: Scanned) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert(scanned.key().into(), json!(self.at));
        let mut spreads = Map::new();
        for (name, spread) in &self.figures {
            put(&mut object, name, number(spread.median));
            put(&mut spreads, name, json!({ "min": number(spread.min), "max": number(spread.max) }));
        }
        object.insert("spread".into(), Value::Object(spreads));
        object
    }
}

/// Inserts a value at its dotted name.
fn put(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => drop(object.insert(name.to_owned(), value)),
        Some((outer, inner)) => {
            let inside = object.entry(outer).or_insert_with(|| json!({}));
            if let Some(inside) = inside.as_object_mut() {
                put(inside, inner, value);
            }
        }
    }
}

/// Counts and nanoseconds stay whole numbers.
#[expect(clippy::cast_possible_truncation, reason = "checked to be a whole number in range")]
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

impl Curve {
    pub(super) fn new(name: impl Into<String>, settings: Value, points: Vec<Point>) -> Self {
        let settings = settings.as_object().cloned().unwrap_or_default();
        Self { name: name.into(), settings, points, fit: None }
    }

    /// Fits time per message, made of a figure by `time_ns`.
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    pub(super) fn fitted(mut self, figure: &str, time_ns: impl Fn(f64) -> f64) -> Self {
        let point = |point: &Point| Some((point.at as f64, time_ns(point.figure(figure)?.median)));
        self.fit = Fit::of(&self.points.iter().filter_map(point).collect::<Vec<_>>());
        self
    }
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.points.is_empty())
    }

    /// One object: conditions and curves. Where there is one point only, its figures stand in the object itself.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("bench".into(), json!(self.bench));
        object.extend(self.settings.clone());
        object.insert("machine".into(), super::limits::machine());
        if let [curve] = self.curves.as_slice()
            && let [point] = curve.points.as_slice()
        {
            object.extend(curve.settings.clone());
            object.extend(point.to_json(self.scanned));
        }
        let curve = |curve: &Curve| {
            let mut object = Map::new();
            object.insert("name".into(), json!(curve.name));
            object.extend(curve.settings.clone());
            let points = curve.points.iter().map(|point| Value::Object(point.to_json(self.scanned)));
            object.insert("points".into(), points.collect());
            object.insert("fit".into(), json!(curve.fit));
            Value::Object(object)
        };
        object.insert("curves".into(), self.curves.iter().map(curve).collect());
        object.insert("left_out".into(), json!(self.left_out));
        object.insert("interrupted".into(), json!(self.interrupted));
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_name_becomes_an_object_and_figures_are_medians() {
        let samples: Vec<Sample> =
            [3.0, 1.0, 8.0].map(|value| vec![("rate", value), ("latency_ns.p50", value * 2.0)]).into();
        let point = Value::Object(Point::of(64, &samples).to_json(Scanned::Size));
        assert_eq!(point["rate"], 3);
        assert_eq!(point["latency_ns"]["p50"], 6);
        assert_eq!(point["spread"]["latency_ns"]["p50"], json!({ "min": 2, "max": 16 }));
    }
}
