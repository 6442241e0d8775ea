//! Requests about values from outside.

use crate::control::Answer;
use crate::credentials::Credentials;
use crate::routes::Route;
use crate::serving::Server;
use crate::unix_time::unix_ms;
use crate::values::{Offer, Refusal};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes of a request.
const MOST_BYTES: usize = 64 << 10;

/// Time that a program has to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time in the future that is taken for the present: clocks of hosts differ.
const MOST_AHEAD_MS: u64 = 60_000;

/// Most refused values that an answer names.
const NAMED: usize = 16;

/// Returns the requests about values.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/values", list),
        Route::new(Method::PUT, "/api/v1/values", send),
        Route::get("/api/v1/values/{name}/history", history),
    ]
}

async fn list(State(server): State<Server>) -> Response {
    let values = &server.shared.values;
    let refused: BTreeMap<_, _> =
        values.refusals().into_iter().map(|(reason, count)| (reason.name(), count)).collect();
    let body = json!({ "time_ms": unix_ms(), "values": values.reports_with_trends(), "refused": refused });
    Answer::json(200, &body).into_response()
}

/// The resolution that is wanted.
#[derive(Debug, Deserialize)]
struct Step {
    step: u32,
}

async fn history(
    State(server): State<Server>,
    Path(name): Path<String>,
    Query(Step { step }): Query<Step>,
) -> Response {
    match server.shared.values.history(&name, step) {
        Some(Some(bytes)) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Some(None) => {
            (StatusCode::BAD_REQUEST, "step must be 100, 1000 or 10000 (milliseconds)\n").into_response()
        }
        None => (StatusCode::NOT_FOUND, format!("there is no value {name}\n")).into_response(),
    }
}

/// Body of a request that sends values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    /// `None`: the sender does not know it.
    values: BTreeMap<String, Option<f64>>,
    /// When they were read, in milliseconds since 1970.
    time_ms: Option<f64>,
}

/// Takes values, if the token is one of an operator.
async fn send(State(server): State<Server>, headers: HeaderMap, body: Body) -> Response {
    let Some(senders) = &server.senders else {
        let remedy = "send values to `sheaf serve` or to `sheaf run` with a page";
        return Answer::error(404, "not_found", "values are not taken here", remedy).into_response();
    };
    let by = match senders.admit_sender(&Credentials::of(&headers)) {
        Ok(by) => by,
        Err(refusal) => return refusal.into_response(),
    };
    let answer = match timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => take(&server, &by, &body),
        Ok(Err(_)) => {
            server.shared.values.refuse(Refusal::Invalid);
            let text = format!("a request has at most {MOST_BYTES} bytes");
            Answer::error(413, "too_large", &text, "send only values that the configuration declares")
        }
        Err(_) => Answer::error(408, "late", "the values did not arrive within 10 s", "send them at once"),
    };
    answer.into_response()
}

fn take(server: &Server, by: &str, body: &Bytes) -> Answer {
    let values = &server.shared.values;
    let refuse = |refusal: Refusal, text: &str| {
        values.refuse(refusal);
        let status = if refusal == Refusal::Future { 409 } else { 400 };
        Answer::error(status, refusal.name(), text, refusal.remedy())
    };
    let Sent { values: sent, time_ms } = match serde_json::from_slice(body) {
        Ok(sent) => sent,
        Err(error) => return refuse(Refusal::Invalid, &format!("the body makes no sense: {error}")),
    };
    let now_ms = unix_ms();
    let age = match time_ms {
        None => 0,
        Some(time_ms) => match age_of(time_ms, now_ms) {
            Ok(age) => age,
            Err((refusal, text)) => return refuse(refusal, &text),
        },
    };
    let offers: Vec<_> =
        sent.iter().map(|(name, value)| Offer { name, value: *value, age, by: Some(by) }).collect();
    let refused = values.take_sent(&offers);
    let taken = offers.len() - refused.len();
    if refused.is_empty() {
        return Answer::json(200, &json!({ "taken": taken, "age_ms": age }));
    }
    let first = &refused[0];
    let text = format!(
        "{} of {} values are not taken, such as {:.80}: {}",
        refused.len(),
        offers.len(),
        first.0,
        first.1.name()
    );
    let named: Vec<_> = refused
        .iter()
        .take(NAMED)
        .map(|(name, refusal)| json!({ "name": name, "code": refusal.name(), "remedy": refusal.remedy() }))
        .collect();
    let body = json!({
        "code": "values", "text": text, "remedy": first.1.remedy(), "taken": taken, "refused": named,
    });
    Answer::json(422, &body)
}

/// Returns the age of values that were read at a time, in milliseconds.
fn age_of(time_ms: f64, now_ms: u64) -> Result<u64, (Refusal, String)> {
    if !(0.0..=1e16).contains(&time_ms) {
        return Err((Refusal::Invalid, "`time_ms` is no time in milliseconds since 1970".into()));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1e16")]
    let time_ms = time_ms as u64;
    let ahead = time_ms.saturating_sub(now_ms);
    if ahead > MOST_AHEAD_MS {
        let text = format!("`time_ms` is {} s in the future of this host", ahead / 1_000);
        return Err((Refusal::Future, text));
    }
    Ok(now_ms.saturating_sub(time_ms))
}

#[cfg(test)]
#[path = "value_routes/tests.rs"]
mod tests;
