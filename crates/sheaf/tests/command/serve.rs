//! Run control as operators see it: `sheaf serve`, `sheaf ctl` and the interface over HTTP.

use crate::child::{Ended, Running, ScratchDirectory, children_of, signal, wait_until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// A slow emulated detector: a test that is held up for a minute does not fill the disk.
pub(crate) const SYSTEM: &str = "[readout]\ncount = 2\n[builder]\ncount = 2\n[trigger]\nmode = \"fixed\"\nrate_hz = 200\n\
     [source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n[transport]\nkind = \"tcp\"\n";

/// Limits that are over soon. Only tests of runs that hang have them.
const SHORT: &str = "[control]\nstop_timeout_ms = 1000\ncut_timeout_ms = 1000\n";

/// A controller, and everything that it has started.
pub(crate) struct Controller {
    pub(crate) place: ScratchDirectory,
    pub(crate) serve: Option<Running>,
}

impl Controller {
    pub(crate) fn begin(configuration: &str) -> Self {
        let place = ScratchDirectory::new();
        place.file("run.toml", configuration);
        let mut controller = Self { place, serve: None };
        controller.serve();
        controller
    }

    pub(crate) fn serve(&mut self) {
        let mut serve = self.place.start("serve run.toml --processes --page 127.0.0.1:0");
        serve.wait_until_said("run control is at");
        self.serve = Some(serve);
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        self.serve.as_mut().expect("it serves")
    }

    pub(crate) fn ctl(&self, arguments: &str) -> Ended {
        self.place.sheaf(&format!("ctl {arguments}"))
    }

    pub(crate) fn status(&self) -> Value {
        self.ctl("status --json").exits(0).json()
    }

    pub(crate) fn wait_for(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        wait_until(what, || {
            status = self.status();
            holds(&status)
        });
        status
    }

    /// Process of the run.
    pub(crate) fn run(&self, launch: u64) -> u32 {
        let path = self.place.join(&format!("runs/control/launch-{launch}/process.json"));
        let process: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        u32::try_from(process["pid"].as_u64().unwrap()).unwrap()
    }

    pub(crate) fn node(&self, launch: u64, name: &str) -> u32 {
        let nodes = children_of(self.run(launch));
        nodes.into_iter().find(|(node, _)| node == name).expect("the node has a process").1
    }

    /// Records of all runs.
    pub(crate) fn runs(&self) -> Vec<Value> {
        self.place.sheaf("runs list --json").exits(0).json()["runs"].as_array().unwrap().clone()
    }

    pub(crate) fn triggers_so_far(&self) -> f64 {
        let (_, state) = self.http("GET", "/api/v1/state", &[], "");
        state["triggers"]["accepted"].as_f64().unwrap_or(0.0)
    }

    /// Returns status and JSON of an answer.
    pub(crate) fn http(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let address = std::fs::read_to_string(self.place.join("runs/control/address")).unwrap();
        let address = address.trim().trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        write!(stream, "{head}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    pub(crate) fn own_token(&self) -> String {
        std::fs::read_to_string(self.place.join("runs/control/own.token")).unwrap().trim().to_owned()
    }
}

impl Drop for Controller {
    /// A run outlives its controller, and must not outlive a test that has failed.
    fn drop(&mut self) {
        self.serve = None;
        kill_runs(&self.place.join("runs/control"));
    }
}

/// Kills the processes of the runs of a controller, whose directory this is.
pub(crate) fn kill_runs(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let process = std::fs::read(entry.path().join("process.json"));
        let process: Value =
            process.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        if let Some(pid) = process["pid"].as_u64() {
            let _ = Command::new("pkill").args(["-KILL", "-s", &pid.to_string()]).status();
        }
    }
}

pub(crate) fn codes(status: &Value) -> Vec<String> {
    let faults = status["faults"].as_array().unwrap();
    faults.iter().map(|fault| fault["code"].as_str().unwrap().to_owned()).collect()
}

fn allowed(status: &Value) -> Vec<&str> {
    let commands = status["commands"].as_array().unwrap().iter();
    commands
        .filter(|command| command["allowed"] == true)
        .map(|command| command["command"].as_str().unwrap())
        .collect()
}

#[test]
fn a_run_is_configured_started_paused_resumed_and_stopped() {
    let mut controller = Controller::begin(SYSTEM);
    let said = controller.running().said();
    assert!(
        !said.contains("#token=") && said.contains("runs/control/own.token"),
        "a log has no token: {said}"
    );
    assert_eq!(allowed(&controller.status()), ["configure", "start", "reset"]);
    controller.ctl("pause").exits(1).says(&["there is no run", "start one"]);
    let configured =
        controller.ctl("configure --comment calibration").exits(0).says(&["run 1 is configured"]);
    assert!(!configured.stderr.contains("waits for waiting"), "{}", configured.stderr);
    let status = controller.status();
    assert_eq!((&status["state"], &status["run"]), (&json!("configured"), &json!(1)));
    controller.ctl("start --events 5").exits(1).says(&["run 1 is configured, with its settings"]);
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    controller.ctl("start").exits(1).says(&["run 1 has been started", "stop it first"]);
    wait_until("triggers are taken", || controller.triggers_so_far() > 20.0);
    controller.ctl("pause").exits(0).says(&["run 1 is paused"]);
    let at_pause = controller.triggers_so_far();
    controller.ctl("resume").exits(0).says(&["run 1 is running"]);
    wait_until("triggers are taken again", || controller.triggers_so_far() > at_pause + 20.0);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all", "0 rejected by the filter"]);
    let status = controller.status();
    assert_eq!((&status["state"], &status["target"]), (&json!("idle"), &json!("idle")));
    assert_eq!(status["last_run"]["good"], true);
    let run = &controller.runs()[0];
    assert_eq!(run["state"], "good");
    assert_eq!(run["comments"][0]["text"], "calibration");
    let time = &run["ledger"]["time"];
    let paused = time["dead_ns"]["paused"].as_u64().expect("the pause is dead time of its own");
    assert!(paused > 0);
    let journal = controller.ctl("journal").exits(0).stdout;
    for line in ["configure", "pause", "resume", "stop", "refused", "run ended"] {
        assert!(journal.contains(line), "{line} is not in the journal:\n{journal}");
    }
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
}

#[test]
fn a_run_goes_on_without_its_controller_and_follows_the_next_one() {
    let mut controller = Controller::begin(SYSTEM);
    controller.ctl("start").exits(0);
    controller.running().signal("KILL");
    controller.serve = None;
    let run = controller.run(1);
    controller.serve();
    controller.running().wait_until_said("a run of an earlier controller, which goes on");
    let status = controller.wait_for("the run is reached", |status| status["state"] == "running");
    assert_eq!((&status["run"], codes(&status).len()), (&json!(1), 0));
    assert_eq!(controller.run(1), run, "the same process");
    let before = controller.triggers_so_far();
    wait_until("the page shows it again", || controller.triggers_so_far() > before + 20.0);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    assert_eq!(controller.runs()[0]["state"], "good");
    controller.place.sheaf("verify runs/run000001").exits(0);
}

/// On disk, this is a controller that died after it had accepted the command and before it started the process.
#[test]
fn a_run_that_was_accepted_and_not_started_is_started_by_the_next_controller() {
    let mut controller = Controller::begin(SYSTEM);
    controller.ctl("configure --comment night").exits(0);
    controller.running().signal("KILL");
    controller.serve = None;
    let run = controller.run(1).to_string();
    let killed = Command::new("pkill").args(["-KILL", "-s", &run]).status().unwrap();
    assert!(killed.success(), "{killed}");
    std::fs::remove_dir_all(controller.place.join("runs/run000001")).unwrap();
    std::fs::remove_file(controller.place.join("runs/control/launch-1/process.json")).unwrap();
    std::fs::remove_file(controller.place.join("runs/control/launch-1/socket")).unwrap();
    wait_until("no process of the run is left", || {
        !Command::new("pgrep").args(["-s", &run]).output().unwrap().status.success()
    });
    controller.serve();
    controller.wait_for("it is configured", |status| status["state"] == "configured");
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    assert_eq!(controller.runs()[0]["comments"][0]["text"], "night");
    assert_eq!(codes(&controller.status()).len(), 0);
}

#[test]
fn a_controller_that_returns_after_the_end_of_its_run_knows_how_it_ended() {
    let mut controller = Controller::begin(SYSTEM);
    controller.ctl("start --events 100").exits(0);
    controller.running().signal("KILL");
    controller.serve = None;
    let result = controller.place.join("runs/control/launch-1/result.json");
    wait_until("the run has ended", || result.exists());
    controller.serve();
    let status = controller.wait_for("its end is known", |status| status["state"] == "idle");
    assert_eq!(
        status["last_run"]["text"],
        "run 1 ended: all 100 accepted triggers: 100 stored, 0 rejected by the filter"
    );
    assert_eq!(codes(&status).len(), 0);
}

#[test]
fn a_run_with_a_frozen_node_ends_within_the_limits_and_the_next_one_begins() {
    let controller = Controller::begin(&format!("{SYSTEM}{SHORT}"));
    for (launch, node) in [(1, "bu0"), (2, "ru1"), (3, "evm")] {
        controller.ctl("start").exits(0);
        signal(controller.node(launch, node), "STOP");
        controller.ctl("stop").exits(0);
        let status = controller.status();
        assert_eq!(status["state"], "idle", "{node}");
        assert!(codes(&status).contains(&"stop_cut".to_owned()), "{node}: {status}");
        assert!(children_of(controller.run(launch)).is_empty(), "{node}: no process is left");
        controller.ctl("reset").exits(0);
        assert_eq!(codes(&controller.status()).len(), 0, "reset clears the faults");
    }
}

#[test]
fn a_run_whose_process_dies_is_a_fault_with_a_remedy() {
    let controller = Controller::begin(SYSTEM);
    controller.ctl("start").exits(0);
    signal(controller.run(1), "KILL");
    let status = controller.wait_for("it is noticed", |status| status["state"] == "idle");
    assert_eq!(codes(&status), ["run_died"]);
    let fault = &status["faults"][0];
    assert_eq!(fault["text"], "the process of run 1 died: signal: 9 (SIGKILL)");
    assert!(fault["remedy"].as_str().unwrap().contains("launch-1/log"), "{fault}");
    controller.ctl(&format!("seen {}", fault["id"])).exits(0);
    assert_eq!(codes(&controller.status()).len(), 0);
    controller.ctl("seen 99").exits(1).says(&["there is no fault 99"]);
    let ended = controller.ctl("start --events 50 --until-end").exits(0);
    ended.says(&["run 2 ended: all 50 accepted triggers"]);
}

#[test]
fn a_run_that_ends_without_a_required_node_says_which() {
    let required =
        "[require.readout]\nnodes = [\"ru*\"]\non_loss = \"stop\"\n[manager]\npeer_timeout_ms = 500\n";
    let controller = Controller::begin(&format!("{SYSTEM}{required}"));
    controller.ctl("start").exits(0);
    // One that leaves is not started again.
    signal(controller.node(1, "ru1"), "TERM");
    let status = controller.wait_for("it has ended", |status| status["state"] == "idle");
    let text = status["last_run"]["text"].as_str().unwrap();
    assert!(text.starts_with("run 1 ended: requirement readout is not met without ru1; "), "{text}");
}

#[test]
fn a_configuration_that_is_wrong_by_now_fails_the_command_with_its_reason() {
    let controller = Controller::begin(SYSTEM);
    controller.place.file("run.toml", "[readout]\ncount = 0\n");
    controller.ctl("start").exits(1).says(&["`start` failed", "readout.count"]);
    assert_eq!(controller.status()["state"], "idle");
    controller.place.file("run.toml", SYSTEM);
    controller.ctl("start").exits(0);
}

#[test]
fn commands_need_a_token_the_lock_and_a_state_that_was_seen() {
    let controller = Controller::begin(SYSTEM);
    let body = json!({ "command": "configure", "request": "one" }).to_string();
    let operate =
        |headers: &[(&str, &str)], body: &str| controller.http("POST", "/api/v1/operations", headers, body);
    let (status, answer) = operate(&[], &body);
    assert_eq!((status, &answer["code"]), (401, &json!("token")));
    assert_eq!(operate(&[("Authorization", "Bearer nonsense")], &body).0, 401);
    let own = format!("Bearer {}", controller.own_token());
    let own = [("Authorization", own.as_str())];
    let foreign = [own[0], ("Origin", "http://attacker.example")];
    assert_eq!(operate(&foreign, &body).0, 403, "a page of another site");
    // A revision that cannot be read is not passed over, and a stranger learns nothing of it.
    for unreadable in ["\"x\"", "\"+9\"", "\"\"", "*", "\u{e9}"] {
        let unreadable = ("If-Match", unreadable);
        let (status, answer) = operate(&[own[0], unreadable], &body);
        assert_eq!((status, &answer["code"]), (400, &json!("invalid")), "{unreadable:?}");
        assert_eq!(operate(&[unreadable], &body).0, 401);
    }
    let stale = [own[0], ("If-Match", "\"999\"")];
    assert_eq!((operate(&stale, &body).0, operate(&own, "{\"command\": \"fly\"}").0), (412, 400));
    // The lock of somebody else.
    let bob = controller.place.sheaf("token add bob").exits(0).stdout;
    controller.place.file("bob.token", &bob);
    controller.ctl("lock --token-file bob.token").exits(0);
    let (status, answer) = operate(&own, &body);
    assert_eq!((status, &answer["code"]), (423, &json!("locked")));
    controller.ctl("lock --force").exits(0);
    controller.ctl("stop --token-file bob.token").exits(1).says(&["has the lock"]);
    // The same request twice.
    let (status, first) = operate(&own, &body);
    assert_eq!(status, 202, "{first}");
    let (status, second) = operate(&own, &body);
    assert_eq!((status, &second["operation"]["id"]), (200, &first["operation"]["id"]));
    let path = format!("/api/v1/operations/{}?wait_ms=60000", first["operation"]["id"]);
    wait_until("it is configured", || controller.http("GET", &path, &[], "").1["result"] == "done");
    controller.place.sheaf("token remove bob").exits(0);
    controller.ctl("lock --token-file bob.token").exits(1).says(&["the token is not known"]);
    // Whoever guesses does not lock others out.
    let guesses: Vec<_> =
        (0..30).map(|_| operate(&[("Authorization", "Bearer nonsense")], &body).0).collect();
    assert_eq!(guesses[29], 429);
    assert_eq!(controller.http("GET", "/api/v1/me", &own, "").0, 200);
    // What changes something is in the journal, with who has asked for it.
    let (_, journal) = controller.http("GET", "/api/v1/audit?last=50", &[], "");
    let refused = |entry: &&Value| entry["by"] == "bob" && entry["answer"] == "refused";
    assert_eq!(journal["entries"].as_array().unwrap().iter().filter(refused).count(), 1);
}

#[test]
fn runs_are_listed_and_commented_over_http() {
    let controller = Controller::begin(SYSTEM);
    controller.ctl("start --events 50 --until-end").exits(0);
    let (status, runs) = controller.http("GET", "/api/v1/runs", &[], "");
    assert_eq!(
        (status, &runs["runs"][0]["run"], &runs["runs"][0]["state"]),
        (200, &json!(1), &json!("good"))
    );
    let own = format!("Bearer {}", controller.own_token());
    let own = [("Authorization", own.as_str())];
    let comment = json!({ "text": "beam was low", "quality": "bad" }).to_string();
    assert_eq!(controller.http("POST", "/api/v1/runs/1/comments", &[], &comment).0, 401);
    assert_eq!(controller.http("POST", "/api/v1/runs/1/comments", &own, &comment).0, 200);
    assert_eq!(controller.http("POST", "/api/v1/runs/1/comments", &own, "{\"quality\": \"fine\"}").0, 400);
    let (_, run) = controller.http("GET", "/api/v1/runs/1", &[], "");
    assert_eq!(run["comments"][0]["quality"], "bad");
    assert!(run["changed"].is_null(), "there is no run before");
    assert_eq!(controller.http("GET", "/api/v1/runs/2", &[], "").0, 404);
    controller.place.file("run.toml", &SYSTEM.replace("rate_hz = 200", "rate_hz = 300"));
    controller.ctl("start --events 50 --until-end").exits(0);
    let (_, run) = controller.http("GET", "/api/v1/runs/2", &[], "");
    assert_eq!(run["changed"]["trigger.rate_hz"], json!(["200.0", "300.0"]), "{}", run["changed"]);
}

#[test]
fn ctrl_c_stops_the_run_and_sigterm_leaves_it() {
    let mut controller = Controller::begin(SYSTEM);
    controller.ctl("start").exits(0);
    controller.running().signal("TERM");
    let ended = controller.serve.take().expect("it serves").end().exits(0);
    ended.says(&["its run goes on"]);
    controller.serve();
    controller.wait_for("the run is reached", |status| status["state"] == "running");
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0).says(&["run 1 ended: all"]);
    assert_eq!(controller.runs()[0]["state"], "good");
}

