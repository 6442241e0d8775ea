//! Plots of a sweep: efficiency against the swept key, latency tails, evolution in time, buffers, ports.

use crate::result::{DistributionResult, PointResult, ReportResult, SweepResult, nanos};
use sheaf_netsim::scenario::Scenario;
use sheaf_netsim::units::Picos;
use sheaf_plot::{Axis, Chart, Draw, Error, Mark, Notation, Point, Reference, Scale, Series};
use std::collections::BTreeMap;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Kind of plot, as part of a file name: `efficiency`.
    pub kind: &'static str,
    /// The picture.
    pub svg: String,
}

/// Maximum number of curves in one plot; more could not be distinguished.
const MAX_CURVES: usize = 8;

/// Returns every plot for which this result has the data.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn plots(result: &SweepResult) -> Result<Vec<Plot>, Error> {
    let sweep = numeric_axis(result);
    let charts = [
        ("efficiency", sweep.as_deref().and_then(|key| efficiency(result, key))),
        ("latency", latency(result)),
        ("evolution", evolution(result)),
        ("buffers", sweep.as_deref().and_then(|key| buffers(result, key))),
        ("ports", ports(result)),
    ];
    let charts = charts.into_iter().filter_map(|(kind, chart)| chart.map(|chart| (kind, chart)));
    charts.map(|(kind, chart)| chart.to_svg().map(|svg| Plot { kind, svg })).collect()
}

/// The key that goes along the horizontal axis: of those whose values are numbers the one with most of them.
fn numeric_axis(result: &SweepResult) -> Option<String> {
    let is_numeric = |values: &[String]| values.iter().all(|value| value.parse::<f64>().is_ok());
    let axes = result.axes.iter().filter(|axis| axis.key != "seed" && axis.values.len() > 1);
    let longest = axes.filter(|axis| is_numeric(&axis.values)).max_by_key(|axis| axis.values.len());
    longest.map(|axis| axis.key.clone())
}

/// `switching.buffer_bytes` as a caption and its unit.
fn caption_of(key: &str) -> (String, &'static str) {
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    let units = [("_bytes", "B"), ("_ns", "ns"), ("_us", "us"), ("_hz", "1/s"), ("_gbps", "Gbit/s")];
    let unit = units.iter().find(|(ending, _)| name.ends_with(ending));
    let name = unit.map_or(name, |(ending, _)| name.trim_end_matches(ending));
    let name = if name.is_empty() { key } else { name };
    (name.replace('_', " "), unit.map_or("", |(_, unit)| unit))
}

/// The horizontal axis of a sweep: logarithmic where the values are spread that way.
fn x_axis(key: &str, values: &[f64]) -> Axis {
    let (label, unit) = caption_of(key);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let spread = least > 0.0 && most / least >= 16.0;
    match (spread, unit) {
        (true, "B") => Axis::bytes(label),
        (true, _) => Axis { scale: Scale::Log2, ..Axis::linear(label, unit) },
        (false, _) => Axis::linear(label, unit),
    }
}

