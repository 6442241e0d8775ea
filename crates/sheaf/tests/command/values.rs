//! Values from outside: files, programs that send, alarms, and the record of a run.

use crate::child::{ScratchDirectory, wait_until};
use crate::monitor::{address, get, state};
use crate::serve::{Controller, SYSTEM};
use serde_json::{Value, json};
use ureq::Agent;

/// A run without a time limit, which a test stops.
const RUN: &str = "[run]\nduration_s = 0\n[readout]\ncount = 1\n[builder]\ncount = 1\n\
     [trigger]\nmode = \"poisson\"\nrate_hz = 200\n[monitor]\nalarm_hold_off_ms = 0\nlinger_ms = 0\n";

/// One value from a file, and one that is sent. Nothing goes stale while a test waits.
const VALUES: &str = "[value.hv-ecal]\nunit = \"V\"\nread = \"hv\"\nperiod_ms = 100\nstale_ms = 3600000\n\
     warning_above = 1550\nremedy = \"call the expert of the calorimeter\"\n\
     [value.beam]\nunit = \"nA\"\nstale_ms = 3600000\nerror_below = 10\n";

/// Returns an alarm about a value, if it is raised.
fn alarm(page: &str, culprit: &str) -> Option<Value> {
    state(page)["alarms"].as_array().unwrap().iter().find(|alarm| alarm["culprit"] == culprit).cloned()
}

fn value(page: &str, name: &str) -> Value {
    let list: Value = serde_json::from_str(&get(page, "/api/v1/values")).unwrap();
    list["values"].as_array().unwrap().iter().find(|value| value["name"] == name).cloned().unwrap()
}

/// Sends values, and returns status and answer.
fn send(page: &str, token: &str, values: &Value) -> (u16, Value) {
    let agent: Agent = Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
    let request = agent.put(format!("http://{page}/api/v1/values"));
    let request = request.header("Authorization", format!("Bearer {token}"));
    let mut answer = request.send(json!({ "values": values }).to_string()).unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap())
}

/// Makes a token of a role.
fn token(place: &ScratchDirectory, name: &str, role: &str) -> String {
    let ended = place.sheaf(&format!("token add {name} --role {role}")).exits(0);
    ended.stdout.split_whitespace().next().unwrap().to_owned()
}

/// Returns a value in the record of a run.
fn recorded(place: &ScratchDirectory, run: u32, name: &str) -> Value {
    let text = std::fs::read_to_string(place.join(&format!("runs/run{run:06}/run.json"))).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let values = manifest["values"].as_array().unwrap_or_else(|| panic!("there are no values: {text}"));
    values.iter().find(|value| value["name"] == name).cloned().unwrap()
}

#[test]
fn a_value_of_a_file_that_crosses_its_limit_raises_an_alarm_with_its_remedy_and_is_in_the_record() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{RUN}{VALUES}"));
    place.file("hv", "1500\n");
    let mut run = place.start("run run.toml --page=127.0.0.1:0");
    let page = address(&mut run);
    wait_until("the run takes triggers", || state(&page)["triggers"]["accepted"].as_u64() > Some(0));
    wait_until("the file is read", || value(&page, "hv-ecal")["value"] == 1500.0);
    assert_eq!(alarm(&page, "hv-ecal"), None);
    place.file("hv", "1600\n");
    wait_until("the alarm is raised", || alarm(&page, "hv-ecal").is_some());
    let raised = alarm(&page, "hv-ecal").unwrap();
    assert_eq!((&raised["code"], &raised["severity"]), (&json!("value-warning"), &json!("warning")));
    assert_eq!(raised["text"], "hv-ecal is 1600 V, above its limit of 1550 V");
    assert_eq!(raised["remedy"], "call the expert of the calorimeter");
    // A file that is half-written changes nothing.
    place.file("hv", "15");
    wait_until("the page says so", || {
        value(&page, "hv-ecal")["problem"].as_str().is_some_and(|it| it.contains("half-written"))
    });
    assert!(alarm(&page, "hv-ecal").is_some());
    place.file("hv", "1520\n");
    wait_until("the alarm has ended", || alarm(&page, "hv-ecal").is_none());

    assert_eq!(send(&page, "wrong", &json!({ "beam": 12 })).0, 401);
    let (viewer, bridge) = (token(&place, "viewer", "viewer"), token(&place, "bridge", "operator"));
    assert_eq!(send(&page, &viewer, &json!({ "beam": 12 })).0, 403);
    assert_eq!(send(&page, &bridge, &json!({ "beam": 12.5 })).0, 200);
    let (status, answer) = send(&page, &bridge, &json!({ "beam": 5, "hv-ecal": 1, "bean": 2 }));
    assert_eq!((status, &answer["taken"]), (422, &json!(1)), "{answer}");
    wait_until("the value is too low", || {
        alarm(&page, "beam").is_some_and(|alarm| alarm["code"] == "value-error")
    });
    let metrics = get(&page, "/metrics");
    for line in [
        "sheaf_value{name=\"beam\",unit=\"nA\"} 5.0",
        "sheaf_value{name=\"hv-ecal\",unit=\"V\"} 1520.0",
        "sheaf_values_refused_total{reason=\"from_file\"} 1",
        "sheaf_values_refused_total{reason=\"undeclared\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    let list: Value = serde_json::from_str(&get(&page, "/api/v1/values")).unwrap();
    assert_eq!((&list["refused"]["from_file"], &list["refused"]["late"]), (&json!(1), &json!(0)));
    run.signal("INT");
    run.end().exits(0).says(&["above its limit of 1550 V", "[value-warning]", "[value-error]"]);

    let hv = recorded(&place, 1, "hv-ecal");
    for (number, expected) in [("first", 1500.0), ("last", 1520.0), ("minimum", 1500.0), ("maximum", 1600.0)]
    {
        assert_eq!(hv[number], expected, "{hv}");
    }
    let mean = hv["mean"].as_f64().unwrap();
    assert!(mean > 1500.0 && mean < 1600.0, "{hv}");
    let beam = recorded(&place, 1, "beam");
    assert_eq!(
        (&beam["first"], &beam["last"], &beam["readings"]),
        (&json!(12.5), &json!(5.0), &json!(2)),
        "{beam}"
    );
    assert!(beam["unknown_ms"].as_u64() > Some(0), "it came during the run: {beam}");
    place.sheaf("runs show 1").exits(0).prints(&[
        "hv-ecal  ",
        "(1500 to 1600, first 1500, last 1520)",
        "beam  ",
    ]);
    place.sheaf("run run.toml --events 5").exits(0);
    place.sheaf("runs compare 1 2").exits(0).prints(&["values from outside", "1520 V (1520 to 1520)"]);
}

