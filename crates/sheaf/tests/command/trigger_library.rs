//! `trigger.mode = "library"`: a shared library is polled for the triggers of a run.

use crate::active::{compile, root};
use crate::child::{Ended, Running, ScratchDirectory, wait_until};
use crate::output::{field, number};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PULSER: &str = "examples/triggers/library/c/pulser.c";

/// Writes the configuration of a run with a library. Restarts of its process are quick.
fn configure(scratch: &ScratchDirectory, library: &str, more: &str) {
    let text = format!(
        "[trigger]\nmode = \"library\"\nqueue_events = 1000\n[source.emulated]\nmean_bytes = 100\nrms_bytes = 0\n\
         [source.command]\nrestart_min_ms = 1\nmax_deaths = 3\nstop_timeout_ms = 300\n\
         [trigger.library]\npath = \"{library}\"\n{more}"
    );
    scratch.file("run.toml", &text);
}

fn run(scratch: &ScratchDirectory, library: &str, more: &str, flags: &str) -> Ended {
    configure(scratch, library, more);
    scratch.sheaf(&format!("run run.toml --json {flags}"))
}

/// Both sides have counted the same, and each trigger is in a bin.
fn assert_agree(summary: &Value) {
    assert_eq!(field(summary, "ledger.balanced"), true, "{summary}");
    let link = |name: &str| number(summary, &format!("trigger_link.{name}"));
    let bins = ["accepted", "lost", "repeated", "out_of_order", "outside"];
    assert_eq!(link("received"), bins.map(link).iter().sum::<u64>(), "{summary}");
    assert_eq!(link("accepted"), number(summary, "ledger.stored"), "{summary}");
    assert_eq!((link("lost"), link("repeated"), link("out_of_order")), (0, 0, 0), "{summary}");
}

/// Returns a library in C whose polls are those of `poll`, beside what all of these have.
fn library(scratch: &ScratchDirectory, name: &str, poll: &str) -> String {
    let text = format!(
        "{HEAD}\n{poll}\nconst SheafTriggerTable *sheaf_trigger(void) {{\n    static const SheafTriggerTable table = \
         {{SHEAF_FILTER_ABI, sizeof table, open_it, start_it, poll_it, busy_it, stop_it, close_it}};\n    \
         return &table;\n}}\n"
    );
    let (source, library) = (format!("{name}.c"), format!("lib{name}.so"));
    compile(&scratch.file(&source, &text), &scratch.join(&library));
    library
}

/// A device whose calls are in the log of its process. `life` counts its processes.
const HEAD: &str = r#"
#include <sheaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { uint64_t next, given, polls; int life, is_busy; } Device;
static uint8_t memory[64];
static void *open_it(const SheafTriggerSetup *setup) {
    Device *device = calloc(1, sizeof *device);
    FILE *lives = fopen("lives", "a+");
    fputc('x', lives);
    fflush(lives);
    device->life = (int)ftell(lives);
    fclose(lives);
    if (strcmp(setup->parameters, "refuse") == 0) {
        snprintf(setup->message, setup->message_bytes, "there is no crate");
        return NULL;
    }
    return device;
}
static void start_it(void *self, uint64_t next) {
    Device *device = self;
    device->next = next;
    fprintf(stderr, "starts at %llu\n", (unsigned long long)next);
}
static void busy_it(void *self, const char *reason) {
    Device *device = self;
    device->is_busy = reason != NULL;
    fprintf(stderr, "busy: %s\n", reason == NULL ? "no" : reason);
}
static void stop_it(void *self) { (void)self; fprintf(stderr, "stops\n"); }
static void close_it(void *self) { free(self); fprintf(stderr, "closes\n"); }
static void give(Device *device, SheafTriggerBatch *batch, uint64_t most) {
    while (batch->count < batch->room && most-- > 0) {
        batch->triggers[batch->count++] = (SheafPolledTrigger){.id = device->next++, .kind = 3};
        device->given++;
    }
}
"#;

fn log(scratch: &ScratchDirectory) -> String {
    std::fs::read_to_string(scratch.join("runs/run000001/evm.trigger.log")).expect("a log")
}

