//! `trigger.network.payload_source`: the payload of each trigger is a fragment of its event.

use crate::child::{Running, ScratchDirectory, signal};
use crate::feed::{connect, crc32, send};
use crate::output::{assert_books_match_files, directory, dump, field, number};
use crate::triggers::{assert_agree, start, supervise};
use serde_json::Value;
use std::path::Path;

/// Returns the payload that `sheaf emulate-trigger --payload` gives to a trigger.
fn payload(event: u64, length: usize) -> Vec<u8> {
    event.to_le_bytes().into_iter().chain((8..length).map(|at| at as u8)).collect()
}

/// Each event has a fragment of `source` with the payload of its trigger.
fn assert_payloads(directory: &Path, source: u32, events: u64, length: usize) {
    let lines: Vec<_> = dump(directory).into_iter().filter(|line| line.source == source).collect();
    assert_eq!(lines.len() as u64, events);
    for line in &lines {
        assert_eq!(line.crc32, crc32(&payload(line.event, length)), "event {}", line.event);
    }
}

fn end(trigger: Running, run: Running) -> (Value, Value) {
    let account = trigger.end().exits(0).json();
    let summary = run.end().exits(0).json();
    assert_agree(&summary, &account);
    (summary, account)
}

#[test]
fn the_payload_of_each_trigger_is_a_fragment_of_its_event() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        // Source 2 is alone on its readout unit in the second case, and beside an emulated source in the first.
        let count = if flags.is_empty() { 4 } else { 3 };
        let payloads = format!("payload_source = 2\n[builder]\ncount = 2\n[source]\ncount = {count}\n");
        let (run, port) = start_with(&scratch, &payloads, flags);
        let trigger = supervise(&scratch, port, "--rate 5000 --triggers 2000 --payload 100");
        let (summary, _) = end(trigger, run);
        assert_eq!(number(&summary, "ledger.stored"), 2_000, "{flags}");
        assert_eq!(number(&summary, "events_incomplete"), 0, "{flags}");
        assert_books_match_files(&scratch, &summary);
        assert_payloads(&directory(&scratch, &summary), 2, 2_000, 100);
    }
}

/// Starts a run with more keys of `[trigger.network]`, and more tables.
fn start_with(scratch: &ScratchDirectory, network: &str, flags: &str) -> (Running, u16) {
    start(scratch, network, "", flags)
}

#[test]
fn programs_and_triggers_feed_the_same_readout_unit_and_triggers_without_payload_give_empty_fragments() {
    let scratch = ScratchDirectory::new();
    let network = "payload_source = 1\n[source]\nkind = \"feed\"\ncount = 2\n";
    let (run, port) = start_with(&scratch, network, "");
    let mut trigger = supervise(&scratch, port, "--rate 3000 --triggers 500");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut board = connect(&scratch, 0, &[0]);
            assert!(board.wait_for_start(None).expect("connected"));
            (0..500).for_each(|event| send(&mut board, 0, 0, event));
            board.end(0).expect("connected");
            assert!(board.drain().expect("connected"));
        });
        trigger.wait_until_said("the run takes triggers");
    });
    let (summary, _) = end(trigger, run);
    assert_eq!(number(&summary, "ledger.stored"), 500);
    let lines: Vec<_> =
        dump(&directory(&scratch, &summary)).into_iter().filter(|line| line.source == 1).collect();
    assert_eq!((lines.len(), lines.iter().map(|line| line.bytes).sum()), (500, 0_u64));
}

#[test]
fn a_frozen_readout_unit_fills_the_queue_of_payloads_and_no_trigger_is_lost() {
    let scratch = ScratchDirectory::new();
    let network = "payload_source = 1\npayload_maximum_bytes = 4096\n\
                   [source]\ncount = 2\nmemory_bytes = 65536\nblock_bytes = 4096\n\
                   [builder]\ncount = 1\nslots = 512\n";
    let (run, port) = start_with(&scratch, network, "--processes");
    let mut trigger = supervise(&scratch, port, "--rate 4000 --poisson --triggers 5000 --payload 4096");
    trigger.wait_until_said("the run takes triggers");
    let frozen = run.wait_for_node("ru1", 0);
    signal(frozen, "STOP");
    trigger.wait_until_said("busy: readout_memory");
    signal(frozen, "CONT");
    let (summary, account) = end(trigger, run);
    assert_eq!(number(&summary, "ledger.stored"), 5_000);
    assert_eq!(number(&summary, "events_incomplete"), 0);
    assert_payloads(&directory(&scratch, &summary), 1, 5_000, 4_096);
    let busy = field(&account, "busy").as_array().expect("a list");
    let line = busy.iter().find(|line| line["cause"] == "readout_memory").expect("it was busy");
    assert_eq!(line["culprit"], "ru1");
    assert!(number(&summary, "ledger.time.dead_ns.readout_memory") > 0);
}

#[test]
fn payloads_that_the_run_does_not_take_are_refused() {
    let scratch = ScratchDirectory::new();
    let (run, port) = start_with(&scratch, "", "");
    let refused = supervise(&scratch, port, "--payload 10").end().exits(1);
    assert!(refused.stderr.contains("payloads of at most 0 bytes"), "{}", refused.stderr);
    run.signal("INT");
    run.end();
    scratch.file("a.toml", "[trigger.network]\npayload_source = 1\n");
    let refused = scratch.sheaf("run a.toml").exits(1);
    assert!(refused.stderr.contains("source 1 has the payloads of triggers"), "{}", refused.stderr);
    scratch.file(
        "b.toml",
        "[trigger]\nmode = \"network\"\n[trigger.network]\nlisten = \"127.0.0.1:7300\"\npayload_source = 9\n",
    );
    let refused = scratch.sheaf("run b.toml").exits(1);
    assert!(refused.stderr.contains("source 9, for the payloads of triggers"), "{}", refused.stderr);
}
