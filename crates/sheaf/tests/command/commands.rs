//! The commands of run control in the records of runs.

use crate::child::{ScratchDirectory, signal, wait_until};
use crate::database::everything;
use crate::serve::{Controller, SYSTEM};
use serde_json::{Value, json};

/// Manifest of a run; `null` if there is none yet.
fn manifest(place: &ScratchDirectory, run: u32) -> Value {
    let text = std::fs::read(place.join(&format!("runs/run{run:06}/run.json")));
    text.map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap())
}

/// Commands in the manifest of a run, in words.
fn commands(place: &ScratchDirectory, run: u32) -> Vec<String> {
    let manifest = manifest(place, run);
    let word = |value: &Value| value.as_str().map_or_else(|| "-".to_owned(), str::to_owned);
    let line = |command: &Value| {
        let [name, target, via, comment, result] =
            ["command", "target", "via", "comment", "result"].map(|key| word(&command[key]));
        format!("{name} {target} ({via}, {comment}): {result}")
    };
    manifest["commands"].as_array().map(|list| list.iter().map(line).collect()).unwrap_or_default()
}

/// Configuration of a run whose database has more time than a busy machine takes.
fn patient() -> String {
    format!("{SYSTEM}[database]\ntimeout_ms = 60000\n")
}

#[test]
fn a_run_has_its_commands_in_its_record_in_the_database_and_over_http() {
    let controller = Controller::begin(&patient());
    let place = &controller.place;
    controller.ctl("exclude 1").exits(0);
    controller.ctl("pause").exits(1);
    controller.ctl("start --comment cosmics").exits(0);
    controller.ctl("pause --comment beam-lost").exits(0);
    wait_until("a run in progress has its commands", || commands(place, 1).len() == 3);
    controller.ctl("resume").exits(0);
    controller.ctl("include 1").exits(0);
    controller.ctl("silence source-silent --for 1h --why known").exits(0);
    let body = r#"{"command": "stop", "request": "the same"}"#;
    let token = format!("Bearer {}", controller.own_token());
    let headers = [("Authorization", &*token), ("Sheaf-Via", "script")];
    let (first, answer) = controller.http("POST", "/api/v1/operations", &headers, body);
    let (second, again) = controller.http("POST", "/api/v1/operations", &headers, body);
    assert_eq!((first, second, &answer["operation"]["id"]), (202, 200, &again["operation"]["id"]));
    controller.wait_for("the run has ended", |status| status["state"] == "idle");
    assert_eq!(
        commands(place, 1),
        [
            "exclude source 1 (sheaf ctl, -): done",
            "start - (sheaf ctl, cosmics): done",
            "pause - (sheaf ctl, beam-lost): done",
            "resume - (sheaf ctl, -): done",
            "include source 1 (sheaf ctl, -): done",
            "silence source-silent (sheaf ctl, known): done",
            "stop - (script, -): done",
        ]
    );
    let kept = manifest(place, 1)["commands"].clone();
    assert!(!kept.to_string().contains(&controller.own_token()));
    let (_, shown) = controller.http("GET", "/api/v1/runs/1", &[], "");
    assert_eq!(shown["commands"], kept);
    let words = ["times since the start of the run", "pause \"beam-lost\"", "done: run 1 ended: all"];
    for database in ["", "--database sqlite:runs/runs.db"] {
        let shown = place.sheaf(&format!("runs show 1 {database}")).exits(0).prints(&words).stdout;
        let start = shown.lines().find(|line| line.contains("start \"cosmics\"")).expect("a line");
        assert!(start.trim_start().starts_with('-'), "it was asked for before the run began: {start}");
    }
    let file = place.join("runs/runs.db");
    let before = everything(&file);
    assert_eq!(before.iter().filter(|row| row.contains("sheaf ctl")).count(), 7, "six and the record");
    place.sheaf("runs rebuild").exits(0);
    assert_eq!(everything(&file), before);
}

