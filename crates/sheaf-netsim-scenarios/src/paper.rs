//! Figures of theory and of documents, compared with this simulator: `sheaf sim paper`.
//!
//! Each case is the text of a scenario, which can be read, and copied into a file. A figure that a document gives
//! without its assumptions (event building at 15 % and 30 %) is compared with the range that those assumptions span.

mod cases;

use crate::result::Spread;
use crate::scenario::{Overrides, Point, ScenarioFile};
use crate::sweep::{PointError, in_parallel};
use cases::{CASES, Case, Measure};
use serde::Serialize;
use sheaf_netsim::{Report, Scenario};
use sheaf_plot::TextTable;
use std::fmt::Display;
use std::path::Path;

/// One figure, theirs and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: &'static str,
    /// Whose it is.
    pub document: &'static str,
    /// Their value.
    pub expected: f64,
    /// Maximum difference between ours and theirs, for the rounding of theirs and the statistics of ours.
    pub tolerance: f64,
    /// Our value; the median where assumptions span a range. `None` where it could not be simulated.
    pub value: Option<f64>,
    /// Whether it agrees. If assumptions span a range: whether the published value is in it.
    pub pass: bool,
    /// Our smallest value, where assumptions span a range.
    pub low: Option<f64>,
    /// Our largest value, where assumptions span a range.
    pub high: Option<f64>,
    /// Number of runs that it took.
    pub runs: usize,
    /// Remarks, or the reason why it could not be simulated.
    pub note: String,
}

/// Value of a figure in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    efficiency: f64,
    /// Lost messages over offered ones.
    loss: f64,
}

/// Returns the number of runs of all figures.
#[must_use]
pub fn runs() -> usize {
    CASES.iter().map(|case| points(case).len()).sum()
}

fn points(case: &Case) -> Vec<Point> {
    let file = ScenarioFile::parse(case.text, case.name, case.name, Path::new(""), Overrides::default());
    // A test reads them all.
    file.map(|file| file.points).unwrap_or_default()
}

/// Simulates all figures. `done` is called after each run.
pub fn figures<E: Display>(
    threads: usize,
    simulate: impl Fn(&Scenario) -> Result<Report, E> + Sync,
    done: impl FnMut(usize) + Send,
) -> Vec<Figure> {
    figures_of(CASES, threads, simulate, done)
}

fn figures_of<E: Display>(
    cases: &[Case],
    threads: usize,
    simulate: impl Fn(&Scenario) -> Result<Report, E> + Sync,
    done: impl FnMut(usize) + Send,
) -> Vec<Figure> {
    let work: Vec<(usize, Point)> = cases
        .iter()
        .enumerate()
        .flat_map(|(index, case)| points(case).into_iter().map(move |point| (index, point)))
        .collect();
    let values = in_parallel(&work, threads, |(_, point)| value(&simulate, &point.scenario), done);
    let mut results: Vec<Vec<(&Point, Result<Value, PointError>)>> =
        cases.iter().map(|_| Vec::new()).collect();
    for ((index, point), value) in work.iter().zip(values) {
        results[*index].push((point, value));
    }
    cases.iter().zip(&results).map(|(case, results)| figure(case, results)).collect()
}

fn value<E: Display>(
    simulate: &impl Fn(&Scenario) -> Result<Report, E>,
    scenario: &Scenario,
) -> Result<Value, PointError> {
    let report = simulate(scenario).map_err(PointError::refused)?;
    if let Some(check) = report.checks.iter().find(|check| !check.pass) {
        return Err(PointError::SelfCheck { name: check.name, detail: check.detail.clone() });
    }
    #[expect(clippy::cast_precision_loss, reason = "a fraction with three digits")]
    let loss = report.messages.lost as f64 / report.messages.offered.max(1) as f64;
    Ok(Value { efficiency: report.efficiency, loss })
}

fn figure(case: &Case, results: &[(&Point, Result<Value, PointError>)]) -> Figure {
    let mut figure = Figure {
        name: case.name,
        document: case.document,
        expected: case.expected,
        tolerance: case.tolerance,
        value: None,
        pass: false,
        low: None,
        high: None,
        runs: results.len(),
        note: case.note.to_owned(),
    };
    if let Some(error) = results.iter().find_map(|(_, result)| result.as_ref().err()) {
        figure.note = format!("not simulated: {error}");
        return figure;
    }
    let good: Vec<(&Point, Value)> = results
        .iter()
        .filter_map(|(point, result)| result.as_ref().ok().map(|value| (*point, *value)))
        .collect();
    let mean = |of: fn(&Value) -> f64| Spread::of(good.iter().map(|(_, value)| of(value))).mean;
    match case.measure {
        Measure::Efficiency => figure.value = Some(mean(|value| value.efficiency)),
        Measure::Loss => figure.value = Some(mean(|value| value.loss)),
        Measure::Range => range(&mut figure, &good),
        Measure::Gap(wanted) => gap(&mut figure, &good, wanted),
    }
    let distance = figure.value.map_or(f64::INFINITY, |value| (value - case.expected).abs());
    figure.pass = match (figure.low, figure.high) {
        (Some(low), Some(high)) => low <= case.expected && case.expected <= high,
        // A value at the edge of its tolerance has rounding errors of its own.
        _ => distance <= case.tolerance + 1e-12,
    };
    figure
}

