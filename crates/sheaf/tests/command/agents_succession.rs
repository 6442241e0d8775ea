//! Runs that follow one another without a gap, with nodes that agents start. All hosts are this machine.

use crate::agents::{Agent, System};
use crate::child::{sheaf, signal, wait_until};
use crate::nodes::free_ports;
use crate::output::{assert_adds_up, dump, field, number, verify};
use crate::serve::Controller;
use crate::succession::has_events;
use serde_json::{Value, json};
use sheaf_agent::{Door, LinkOptions, Received};
use sheaf_key::RunKey;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const EVENTS: u64 = 120;

/// Triggers wait for as long as it takes: a machine without a processor for a minute has no dead time.
const SLOW: &str = "[trigger]\nmode = \"fixed\"\nrate_hz = 300.0\nqueue_events = 1000000\n\
     [source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n";

fn continuous(runs: u32, events: u64) -> String {
    format!("[run]\nruns = {runs}\ncontinuous = true\nevents = {events}\nduration_s = 0\n{SLOW}")
}

/// Summaries of runs, by their numbers. A run that was closed while another one went on is not in its place.
fn summaries(printed: &str) -> Vec<Value> {
    let runs = printed.lines().map(|line| {
        let run: Value = serde_json::from_str(line).unwrap();
        (number(&run, "run"), run)
    });
    runs.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn parts(system: &System, agents: &[&Agent], run: u64) -> Vec<PathBuf> {
    let of_run = |directory: PathBuf| directory.join(format!("runs/run{run:06}"));
    let own = of_run(system.scratch.join("run"));
    std::iter::once(own).chain(agents.iter().map(|agent| of_run(agent.directory.clone()))).collect()
}

/// Verifies each part of a run, and all of them together. Returns its events.
fn events_of(system: &System, agents: &[&Agent], run: u64) -> Vec<u64> {
    let whole = system.scratch.join(&format!("whole{run}"));
    fs::create_dir(&whole).unwrap();
    for part in parts(system, agents, run) {
        verify(&part, 0);
        for name in ["run.key", "reserve", "running"] {
            assert!(!part.join(name).exists(), "{name} is left in {}", part.display());
        }
        for entry in fs::read_dir(&part).unwrap() {
            let file = entry.unwrap().path();
            let to = whole.join(file.file_name().unwrap());
            if file.is_file() && !to.exists() {
                fs::copy(&file, &to).unwrap();
            }
        }
    }
    assert!(verify(&whole, 0).get("elsewhere").is_none(), "everything is here");
    let mut events: Vec<u64> = dump(&whole).iter().map(|line| line.event).collect();
    events.sort_unstable();
    events.dedup();
    events
}

/// Checks that these runs divide time and events among them: nothing is missing between two, and nothing is in both.
fn assert_without_gap(system: &System, agents: &[&Agent], runs: &[Value]) {
    let (mut first, mut ended_at) = (0, None);
    for run in runs {
        assert_adds_up(run);
        assert_eq!(field(run, "ledger.vetoed"), &json!({}), "{run:#}");
        assert_eq!(field(run, "ledger.time.dead_ns"), &json!({}), "{run:#}");
        let triggers = number(run, "ledger.triggers");
        assert_eq!(number(run, "ledger.stored"), triggers, "{run:#}");
        let events = events_of(system, agents, number(run, "run"));
        assert_eq!(events, (first..first + triggers).collect::<Vec<_>>(), "run {}", number(run, "run"));
        first += triggers;
        let started_at = number(run, "ledger.time.started_ns");
        assert!(ended_at.is_none_or(|ended_at| ended_at == started_at), "{run:#}");
        ended_at = Some(number(run, "ledger.time.triggers_ended_ns"));
    }
}

#[test]
fn runs_on_the_hosts_of_two_agents_follow_one_another_without_a_gap() {
    let system = System::new();
    let (mut one, mut two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system.configure(&continuous(4, EVENTS), ["", a, b, a, b]);
    let ended = system.start("").end().exits(0);
    let runs = summaries(&ended.stdout);
    assert_eq!(runs.iter().map(|run| number(run, "ledger.triggers")).collect::<Vec<_>>(), [EVENTS; 4]);
    assert_without_gap(&system, &[&one, &two], &runs);
    for agent in [&mut one, &mut two] {
        agent.running().wait_until_said("uses this host no more");
        let said = agent.running().said();
        assert_eq!(
            said.matches("begins to use this host").count(),
            1,
            "one process looks after all runs: {said}"
        );
    }
}

/// Nothing is on the host of the run but a builder unit. Builder units have workers, which load the filter of each run.
#[test]
fn runs_whose_event_manager_has_an_agent_follow_one_another_without_a_gap() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    let workers = "[filter]\nworkers = 2\nprocesses = true\n";
    system.configure(&format!("{}{workers}", continuous(4, EVENTS)), [a, b, a, "", b]);
    let ended = system.start("").end().exits(0);
    assert_without_gap(&system, &[&one, &two], &summaries(&ended.stdout));
}

#[test]
fn runs_without_files_follow_one_another_on_hosts() {
    let system = System::new();
    let one = system.agent("one");
    let a = &*one.address;
    system.configure(&format!("{}[output]\nkind = \"none\"\n", continuous(3, EVENTS)), ["", a, a, a, ""]);
    let runs = summaries(&system.start("").end().exits(0).stdout);
    assert_eq!(runs.iter().map(|run| number(run, "ledger.stored")).collect::<Vec<_>>(), [EVENTS; 3]);
    assert!(!one.directory.join("runs").exists());
}

#[test]
fn runs_of_hosts_that_share_a_disk_follow_one_another_without_a_gap() {
    let system = System::new();
    let shared = Agent::at(system.scratch.join("run"), &system.key);
    let at = &*shared.address;
    system.configure(&continuous(3, EVENTS), ["", at, "", at, ""]);
    let runs = summaries(&system.start("").end().exits(0).stdout);
    assert_eq!(runs.len(), 3);
    assert_without_gap(&system, &[], &runs);
}

/// Every process of a node is killed once, shortly after a switch or before the next one. All events are stored.
#[test]
fn a_node_of_a_host_that_is_killed_around_a_switch_takes_part_in_the_next_run() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system.configure(&continuous(0, 60), ["", a, b, a, b]);
    let running = system.start("");
    let mut run = 1;
    for (agent, node) in [(&one, "bu0"), (&two, "ru1"), (&two, "bu1"), (&one, "ru0")] {
        wait_until("a run is closed", || is_closed(&system, run));
        signal(agent.node(node), "KILL");
        wait_until("another run is closed", || is_closed(&system, run + 1));
        run += 2;
    }
    running.signal("INT");
    let ended = running.end();
    let runs = summaries(&ended.stdout);
    assert!(runs.len() >= 8, "{}", ended.stderr);
    assert_all_stored(&system, &[&one, &two], &runs, &ended.stderr);
}

