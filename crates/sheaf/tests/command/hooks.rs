//! Hooks: commands before and after the transitions of a run.

use crate::child::{ScratchDirectory, signal, wait_until};
use crate::serve::{Controller, SYSTEM};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A hook that notes its call.
const NOTE: &str = "#!/bin/sh\necho \"$SHEAF_RUN $SHEAF_TRANSITION $SHEAF_HOOK\" >> calls\ncat >> inputs\necho \"noted in $SHEAF_DIRECTORY\"\n";

/// A hook that says that it has begun and does not end by itself.
const HANG: &str = "#!/bin/sh\ntouch \"$SHEAF_HOOK.begun\"\nexec sleep 3600\n";

/// A hook that fails.
const FAIL: &str = "#!/bin/sh\necho 'no answer' >&2\nexit 4\n";

/// Writes the hooks into a directory that runs are made in.
fn write_hooks(place: &ScratchDirectory) {
    for (name, text) in [("note.sh", NOTE), ("hang.sh", HANG), ("fail.sh", FAIL)] {
        let path = place.file(name, text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A directory with the hooks.
fn place() -> ScratchDirectory {
    let place = ScratchDirectory::new();
    write_hooks(&place);
    place
}

/// Tables of hooks: the name, the transition, the script and further lines of each.
fn hooks(hooks: &[(&str, &str, &str, &str)]) -> String {
    let mut text = String::new();
    for (name, on, script, more) in hooks {
        let _ = writeln!(text, "[hook.{name}]\non = \"{on}\"\ncommand = [\"./{script}.sh\"]\n{more}");
    }
    text
}

/// One noting hook for each transition, and a second one before the start.
fn all() -> String {
    hooks(&[
        ("z", "before_start", "note", ""),
        ("b", "before_start", "note", ""),
        ("c", "after_start", "note", ""),
        ("d", "before_stop", "note", ""),
        ("a", "after_stop", "note", ""),
    ])
}

fn calls(place: &ScratchDirectory) -> Vec<String> {
    let text = std::fs::read_to_string(place.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Texts on standard input of the hooks, in the order of the calls.
fn inputs(place: &ScratchDirectory) -> Vec<Value> {
    let text = std::fs::read_to_string(place.join("inputs")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Names and results of the hooks in the record of a run.
fn recorded(place: &ScratchDirectory, run: &str) -> Vec<String> {
    let record = place.sheaf(&format!("runs show {run} --json")).exits(0).json();
    let hook = |hook: &Value| {
        format!("{} {}", hook["name"].as_str().unwrap(), if hook["good"] == true { "good" } else { "failed" })
    };
    record["hooks"].as_array().map(|hooks| hooks.iter().map(hook).collect()).unwrap_or_default()
}

fn is_abandoned(place: &ScratchDirectory) -> bool {
    !place.join("runs/run000001").exists()
}

#[test]
fn hooks_are_called_in_order_around_each_run_and_are_in_its_record() {
    for processes in ["", "--processes"] {
        let place = place();
        place.file("run.toml", &format!("{SYSTEM}{}", all()));
        let run = format!("run run.toml --events 50 --runs 2 --json {processes}");
        place.sheaf(&run).exits(0).says(&["a: noted in", "/runs/run000002"]);
        let log = std::fs::read_to_string(place.join("runs/run000002/log.jsonl")).unwrap();
        assert!(log.contains("\"hook-output\"") && log.contains("hook a (after_stop) is done"), "{log}");
        let of_run = |run| {
            ["before_start b", "before_start z", "after_start c", "after_stop a"]
                .map(|call| format!("{run} {call}"))
        };
        assert_eq!(calls(&place), [of_run(1), of_run(2)].concat(), "{processes}");
        let inputs = inputs(&place);
        let (first, last) = (&inputs[0], &inputs[3]);
        assert_eq!((&first["run"], &first["end"]), (&json!(1), &Value::Null), "{first}");
        assert_eq!(last["configuration"], json!(place.path().join("run.toml")), "{last}");
        let directory = last["directory"].as_str().unwrap();
        assert!(Path::new(directory).join("run.json").exists(), "{directory}");
        let end = &last["end"];
        assert_eq!((&end["reason"], &end["good"]), (&json!("events"), &json!(true)), "{end}");
        assert_eq!((&end["triggers"], &end["stored"], &end["lost"]), (&json!(50), &json!(50), &json!(0)));
        assert_eq!(recorded(&place, "1"), ["b good", "z good", "c good", "a good"]);
        place.sheaf("runs show 1").exits(0).prints(&["c (after_start): exit status: 0"]);
        place.sheaf("verify runs/run000002").exits(0);
    }
}

#[test]
fn a_required_hook_that_fails_refuses_the_run_and_others_do_not() {
    let place = place();
    let hooks = |more| {
        let hv = ("hv", "before_start", "fail", more);
        hooks(&[hv, ("late", "after_start", "fail", ""), ("log", "after_stop", "note", "")])
    };
    place.file("run.toml", &format!("{SYSTEM}{}", hooks("")));
    place.sheaf("run run.toml --events 50").exits(1).says(&[
        "run 1 is not started: hook hv (before_start) failed: exit status: 4; its last line: no answer",
        "`hook.hv.required = false`",
    ]);
    assert!(is_abandoned(&place));
    assert!(calls(&place).is_empty(), "there was no run");
    place.file("run.toml", &format!("{SYSTEM}{}", hooks("required = false")));
    let ended = place.sheaf("run run.toml --events 50").exits(0);
    ended.says(&[
        "hook hv (before_start) failed: exit status: 4",
        "hook late (after_start) failed",
        "[hook-failed]",
    ]);
    assert_eq!(recorded(&place, "1"), ["hv failed", "late failed", "log good"]);
}

#[test]
fn a_hook_that_takes_too_long_is_ended() {
    let place = place();
    let short = "timeout_ms = 50";
    let before = hooks(&[("hv", "before_start", "hang", short)]);
    place.file("before.toml", &format!("{SYSTEM}{before}"));
    place
        .sheaf("run before.toml --events 50")
        .exits(1)
        .says(&["run 1 is not started", "it did not end within 0.05 s, and was ended"]);
    assert!(is_abandoned(&place));
    let others = hooks(&[
        ("one", "after_start", "hang", short),
        ("two", "before_stop", "hang", short),
        ("three", "after_stop", "hang", short),
        ("u", "after_stop", "note", ""),
    ]);
    place.file("others.toml", &format!("{SYSTEM}{others}"));
    let mut running = place.start("run others.toml");
    running.wait_until_said("hook one (after_start) failed");
    running.signal("INT");
    running.end().exits(0);
    assert_eq!(recorded(&place, "1"), ["one failed", "two failed", "three failed", "u good"]);
}

#[test]
fn ctrl_c_calls_the_hooks_before_the_stop_and_after_it() {
    let place = place();
    place.file("run.toml", &format!("{SYSTEM}{}", all()));
    for processes in ["", "--processes"] {
        let mut running = place.start(&format!("run run.toml {processes}"));
        running.wait_until_said("hook c (after_start) is done");
        running.signal("INT");
        running.end().exits(0);
        let calls = calls(&place);
        assert!(calls[calls.len() - 2].ends_with("before_stop d"), "{calls:?}");
        assert!(calls[calls.len() - 1].ends_with("after_stop a"), "{calls:?}");
        assert_eq!(inputs(&place).last().unwrap()["end"]["reason"], "signal");
    }
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_hooks_before_the_stop() {
    let place = place();
    let hooks = hooks(&[
        ("c", "after_start", "note", ""),
        ("d", "before_stop", "hang", "timeout_ms = 200000"),
        ("e", "after_stop", "note", ""),
    ]);
    place.file("run.toml", &format!("{SYSTEM}{hooks}"));
    let mut running = place.start("run run.toml");
    running.wait_until_said("hook c (after_start) is done");
    running.signal("INT");
    wait_until("the hook hangs", || place.join("d.begun").exists());
    running.signal("INT");
    running.end().says(&["hook d (before_stop) begins"]);
    assert_eq!(recorded(&place, "1"), ["c good", "d failed", "e good"]);
}

/// The third one ends the process at once, and nothing that it has started stays.
#[test]
fn a_third_ctrl_c_ends_a_hook_with_its_processes() {
    let place = place();
    let hook = "[hook.e]\non = \"after_stop\"\ncommand = [\"sh\", \"-c\", \"sleep 3600 & echo $! > pid.new; mv pid.new pid; sleep 3600\"]\n";
    place.file("run.toml", &format!("{SYSTEM}{hook}"));
    let running = place.start("run run.toml --events 20");
    wait_until("the hook has started a process", || place.join("pid").exists());
    let is_zombie =
        |status: &str| std::fs::read_to_string(status).map_or(true, |status| status.contains("State:\tZ"));
    let own = format!("/proc/{}/status", running.id());
    // Equal signals that are pending at the same time are one, so three may be too few.
    wait_until("the command has ended", || {
        running.signal("INT");
        is_zombie(&own)
    });
    running.end().exits(130);
    let pid = std::fs::read_to_string(place.join("pid")).unwrap();
    let status = format!("/proc/{}/status", pid.trim());
    wait_until("the process is gone", || is_zombie(&status));
}

#[test]
fn a_run_that_is_stopped_during_a_hook_before_its_start_does_not_begin() {
    let place = place();
    let hooks = hooks(&[
        ("a", "before_start", "hang", "timeout_ms = 3600000"),
        ("b", "before_start", "note", ""),
        ("e", "after_stop", "note", ""),
    ]);
    place.file("run.toml", &format!("{SYSTEM}{hooks}"));
    let running = place.start("run run.toml");
    wait_until("the hook hangs", || place.join("a.begun").exists());
    running.signal("INT");
    running
        .end()
        .exits(1)
        .says(&["run 1 is not started", "the run was stopped during hook a (before_start)"]);
    assert!(is_abandoned(&place) && calls(&place).is_empty());
}

#[test]
fn a_command_that_is_not_there_is_an_error_before_the_run() {
    let place = place();
    place.file("script", "");
    for (command, text) in [("none.sh", "none.sh does not exist"), ("script", "chmod +x")] {
        let hook = format!("[hook.x]\non = \"after_stop\"\ncommand = [\"./{command}\"]\n");
        place.file("run.toml", &format!("{SYSTEM}{hook}"));
        let what = "hook x (`hook.x.command`) cannot be started";
        place.sheaf("run run.toml --events 50").exits(1).says(&[what, text]);
        place.sheaf("doctor --config run.toml").exits(1).says(&[what, text]);
        assert!(is_abandoned(&place));
    }
}

/// A controller whose runs have these hooks.
fn controller(hooks: &str) -> Controller {
    let controller = Controller::begin(&format!("{SYSTEM}{hooks}"));
    write_hooks(&controller.place);
    controller
}

#[test]
fn a_command_that_comes_twice_calls_the_hooks_once() {
    let controller = controller(&all());
    let authorization = format!("Bearer {}", controller.own_token());
    let headers = [("Authorization", authorization.as_str())];
    let operate = |command: &str| {
        let body = json!({ "command": command, "request": command }).to_string();
        controller.http("POST", "/api/v1/operations", &headers, &body).0
    };
    assert_eq!((operate("start"), operate("start")), (202, 200));
    controller.wait_for("the run has called its hook", |_| calls(&controller.place).len() == 3);
    controller.wait_for("the run is running", |status| status["state"] == "running");
    assert_eq!((operate("stop"), operate("stop")), (202, 200));
    controller.wait_for("the run has ended", |status| status["state"] == "idle");
    let expected = ["before_start b", "before_start z", "after_start c", "before_stop d", "after_stop a"];
    assert_eq!(calls(&controller.place), expected.map(|call| format!("1 {call}")));
    assert_eq!(recorded(&controller.place, "1").len(), 5);
}

#[test]
fn a_start_that_a_hook_refuses_says_so_and_the_next_one_may_succeed() {
    let mut controller = controller(&hooks(&[("hv", "before_start", "fail", "")]));
    let refused = controller.ctl("start").exits(1);
    refused.says(&["hook hv (before_start) failed: exit status: 4", "no answer", "hook.hv.required = false"]);
    assert!(is_abandoned(&controller.place));
    assert_eq!(controller.status()["state"], "idle");
    // The hook works from now on.
    let path = controller.place.file("fail.sh", NOTE);
    assert!(path.exists());
    controller.ctl("start --events 20 --until-end --comment cosmics").exits(0);
    let input = inputs(&controller.place).remove(0);
    assert_eq!((&input["run"], &input["comment"]), (&json!(1), &json!("cosmics")), "{input}");
    controller.running().assert_runs();
}

#[test]
fn a_stop_ends_a_hook_before_the_start_and_status_names_it() {
    let controller = controller(&hooks(&[("hv", "before_start", "hang", "timeout_ms = 3600000")]));
    let start = controller.place.start("ctl start");
    let progress = |status: &Value| status["operation"]["progress"].as_str().map(str::to_owned);
    let named = |status: &Value| progress(status).is_some_and(|text| text.contains("hook hv (before_start)"));
    controller.wait_for("the status names the hook", named);
    controller.ctl("stop").exits(0);
    start.end().exits(1);
    assert!(is_abandoned(&controller.place));
}

/// The process of a run cannot call its last hooks when it was killed.
#[test]
fn the_hooks_after_a_run_whose_process_died_are_called_by_a_controller() {
    let mut controller = controller(&all());
    controller.ctl("start").exits(0);
    controller.wait_for("the first hooks were called", |_| calls(&controller.place).len() == 3);
    // A controller that comes later does it, too.
    controller.running().signal("KILL");
    controller.serve = None;
    signal(controller.run(1), "KILL");
    controller.serve();
    controller.wait_for("the run is gone", |status| status["state"] == "idle");
    assert_eq!(calls(&controller.place).last().unwrap(), "1 after_stop a");
    let end = &inputs(&controller.place)[3]["end"];
    assert_eq!((&end["reason"], &end["good"]), (&json!("failure"), &json!(false)), "{end}");
    assert!(end["detail"].as_str().unwrap().contains("the process of the run died"), "{end}");
    assert_eq!(recorded(&controller.place, "1").last().unwrap(), "a good");
    assert_eq!(calls(&controller.place).len(), 4, "once");
}

#[test]
fn a_table_of_runs_may_set_keys_of_hooks_and_a_missing_command_is_found_before_any_run() {
    let controller = controller(&hooks(&[("log", "after_stop", "note", "")]));
    controller.place.file("a.csv", "run.events,hook.log.timeout_ms\n10,20000\n10,30000\n");
    controller.ctl("sequence start a.csv --until-end").exits(0);
    assert_eq!(calls(&controller.place), ["1 after_stop log", "2 after_stop log"]);
    std::fs::remove_file(controller.place.join("note.sh")).unwrap();
    controller.ctl("sequence start a.csv").exits(1).says(&["no run was started", "note.sh does not exist"]);
}