/// The range that unknown assumptions span.
fn range(figure: &mut Figure, values: &[(&Point, Value)]) {
    let mut sorted: Vec<f64> = values.iter().map(|(_, value)| value.efficiency).collect();
    sorted.sort_by(f64::total_cmp);
    figure.low = sorted.first().copied();
    figure.high = sorted.last().copied();
    figure.value = sorted.get(sorted.len() / 2).copied();
    let below = sorted.iter().filter(|value| **value < figure.expected).count();
    figure.note = format!("{} of {} assumptions are below; {}", below, sorted.len(), figure.note);
}

/// The idle gap after each message with which both demonstrators reach the measured values: least squares between
/// simulated gaps. `wanted` selects which of the two this figure shows.
fn gap(figure: &mut Figure, values: &[(&Point, Value)], wanted: &str) {
    // Efficiency relative to the maximum of the senders, by stages and gap.
    let curve = |stages: &str| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (point, value) in values {
            let setting =
                |key: &str| point.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value);
            if setting("topology.stages").map(String::as_str) != Some(stages) {
                continue;
            }
            let overhead: f64 =
                setting("endpoint.overhead_ns").and_then(|value| value.parse().ok()).unwrap_or(0.0);
            let gap = overhead / cases::MESSAGE_NS;
            points.push((gap, value.efficiency * (1.0 + gap)));
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    };
    let (small, large) = (curve("1"), curve("2"));
    let error = |gap: f64| {
        let small = interpolate(&small, gap) - cases::MEASURED.0;
        let large = interpolate(&large, gap) - cases::MEASURED.1;
        small * small + large * large
    };
    let best = (0..=120).map(|step| f64::from(step) / 1000.0).min_by(|a, b| error(*a).total_cmp(&error(*b)));
    let best = best.unwrap_or(0.0);
    figure.value = Some(interpolate(if wanted == "1" { &small } else { &large }, best));
    figure.note = format!("one idle gap of {:.1} % of a message for both demonstrators", best * 100.0);
}

/// Between the points of a curve, which has several values at one place where there are several seeds.
fn interpolate(curve: &[(f64, f64)], at: f64) -> f64 {
    let mean = |place: f64| {
        Spread::of(curve.iter().filter(move |(x, _)| (x - place).abs() < 1e-9).map(|(_, y)| *y)).mean
    };
    let below = curve.iter().map(|(x, _)| *x).filter(|x| *x <= at).fold(f64::NEG_INFINITY, f64::max);
    let above = curve.iter().map(|(x, _)| *x).filter(|x| *x >= at).fold(f64::INFINITY, f64::min);
    match (below.is_finite(), above.is_finite()) {
        (true, true) if above > below => {
            let share = (at - below) / (above - below);
            mean(below) * (1.0 - share) + mean(above) * share
        }
        (true, _) => mean(below),
        (_, true) => mean(above),
        _ => 0.0,
    }
}

/// The figures as a table.
#[must_use]
pub fn describe(figures: &[Figure]) -> String {
    let mut columns = TextTable::with_text_columns(2);
    columns.push(["figure", "from", "theirs", "+-", "ours", "range", ""]);
    for figure in figures {
        let range = match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
            _ => String::new(),
        };
        let tolerance = if figure.low.is_some() { String::new() } else { format!("{:.3}", figure.tolerance) };
        columns.push([
            figure.name.to_owned(),
            figure.document.to_owned(),
            format!("{:.3}", figure.expected),
            tolerance,
            figure.value.map_or_else(|| "-".into(), |value| format!("{value:.4}")),
            range,
            if figure.pass { "agrees".into() } else { "DIFFERS".into() },
        ]);
    }
    let mut text = columns.to_string();
    text.push('\n');
    for figure in figures.iter().filter(|figure| !figure.note.is_empty()) {
        text.push_str(&format!("{}: {}\n", figure.name, figure.note));
    }
    let agree = figures.iter().filter(|figure| figure.pass).count();
    text.push_str(&format!("{agree} of {} figures agree\n", figures.len()));
    text
}

#[cfg(test)]
mod tests;
