//! The page for other hosts: TLS, tokens, roles and proxies.

use crate::child::{ScratchDirectory, wait_until};
use crate::nodes::free_ports;
use crate::serve::{Controller, SYSTEM};
use crate::tls::{commands_of, has_openssl, shell};
use serde_json::Value;
use std::io::Read as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest time of a request, also of one on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Makes a certificate with the command of `docs/operating/access.md`. Returns false if there is no `openssl`.
fn make_certificate(place: &ScratchDirectory) -> bool {
    has_openssl() && {
        shell(place, &commands_of(include_str!("../../../../docs/operating/access.md"))[0]);
        true
    }
}

/// Makes a client that trusts a certificate.
fn agent(pem: &[u8]) -> Agent {
    let roots = RootCerts::Specific(Arc::new(vec![Certificate::from_pem(pem).unwrap()]));
    let trust = TlsConfig::builder().root_certs(roots).build();
    let config = Agent::config_builder().http_status_as_error(false).proxy(None).tls_config(trust);
    config.timeout_global(Some(WATCHDOG)).build().new_agent()
}

fn configuration(port: u16) -> String {
    format!(
        "{SYSTEM}[monitor.remote]\nlisten = \"127.0.0.1:{port}\"\ncertificate = \"page.pem\"\nkey = \"page.key\"\n"
    )
}

/// A controller that other hosts reach.
struct Reached {
    controller: Controller,
    port: u16,
}

impl Reached {
    fn begin() -> Option<Self> {
        let [port] = free_ports();
        let place = ScratchDirectory::new();
        if !make_certificate(&place) {
            return None;
        }
        place.file("run.toml", &configuration(port));
        let mut controller = Controller { place, serve: None };
        controller.serve();
        Some(Self { controller, port })
    }

    fn place(&self) -> &ScratchDirectory {
        &self.controller.place
    }

    /// Makes a token in a file of its name.
    fn add(&self, name: &str, flags: &str) -> String {
        let token = self.place().sheaf(&format!("token add {name} {flags}")).exits(0).stdout;
        self.place().file(name, &token);
        token.trim().to_owned()
    }

    /// A command of `sheaf ctl` of somebody on another host.
    fn ctl(&self, who: &str, command: &str) -> crate::child::Ended {
        let port = self.port;
        self.place().sheaf(&format!(
            "ctl --directory elsewhere --url https://localhost:{port} --certificate page.pem --token-file {who} {command}"
        ))
    }

    /// Returns status, cookie and text of an answer.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
        let agent = agent(&std::fs::read(self.place().join("page.pem")).unwrap());
        let uri = format!("https://localhost:{}{path}", self.port);
        let mut answer = None;
        // On a busy machine, the time for a handshake may pass.
        wait_until("there is an answer", || {
            let request = Request::builder().method(method).uri(&uri);
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            answer = agent.run(request.body(()).unwrap()).ok();
            answer.is_some()
        });
        let mut answer = answer.unwrap();
        let cookie =
            answer.headers().get("set-cookie").map_or("", |cookie| cookie.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), cookie, answer.body_mut().read_to_string().unwrap())
    }

    /// Returns who somebody is, and the role, or the status of a refusal.
    fn me(&self, headers: &[(&str, &str)]) -> Result<(String, String), u16> {
        let (status, _, text) = self.ask("GET", "/api/v1/me", headers);
        let value: Value = serde_json::from_str(&text).unwrap();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        if status == 200 { Ok((text("name"), text("role"))) } else { Err(status) }
    }
}

#[test]
fn each_role_has_its_rights_and_a_removed_token_none() {
    let Some(reached) = Reached::begin() else { return };
    reached.add("vera", "--role viewer");
    reached.add("otto", "");
    reached.add("eva", "--role expert");
    reached.place().file("scan.csv", "trigger.rate_hz,run.events\n100,20\n");
    reached.ctl("vera", "status").exits(0).prints(&["state     idle"]);
    reached.ctl("vera", "start").exits(1).says(&["vera has the role viewer, and this needs operator"]);
    reached.ctl("vera", "lock").exits(1).says(&["this needs operator"]);
    reached
        .ctl("otto", "sequence start scan.csv")
        .exits(1)
        .says(&["otto has the role operator, and this needs expert"]);
    reached.ctl("otto", "start --events 20 --until-end").exits(0).says(&["run 1 ended: all"]);
    reached.ctl("eva", "sequence start scan.csv --until-end").exits(0);
    reached.ctl("eva", "lock").exits(0);
    reached.ctl("otto", "lock --force").exits(1).says(&["only an admin takes the lock"]);
    let top =
        format!("top https://localhost:{} --certificate page.pem --token-file vera --once", reached.port);
    reached.place().sheaf(&top).exits(0).prints(&["run 2"]);
    reached
        .place()
        .sheaf("token list")
        .exits(0)
        .prints(&["vera", "viewer", "otto", "operator", "eva", "expert"]);
    reached.place().sheaf("token remove vera").exits(0);
    reached.ctl("vera", "status").exits(1).says(&["the token is not known"]);
}

