//! The log of a run: its codes, both of its forms, and how it is searched.

use crate::child::{Ended, ScratchDirectory, signal, wait_until};
use crate::full_disk::SmallDisk;
use crate::nodes::free_ports;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the messages in a file or on standard error. Every line must be one.
fn messages(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn log_of(run: &Path) -> Vec<Value> {
    messages(&std::fs::read_to_string(run.join("log.jsonl")).unwrap())
}

/// Returns the codes in the table of troubleshooting.
fn documented() -> Vec<String> {
    let page = include_str!("../../../../docs/operating/troubleshooting.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| <a id=\""));
    rows.filter_map(|row| row.split_once('"')).map(|(code, _)| code.to_owned()).collect()
}

/// Checks the schema of the log, and that each code is in troubleshooting.
fn assert_documented(messages: &[Value]) {
    let documented = documented();
    for message in messages {
        let code = message["code"].as_str().unwrap();
        assert!(documented.iter().any(|known| known == code), "{message}");
        let time = message["time"].as_str().unwrap();
        assert!(time.len() == 27 && time.ends_with('Z'), "{message}");
        assert!(["info", "warning", "error"].contains(&message["severity"].as_str().unwrap()), "{message}");
        assert!(!message["node"].as_str().unwrap().is_empty(), "{message}");
        assert!(message["text"].is_string(), "{message}");
        let fields =
            ["time", "severity", "code", "node", "run", "event", "source", "peer", "repeated", "text"];
        assert!(message.as_object().unwrap().keys().all(|key| fields.contains(&key.as_str())), "{message}");
    }
}

fn has(messages: &[Value], wanted: &[(&str, &str)]) -> bool {
    let is_it = |message: &&Value| wanted.iter().all(|(field, value)| message[*field] == *value);
    messages.iter().any(|message| is_it(&message))
}

const KILLED: &str = "\
[run]
duration_s = 0
[readout]
count = 2
merge_timeout_ms = 50
[builder]
count = 2
event_timeout_ms = 300
request_retry_ms = 100
[manager]
peer_timeout_ms = 1000
start_timeout_ms = 60000
[protocol]
heartbeat_ms = 50
";

/// Kills a builder unit of a run, and returns what the run has said.
fn run_with_a_death(scratch: &ScratchDirectory, flags: &str) -> Ended {
    let config = scratch.file("killed.toml", KILLED);
    let running = scratch.start(&format!("run {} --processes --json {flags}", config.display()));
    let killed = running.wait_for_node("bu1", 0);
    let log = || std::fs::read_to_string(scratch.join("runs/run000001/log.jsonl")).unwrap_or_default();
    // A builder unit that has stored events is one that can be lost.
    let stores = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        name.contains("_bu1_") && file.metadata().unwrap().len() > 20_000
    };
    let run = scratch.join("runs/run000001");
    wait_until("bu1 stores", || std::fs::read_dir(&run).is_ok_and(|mut files| files.any(stores)));
    signal(killed, "KILL");
    running.wait_for_node("bu1", killed);
    wait_until("the event manager says so", || log().contains("builder-lost"));
    running.signal("INT");
    running.end().exits(0)
}

#[test]
fn messages_of_all_processes_are_in_the_log_of_the_run() {
    let scratch = ScratchDirectory::new();
    let ended = run_with_a_death(&scratch, "");
    let log = log_of(&scratch.join("runs/run000001"));
    assert_documented(&log);
    assert!(has(&log, &[("code", "process-restarted"), ("node", "run"), ("peer", "bu1")]), "{log:?}");
    assert!(has(&log, &[("code", "builder-lost"), ("node", "evm"), ("peer", "bu1")]), "{log:?}");
    assert!(has(&log, &[("code", "run-stops"), ("node", "evm"), ("severity", "info")]), "{log:?}");
    assert!(log.iter().all(|message| message["run"] == 1), "{log:?}");
    for message in log.iter().filter(|message| message["severity"] != "info") {
        let [severity, text, code] =
            ["severity", "text", "code"].map(|field| message[field].as_str().unwrap());
        let readable = format!("{severity}: {text} [{code}]\n");
        assert!(ended.stderr.contains(&readable), "{readable} is not in:\n{}", ended.stderr);
    }
}

