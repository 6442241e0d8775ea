//! Which requests are answered, and the headers of every answer.
//!
//! A page of another site that a browser on this host has open can send requests to loopback addresses too. It cannot read the answers,
//! unless it makes its own name resolve to a loopback address; so the name in the request must be one of this host's own.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

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

/// Refuses requests for another host, and adds headers to every answer.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut response = if host.is_some_and(is_this_host) && is_own_page(&request, host) {
        next.run(request).await
    } else {
        let text = "this server answers requests for 127.0.0.1, [::1] and localhost only, and changes from its own page only; forward its port with `ssh -L`\n";
        (StatusCode::FORBIDDEN, text).into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Returns whether a request that changes something comes from no page, or from a page of this server.
fn is_own_page(request: &Request, host: Option<&str>) -> bool {
    if request.method().is_safe() {
        return true;
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
    origin.is_some() && origin == host
}

/// Returns whether the value of a `Host` header names a loopback address.
fn is_this_host(host: &str) -> bool {
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
