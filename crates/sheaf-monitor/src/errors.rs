//! Errors of the interface for programs are JSON, whoever made them: a handler, the router, or the extraction of parameters.

use crate::control::Answer;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

/// Paths of the interface for programs.
const PREFIX: &str = "/api/";

/// Longest text of an error, in bytes. A longer one is left out.
const LONGEST: usize = 16_384;

/// Makes errors that are plain text, or have no body, into JSON. The headers stay, such as `Allow`.
pub(crate) async fn as_json(request: Request, next: Next) -> Response {
    let is_for_programs = request.uri().path().starts_with(PREFIX);
    let response = next.run(request).await;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_for_programs || !is_error || is_json(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, LONGEST).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (code, reason, remedy) = explain(status);
    let text = if text.trim().is_empty() { reason } else { text.trim() };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(Answer::error(status.as_u16(), code, text, remedy).body))
}

fn is_json(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|media_type| media_type == "application/json")
}

/// Returns the code of an error, a text for one that has none, and its remedy.
fn explain(status: StatusCode) -> (&'static str, &'static str, &'static str) {
    const LIST: &str = "`/api/v1/openapi.json` lists the requests that there are";
    match status {
        StatusCode::FORBIDDEN => ("host", "the request is for another host", "use a loopback address"),
        StatusCode::NOT_FOUND => ("not_found", "nothing is here", LIST),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("method", "the path does not take this method", "the header `Allow` has those that it takes")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("too_large", "the body is too large", "send at most 2 MB"),
        _ if status.is_server_error() => {
            ("internal", "the server has failed", "look at the log of the server")
        }
        _ => ("invalid", "the request makes no sense", LIST),
    }
}
