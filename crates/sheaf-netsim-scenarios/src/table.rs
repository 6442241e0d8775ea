//! The result of a sweep as text: one run in full, several as a table.

use crate::result::{DistributionResult, PointResult, ReportResult, SweepResult};
use sheaf_plot::TextTable;
use std::fmt::{self, Display};

/// A time in nanoseconds, with three digits and a unit.
#[must_use]
pub fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A rate in bytes per second, with three digits and a unit.
#[must_use]
pub fn rate(bytes_per_second: f64) -> String {
    let (value, unit) = match bytes_per_second {
        r if r < 1e9 => (r / 1e6, "MB/s"),
        r => (r / 1e9, "GB/s"),
    };
    format!("{} {unit}", digits(value))
}

/// Three digits.
fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

impl Display for SweepResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        if !self.about.is_empty() {
            writeln!(f, "{}", self.about)?;
        }
        writeln!(f)?;
        match &self.runs[..] {
            [run] => {
                if let Some(report) = &run.report {
                    describe(f, report)?;
                }
            }
            _ => table(f, self)?,
        }
        problems(f, self)
    }
}

fn table(f: &mut fmt::Formatter<'_>, result: &SweepResult) -> fmt::Result {
    let keys: Vec<&str> =
        result.axes.iter().map(|axis| axis.key.as_str()).filter(|key| *key != "seed").collect();
    let keys: Vec<&str> = match result.points.iter().any(|point| point.settings.contains_key("fidelity")) {
        true if !keys.contains(&"fidelity") => keys.into_iter().chain(["fidelity"]).collect(),
        _ => keys,
    };
    let reports = || result.runs.iter().flat_map(|run| &run.report);
    let has_events = reports().any(|report| report.event_latency_ns.is_some());
    let has_loss = result.points.iter().any(|point| point.loss > 0.0);
    let several = result.points.iter().any(|point| point.runs > 1);
    let mut head: Vec<&str> = keys.iter().map(|key| short(key)).collect();
    head.extend(["efficiency", "+-", "bound", "per port"]);
    head.extend(if has_events {
        ["event p50", "p99", "p99.9", "max"]
    } else {
        ["message p50", "p99", "p99.9", "max"]
    });
    if has_loss {
        head.push("lost");
    }
    let mut columns = TextTable::with_text_columns(keys.len());
    columns.push(head);
    for point in &result.points {
        let mut cells: Vec<String> =
            keys.iter().map(|key| point.settings.get(*key).cloned().unwrap_or_else(|| "-".into())).collect();
        numbers(&mut cells, point, result, has_events);
        if has_loss {
            cells.push(format!("{:.4}", point.loss));
        }
        columns.push(cells);
    }
    write!(f, "{columns}")?;
    let meaning =
        if several { "standard deviation between seeds" } else { "half the 95 % interval of the run" };
    writeln!(f, "\nefficiency: delivered over what the ports could carry; +-: {meaning}")
}

fn numbers(cells: &mut Vec<String>, point: &PointResult, result: &SweepResult, has_events: bool) {
    if point.runs == 0 {
        cells.extend(std::iter::repeat_n("-".to_owned(), 8));
        return;
    }
    cells.push(format!("{:.4}", point.efficiency));
    cells.push(format!("{:.4}", point.efficiency_error));
    cells.push(format!("{:.4}", point.efficiency_bound));
    cells.push(rate(point.throughput_bytes_per_second_per_port));
    let reports = || point.members.iter().filter_map(|index| result.runs[*index].report.as_ref());
    let latency =
        |report: &ReportResult| if has_events { report.event_latency_ns } else { report.message_latency_ns };
    let latencies: Vec<_> = reports().filter_map(latency).collect();
    if latencies.is_empty() {
        cells.extend(std::iter::repeat_n("-".to_owned(), 4));
        return;
    }
    // Of several seeds the worst is shown: a quantile of quantiles has no meaning.
    for pick in QUANTILES {
        cells.push(time(latencies.iter().map(pick).fold(0.0, f64::max)));
    }
}