#[test]
fn a_directory_has_one_controller_and_is_private() {
    let controller = Controller::begin(SYSTEM);
    controller.place.sheaf("serve run.toml --page 127.0.0.1:0").exits(1).says(&["another controller uses"]);
    let open = controller.place.join("open");
    std::fs::create_dir(&open).unwrap();
    make_readable(&open);
    let ended = controller.place.sheaf("serve run.toml --page 127.0.0.1:0 --directory open").exits(1);
    ended.says(&["can be used by others", "chmod 700"]);
    controller.place.sheaf("ctl status --directory nowhere").exits(1).says(&["start one with `sheaf serve`"]);
}

fn make_readable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A list of sources that are not simply included.
fn sources(status: &Value) -> Vec<(u64, bool, bool)> {
    let sources = status["sources"].as_array().unwrap().iter();
    sources
        .map(|it| (it["source"].as_u64().unwrap(), it["included"] == true, it["excluded"] == true))
        .collect()
}

#[test]
fn a_source_is_excluded_from_a_run_and_included_again() {
    let mut controller =
        Controller::begin(&format!("{SYSTEM}[source]\ncount = 4\n[source.names]\n1 = \"ecal\"\n"));
    controller.ctl("exclude hcal").exits(1).says(&["there is no source `hcal`"]);
    controller.ctl("start").exits(0);
    wait_until("triggers are taken", || controller.triggers_so_far() > 20.0);
    let excluded = controller.ctl("exclude ecal 03 --timeout 300").exits(0);
    excluded.prints(&["1 (ecal): excluded", "source    3: excluded"]);
    controller.ctl("exclude 0 2").exits(1).says(&["no source would be left"]);
    controller.wait_for("they are excluded", |status| {
        sources(status) == [(0, false, true), (1, false, true), (3, false, true)]
    });
    controller.ctl("include 0").exits(0);
    // The next controller knows, too.
    controller.running().signal("KILL");
    controller.serve = None;
    controller.serve();
    let reached = controller.wait_for("the run is reached", |status| status["state"] == "running");
    assert_eq!(sources(&reached).iter().filter(|(_, included, _)| !included).count(), 2, "{reached}");
    controller.ctl("include 3").exits(0);
    controller.wait_for("one has returned", |status| sources(status) == [(1, false, true)]);
    let before = controller.triggers_so_far();
    wait_until("triggers are taken", || controller.triggers_so_far() > before + 20.0);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    assert_eq!(sources(&controller.status()), [(1, false, false)], "it stays for the next run");
    let ledger = &controller.runs()[0]["ledger"];
    let ranges = ledger["exclusions"].as_array().unwrap();
    let of = |source: u64| ranges.iter().find(|range| range["source"] == source).expect("it was excluded");
    assert!(of(3)["included_from_event"].as_u64() > of(3)["first_event"].as_u64(), "{ledger}");
    assert!(of(1)["first_event"].as_u64() > Some(0) && of(1)["included_from_event"].is_null());
    controller.place.sheaf("verify runs/run000001").exits(0).prints(&["(ecal) is missing in", ": excluded"]);
    controller.ctl("start --events 50 --until-end").exits(0);
    assert_eq!(controller.runs()[1]["ledger"]["exclusions"][0]["first_event"], 0, "from the first event on");
    controller.ctl("include ecal").exits(0);
    assert!(sources(&controller.status()).is_empty());
    let token = controller.own_token();
    let header = format!("Bearer {token}");
    let stale = [("Authorization", &*header), ("If-Match", "\"1\"")];
    let (status, answer) =
        controller.http("PUT", "/api/v1/sources/2/included", &stale, "{\"included\":false}");
    assert_eq!((status, &answer["code"]), (412, &json!("stale")));
}
