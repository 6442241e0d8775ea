//! Requests for traces of events over HTTP.

use crate::description::run_in;
use crate::routes::Route;
use crate::serving::{Refusal, Server, on_another_thread};
use crate::shared::Shared;
use crate::traces::{TRACE_NAME, Trace, TraceReader, spans};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Number of events that are listed where no number is given.
const LISTED: u32 = 50;

/// Largest number of events that are listed.
const MOST_LISTED: u32 = 1_000;

/// Returns the requests for traces.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/api/v1/traces", list), Route::get("/api/v1/traces/{run}/{event}", one)]
}

/// The events that are wanted.
#[derive(Debug, Deserialize)]
struct Wanted {
    run: Option<u32>,
    last: Option<u32>,
}

async fn list(State(server): State<Server>, Query(Wanted { run, last }): Query<Wanted>) -> Response {
    let last = usize::try_from(last.unwrap_or(LISTED).min(MOST_LISTED)).unwrap_or_default();
    beside(server.shared, run, move |run, reader| {
        let remarkable = reader.all().rev().filter(|trace| trace.is_remarkable());
        let events: Vec<Value> = remarkable.take(last).map(listed).collect();
        let left_out = reader.end().map(|end| end.left_out).unwrap_or_default();
        let header = reader.header();
        Ok(json!({
            "run": run, "slow_ns": header.slow_ns, "sample": header.sample, "traces": reader.all().len(), "events": events,
            "left_out": left_out,
        }))
    })
    .await
}

async fn one(State(server): State<Server>, Path((run, event)): Path<(u32, u64)>) -> Response {
    beside(server.shared, Some(run), move |run, reader| {
        let found = reader.find(event).map_err(|error| failed(&format!("cannot read the trace: {error}")))?;
        let absent = || {
            let text = format!(
                "event {event} of run {run} has no trace: it was neither slow, incomplete, dropped nor quarantined, has not ended, or there was \
                 no room; `trace.slow_ms` and `trace.sample` decide which events of later runs get one\n"
            );
            (StatusCode::NOT_FOUND, text)
        };
        let trace = found.ok_or_else(absent)?;
        Ok(json!({ "trace": trace, "spans": spans(&trace) }))
    })
    .await
}

/// Returns what a list says of an event.
fn listed(trace: &Trace) -> Value {
    json!({
        "event": trace.event,
        "reasons": trace.reasons,
        "outcome": trace.outcome,
        "ended_ms": trace.ended_ns.map(|ns| ns / 1_000_000),
        "duration_ns": trace.duration_ns(),
        "missing": trace.missing.iter().map(|part| part.source).collect::<Vec<_>>(),
    })
}

/// Answers from the file of traces of a run, by default the present one, on another thread: the file may be large.
async fn beside(
    shared: Arc<Shared>,
    run: Option<u32>,
    answer: impl FnOnce(u32, &TraceReader) -> Result<Value, Refusal> + Send + 'static,
) -> Response {
    let body = move || {
        let (run, path) = place(&shared, run)?;
        let mut known = shared.traces();
        if known.path() != path {
            *known = TraceReader::new(&path);
        }
        known.follow().map_err(|error| failed(&format!("cannot read {}: {error}", path.display())))?;
        answer(run, &known)
    };
    match on_another_thread(body).await {
        Ok(value) => ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response(),
        Err(answer) => answer,
    }
}

fn failed(text: &str) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{text}\n"))
}

/// Returns a run and its file of traces.
fn place(shared: &Shared, run: Option<u32>) -> Result<(u32, PathBuf), Refusal> {
    let told = shared.told();
    let absent = |text: &str| (StatusCode::NOT_FOUND, format!("{text}\n"));
    let described = told.run.as_deref().ok_or_else(|| absent("there was no run yet"))?;
    let number = run.unwrap_or(described.number);
    if number == described.number {
        return match &described.traces {
            Some(file) => Ok((number, file.into())),
            None => Err(absent("the run has no traces: `trace.file_bytes` is 0")),
        };
    }
    let file = described.runs().map(|runs| run_in(runs, number).join(TRACE_NAME));
    match file.filter(|file| file.exists()) {
        Some(file) => Ok((number, file)),
        None => Err(absent(&format!("there are no traces of run {number}"))),
    }
}
