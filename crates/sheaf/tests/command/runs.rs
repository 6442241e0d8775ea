//! Consecutive runs, and filters that are replaced between them.

use crate::child::{Ended, Running, ScratchDirectory, signal, wait_until};
use crate::output::{assert_books_match_files, directory, dump, field, number};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A filter that accepts every `EVERY`-th event, or one that ends its process when it is loaded.
const FILTER: &str = r"
#include <sheaf.h>
#include <stdlib.h>
#ifdef BROKEN
__attribute__((constructor)) static void loaded(void) { abort(); }
#define EVERY 1
#endif
static void *create(const SheafFilterSetup *setup) {
    static int nothing;
    (void)setup;
    return &nothing;
}
static int32_t judge(void *filter, const SheafEvent *event, SheafFilterVerdict *verdict) {
    (void)filter;
    verdict->accepted = event->id % EVERY == 0;
    return 0;
}
const SheafFilterTable *sheaf_filter(void) {
    static const SheafFilterTable table = {SHEAF_FILTER_ABI, sizeof table, create, judge, NULL};
    return &table;
}
";

/// Installs a version of the filter, replacing the previous one.
fn install(scratch: &ScratchDirectory, define: &str) {
    let source = scratch.file("filter.c", FILTER);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sheaf-capi/include");
    let output = Command::new("cc")
        .args(["-std=c11", "-O1", "-shared", "-fPIC", define, "-I"])
        .arg(header)
        .args(["-o", "libfilter.so"])
        .arg(source)
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts runs without a limit, with the library as filter.
fn start(scratch: &ScratchDirectory, filter: &str, how: &str) -> Running {
    let text = format!(
        "[run]\nruns = 0\nduration_s = 0\n[readout]\ncount = 1\n[builder]\ncount = 1\n[source]\ncount = 2\n\
         [source.emulated]\nmean_bytes = 64\nrms_bytes = 0\n[trigger]\nmode = \"fixed\"\nrate_hz = 20000\n\
         [filter]\nkind = \"library\"\npath = \"libfilter.so\"\n{filter}"
    );
    scratch.file("run.toml", &text);
    scratch.start(&format!("run run.toml --json {how}"))
}

/// Waits until the run has judged some events: enough for one of each kind.
fn wait_for_events(scratch: &ScratchDirectory, run: u32) {
    let run = scratch.join(&format!("runs/run{run:06}"));
    let is_big = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|extension| extension == "sheaf")
            && path.metadata().is_ok_and(|file| file.len() > 20_000)
    };
    wait_until("events are written", || std::fs::read_dir(&run).is_ok_and(|mut all| all.any(is_big)));
}

/// Returns the lines that a command printed, one for each run.
fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the books and the files of a run, which must contain exactly the events that the filter accepts.
fn assert_every(scratch: &ScratchDirectory, summary: &Value, every: u64) {
    assert_books_match_files(scratch, summary);
    let (stored, triggers) = (number(summary, "ledger.stored"), number(summary, "ledger.triggers"));
    assert_eq!(stored, triggers.div_ceil(every), "{summary:#}");
    let lines = dump(&directory(scratch, summary));
    assert!(lines.iter().all(|line| line.event % every == 0));
    assert!(stored > 10, "{summary:#}");
}

