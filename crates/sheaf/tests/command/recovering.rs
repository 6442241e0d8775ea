//! Nodes of a run that are excluded, included and started again by an operator.

use crate::child::{signal, wait_until};
use crate::serve::{Controller, SYSTEM};
use serde_json::Value;

/// Nodes that are not simply included, and whether each is excluded.
fn nodes(status: &Value) -> Vec<(String, bool)> {
    let nodes = status["nodes"].as_array().expect("a list of nodes").iter();
    nodes.map(|it| (it["node"].as_str().unwrap().to_owned(), it["excluded"] == true)).collect()
}

fn wait_for_triggers(controller: &Controller) {
    let before = controller.triggers_so_far();
    wait_until("triggers are taken", || controller.triggers_so_far() > before + 20.0);
}

/// Events wait for a readout unit that is frozen, since it may resume. An operator who knows better has it started again: its emulated sources
/// deliver again what it held, so no event is lost or incomplete.
#[test]
fn a_frozen_readout_unit_is_started_again_and_nothing_is_lost() {
    let patient = "[manager]\npatience = 100\n";
    let controller = Controller::begin(&format!("{SYSTEM}{patient}"));
    controller.ctl("recover ru1").exits(1).says(&["there is no run"]);
    controller.ctl("start").exits(0);
    wait_for_triggers(&controller);
    let frozen = controller.node(1, "ru1");
    signal(frozen, "STOP");
    controller.ctl("recover ru7").exits(1).says(&["there is no node `ru7`"]);
    controller.ctl("recover evm").exits(1).says(&["keeps the books"]);
    controller.ctl("recover ru1 --timeout 300").exits(0);
    assert!(nodes(&controller.status()).is_empty());
    assert_ne!(controller.node(1, "ru1"), frozen);
    wait_for_triggers(&controller);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    let record = &controller.runs()[0];
    assert_eq!(record["state"], "good", "{record:#}");
    controller.place.sheaf("verify runs/run000001").exits(0);
}

/// A node that left is not started again by itself.
#[test]
fn nodes_that_left_are_excluded_or_started_again() {
    let patient = "[manager]\npatience = 100\n[incomplete]\npolicy = \"wait\"\n";
    let mut controller = Controller::begin(&format!("{SYSTEM}{patient}"));
    controller.ctl("start").exits(0);
    wait_for_triggers(&controller);
    // Before it leaves: events in flight have its fragments.
    controller.ctl("exclude ru1 bu1 --timeout 300").exits(0).prints(&["ru1: excluded", "bu1: excluded"]);
    signal(controller.node(1, "ru1"), "TERM");
    signal(controller.node(1, "bu1"), "TERM");
    wait_for_triggers(&controller);
    controller.ctl("exclude bu0").exits(1).says(&["no builder unit would be left"]);
    controller.ctl("exclude ru0").exits(1).says(&["no source would be left"]);
    // The next controller knows, too.
    controller.running().signal("KILL");
    controller.serve = None;
    controller.serve();
    let both = [("bu1".to_owned(), true), ("ru1".to_owned(), true)];
    controller.wait_for("the run is reached", |status| nodes(status) == both);
    controller.ctl("recover ru1 bu1 --timeout 300").exits(0);
    controller.ctl("include ru1 bu1 --timeout 300").exits(0);
    assert!(nodes(&controller.status()).is_empty());
    wait_for_triggers(&controller);
    controller.ctl("stop").exits(0).says(&["run 1 ended: all"]);
    let ranges = controller.runs()[0]["ledger"]["exclusions"].clone();
    let range = &ranges[0];
    assert!(range["included_from_event"].as_u64() > range["first_event"].as_u64(), "{ranges}");
    let verified = controller.place.sheaf("verify runs/run000001").exits(0);
    verified.prints(&["missing in", ": excluded"]);
    let journal = controller.ctl("journal").exits(0);
    journal.prints(&["exclude ru1", "include bu1", "recover ru1"]);
}

#[test]
fn nodes_that_are_threads_cannot_be_started_again() {
    let mut controller = Controller::begin(SYSTEM);
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end();
    let mut serve = controller.place.start("serve run.toml --page 127.0.0.1:0");
    serve.wait_until_said("run control is at");
    controller.serve = Some(serve);
    controller.ctl("start").exits(0);
    controller.ctl("recover ru1").exits(1).says(&["threads of one process", "--processes"]);
    controller.ctl("exclude ru1 --timeout 300").exits(0);
    controller.ctl("stop").exits(0);
}
