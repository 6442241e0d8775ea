//! The spans of an event as text.

use super::length::duration;
use super::model::Trace;
use super::spans::{Span, spans};
use std::fmt::Write as _;

/// Width of the longest bar.
const WIDTH: u64 = 32;

/// Returns the waterfall of an event: a line for each span, with a bar.
#[must_use]
pub fn waterfall(trace: &Trace) -> String {
    let mut text = headline(trace);
    let spans = spans(trace);
    if trace.stamps.is_empty() {
        text.push_str("\nNone of its stamps was found: they were overwritten before the event was known to be remarkable.\n");
    }
    let clocks = spans.iter().map(|span| span.clock).max().unwrap_or(0);
    for clock in 0..=clocks {
        let of_clock: Vec<_> = spans.iter().filter(|span| span.clock == clock).collect();
        if clock > 0 {
            let _ = writeln!(
                text,
                "\nHost {} (clocks of hosts are not compared: its times count from its own first one)",
                clock + 1
            );
        } else {
            text.push('\n');
        }
        rows(&of_clock, &mut text);
    }
    text
}

fn headline(trace: &Trace) -> String {
    let mut text = format!("Event {} of run {}: {}", trace.event, trace.run, trace.reasons.join(", "));
    match (&trace.outcome, trace.duration_ns()) {
        (Some(outcome), Some(ns)) => _ = write!(text, "; {outcome} after {}", duration(ns)),
        (Some(outcome), None) => _ = write!(text, "; {outcome}"),
        _ => text.push_str("; its end is not known"),
    }
    if let Some(reason) = &trace.drop_reason {
        let _ = write!(text, " ({reason})");
    }
    text.push('\n');
    for missing in &trace.missing {
        let name = missing.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let need = if missing.required { "" } else { "; events are complete without it" };
        let _ = writeln!(text, "Missing: source {}{name}, {}{need}", missing.source, missing.reason);
    }
    text
}

/// Times count from the beginning of the event, where that is known. Sources may be ahead of the trigger, so spans may begin before.
fn rows(spans: &[&Span], text: &mut String) {
    let event = spans.iter().find(|span| span.name == "event");
    let first = spans.iter().map(|span| span.start_ns).min().unwrap_or(0);
    let zero = event.map_or(first, |event| event.start_ns);
    let end = spans.iter().filter_map(|span| span.end_ns).max().unwrap_or(zero);
    let whole = end.saturating_sub(zero).max(1);
    let _ = writeln!(text, "{:<15} {:<8} {:>9} {:>9}", "span", "node", "begin", "duration");
    for span in spans {
        let begin = match span.start_ns.checked_sub(zero) {
            Some(after) => duration(after),
            None => format!("-{}", duration(zero - span.start_ns)),
        };
        let took = span.end_ns.map_or_else(|| "no end".to_owned(), |end| duration(end - span.start_ns));
        let bar = bar(span, zero, whole);
        let (name, node, note) = (span.name, &span.node, &span.note);
        let line = format!("{name:<15} {node:<8} {begin:>9} {took:>9} |{bar:<32}| {note}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Returns the bar of a span: `<` stands for what was before the event, `>` for an end that is not known.
fn bar(span: &Span, zero: u64, whole: u64) -> String {
    let place = |at_ns: u64| {
        let place = u128::from(at_ns.saturating_sub(zero)) * u128::from(WIDTH) / u128::from(whole);
        usize::try_from(place).unwrap_or(usize::MAX).min(WIDTH as usize - 1)
    };
    let from = place(span.start_ns);
    let Some(end) = span.end_ns else { return format!("{}>", " ".repeat(from)) };
    let mut bar = "#".repeat((place(end) - from).max(1));
    if span.start_ns < zero {
        bar.replace_range(..1, "<");
    }
    format!("{}{bar}", " ".repeat(from))
}