#[test]
fn what_programs_send_to_a_controller_is_in_the_records_of_its_runs_also_when_it_begins_anew() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{SYSTEM}{VALUES}"));
    place.file("hv", "1500\n");
    let mut controller = Controller { place, serve: None };
    controller.serve();
    let page_of = |controller: &Controller| {
        let page = std::fs::read_to_string(controller.place.join("runs/control/address")).unwrap();
        page.trim().trim_start_matches("http://").to_owned()
    };
    let page = page_of(&controller);
    let own = std::fs::read_to_string(controller.place.join("runs/control/own.token")).unwrap();
    let own = own.trim();
    assert_eq!(value(&page, "beam")["state"], "unknown", "there is no run, and values are shown");
    assert_eq!(send(&page, own, &json!({ "beam": 12.5 })).0, 200);
    wait_until("it is passed on", || controller.place.join("runs/control/values.json").exists());
    controller.place.sheaf("ctl start").exits(0);
    assert_eq!(send(&page, own, &json!({ "beam": 14 })).0, 200);
    let passed_on = |number: &str| {
        let text = std::fs::read_to_string(controller.place.join("runs/control/values.json")).unwrap();
        text.contains(number)
    };
    wait_until("it is passed on", || passed_on("14.0"));
    // The run goes on without its controller, and the next one knows what was sent to the first.
    controller.running().signal("KILL");
    controller.serve.take().unwrap().end();
    controller.serve();
    let page = page_of(&controller);
    assert_eq!(value(&page, "beam")["value"], 14.0);
    assert_eq!(send(&page, own, &json!({ "beam": 9 })).0, 200);
    wait_until("the value is too low", || alarm(&page, "beam").is_some());
    wait_until("it is passed on", || {
        std::fs::read_to_string(controller.place.join("runs/control/values.json")).unwrap().contains("9.0")
    });
    controller.place.sheaf("ctl stop").exits(0);
    let beam = recorded(&controller.place, 1, "beam");
    assert_eq!(
        (&beam["first"], &beam["last"], &beam["maximum"]),
        (&json!(12.5), &json!(9.0), &json!(14.0)),
        "{beam}"
    );
    assert_eq!(recorded(&controller.place, 1, "hv-ecal")["last"], 1500.0);
}

#[test]
fn a_value_that_nobody_sends_any_more_is_an_alarm_and_not_a_frozen_line() {
    let place = ScratchDirectory::new();
    let stale = VALUES.replace("stale_ms = 3600000\nerror_below", "stale_ms = 500\nerror_below");
    place.file("run.toml", &format!("{RUN}{stale}"));
    place.file("hv", "1500\n");
    let mut run = place.start("run run.toml --page=127.0.0.1:0");
    let page = address(&mut run);
    wait_until("nothing has come", || alarm(&page, "beam").is_some());
    let text = alarm(&page, "beam").unwrap()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("beam is unknown: there has been no value for"), "{text}");
    let bridge = token(&place, "bridge", "operator");
    assert_eq!(send(&page, &bridge, &json!({ "beam": 12.5 })).0, 200);
    let is_stale = || {
        alarm(&page, "beam")
            .is_some_and(|alarm| alarm["text"].as_str().unwrap().contains("its last value, 12.5 nA"))
    };
    wait_until("it is stale", is_stale);
    assert!(!get(&page, "/metrics").contains("sheaf_value{name=\"beam\""));
    assert_eq!(state(&page)["values"], json!({ "declared": 2, "fresh": 1, "stale": 1, "unknown": 0 }));
    run.signal("INT");
    run.end().exits(0);
}
