//! A readout unit dies while programs feed it, and is started again.

use crate::child::{Running, ScratchDirectory};
use crate::feed::{connect, crc32, payload, send};
use crate::nodes::free_ports;
use crate::output::{assert_adds_up, dump, field, incomplete_events, number, verify};
use sheaf_feed::SourceClient;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Number of events that the first session of the readout unit accepts.
const BEFORE: u64 = 400;

/// Number of these events that the other readout unit has as well, so that they can be built.
const COMPLETE: u64 = 200;

/// Number of events of the run.
const ALL: u64 = 800;

/// The builder unit has slots for few events: the others are held by readout units. Source 0 belongs to the readout unit that lives, sources 1 and 2 to the one that dies.
fn start(scratch: &ScratchDirectory, name: &str) -> Running {
    scratch.start(&format!("node run.toml {name} --json"))
}

fn configure(scratch: &ScratchDirectory) {
    let [evm, ru0, ru1, bu0] = free_ports();
    let node = |name: &str, role: &str, port: u16, more: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{port}\"\n{more}\n")
    };
    let head = "[run]\nnumber = 1\nduration_s = 0\n[source]\nkind = \"feed\"\n[transport]\nkind = \"tcp\"\n\
        [readout]\nmerge_timeout_ms = 50\n[manager]\nstart_timeout_ms = 60000\n[protocol]\nheartbeat_ms = 50\n\
        [builder]\nslots = 32\nevent_timeout_ms = 60000\n";
    let nodes = [
        node("evm", "manager", evm, ""),
        node("ru0", "readout", ru0, "sources = [0]"),
        node("ru1", "readout", ru1, "sources = [1, 2]"),
        node("bu0", "builder", bu0, ""),
    ];
    scratch.file("run.toml", &(head.to_owned() + &nodes.concat()));
}

/// Points of the run at which the programs and the test wait for each other.
struct Steps {
    accepted: Sender<()>,
    reconnected: Sender<()>,
}

/// Feeds the readout unit that dies. All that its first session accepts is acknowledged before.
fn feed_the_dying(mut client: SourceClient, steps: &Steps, goes_on: &Receiver<bool>) {
    assert!(client.wait_for_start(None).expect("connected"));
    let send_both = |client: &mut SourceClient, event| {
        send(client, 0, 1, event);
        send(client, 1, 2, event);
    };
    (0..BEFORE).for_each(|event| send_both(&mut client, event));
    assert!(client.drain().expect("connected"));
    steps.accepted.send(()).expect("the test waits");
    while client.reconnections() == 0 {
        client.wait(Duration::from_millis(20)).expect("it connects again");
    }
    steps.reconnected.send(()).expect("the test waits");
    if goes_on.recv().expect("the test decides") {
        (BEFORE..ALL).for_each(|event| send_both(&mut client, event));
        client.end(0).expect("connected");
        client.end(1).expect("connected");
        assert!(client.drain().expect("connected"));
    }
}

/// Kills a readout unit that has accepted fragments which the others have not, and starts it again. Its program connects again and
/// goes on, or has nothing more to give. Returns the directory and the summary.
fn restart_a_readout_unit(goes_on: bool) -> (ScratchDirectory, serde_json::Value) {
    let scratch = ScratchDirectory::new();
    configure(&scratch);
    let others = ["ru0", "bu0"].map(|name| start(&scratch, name));
    let (manager, victim) = (start(&scratch, "evm"), start(&scratch, "ru1"));
    let mut living = connect(&scratch, 0, &[0]);
    let dying = connect(&scratch, 1, &[1, 2]);
    let (accepted, is_accepted) = channel();
    let (reconnected, is_reconnected) = channel();
    let (decide, decision) = channel();
    let steps = Steps { accepted, reconnected };
    let again = std::thread::scope(|scope| {
        scope.spawn(move || feed_the_dying(dying, &steps, &decision));
        assert!(living.wait_for_start(None).expect("connected"));
        (0..COMPLETE).for_each(|event| send(&mut living, 0, 0, event));
        is_accepted.recv().expect("it is alive");
        victim.signal("KILL");
        victim.end();
        let again = start(&scratch, "ru1");
        is_reconnected.recv().expect("it is alive");
        (COMPLETE..BEFORE).for_each(|event| send(&mut living, 0, 0, event));
        if goes_on {
            (BEFORE..ALL).for_each(|event| send(&mut living, 0, 0, event));
            living.end(0).expect("connected");
        }
        assert!(living.drain().expect("connected"));
        if !goes_on {
            manager.signal("INT");
        }
        decide.send(goes_on).expect("it waits");
        again
    });
    let ended = manager.end();
    others.into_iter().chain([again]).for_each(|node| drop(node.end().exits(0)));
    (scratch, ended.json())
}

/// Checks the books and the files. Returns the missing sources of the events.
fn check(
    scratch: &ScratchDirectory,
    summary: &serde_json::Value,
) -> BTreeMap<u64, BTreeMap<u32, &'static str>> {
    assert_adds_up(summary);
    let run = scratch.join("runs/run000001");
    assert_eq!(number(&verify(&run, 0), "events"), number(summary, "ledger.stored"));
    let lines = dump(&run);
    let parts: BTreeSet<_> = lines.iter().map(|line| (line.event, line.source)).collect();
    assert_eq!(parts.len(), lines.len(), "no fragment is there twice");
    for line in lines {
        assert_eq!(line.crc32, crc32(&payload(line.source as usize, line.event)));
    }
    assert_eq!(number(summary, "trouble.restarted_readouts"), 1);
    assert_eq!(field(summary, "ledger.dropped").get("stopped"), None, "no event waits for ever: {summary:#}");
    incomplete_events(&run)
}

/// The program was back, or not yet, when the readout unit ended the wait.
fn is_lost_by_restart(reason: &&str) -> bool {
    ["readout_restarted", "source_gone"].contains(reason)
}

#[test]
fn a_readout_unit_is_started_again_and_its_program_goes_on() {
    let (scratch, summary) = restart_a_readout_unit(true);
    let missing = check(&scratch, &summary);
    assert_eq!(number(&summary, "ledger.stored"), ALL);
    assert!(!missing.is_empty());
    for (event, sources) in missing {
        assert!(sources.keys().all(|source| *source > 0), "event {event}: {sources:?}");
        // The program may have ended its sources before the event was requested.
        let is_explained =
            |reason: &&str| ["source_ended", "source_skipped"].contains(reason) || is_lost_by_restart(reason);
        assert!(sources.values().all(is_explained), "event {event}: {sources:?}");
    }
}

/// Without a fragment from its program, the readout unit cannot know which events the program lacks.
#[test]
fn events_that_only_the_dead_session_had_do_not_wait_for_a_program_that_has_given_all() {
    let (scratch, summary) = restart_a_readout_unit(false);
    let missing = check(&scratch, &summary);
    assert!(number(&summary, "ledger.stored") >= COMPLETE);
    assert!(!missing.is_empty() && missing.keys().all(|event| *event < BEFORE));
    for (event, sources) in missing {
        assert!(sources.keys().eq([&1, &2]), "event {event}: {sources:?}");
        assert!(sources.values().all(is_lost_by_restart), "event {event}: {sources:?}");
    }
}
