//! The documents' measurements compared with those of this machine's switch: `sheaf lab paper`.
//!
//! Each case is a shipped scenario, which can be read and run alone, and a function from its points to the figure.
//! Figures are fractions of the line's capacity, because the lines here are slower than the documents': in theirs,
//! payload over 125 MB/s of gigabit Ethernet or the rate of a Myrinet link; in ours, payload over line rate x mtu /
//! (mtu + 38), which counts heads and gaps of every packet.

mod cases;

use crate::evidence::LimitedBy;
use crate::library;
use crate::measure::{MeasureError, measure};
use crate::result::{LabResult, PointResult};
use cases::{CASES, Case};
use serde::Serialize;
use sheaf_config::LabPoint;
use sheaf_plot::TextTable;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// One figure, theirs and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: &'static str,
    /// Whose it is; empty where no document has it.
    pub document: &'static str,
    /// Their value, as a share of the line; `None` where no document has one.
    pub expected: Option<f64>,
    /// Minimum that ours should reach.
    pub asked: f64,
    /// Tolerance below that minimum, for the statistics of a run.
    pub tolerance: f64,
    /// Our value; `None` where it was not measured.
    pub value: Option<f64>,
    /// Whether it is at least the required value, and every event was complete.
    pub pass: bool,
    /// Resource that limited the runs: the worst of them.
    pub limited_by: Option<LimitedBy>,
    /// The shipped scenario that was run.
    pub scenario: &'static str,
    /// Meaning of the value, and remarks.
    pub note: String,
}

/// A case with all that it gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Figures, theirs and ours.
    pub figures: Vec<Figure>,
    /// The measurements.
    pub result: LabResult,
}

/// The names of all cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// The names of the cases that are measured where none is named: one for each scenario, and none that takes minutes.
#[must_use]
pub fn usual() -> Vec<&'static str> {
    let mut scenarios: Vec<&str> = Vec::new();
    let mut names = Vec::new();
    for case in CASES.iter().filter(|case| case.by_default) {
        if !scenarios.contains(&case.scenario) {
            scenarios.push(case.scenario);
            names.push(case.name);
        }
    }
    names
}

/// The case that `name` is most probably a misspelling of.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    sheaf_config::diagnose::nearest(name, CASES.iter().map(|case| case.name))
}

/// Measures the case called `name`, or none if there is no such case. Cases with the same scenario share its runs:
/// their figures come together. `change` makes the changes from the command line.
///
/// # Errors
/// If a network cannot be made at all.
pub fn run(
    name: &str,
    program: &Path,
    stop: &AtomicBool,
    change: impl Fn(&mut LabPoint),
) -> Result<Option<Outcome>, MeasureError> {
    let Some(case) = CASES.iter().find(|case| case.name == name) else { return Ok(None) };
    let Some(shipped) = library::find(case.scenario) else { return Ok(None) };
    let together = || CASES.iter().filter(|other| other.scenario == case.scenario);
    let result = match shipped.parse(change) {
        Ok(file) => measure(&file, program, stop, |_| {})?,
        Err(errors) => {
            let result = LabResult {
                name: case.scenario.into(),
                about: String::new(),
                sweeps: Vec::new(),
                points: Vec::new(),
            };
            let figures = together().map(|case| refused(case, &errors.to_string())).collect();
            return Ok(Some(Outcome { figures, result }));
        }
    };
    let mut figures: Vec<Figure> = together().map(|case| figure(case, &result)).collect();
    if stop.load(Ordering::Relaxed) {
        for figure in &mut figures {
            figure.pass = false;
            figure.note = format!("interrupted; {}", figure.note);
        }
    }
    Ok(Some(Outcome { figures, result }))
}

fn refused(case: &Case, why: &str) -> Figure {
    Figure { note: format!("not measured: {why}"), ..blank(case) }
}

fn blank(case: &Case) -> Figure {
    Figure {
        name: case.name,
        document: case.document,
        expected: case.expected,
        asked: case.asked,
        tolerance: 0.0,
        value: None,
        pass: false,
        limited_by: None,
        scenario: case.scenario,
        note: String::new(),
    }
}

/// Computes the figure of a case from its points.
fn figure(case: &Case, result: &LabResult) -> Figure {
    let mut figure = blank(case);
    figure.limited_by = worst(result);
    let mut problems: Vec<String> = Vec::new();
    for point in &result.points {
        problems.extend(point.errors.iter().cloned());
        if !point.is_whole {
            problems.push(format!(
                "{} has events that are not whole, or books that do not balance",
                place(point)
            ));
        }
    }
    let (value, note) = (case.value)(&result.points);
    figure.value = value;
    figure.pass = problems.is_empty() && value.is_some_and(|value| value >= case.asked - figure.tolerance);
    if figure.limited_by == Some(LimitedBy::Cpu) {
        problems.push("this machine's processors were the limit: no result about a network".into());
    }
    problems.insert(0, format!("{}; {note}", case.about));
    figure.note = problems.join("; ");
    figure
}

/// Returns the worst limit of the runs: a machine that was the limit once puts all in doubt.
fn worst(result: &LabResult) -> Option<LimitedBy> {
    let limits: Vec<LimitedBy> = result.points.iter().filter_map(|point| point.limited_by).collect();
    [LimitedBy::Cpu, LimitedBy::Undecided, LimitedBy::Network]
        .into_iter()
        .find(|limit| limits.contains(limit))
}

fn place(point: &PointResult) -> String {
    let settings: Vec<String> =
        point.settings.iter().map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
    if settings.is_empty() { "the run".into() } else { format!("the run with {}", settings.join(", ")) }
}

/// The figures as a table.
#[must_use]
pub fn describe(figures: &[Figure]) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let head = ["figure", "document", "theirs", "asked", "ours", "limit", ""];
    let mut table = TextTable::with_text_columns(2);
    table.push(head);
    for figure in figures {
        table.push([
            figure.name.to_owned(),
            figure.document.to_owned(),
            figure.expected.map_or_else(|| "-".into(), percent),
            percent(figure.asked),
            figure.value.map_or_else(|| "-".into(), percent),
            figure.limited_by.map_or("-", LimitedBy::word).to_owned(),
            if figure.pass { "reached".into() } else { "NOT REACHED".into() },
        ]);
    }
    let mut text = table.to_string();
    text.push('\n');
    for figure in figures {
        text.push_str(&format!("{}: {}\n", figure.name, figure.note));
    }
    let reached = figures.iter().filter(|figure| figure.pass).count();
    text.push_str(&format!("{reached} of {} figures reached\n", figures.len()));
    text
}

#[cfg(test)]
mod tests;
