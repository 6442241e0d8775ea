//! Intervals between the stamps of an event.

use super::length::duration;
use super::model::{Trace, TraceStamp};
use serde::Serialize;
use std::collections::BTreeMap;

/// An interval of an event's life at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Name, such as `build.gather`.
    pub name: &'static str,
    /// The node; empty for the event itself.
    pub node: String,
    /// Begin in nanoseconds since 1970.
    pub start_ns: u64,
    /// End in nanoseconds since 1970; `None` if none was stamped.
    pub end_ns: Option<u64>,
    /// Other facts, such as the source that was last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Number of the clock, as in the stamps.
    pub clock: usize,
}

/// Returns the spans of an event in the order of their beginnings, the event itself first.
#[must_use]
pub fn spans(trace: &Trace) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut nodes: BTreeMap<(usize, &str), Vec<&TraceStamp>> = BTreeMap::new();
    for stamp in &trace.stamps {
        nodes.entry((stamp.clock, &stamp.node)).or_default().push(stamp);
    }
    for stamps in nodes.values() {
        of_builder(stamps, &mut spans);
        of_readout(trace, stamps, &mut spans);
        of_output(stamps, &mut spans);
    }
    of_manager(trace, &mut spans);
    spans.sort_by(|one, other| {
        (one.clock, one.start_ns, one.end_ns).cmp(&(other.clock, other.start_ns, other.end_ns))
    });
    let first = trace.stamps.iter().filter(|stamp| stamp.clock == 0).map(|stamp| stamp.at_ns).min();
    if let Some(start_ns) = trace.began_ns.or(first) {
        let note = trace.outcome.clone().unwrap_or_default();
        let event =
            Span { name: "event", node: String::new(), start_ns, end_ns: trace.ended_ns, note, clock: 0 };
        spans.insert(0, event);
    }
    spans
}

fn span(name: &'static str, at: &TraceStamp, end: Option<&TraceStamp>, note: String) -> Span {
    Span {
        name,
        node: at.node.clone(),
        start_ns: at.at_ns,
        end_ns: end.map(|end| end.at_ns.max(at.at_ns)),
        note,
        clock: at.clock,
    }
}

fn first<'a>(stamps: &[&'a TraceStamp], stage: &str) -> Option<&'a TraceStamp> {
    stamps.iter().find(|stamp| stamp.stage == stage).copied()
}

fn last<'a>(stamps: &[&'a TraceStamp], stage: &str) -> Option<&'a TraceStamp> {
    stamps.iter().rev().find(|stamp| stamp.stage == stage).copied()
}

/// Spans of a builder unit, for each of its attempts.
fn of_builder(stamps: &[&TraceStamp], spans: &mut Vec<Span>) {
    let begins: Vec<usize> = (0..stamps.len()).filter(|place| stamps[*place].stage == "began").collect();
    let is_builder =
        |stamp: &&TraceStamp| matches!(&*stamp.stage, "began" | "answered" | "judging" | "decided");
    if !stamps.iter().any(is_builder) {
        return;
    }
    // Without a first stamp, which may have been overwritten, all belong to one attempt.
    let starts = if begins.is_empty() { vec![0] } else { begins };
    for (place, start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(stamps.len());
        let mut attempt = stamps[*start..end].to_vec();
        if place == 0 {
            // Super-fragments that arrive with the assignment in one round.
            attempt.splice(0..0, stamps[..*start].iter().copied());
        }
        of_attempt(&attempt, spans);
    }
}

