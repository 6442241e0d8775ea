//! `trigger.mode = "network"`: a trigger supervisor gives the triggers of a run, and is held back while it is busy.

use crate::child::{Running, ScratchDirectory};
use crate::filters::compile;
use crate::output::{assert_books_match_files, field, number};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// A run with a trigger supervisor, more keys of `[trigger.network]` and more tables, and the port at which it listens.
pub(crate) fn start(scratch: &ScratchDirectory, network: &str, more: &str, flags: &str) -> (Running, u16) {
    start_with(scratch, [network, "", more], flags)
}

/// The same with more keys of `[readout]` in between.
fn start_with(
    scratch: &ScratchDirectory,
    [network, readout, more]: [&str; 3],
    flags: &str,
) -> (Running, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let is_fed = network.contains("kind = \"feed\"");
    let sizes = if is_fed { "" } else { "[source.emulated]\nmean_bytes = 100\nrms_bytes = 0\n" };
    let config = format!(
        "[trigger]\nmode = \"network\"\nqueue_events = 1000\n[trigger.network]\nlisten = \"127.0.0.1:{port}\"\n\
         latency_us = 20000\nmax_rate_hz = 10000\n{network}\n[readout]\ncount = 2\n{readout}\n{sizes}{more}"
    );
    scratch.file("run.toml", &config);
    let mut run = scratch.start(&format!("run run.toml --json {flags}"));
    run.wait_until_said("waiting for a trigger supervisor");
    (run, port)
}

pub(crate) fn supervise(scratch: &ScratchDirectory, port: u16, flags: &str) -> Running {
    scratch.start(&format!("emulate-trigger 127.0.0.1:{port} --json {flags}"))
}

/// Both sides have counted the same, and nothing was lost.
pub(crate) fn assert_agree(summary: &Value, account: &Value) {
    let link = |key: &str| number(summary, &format!("trigger_link.{key}"));
    assert_eq!(field(account, "agrees"), true, "{account}");
    assert_eq!(field(summary, "ledger.balanced"), true, "{summary}");
    assert_eq!(number(account, "sent"), link("received"));
    assert_eq!(link("received"), link("accepted") + link("outside"));
    assert_eq!(link("accepted"), number(summary, "ledger.triggers"));
    assert_eq!(link("lost") + link("repeated") + link("out_of_order"), 0);
    assert_eq!(link("supervisor.offered"), number(account, "offered"));
    let busy = |value: &Value, list: &str, keys: [&str; 3]| -> Vec<[Value; 3]> {
        let lines = field(value, list).as_array().expect("a list").clone();
        lines.iter().map(|line| keys.map(|key| line[key].clone())).collect()
    };
    let ours = busy(summary, "trigger_link.busy", ["cause", "intervals", "vetoed"]);
    assert_eq!(ours, busy(account, "busy", ["cause", "intervals", "vetoed"]));
    let supervisor =
        busy(summary, "trigger_link.busy", ["cause", "supervisor_intervals", "supervisor_busy_ns"]);
    assert_eq!(supervisor, busy(account, "busy", ["cause", "intervals", "busy_ns"]));
}

/// Returns the configuration of a builder unit whose filter waits for a file, and the path of that file.
pub(crate) fn stalling_filter(scratch: &ScratchDirectory) -> (String, PathBuf) {
    compile("crates/sheaf/tests/command/waiting_filter.c", &scratch.join("libwaiting.so"));
    let go = scratch.join("go");
    let configuration = format!(
        "[builder]\ncount = 1\nslots = 32\n\
         [filter]\nkind = \"library\"\npath = \"libwaiting.so\"\nparameters = \"{}\"\n",
        go.display()
    );
    (configuration, go)
}

