//! `sheaf node`: a system of nodes that are started one by one, from one configuration.

use crate::child::{ScratchDirectory, wait_until};
use crate::output::{assert_adds_up, dump, field, number, verify};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

const EVENTS: u64 = 2_000;

/// Returns free ports.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let ports = free_ports_in_a_row(u16::try_from(N).unwrap());
    std::array::from_fn(|index| ports + u16::try_from(index).unwrap())
}

/// Returns the first of this number of free ports in a row. The operating system gives none of them to a program that asks for any port,
/// as most runs do, and no other test gets them: between this call and its use, a port stays free.
pub(crate) fn free_ports_in_a_row(count: u16) -> u16 {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() * 97;
    (0..PORTS)
        .map(|_| begin.wrapping_add(NEXT.fetch_add(u32::from(count), Relaxed)) % PORTS)
        // Always the same modulus: rows of different lengths would overlap otherwise.
        .filter(|place| place + u32::from(count) <= PORTS)
        .map(|place| u16::try_from(FIRST + place).expect("below 65,536"))
        .find(|first| (*first..*first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()))
        .expect("some ports are free")
}

/// A configuration with the nodes of several hosts, all on this machine.
fn config(scratch: &ScratchDirectory) -> PathBuf {
    let [evm, ru0, ru1, bu0, bu1] = free_ports();
    let node = |name: &str, role: &str, port: u16, more: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{more}\n")
    };
    let nodes = [
        node("daq", "manager", evm, ""),
        node("calo", "readout", ru0, "sources = [\"10-12\"]"),
        node("tracker", "readout", ru1, "sources = [7, 20]"),
        node("farm-a", "builder", bu0, ""),
        node("farm-b", "builder", bu1, ""),
    ];
    let head = format!(
        "[run]\nnumber = 42\nevents = {EVENTS}\nduration_s = 0\n[transport]\nkind = \"tcp\"\n\
         [builder]\ncheck_content = true\n[manager]\nstart_timeout_ms = 60000\n"
    );
    scratch.file("system.toml", &(head + &nodes.concat()))
}

#[test]
fn nodes_started_in_any_order_take_one_run_and_end() {
    run_nodes("tcp");
}

#[test]
fn nodes_that_share_memory_take_one_run_and_end() {
    run_nodes("shm");
}

/// According to their addresses, the tracker's readout unit and one builder are on another host.
#[test]
fn nodes_of_two_hosts_share_memory_on_each_and_take_one_run_over_tcp() {
    run_nodes("mixed");
}

fn run_nodes(transport: &str) {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch);
    let mut text = std::fs::read_to_string(&config).unwrap();
    text = text.replace("kind = \"tcp\"", &format!("kind = \"{transport}\""));
    if transport == "mixed" {
        let nodes: Vec<String> = text
            .split("[[node]]")
            .map(|node| {
                let there = node.contains("\"tracker\"") || node.contains("\"farm-b\"");
                if there { node.replace("127.0.0.1", "127.0.0.2") } else { node.to_owned() }
            })
            .collect();
        text = nodes.join("[[node]]");
    }
    scratch.file("system.toml", &text);
    let node = |name: &str| scratch.start(&format!("node {} {name} --json", config.display()));
    let mut builder = node("farm-b");
    builder.wait_until_said("farm-b");
    let others = [node("tracker"), node("farm-a")];
    let manager = node("daq");
    let last = node("calo");

    let summary = manager.end().exits(0).json();
    for (running, name) in
        [builder].into_iter().chain(others).chain([last]).zip(["farm-b", "tracker", "farm-a", "calo"])
    {
        let said = running.end().exits(0).json();
        assert_eq!(field(&said, "node"), name);
        assert_eq!(field(&said, "errors"), &serde_json::json!([]));
    }
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    assert_eq!(number(&summary, "fragments"), 5 * EVENTS);
    assert_eq!(field(&summary, "trouble.absent_nodes"), &serde_json::json!([]));

    let run = scratch.join("runs/run000042");
    let report = verify(&run, 0);
    assert_eq!(number(&report, "events"), EVENTS);
    assert_eq!(dump(&run).len() as u64, 5 * EVENTS);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(number(&manifest, "run"), 42);
    assert!(field(&manifest, "ended_ns").is_u64());
    assert_eq!(number(&manifest, "ledger.stored"), EVENTS);
    let sessions = field(&manifest, "sessions").as_array().unwrap();
    let names: Vec<_> = sessions.iter().map(|session| field(session, "node").as_str().unwrap()).collect();
    assert_eq!(names, ["bu0", "bu1"]);
    assert_eq!(sessions.iter().map(|session| number(session, "committed")).sum::<u64>(), EVENTS);
}