#[test]
fn the_example_in_c_gives_the_triggers_of_its_run() {
    for (flags, key) in [("", ""), ("--processes", ""), ("", "[transport]\nkey_file = \"run.key\"\n")] {
        let scratch = ScratchDirectory::new();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(scratch.file("run.key", &"a".repeat(64)), private).expect("its own file");
        compile(&root().join(PULSER), &scratch.join("libpulser.so"));
        let more = format!("parameters = \"period_us=100 triggers=2000\"\n{key}");
        let summary = run(&scratch, "./libpulser.so", &more, flags).exits(0).json();
        assert_agree(&summary);
        assert_eq!(number(&summary, "ledger.stored"), 2_000, "{summary}");
        let supervisor = |name: &str| number(&summary, &format!("trigger_link.supervisor.{name}"));
        assert_eq!(supervisor("sent"), 2_000);
        assert_eq!(number(&summary, "trigger_link.skipped_ids"), 0, "{summary}");
        assert_eq!(field(&summary, "programs")[0]["starts"], 1, "{summary}");
        let run = scratch.join("runs/run000001");
        assert!(run.join("code/trigger.library/libpulser.so").exists(), "the run loads a copy");
        assert!(log(&scratch).contains("triggers given: 2000"), "{}", log(&scratch));
    }
}

/// Builder units that stall make busy; the device counts what it holds back, and gives what it did not.
#[test]
fn busy_reaches_the_device_and_its_vetoes_are_in_both_accounts() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "busy",
        r#"
static int32_t poll_it(void *self, SheafTriggerBatch *batch) {
    Device *device = self;
    if (device->is_busy) {
        batch->vetoed = 2;
    } else {
        give(device, batch, 5);
    }
    batch->then = device->given >= 5000 ? SHEAF_POLL_END : SHEAF_POLL_WAIT;
    return 0;
}"#,
    );
    let slow = "[trigger.network]\nmax_rate_hz = 50000\n[filter]\nkind = \"busy\"\nbusy_us = 300\nworkers = 0\n\
                [builder]\nslots = 16\n[manager]\nbatch_events = 4\n";
    let summary = run(&scratch, &library, slow, "").exits(0).json();
    assert_agree(&summary);
    assert_eq!(number(&summary, "ledger.stored"), 5_000, "{summary}");
    let busy = field(&summary, "trigger_link.busy").as_array().expect("a list");
    let sum = |key: &str| busy.iter().map(|line| line[key].as_u64().expect("a number")).sum::<u64>();
    let vetoed = sum("vetoed");
    assert!(vetoed > 0, "{summary}");
    assert_eq!(number(&summary, "trigger_link.supervisor.offered"), 5_000 + vetoed, "{summary}");
    assert_eq!(number(&summary, "trigger_link.supervisor.own_vetoed"), 0, "{summary}");
    let said = log(&scratch);
    assert!(said.contains("busy: builder") && said.contains("busy: no"), "{said}");
    assert_eq!(sum("intervals"), sum("supervisor_intervals"), "{summary}");
    let told = said.matches("busy: ").count() as u64;
    assert!(told <= 2 * sum("intervals"), "{told} {summary}");
}

#[test]
fn a_library_that_crashes_is_started_again_and_its_ids_go_on() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "crashes",
        r#"
static int32_t poll_it(void *self, SheafTriggerBatch *batch) {
    Device *device = self;
    if (device->life == 1 && device->given >= 300) abort();
    if (device->life == 2 && device->given >= 300) {
        batch->failure = "the link is down";
        return 1;
    }
    give(device, batch, 100);
    batch->then = device->life == 3 && device->given >= 300 ? SHEAF_POLL_END : SHEAF_POLL_WAIT;
    return 0;
}"#,
    );
    let ended = run(&scratch, &library, "", "").exits(0);
    let summary = ended.json();
    assert_agree(&summary);
    let program = &field(&summary, "programs")[0];
    assert_eq!((program["starts"].as_u64(), program["failures"].as_u64()), (Some(3), Some(2)), "{summary}");
    assert_eq!(number(&summary, "trigger_link.connections"), 3, "{summary}");
    // What was on its way to the connection when the process aborted may not have been sent; nothing is doubled or skipped.
    let stored = number(&summary, "ledger.stored");
    assert!((600..=900).contains(&stored) && stored.is_multiple_of(100), "{summary}");
    assert_eq!(number(&summary, "trigger_link.skipped_ids"), 0, "{summary}");
    let said = log(&scratch);
    let third = format!("starts at {}\n", stored - 300);
    assert!(said.contains(&third) && said.contains("failed: the link is down"), "{said}");
    assert_eq!(
        said.matches("closes").count(),
        2,
        "one that fails is closed, one that has crashed is not: {said}"
    );
}