#[test]
fn a_run_that_dies_has_its_commands_and_what_came_of_them() {
    let mut controller = Controller::begin(&patient());
    controller.ctl("start").exits(0);
    // Its process takes no order any more.
    signal(controller.run(1), "STOP");
    controller.ctl("pause --no-wait").exits(0);
    controller.ctl("stop --no-wait --comment frozen").exits(0);
    controller.running().signal("KILL");
    controller.serve = None;
    signal(controller.run(1), "KILL");
    controller.serve();
    controller.wait_for("its end is known", |status| status["state"] == "idle");
    let expected = [
        "start - (sheaf ctl, -): done",
        "pause - (sheaf ctl, -): superseded",
        "stop - (sheaf ctl, frozen): done",
    ];
    assert_eq!(commands(&controller.place, 1), expected);
    let show = controller.place.sheaf("runs show 1").exits(0);
    show.prints(&["not closed", "times since the directory was made", "the process of run 1 died"]);
    let in_database = || {
        let shown = controller.place.sheaf("runs show 1 --json --database sqlite:runs/runs.db").exits(0);
        shown.json()["commands"] == manifest(&controller.place, 1)["commands"]
    };
    wait_until("the database has them, too", in_database);
}

#[test]
fn a_signal_to_a_run_without_its_controller_is_a_command_in_its_record() {
    let mut controller = Controller::begin(SYSTEM);
    controller.ctl("start").exits(0);
    controller.running().signal("KILL");
    controller.serve = None;
    signal(controller.run(1), "TERM");
    let result = controller.place.join("runs/control/launch-1/result.json");
    wait_until("the run has ended", || result.exists());
    let expected = ["start - (sheaf ctl, -): done", "stop - (SIGTERM, -): done"];
    assert_eq!(commands(&controller.place, 1), expected);
}

#[test]
fn hooks_sequences_and_interrupts_are_named_as_the_origin_of_commands() {
    let sheaf = env!("CARGO_BIN_EXE_sheaf");
    let call = format!(
        "\"{sheaf}\", \"ctl\", \"silence\", \"source-silent\", \"--for\", \"1h\", \"--why\", \"warm-up\""
    );
    let hook = format!("[hook.watch]\non = \"after_start\"\ncommand = [{call}]\n");
    let mut controller = Controller::begin(&format!("{SYSTEM}{hook}"));
    controller.place.file("rows.csv", "run.events\n1000000000\n");
    controller.ctl("sequence start rows.csv").exits(0);
    let is_silent = |status: &Value| !status["silences"].as_array().unwrap().is_empty();
    controller.wait_for("the hook was called", is_silent);
    controller.ctl("sequence stop").exits(0);
    controller.wait_for("the run has ended", |status| status["state"] == "idle");
    let recorded = commands(&controller.place, 1);
    assert!(recorded[0].starts_with("start - (sequence rows, -): "), "{recorded:?}");
    let others =
        ["silence source-silent (hook watch, warm-up): done", "stop - (sequence, sheaf ctl, -): done"];
    assert_eq!(recorded[1..], others);
    controller.ctl("start").exits(0);
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
    // The hook after the start may call before or after it.
    let recorded = commands(&controller.place, 2);
    assert!(recorded.iter().any(|command| command == "stop - (Ctrl-C, -): done"), "{recorded:?}");
}

#[test]
fn a_run_without_a_controller_records_its_start_and_signals() {
    let place = ScratchDirectory::new();
    place.file("run.toml", SYSTEM);
    let run = place.start("run run.toml --duration 0 --runs 2");
    wait_until("the first run has begun", || commands(&place, 1).len() == 1);
    run.signal("USR1");
    wait_until("the second run has begun", || commands(&place, 2).len() == 1);
    run.signal("INT");
    run.end().exits(0);
    let recorded = [1, 2].map(|run| commands(&place, run));
    assert!(recorded.iter().all(|commands| commands[0].starts_with("start - (sheaf run, -)")));
    assert_eq!(recorded[0][1..], ["next - (SIGUSR1, -): done"]);
    assert_eq!(recorded[1][1..], ["stop - (SIGINT, -): done"]);
    let user = manifest(&place, 1)["commands"][0]["by"].clone();
    assert!(user.as_str().is_some_and(|name| !name.is_empty()), "{user}");
    // A record of an earlier version has no commands.
    let mut earlier = manifest(&place, 1);
    earlier.as_object_mut().unwrap().remove("commands");
    std::fs::write(place.join("runs/run000001/run.json"), earlier.to_string()).unwrap();
    let shown = place.sheaf("runs show 1 --json").exits(0).json();
    assert_eq!((&shown["state"], shown.get("commands")), (&json!("good"), None));
    let compared = place.sheaf("runs compare 1 2").exits(0).stdout;
    assert!(!compared.contains("command"), "{compared}");
}