/// The file of the session that died is never closed, but its events that count are present.
#[test]
fn a_run_in_which_a_builder_was_restarted_by_hand_is_good() {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch);
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace(&format!("events = {EVENTS}\n"), "");
    let text = text.replace("start_timeout_ms = 60000", "start_timeout_ms = 60000\npeer_timeout_ms = 1000");
    let more = "[protocol]\nheartbeat_ms = 50\n[trigger]\nmode = \"fixed\"\nrate_hz = 2000\n";
    scratch.file("system.toml", &(text + more));
    let node = |name: &str| scratch.start(&format!("node {} {name} --json", config.display()));
    let (manager, others) = (node("daq"), ["calo", "tracker", "farm-b"].map(node));
    let victim = node("farm-a");
    let run = scratch.join("runs/run000042");
    let written = || {
        let files = std::fs::read_dir(&run).into_iter().flatten().map(|file| file.unwrap().path());
        let of_victim = |path: &PathBuf| path.to_string_lossy().contains("bu0") && path.is_file();
        files.filter(of_victim).filter(|path| path.metadata().is_ok_and(|file| file.len() > 50_000)).count()
    };
    wait_until("the builder has written events", || written() == 1);
    assert_eq!(field(&verify(&run, 4), "state"), "in_progress");
    victim.signal("KILL");
    victim.end();
    let again = node("farm-a");
    wait_until("its next session has written events", || written() == 2);
    manager.signal("INT");
    let summary = manager.end().exits(0).json();
    others.into_iter().chain([again]).for_each(|node| drop(node.end().exits(0)));
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 1);
    let report = verify(&run, 0);
    assert_eq!(number(&report, "events"), number(&summary, "ledger.stored"));
    assert!(number(&report, "files_open") > 0, "{report:#}");
}

#[test]
fn a_node_that_is_not_in_the_configuration_is_refused() {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch);
    let ended = scratch.sheaf(&format!("node {} tracer", config.display()));
    ended.exits(1).says(&["system.toml", "tracer", "tracker"]);
}

#[test]
fn a_node_without_its_event_manager_ends_by_itself() {
    for name in ["calo", "farm-a"] {
        let scratch = ScratchDirectory::new();
        let config = config(&scratch);
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text.replace("start_timeout_ms = 60000", "start_timeout_ms = 200\npeer_timeout_ms = 300");
        scratch.file(
            "system.toml",
            &(text + "[protocol]\nheartbeat_ms = 20\nretransmit_ms = 50\nacknowledge_ms = 10\n"),
        );
        let ended = scratch.sheaf(&format!("node {} {name}", config.display()));
        ended.exits(1).says(&["event manager", name, "127.0.0.1:"]);
    }
}

#[test]
fn an_event_manager_without_nodes_names_those_that_are_missing() {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch);
    let text = std::fs::read_to_string(&config).unwrap();
    scratch.file("system.toml", &text.replace("start_timeout_ms = 60000", "start_timeout_ms = 200"));
    let ended = scratch.sheaf(&format!("node {} daq", config.display()));
    ended.exits(1).says(&["could not start", "calo", "tracker", "farm-a", "farm-b"]);
}

#[test]
fn an_address_in_use_is_named() {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch);
    let text = std::fs::read_to_string(&config).unwrap();
    let address = text.lines().find_map(|line| line.strip_prefix("address = ")).unwrap().trim_matches('"');
    let _taken = TcpListener::bind(address).unwrap();
    let ended = scratch.sheaf(&format!("node {} daq", config.display()));
    ended.exits(1).says(&["daq", address, "in use"]);
}