fn is_closed(system: &System, run: u32) -> bool {
    let manifest = system.scratch.join(&format!("run/runs/run{run:06}/run.json"));
    let manifest =
        fs::read_to_string(manifest).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    manifest.is_some_and(|manifest| manifest["ended_ns"].is_u64())
}

/// Checks that these runs have stored each event once.
fn assert_all_stored(system: &System, agents: &[&Agent], runs: &[Value], said: &str) {
    let mut first = 0;
    for run in runs.iter().filter(|run| number(run, "ledger.triggers") > 0) {
        let triggers = number(run, "ledger.triggers");
        assert_eq!(number(run, "ledger.stored"), triggers, "{run:#}\n{said}");
        assert_eq!(field(run, "ledger.balanced"), true, "{run:#}");
        let events = events_of(system, agents, number(run, "run"));
        assert_eq!(events, (first..first + triggers).collect::<Vec<_>>(), "run {}", number(run, "run"));
        first += triggers;
    }
}

/// The builder units of an agent that is killed join the run in progress again, and those that follow. What they have written counts, also in a
/// run that has ended meanwhile.
#[test]
fn an_agent_that_is_started_again_takes_part_in_the_runs_that_follow() {
    let system = System::new();
    let (mut lost, stays) = (system.agent("lost"), system.agent("stays"));
    let (a, b) = (lost.address.clone(), stays.address.clone());
    system.configure(&continuous(0, 150), ["", &b, &b, &a, &b]);
    let mut running = system.start("");
    let mut run = 1;
    for times in 1..=2 {
        wait_until("a run is closed", || is_closed(&system, run));
        lost.node("bu0");
        lost.kill();
        lost.begin();
        running.wait_until_said("bu0 died");
        lost.node("bu0");
        run += 2 * times;
        wait_until("other runs are closed", || is_closed(&system, run));
    }
    running.signal("INT");
    let ended = running.end();
    let runs = summaries(&ended.stdout);
    assert_all_stored(&system, &[&lost, &stays], &runs, &ended.stderr);
}

/// `sheaf next`, on the host of the run, begins the next run on all hosts.
#[test]
fn the_next_run_on_hosts_is_asked_for_by_a_signal() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system
        .configure(&format!("[run]\nruns = 0\ncontinuous = true\nduration_s = 0\n{SLOW}"), ["", a, b, a, b]);
    let running = system.start("");
    for run in 1..=3 {
        let part = one.directory.join(format!("runs/run{run:06}"));
        wait_until("events are written on a host", || has_events(&part));
        if run < 3 {
            sheaf(&system.scratch.join("run"), ["next", "runs"]).exits(0);
        }
    }
    running.signal("INT");
    let runs = summaries(&running.end().exits(0).stdout);
    assert_eq!(runs.len(), 3);
    assert_without_gap(&system, &[&one, &two], &runs);
}

fn controller(system: &System) -> Controller {
    let text = fs::read_to_string(system.scratch.join("run/run.toml")).unwrap();
    Controller::begin(&text)
}

