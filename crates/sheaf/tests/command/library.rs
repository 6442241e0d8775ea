//! `[source] kind = "library"`: a shared library is polled for fragments.

use crate::active::{compile, root};
use crate::child::{Ended, ScratchDirectory};
use crate::output::{dump, field, number};

const RAMP: &str = "examples/sources/library/c/ramp.c";

/// Runs a library with four sources at two readout units.
fn run(scratch: &ScratchDirectory, library: &str, more: &str, flags: &str) -> Ended {
    let is_isolated = more.contains("isolated = true");
    let restarts = "[source.command]\nrestart_min_ms = 1\nmax_deaths = 3\nstop_timeout_ms = 200\n";
    let restarts = if is_isolated { restarts } else { "" };
    let text = format!(
        "[source]\nkind = \"library\"\ncount = 4\n[readout]\ncount = 2\n[builder]\ncount = 2\n{restarts}\
         [source.library]\npath = \"{library}\"\n{more}"
    );
    scratch.file("run.toml", &text);
    scratch.sheaf(&format!("run run.toml --json {flags}"))
}

#[test]
fn the_example_in_c_gives_its_events_in_the_unit_and_isolated() {
    const EVENTS: u64 = 2_000;
    for flags in ["", "--processes", "--processes --transport shm"] {
        for isolated in [false, true] {
            let scratch = ScratchDirectory::new();
            compile(&root().join(RAMP), &scratch.join("libramp.so"));
            let more = format!("parameters = \"events={EVENTS} samples=100\"\nisolated = {isolated}\n");
            let summary = run(&scratch, "./libramp.so", &more, flags).exits(0).json();
            assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{flags} {isolated}");
            assert_eq!(field(&summary, "ledger.balanced"), true);
            assert_eq!(number(&summary, "counters.source_polls"), 2 * 16, "128 events of two sources each");
            let lines = dump(&scratch.join("runs/run000001"));
            assert_eq!(lines.len() as u64, 4 * EVENTS);
            for line in lines {
                let first = line.event + u64::from(line.source);
                let mut crc = flate2::Crc::new();
                (first..first + 100).for_each(|sample| crc.update(&(sample as u16).to_le_bytes()));
                assert_eq!((line.crc32, line.time_ns), (crc.sum(), 1_000 * line.event));
            }
        }
    }
}

/// Says everything that a library may not say, and in between 300 good events of its sources.
const NONSENSE: &str = r#"
#include <sheaf.h>
#include <stdlib.h>
typedef struct { uint32_t ids[16]; size_t count; unsigned polls; } Board;
static uint8_t memory[1 << 16];
static void *open_it(const SheafSourceSetup *setup) {
    Board *board = calloc(1, sizeof *board);
    for (board->count = 0; board->count < setup->source_count; board->count++)
        board->ids[board->count] = setup->sources[board->count];
    return board;
}
static int32_t poll_it(void *self, SheafPollBatch *batch) {
    Board *board = self;
    unsigned at = board->polls++;
    unsigned event = at / 2;
    if (at % 2 == 0) { /* nonsense */
        switch (event % 5) {
        case 0: batch->count = batch->room + 7; return 0;
        case 1: batch->then = 99; return 0;
        case 2: batch->failure = "no link"; return 4;
        case 3:
            batch->fragments[0] = (SheafPolledFragment){.event = event, .source = 77, .data = memory, .bytes = 3};
            batch->fragments[1] = (SheafPolledFragment){.event = event, .source = board->ids[0], .bytes = 1000};
            batch->fragments[2] = (SheafPolledFragment){.event = event, .source = board->ids[0], .data = memory, .bytes = (size_t)1 << 40};
            batch->count = 3;
            break;
        default: /* an event that came before, as it was */
            if (event >= 2)
                batch->fragments[batch->count++] = (SheafPolledFragment){.event = event - 2, .source = board->ids[0], .data = memory, .bytes = (event - 2) % 50};
        }
        batch->then = SHEAF_POLL_MORE;
        return 0;
    }
    for (size_t i = 0; i < board->count; i++)
        batch->fragments[batch->count++] = (SheafPolledFragment){.event = event, .source = board->ids[i], .data = memory, .bytes = event % 50};
    batch->then = event == 39 ? SHEAF_POLL_END : SHEAF_POLL_MORE;
    return 0;
}
const SheafSourceTable *sheaf_source(void) {
    static const SheafSourceTable table = {SHEAF_FILTER_ABI, sizeof table, open_it, NULL, poll_it, NULL, NULL};
    return &table;
}
"#;

