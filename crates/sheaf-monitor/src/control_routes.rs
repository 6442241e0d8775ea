//! Requests to run control over HTTP.
//!
//! The monitor knows the paths and methods. What becomes of a request is the controller's matter, on another thread: a slow disk, on which
//! it writes down what it does, must not hold up the page.

use crate::control::{Answer, Asked, Call};
use crate::serving::Server;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Longest time that a request for an operation waits for its end.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Time that the controller has to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of runs or commands that are listed where no number is given.
const LISTED: usize = 50;

/// Returns the answers to requests about run control.
pub(crate) fn router() -> Router<Server> {
    Router::new()
        .route("/api/v1/control", get(status))
        .route("/api/v1/me", get(me))
        .route("/api/v1/operations", post(operate))
        .route("/api/v1/operations/{id}", get(operation))
        .route("/api/v1/lock", put(lock).delete(unlock))
        .route("/api/v1/faults/{id}/cleared", post(seen))
        .route("/api/v1/runs", get(runs))
        .route("/api/v1/runs/{number}", get(run))
        .route("/api/v1/runs/{number}/comments", post(comment))
        .route("/api/v1/audit", get(audit))
}

async fn status(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Status).await
}

async fn me(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Me).await
}

async fn operate(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::Operate(body)).await
}

/// Time for which a client waits.
#[derive(Debug, Deserialize)]
struct Wait {
    wait_ms: Option<u64>,
}

/// Answers when the operation has ended, or the client's time is over.
async fn operation(
    State(server): State<Server>,
    Path(id): Path<u64>,
    Query(Wait { wait_ms }): Query<Wait>,
    headers: HeaderMap,
) -> Response {
    let until = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    let mut ticks = server.ticks.clone();
    loop {
        ticks.mark_unchanged();
        let answer = ask(&server, &headers, Call::Operation(id)).await;
        if !answer.lasts || timeout_at(until, ticks.changed()).await.is_err() {
            return respond(answer);
        }
    }
}

async fn lock(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::Lock(body)).await
}

async fn unlock(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Unlock).await
}

async fn seen(State(server): State<Server>, Path(id): Path<u64>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Seen(id)).await
}

/// Number of listed entries.
#[derive(Debug, Deserialize)]
struct Last {
    last: Option<usize>,
}

async fn runs(
    State(server): State<Server>,
    Query(Last { last }): Query<Last>,
    headers: HeaderMap,
) -> Response {
    answer(&server, &headers, Call::Runs(last.unwrap_or(LISTED))).await
}

async fn run(State(server): State<Server>, Path(number): Path<u32>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Run(number)).await
}

async fn comment(
    State(server): State<Server>,
    Path(number): Path<u32>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&server, &headers, Call::Comment(number, body)).await
}

async fn audit(
    State(server): State<Server>,
    Query(Last { last }): Query<Last>,
    headers: HeaderMap,
) -> Response {
    answer(&server, &headers, Call::Audit(last.unwrap_or(LISTED))).await
}

async fn answer(server: &Server, headers: &HeaderMap, call: Call) -> Response {
    respond(ask(server, headers, call).await)
}

async fn ask(server: &Server, headers: &HeaderMap, call: Call) -> Answer {
    let Some(control) = &server.control else {
        return Answer::error(
            StatusCode::NOT_FOUND,
            "not_found",
            "this page belongs to one run and has no run control",
            "`sheaf serve` has a page with run control",
        );
    };
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let token =
        header(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    let revision = match header(header::IF_MATCH).map(|value| value.trim().trim_matches('"').parse()) {
        None => None,
        Some(Ok(revision)) => Some(revision),
        Some(Err(_)) => {
            return Answer::error(
                StatusCode::BAD_REQUEST,
                "invalid",
                "If-Match is not a revision of the state",
                "send the number of `control.revision` in quotes, or leave the header out",
            );
        }
    };
    let (sender, receiver) = oneshot::channel();
    let is_queued = control.ask(Asked { call, token, revision }, sender);
    let busy = || {
        Answer::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "run control does not answer",
            "try again; if it stays so, look at the log of `sheaf serve`",
        )
    };
    if !is_queued {
        return busy();
    }
    match timeout_at(Instant::now() + PATIENCE, receiver).await {
        Ok(Ok(answer)) => answer,
        _ => busy(),
    }
}

fn respond(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], answer.body).into_response()
}
