//! An event manager with a standby: which is killed, frozen, or gone.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::monitor;
use crate::nodes::free_ports;
use crate::output::{
    assert_adds_up, assert_books_match_files, bytes_written, directory, field, number, verify,
};
use crate::serve::{Controller, SYSTEM};
use serde_json::Value;

/// A run without a limit. The random triggers go on while nobody takes them.
const PROTECTED: &str = "\
[run]
duration_s = 0
[source.emulated]
mean_bytes = 500
rms_bytes = 200
[trigger]
mode = \"poisson\"
rate_hz = 2000
[readout]
count = 2
[builder]
count = 2
check_content = true
[manager]
standby = 1
# No time limit ends before the test does: a machine may be as busy as it wants.
standby_lag_ms = 600000
suspect_after_ms = 600000
";

/// Time after which the event manager is suspected, in `PROTECTED` and where a test needs it to end.
const PATIENT: &str = "suspect_after_ms = 600000";
const IMPATIENT: &str = "suspect_after_ms = 2000";

fn start(scratch: &ScratchDirectory, arguments: &str) -> Running {
    start_with(scratch, PROTECTED, arguments)
}

fn start_with(scratch: &ScratchDirectory, config: &str, arguments: &str) -> Running {
    let config = scratch.file("protected.toml", config);
    let mut running = scratch.start(&format!("run {} --processes --json {arguments}", config.display()));
    running.wait_until_said("evm has a standby, evm1");
    running
}

/// Returns the number of bytes in the event files of the run.
fn written(scratch: &ScratchDirectory) -> u64 {
    bytes_written(&scratch.join("runs/run000001"), |name| name.ends_with(".sheaf"))
}

fn wait_for_work(running: &Running, scratch: &ScratchDirectory) {
    let before = written(scratch);
    wait_until("events are written", || {
        running.assert_runs();
        written(scratch) > before + 100_000
    });
}

/// Ends a run in good order, and checks that nothing is lost and nothing is there twice.
fn end(running: Running, scratch: &ScratchDirectory) -> Value {
    running.signal("INT");
    let ended = running.end().exits(0);
    let summary = ended.json();
    assert_adds_up(&summary);
    assert_books_match_files(scratch, &summary);
    assert_eq!(field(&summary, "kept.all"), true);
    assert_eq!(total(field(&summary, "ledger.dropped")), 0);
    verify(&directory(scratch, &summary), 0);
    summary
}

fn kill_the_event_manager(config: &str, arguments: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start_with(&scratch, config, arguments);
    wait_for_work(&running, &scratch);
    signal(running.wait_for_node("evm", 0), "KILL");
    running.wait_until_said("evm1 takes over from evm");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(number(&summary, "trouble.take_overs"), 1);
    // Triggers in between are counted.
    let vetoed = field(&summary, "ledger.vetoed");
    assert_eq!(number(&summary, "ledger.offered"), number(&summary, "ledger.triggers") + total(vetoed));
}

fn total(counts: &Value) -> u64 {
    counts.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

#[test]
fn the_standby_takes_over_when_the_event_manager_is_killed() {
    kill_the_event_manager(PROTECTED, "--transport tcp");
}

#[test]
fn the_standby_takes_over_through_shared_memory() {
    kill_the_event_manager(PROTECTED, "--transport shm");
}

#[test]
fn the_standby_takes_over_where_datagrams_are_lost() {
    // Nobody but the silence of a process tells that it has ended.
    let config = PROTECTED.replace(PATIENT, IMPATIENT);
    kill_the_event_manager(&config, "--transport udp --outputs 1");
}

#[test]
fn an_event_manager_that_was_frozen_is_refused() {
    let scratch = ScratchDirectory::new();
    let config = PROTECTED.replace(PATIENT, IMPATIENT);
    let mut running = start_with(&scratch, &config, "");
    wait_for_work(&running, &scratch);
    let frozen = running.wait_for_node("evm", 0);
    signal(frozen, "STOP");
    running.wait_until_said("evm1 takes over from evm");
    wait_for_work(&running, &scratch);
    signal(frozen, "CONT");
    running.wait_until_said("evm has no more part in the run: evm1 has taken over");
    running.wait_until_said("evm1 has a standby again, evm");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(number(&summary, "trouble.take_overs"), 1);
}

/// The voters are both readout units and the first builder unit.
#[test]
fn a_voter_that_was_started_again_votes_again() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, "");
    wait_for_work(&running, &scratch);
    let voter = running.wait_for_node("bu0", 0);
    signal(voter, "KILL");
    running.wait_for_node("bu0", voter);
    running.wait_until_said("bu0 (session");
    wait_for_work(&running, &scratch);
    // Two votes of three are enough, and these two have not been lost.
    signal(running.wait_for_node("evm", 0), "KILL");
    running.wait_until_said("evm1 takes over from evm");
    wait_for_work(&running, &scratch);
    end(running, &scratch);
}

