//! Readout units with mirrors: which are killed, frozen, or gone.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::monitor;
use crate::output::{
    assert_adds_up, assert_books_match_files, bytes_written, directory, field, number, verify,
};
use serde_json::{Value, json};

/// A run without a limit.
const MIRRORED: &str = "\
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
protect = \"mirror\"
# No time limit ends before the test does: a machine may be as busy as it wants.
suspect_after_ms = 600000
mirror_lag_ms = 600000
[builder]
count = 2
check_content = true
";

const PATIENT: &str = "suspect_after_ms = 600000";
const IMPATIENT: &str = "suspect_after_ms = 2000";

fn start(scratch: &ScratchDirectory, config: &str, arguments: &str) -> Running {
    let config = scratch.file("mirrored.toml", config);
    let mut running = scratch.start(&format!("run {} --processes --json {arguments}", config.display()));
    running.wait_until_said("ru0 has a mirror, mir0");
    running.wait_until_said("ru1 has a mirror, mir1");
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

/// Ends a run in good order, and checks that nothing is lost, incomplete, or there twice.
fn end(running: Running, scratch: &ScratchDirectory) -> Value {
    running.signal("INT");
    let ended = running.end().exits(0);
    let summary = ended.json();
    assert_adds_up(&summary);
    assert_books_match_files(scratch, &summary);
    assert_eq!(field(&summary, "kept.all"), true);
    assert_eq!(number(&summary, "events_incomplete"), 0);
    verify(&directory(scratch, &summary), 0);
    summary
}

fn kill_a_readout_unit(config: &str, arguments: &str) {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, config, arguments);
    wait_for_work(&running, &scratch);
    signal(running.wait_for_node("ru1", 0), "KILL");
    running.wait_until_said("mir1 acts for ru1");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(*field(&summary, "trouble.mirrored"), json!(["ru1"]));
    assert_eq!(number(&summary, "trouble.restarted_readouts"), 0);
}

#[test]
fn a_mirror_takes_over_when_its_readout_unit_is_killed() {
    kill_a_readout_unit(MIRRORED, "--transport tcp");
}

#[test]
fn a_mirror_takes_over_through_shared_memory() {
    kill_a_readout_unit(MIRRORED, "--transport shm");
}

#[test]
fn a_mirror_takes_over_where_fragments_announce_the_triggers() {
    let config = MIRRORED.replace("mode = \"poisson\"\nrate_hz = 2000", "mode = \"seen\"");
    let config = config.replace("rms_bytes = 200", "rms_bytes = 200\nrate_hz = 2000");
    kill_a_readout_unit(&config, "--outputs 1");
}

#[test]
fn a_mirror_takes_over_in_a_run_with_a_standby() {
    kill_a_readout_unit(MIRRORED, "--standby 1");
}

#[test]
fn a_readout_unit_that_was_frozen_is_refused() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, &MIRRORED.replace(PATIENT, IMPATIENT), "");
    wait_for_work(&running, &scratch);
    let frozen = running.wait_for_node("ru1", 0);
    signal(frozen, "STOP");
    running.wait_until_said("mir1 acts for ru1");
    wait_for_work(&running, &scratch);
    signal(frozen, "CONT");
    running.wait_until_said("ru1 has no more part in the run: another node acts in its place");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    // On a busy machine, the other one may have been silent as well.
    let mirrored = field(&summary, "trouble.mirrored").as_array().expect("a list");
    assert!(mirrored.contains(&json!("ru1")), "{mirrored:?}");
}

#[test]
fn a_readout_unit_goes_on_without_a_mirror_that_has_died() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, MIRRORED, "");
    wait_for_work(&running, &scratch);
    signal(running.wait_for_node("mir0", 0), "KILL");
    running.wait_until_said("ru0 goes on without mir0");
    wait_for_work(&running, &scratch);
    let summary = end(running, &scratch);
    assert_eq!(number(&summary, "trouble.lost_mirrors"), 1);
    assert!(field(&summary, "trouble").get("mirrored").is_none());
}

/// The fragments that both held are lost, as without a mirror. They are started again, and are protected again.
#[test]
fn a_readout_unit_that_dies_with_its_mirror_is_started_again() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, MIRRORED, "");
    wait_for_work(&running, &scratch);
    let (unit, mirror) = (running.wait_for_node("ru1", 0), running.wait_for_node("mir1", 0));
    // The mirror first, so that it does not take over.
    for node in [mirror, unit] {
        signal(node, "STOP");
    }
    for node in [mirror, unit] {
        signal(node, "KILL");
    }
    running.wait_until_said("ru1 restarted; the fragments that it held are lost");
    wait_for_work(&running, &scratch);
    let unit = running.wait_for_node("ru1", unit);
    signal(unit, "KILL");
    running.wait_until_said("mir1 acts for ru1");
    wait_for_work(&running, &scratch);
    running.signal("INT");
    let summary = running.end().json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "trouble.restarted_readouts"), 1);
    assert_eq!(*field(&summary, "trouble.mirrored"), json!(["ru1"]));
}

/// Its figures go on, and the page says that the unit has no mirror any more.
#[test]
fn a_mirror_is_on_the_page_in_place_of_its_readout_unit() {
    let scratch = ScratchDirectory::new();
    let mut running = start(&scratch, MIRRORED, "--page=127.0.0.1:0");
    let page = monitor::address(&mut running);
    let state = || monitor::state(&page);
    let unmirrored = |state: &Value| field(state, "run.unmirrored").clone();
    wait_until("the event manager publishes", || unmirrored(&state()) == json!([]));
    let received = || {
        let found = state();
        let nodes = field(&found, "nodes").as_array().expect("a list").clone();
        let names: Vec<_> = nodes.iter().map(|node| field(node, "name").clone()).collect();
        assert_eq!(names, ["ru0", "ru1", "bu0", "bu1", "evm"], "a mirror is not there by itself");
        number(&found, "fragments.received")
    };
    let before = received();
    wait_until("fragments are received", || received() > before);
    signal(running.wait_for_node("ru1", 0), "KILL");
    wait_until("its readout unit has no mirror any more", || unmirrored(&state()) == json!(["ru1"]));
    running.wait_until_said("ru1 ended");
    let is_up = |state: &Value| {
        let nodes = field(state, "nodes").as_array().expect("a list");
        nodes.iter().any(|node| field(node, "name") == "ru1" && field(node, "up") == true)
    };
    wait_until("the mirror publishes as ru1", || is_up(&state()));
    let before = received();
    wait_until("fragments are received again", || received() > before + 1_000);
    let found = state();
    assert!(monitor::has_alarm(&found, "unit-unprotected"), "{found:#}");
    assert!(!monitor::has_alarm(&found, "node-gone"), "{found:#}");
    end(running, &scratch);
}