/// Sends triggers to a run whose filter stalls until busy is sent for this cause, and then judges all events. Returns the summary and
/// the account of the supervisor, which agree, with every event stored.
pub(crate) fn stall_until_busy(
    scratch: &ScratchDirectory,
    (run, port): (Running, u16),
    go: &Path,
    (cause, flags): (&str, &str),
) -> (Value, Value) {
    let mut trigger = supervise(scratch, port, &format!("--rate 5000 --poisson --triggers 5000 {flags}"));
    trigger.wait_until_said(&format!("busy: {cause}"));
    std::fs::write(go, "").expect("written");
    let account = trigger.end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_agree(&summary, &account);
    assert_books_match_files(scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), 5_000, "{summary}");
    (summary, account)
}

#[test]
fn a_builder_that_stalls_holds_the_supervisor_back_and_no_trigger_is_lost() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let (stalls, go) = stalling_filter(&scratch);
        let (run, port) = start(&scratch, "", &stalls, flags);
        let (summary, account) = stall_until_busy(&scratch, (run, port), &go, ("builder_credit", ""));
        assert!(number(&account, "busy_vetoed") > 0, "triggers happened in the meantime");
        let vetoed = field(&summary, "ledger.vetoed").as_object().expect("by cause").values();
        assert_eq!(vetoed.filter_map(Value::as_u64).sum::<u64>(), number(&account, "busy_vetoed"));
        assert!(number(&summary, "ledger.time.dead_ns.builder_credit") > 0);
    }
}

#[test]
fn readout_units_whose_memory_fills_hold_the_supervisor_back_and_are_named() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let (stalls, go) = stalling_filter(&scratch);
        // Their memory is short long before the queue of 1,000 triggers is.
        let (run, port) = start_with(&scratch, ["", "buffer_events = 300", &stalls], flags);
        let (summary, account) = stall_until_busy(&scratch, (run, port), &go, ("readout_memory", ""));
        assert_eq!(number(&summary, "events_incomplete"), 0, "{flags}");
        let busy = field(&account, "busy").as_array().expect("a list");
        for line in busy.iter().filter(|line| line["cause"] == "readout_memory") {
            let culprit = line["culprit"].as_str().expect("a readout unit");
            assert!(["ru0", "ru1"].contains(&culprit), "{account}");
        }
        assert!(number(&account, "busy_latency.count") > 0, "{account}");
        assert!(number(&summary, "ledger.time.dead_ns.readout_memory") > 0);
        // Where busy comes late, because a process had no processor, triggers wait outside the queue and are accepted all the same. None does
        // within `latency_us`, which a property of the link holds.
        let link = |what: &str| number(&summary, &format!("trigger_link.{what}"));
        assert_eq!(link("accepted"), link("received"), "{summary}");
    }
}

#[test]
fn busy_is_written_to_a_file_and_passed_to_a_command() {
    let scratch = ScratchDirectory::new();
    let config = "[run]\nevents = 500\n[trigger]\nmode = \"fixed\"\nrate_hz = 5000.0\n\
                  busy_file = \"line\"\nbusy_command = [\"sh\", \"-c\", \"echo $1 >> states\", \"busy\"]\n";
    scratch.file("run.toml", config);
    scratch.sheaf("run run.toml").exits(0);
    let states = std::fs::read_to_string(scratch.join("states")).expect("written");
    // Busy until the start and from the end of triggers on. Whether a slow machine runs the command in between is open.
    assert!(states.starts_with("1\n") && states.ends_with("1\n"), "{states}");
    assert_eq!(std::fs::read_to_string(scratch.join("line")).expect("written"), "1");
    scratch.file("run.toml", "[trigger]\nbusy_file = \"absent/line\"\n");
    let refused = scratch.sheaf("run run.toml").exits(1);
    assert!(refused.stderr.contains("trigger.busy_file"), "{}", refused.stderr);
}