#[test]
fn nonsense_of_a_library_ends_its_process_with_the_reason() {
    const CASES: [(&str, &str); 6] = [
        ("batch->count = batch->room + 1;", "257 triggers where there is room for 256"),
        ("batch->then = 99;", "`then` is 99"),
        (
            "device->next -= 10; give(device, batch, 1);",
            "its id is below 20, the next one; each trigger has a greater id than all before it",
        ),
        ("device->next = UINT64_MAX; give(device, batch, 1);", "so that no trigger could follow"),
        ("give(device, batch, 1); batch->triggers[0].bytes = 8;", "has a payload without data"),
        (
            "give(device, batch, 1); batch->triggers[0].bytes = 8; batch->triggers[0].data = memory;",
            "has a payload of 8 bytes, but the run takes none; set `trigger.network.payload_source`",
        ),
    ];
    for (at, (nonsense, reason)) in CASES.into_iter().enumerate() {
        let scratch = ScratchDirectory::new();
        // The second life is whole.
        let poll = format!(
            "static int32_t poll_it(void *self, SheafTriggerBatch *batch) {{\n    Device *device = self;\n    \
             (void)memory;\n    if (device->life == 1 && device->given > 0) {{\n        {nonsense}\n        return 0;\n    }}\n    \
             give(device, batch, 20);\n    batch->then = device->life == 1 ? SHEAF_POLL_MORE : SHEAF_POLL_END;\n    \
             return 0;\n}}"
        );
        let library = library(&scratch, &format!("nonsense{at}"), &poll);
        let summary = run(&scratch, &library, "", "").exits(0).json();
        assert_agree(&summary);
        assert_eq!(number(&summary, "ledger.stored"), 40, "{reason}: what came before counts: {summary}");
        let said = log(&scratch);
        assert!(said.contains(reason) && said.contains("starts at 20"), "{reason}: {said}");
    }
}

/// Waits until the log of the library has this text.
fn wait_until_logged(scratch: &ScratchDirectory, text: &str) {
    let path = scratch.join("runs/run000001/evm.trigger.log");
    wait_until(text, || std::fs::read_to_string(&path).is_ok_and(|log| log.contains(text)));
}

fn start(scratch: &ScratchDirectory, library: &str, more: &str) -> Running {
    configure(scratch, library, more);
    scratch.start("run run.toml --json")
}

#[test]
fn a_library_that_blocks_is_named_and_does_not_hold_up_the_end_of_its_run() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "blocks",
        r#"
static int32_t poll_it(void *self, SheafTriggerBatch *batch) {
    Device *device = self;
    if (device->given >= 50)
        for (;;) pause();
    give(device, batch, 50);
    return 0;
}"#,
    );
    let run = start(&scratch, &library, "");
    wait_until_logged(&scratch, "has been in `poll` for 2 s; there are no triggers until it returns");
    run.signal("INT");
    let ended = run.end().exits(0);
    let summary = ended.json();
    assert_agree(&summary);
    assert_eq!(number(&summary, "ledger.stored"), 50, "{summary}");
    assert_eq!(number(&summary, "trigger_link.supervisor.sent"), 50, "the account is that of the connection");
    assert!(log(&scratch).contains("has not returned"), "{}", log(&scratch));
    assert!(!ended.stderr.contains("has not given its account"), "{}", ended.stderr);
}

#[test]
fn ctrl_c_stops_and_closes_the_library_once() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let library = library(
            &scratch,
            "endless",
            "static int32_t poll_it(void *self, SheafTriggerBatch *batch) { give(self, batch, 1); return 0; }",
        );
        configure(&scratch, &library, "");
        let run = scratch.start(&format!("run run.toml --json {flags}"));
        wait_until_logged(&scratch, "starts at 0");
        run.signal("INT");
        let summary = run.end().exits(0).json();
        assert_agree(&summary);
        let said = log(&scratch);
        assert_eq!((said.matches("stops").count(), said.matches("closes").count()), (1, 1), "{said}");
        assert_eq!(field(&summary, "programs")[0]["failures"], 0, "{summary}");
        assert_eq!(field(&summary, "programs")[0]["killed"], false, "{summary}");
    }
}

#[test]
fn a_process_of_a_library_that_is_killed_is_replaced() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "killed",
        r#"
static int32_t poll_it(void *self, SheafTriggerBatch *batch) {
    Device *device = self;
    if (device->given == 0 || device->life == 2) give(device, batch, 10);
    batch->then = device->life == 2 ? SHEAF_POLL_END : SHEAF_POLL_WAIT;
    return 0;
}"#,
    );
    let mut run = start(&scratch, &library, "");
    run.wait_until_said("program trigger is process ");
    wait_until_logged(&scratch, "starts at 0");
    let said = run.said();
    let (_, pid) = said.rsplit_once("program trigger is process ").expect("it was said");
    let pid = pid.split_whitespace().next().expect("a number").to_owned();
    let killed = Command::new("kill").args(["-9", &pid]).status().expect("there is a `kill`");
    assert!(killed.success());
    let summary = run.end().exits(0).json();
    assert_agree(&summary);
    assert_eq!(field(&summary, "programs")[0]["starts"], 2, "{summary}");
    // The first triggers may not have been sent; then the second process begins with them.
    let stored = number(&summary, "ledger.stored");
    assert!([10, 20].contains(&stored), "{summary}");
    assert!(log(&scratch).contains(&format!("starts at {}\n", stored - 10)), "{}", log(&scratch));
}

