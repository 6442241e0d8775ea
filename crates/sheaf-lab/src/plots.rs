//! Plots of a scenario's results. Points that were limited by this machine's processors are left out and counted.

use crate::result::{LabResult, PointResult};
use sheaf_plot::{Axis, Chart, Draw, Error, Mark, Notation, Point, Reference, Series};
use std::collections::BTreeMap;

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Kind of plot, as a part of a file name: `efficiency`, `evolution`.
    pub kind: &'static str,
    /// The picture.
    pub svg: String,
}

/// Plots a result. `command` is printed below the plot.
///
/// # Errors
/// If a value is outside its axis.
pub fn pictures(result: &LabResult, command: &str) -> Result<Vec<Picture>, Error> {
    let mut pictures = Vec::new();
    if let Some(chart) = efficiency(result, command) {
        pictures.push(Picture { kind: "efficiency", svg: chart.to_svg()? });
    }
    if let Some(chart) = evolution(result, command) {
        pictures.push(Picture { kind: "evolution", svg: chart.to_svg()? });
    }
    Ok(pictures)
}

/// Efficiency over the swept key with the most numbers; the other swept keys make the curves.
fn efficiency(result: &LabResult, command: &str) -> Option<Chart> {
    let key = x_key(result)?;
    let mut curves: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for point in result.points.iter().filter(|point| point.is_of_a_network()) {
        let x = point.setting(key)?.parse().ok()?;
        let (low, high) = spread(point);
        let place = Point::new(x, point.efficiency).within(low, high);
        curves.entry(name(point, key)).or_default().push(place);
    }
    if curves.is_empty() {
        return None;
    }
    let x = if key.ends_with("_bytes") { Axis::bytes(key) } else { Axis::linear(key, "") };
    let y = Axis::linear("payload built, of what the line can carry", "").written(Notation::Percent);
    let mut chart = Chart::new(result.name.clone(), x, y);
    chart.subtitle.clone_from(&result.about);
    chart.series = curves.into_iter().map(|(name, points)| Series::line(name, points)).collect();
    chart.references.push(Reference { at: Mark::Y(1.0), label: "line rate".into() });
    chart.caption = caption(result, command);
    Some(chart)
}

/// The range of a point's repetitions.
fn spread(point: &PointResult) -> (f64, f64) {
    let low = point.repeats.iter().copied().fold(point.efficiency, f64::min);
    let high = point.repeats.iter().copied().fold(point.efficiency, f64::max);
    (low, high)
}

/// The swept key that has the most values, all of them numbers.
fn x_key(result: &LabResult) -> Option<&str> {
    let values = |key: &str| -> Option<usize> {
        let mut seen: Vec<&str> = Vec::new();
        for point in &result.points {
            let value = point.setting(key)?;
            value.parse::<f64>().ok()?;
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        Some(seen.len()).filter(|count| *count > 1)
    };
    result
        .sweeps
        .iter()
        .filter_map(|key| Some((values(key)?, key.as_str())))
        .max_by_key(|(count, _)| *count)
        .map(|(_, key)| key)
}

/// The settings that distinguish a curve: those that are not on the axis.
fn name(point: &PointResult, x: &str) -> String {
    let others = point.settings.iter().filter(|setting| setting.key != x);
    let words: Vec<String> = others
        .map(|setting| {
            let key = setting.key.rsplit_once('.').map_or(setting.key.as_str(), |(_, name)| name);
            if setting.value.parse::<f64>().is_ok() {
                format!("{key} {}", setting.value)
            } else {
                setting.value.clone()
            }
        })
        .collect();
    // Where the number of nodes is on the axis, all points are of one curve.
    let is_of_nodes = ["lab.units", "readout.count", "builder.count"].contains(&x);
    if words.is_empty() && is_of_nodes {
        point.transport.clone()
    } else if words.is_empty() {
        format!("{}x{} {}", point.readouts, point.builders, point.transport)
    } else {
        words.join(", ")
    }
}

/// Draws the load of the ports towards builders over time, of the first point that has it.
fn evolution(result: &LabResult, command: &str) -> Option<Chart> {
    let point = result.points.iter().find(|point| point.is_of_a_network() && point.intervals.len() > 3)?;
    let builders = point.intervals.iter().map(|interval| interval.builder_bits_per_second.len()).min()?;
    if builders == 0 {
        return None;
    }
    let y = Axis::linear("on the wire to each builder", "bit/s").written(Notation::Si);
    let mut chart =
        Chart::new(format!("{}, in time", result.name), Axis::linear("since the first traffic", "s"), y);
    chart.subtitle.clone_from(&result.about);
    let curve = |of: &dyn Fn(&[f64]) -> f64| -> Vec<Point> {
        point
            .intervals
            .iter()
            .map(|interval| Point::new(interval.at_s, of(&interval.builder_bits_per_second).max(0.0)))
            .collect()
    };
    #[expect(clippy::cast_precision_loss, reason = "counts of builders are small")]
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    chart.series.push(Series::new("mean of all", Draw::Line, curve(&mean)));
    let slow = slowest(point, builders);
    chart.series.push(Series::new(format!("builder {slow}"), Draw::Line, curve(&|rates| rates[slow])));
    let without = move |rates: &[f64]| {
        let others: Vec<f64> =
            rates.iter().enumerate().filter(|(index, _)| *index != slow).map(|(_, rate)| *rate).collect();
        mean(&others)
    };
    if builders > 1 {
        chart.series.push(Series::new("mean of the others", Draw::Line, curve(&without)));
    }
    let line = point.rate_bits_per_second * f64::from(point.rails);
    chart.references.push(Reference { at: Mark::Y(line), label: "line rate".into() });
    chart.caption = caption(result, command);
    Some(chart)
}

/// The builder that got least.
fn slowest(point: &PointResult, builders: usize) -> usize {
    let total = |index: usize| {
        point.intervals.iter().map(|interval| interval.builder_bits_per_second[index]).sum::<f64>()
    };
    (0..builders).min_by(|a, b| total(*a).total_cmp(&total(*b))).unwrap_or(0)
}

fn caption(result: &LabResult, command: &str) -> String {
    let left_out = result.points.iter().filter(|point| !point.is_of_a_network()).count();
    let mut text = format!("virtual switch on one machine; {command}");
    if left_out > 0 {
        text.push_str(&format!(
            "\n{left_out} of {} points were limited by its processors and are left out",
            result.points.len()
        ));
    }
    text
}

#[cfg(test)]
mod tests;
