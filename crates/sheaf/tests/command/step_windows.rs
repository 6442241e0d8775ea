//! Step filters from libraries that request windows of hits, compared with a plain search in all hits.

use crate::active::compile;
use crate::child::ScratchDirectory;
use crate::output::{directory, field, number};
use crate::windowed::{Hits, SLICE_PS, record};
use sheaf_store::run::RunReader;
use std::collections::BTreeMap;

/// Looks at the hits of source 0. Of four slices, the first has a window around each hit, the second is rejected, all is requested of the
/// third, and the window of the fourth is invalid.
const AROUND_HITS: &str = r#"
#include <sheaf.h>
#include <stdlib.h>
#include <string.h>

/* One for each builder unit: those of one process judge at the same time. */
typedef struct { SheafWindow windows[SHEAF_STEP_MAX_WINDOWS]; } Around;

static void *create(const SheafFilterSetup *setup) { (void)setup; return calloc(1, sizeof(Around)); }

static void destroy(void *self) { free(self); }

static int32_t judge(void *self, const SheafEvent *part, SheafStepVerdict *verdict) {
    Around *it = self;
    const SheafFragment *first = part->fragments;
    size_t hits = part->fragment_count == 0 ? 0 : first->bytes / 16;
    verdict->windows = it->windows;
    switch (part->id % 4) {
    case 0:
        if (hits == 0) { verdict->decision = SHEAF_STEP_ENOUGH; return 0; }
        if (hits > SHEAF_STEP_MAX_WINDOWS) { verdict->failure = "too many hits"; return 1; }
        for (size_t at = 0; at < hits; at++) {
            uint64_t time_ps;
            memcpy(&time_ps, first->data + 16 * at, sizeof time_ps);
            it->windows[at].from_ps = time_ps - 5000000;
            it->windows[at].until_ps = time_ps + 300000000;
        }
        verdict->decision = SHEAF_STEP_WINDOWS;
        verdict->window_count = hits;
        return 0;
    case 1:
        return 0;
    case 2:
        verdict->decision = SHEAF_STEP_ALL;
        return 0;
    default:
        it->windows[0] = (SheafWindow){7, 7};
        verdict->decision = SHEAF_STEP_WINDOWS;
        verdict->window_count = 1;
        return 0;
    }
}

const SheafStepTable *sheaf_step_filter(void) {
    static const SheafStepTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, destroy};
    return &table;
}
"#;

/// Replays a recording with the step filter, and returns its hits.
fn prepare(place: &ScratchDirectory, more: &str) -> Hits {
    let hits = record(&place.join("recording"));
    place.file("around.c", AROUND_HITS);
    compile(&place.join("around.c"), &place.join("libaround.so"));
    let text = format!(
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"recording\"\n\
         [source.timed]\nfront_end = \"described\"\ntimes = \"fragment\"\ntick = \"1 ns\"\nslice_us = 200\ntolerance_us = 2000\n\
         [source.hits]\nrecord_bytes = 4\ntime = \"u32le at 0\"\n\
         [building]\nfirst_step = [0]\nfilter = \"library\"\npath = \"libaround.so\"\n{more}\
         [readout]\ncount = 2\n[builder]\ncount = 2\n"
    );
    place.file("run.toml", &text);
    hits
}

/// Hits of a source in any of these windows, in order of time.
fn hits_in(times: &[u64], windows: &[(u64, u64)]) -> Vec<u64> {
    let is_in = |time: &u64| windows.iter().any(|(from, until)| (from..until).contains(&time));
    times.iter().copied().filter(is_in).collect()
}

/// Times of the hits of the stored events, by slice and source.
fn stored(place: &ScratchDirectory, summary: &serde_json::Value) -> BTreeMap<u64, BTreeMap<u32, Vec<u64>>> {
    let event = |event: sheaf_wire::Event<bytes::Bytes>| {
        let times = |payload: &bytes::Bytes| {
            sheaf_wire::hit::hits(payload).unwrap().map(|hit| hit.time_ps).collect::<Vec<_>>()
        };
        let fragments = event.fragments.iter().map(|it| (it.source.0, times(&it.payload))).collect();
        (event.id.0, fragments)
    };
    RunReader::open(&directory(place, summary)).unwrap().map(|it| event(it.unwrap().event)).collect()
}

#[test]
fn a_step_filter_from_a_library_requests_windows_of_hits() {
    let place = ScratchDirectory::new();
    let hits = prepare(&place, "windows = true\n");
    for flags in ["", "--processes"] {
        let ended = place.sheaf(&format!("run run.toml --json {flags}")).exits(0);
        let summary = ended.json();
        let (mut windows_requested, mut failures) = (0, 0);
        for (slice, fragments) in stored(&place, &summary) {
            let whole = (slice * SLICE_PS, (slice + 1) * SLICE_PS);
            let first = hits_in(&hits[&0], &[whole]);
            assert_eq!(fragments[&0], first, "slice {slice}");
            let around = |time: &u64| (time - 5_000_000, time + 300_000_000);
            let windows: Vec<(u64, u64)> = match slice % 4 {
                0 => first.iter().map(around).collect(),
                2 | 3 => vec![whole],
                _ => panic!("slice {slice} was rejected"),
            };
            let given = if windows.is_empty() { 1 } else { 4 };
            assert_eq!(fragments.len(), given, "slice {slice}");
            for (source, times) in fragments.iter().filter(|(source, _)| **source > 0) {
                assert_eq!(*times, hits_in(&hits[source], &windows), "slice {slice}, source {source}");
            }
            windows_requested += windows.len() as u64;
            failures += u64::from(slice % 4 == 3);
        }
        assert!(failures > 100 && windows_requested > 2_000, "{failures}, {windows_requested}");
        assert_eq!(number(&summary, "counters.step_failures"), failures);
        assert_eq!(number(&summary, "counters.step_windows_requested"), windows_requested);
        assert_eq!(field(&summary, "ledger.balanced"), true, "{summary:#}");
        assert_eq!(number(&summary, "events_incomplete"), 0, "{summary:#}");
        assert!(ended.stderr.contains("window 0 is from 7 to 7 ps"), "{}", ended.stderr);
    }
}

#[test]
fn windows_without_sources_that_give_them_are_failures_and_no_hit_is_lost() {
    let place = ScratchDirectory::new();
    let hits = prepare(&place, "");
    let ended = place.sheaf("run run.toml --json").exits(0);
    let summary = ended.json();
    let events = stored(&place, &summary);
    assert!(events.keys().any(|slice| slice % 4 == 0));
    for (slice, fragments) in events.iter().filter(|(slice, _)| *slice % 4 != 0) {
        let whole = (slice * SLICE_PS, (slice + 1) * SLICE_PS);
        for (source, times) in &hits {
            assert_eq!(fragments[source], hits_in(times, &[whole]), "slice {slice}, source {source}");
        }
    }
    let remedy = "write `windows = true` in [building], and `build_by = \"time\"` in [source]";
    assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
    assert!(number(&summary, "counters.step_failures") > 200, "{summary:#}");
}
