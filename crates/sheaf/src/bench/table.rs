//! Results of a test program, as a table.

use super::report::{Column, Curve, Report, Scanned};
use sheaf_plot::{Align, TextTable};
use std::fmt::Write;

/// The widest size is `256 MiB`.
const SIZE_WIDTH: usize = 10;

/// The widest figure is `999,999,999`.
const FIGURE_WIDTH: usize = 11;

/// The widest spread is `99.9 %`.
const SPREAD_WIDTH: usize = 6;

/// The whole report in lines.
pub(super) fn of(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", report.title, report.subtitle);
    for curve in report.curves.iter().filter(|curve| !curve.points.is_empty()) {
        if !curve.name.is_empty() {
            let _ = write!(text, "\n{}\n", curve.name);
        }
        let columns: Vec<&Column> = shown(report, curve);
        let head = match report.scanned {
            Scanned::Size => "size",
            Scanned::FilterTime => "filter",
        };
        let mut table = TextTable::new(&[Align::Right]);
        // The curves of a report have columns of the same widths.
        let headers = columns.iter().map(|column| format!("{:>FIGURE_WIDTH$}", column.header));
        let head = format!("{head:>SIZE_WIDTH$}");
        table.push(std::iter::once(head).chain(headers).chain([format!("{:>SPREAD_WIDTH$}", "+-")]));
        for point in &curve.points {
            let figures = columns.iter().map(|column| {
                let value = point.figure(column.figure).map(|spread| spread.median / column.unit);
                value.map_or_else(String::new, |value| number(value, column.decimals))
            });
            let main = columns.first().and_then(|column| point.figure(column.figure));
            let spread = format!("{:.1} %", main.map_or(0.0, |main| main.relative() * 100.0));
            table.push(std::iter::once(place(report.scanned, point.at)).chain(figures).chain([spread]));
        }
        let _ = write!(text, "{table}");
        if let Some(fit) = &curve.fit {
            let _ = writeln!(text, "{}", describe(fit));
        }
    }
    for what in &report.left_out {
        let _ = writeln!(text, "\nnot measured: {what}");
    }
    if report.interrupted {
        let _ = writeln!(text, "\ninterrupted: the rest was not measured");
    }
    text
}

/// The columns for which there are figures.
fn shown<'a>(report: &'a Report, curve: &Curve) -> Vec<&'a Column> {
    let has = |column: &&Column| curve.points.iter().any(|point| point.figure(column.figure).is_some());
    report.columns.iter().filter(has).collect()
}

/// Describes the fit in words.
pub(super) fn describe(fit: &sheaf_bench::fit::Fit) -> String {
    let speed = fit.speed_bytes_per_second / 1e9;
    let mut text = format!("fit: time per message = {} + size / {speed:.2} GB/s", time(fit.offset_ns));
    if fit.plateau_ns > 0.0 {
        let from = size_f64(fit.linear_from_bytes);
        let _ = write!(text, " from {from} on, {} below", time(fit.plateau_ns));
    }
    let _ = write!(text, " ({:.0} % rms)", fit.rms_deviation * 100.0);
    text
}

/// A time in the unit that suits it.
pub(super) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// Describes the position of a point in words.
pub(super) fn place(scanned: Scanned, at: u64) -> String {
    match scanned {
        Scanned::Size => size(at),
        Scanned::FilterTime => format!("{at} us"),
    }
}

/// A size with the prefix of a power of two where it is one's multiple.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, shown to the byte")]
fn size_f64(bytes: f64) -> String {
    size(bytes.round() as u64)
}

fn number(value: f64, decimals: usize) -> String {
    if decimals == 0 { crate::console::count_f64(value) } else { format!("{value:.decimals$}") }
}