#[test]
fn a_run_ends_with_its_last_event_manager() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, "");
    wait_for_work(&running, &scratch);
    // A frozen standby does not take over, and nobody starts an event manager that has nothing to join.
    let standby = running.wait_for_node("evm1", 0);
    signal(standby, "STOP");
    signal(running.wait_for_node("evm", 0), "KILL");
    running.wait_until_said("the other replica of the event manager goes on");
    signal(standby, "KILL");
    running.end().exits(1).says(&["the event manager ended without a report"]);
}

/// Each one that is killed is started again, and joins before the next one is killed.
fn kill_event_managers_in_turn(config: &str, arguments: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start_with(&scratch, config, arguments);
    let first = running.wait_for_node("evm", 0);
    for (killed, other, process) in
        [("evm", "evm1", first), ("evm1", "evm", running.wait_for_node("evm1", 0))]
    {
        wait_for_work(&running, &scratch);
        signal(process, "KILL");
        running.wait_until_said(&format!("{other} takes over from {killed}"));
        running.wait_until_said(&format!("{other} has a standby again, {killed}"));
    }
    wait_for_work(&running, &scratch);
    let second = running.wait_for_node("evm", first);
    signal(second, "KILL");
    // It is started again as soon as the other one has taken over.
    running.wait_for_node("evm", second);
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(number(&summary, "trouble.take_overs"), 3);
    let vetoed = field(&summary, "ledger.vetoed");
    assert_eq!(number(&summary, "ledger.offered"), number(&summary, "ledger.triggers") + total(vetoed));
}

#[test]
fn event_managers_take_over_from_one_another_again_and_again() {
    kill_event_managers_in_turn(PROTECTED, "--transport tcp");
}

#[test]
fn event_managers_take_over_again_and_again_where_datagrams_are_lost() {
    let config = PROTECTED.replace(PATIENT, IMPATIENT);
    kill_event_managers_in_turn(&config, "--transport udp --outputs 1");
}

#[test]
fn a_standby_that_has_died_joins_again() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, "");
    wait_for_work(&running, &scratch);
    signal(running.wait_for_node("evm1", 0), "KILL");
    running.wait_until_said("the run goes on without a standby of its event manager");
    running.wait_until_said("evm has a standby again, evm1");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(field(&summary, "trouble.unprotected"), true);
    assert!(field(&summary, "trouble").get("take_overs").is_none());
}

/// A standby that is frozen is struck off, and is not started again before its process ends.
#[test]
fn the_page_says_whether_the_run_survives_its_event_manager() {
    let scratch = ScratchDirectory::new();
    let config = PROTECTED.replace("standby_lag_ms = 600000", "standby_lag_ms = 2000");
    let mut running = start_with(&scratch, &config, "--page=127.0.0.1:0");
    let page = monitor::address(&mut running);
    let state = || monitor::state(&page);
    let is_unprotected = |state: &Value| monitor::has_alarm(state, "run-unprotected");
    let is_ready = |state: &Value| is_standby_ready(state) && !is_unprotected(state);
    let frozen = running.wait_for_node("evm1", 0);
    wait_until("the standby is ready", || is_ready(&state()));
    signal(frozen, "STOP");
    wait_until("an alarm is raised", || is_unprotected(&state()));
    assert_eq!(field(&state(), "run.standby.ready"), false);
    signal(frozen, "CONT");
    wait_until("the standby is ready again", || is_ready(&state()));
    assert_eq!(number(&state(), "run.standby.take_overs"), 0);
    signal(running.wait_for_node("evm", 0), "KILL");
    wait_until("the standby has taken over", || number(&state(), "run.standby.take_overs") == 1);
    wait_until("the successor has a standby", || is_ready(&state()));
    end(running, &scratch);
}

const NAMES: [&str; 5] = ["daq", "spare", "ru0", "ru1", "bu0"];

/// Returns a configuration of nodes with these names, each of which is started by hand.
fn by_hand() -> String {
    let ports: [u16; 5] = free_ports();
    let roles = ["manager", "manager", "readout", "readout", "builder"];
    let nodes = NAMES.iter().zip(roles).zip(ports).map(|((name, role), port)| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n")
    });
    let head = PROTECTED.replace("count = 2\n", "") + "[transport]\nkind = \"tcp\"\n";
    head.replace("duration_s = 0", "duration_s = 0\nnumber = 1") + &nodes.collect::<String>()
}

#[test]
fn nodes_that_were_started_by_hand_have_a_standby() {
    let scratch = ScratchDirectory::new();
    scratch.file("system.toml", &by_hand());
    let mut running = NAMES.map(|name| scratch.start(&format!("node system.toml {name} --json")));
    running[0].wait_until_said("evm has a standby, evm1");
    wait_for_work(&running[0], &scratch);
    // Without effect, also later.
    running[1].signal("USR2");
    running[0].signal("USR2");
    running[1].wait_until_said("evm has stepped down, and evm1 takes over");
    wait_for_work(&running[1], &scratch);
    assert!(!running[1].said().contains("does not step down"));
    running[1].signal("USR2");
    running[1].wait_until_said("evm1 does not step down: its standby is not ready");
    let [retired, mut successor, others @ ..] = running;
    retired.end();
    let mut back = scratch.start("node system.toml daq --json");
    successor.wait_until_said("evm1 has a standby again, evm");
    successor.signal("KILL");
    back.wait_until_said("evm takes over from evm1");
    successor.end();
    wait_for_work(&back, &scratch);
    back.signal("INT");
    let summary = back.end().exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "trouble.take_overs"), 2);
    others.into_iter().for_each(|node| _ = node.end().exits(0));
    verify(&scratch.join("runs/run000001"), 0);
}

