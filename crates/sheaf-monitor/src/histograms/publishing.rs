//! Requests that publish, at the socket of a run and at a page.

use super::receiving::Receiving;
use crate::control::Answer;
use crate::unix_time::unix_ms;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use serde_json::json;
use sheaf_histogram::{Publication, Receipt, Refusal, RefusalReason};
use sheaf_machine::connect_to;
use sheaf_telemetry::log_as;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Most bytes of a publication.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// Number of publications that are read at the same time. Others wait.
const AT_ONCE: usize = 4;

/// Time that a publisher has to send a publication, from its beginning or its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of an answer of the run.
const MOST_ANSWER: u64 = 4 << 20;

#[derive(Clone)]
struct Publishing {
    shared: Arc<Receiving>,
    turns: Arc<Semaphore>,
}

/// Returns the answers at the socket of a run.
pub(super) fn router(shared: Arc<Receiving>) -> Router {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    Router::new().route("/api/v1/publishers/{name}", put(publish)).with_state(Publishing { shared, turns })
}

async fn publish(State(state): State<Publishing>, Path(name): Path<String>, body: Body) -> Response {
    let Ok(Ok(_turn)) = timeout(PATIENCE, state.turns.acquire()).await else {
        let busy = Answer::error(503, "busy", "other publishers send much", "publish less often");
        return busy.into_response();
    };
    let answer = match timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => take(&state.shared, &name, &body),
        Ok(Err(_)) => too_large(),
        Err(_) => Answer::error(408, "late", "the publication did not arrive within 10 s", "publish less"),
    };
    answer.into_response()
}

pub(crate) fn too_large() -> Answer {
    let text = format!("a publication has at most {MOST_BYTES} bytes");
    Answer::error(413, "too_large", &text, "publish fewer histograms at once")
}

fn take(shared: &Receiving, publisher: &str, body: &[u8]) -> Answer {
    let result = match Publication::parse(body) {
        Ok(publication) => shared.store().take(publisher, publication, unix_ms()),
        Err(refusal) => {
            shared.store().note_invalid(&refusal);
            Err(refusal)
        }
    };
    let refusals = match &result {
        Ok(receipt) => &receipt.refused[..],
        Err(refusal) => std::slice::from_ref(refusal),
    };
    for refusal in refusals.iter().filter(|refusal| shared.is_first(refusal.reason)) {
        log_as!(
            HISTOGRAM_REFUSED, peer = publisher;
            "a histogram of {publisher} is refused: {}; {}", refusal.text, refusal.reason.remedy()
        );
    }
    match result {
        Ok(Receipt { taken, stale, refused }) => {
            let refused: Vec<_> = refused.iter().map(described).collect();
            Answer::json(200, &json!({ "taken": taken, "stale": stale, "refused": refused }))
        }
        Err(refusal) => {
            let Refusal { reason, text, .. } = &refusal;
            let status = if *reason == RefusalReason::Invalid { 400 } else { 409 };
            Answer::error(status, reason.name(), text, reason.remedy())
        }
    }
}

fn described(Refusal { name, reason, text }: &Refusal) -> serde_json::Value {
    json!({ "name": name, "code": reason.name(), "text": text, "remedy": reason.remedy() })
}

/// Passes a publication that came to a page on to the socket of a run. It blocks.
pub(crate) fn forward(socket: &std::path::Path, publisher: &str, body: &Bytes) -> Answer {
    match ask(socket, publisher, body) {
        Ok(answer) => answer,
        Err(error) => Answer::error(
            409,
            "state",
            &format!("the run does not take histograms: {error}"),
            "publish while a run is in progress, and see whether `monitor.histogram_bytes` is 0",
        ),
    }
}

fn ask(socket: &std::path::Path, publisher: &str, body: &[u8]) -> io::Result<Answer> {
    let mut stream = connect_to(socket)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "PUT /api/v1/publishers/{publisher} HTTP/1.1\r\nHost: run\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(MOST_ANSWER).read_to_end(&mut answer)?;
    let strange = || io::Error::other("its answer cannot be understood");
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(strange)?;
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Ok(Answer { status: status.ok_or_else(strange)?, body: answer.split_off(head + 4), lasts: false })
}