/// The columns of a latency.
const QUANTILES: [fn(&DistributionResult) -> f64; 4] = [|l| l.p50, |l| l.p99, |l| l.p999, |l| l.max];

/// The key without its table, where that is clear enough.
fn short(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((_, "kind" | "seed")) | None => key,
        Some((table, _)) if table.starts_with("fault") => key,
        Some((_, name)) => name,
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: impl Display, remark: &str) -> fmt::Result {
    let text = format!("{name:<18}{value:>14}  {remark}");
    writeln!(f, "{}", text.trim_end())
}

fn describe(f: &mut fmt::Formatter<'_>, report: &ReportResult) -> fmt::Result {
    let error = format!("+- {:.4} (95 %)", report.efficiency_error);
    line(f, "efficiency", format!("{:.4}", report.efficiency), &error)?;
    line(f, "  bound", format!("{:.4}", report.efficiency_bound), "of closed formulas, for this traffic")?;
    let ports = format!("mean of {} receiving ports", report.ports);
    line(f, "per port", rate(report.throughput_bytes_per_second_per_port), &ports)?;
    let (least, most) = report
        .per_port
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(*value), most.max(*value)));
    if least.is_finite() {
        line(f, "  ports differ", format!("{least:.4}"), &format!("to {most:.4}"))?;
    }
    let cut =
        format!("of which {} are cut off as warm-up; {} fidelity", time(report.warm_up_ns), report.fidelity);
    line(f, "simulated", time(report.simulated_ns), &cut)?;
    let counts = &report.messages;
    let fate =
        format!("delivered {}, lost {}, in flight {}", counts.delivered, counts.lost, counts.in_flight);
    line(f, "messages", counts.offered, &fate)?;
    if let Some(events) = report.events {
        let fate = format!("complete; {} incomplete, {} in flight", events.incomplete, events.in_flight);
        line(f, "events", events.complete, &fate)?;
    }
    for (name, latency) in
        [("message latency", report.message_latency_ns), ("event latency", report.event_latency_ns)]
    {
        if let Some(latency) = latency {
            let (p99, p999, max) = (time(latency.p99), time(latency.p999), time(latency.max));
            line(
                f,
                name,
                time(latency.p50),
                &format!("median; 99 % within {p99}, 99.9 % within {p999}, all within {max}"),
            )?;
        }
    }
    for occupancy in &report.occupancy {
        let size = occupancy.size_bytes.map_or_else(String::new, |size| format!(" of {size}"));
        let text = format!("bytes, mean; at most {}{size}: {}", occupancy.max_bytes, occupancy.place);
        line(f, "buffer", format!("{:.0}", occupancy.mean_bytes), &text)?;
    }
    for waiting in report.waiting.iter().take(8) {
        line(
            f,
            "waiting",
            format!("{:.3}", waiting.share),
            &format!("of the time of each sender: {}", waiting.cause),
        )?;
    }
    for loss in &report.losses {
        line(f, "lost", loss.messages, &loss.cause)?;
    }
    for check in &report.checks {
        line(
            f,
            "check",
            if check.pass { "good" } else { "FAILED" },
            &format!("{}: {}", check.name, check.detail),
        )?;
    }
    Ok(())
}

/// Runs that failed, and self-checks that did not hold.
fn problems(f: &mut fmt::Formatter<'_>, result: &SweepResult) -> fmt::Result {
    for run in &result.runs {
        let settings = run.settings.iter().map(|(key, value)| format!("{key} = {value}"));
        let settings = settings.collect::<Vec<_>>().join(", ");
        if let Some(error) = &run.error {
            writeln!(f, "NOT SIMULATED: {settings}: {error}")?;
        }
        let checks = run.report.iter().flat_map(|report| &report.checks).filter(|check| !check.pass);
        for check in checks {
            writeln!(f, "CHECK FAILED: {settings}: {}: {}", check.name, check.detail)?;
        }
    }
    Ok(())
}
