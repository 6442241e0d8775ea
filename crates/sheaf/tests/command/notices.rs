//! Notices of alarms: to a command, and to a real Alertmanager.

use crate::child::{ScratchDirectory, wait_until};
use crate::monitor::{ask, get, state};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A run whose filter is slower than its trigger, until it is told to end.
const SLOW: &str = "[run]\nduration_s = 0\n[output]\nkind = \"none\"\n[readout]\ncount = 2\n[builder]\ncount = 1\nslots = 16\n\
     [filter]\nkind = \"busy\"\nbusy_us = 2000\n[manager]\nbatch_events = 4\n\
     [trigger]\nmode = \"poisson\"\nrate_hz = 5000\nqueue_events = 64\n[monitor]\nalarm_hold_off_ms = 0\nlinger_ms = 0\n";

#[test]
fn a_command_gets_alarms_with_their_culprit_and_their_remedy() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{SLOW}alarm_command = \"cat >> notices\"\n"));
    let run = place.start("run run.toml --page=127.0.0.1:0");
    let notices = || -> Vec<Value> {
        let text = std::fs::read_to_string(place.join("notices")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    // On a busy machine there may be dead time for another reason, too.
    let of_builder = |ended: bool| -> Vec<Value> {
        let is_it = |notice: &Value| notice["alarm"]["culprit"] == "bu0" && notice["ended"] == ended;
        notices().into_iter().filter(is_it).collect()
    };
    wait_until("the alarm is sent", || !of_builder(false).is_empty());
    run.signal("INT");
    run.end().exits(0);
    let (begun, ended) = (of_builder(false), of_builder(true));
    assert!(begun.len() <= ended.len() + 1, "one notice each time: {begun:?}, {ended:?}");
    let alarm = &begun[0]["alarm"];
    assert_eq!(alarm["code"], "dead-time", "{begun:?}");
    assert!(!alarm["remedy"].as_str().unwrap().is_empty());
}

#[test]
fn a_command_that_fails_is_named_in_the_log() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{SLOW}alarm_command = \"exit 7\"\n"));
    let mut run = place.start("run run.toml --page=127.0.0.1:0");
    run.wait_until_said("`monitor.alarm_command` (exit 7): exit status: 7");
    run.signal("INT");
    run.end().exits(0);
}

/// A controller with a page, and where both are.
fn serve(place: &ScratchDirectory) -> (crate::child::Running, String) {
    let mut serve = place.start("serve run.toml --page 127.0.0.1:0");
    serve.wait_until_said("run control is at");
    let page = std::fs::read_to_string(place.join("runs/control/address")).unwrap();
    (serve, page.trim().trim_start_matches("http://").to_owned())
}

/// Returns the alarm about dead time, if it is raised.
fn dead_time(page: &str) -> Option<Value> {
    state(page)["alarms"].as_array().unwrap().iter().find(|alarm| alarm["code"] == "dead-time").cloned()
}

#[test]
fn an_alarm_that_is_silenced_is_told_when_the_silence_ends_and_stays_until_it_is_seen() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{SLOW}alarm_command = \"cat >> notices\"\n"));
    let (serve_first, _) = serve(&place);
    let said = place.sheaf("ctl silence dead-time --for 2h --why=known").exits(0).stdout;
    assert!(said.starts_with("silence 1  dead-time until ") && said.ends_with(": known\n"), "{said}");
    serve_first.signal("TERM");
    serve_first.end();
    // The next controller knows it.
    let (serve, page) = serve(&place);
    place.sheaf("ctl start").exits(0);
    let mut silence = Value::Null;
    wait_until("the alarm is raised", || {
        dead_time(&page).map(|mut alarm| silence = alarm["silence"].take()).is_some()
    });
    assert_eq!((&silence["id"], &silence["why"]), (&1.into(), &"known".into()), "{silence}");
    let notices = || std::fs::read_to_string(place.join("notices")).unwrap_or_default();
    assert!(!notices().contains("dead-time"), "{}", notices());
    place.sheaf("ctl unsilence 1").exits(0);
    wait_until("the alarm is sent", || notices().contains("dead-time"));
    place.sheaf("ctl stop").exits(0);
    let past = || state(&page)["past_alarms"].as_array().unwrap().clone();
    wait_until("the alarm has ended", || past().iter().any(|alarm| alarm["code"] == "dead-time"));
    place.sheaf("ctl seen alarms").exits(0);
    wait_until("it has left the list", || past().is_empty());
    serve.signal("INT");
    serve.end().exits(0);
}

