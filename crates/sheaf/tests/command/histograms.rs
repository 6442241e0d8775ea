//! Histograms that consumers publish: on the page, in the record of the run, and compared with those of another run.

use crate::child::{Running, ScratchDirectory, wait_until};
use crate::monitor::{address, ask, get};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

const SYSTEM: &str = "[run]\nduration_s = 0\n[readout]\ncount = 2\n[builder]\ncount = 2\n\
     [trigger]\nmode = \"fixed\"\nrate_hz = 200\n[source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n[monitor]\nlinger_ms = 3600000\n";

/// Returns status and JSON of the answer to a publication.
fn put(mut stream: impl Read + Write, publisher: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    write!(
        stream,
        "PUT /api/v1/publishers/{publisher} HTTP/1.0\r\nHost: localhost\r\n{token}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn at_socket(run: &Path, body: &Value) -> (u16, Value) {
    put(UnixStream::connect(run.join("run.monitor")).unwrap(), "test", None, body)
}

/// A publication of one histogram with these contents, from the underflow to the overflow.
fn publication(sequence: u64, is_final: bool, contents: &[u64]) -> Value {
    let entries: u64 = contents.iter().sum();
    let bins = contents.len() - 2;
    json!({
        "session": "a1", "sequence": sequence, "final": is_final,
        "histograms": [{
            "name": "charge", "kind": "1d", "title": "Charge", "axes": [{ "bins": bins, "low": 0, "high": 100 }],
            "entries": entries, "contents": contents, "moments": [entries, 50 * entries, 2600 * entries]
        }]
    })
}

/// A bell that is in other bins the larger `shift` is.
fn bell(shift: u64) -> Vec<u64> {
    (0..42_u64).map(|cell| 400 / (1 + (cell + shift).abs_diff(21).pow(2))).collect()
}

/// Begins a run, whose publisher leaves a histogram, and returns it with the address of its page.
fn begin(scratch: &ScratchDirectory, run: &Path, contents: &[u64]) -> (Running, String) {
    let mut running = scratch.start("run run.toml --page=127.0.0.1:0 --json");
    let page = address(&mut running);
    wait_until("publishers can connect", || run.join("run.monitor").exists());
    let (status, receipt) = at_socket(run, &publication(1, false, contents));
    assert_eq!((status, &receipt["taken"]), (200, &json!(1)), "{receipt}");
    (running, page)
}

fn assert_shown(scratch: &ScratchDirectory, arguments: &str, parts: &[&str]) {
    let text = scratch.sheaf(arguments).exits(0).stdout;
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

fn list(page: &str, query: &str) -> Value {
    serde_json::from_str(&get(page, &format!("/api/v1/histograms{query}"))).unwrap()
}

#[test]
fn histograms_are_on_the_page_in_the_record_and_compared_with_the_last_good_run() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", SYSTEM);
    for (number, shift) in [(1, 0), (2, 9)] {
        let run = scratch.join(&format!("runs/run{number:06}"));
        let (running, page) = begin(&scratch, &run, &bell(shift));
        wait_until("the page has it", || list(&page, "")["histograms"].as_array().unwrap().len() == 1);
        let listed = list(&page, "?name=charge");
        let charge = &listed["histograms"][0];
        assert_eq!(
            (&charge["entries"], &charge["mean"][0]),
            (&json!(bell(shift).iter().sum::<u64>()), &json!(50.0))
        );
        if number == 2 {
            assert_eq!(listed["reference"], 1, "{listed:#}");
            assert_eq!(charge["comparison"]["differs"], true, "{charge:#}");
            assert_eq!(list(&page, "?reference=0")["reference"], Value::Null);
            let (head, _) = ask(&page, "/api/v1/histograms?reference=77");
            assert!(head.contains(" 404 "), "{head}");
        } else {
            assert_eq!((&listed["reference"], &charge["comparison"]), (&Value::Null, &Value::Null));
        }
        // A page of one run has no tokens, so histograms come through the socket, which belongs to the user.
        let stranger =
            put(TcpStream::connect(&page).unwrap(), "test", None, &publication(2, false, &bell(0)));
        assert_eq!(stranger.0, 404, "{}", stranger.1);
        let (_, receipt) = at_socket(&run, &publication(1, false, &bell(5)));
        assert_eq!(receipt["stale"], 1, "{receipt}");
        let (status, _) = at_socket(&run, &publication(3, true, &bell(shift)));
        assert_eq!(status, 200);
        running.signal("INT");
        wait_until("the run is over", || list(&page, "")["complete"] == true);
        let full: Value =
            serde_json::from_str(&get(&page, &format!("/api/v1/histograms/{number}/charge"))).unwrap();
        assert_eq!(full["histogram"]["contents"], json!(bell(shift)));
        running.signal("INT");
        running.end().exits(0);
    }
    assert_shown(&scratch, "runs show 2", &["histogram", "charge  1d, ", "mean 50.0000, RMS 10.0000"]);
    let record = scratch.sheaf("runs show 2 --json").exits(0).json();
    assert_eq!(record["histograms"][0]["name"], "charge");
    assert_shown(&scratch, "runs compare 1 2", &["histograms, 1 of 1 differ:", "Kolmogorov", "DIFFERS"]);
    let compared = scratch.sheaf("runs compare 1 2 --json").exits(0).json();
    let charge = &compared["histograms"][0];
    assert!(charge["comparison"]["ndf"] == 40 && charge["comparison"]["differs"] == true, "{charge:#}");
    let same = scratch.sheaf("runs compare 1 1 --json").exits(0).json();
    assert_eq!(same["histograms"][0]["comparison"]["chi2"], 0.0);
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(scratch.join("runs/run000002/run.json")).unwrap()).unwrap();
    let size = std::fs::metadata(scratch.join("runs/run000002/histograms.json")).unwrap().len();
    assert_eq!(manifest["histograms"], json!({ "file": "histograms.json", "histograms": 1, "bytes": size }));
}

