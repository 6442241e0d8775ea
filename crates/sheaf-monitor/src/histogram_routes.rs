//! Requests for histograms over HTTP.

use crate::control_routes;
use crate::histograms::{self, MOST_BYTES, Wanted};
use crate::routes::Route;
use crate::serving::{Server, on_another_thread};
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sheaf_histogram::{HistogramError, is_name};
use std::time::Duration;
use tokio::time::timeout;

const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// Time that a publisher has to send a publication.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the requests for histograms.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/histograms", list),
        Route::get("/api/v1/histograms/{run}/{name}", full),
        Route::new(Method::PUT, "/api/v1/publishers/{name}", publish),
    ]
}

async fn list(State(server): State<Server>, Query(wanted): Query<Wanted>, headers: HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    // The files may be large.
    let body = move || histograms::list(&server.shared, &wanted, known.as_deref());
    match on_another_thread(body).await {
        Ok((tag, Some(body))) => ([JSON], body).into_response().tagged(&tag),
        Ok((tag, None)) => StatusCode::NOT_MODIFIED.into_response().tagged(&tag),
        Err(answer) => answer,
    }
}

async fn full(State(server): State<Server>, Path((run, name)): Path<(u32, String)>) -> Response {
    let body = move || histograms::full(&server.shared, run, &name);
    match on_another_thread(body).await {
        Ok((tag, body)) => ([JSON], body).into_response().tagged(&tag),
        Err(answer) => answer,
    }
}

/// Passes a publication on to the run, if the token is one of an operator.
async fn publish(
    State(server): State<Server>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Some(refusal) = control_routes::refuse_stranger(&server, &headers).await {
        return refusal;
    }
    let Ok(Ok(body)) = timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await else {
        return histograms::too_large().into_response();
    };
    if !is_name(&name) {
        return (StatusCode::BAD_REQUEST, format!("{}\n", HistogramError::Name)).into_response();
    }
    let socket = server.shared.told().run.as_deref().and_then(|run| run.histograms.clone());
    let socket = std::path::PathBuf::from(socket.unwrap_or_default()).with_file_name(histograms::SOCKET_NAME);
    let pass = on_another_thread(move || Ok(histograms::forward(&socket, &name, &body)));
    pass.await.map_or_else(|answer| answer, IntoResponse::into_response)
}

/// An answer with an entity tag.
trait WithTag {
    fn tagged(self, tag: &str) -> Self;
}

impl WithTag for Response {
    fn tagged(mut self, tag: &str) -> Self {
        if let Ok(tag) = tag.parse() {
            self.headers_mut().insert(header::ETAG, tag);
        }
        self
    }
}
