//! Requests that send values, over TCP.

use super::*;
use crate::access::Senders;
use crate::monitor::{Monitor, Services, SlowControl};
use crate::values::{DeclaredValue, ValueBoard};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;

/// Knows the token `good`.
#[derive(Debug)]
struct OneToken;

impl Senders for OneToken {
    fn admit_sender(&self, credentials: &Credentials) -> Result<String, Answer> {
        let is_good = credentials.token.as_deref() == Some("good");
        is_good.then(|| "bridge".to_owned()).ok_or_else(|| Answer::error(401, "token", "no", "no"))
    }
}

fn start() -> Monitor {
    let board = Arc::new(ValueBoard::default());
    let value = |name: &str| DeclaredValue {
        name: name.into(),
        stale: Duration::from_secs(3_600),
        ..DeclaredValue::default()
    };
    board.declare(vec![value("hv"), value("beam")]);
    let values = Some(SlowControl { board, senders: Arc::new(OneToken) });
    let services = Services { values, ..Services::default() };
    Monitor::start_with((Ipv4Addr::LOCALHOST, 0).into(), "test", services).expect("a port is free")
}

fn ask(monitor: &Monitor, head: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect(monitor.address()).expect("the monitor listens");
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer good\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the request is sent");
    // A body that is too large may be refused before it is sent.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the answer arrives");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("the head ends");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("there is a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn put(monitor: &Monitor, body: &str) -> (u16, Value) {
    ask(monitor, "PUT /api/v1/values", body.as_bytes())
}

#[test]
fn values_are_taken_and_shown_with_who_has_sent_them() {
    let monitor = start();
    assert_eq!(put(&monitor, r#"{"values": {"hv": 1500.5, "beam": null}}"#).0, 200);
    let (status, list) = ask(&monitor, "GET /api/v1/values", b"");
    assert_eq!(status, 200);
    let (beam, hv) = (&list["values"][0], &list["values"][1]);
    assert_eq!(
        (&beam["name"], &beam["state"], &beam["value"]),
        (&json!("beam"), &json!("unknown"), &Value::Null)
    );
    assert_eq!((&hv["state"], &hv["value"], &hv["by"]), (&json!("fresh"), &json!(1500.5), &json!("bridge")));
    let (_, state) = ask(&monitor, "GET /api/v1/state", b"");
    assert_eq!(state["values"]["declared"], 2);
    assert_eq!(ask(&monitor, "GET /api/v1/values/hv/history?step=1000", b"").0, 200);
    assert_eq!(ask(&monitor, "GET /api/v1/values/hv/history?step=7", b"").0, 400);
    assert_eq!(ask(&monitor, "GET /api/v1/values/no/history?step=1000", b"").0, 404);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason_and_counted() {
    let monitor = start();
    let now = unix_ms();
    let million = format!(
        r#"{{"values": {{{}}}}}"#,
        (0..100_000).map(|i| format!(r#""v{i}": 1"#)).collect::<Vec<_>>().join(",")
    );
    let many = format!(
        r#"{{"values": {{{}}}}}"#,
        (0..100).map(|i| format!(r#""v{i}": 1"#)).collect::<Vec<_>>().join(",")
    );
    for (body, status, code) in [
        (r#"{"values": {"h": 1}}"#.to_owned(), 422, "values"),
        (r#"{"values": {"hv": 1e308}}"#.to_owned(), 422, "values"),
        (r#"{"values": {"hv": 1e999}}"#.to_owned(), 400, "invalid"),
        (r#"{"values": {"hv": NaN}}"#.to_owned(), 400, "invalid"),
        (r#"{"values": {"hv": "1500"}}"#.to_owned(), 400, "invalid"),
        (r#"{"hv": 1500}"#.to_owned(), 400, "invalid"),
        ("[]".to_owned(), 400, "invalid"),
        (String::new(), 400, "invalid"),
        (format!(r#"{{"values": {{"hv": 1}}, "time_ms": {}}}"#, now + 3_600_000), 409, "future"),
        (r#"{"values": {"hv": 1}, "time_ms": -5}"#.to_owned(), 400, "invalid"),
        (r#"{"values": {"hv": 1}, "time_ms": 1e300}"#.to_owned(), 400, "invalid"),
        (many, 422, "values"),
        (million, 413, "too_large"),
    ] {
        let (found, answer) = put(&monitor, &body);
        assert_eq!((found, &answer["code"]), (status, &json!(code)), "{body:.60}: {answer}");
        assert!(!answer["remedy"].as_str().unwrap_or_default().is_empty(), "{answer}");
        assert!(answer["refused"].as_array().is_none_or(|refused| refused.len() <= NAMED));
    }
    let (_, list) = ask(&monitor, "GET /api/v1/values", b"");
    assert_eq!(list["values"][1]["state"], "unknown", "nothing of that was taken");
    let refused = &list["refused"];
    assert_eq!(
        (&refused["undeclared"], &refused["no_number"], &refused["future"]),
        (&json!(101), &json!(1), &json!(1))
    );
    let (status, answer) = put(&monitor, r#"{"values": {"hv": 2, "h": 1}}"#);
    assert_eq!((status, &answer["taken"], &answer["refused"][0]["name"]), (422, &json!(1), &json!("h")));
}

#[test]
fn clocks_of_other_hosts_may_differ_a_little() {
    let now = 1_780_000_000_000;
    let of = |time_ms: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a time")]
        age_of(time_ms as f64, now).map_err(|(refusal, _)| refusal)
    };
    assert_eq!(of(now - 2_500), Ok(2_500));
    assert_eq!(of(now + 60_000), Ok(0));
    assert_eq!(of(now + 60_001), Err(Refusal::Future));
    assert_eq!(of(0), Ok(now));
    assert_eq!(age_of(f64::NAN, now).map_err(|(refusal, _)| refusal), Err(Refusal::Invalid));
}

#[test]
fn a_stranger_sends_nothing() {
    let monitor = start();
    let mut stream = TcpStream::connect(monitor.address()).expect("the monitor listens");
    let body = r#"{"values": {"hv": 1}}"#;
    let request = format!(
        "PUT /api/v1/values HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer arrives");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let bare = Monitor::start((Ipv4Addr::LOCALHOST, 0).into(), "test").expect("a port is free");
    assert_eq!(put(&bare, body).0, 404);
}