/// The event manager is on another host: requests of the operator reach it, run after run.
#[test]
fn an_operator_switches_to_the_next_run_on_hosts() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system.configure(SLOW, [a, a, b, "", b]);
    let controller = controller(&system);
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    for run in 2..=4 {
        let before = controller.triggers_so_far();
        wait_until("triggers are taken", || controller.triggers_so_far() > before + 30.0);
        controller.ctl("switch").exits(0).says(&[&format!("run {run} is running")]);
    }
    wait_until("triggers are taken", || controller.triggers_so_far() > 30.0);
    controller.ctl("pause").exits(0).says(&["run 4 is paused"]);
    controller.ctl("resume").exits(0).says(&["run 4 is running"]);
    controller.ctl("stop").exits(0).says(&["run 4 ended: all"]);
    let mut runs = controller.runs();
    runs.sort_by_key(|run| run["run"].as_u64());
    assert_eq!(runs.iter().map(|run| run["state"].clone()).collect::<Vec<_>>(), ["good"; 4]);
    // The last one was paused.
    assert!(runs[..3].iter().all(|run| run["ledger"]["vetoed"] == json!({})), "{runs:#?}");
    for run in 1..=4 {
        let part = |directory: PathBuf| verify(&directory.join(format!("runs/run{run:06}")), 0);
        part(controller.place.path().to_owned());
        part(one.directory.clone());
        part(two.directory.clone());
    }
}

#[test]
fn a_next_run_that_a_host_cannot_prepare_leaves_the_run_alone() {
    let system = System::new();
    let (one, two) = (system.agent("one"), system.agent("two"));
    let (a, b) = (&*one.address, &*two.address);
    system.configure(SLOW, ["", a, b, a, b]);
    let controller = controller(&system);
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    let in_the_way = two.directory.join("runs/run000002");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(in_the_way.join("notes"), "somebody's").unwrap();
    let refused = controller.ctl("switch").exits(1);
    let why = format!("the agent {b}, which has started ru1, bu1, cannot prepare run 2");
    refused.says(&["run 1 goes on", &why, "already has files on this host"]);
    assert_eq!(controller.status()["state"], "running");
    assert!(!controller.place.join("runs/run000002").exists());
    wait_until("the other host has put away what it had prepared", || {
        !one.directory.join("runs/run000002").exists()
    });
    fs::remove_dir_all(&in_the_way).unwrap();
    controller.ctl("switch").exits(0).says(&["run 2 is running"]);
    controller.ctl("stop").exits(0).says(&["run 2 ended: all"]);
    assert!(controller.runs().iter().all(|run| run["state"] == "good"), "{:#?}", controller.runs());
}

/// An agent that is not there keeps the operator from switching, and nothing else: the present run goes on.
#[test]
fn an_agent_that_is_lost_keeps_the_run_from_being_followed_until_it_is_back() {
    let system = System::new();
    let (mut lost, stays) = (system.agent("lost"), system.agent("stays"));
    let (a, b) = (lost.address.clone(), stays.address.clone());
    system.configure(SLOW, ["", &b, &b, &a, &b]);
    let path = system.scratch.join("run/run.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("answer_timeout_ms = 120000", "answer_timeout_ms = 10000");
    fs::write(&path, text.replace("patience_ms = 120000", "patience_ms = 10000")).unwrap();
    let controller = controller(&system);
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    lost.node("bu0");
    lost.kill();
    let why = format!("the agent {a}, which starts bu0, has not prepared run 2");
    controller.ctl("switch").exits(1).says(&[
        "run 1 goes on",
        &why,
        "when it is back, ask for the next run again",
    ]);
    assert_eq!(controller.status()["state"], "running");
    lost.begin();
    lost.node("bu0");
    wait_until("the next run begins", || controller.ctl("switch").status.success());
    controller.ctl("stop").exits(0).says(&["run 2 ended: all"]);
    for part in [&lost, &stays].map(|agent| agent.directory.join("runs/run000002")) {
        verify(&part, 0);
    }
}

/// Answers like an agent of the same release that was built before runs could follow one another on hosts.
#[test]
fn an_agent_of_an_earlier_build_is_refused_before_the_run_begins() {
    let system = System::new();
    let [port] = free_ports();
    let address = format!("127.0.0.1:{port}");
    system.configure(&continuous(2, EVENTS), ["", &address, "", "", ""]);
    let patience = Duration::from_secs(120);
    let options = LinkOptions { patience, connect_timeout: patience, room: 1 << 20 };
    let door = Door::listen(&address, RunKey::load(&system.key).unwrap(), &options).unwrap();
    let running = system.start("");
    let conversation = std::iter::repeat_with(|| door.accept(patience)).find_map(|it| it).unwrap();
    while !matches!(conversation.receive(patience), Received::Message(_)) {}
    let ready = json!({"ready": {"host": "old", "directory": null, "is_shared": false, "code": []}});
    for report in [json!("taken"), ready] {
        conversation.send(report.to_string().as_bytes()).unwrap();
    }
    let words = ["cannot start ru0", "earlier build of the same release", "install the same on all hosts"];
    running.end().exits(1).says(&words);
    assert!(!system.scratch.join("run/runs/run000001").exists());
}