fn of_attempt(stamps: &[&TraceStamp], spans: &mut Vec<Span>) {
    let answered = last(stamps, "answered");
    let (judging, judged) = (first(stamps, "judging"), first(stamps, "judged"));
    let decided = first(stamps, "decided");
    if let Some(began) = first(stamps, "began").or_else(|| first(stamps, "answered")) {
        let mut notes = Vec::new();
        if let Some(attempt) = began.attempt.filter(|attempt| *attempt > 1) {
            notes.push(format!("attempt {attempt}"));
        }
        if let Some(peer) = answered.and_then(|answered| answered.peer.as_deref()) {
            notes.push(format!("{peer} answered last"));
        }
        // An event that is given up has no further answer.
        spans.push(span(
            "build.gather",
            began,
            judging.and(answered).or(judging).or(decided),
            notes.join(", "),
        ));
    }
    if let (Some(answered), Some(judging)) = (answered, judging)
        && judging.at_ns > answered.at_ns
    {
        spans.push(span("filter.wait", answered, Some(judging), String::new()));
    }
    if let Some(judging) = judging {
        spans.push(span("filter.judge", judging, judged, String::new()));
    }
    if let Some(judged) = judged {
        spans.push(span("output.durable", judged, decided, String::new()));
    }
}

/// Spans of a readout unit.
fn of_readout(trace: &Trace, stamps: &[&TraceStamp], spans: &mut Vec<Span>) {
    let (arrived, requested) = (first(stamps, "arrived"), first(stamps, "requested"));
    let sent: Vec<_> = stamps.iter().filter(|stamp| stamp.stage == "sent").copied().collect();
    let Some(begin) = arrived.or(requested).or_else(|| sent.first().copied()) else { return };
    let mut notes = Vec::new();
    if let Some(source) = last(stamps, "arrived").and_then(|stamp| stamp.source) {
        notes.push(format!("source {source} was last"));
    }
    if let Some(requested) = requested.filter(|requested| requested.at_ns > begin.at_ns) {
        notes.push(format!("requested after {}", duration(requested.at_ns - begin.at_ns)));
    }
    spans.push(span("readout.hold", begin, sent.first().copied(), notes.join(", ")));
    for sent in &sent {
        let is_arrival = |stamp: &&TraceStamp| {
            stamp.stage == "answered"
                && stamp.peer.as_ref() == Some(&sent.node)
                && sent.peer.as_ref().is_none_or(|to| stamp.node == *to)
                && stamp.at_ns >= sent.at_ns
                && stamp.clock == sent.clock
        };
        if let Some(arrival) = trace.stamps.iter().find(is_arrival) {
            let note = sent.peer.as_ref().map(|to| format!("to {to}")).unwrap_or_default();
            spans.push(span("readout.send", sent, Some(arrival), note));
        }
    }
    if let Some(released) = last(stamps, "released") {
        let ended = trace.stamps.iter().find(|stamp| stamp.stage == "ended" && stamp.clock == released.clock);
        let from = ended.map_or(released.at_ns, |ended| ended.at_ns.min(released.at_ns));
        let release = TraceStamp { at_ns: from, ..released.clone() };
        spans.push(span("release", &release, Some(released), String::new()));
    }
}

/// Spans of an output node.
fn of_output(stamps: &[&TraceStamp], spans: &mut Vec<Span>) {
    if let Some(writing) = first(stamps, "writing") {
        spans.push(span("output.write", writing, last(stamps, "written"), String::new()));
    }
}

