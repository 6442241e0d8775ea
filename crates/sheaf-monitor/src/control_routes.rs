//! Requests to run control over HTTP.
//!
//! The monitor knows the paths and methods. What becomes of a request is the controller's matter, on another thread: a slow disk, on which
//! it writes down what it does, must not hold up the page.

use crate::control::{Answer, Asked, Call};
use crate::credentials::Credentials;
use crate::routes::Route;
use crate::serving::Server;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Longest time that a request for an operation waits for its end.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Time that the controller has to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of runs or commands that are listed where no number is given.
const LISTED: u32 = 50;

/// Returns the requests to run control.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/control", status),
        Route::get("/api/v1/me", me),
        Route::new(Method::POST, "/api/v1/operations", operate),
        Route::get("/api/v1/operations/{id}", operation),
        Route::get("/api/v1/sequence", sequence),
        Route::new(Method::POST, "/api/v1/sequence", begin_sequence),
        Route::new(Method::POST, "/api/v1/sequence/actions", direct_sequence),
        Route::new(Method::PUT, "/api/v1/sources/{source}/included", include),
        Route::new(Method::PUT, "/api/v1/nodes/{node}/included", include_node),
        Route::new(Method::POST, "/api/v1/nodes/{node}/recover", recover),
        Route::new(Method::PUT, "/api/v1/lock", lock),
        Route::new(Method::DELETE, "/api/v1/lock", unlock),
        Route::new(Method::POST, "/api/v1/faults/{id}/cleared", seen),
        Route::new(Method::POST, "/api/v1/silences", silence),
        Route::new(Method::DELETE, "/api/v1/silences/{id}", end_silence),
        Route::new(Method::POST, "/api/v1/alarms/seen", alarms_seen),
        Route::get("/api/v1/runs", runs),
        Route::get("/api/v1/runs/{number}", run),
        Route::new(Method::POST, "/api/v1/runs/{number}/comments", comment),
        Route::get("/api/v1/configurations", configurations),
        Route::new(Method::POST, "/api/v1/configurations", name_configuration),
        Route::get("/api/v1/audit", audit),
    ]
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
    wait_ms: Option<u32>,
}

/// Answers when the operation has ended, or the client's time is over.
async fn operation(
    State(server): State<Server>,
    Path(id): Path<u64>,
    Query(Wait { wait_ms }): Query<Wait>,
    headers: HeaderMap,
) -> Response {
    let until = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(0).into()).min(LONGEST_WAIT);
    let mut ticks = server.ticks.clone();
    loop {
        ticks.mark_unchanged();
        let answer = ask(&server, &headers, Call::Operation(id)).await;
        if !answer.lasts || timeout_at(until, ticks.changed()).await.is_err() {
            return answer.into_response();
        }
    }
}

async fn sequence(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Sequence).await
}

async fn begin_sequence(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::BeginSequence(body)).await
}

async fn direct_sequence(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::DirectSequence(body)).await
}

async fn include(
    State(server): State<Server>,
    Path(source): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&server, &headers, Call::Include(source, body)).await
}

async fn include_node(
    State(server): State<Server>,
    Path(node): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&server, &headers, Call::IncludeNode(node, body)).await
}

async fn recover(
    State(server): State<Server>,
    Path(node): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&server, &headers, Call::Recover(node, body)).await
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

async fn silence(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::Silence(body)).await
}

async fn end_silence(State(server): State<Server>, Path(id): Path<u64>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::EndSilence(id)).await
}

async fn alarms_seen(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::AlarmsSeen).await
}

/// Number of listed entries.
#[derive(Debug, Deserialize)]
struct Last {
    last: Option<u32>,
}

fn count(last: Option<u32>) -> usize {
    usize::try_from(last.unwrap_or(LISTED)).unwrap_or(usize::MAX)
}

async fn runs(
    State(server): State<Server>,
    Query(Last { last }): Query<Last>,
    headers: HeaderMap,
) -> Response {
    answer(&server, &headers, Call::Runs(count(last))).await
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

async fn configurations(State(server): State<Server>, headers: HeaderMap) -> Response {
    answer(&server, &headers, Call::Configurations).await
}

async fn name_configuration(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    answer(&server, &headers, Call::NameConfiguration(body)).await
}

async fn audit(
    State(server): State<Server>,
    Query(Last { last }): Query<Last>,
    headers: HeaderMap,
) -> Response {
    answer(&server, &headers, Call::Audit(count(last))).await
}

async fn answer(server: &Server, headers: &HeaderMap, call: Call) -> Response {
    ask(server, headers, call).await.into_response()
}

async fn ask(server: &Server, headers: &HeaderMap, call: Call) -> Answer {
    let Some(control) = &server.control else {
        return Answer::error(
            StatusCode::NOT_FOUND.as_u16(),
            "not_found",
            "this page belongs to one run and has no run control",
            "`sheaf serve` has a page with run control",
        );
    };
    // A header that is no text is not passed over: without its revision, a command would be followed whatever the state.
    let header = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let credentials = Credentials::of(headers);
    let revision = header(header::IF_MATCH);
    let (sender, receiver) = oneshot::channel();
    let is_queued = control.ask(Asked { call, credentials, revision }, sender);
    let busy = || {
        Answer::error(
            StatusCode::SERVICE_UNAVAILABLE.as_u16(),
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

/// Returns the refusal of a request without the token of an operator, and of any where there is no run control.
pub(crate) async fn refuse_stranger(server: &Server, headers: &HeaderMap) -> Option<Response> {
    let answer = ask(server, headers, Call::Publish).await;
    (answer.status != StatusCode::OK.as_u16()).then(|| answer.into_response())
}
