//! Placement of threads: as configured, or with a message if that is not possible.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, number};

/// A processor that no test machine has.
const ABSENT: &str = "1000";

fn config(scratch: &ScratchDirectory, affinity: &str) -> String {
    let text = format!("[run]\nevents = 500\nduration_s = 0\n[output]\nkind = \"none\"\n{affinity}");
    scratch.file("run.toml", &text).display().to_string()
}

#[test]
fn a_run_on_a_named_processor_builds_its_events() {
    let scratch = ScratchDirectory::new();
    let affinity = "[affinity]\nrequired = true\nmanager_cpu = [0]\nreadout_cpu = [0]\nbuilder_cpu = [0]\n\
                    builder_memory = \"local\"\n";
    let config = config(&scratch, affinity);
    for transport in ["memory", "tcp"] {
        let summary = scratch.sheaf(&format!("run {config} --transport {transport} --json")).exits(0).json();
        assert_adds_up(&summary);
        assert_eq!(number(&summary, "ledger.triggers"), 500);
    }
}

#[test]
fn a_required_processor_that_does_not_exist_prevents_the_run() {
    let scratch = ScratchDirectory::new();
    let affinity = format!("[affinity]\nrequired = true\nbuilder_cpu = [{ABSENT}]\n");
    let config = config(&scratch, &affinity);
    let ended = scratch.sheaf(&format!("run {config}"));
    ended.exits(1).says(&["bu0", "there is no processor 1000", "this machine has 0", "affinity.required"]);
    assert!(!scratch.join("runs").exists(), "nothing was begun");
}

#[test]
fn an_optional_processor_that_does_not_exist_is_reported_once() {
    let scratch = ScratchDirectory::new();
    let config = config(&scratch, &format!("[affinity]\nbuilder_cpu = [{ABSENT}]\n"));
    let ended = scratch.sheaf(&format!("run {config} --builders 3 --json"));
    let said = ended.exits(0).says(&["there is no processor 1000", "continues without"]).json();
    assert_eq!(number(&said, "ledger.triggers"), 500);
}