#[test]
fn every_line_of_several_processes_is_json_on_request() {
    let scratch = ScratchDirectory::new();
    let ended = run_with_a_death(&scratch, "--log json");
    let printed = messages(&ended.stderr);
    assert_documented(&printed);
    let log = log_of(&scratch.join("runs/run000001"));
    // What is printed and is not the progress is in the log, word for word.
    for message in printed.iter().filter(|message| message["code"] != "progress") {
        assert!(log.contains(message), "{message}");
    }
}

#[test]
fn the_log_is_searched() {
    let scratch = ScratchDirectory::new();
    run_with_a_death(&scratch, "");
    let find = |flags: &str| {
        messages(&scratch.sheaf(&format!("log --json {flags}")).exits(0).stdout)
            .iter()
            .map(|message| message["code"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = find("");
    assert!(all.contains(&"builder-lost".to_owned()) && all.contains(&"run-begins".to_owned()), "{all:?}");
    assert_eq!(find("1 --code builder-lost"), ["builder-lost"]);
    assert_eq!(find("runs"), all, "a directory of runs stands for its newest");
    assert_eq!(find("--code builder-lost --node ru0"), [""; 0]);
    assert!(!find("--severity warning").contains(&"run-begins".to_owned()));
    assert_eq!(find("--text sigkill"), ["process-restarted"]);
    assert_eq!(find("--since 1h"), all);
    assert_eq!(find("--since 2100-01-01"), [""; 0]);
    assert_eq!(find("--last 1").len(), 1);
    let ended = scratch.sheaf("log --code builder-lost").exits(0);
    assert!(ended.stdout.trim_end().ends_with("[builder-lost]"), "{}", ended.stdout);
    scratch.sheaf("log --code no-such-code").exits(2).says(&["troubleshooting.md"]);
    scratch.sheaf("log 7").exits(1).says(&["there is no run 7"]);
    std::fs::create_dir(scratch.join("empty")).unwrap();
    scratch.sheaf("log empty").exits(1).says(&["empty is neither the directory of a run"]);
}

#[test]
fn nodes_that_are_started_by_hand_have_a_log_each() {
    let scratch = ScratchDirectory::new();
    let [evm, ru0] = free_ports();
    let config = scratch.file(
        "system.toml",
        &format!(
            "[run]\nnumber = 3\nevents = 100\n[transport]\nkind = \"tcp\"\n[manager]\nstart_timeout_ms = 60000\n\
             [[node]]\nname = \"daq\"\nrole = \"manager\"\naddress = \"127.0.0.1:{evm}\"\n\
             [[node]]\nname = \"calo\"\nrole = \"readout\"\naddress = \"127.0.0.1:{ru0}\"\nsources = [1]\n\
             [[node]]\nname = \"farm\"\nrole = \"builder\"\naddress = \"127.0.0.1:1\"\n"
        ),
    );
    let nodes = ["farm", "calo", "daq"]
        .map(|name| scratch.start(&format!("node {} {name} --log json", config.display())));
    for node in nodes {
        assert_documented(&messages(&node.end().exits(0).stderr));
    }
    let found = messages(&scratch.sheaf("log 3 --json --code node-began").exits(0).stdout);
    let mut names: Vec<_> = found.iter().map(|message| message["node"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["calo", "daq", "farm"]);
}

#[test]
fn a_run_whose_standard_error_is_closed_goes_on_and_has_its_log() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("missing.toml", KILLED);
    // A pipe whose other end is closed at once.
    let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["run", "--events", "1000", "--processes", "-vv"])
        .arg(&config)
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    wait_until("the run ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = log_of(&scratch.join("runs/run000001"));
    assert!(has(&log, &[("code", "run-ended")]), "{log:?}");
}

#[test]
fn a_disk_that_is_full_takes_no_messages_and_stops_no_run() {
    let scratch = ScratchDirectory::new();
    let Some(disk) = SmallDisk::mount(&scratch.join("disk")) else { return };
    let config = scratch.file(
        "full.toml",
        "[run]\nduration_s = 0\noutput = \"disk/runs\"\n[readout]\ncount = 2\n[builder]\ncount = 2\n\
         [output]\nkeep_free_bytes = 0\n[manager]\nstop_timeout_ms = 500\n",
    );
    let mut running = scratch.start(&format!("run {}", config.display()));
    disk.wait_until_full();
    running.wait_until_said("[output-failing]");
    running.signal("INT");
    let ended = running.end();
    let said = std::fs::read_to_string(disk.path.join("runs/run000001/log.jsonl")).unwrap();
    assert_documented(&messages(&said));
    assert!(ended.stdout.contains("events built"), "{}", ended.stdout);
}