#[test]
fn a_controller_passes_histograms_on_for_those_who_have_a_token() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", SYSTEM);
    let mut serve = scratch.start("serve run.toml --page 127.0.0.1:0");
    serve.wait_until_said("run control is at");
    let page = std::fs::read_to_string(scratch.join("runs/control/address")).unwrap();
    let page = page.trim().trim_start_matches("http://");
    let token = std::fs::read_to_string(scratch.join("runs/control/own.token")).unwrap();
    let publish = |token: Option<&str>, sequence: u64| {
        put(TcpStream::connect(page).unwrap(), "test", token, &publication(sequence, false, &bell(0)))
    };
    assert_eq!(publish(None, 1).0, 401);
    let (status, refusal) = publish(Some(token.trim()), 1);
    assert_eq!((status, &refusal["code"]), (409, &json!("state")), "no run takes any: {refusal}");
    scratch.sheaf("ctl start").exits(0);
    wait_until("it is taken", || publish(Some(token.trim()), 1).0 == 200);
    wait_until("the page has it", || list(page, "")["histograms"][0]["name"] == "charge");
    // What the run has written is there for the next controller.
    serve.signal("TERM");
    serve.end();
    let mut serve = scratch.start("serve run.toml --page 127.0.0.1:0");
    serve.wait_until_said("run control is at");
    let page = std::fs::read_to_string(scratch.join("runs/control/address")).unwrap();
    let page = page.trim().trim_start_matches("http://");
    wait_until("the page has it again", || {
        let (head, body) = ask(page, "/api/v1/histograms");
        head.contains(" 200 ") && body.contains("\"charge\"")
    });
    scratch.sheaf("ctl stop").exits(0);
    serve.signal("INT");
    serve.end();
    assert_shown(&scratch, "runs show 1", &["charge  1d, "]);
}
