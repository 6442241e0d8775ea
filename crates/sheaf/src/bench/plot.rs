//! Plot of a test program's results.

use super::report::{Curve, Point, Report, Scanned};
use super::table::{describe, time};
use sheaf_bench::fit::Fit;
use sheaf_plot::{Axis, Chart, Draw, Mark, Reference, Series};

/// Number of points of a smooth curve.
const FINE: u32 = 120;
/// The palette's grey: the machine's own limits stand behind the measurements.
const GREY: usize = 6;
/// With more curves than this, fits and plateaus would hide one another.
const FITS_SHOWN: usize = 4;

/// The chart of a report.
pub(super) fn of(report: &Report) -> Chart {
    let picture = report.picture;
    let (x, y) = match report.scanned {
        Scanned::Size => (Axis::bytes(picture.size), Axis::log(picture.label, picture.unit)),
        Scanned::FilterTime => (Axis::linear(picture.size, "us"), Axis::linear(picture.label, picture.unit)),
    };
    let mut chart = Chart::new(report.title.clone(), x, y);
    chart.subtitle.clone_from(&report.subtitle);
    let curves: Vec<&Curve> = report.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    for (number, curve) in curves.iter().enumerate() {
        let limit = points(curve, "limit_bytes_per_second", 1.0);
        if !picture.is_time && !limit.is_empty() && number == 0 {
            chart.series.push(Series::new("machine's limit", Draw::Dashed, limit).coloured(GREY));
        }
    }
    let with_fits = curves.len() <= FITS_SHOWN;
    for (number, curve) in curves.iter().enumerate() {
        let measured = points(curve, picture.figure, picture.factor);
        let name = if curve.name.is_empty() { report.bench } else { &curve.name };
        chart.series.push(Series::line(name, measured).coloured(number));
        let Some(fit) = curve.fit.filter(|_| with_fits) else { continue };
        chart
            .series
            .push(Series::new("", Draw::Dashed, smooth(curve, &fit, picture.is_time)).coloured(number));
        if picture.is_time && fit.plateau_ns > 0.0 {
            let label = format!("plateau {}", time(fit.plateau_ns));
            chart.references.push(Reference { at: Mark::Y(fit.plateau_ns * 1e-9), label });
        } else if !picture.is_time {
            let label = format!("speed {:.2} GB/s", fit.speed_bytes_per_second / 1e9);
            chart.references.push(Reference { at: Mark::Y(fit.speed_bytes_per_second), label });
        }
    }
    let fits = curves.iter().filter_map(|curve| {
        let name = if curve.name.is_empty() { String::new() } else { format!("{}, ", curve.name) };
        curve.fit.filter(|_| with_fits).map(|fit| format!("{name}{}", describe(&fit)))
    });
    chart.caption = fits.collect::<Vec<_>>().join("\n");
    chart.height += 17 * u32::try_from(chart.caption.lines().count()).unwrap_or(0);
    chart
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn points(curve: &Curve, figure: &str, factor: f64) -> Vec<sheaf_plot::Point> {
    // Neither a size of 0 nor a rate of 0 has a place on these axes.
    let point = |point: &Point| {
        let spread = point.figure(figure).filter(|spread| spread.median > 0.0 && point.at > 0)?;
        let middle = sheaf_plot::Point::new(point.at as f64, spread.median * factor);
        Some(middle.within(spread.min * factor, spread.max * factor))
    };
    curve.points.iter().filter_map(point).collect()
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn smooth(curve: &Curve, fit: &Fit, is_time: bool) -> Vec<sheaf_plot::Point> {
    let sizes = || curve.points.iter().map(|point| point.at.max(1) as f64);
    let (first, last) = (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max));
    let at = |step: u32| {
        let size = first * (last / first).powf(f64::from(step) / f64::from(FINE));
        (size, if is_time { fit.time_ns(size) * 1e-9 } else { fit.bytes_per_second(size) }).into()
    };
    (0..=FINE).map(at).collect()
}
