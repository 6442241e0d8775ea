//! The spans of an event for OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! The id of a trace is 8 bytes of the run and 8 of the event, so everybody can name it.

use super::model::Trace;
use super::spans::{Span, spans};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Path at which a collector of OpenTelemetry takes traces.
pub const PATH: &str = "/v1/traces";

/// Span that was finished without an error, and one with an error.
const STATUS: [u8; 2] = [1, 2];

/// Returns the request that exports traces.
#[must_use]
pub fn request(traces: &[Trace]) -> Value {
    let mut nodes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for trace in traces {
        for (place, span) in spans(trace).iter().enumerate() {
            nodes.entry(span.node.clone()).or_default().push(encode(trace, place, span));
        }
    }
    let resource = |(node, spans): (String, Vec<Value>)| {
        let mut attributes = vec![text("service.name", "sheaf")];
        if !node.is_empty() {
            attributes.push(text("service.instance.id", &node));
        }
        json!({
            "resource": { "attributes": attributes },
            "scopeSpans": [{ "scope": { "name": "sheaf" }, "spans": spans }],
        })
    };
    json!({ "resourceSpans": nodes.into_iter().map(resource).collect::<Vec<_>>() })
}

fn encode(trace: &Trace, place: usize, span: &Span) -> Value {
    // The first span is that of the event.
    let id = |place: usize| format!("{:016x}", place as u64 + 1);
    let mut attributes = vec![
        number("sheaf.run", u64::from(trace.run)),
        number("sheaf.event", trace.event),
        text("sheaf.reasons", &trace.reasons.join(",")),
    ];
    if !span.note.is_empty() {
        attributes.push(text("sheaf.note", &span.note));
    }
    if span.clock > 0 {
        attributes.push(number("sheaf.clock", span.clock as u64));
    }
    let is_event = span.name == "event";
    if is_event && !trace.missing.is_empty() {
        let missing: Vec<_> = trace.missing.iter().map(|part| part.source.to_string()).collect();
        attributes.push(text("sheaf.missing", &missing.join(",")));
    }
    let mut value = json!({
        "traceId": format!("{:016x}{:016x}", trace.run, trace.event),
        "spanId": id(place),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.unwrap_or(span.start_ns).to_string(),
        "attributes": attributes,
        "status": { "code": STATUS[usize::from(is_event && trace.is_remarkable())] },
    });
    if !is_event {
        value["parentSpanId"] = id(0).into();
    }
    value
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// 64-bit numbers are text in JSON.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal_and_large_numbers_are_text() {
        let trace = Trace {
            run: 7,
            event: 1 << 53,
            reasons: vec!["slow".into()],
            began_ns: Some(1_700_000_000_000_000_000),
            ended_ns: Some(1_700_000_000_000_000_001),
            ..Trace::default()
        };
        let request = request(&[trace]);
        let span = &request["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "00000000000000070020000000000000");
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
        assert_eq!(span["startTimeUnixNano"], "1700000000000000000");
        assert_eq!(span["attributes"][1]["value"]["intValue"], "9007199254740992");
        assert!(span.get("parentSpanId").is_none());
        assert_eq!(span["status"]["code"], 2);
    }
}