/// The settings of a point as a curve's name, without the key along the axis.
fn label(settings: &BTreeMap<String, String>, without: &str) -> String {
    let parts = settings.iter().filter(|(key, _)| *key != without).map(|(key, value)| {
        if value.parse::<f64>().is_ok() || value == "true" || value == "false" {
            let (name, unit) = caption_of(key);
            format!("{name} {value} {unit}").trim_end().to_owned()
        } else {
            value.replace('_', " ")
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Points in the order of their curves, each with its place along the axis.
fn curves<'a>(result: &'a SweepResult, key: &str) -> Vec<(String, Vec<(f64, &'a PointResult)>)> {
    let mut curves: Vec<(String, Vec<(f64, &PointResult)>)> = Vec::new();
    for point in result.points.iter().filter(|point| point.runs > 0) {
        let Some(x) = point.settings.get(key).and_then(|value| value.parse().ok()) else {
            continue;
        };
        let name = label(&point.settings, key);
        match curves.iter_mut().find(|(other, _)| *other == name) {
            Some((_, points)) => points.push((x, point)),
            None => curves.push((name, vec![(x, point)])),
        }
    }
    for (_, points) in &mut curves {
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    }
    curves
}

/// Makes a chart with the common settings.
fn chart(result: &SweepResult, title: &str, x: Axis, y: Axis) -> Chart {
    let mut chart = Chart::new(title, x, y);
    chart.subtitle.clone_from(&result.about);
    chart
}

/// Returns the note in a picture with too many curves.
fn left_out(total: usize) -> String {
    match total.saturating_sub(MAX_CURVES) {
        0 => String::new(),
        more => format!(" {more} more curves are left out."),
    }
}

fn efficiency(result: &SweepResult, key: &str) -> Option<Chart> {
    let curves = curves(result, key);
    let values: Vec<f64> = curves.iter().flat_map(|(_, points)| points.iter().map(|(x, _)| *x)).collect();
    if values.is_empty() {
        return None;
    }
    let y = Axis::linear("delivered / capacity of the ports", "").written(Notation::Percent);
    let mut chart = chart(result, "Efficiency", x_axis(key, &values), y);
    let several = result.points.iter().any(|point| point.runs > 1);
    let bars = if several { "standard deviation between seeds" } else { "95 % interval of the run" };
    chart.caption = format!("Error bars: {bars}.{}", left_out(curves.len()));
    let mut has_bound = false;
    for (index, (name, points)) in curves.iter().take(MAX_CURVES).enumerate() {
        let values = points.iter().map(|(x, point)| {
            let (y, error) = (point.efficiency, point.efficiency_error);
            Point::new(*x, y).within(y - error, y + error)
        });
        chart.series.push(Series::line(name.clone(), values).coloured(index));
        let bound = points.iter().map(|(x, point)| Point::new(*x, point.efficiency_bound));
        if points.iter().any(|(_, point)| point.efficiency_bound < 1.0) {
            has_bound = true;
            chart.series.push(Series::new("", Draw::Dashed, bound).coloured(index));
        }
    }
    if has_bound {
        chart.caption.push_str(" Broken lines: what closed formulas allow at most.");
    }
    Some(chart)
}

/// The runs that a picture of single runs shows: of each point the first that could be simulated.
fn representatives(result: &SweepResult) -> Vec<(String, &ReportResult, &Scenario)> {
    let of = |point: &PointResult| {
        let name = label(&point.settings, "");
        let name = if name.is_empty() { result.name.clone() } else { name };
        point.members.iter().find_map(|index| {
            let report = result.runs[*index].report.as_ref()?;
            Some((name.clone(), report, &result.outcomes()[*index].scenario))
        })
    };
    result.points.iter().filter_map(of).collect()
}

/// Returns the number of larger values, at four points of the tail.
fn tail(latency: &DistributionResult) -> Vec<Point> {
    #[expect(clippy::cast_precision_loss, reason = "a fraction in a picture")]
    let last = 1.0 / latency.count.max(1) as f64;
    let quantiles = [(latency.p50, 0.5), (latency.p99, 1e-2), (latency.p999, 1e-3), (latency.max, last)];
    let mut points: Vec<Point> = Vec::new();
    for (time, above) in quantiles {
        // A small sample has no thousandth.
        if time > 0.0 && above >= last && points.last().is_none_or(|point| point.y > above) {
            points.push(Point::new(time / 1e9, above));
        }
    }
    points
}

fn latency(result: &SweepResult) -> Option<Chart> {
    let runs = representatives(result);
    let has_events = runs.iter().any(|(_, report, _)| report.event_latency_ns.is_some());
    let of =
        |report: &ReportResult| if has_events { report.event_latency_ns } else { report.message_latency_ns };
    let tails: Vec<(String, Vec<Point>)> = runs
        .into_iter()
        .filter_map(|(name, report, _)| of(report).map(|latency| (name, tail(&latency))))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    if tails.is_empty() {
        return None;
    }
    let (title, what) = if has_events {
        ("Event completion", "from the first fragment's hand-over to the event's last byte")
    } else {
        ("Message latency", "from hand-over to the last byte")
    };
    let fraction = Axis { notation: Notation::Percent, ..Axis::log("took longer", "") };
    let mut chart = chart(result, title, Axis::log(what, "s"), fraction);
    chart.caption = format!("Median, 99 %, 99.9 % and the largest of one run.{}", left_out(tails.len()));
    for (name, points) in tails.into_iter().take(MAX_CURVES) {
        chart.series.push(Series::line(name, points));
    }
    Some(chart)
}

fn evolution(result: &SweepResult) -> Option<Chart> {
    let runs = representatives(result);
    let runs: Vec<_> = runs.iter().filter(|(_, report, _)| report.evolution.len() > 1).collect();
    let (_, _, scenario) = runs.first()?;
    let y = Axis::linear("delivered / capacity of the ports", "").written(Notation::Percent);
    let time = Axis::linear("simulated time", "s").written(Notation::Si);
    let mut chart = chart(result, "Through time", time, y);
    chart.caption =
        format!("Mean efficiency in slices of the run, warm-up included.{}", left_out(runs.len()));
    for (name, report, _) in runs.iter().take(MAX_CURVES) {
        let first = report.evolution.first().map_or(0.0, |slice| slice.efficiency);
        let start = std::iter::once(Point::new(0.0, first));
        // A step begins where the slice before ends.
        let ends =
            report.evolution.windows(2).map(|pair| Point::new(pair[0].until_ns / 1e9, pair[1].efficiency));
        let last = report.evolution.last().map(|slice| Point::new(slice.until_ns / 1e9, slice.efficiency));
        chart.series.push(Series::new(name.clone(), Draw::Steps, start.chain(ends).chain(last)));
    }
    let seconds = |time: Picos| nanos(time) / 1e9;
    for fault in &scenario.faults {
        if fault.from > Picos::ZERO {
            chart.references.push(Reference { at: Mark::X(seconds(fault.from)), label: "fault".into() });
        }
        if let Some(until) = fault.until {
            chart.references.push(Reference { at: Mark::X(seconds(until)), label: "mended".into() });
        }
    }
    Some(chart)
}

fn buffers(result: &SweepResult, key: &str) -> Option<Chart> {
    let mut series: Vec<Series> = Vec::new();
    let mut values = Vec::new();
    for (name, points) in curves(result, key) {
        let mut places: Vec<(&str, Vec<Point>)> = Vec::new();
        for (x, point) in points {
            let report = point.members.iter().find_map(|index| result.runs[*index].report.as_ref());
            for occupancy in report.iter().flat_map(|report| &report.occupancy) {
                #[expect(clippy::cast_precision_loss, reason = "a picture")]
                let drawn = Point::new(x, occupancy.max_bytes as f64);
                values.push(x);
                match places.iter_mut().find(|(place, _)| *place == occupancy.place) {
                    Some((_, drawn_before)) => drawn_before.push(drawn),
                    None => places.push((&occupancy.place, vec![drawn])),
                }
            }
        }
        for (place, points) in
            places.into_iter().filter(|(_, points)| points.iter().any(|point| point.y > 0.0))
        {
            let name = if name.is_empty() { place.to_owned() } else { format!("{name}: {place}") };
            series.push(Series::line(name, points));
        }
    }
    if series.is_empty() {
        return None;
    }
    let y = Axis::linear("largest content", "B").written(Notation::Si);
    let mut chart = chart(result, "Buffers", x_axis(key, &values), y);
    chart.caption =
        format!("The fullest buffer of each stage at its fullest moment.{}", left_out(series.len()));
    series.truncate(MAX_CURVES);
    chart.series = series;
    Some(chart)
}

/// The ports of the runs, where there are so few runs that one can see something.
fn ports(result: &SweepResult) -> Option<Chart> {
    let runs = representatives(result);
    let runs: Vec<_> = runs.iter().filter(|(_, report, _)| report.per_port.len() > 1).collect();
    if runs.is_empty() || runs.len() > MAX_CURVES {
        return None;
    }
    let y = Axis::linear("delivered / capacity of the port", "").written(Notation::Percent);
    let mut chart = chart(result, "Receiving ports", Axis::linear("port", ""), y);
    chart.caption = "Each receiving port over the whole measured time.".into();
    for (name, report, _) in runs {
        #[expect(clippy::cast_precision_loss, reason = "the number of a port")]
        let points = report.per_port.iter().enumerate().map(|(port, value)| Point::new(port as f64, *value));
        chart.series.push(Series::new(name.clone(), Draw::Points, points));
    }
    Some(chart)
}

#[cfg(test)]
mod tests;