fn manifest(scratch: &ScratchDirectory, summary: &Value) -> Value {
    let text = std::fs::read_to_string(directory(scratch, summary).join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Replaces the filter during the first run, then ends that run by the signal.
fn exchange(scratch: &ScratchDirectory, running: &Running, define: &str) {
    wait_for_events(scratch, 1);
    install(scratch, define);
    running.signal("USR1");
}

fn assert_is_exchanged(filter: &str, how: &str) {
    let scratch = ScratchDirectory::new();
    install(&scratch, "-DEVERY=2");
    let running = start(&scratch, filter, how);
    exchange(&scratch, &running, "-DEVERY=3");
    wait_for_events(&scratch, 2);
    running.signal("INT");
    let ended = running.end().exits(0).says(&["run 1 begins", "run 2 begins"]);
    let [first, second] = lines(&ended).try_into().expect("two runs");
    assert_eq!((number(&first, "run"), number(&second, "run")), (1, 2));
    assert_every(&scratch, &first, 2);
    assert_every(&scratch, &second, 3);
    let code = |summary: &Value| field(&manifest(&scratch, summary), "code")[0].clone();
    let (before, after) = (code(&first), code(&second));
    assert_eq!(before["table"], "filter");
    assert_eq!(before["path"], after["path"]);
    assert_ne!(before["crc32c"], after["crc32c"]);
    let copy = directory(&scratch, &first).join(before["copy"].as_str().unwrap());
    let checksum = sheaf_wire::checksum::crc32c(&std::fs::read(copy).unwrap());
    assert_eq!(before["crc32c"], format!("{checksum:08x}"));
}

/// A signal to all processes with the name `sheaf` is meant for the one that starts runs.
#[test]
fn the_signal_for_the_next_run_ends_no_other_process() {
    let scratch = ScratchDirectory::new();
    let running =
        scratch.start("run --readouts 2 --builders 2 --outputs 1 --processes --runs 2 --duration 0 --json");
    wait_for_events(&scratch, 1);
    let tap = scratch.start("tap runs/run000001 --json");
    wait_until("events come", || !tap.printed().is_empty());
    for (_, child) in running.children() {
        signal(child, "USR1");
    }
    tap.signal("USR1");
    running.signal("USR1");
    wait_for_events(&scratch, 2);
    tap.end().exits(0);
    running.signal("INT");
    let ended = running.end().exits(0);
    let [first, second] = lines(&ended).try_into().expect("two runs");
    for summary in [first, second] {
        assert_books_match_files(&scratch, &summary);
        assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 0);
        assert_eq!(number(&summary, "trouble.restarted_outputs"), 0);
    }
}

#[test]
fn the_command_next_ends_the_run_in_progress_or_reports_that_there_is_none() {
    let scratch = ScratchDirectory::new();
    scratch.sheaf("next").exits(1).says(&["cannot read directory runs"]);
    let running = scratch.start("run --readouts 1 --builders 1 --runs 3 --duration 0 --json");
    wait_for_events(&scratch, 1);
    scratch.sheaf("next").exits(0);
    wait_for_events(&scratch, 2);
    scratch.sheaf("next runs/run000001").exits(1).says(&["has ended"]);
    scratch.sheaf("next runs/run000002").exits(0);
    wait_for_events(&scratch, 3);
    running.signal("INT");
    assert_eq!(lines(&running.end().exits(0)).len(), 3);
    scratch.sheaf("next").exits(1).says(&["no run in runs is in progress"]);

    let alone = scratch.start("run --readouts 1 --builders 1 --duration 0 --json");
    wait_for_events(&scratch, 4);
    scratch.sheaf("next").exits(1).says(&["no run follows runs/run000004", "kill -INT"]);
    alone.signal("INT");
    alone.end().exits(0);
}

/// Of twelve attempts to start two runs at once, one used to fail.
#[test]
fn runs_that_are_started_at_once_have_directories_of_their_own() {
    let scratch = ScratchDirectory::new();
    let start = |_| scratch.start("run --readouts 1 --builders 1 --events 50 --json");
    let all: Vec<_> = (0..12).map(start).collect();
    let mut numbers: Vec<_> = all
        .into_iter()
        .map(|running| {
            let summary = running.end().exits(0).json();
            assert_books_match_files(&scratch, &summary);
            number(&summary, "run")
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
}

#[test]
fn a_library_is_exchanged_between_runs_on_the_builders_thread_and_on_workers() {
    assert_is_exchanged("", "");
    assert_is_exchanged("workers = 2\n", "--transport tcp");
}

#[test]
fn a_library_is_exchanged_between_runs_of_processes_with_workers_that_are_processes() {
    assert_is_exchanged("workers = 2\nprocesses = true\n", "--processes --transport shm");
}

#[test]
fn a_version_that_does_not_load_begins_no_run_and_harms_none() {
    for (define, why) in [("-DBROKEN", "signal: 6"), ("", "cannot load the filter library")] {
        let scratch = ScratchDirectory::new();
        install(&scratch, "-DEVERY=2");
        let running = start(&scratch, "", "");
        if define.is_empty() {
            wait_for_events(&scratch, 1);
            scratch.file("libfilter.so", "no library");
            running.signal("USR1");
        } else {
            exchange(&scratch, &running, define);
        }
        let ended = running.end().exits(1).says(&["run 2 is not started", why, "libfilter.so"]);
        let [first] = lines(&ended).try_into().expect("one run");
        assert_every(&scratch, &first, 2);
        assert!(!scratch.join("runs/run000002").exists());
    }
}

#[test]
fn runs_follow_each_other_until_the_requested_number() {
    for how in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let ended =
            scratch.sheaf(&format!("run --readouts 1 --builders 1 --events 500 --runs 3 --json {how}"));
        let summaries = lines(&ended.exits(0));
        for (run, summary) in (1..).zip(&summaries) {
            assert_eq!((number(summary, "run"), number(summary, "ledger.triggers")), (run, 500));
            assert_books_match_files(&scratch, summary);
        }
        assert_eq!(summaries.len(), 3);
    }
}

/// To the run, the processor is on another host: it has its own copy of the library.
#[test]
fn a_processor_that_stays_judges_the_next_run_with_what_is_installed_then() {
    let scratch = ScratchDirectory::new();
    install(&scratch, "-DEVERY=2");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let running = start(&scratch, &format!("listen = \"127.0.0.1:{port}\"\npatience_ms = 0\n"), "");
    let processor = scratch.start(&format!("processor --join 127.0.0.1:{port} --stay --json"));
    exchange(&scratch, &running, "-DEVERY=3");
    wait_for_events(&scratch, 2);
    running.signal("INT");
    let [first, second] = lines(&running.end().exits(0)).try_into().expect("two runs");
    assert_every(&scratch, &first, 2);
    assert_every(&scratch, &second, 3);
    processor.signal("INT");
    let judged: Vec<u64> = lines(&processor.end().exits(0)).iter().map(|run| number(run, "judged")).collect();
    let triggers = [number(&first, "ledger.triggers"), number(&second, "ledger.triggers")];
    let judged: Vec<u64> = judged.into_iter().filter(|events| *events > 0).collect();
    assert_eq!(judged, triggers);
}
