//! Whole runs over libfabric, on the providers that need no hardware.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, number};

const EVENTS: u64 = 5_000;

/// Runs each role in its own process and checks every byte in the builder units.
fn run_over(provider: &str) {
    let scratch = ScratchDirectory::new();
    let text = format!(
        "[run]\nevents = {EVENTS}\nduration_s = 0\n[builder]\ncheck_content = true\n[output]\nkind = \"none\"\n\
         [transport]\nkind = \"libfabric\"\nprovider = \"{provider}\"\n"
    );
    let config = scratch.file("libfabric.toml", &text).display().to_string();
    let summary =
        scratch.sheaf(&format!("run {config} --readouts 2 --builders 2 --processes --json")).exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    assert_eq!(number(&summary, "fragments"), 2 * EVENTS);
}

#[test]
fn a_whole_run_goes_over_the_provider_shm() {
    run_over("shm");
}

#[test]
fn a_whole_run_goes_over_the_provider_tcp() {
    run_over("tcp;ofi_rxm");
}

/// Libraries used by libfabric install signal handlers of their own.
#[test]
fn ctrl_c_ends_a_run_in_good_order() {
    for (transport, provider) in
        [("memory", ""), ("libfabric", "provider = \"shm\""), ("libfabric", "provider = \"tcp;ofi_rxm\"")]
    {
        let scratch = ScratchDirectory::new();
        let text = format!(
            "[run]\nduration_s = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 2000.0\n[output]\nkind = \"none\"\n\
             [transport]\nkind = \"{transport}\"\n{provider}\n"
        );
        let config = scratch.file("libfabric.toml", &text).display().to_string();
        let mut running = scratch.start(&format!("run {config} --json"));
        running.wait_until_said("in flight");
        running.signal("INT");
        assert_adds_up(&running.end().exits(0).json());
    }
}
