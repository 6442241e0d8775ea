//! `sheaf lab` creates networks, runs real nodes on them, and leaves nothing behind. These tests are skipped without the permission
//! to create network namespaces, or without iproute2.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::field;
use std::collections::BTreeSet;

/// Returns whether a lab can be created here. If not, prints the reason.
fn can_make_labs() -> bool {
    let missing = sheaf_lab::tools::missing();
    if !missing.is_empty() {
        println!("skipped: {}", missing.join("; "));
    }
    missing.is_empty()
}

const SCENARIO: &str = "\
    about = \"a small switch\"\n\
    [lab]\nunits = 2\nrate_mbps = 100\n\
    [measure]\nsample_ms = 100\n\
    [run]\nduration_s = 1\n\
    [source.emulated]\nsize = \"fixed\"\nmean_bytes = 2048\n\
    [builder]\ncheck_content = true\n";

/// Returns the namespaces of labs of the process `pid`.
fn namespaces_of(pid: u32) -> BTreeSet<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("sheaf-lab.process-{pid}-"))).collect()
}

#[test]
fn events_are_whole_behind_a_switch_and_nothing_is_left_of_it() {
    if !can_make_labs() {
        return;
    }
    let scratch = ScratchDirectory::new();
    scratch.file("switch.toml", SCENARIO);
    let running = scratch.start("lab run switch.toml --json");
    let pid = running.id();
    let result = running.end().exits(0).json();
    let point = &field(&result, "points")[0];
    assert_eq!(point["is_whole"], true, "{point}");
    assert!(point["events_built"].as_u64() > Some(0), "{point}");
    assert!(point["evidence"]["packet_bytes"].as_f64() <= Some(9014.0), "no cable carries more: {point}");
    assert_eq!(namespaces_of(pid), BTreeSet::new());
}

#[test]
fn an_interrupt_ends_the_run_with_its_result_and_removes_the_network() {
    if !can_make_labs() {
        return;
    }
    let scratch = ScratchDirectory::new();
    scratch.file("switch.toml", &SCENARIO.replace("duration_s = 1", "duration_s = 1000"));
    let running = scratch.start("lab run switch.toml --json");
    let pid = running.id();
    wait_until("the network is there", || namespaces_of(pid).len() == 7);
    // The event manager ends a run that has begun; a run that has not begun yet does not begin.
    wait_until("nodes run", || nodes_of(pid) == 5);
    running.signal("INT");
    let ended = running.end();
    assert!(ended.status.code().is_some(), "it ended by itself: {}", ended.stderr);
    assert_eq!(namespaces_of(pid), BTreeSet::new());
}

/// Returns the number of node processes whose parent is the process `pid`.
fn nodes_of(pid: u32) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_node = |entry: &std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments: Vec<_> = command.split(|byte| *byte == 0).collect();
        status.lines().any(|line| line == format!("PPid:\t{pid}"))
            && arguments.get(1) == Some(&b"node".as_slice())
    };
    processes.filter(is_node).count()
}

#[test]
fn of_a_lab_whose_process_was_killed_nothing_is_left() {
    if !can_make_labs() {
        return;
    }
    let scratch = ScratchDirectory::new();
    scratch.file("switch.toml", &SCENARIO.replace("duration_s = 1", "duration_s = 1000"));
    let running = scratch.start("lab run switch.toml --json");
    let pid = running.id();
    wait_until("nodes run", || nodes_of(pid) == 5);
    running.signal("KILL");
    wait_until("its watcher has removed the network", || namespaces_of(pid).is_empty());
}

#[test]
fn a_lab_that_is_kept_can_be_used_until_it_is_removed() {
    if !can_make_labs() {
        return;
    }
    let scratch = ScratchDirectory::new();
    scratch.file("switch.toml", SCENARIO);
    let name = format!("test-{}", std::process::id());
    let made = scratch.sheaf(&format!("lab up switch.toml --name {name}")).exits(0);
    assert!(made.stdout.contains("ru1") && made.stdout.contains("10.80.0."), "{}", made.stdout);
    let seen = scratch.sheaf(&format!("lab exec --name {name} ru1 cat /proc/net/dev")).exits(0);
    assert!(seen.stdout.contains("r0:") && seen.stdout.contains("ctl:"), "{}", seen.stdout);
    scratch.sheaf(&format!("lab up switch.toml --name {name}")).exits(1).says(&["already", "sheaf lab down"]);
    scratch.sheaf(&format!("lab exec --name {name} ru7 true")).exits(1).says(&["no host `ru7`", "ru1"]);
    let gone = scratch.sheaf(&format!("lab down {name}")).exits(0);
    assert!(gone.stdout.contains(&name), "{}", gone.stdout);
    scratch.sheaf(&format!("lab exec --name {name} ru1 true")).exits(1).says(&["sheaf lab up"]);
}

#[test]
fn impossible_measurements_are_refused_before_anything_is_created() {
    let scratch = ScratchDirectory::new();
    scratch.file("switch.toml", "[lab]\nport_bufer_bytes = 1\n");
    scratch.sheaf("lab run switch.toml").exits(1).says(&["switch.toml:2:1", "port_buffer_bytes"]);
    scratch.sheaf("lab run frist-switch").exits(1).says(&["did you mean `first-switch`?"]);
    scratch.sheaf("lab paper --only soka").exits(1).says(&["did you mean `soak`?"]);
}