/// Both event managers are killed, so no node knows which events the run has accepted.
#[test]
fn event_managers_do_not_go_on_with_a_run_that_none_of_them_knows() {
    let scratch = ScratchDirectory::new();
    scratch.file("system.toml", &by_hand());
    let start = |name: &str| scratch.start(&format!("node system.toml {name} --json"));
    let mut running = NAMES.map(start);
    running[0].wait_until_said("evm has a standby, evm1");
    wait_for_work(&running[0], &scratch);
    for node in running {
        node.signal("KILL");
        node.end();
    }
    let standby = start("spare");
    let first = start("daq");
    first.end().exits(1).says(&["run000001 already has a run, and no event manager of it answers"]);
    standby.signal("INT");
    standby.end();
}

/// Begins a controlled run with a standby.
fn controlled() -> Controller {
    let standby = PROTECTED.split_once("[manager]\n").expect("it has that table").1;
    let controller = Controller::begin(&format!("{SYSTEM}[manager]\n{standby}"));
    controller.ctl("start").exits(0);
    controller
}

fn state_of(controller: &Controller) -> Value {
    controller.http("GET", "/api/v1/state", &[], "").1
}

fn is_standby_ready(state: &Value) -> bool {
    state.pointer("/run/standby/ready") == Some(&Value::Bool(true))
}

/// Its standby takes over, and it joins: twice, so that both replicas are started again.
#[test]
fn an_operator_has_the_event_manager_started_again_and_nothing_is_lost() {
    let controller = controlled();
    for _ in 0..2 {
        wait_until("the standby is ready", || is_standby_ready(&state_of(&controller)));
        controller.ctl("recover evm1").exits(1).says(&["evm1 is a replica", "name the event manager"]);
        controller.ctl("recover evm --timeout 300").exits(0);
        let before = controller.triggers_so_far();
        wait_until("triggers are taken", || controller.triggers_so_far() > before + 20.0);
    }
    // Whichever acts follows further requests.
    controller.ctl("pause").exits(0);
    controller.ctl("resume").exits(0);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    let record = &controller.runs()[0];
    assert_eq!(record["state"], "good", "{record:#}");
    controller.place.sheaf("verify runs/run000001").exits(0);
    let log =
        std::fs::read_to_string(controller.place.join("runs/run000001/log.jsonl")).expect("it has a log");
    assert_eq!(log.matches("stepped-down").count(), 2, "{log}");
}

/// Two of three voters have forgotten their votes at the same time, so that nobody can take over any more.
#[test]
fn a_standby_is_not_ready_while_no_majority_could_note_that_it_takes_over() {
    let controller = controlled();
    let state = || state_of(&controller);
    wait_until("the standby is ready", || is_standby_ready(&state()));
    wait_until("all nodes have published", || monitor::have_all_published(&state()));
    let voters = ["ru0", "ru1"].map(|voter| controller.node(1, voter));
    // Neither answers while the other one comes back.
    voters.iter().for_each(|voter| signal(*voter, "STOP"));
    voters.iter().for_each(|voter| signal(*voter, "KILL"));
    let is_back = |state: &Value, voter: &str| {
        let mut nodes = field(state, "nodes").as_array().expect("a list").iter();
        nodes.any(|node| {
            field(node, "name") == voter && field(node, "up") == true && number(node, "restarts") == 1
        })
    };
    wait_until("both are back", || ["ru0", "ru1"].iter().all(|voter| is_back(&state(), voter)));
    wait_until("the standby is not ready", || !is_standby_ready(&state()));
    wait_until("an alarm is raised", || monitor::has_alarm(&state(), "run-unprotected"));
    controller.ctl("recover evm").exits(1).says(&["the standby of evm is not ready"]);
    assert!(!is_standby_ready(&state()), "it stays so");
    controller.ctl("stop");
}

#[test]
fn a_standby_needs_a_run_that_it_can_follow() {
    let scratch = ScratchDirectory::new();
    let config = PROTECTED.replace("standby = 1", "standby = 1\nvoters = 2");
    let config = config.replace("duration_s = 0", "duration_s = 0\ncontinuous = true");
    scratch.file("protected.toml", &config);
    scratch
        .sheaf("run protected.toml --processes")
        .exits(1)
        .says(&["it must be odd: 1, 3 or 5", "a run with a standby hands over to no other run"]);
}
