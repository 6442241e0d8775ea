//! Which requests are answered, and the headers of every answer.
//!
//! A page of another site that a browser on this host has open can send requests to loopback addresses too. It cannot read the answers,
//! unless it makes its own name resolve to a loopback address; so the name in the request must be one of this host's own.
//!
//! From other hosts, everything but the files of the page needs a token. There the name does not matter: a page under another name has neither
//! the certificate nor the cookie.

use crate::access::Access;
use crate::credentials::{Credentials, cookie};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Path of requests for sessions.
pub(crate) const SESSION: &str = "/api/v1/session";

/// Where requests come in.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// On a loopback address. Nobody needs a token to look.
    Local,
    /// From other hosts, over TLS.
    Remote(Remote),
}

/// Who may come in from other hosts.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) access: Arc<dyn Access>,
    /// Name of the cookie of sessions. Browsers send cookies to all ports of a host, so it has the port.
    pub(crate) cookie: Arc<str>,
}

impl Door {
    /// Returns whether a client may still look, whose requests had these credentials.
    pub(crate) fn admits(&self, credentials: &Credentials) -> bool {
        match self {
            Self::Local => true,
            Self::Remote(remote) => remote.access.admit(credentials).is_ok(),
        }
    }
}

impl Remote {
    pub(crate) fn new(access: Arc<dyn Access>, port: u16) -> Self {
        Self { access, cookie: format!("sheaf-{port}").into() }
    }

    /// Returns the header that has a browser keep the cookie of a token, or forget it. There is none for a token that is not one.
    pub(crate) fn set_cookie(&self, token: Option<&str>) -> Option<HeaderValue> {
        let (value, rest) = token.map_or(("", "; Max-Age=0"), |token| (token, ""));
        let is_token = value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte));
        let cookie = format!("{}={value}; Path=/; Secure; HttpOnly; SameSite=Strict{rest}", self.cookie);
        HeaderValue::from_str(&cookie).ok().filter(|_| is_token)
    }
}

