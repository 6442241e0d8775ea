//! Runs without some of their sources.

use crate::child::ScratchDirectory;
use crate::output::assert_books_match_files;
use serde_json::{Value, json};

const CONFIGURATION: &str = "[run]\nevents = 500\n[trigger]\nmode = \"free\"\n[source]\ncount = 4\n\
     [source.names]\n2 = \"ecal\"\n[readout]\ncount = 2\n[builder]\ncount = 2\n\
     [source.emulated]\nsize = \"fixed\"\nmean_bytes = 64\n";

/// Number of fragments of each source in the events of a run, and the number of events without it, by reason.
fn sources(inspection: &Value) -> Vec<(u64, u64, u64)> {
    let number = |source: &Value, key: &str| source[key].as_u64().expect("a number");
    let sources = inspection["sources"].as_array().expect("a list of sources").iter();
    sources.map(|it| (number(it, "source"), number(it, "fragments"), number(it, "missing"))).collect()
}

#[test]
fn a_run_is_complete_without_the_sources_that_it_excludes() {
    let scratch = ScratchDirectory::new();
    scratch.file("four.toml", CONFIGURATION);
    for how in ["", "--processes --transport tcp"] {
        let summary =
            scratch.sheaf(&format!("run four.toml --exclude ecal --exclude 3 {how} --json")).exits(0);
        let summary = summary.json();
        assert_eq!((&summary["ledger"]["stored"], &summary["events_incomplete"]), (&json!(500), &json!(0)));
        let range = |source: u64| json!({ "source": source, "first_event": 0, "included_from_event": null });
        assert_eq!(summary["ledger"]["exclusions"], json!([range(2), range(3)]));
        assert_books_match_files(&scratch, &summary);
        let run = summary["output"].as_str().expect("a directory");
        let inspection = scratch.sheaf(&format!("inspect {run} --json")).exits(0).json();
        assert_eq!(sources(&inspection), [(0, 500, 0), (1, 500, 0), (2, 0, 500), (3, 0, 500)]);
        assert_eq!(inspection["exclusions"], json!([range(2), range(3)]));
        let verified = scratch.sheaf(&format!("verify {run}")).exits(0);
        verified.prints(&["source 2 (ecal) is missing in 500 events: excluded", "optional or excluded"]);
    }
    let ended = scratch.sheaf("run four.toml --exclude 2").exits(0);
    assert!(
        ended.stdout.contains("excluded          source 2 (ecal) from event 0 to the end"),
        "{}",
        ended.stdout
    );
}

#[test]
fn what_cannot_be_excluded_is_refused_before_the_run() {
    let scratch = ScratchDirectory::new();
    scratch.file("four.toml", CONFIGURATION);
    scratch.sheaf("run four.toml --exclude hcal").exits(1).says(&["there is no source or node `hcal`"]);
    let all = "--exclude 0 --exclude 1 --exclude 2 --exclude 3";
    scratch.sheaf(&format!("run four.toml {all}")).exits(1).says(&["no source would be left"]);
    assert!(!scratch.join("runs").exists(), "nothing was begun");
}

#[test]
fn a_run_begins_and_ends_without_nodes_that_it_excludes() {
    let scratch = ScratchDirectory::new();
    scratch.file("four.toml", CONFIGURATION);
    for how in ["", "--processes --transport tcp"] {
        let summary =
            scratch.sheaf(&format!("run four.toml --exclude ru1 --exclude bu0 {how} --json")).exits(0);
        let summary = summary.json();
        assert_eq!((&summary["ledger"]["stored"], &summary["events_incomplete"]), (&json!(500), &json!(0)));
        let run = summary["output"].as_str().expect("a directory");
        let inspection = scratch.sheaf(&format!("inspect {run} --json")).exits(0).json();
        // Readout unit 1 has sources 2 and 3.
        assert_eq!(sources(&inspection), [(0, 500, 0), (1, 500, 0), (2, 0, 500), (3, 0, 500)]);
        assert_books_match_files(&scratch, &summary);
        scratch.sheaf(&format!("verify {run}")).exits(0);
    }
    scratch
        .sheaf("run four.toml --exclude bu0 --exclude bu1")
        .exits(1)
        .says(&["no builder unit would be left"]);
    scratch.sheaf("run four.toml --exclude evm").exits(1).says(&["evm is neither"]);
}