#[test]
fn strangers_see_the_empty_page_and_hold_nobody_up() {
    let Some(reached) = Reached::begin() else { return };
    let token = reached.add("vera", "--role viewer");
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(("127.0.0.1", reached.port)).unwrap()).collect();
    assert_eq!(reached.ask("GET", "/", &[]).0, 200);
    for path in ["/metrics", "/api/v1/state", "/api/v1/runs", "/api/v1/openapi.json", "/prometheus/targets"] {
        assert_eq!(reached.ask("GET", path, &[]).0, 401, "{path}");
    }
    let bearer = format!("Bearer {token}");
    let metrics = reached.ask("GET", "/metrics", &[("Authorization", &bearer)]);
    assert!(metrics.0 == 200 && metrics.2.ends_with("# EOF\n"), "{metrics:?}");
    let targets = reached.ask("GET", "/prometheus/targets", &[("Authorization", &bearer)]).2;
    assert!(targets.contains(&format!("localhost:{}", reached.port)), "{targets}");
    drop(silent);
    // An unknown certificate, and a token in clear text, are refused with a remedy.
    let at = format!("ctl --url https://localhost:{} --token-file vera", reached.port);
    reached.place().sheaf(&format!("{at} status")).exits(1).says(&["is not trusted", "--certificate"]);
    reached
        .place()
        .sheaf("ctl --url http://daq.example.org:7443 --token-file vera status")
        .exits(1)
        .says(&["use https://"]);
}

#[test]
fn a_browser_exchanges_its_token_for_a_cookie() {
    let Some(reached) = Reached::begin() else { return };
    let token = reached.add("otto", "");
    let bearer = format!("Bearer {token}");
    let (status, cookie, _) = reached.ask("POST", "/api/v1/session", &[("Authorization", &bearer)]);
    assert_eq!(status, 204);
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
    assert_eq!(reached.me(&[("Cookie", pair)]), Ok(("otto".into(), "operator".into())));
    assert_eq!(reached.ask("GET", "/metrics", &[("Cookie", pair)]).0, 200);
    // With the cookie alone, only its own page changes something.
    let origin = format!("https://localhost:{}", reached.port);
    let lock = |headers: &[_]| reached.ask("PUT", "/api/v1/lock", headers).0;
    assert_eq!(lock(&[("Cookie", pair)]), 401);
    assert_eq!(lock(&[("Cookie", pair), ("Origin", "https://evil.example")]), 403);
    assert_eq!(lock(&[("Cookie", pair), ("Origin", &origin)]), 200);
    // The stream of a page that is open ends with its token.
    let pem = std::fs::read(reached.place().join("page.pem")).unwrap();
    let request = Request::builder().uri(format!("{origin}/api/v1/stream")).header("Authorization", &bearer);
    let mut answer = agent(&pem).run(request.body(()).unwrap()).unwrap();
    let mut states = answer.body_mut().as_reader();
    let mut first = [0; 12];
    states.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"event: state");
    reached.place().sheaf("token remove otto").exits(0);
    states.read_to_end(&mut Vec::new()).unwrap();
    let (status, cookie, _) = reached.ask("GET", "/metrics", &[("Cookie", pair)]);
    assert!(status == 401 && cookie.ends_with("Max-Age=0"), "the browser forgets it: {cookie}");
    let (status, cookie, _) = reached.ask("DELETE", "/api/v1/session", &[]);
    assert!(status == 204 && cookie.ends_with("Max-Age=0"), "{cookie}");
}

#[test]
fn a_proxy_speaks_for_the_people_that_it_has_identified() {
    let Some(reached) = Reached::begin() else { return };
    let token = reached.add("gateway", "--proxy");
    let bearer = format!("Bearer {token}");
    reached.place().sheaf("token add dora --role operator --named").exits(0);
    reached.place().sheaf("token list").exits(0).prints(&["gateway", "proxy", "by what a proxy says"]);
    let of = |user| reached.me(&[("Authorization", &bearer), ("X-Forwarded-User", user)]);
    assert_eq!(of("dora"), Ok(("dora".into(), "operator".into())));
    assert_eq!(of("somebody"), Ok(("somebody".into(), "viewer".into())));
    assert_eq!(reached.me(&[("Authorization", &bearer)]), Err(401));
    let session = [("Authorization", &*bearer), ("X-Forwarded-User", "dora")];
    let (status, cookie, _) = reached.ask("POST", "/api/v1/session", &session);
    assert!(status == 204 && !cookie.contains(&token), "the token of the proxy is not for people: {cookie}");
    // Anybody can send the header.
    let otto = format!("Bearer {}", reached.add("otto", ""));
    let of_otto = reached.me(&[("Authorization", &otto), ("X-Forwarded-User", "dora")]);
    assert_eq!(of_otto, Ok(("otto".into(), "operator".into())));
}

#[test]
fn the_page_of_a_run_has_the_tokens_of_its_directory() {
    let place = ScratchDirectory::new();
    if !make_certificate(&place) {
        return;
    }
    let [port] = free_ports();
    place.file("run.toml", &configuration(port));
    let token = place.sheaf("token add vera --role viewer").exits(0).stdout;
    place.file("vera", &token);
    let run = place.start("run run.toml --page=127.0.0.1:0 --duration 0");
    let top = format!("top https://localhost:{port} --certificate page.pem --once");
    wait_until("the page is served", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    place.sheaf(&top).exits(1).says(&["this needs a token"]);
    let with_token = format!("{top} --token-file vera");
    wait_until("the run is on the page", || place.sheaf(&with_token).exits(0).stdout.contains("run 1"));
    run.signal("INT");
    run.end().exits(0);
}
