//! Sequences of runs as operators see them: `sheaf ctl sequence`, `sheaf ctl scan`, and a controller that dies meanwhile.

use crate::child::{signal, wait_until};
use crate::serve::{Controller, SYSTEM};
use serde_json::{Value, json};

/// Rows of the sequence.
fn rows(controller: &Controller) -> Vec<Value> {
    let table = controller.ctl("sequence status --json").exits(0).json();
    table["rows"].as_array().unwrap().clone()
}

fn states(controller: &Controller) -> Vec<String> {
    rows(controller).iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the sequence has this state and no run.
fn settle(controller: &Controller, state: &str) -> Value {
    let status = controller.wait_for(&format!("the sequence is {state}"), |status| {
        status["sequence"]["state"] == state && status["sequence"]["launch"].is_null()
    });
    status["sequence"].clone()
}

/// The manifest of a run.
fn manifest(controller: &Controller, run: u32) -> Value {
    let path = controller.place.join(&format!("runs/run{run:06}/run.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Waits until the run of this launch takes triggers.
fn wait_for_launch(controller: &Controller, launch: u64) {
    controller.wait_for(&format!("launch {launch} runs"), |status| {
        status["sequence"]["launch"] == launch && status["state"] == "running" && status["run"].is_number()
    });
}

#[test]
fn a_scan_is_a_good_run_for_each_value() {
    let controller = Controller::begin(&format!("{SYSTEM}[filter]\nkind = \"busy\"\n"));
    let scan = "scan filter.busy_us=0:20:10 --events 40 --comment busy:{filter.busy_us}";
    let table = controller.place.sheaf(&format!("ctl {scan} --table")).exits(0).stdout;
    assert_eq!(table, "filter.busy_us,run.events,comment\n0,40,busy:0\n10,40,busy:10\n20,40,busy:20\n");
    controller.ctl(&format!("{scan} --until-end")).exits(0).says(&["3 of 3 rows are done"]);
    assert_eq!(states(&controller), ["done", "done", "done"]);
    let runs = controller.runs();
    for (index, run) in runs.iter().enumerate() {
        let (busy, number) = (index * 10, u32::try_from(index + 1).unwrap());
        assert_eq!((&run["state"], &run["ledger"]["triggers"]), (&json!("good"), &json!(40)));
        assert_eq!(run["comments"][0]["text"], format!("busy:{busy}"));
        let manifest = manifest(&controller, number);
        let values = json!({ "filter.busy_us": busy.to_string(), "run.events": "40" });
        assert_eq!(manifest["sequence"], json!({ "name": "scan", "row": number, "values": values }));
        let configuration = manifest["configuration"].as_str().unwrap();
        assert!(configuration.contains(&format!("\nbusy_us = {busy}\n")), "{configuration}");
    }
    assert_eq!(runs.len(), 3);
    controller.place.sheaf("runs list").exits(0).prints(&["sequence", "scan row 2: filter.busy_us = 10"]);
    controller.place.sheaf("runs show 3").exits(0).prints(&["scan row 3: filter.busy_us = 20"]);
    controller.ctl("sequence status").exits(0).prints(&["triggers  filter.busy_us", "ended, 3 done"]);
    controller.ctl("status").exits(0).prints(&["sequence  scan of"]);
    let journal = controller.ctl("journal --last 100").exits(0).stdout;
    for entry in ["sequence start scan", "row begins", "row done", "ended"] {
        assert!(journal.contains(entry), "{entry} is not in the journal:\n{journal}");
    }
    // Every row of this table but one has been done.
    controller.place.file("scan.csv", &format!("{table}30,40,busy:30\n"));
    controller.ctl("sequence start scan.csv --resume --until-end").exits(0).says(&["4 of 4 rows are done"]);
    assert_eq!(controller.runs().len(), 4);
    let begun: Vec<_> = rows(&controller).iter().map(|row| row["run"].clone()).collect();
    assert_eq!(begun, [1, 2, 3, 4]);
}

#[test]
fn a_wrong_table_is_refused_before_any_run_with_row_and_column() {
    let controller = Controller::begin(SYSTEM);
    for (table, texts) in [
        (
            "run.events,filter.kind,filter.busy_us\n10,busy,1\n10,busy,-3\n",
            &["row 2: `filter.busy_us` is -3", "scan.csv:3:9"][..],
        ),
        (
            "run.events,filter.busy_us\n10,1\n",
            &["row 1: `filter.busy_us` has no effect", "scan.csv:2:4", "`kind = \"busy\"`"],
        ),
        ("run.events,filter.busi_us\n10,1\n", &["did you mean `filter.busy_us`?", "scan.csv:1:12"]),
        (
            "run.events,run.output\n10,other\n",
            &["`run.output` cannot differ", "one directory", "scan.csv:1:12"],
        ),
        ("filter.kind\nbusy\n", &["row 1: nothing ends the run", "run.duration_s", "scan.csv:2:1"]),
        ("run.events,trigger.rate_hz\n10,0\n", &["row 1: ", "trigger.rate_hz", "scan.csv:2:4"]),
        ("run.events\n10,1\n", &["row 1 has 2 cells", "scan.csv:2:1"]),
        ("", &["the table has no row"]),
    ] {
        controller.place.file("scan.csv", table);
        let refused = controller.ctl("sequence start scan.csv").exits(1);
        refused.says(&["no run was started", "correct the table"]).says(texts);
    }
    controller.place.file("a scan.csv", "run.events\n10\n");
    controller.ctl("sequence start scan.csv --resume").exits(1);
    assert_eq!(controller.status()["sequence"], Value::Null);
    controller.ctl("sequence status").exits(1).says(&["there has been no sequence"]);
    controller.ctl("sequence pause").exits(1).says(&["there is no sequence"]);
    assert!(!controller.place.join("runs/run000001").exists());
}

#[test]
fn a_controller_that_is_killed_in_the_second_row_goes_on_with_the_sequence() {
    let mut controller = Controller::begin(SYSTEM);
    controller.place.file("scan.csv", "run.events\n20\n400\n30\n");
    controller.ctl("sequence start scan.csv").exits(0).says(&["running, row 1 of 3"]);
    wait_for_launch(&controller, 2);
    controller.running().signal("KILL");
    controller.serve = None;
    let run = controller.run(2);
    controller.serve();
    assert_eq!(controller.run(2), run, "the same process");
    assert_eq!(settle(&controller, "ended")["reason"], "3 of 3 rows are done");
    let attempts: Vec<_> = rows(&controller).iter().map(|row| row["attempts"].clone()).collect();
    assert_eq!(attempts, [1, 1, 1]);
    let triggers: Vec<_> = controller.runs().iter().map(|run| run["ledger"]["triggers"].clone()).collect();
    assert_eq!(triggers, [20, 400, 30]);
}

#[test]
fn a_row_whose_run_dies_follows_the_rule() {
    let mut controller = Controller::begin(SYSTEM);
    controller.place.file("scan.csv", "run.events,comment\n100000,dies\n20,lives\n");
    // Pause: a person decides.
    controller.ctl("sequence start scan.csv").exits(0);
    wait_for_launch(&controller, 1);
    signal(controller.run(1), "KILL");
    let sequence = settle(&controller, "paused");
    assert!(
        sequence["reason"].as_str().unwrap().contains("row 1 has failed: the process of run 1 died"),
        "{sequence}"
    );
    controller.ctl("sequence start scan.csv").exits(1).says(&["scan has not ended"]);
    controller.ctl("sequence skip").exits(0);
    controller.ctl("sequence resume").exits(0);
    assert_eq!(settle(&controller, "ended")["reason"], "1 of 2 rows are done, 1 skipped");
    // Continue: the next row.
    controller.ctl("sequence start scan.csv --on-failure continue").exits(0);
    wait_for_launch(&controller, 3);
    signal(controller.run(3), "KILL");
    assert_eq!(settle(&controller, "ended")["reason"], "1 of 2 rows are done, 1 failed");
    assert_eq!(states(&controller), ["failed", "done"]);
    // Repeat: the same row, so many times.
    controller.ctl("sequence start scan.csv --on-failure repeat --repeats 1").exits(0);
    for launch in [5, 6] {
        wait_for_launch(&controller, launch);
        signal(controller.run(launch), "KILL");
    }
    let sequence = settle(&controller, "paused");
    assert!(sequence["reason"].as_str().unwrap().contains("row 1 has failed 2 times"), "{sequence}");
    assert_eq!((&rows(&controller)[0]["attempts"], &sequence["row"]), (&json!(2), &json!(1)));
    // It is so after a restart, too.
    controller.running().signal("TERM");
    controller.serve.take().expect("it serves").end().exits(0);
    controller.serve();
    assert_eq!(settle(&controller, "paused")["reason"], sequence["reason"]);
    controller.ctl("sequence stop").exits(0).says(&["ended"]);
    controller.ctl("sequence resume").exits(1).says(&["scan has ended"]);
}

#[test]
fn a_person_who_stops_a_run_takes_over() {
    let controller = Controller::begin(SYSTEM);
    controller.place.file("scan.csv", "run.events\n100000\n20\n");
    controller.ctl("sequence start scan.csv").exits(0);
    wait_for_launch(&controller, 1);
    controller.ctl("start").exits(1).says(&["run 1 has been started"]);
    controller.ctl("stop").exits(0);
    let sequence = settle(&controller, "paused");
    assert!(sequence["reason"].as_str().unwrap().contains("gave `stop` for run 1"), "{sequence}");
    assert_eq!(states(&controller), ["waiting", "waiting"]);
    // A run in between, and then the sequence goes on.
    controller.ctl("start --events 30 --until-end").exits(0);
    controller.ctl("sequence resume").exits(0);
    wait_for_launch(&controller, 3);
    controller.ctl("sequence pause").exits(0).says(&["after the present run"]);
    controller.ctl("sequence skip 2").exits(1).says(&["row 2 is neither in progress nor the next one"]);
    controller.ctl("sequence skip 1").exits(0);
    controller.ctl("sequence skip 1").exits(0);
    settle(&controller, "paused");
    assert_eq!(states(&controller), ["skipped", "waiting"]);
    controller.ctl("sequence resume").exits(0);
    assert_eq!(settle(&controller, "ended")["reason"], "1 of 2 rows are done, 1 skipped");
}

#[test]
fn ctrl_c_ends_the_controller_and_leaves_a_sequence_that_can_be_resumed() {
    let mut controller = Controller::begin(SYSTEM);
    controller.place.file("scan.csv", "run.events\n100000\n");
    controller.ctl("sequence start scan.csv").exits(0);
    wait_for_launch(&controller, 1);
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0).says(&["sequence paused"]);
    controller.serve();
    assert!(settle(&controller, "paused")["reason"].as_str().unwrap().contains("`stop`"));
    controller.ctl("sequence resume").exits(0);
    wait_for_launch(&controller, 2);
    controller.ctl("sequence stop").exits(0);
    settle(&controller, "ended");
    assert_eq!(states(&controller), ["waiting"]);
    wait_until("the run has ended", || controller.status()["state"] == "idle");
}

#[test]
fn requests_have_one_effect_however_often_they_are_sent() {
    let controller = Controller::begin(SYSTEM);
    let own = format!("Bearer {}", controller.own_token());
    let own = [("Authorization", own.as_str())];
    let body = json!({ "request": "one", "name": "scan", "table": "run.events\n20\n20\n" }).to_string();
    let begin = |headers: &[(&str, &str)]| controller.http("POST", "/api/v1/sequence", headers, &body);
    assert_eq!(begin(&[]).0, 401);
    assert_eq!(begin(&[own[0], ("If-Match", "\"999\"")]).0, 412);
    assert_eq!(begin(&own).0, 202);
    let (status, answer) = begin(&own);
    assert_eq!((status, &answer["sequence"]["id"]), (200, &json!(1)));
    settle(&controller, "ended");
    assert_eq!(begin(&own).0, 200, "also when it has ended");
    assert_eq!(controller.runs().len(), 2);
    let action = |body: &str| controller.http("POST", "/api/v1/sequence/actions", &own, body);
    assert_eq!(action("{\"action\": \"resume\"}").0, 409);
    assert_eq!(action("{\"action\": \"stop\"}").0, 200, "it has ended");
    assert_eq!(action("{\"action\": \"fly\"}").0, 400);
    assert_eq!(controller.http("GET", "/api/v1/sequence", &[], "").0, 200);
}
