//! Sessions of browsers at the page for other hosts.
//!
//! A browser sends no header of ours with its stream of states or with a link that somebody clicks. So the page exchanges a token for a cookie.

use crate::credentials::Credentials;
use crate::guard::{Door, SESSION};
use crate::routes::Route;
use crate::serving::Server;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Returns the requests for sessions.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::new(Method::POST, SESSION, begin), Route::new(Method::DELETE, SESSION, end)]
}

/// Begins a session with the token of the request, which the guard has found to be good. On loopback addresses nobody needs one.
async fn begin(State(server): State<Server>, headers: HeaderMap) -> Response {
    let Credentials { token, user, .. } = Credentials::of(&headers);
    // The token of a proxy is not for the people behind it.
    with_cookie(&server.door, token.filter(|_| user.is_none()).as_deref())
}

async fn end(State(server): State<Server>) -> Response {
    with_cookie(&server.door, None)
}

/// Sets the cookie, or has the browser forget it.
fn with_cookie(door: &Door, token: Option<&str>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Door::Remote(remote) = door
        && let Some(cookie) = remote.set_cookie(token)
    {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
