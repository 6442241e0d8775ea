//! Offered triggers are accepted or vetoed, and live time and dead time add up to the time of the run, at any rate on any machine.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, field, number};

/// Covers rates that every machine achieves and rates that hardly any does, and a run that is ended by its number of events.
#[test]
fn every_trigger_of_the_clock_is_accepted_or_vetoed() {
    let scratch = ScratchDirectory::new();
    for rate in [1_000, 20_000, 100_000, 300_000] {
        let run = format!("run --readouts 2 --builders 2 --trigger-rate {rate} --duration 0.5 --json");
        let summary = scratch.sheaf(&run).exits(0).json();
        assert_adds_up(&summary);
        assert_eq!(number(&summary, "ledger.offered"), rate / 2);
        assert_eq!(number(&summary, "ledger.time.run_ns"), 500_000_000);
    }
    let run =
        "run --readouts 2 --builders 2 --trigger-rate 50000 --trigger-mode poisson --events 3000 --json";
    let summary = scratch.sheaf(run).exits(0).json();
    assert_adds_up(&summary);
    assert_eq!(number(&summary, "ledger.triggers"), 3_000);
}

/// A slow filter with a fast trigger: the books of a run that vetoes most of its triggers, also in processes.
#[test]
fn a_slow_filter_makes_dead_time_that_is_booked_with_its_vetoes() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file(
        "slow.toml",
        "[run]\nduration_s = 0.5\n[readout]\ncount = 2\n[builder]\ncount = 2\nslots = 16\n\
         [filter]\nkind = \"busy\"\nbusy_us = 2000\n\
         [trigger]\nmode = \"poisson\"\nrate_hz = 20000\nqueue_events = 64\n[manager]\nbatch_events = 4\n",
    );
    for flags in ["", "--processes"] {
        let summary = scratch.sheaf(&format!("run {} {flags} --json", config.display())).exits(0).json();
        assert_adds_up(&summary);
        let vetoed: u64 =
            field(&summary, "ledger.vetoed").as_object().unwrap().values().filter_map(|it| it.as_u64()).sum();
        let [offered, run, live] = ["ledger.offered", "ledger.time.run_ns", "ledger.time.live_ns"]
            .map(|name| number(&summary, name));
        assert!(2 * vetoed > offered, "{vetoed} of {offered}");
        assert_eq!(run, 500_000_000);
        // The fraction of vetoed random triggers equals the fraction of dead time. A thousandth of them is 10 triggers.
        let (vetoed, dead) = (vetoed * 1_000 / offered, 1_000 - live * 1_000 / run);
        assert!(vetoed.abs_diff(dead) < 50, "{vetoed} of 1,000 vetoed, {dead} of 1,000 dead");
    }
}

#[test]
fn a_rate_without_a_mode_is_refused_with_a_remedy() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("rate.toml", "[trigger]\nrate_hz = 500\n");
    scratch.sheaf(&format!("run {}", config.display())).exits(1).says(&["trigger.mode", "mode = \"fixed\""]);
}