#[test]
fn payloads_of_a_library_are_fragments_of_their_source() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "payloads",
        r#"
static int32_t poll_it(void *self, SheafTriggerBatch *batch) {
    Device *device = self;
    give(device, batch, 20);
    for (size_t at = 0; at < batch->count; at++) {
        memory[at] = (uint8_t)batch->triggers[at].id;
        batch->triggers[at].data = memory + at;
        batch->triggers[at].bytes = batch->triggers[at].id % 2;
    }
    batch->then = device->given >= 100 ? SHEAF_POLL_END : SHEAF_POLL_MORE;
    return 0;
}"#,
    );
    let more = "[trigger.network]\npayload_source = 2\n[source]\ncount = 3\n[readout]\ncount = 3\n";
    let summary = run(&scratch, &library, more, "").exits(0).json();
    assert_agree(&summary);
    assert_eq!(number(&summary, "ledger.stored"), 100, "{summary}");
    let lines = crate::output::dump(&scratch.join("runs/run000001"));
    let payloads: Vec<_> = lines.iter().filter(|line| line.source == 2).collect();
    assert_eq!(payloads.len(), 100);
    for line in payloads {
        let mut crc = flate2::Crc::new();
        crc.update(&[line.event as u8][..(line.event % 2) as usize]);
        assert_eq!((line.bytes, line.crc32), (line.event % 2, crc.sum()), "{}", line.event);
    }
}

#[test]
fn a_library_that_refuses_is_asked_once_and_the_run_says_why() {
    let scratch = ScratchDirectory::new();
    let library = library(
        &scratch,
        "refuses",
        "static int32_t poll_it(void *self, SheafTriggerBatch *batch) { give(self, batch, 1); return 0; }",
    );
    let ended = run(&scratch, &library, "parameters = \"refuse\"\n", "").exits(3);
    assert!(ended.stderr.contains("rejects its configuration: there is no crate"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot open its library; it is not started again"), "{}", ended.stderr);
    let summary = ended.json();
    assert_eq!(field(&summary, "programs")[0]["starts"], 1, "{summary}");
    assert_eq!(std::fs::read_to_string(scratch.join("lives")).expect("it was opened"), "x");
}

#[test]
fn a_library_that_cannot_be_used_is_an_error_before_the_run() {
    let scratch = ScratchDirectory::new();
    let refused = |library: &str, more: &str, words: &[&str]| {
        run(&scratch, library, more, "").exits(1).says(words);
        assert!(!scratch.join("runs/run000001").exists(), "a run that cannot be leaves no directory");
    };
    refused("libabsent.so", "", &["libabsent.so (`trigger.library.path`)"]);
    scratch.file("text.so", "no library");
    refused("text.so", "", &["cannot load the trigger library"]);
    compile(&root().join(PULSER), &scratch.join("libpulser.so"));
    refused("libpulser.so", "symbol = \"ramp\"\n", &["has no function `ramp`", "`trigger.library.symbol`"]);
    old_version(&scratch.join("libold.so"), &scratch);
    refused("libold.so", "", &["has version 1 of the interface", "compile it again"]);
    refused("libpulser.so", "[trigger.network]\nlisten = \"127.0.0.1:7300\"\n", &["at a port of its own"]);
    refused("libpulser.so", "[trigger.network]\nprotocol = \"udp\"\n", &["connects over TCP"]);
    scratch.file("a.toml", "[trigger]\nmode = \"library\"\n");
    scratch.sheaf("run a.toml").exits(1).says(&["`trigger.library.path` is not set", "libmy_trigger.so"]);
    scratch.file("b.toml", "[trigger.library]\npath = \"libpulser.so\"\n");
    scratch.sheaf("run b.toml").exits(1).says(&["there is a library for the triggers"]);
}

/// Compiles a library that was made for another version.
fn old_version(library: &Path, scratch: &ScratchDirectory) {
    let text = "#include <sheaf.h>\nconst SheafTriggerTable *sheaf_trigger(void) {\n    \
                static const SheafTriggerTable table = {.abi = 1, .table_bytes = sizeof table};\n    return &table;\n}\n";
    compile(&scratch.file("old.c", text), library);
}