#[test]
fn silences_that_make_no_sense_are_refused() {
    let place = ScratchDirectory::new();
    place.file("run.toml", SLOW);
    let (serve, _) = serve(&place);
    for (arguments, why) in [
        ("silence dead-tim --why=x", "choose one of imbalance, loss"),
        ("silence dead-time --for 8d --why=x", "a silence lasts from 1.000 s to"),
        ("silence dead-time --for 0s --why=x", "a silence lasts from"),
        ("unsilence 7", "there is no silence 7"),
    ] {
        place.sheaf(&format!("ctl {arguments}")).exits(1).says(&[why]);
    }
    place.sheaf("ctl silence dead-time --for soon --why=x").exits(2).says(&["`45s`, `30m`, `8h` or `2d`"]);
    place.sheaf("ctl silence dead-time").exits(2).says(&["--why"]);
    serve.signal("INT");
    serve.end().exits(0);
}

/// An Alertmanager that is ended with the test.
struct Alertmanager {
    child: Child,
    address: String,
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Alertmanager {
    /// `None` where there is none.
    fn start(directory: &Path) -> Option<Self> {
        let config = "route: { receiver: nobody }\nreceivers: [{ name: nobody }]\n";
        std::fs::write(directory.join("alertmanager.yml"), config).unwrap();
        loop {
            // A port that was free a moment ago. If another program was faster, Alertmanager ends.
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let child = Command::new("prometheus-alertmanager")
                .args([
                    "--config.file=alertmanager.yml",
                    "--storage.path=alerts",
                    "--cluster.listen-address=",
                ])
                .arg(format!("--web.listen-address={address}"))
                .current_dir(directory)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let mut alertmanager = Self { child: child.ok()?, address };
            let mut has_ended = false;
            wait_until("Alertmanager answers", || {
                has_ended = alertmanager.child.try_wait().unwrap().is_some();
                let address = &alertmanager.address;
                has_ended
                    || (TcpStream::connect(address).is_ok() && ask(address, "/-/ready").0.contains(" 200 OK"))
            });
            if !has_ended {
                return Some(alertmanager);
            }
        }
    }

    fn alerts(&self) -> Vec<Value> {
        serde_json::from_str(&get(&self.address, "/api/v2/alerts")).unwrap()
    }
}

#[test]
fn a_real_alertmanager_takes_alarms() {
    let place = ScratchDirectory::new();
    let Some(alertmanager) = Alertmanager::start(place.path()) else {
        return eprintln!("left out: prometheus-alertmanager is not installed");
    };
    place.file("run.toml", &format!("{SLOW}alertmanager = \"http://{}\"\n", alertmanager.address));
    let run = place.start("run run.toml --page=127.0.0.1:0");
    // On a busy machine there may be dead time for another reason, too.
    let of_builder = || {
        let alerts = alertmanager.alerts();
        alerts.into_iter().find(|alert| alert["labels"]["culprit"] == "bu0")
    };
    wait_until("the alarm is there", || of_builder().is_some());
    run.signal("INT");
    run.end().exits(0);
    let alert = of_builder().expect("Alertmanager keeps it for minutes");
    let labels = &alert["labels"];
    assert_eq!((&labels["alertname"], &labels["run"]), (&"dead-time".into(), &"1".into()));
    assert!(alert["annotations"]["remedy"].as_str().is_some());
}