/// Spans of the event manager.
fn of_manager(trace: &Trace, spans: &mut Vec<Span>) {
    let assigned: Vec<_> = trace.stamps.iter().filter(|stamp| stamp.stage == "assigned").collect();
    if let (Some(assigned), Some(began)) = (assigned.first(), trace.began_ns) {
        let builder = assigned.peer.as_ref().map(|to| format!("for {to}")).unwrap_or_default();
        let begin = TraceStamp { at_ns: began.min(assigned.at_ns), ..(*assigned).clone() };
        spans.push(span("queue", &begin, Some(assigned), builder));
    }
    let of = |stage: &str| trace.stamps.iter().rev().find(|stamp| stamp.stage == stage);
    if let (Some(decided), Some(ended)) = (of("decided"), of("ended"))
        && decided.clock == ended.clock
    {
        // A builder unit that judges on its own thread stamps the decision in its next round, which may be after the report has arrived.
        let decided = TraceStamp { at_ns: decided.at_ns.min(ended.at_ns), ..decided.clone() };
        spans.push(span("report", &decided, Some(ended), format!("to {}", ended.node)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(node: &str, at_ns: u64, stage: &str, peer: Option<&str>) -> TraceStamp {
        let peer = peer.map(str::to_owned);
        TraceStamp {
            node: node.into(),
            at_ns,
            stage: stage.into(),
            peer,
            source: None,
            attempt: None,
            clock: 0,
        }
    }

    fn trace() -> Trace {
        let mut trace = Trace { began_ns: Some(0), ended_ns: Some(100), ..Trace::default() };
        trace.add_stamps([
            stamp("evm", 5, "assigned", Some("bu0")),
            stamp("bu0", 6, "began", None),
            stamp("ru0", 2, "arrived", None),
            stamp("ru0", 7, "requested", Some("bu0")),
            stamp("ru0", 8, "sent", Some("bu0")),
            stamp("bu0", 10, "answered", Some("ru0")),
            stamp("bu0", 30, "answered", Some("ru1")),
            stamp("bu0", 31, "judging", None),
            stamp("bu0", 81, "judged", None),
            stamp("bu0", 90, "decided", None),
            stamp("evm", 100, "ended", None),
            stamp("ru0", 101, "released", None),
        ]);
        trace
    }

    #[test]
    fn an_event_has_its_spans() {
        let spans = spans(&trace());
        let found: Vec<_> = spans
            .iter()
            .map(|span| (span.name, &*span.node, span.start_ns, span.end_ns.unwrap_or(0)))
            .collect();
        assert_eq!(
            found,
            [
                ("event", "", 0, 100),
                ("queue", "evm", 0, 5),
                ("readout.hold", "ru0", 2, 8),
                ("build.gather", "bu0", 6, 30),
                ("readout.send", "ru0", 8, 10),
                ("filter.wait", "bu0", 30, 31),
                ("filter.judge", "bu0", 31, 81),
                ("output.durable", "bu0", 81, 90),
                ("report", "bu0", 90, 100),
                ("release", "ru0", 100, 101),
            ]
        );
        assert_eq!(spans[3].note, "ru1 answered last");
    }

    #[test]
    fn a_report_that_overtakes_the_stamp_of_its_decision_has_a_span() {
        let mut trace = trace();
        trace.stamps.iter_mut().filter(|stamp| stamp.stage == "decided").for_each(|stamp| stamp.at_ns = 105);
        let spans = spans(&trace);
        let report = spans.iter().find(|span| span.name == "report").unwrap();
        assert_eq!((report.start_ns, report.end_ns), (100, Some(100)));
    }

    #[test]
    fn any_part_of_a_trace_has_spans_that_do_not_end_before_they_begin() {
        let whole = trace();
        for present in 0..1_u32 << whole.stamps.len() {
            let mut part = whole.clone();
            let mut place = 0;
            part.stamps.retain(|_| {
                place += 1;
                present >> (place - 1) & 1 == 1
            });
            for span in spans(&part) {
                assert!(span.end_ns.is_none_or(|end| end >= span.start_ns), "{span:?}");
            }
        }
    }

    #[test]
    fn an_event_that_was_built_again_has_the_spans_of_both_attempts() {
        let mut trace = trace();
        let mut again = stamp("bu1", 50, "began", None);
        again.attempt = Some(2);
        trace.add_stamps([again]);
        let spans = spans(&trace);
        let gather: Vec<_> = spans.iter().filter(|span| span.name == "build.gather").collect();
        assert_eq!(gather.len(), 2);
        assert_eq!((gather[1].note.as_str(), gather[1].end_ns), ("attempt 2", None));
    }
}