/// Headers of every answer. The page loads nothing from elsewhere, is in no frame, and runs no script that is not its own.
const HEADERS: [(header::HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Refuses requests for another host, of the page of another site, or without a token where one is needed. Adds headers to every answer.
pub(crate) async fn check(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let refusal = match &door {
        Door::Local => refuse_locally(&request),
        Door::Remote(remote) => refuse_remotely(remote, &mut request),
    };
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns the host that a request is for, as its sender names it.
pub(crate) fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).and_then(|host| host.to_str().ok())
}

fn refuse_locally(request: &Request) -> Option<Response> {
    let is_for_this_host = host(request.headers()).is_some_and(is_this_host);
    let text = "this address answers requests for 127.0.0.1, [::1] and localhost only, and changes from its own page only; other hosts use `monitor.remote`, or forward its port with `ssh -L`\n";
    (!is_for_this_host || !is_own_page(request, "http://"))
        .then(|| (StatusCode::FORBIDDEN, text).into_response())
}

fn refuse_remotely(remote: &Remote, request: &mut Request) -> Option<Response> {
    if !is_own_page(request, "https://") {
        let text =
            "the page of another site changes nothing here; a proxy passes the header `Host` on as it is\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    if is_for_everybody(request.method(), request.uri().path()) {
        return None;
    }
    let has_session = take_cookie(remote, request);
    let refusal = remote.access.admit(&Credentials::of(request.headers())).err()?;
    let mut response = refusal.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    // A page that is open goes on asking. Without the cookie, that is not taken for guessing.
    if has_session && let Some(cookie) = remote.set_cookie(None) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    // A stranger keeps no connection.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

/// Returns whether a request needs no token from other hosts: the files of the page say nothing of a run.
fn is_for_everybody(method: &Method, path: &str) -> bool {
    (method == Method::DELETE && path == SESSION)
        || (method.is_safe() && (matches!(path, "/" | "/healthz") || path.starts_with("/assets/")))
}

/// Makes the cookie of a session the token of a request that has none. If it changes something, it must be known to come from a page of this
/// server: browsers send cookies for pages of others, too. Returns whether it has done so.
fn take_cookie(remote: &Remote, request: &mut Request) -> bool {
    let is_safe = request.method().is_safe() || request.headers().contains_key(header::ORIGIN);
    if !is_safe || request.headers().contains_key(header::AUTHORIZATION) {
        return false;
    }
    let token = cookie(request.headers(), &remote.cookie).filter(|token| !token.is_empty());
    let value = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    value.is_some_and(|value| {
        request.headers_mut().insert(header::AUTHORIZATION, value);
        true
    })
}

/// Returns whether a request that changes something comes from no page, or from a page of this server.
fn is_own_page(request: &Request, scheme: &str) -> bool {
    if request.method().is_safe() {
        return true;
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme));
    origin.is_some() && origin == host(request.headers())
}

/// Returns whether a host, as in a `Host` header or an address, with or without a port, is a loopback address.
#[must_use]
pub fn is_this_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    /// Knows the token `good`.
    #[derive(Debug)]
    struct OneToken;

    impl Access for OneToken {
        fn admit(&self, credentials: &Credentials) -> Result<(), crate::control::Answer> {
            let is_good = credentials.token.as_deref() == Some("good");
            let refusal = || crate::control::Answer::error(401, "token", "no", "no");
            is_good.then_some(()).ok_or_else(refusal)
        }
    }

    /// Returns the status with which a request from another host is refused.
    fn refused(method: &str, path: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let remote = Remote::new(Arc::new(OneToken), 7443);
        let request = Request::builder().method(method).uri(path).header("host", "daq1:7443");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        refuse_remotely(&remote, &mut request.body(Body::empty()).unwrap())
            .map(|answer| answer.status().as_u16())
    }

    #[test]
    fn other_hosts_get_the_files_of_the_page_and_all_else_with_a_token() {
        for path in ["/", "/assets/main.js", "/healthz"] {
            assert_eq!(refused("GET", path, &[]), None, "{path}");
        }
        for path in
            ["/metrics", "/api/v1/state", "/api/v1/stream", "/api/v1/openapi.json", "/codes", "//", "/assets"]
        {
            assert_eq!(refused("GET", path, &[]), Some(401), "{path}");
            assert_eq!(refused("GET", path, &[("authorization", "Bearer bad")]), Some(401), "{path}");
            assert_eq!(refused("GET", path, &[("authorization", "Bearer good")]), None, "{path}");
        }
        assert_eq!(refused("POST", "/assets/main.js", &[]), Some(401));
        assert_eq!(refused("DELETE", SESSION, &[]), None, "whoever has one can end it");
    }

    #[test]
    fn a_cookie_is_a_token_and_changes_something_from_the_page_of_this_server_only() {
        let cookie = ("cookie", "sheaf-7443=good");
        assert_eq!(refused("GET", "/metrics", &[cookie]), None);
        assert_eq!(refused("GET", "/metrics", &[("cookie", "sheaf-7444=good")]), Some(401));
        assert_eq!(refused("GET", "/metrics", &[cookie, ("authorization", "Bearer bad")]), Some(401));
        let post = |headers: &[_]| refused("POST", "/api/v1/operations", headers);
        assert_eq!(post(&[cookie]), Some(401), "it may come from anywhere");
        assert_eq!(post(&[cookie, ("origin", "https://daq1:7443")]), None);
        for origin in
            ["https://daq1", "http://daq1:7443", "https://daq1:80", "https://evil.example", "null", ""]
        {
            assert_eq!(post(&[cookie, ("origin", origin)]), Some(403), "{origin}");
            assert_eq!(post(&[("authorization", "Bearer good"), ("origin", origin)]), Some(403), "{origin}");
        }
        assert_eq!(post(&[("authorization", "Bearer good")]), None, "a program");
    }

    #[test]
    fn only_names_of_this_host_are_taken() {
        for host in
            ["127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8080", "127.9.9.9:1"]
        {
            assert!(is_this_host(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "example.org:127",
            "localhost.example.org",
            "10.0.0.1:80",
            "[::2]",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_this_host(host), "{host}");
        }
    }
}