#[test]
fn nonsense_of_a_library_is_counted_by_name_and_harms_nothing_else() {
    for isolated in [false, true] {
        let scratch = ScratchDirectory::new();
        compile(&scratch.file("nonsense.c", NONSENSE), &scratch.join("libnonsense.so"));
        let ended = run(&scratch, "libnonsense.so", &format!("isolated = {isolated}\n"), "");
        let summary = ended.json();
        let dropped = |reason: &str| {
            let dropped = &field(&summary, "ledger.fragments.dropped")[reason];
            dropped.as_u64().unwrap_or(0)
        };
        // A repeated fragment is late if its event has ended before it comes, which a busy machine decides.
        assert_eq!(dropped("duplicate") + dropped("late"), 16);
        let ended = ended.exits(if dropped("late") == 0 { 0 } else { 3 });
        assert_eq!(number(&ended.json(), "ledger.stored"), 40, "{isolated}");
        assert_eq!(field(&summary, "ledger.balanced"), true);
        let count = |name: &str| number(&summary, &format!("counters.{name}"));
        // Two libraries say each kind of nonsense eight times.
        assert_eq!(count("source_batches_invalid"), 32);
        assert_eq!(count("source_polls_failed"), 16);
        for name in ["unknown_source", "without_data", "too_large"] {
            assert_eq!(count(&format!("source_fragments_{name}")), 16, "{name}");
        }
        assert_eq!(count("out_of_order"), 16, "ids that go back");
        let sizes = dump(&scratch.join("runs/run000001"));
        assert!(sizes.iter().all(|line| line.bytes == line.event % 50));
        assert_eq!(sizes.len(), 4 * 40);
    }
}

/// Crashes in its first life, at event 20 of readout unit 1, and is whole in its second.
const CRASHES: &str = r#"
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct { uint32_t ids[16]; size_t count; uint64_t next; int crashes; } Board;
static void *open_it(const SheafSourceSetup *setup) {
    Board *board = calloc(1, sizeof *board);
    for (board->count = 0; board->count < setup->source_count; board->count++)
        board->ids[board->count] = setup->sources[board->count];
    FILE *mark = fopen("crashed", "r");
    board->crashes = mark == NULL && board->ids[0] == 2;
    board->next = mark != NULL && board->ids[0] == 2 ? 20 : 0;
    if (mark != NULL) fclose(mark);
    return board;
}
static int32_t poll_it(void *self, SheafPollBatch *batch) {
    Board *board = self;
    if (board->crashes && board->next == 20) {
        fclose(fopen("crashed", "w"));
        abort();
    }
    for (size_t i = 0; i < board->count; i++)
        batch->fragments[batch->count++] = (SheafPolledFragment){.event = board->next, .source = board->ids[i], .data = (const uint8_t *)"data", .bytes = 4};
    batch->then = ++board->next == 40 ? SHEAF_POLL_END : SHEAF_POLL_MORE;
    return 0;
}
const SheafSourceTable *sheaf_source(void) {
    static const SheafSourceTable table = {SHEAF_FILTER_ABI, sizeof table, open_it, NULL, poll_it, NULL, NULL};
    return &table;
}
"#;

#[test]
fn an_isolated_library_that_crashes_is_started_again() {
    let scratch = ScratchDirectory::new();
    compile(&scratch.file("crashes.c", CRASHES), &scratch.join("libcrashes.so"));
    let ended =
        run(&scratch, "libcrashes.so", "isolated = true\n", "").says(&["ru1: library failed (signal: 6"]);
    let summary = ended.json();
    assert_eq!(number(&summary, "ledger.stored"), 40);
    assert_eq!(field(&summary, "ledger.balanced"), true);
    let programs = field(&summary, "programs").as_array().unwrap();
    let failures: u64 = programs.iter().map(|program| number(program, "failures")).sum();
    assert_eq!(failures, 1);
    let lines = dump(&scratch.join("runs/run000001"));
    assert_eq!(lines.iter().filter(|line| line.source < 2).count(), 80, "the other unit has lost nothing");
    assert!(lines.iter().filter(|line| line.source >= 2).count() >= 40, "the second life came to its end");
}

#[test]
fn a_library_that_cannot_be_used_is_an_error_before_the_run() {
    let scratch = ScratchDirectory::new();
    let refused = |library: &str, more: &str, words: &[&str]| {
        run(&scratch, library, more, "").exits(1).says(words);
        assert!(!scratch.join("runs/run000001").exists(), "a run that cannot be leaves no directory");
    };
    refused("libabsent.so", "", &["libabsent.so (`source.library.path`)"]);
    scratch.file("text.so", "no library");
    refused("text.so", "", &["cannot load the source library"]);
    compile(&root().join(RAMP), &scratch.join("libramp.so"));
    refused("libramp.so", "symbol = \"ramp\"\n", &["has no function `ramp`", "`source.library.symbol`"]);
    scratch.file("run.toml", "[source]\nkind = \"library\"\n");
    scratch.sheaf("run run.toml").exits(1).says(&["`source.library.path` is not set", "libmy_board.so"]);
    // What the library itself finds wrong is known when it is opened.
    run(&scratch, "libramp.so", "parameters = \"wrong\"\n", "").exits(1).says(&["events=1000 samples=64"]);
    run(&scratch, "libramp.so", "parameters = \"wrong\"\nisolated = true\n", "")
        .exits(1)
        .says(&["events=1000 samples=64", "program library declines the start of the run"]);
}