#[test]
fn a_run_with_an_end_stops_its_supervisor() {
    let arguments = "--rate 3000 --dead-us 100 --bucket 8,4000";
    // A slow machine may start the supervisor only after a short run has ended.
    let reaches = |seconds: &f64| {
        let scratch = ScratchDirectory::new();
        let (run, port) = start(&scratch, "", &format!("[run]\nduration_s = {seconds}\n"), "");
        let supervisor = supervise(&scratch, port, arguments).end();
        let summary = run.end();
        let is_too_late = |text: &&str| supervisor.stderr.contains(*text);
        if ["Connection refused", "the run has ended"].iter().any(is_too_late) {
            return false;
        }
        assert_agree(&summary.exits(0).json(), &supervisor.exits(0).json());
        true
    };
    assert!([0.5, 4.0, 32.0, 120.0].iter().any(reaches), "the supervisor never reached the run");

    let scratch = ScratchDirectory::new();
    let (run, port) = start(&scratch, "", "[run]\nevents = 700\n", "");
    let account = supervise(&scratch, port, arguments).end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_agree(&summary, &account);
    assert_eq!(number(&summary, "ledger.stored"), 700);
}

#[test]
fn ids_that_a_supervisor_leaves_out_are_counted_and_its_events_are_whole() {
    let scratch = ScratchDirectory::new();
    let (run, port) = start(&scratch, "", "", "");
    let account =
        supervise(&scratch, port, "--rate 5000 --triggers 1000 --skip-every 100").end().exits(0).json();
    let summary = run.end().json();
    assert_agree(&summary, &account);
    assert_eq!(number(&summary, "ledger.stored"), 1_000);
    assert_eq!(number(&summary, "events_incomplete"), 0);
    assert_eq!(number(&summary, "trigger_link.skipped_ids"), 9, "the last one is followed by nothing");
}

#[test]
fn a_supervisor_that_dies_is_waited_for_strangers_are_refused_and_ctrl_c_ends_the_run() {
    let scratch = ScratchDirectory::new();
    let (mut run, port) = start(&scratch, "", "", "");
    let mut first = supervise(&scratch, port, "--rate 2000 --name TLU");
    first.wait_until_said("the run takes triggers");
    let second = supervise(&scratch, port, "--name other").end().exits(1);
    assert!(second.stderr.contains("another trigger supervisor is connected: TLU"), "{}", second.stderr);
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: sheaf\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).expect("an answer and the end");
    assert!(String::from_utf8_lossy(&answer).contains("invalid message"), "{answer:?}");
    first.signal("KILL");
    first.end();
    run.wait_until_said("the trigger supervisor `TLU` has gone; the run waits for one");
    let account = supervise(&scratch, port, "--rate 2000 --name TLU");
    run.wait_until_said("is connected");
    let mut account = account;
    account.wait_until_said("the run takes triggers");
    run.signal("INT");
    let account = account.end().exits(0).json();
    let summary = run.end().json();
    assert_eq!(field(&account, "agrees"), true);
    assert_eq!(field(&summary, "ledger.balanced"), true, "{summary}");
    assert_eq!(number(&summary, "trigger_link.connections"), 2);
    assert_eq!(number(&summary, "trigger_link.refused.supervisor_taken"), 1);
    assert_eq!(number(&summary, "trigger_link.refused.invalid_message"), 1);
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "trigger_link.accepted"));
    assert!(number(&summary, "ledger.time.dead_ns.no_supervisor") > 0);
}

#[test]
fn a_run_without_a_supervisor_ends_with_ctrl_c() {
    let scratch = ScratchDirectory::new();
    let (run, _) = start(&scratch, "", "", "");
    run.signal("INT");
    let summary = run.end().json();
    assert_eq!(number(&summary, "ledger.triggers"), 0);
}

#[test]
fn a_configuration_without_address_or_room_is_refused() {
    let scratch = ScratchDirectory::new();
    scratch.file("a.toml", "[trigger]\nmode = \"network\"\n");
    let refused = scratch.sheaf("run a.toml").exits(1);
    assert!(refused.stderr.contains("`trigger.network.listen` is not set"), "{}", refused.stderr);
    scratch.file(
        "b.toml",
        "[trigger]\nmode = \"network\"\nqueue_events = 100\n[trigger.network]\nlisten = \"127.0.0.1:7300\"\n",
    );
    let refused = scratch.sheaf("run b.toml").exits(1);
    assert!(refused.stderr.contains("201 triggers may be in flight"), "{}", refused.stderr);
}
