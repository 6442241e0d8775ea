//! Two-step building, and triggers that only some readout units answer.

use crate::child::ScratchDirectory;
use crate::output::{assert_adds_up, assert_books_match_files, directory, dump, field, number, verify};
use std::collections::BTreeMap;

/// Four sources of 1000 bytes, each with its own readout unit.
const SOURCES: &str = "[run]\nevents = 1000\nduration_s = 0\n[readout]\ncount = 4\n[builder]\ncount = 2\n\
     check_content = true\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = 1000\n";

fn run(more: &str, flags: &str) -> (ScratchDirectory, serde_json::Value) {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("steps.toml", &format!("{SOURCES}{more}")).display().to_string();
    let summary = scratch.sheaf(&format!("run {config} --json {flags}")).exits(0).json();
    assert_adds_up(&summary);
    (scratch, summary)
}

/// The case of the CMS event builder's studies: a quarter of the data, a rejection of ten. 0.25 + 0.75 / 10 = 0.325.
#[test]
fn a_quarter_of_the_data_and_a_rejection_of_ten_leave_a_third_of_the_load() {
    let steps = "[building]\nfirst_step = [0]\nfilter = \"prescale\"\nprescale = 10\n";
    for (transport, flags) in [("memory", ""), ("tcp", "--processes")] {
        let (scratch, summary) = run(&format!("{steps}[transport]\nkind = \"{transport}\"\n"), flags);
        assert_eq!((number(&summary, "ledger.stored"), number(&summary, "ledger.rejected")), (100, 900));
        let counter = |name: &str| number(&summary, &format!("counters.{name}"));
        assert_eq!(counter("sent_bytes") - repeated(&summary), 1_000 * 1_000 + 100 * 3_000);
        assert_eq!(counter("not_requested_bytes"), 900 * 3_000);
        if repeated(&summary) == 0 {
            assert_eq!(field(&summary, "load_fraction").as_f64(), Some(0.325));
        }
        assert_eq!((counter("judged_parts"), counter("rejected_parts")), (1_000, 900));
        assert_eq!(number(&summary, "ledger.fragments.dropped.not_requested"), 2_700);
        assert_books_match_files(&scratch, &summary);
        verify(&directory(&scratch, &summary), 0);
    }
}

/// Number of answers that may be sent more than once because a loaded machine responded late. Without load, a run of 1,300 answers
/// needs no repetition.
fn repeated(summary: &serde_json::Value) -> u64 {
    let resent = field(summary, "counters").get("resent").and_then(serde_json::Value::as_u64).unwrap_or(0);
    resent * 1_000
}

#[test]
fn the_summary_reports_the_requested_data() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file(
        "steps.toml",
        &format!("{SOURCES}[building]\nfirst_step = [0]\nfilter = \"prescale\"\nprescale = 10\n"),
    );
    let table = scratch.sheaf(&format!("run {}", config.display())).exits(0).stdout;
    let line =
        table.lines().find(|line| line.trim_start().starts_with("requested")).expect("there is a line");
    assert!(line.contains("of full building"), "{line}");
}

#[test]
fn quiet_first_steps_are_rejected() {
    let (_, summary) =
        run("[building]\nfirst_step = [1, 2]\nfilter = \"activity\"\nminimum_bytes = 2001\n", "");
    assert_eq!(
        (number(&summary, "ledger.rejected"), number(&summary, "counters.sent_bytes")),
        (1_000, 2_000_000)
    );
    let (_, summary) =
        run("[building]\nfirst_step = [1, 2]\nfilter = \"activity\"\nminimum_bytes = 2000\n", "");
    assert_eq!(
        (number(&summary, "ledger.stored"), number(&summary, "counters.sent_bytes")),
        (1_000, 4_000_000)
    );
    assert!(field(&summary, "load_fraction").is_null());
}

#[test]
fn a_trigger_is_complete_with_the_readout_units_that_answer_it() {
    let types =
        "[triggers.physics]\ntype = 1\nweight = 9\n[triggers.calibration]\ntype = 2\nreadouts = [3]\n";
    let (scratch, summary) = run(types, "");
    assert_eq!((number(&summary, "ledger.stored"), number(&summary, "events_incomplete")), (1_000, 0));
    assert_books_match_files(&scratch, &summary);
    let path = directory(&scratch, &summary);
    verify(&path, 0);
    let mut events: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for line in dump(&path) {
        events.entry(line.event).or_default().push(line.source);
    }
    let with = |sources: &[u32]| events.values().filter(|found| **found == sources).count();
    let (physics, calibration) = (with(&[0, 1, 2, 3]), with(&[3]));
    assert_eq!(physics + calibration, 1_000);
    // A tenth is expected; five standard deviations are 47.
    assert!((53..=147).contains(&calibration), "{calibration} calibrations");
    assert_eq!(number(&summary, "ledger.fragments.dropped.not_requested"), 3 * calibration as u64);
}

#[test]
fn a_first_step_of_sources_that_are_not_there_is_refused() {
    let scratch = ScratchDirectory::new();
    let config = scratch.file("steps.toml", &format!("{SOURCES}[building]\nfirst_step = [3, 4]\n"));
    let said = scratch.sheaf(&format!("run {}", config.display())).exits(1).stderr;
    assert!(said.contains("`building.first_step` names sources that no readout unit reads: 4"), "{said}");
}
