//! Active readout units, step filters from libraries, and prescales of tags.

use crate::child::{Ended, ScratchDirectory};
use crate::output::number;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a library in C.
pub(crate) fn compile(source: &Path, to: &Path) {
    let output = Command::new("cc")
        .args(["-std=c11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(root().join("crates/sheaf-capi/include"))
        .arg("-o")
        .args([to, source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs 1,000 events of four sources with 1,024 bytes each, with `more` in the configuration.
fn run(scratch: &ScratchDirectory, more: &str, flags: &str) -> Ended {
    let text = format!(
        "[run]\nevents = 1000\n[readout]\ncount = 2\n[builder]\ncount = 2\ncheck_content = true\nrequest_retry_ms = 4000\n[source]\ncount = 4\n\
         [source.emulated]\nsize = \"fixed\"\nmean_bytes = 1024\n{more}"
    );
    std::fs::write(scratch.join("run.toml"), text).unwrap();
    scratch.sheaf(&format!("run run.toml --json {flags}"))
}

/// Returns the stored events, payload bytes and processed fragments, according to `sheaf verify` and `sheaf inspect`.
fn stored(scratch: &ScratchDirectory) -> (u64, u64, u64) {
    let report = scratch.sheaf("verify runs/run000001 --json").exits(0).json();
    let inspection = scratch.sheaf("inspect runs/run000001 --json").exits(0).json();
    let sources = inspection["sources"].as_array().unwrap();
    let processed = sources.iter().map(|source| number(source, "processed")).sum();
    (number(&report, "events"), number(&inspection, "payload_bytes"), processed)
}

#[test]
fn fragments_are_reduced_and_flagged_on_every_transport() {
    let mut bytes = Vec::new();
    for flags in ["", "--transport shm --processes", "--transport tcp"] {
        let scratch = ScratchDirectory::new();
        compile(&root().join("examples/preprocess/c/zero_suppression.c"), &scratch.join("libzero.so"));
        let more = "[preprocessing]\npath = \"libzero.so\"\nparameters = \"threshold=65000\"\nworkers = 2\n\
                    sources = [0, 1, 2]\n";
        let summary = run(&scratch, more, flags).exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), 1000, "{flags}");
        let count = |name: &str| number(&summary, &format!("counters.preprocessing_{name}"));
        assert_eq!(count("processed"), 3000, "{flags}: all of three sources");
        assert_eq!(count("bytes_before"), 3000 * 1024);
        let (events, payload, processed) = stored(&scratch);
        assert_eq!((events, processed), (1000, 3000), "{flags}");
        assert_eq!(payload, 1000 * 1024 + count("bytes_after"), "{flags}: source 3 is as it was");
        assert_eq!(number(&summary, "counters.sent_bytes"), payload, "{flags}: so much has left");
        assert!(count("bytes_after") * 10 < count("bytes_before"), "{flags}");
        bytes.push(payload);
    }
    assert!(bytes.iter().all(|payload| *payload == bytes[0]), "{bytes:?}");
}

/// Fails in one event of seven, and hangs in event 100.
const BAD_PREPROCESSOR: &str = r#"
#include <sheaf.h>
#include <unistd.h>
static void *create(const SheafFilterSetup *setup) { static int it; (void)setup; return &it; }
static int32_t process(void *it, const SheafRawFragment *raw, SheafProcessed *made) {
    (void)it;
    if (raw->event == 100 && raw->source == 0) for (;;) sleep(1);
    if (raw->event % 7 == 1) { made->failure = "the seventh"; return 1; }
    made->keep = 1;
    return 0;
}
const SheafPreprocessorTable *sheaf_preprocessor(void) {
    static const SheafPreprocessorTable table = {SHEAF_FILTER_ABI, sizeof table, create, process, NULL};
    return &table;
}
"#;

#[test]
fn a_preprocessor_that_fails_and_hangs_loses_nothing() {
    let scratch = ScratchDirectory::new();
    std::fs::write(scratch.join("bad.c"), BAD_PREPROCESSOR).unwrap();
    compile(&scratch.join("bad.c"), &scratch.join("libbad.so"));
    let more = "[preprocessing]\npath = \"libbad.so\"\ntime_limit_ms = 200\n";
    let ended = run(&scratch, more, "").exits(0);
    let summary = ended.json();
    assert_eq!(number(&summary, "ledger.stored"), 1000);
    let count = |name: &str| number(&summary, &format!("counters.preprocessing_{name}"));
    assert!(count("abandoned") >= 1 && count("workers_restarted") >= 1, "{summary}");
    assert!(count("failed") >= 1, "the other readout unit has seventh events, too");
    assert_eq!(count("failed") + count("kept") + count("abandoned"), 4000);
    assert!(
        ended.stderr.contains("the seventh") && ended.stderr.contains("hangs in a fragment"),
        "{}",
        ended.stderr
    );
    assert_eq!(stored(&scratch), (1000, 4000 * 1024, 0), "all as they were");
}

/// Dies in event 100, and keeps everything else.
const DEADLY_PREPROCESSOR: &str = r#"
#include <sheaf.h>
#include <stdlib.h>
static void *create(const SheafFilterSetup *setup) { static int it; (void)setup; return &it; }
static int32_t process(void *it, const SheafRawFragment *raw, SheafProcessed *made) {
    (void)it;
    if (raw->event == 100 && raw->source == 0) abort();
    made->keep = 1;
    return 0;
}
const SheafPreprocessorTable *sheaf_preprocessor(void) {
    static const SheafPreprocessorTable table = {SHEAF_FILTER_ABI, sizeof table, create, process, NULL};
    return &table;
}
"#;

#[test]
fn a_preprocessor_that_crashes_in_a_process_of_its_own_loses_nothing() {
    let scratch = ScratchDirectory::new();
    std::fs::write(scratch.join("deadly.c"), DEADLY_PREPROCESSOR).unwrap();
    compile(&scratch.join("deadly.c"), &scratch.join("libdeadly.so"));
    let more = "[preprocessing]\npath = \"libdeadly.so\"\nprocesses = true\n";
    let ended = run(&scratch, more, "").exits(0);
    let summary = ended.json();
    assert_eq!(number(&summary, "ledger.stored"), 1000);
    let count = |name: &str| number(&summary, &format!("counters.preprocessing_{name}"));
    // Fragments that arrive before the next process has started are sent unprocessed, too.
    assert!(count("failed") >= 1, "{summary}");
    assert_eq!(count("failed") + count("kept"), 4000);
    assert!(ended.stderr.contains("it has died"), "{}", ended.stderr);
    assert_eq!(stored(&scratch), (1000, 4000 * 1024, 0), "all as they were");
    let refused = run(&scratch, &format!("{more}symbol = \"other\"\n"), "").exits(1);
    assert!(refused.stderr.contains("has no function `other`"), "{}", refused.stderr);
}

/// Rejects odd events. For others it requests source 2, and then all sources if the event's number is divisible by 4.
const REGIONS: &str = r#"
#include <sheaf.h>
static void *create(const SheafFilterSetup *setup) { static int it; (void)setup; return &it; }
static int32_t judge(void *it, const SheafEvent *part, SheafStepVerdict *verdict) {
    static const uint32_t region[] = {2, 0, 2};
    (void)it;
    if (part->id % 2 == 1) return 0;
    if (part->fragment_count == 1) {
        verdict->decision = SHEAF_STEP_SOURCES;
        verdict->sources = region;
        verdict->source_count = 3;
        return 0;
    }
    verdict->decision = part->id % 4 == 0 ? SHEAF_STEP_ALL : SHEAF_STEP_ENOUGH;
    return 0;
}
const SheafStepTable *sheaf_step_filter(void) {
    static const SheafStepTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, NULL};
    return &table;
}
"#;

#[test]
fn a_step_filter_from_a_library_requests_regions_of_interest() {
    let scratch = ScratchDirectory::new();
    std::fs::write(scratch.join("regions.c"), REGIONS).unwrap();
    compile(&scratch.join("regions.c"), &scratch.join("libregions.so"));
    let more = "[building]\nfirst_step = [0]\nfilter = \"library\"\npath = \"libregions.so\"\n";
    let summary = run(&scratch, more, "").exits(0).json();
    assert_eq!((number(&summary, "ledger.stored"), number(&summary, "ledger.rejected")), (500, 500));
    // Odd events: one source; one half of the others: two; the rest: four.
    let fragments = 500 + 250 * 2 + 250 * 4;
    assert_eq!(number(&summary, "counters.sent_bytes"), fragments * 1024);
    assert_eq!(number(&summary, "counters.judged_parts"), 1500);
    assert_eq!(stored(&scratch).1, (250 * 2 + 250 * 4) * 1024);
    let refused = run(&scratch, "[building]\nfirst_step = [0]\nfilter = \"library\"\n", "").exits(1);
    assert!(refused.stderr.contains("`building.path` is not set"), "{}", refused.stderr);
}

#[test]
fn a_tag_with_a_prescale_is_kept_by_one_in_n_events_and_both_are_counted() {
    let scratch = ScratchDirectory::new();
    compile(&root().join("examples/filters/c/energy_sum.c"), &scratch.join("libsum.so"));
    let more = "[filter]\nkind = \"library\"\npath = \"libsum.so\"\nparameters = \"sum=0 source=100000000\"\n\
                tags = [\"sum\", \"pair\"]\n[tags.sum]\nprescale = 10\n";
    let summary = run(&scratch, more, "").exits(0).json();
    let count = |name: &str| number(&summary, &format!("counters.output_{name}"));
    assert_eq!(count("tag_sum_before"), 1000, "every event has the tag");
    let kept = count("tag_sum_after");
    assert!((40..200).contains(&kept), "{kept} of 1,000 are kept");
    assert_eq!((number(&summary, "ledger.stored"), number(&summary, "ledger.rejected")), (kept, 1000 - kept));
    assert_eq!(stored(&scratch).0, kept);
    let refused = run(&scratch, "[tags.muon]\nprescale = 2\n", "").exits(1);
    assert!(refused.stderr.contains("is not in `filter.tags`"), "{}", refused.stderr);
}
