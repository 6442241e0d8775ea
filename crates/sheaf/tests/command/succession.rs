//! Runs that follow one another without a gap: `run.continuous`, and `sheaf ctl switch`.

use crate::child::{Ended, Running, ScratchDirectory, signal, wait_until};
use crate::feed::{connect, crc32, payload, send};
use crate::filters::compile;
use crate::free_running;
use crate::output::{assert_books_match_files, directory, dump, field, number};
use crate::serve::Controller;
use crate::triggers;
use serde_json::{Value, json};
use std::path::Path;

/// Triggers wait for as long as it takes: a machine without a processor for a minute has no dead time. Commands wait nearly as long as the watchdog.
const SYSTEM: &str = "[manager]\nstart_timeout_ms = 240000\n[readout]\ncount = 2\n[builder]\ncount = 2\n[trigger]\nmode = \"fixed\"\nrate_hz = 300\n\
     queue_events = 1000000\n[source.emulated]\nmean_bytes = 256\nrms_bytes = 0\n";

const EVENTS: u64 = 120;

/// The same where the sources trigger themselves: all of them, at their rate, whichever is first with an event.
fn self_triggered() -> String {
    SYSTEM
        .replace("mode = \"fixed\"\nrate_hz = 300", "mode = \"seen\"")
        .replace("mean_bytes", "rate_hz = 300\nmean_bytes")
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that these runs, which begin with event `first`, divide time and events among them: nothing is missing between two, and nothing
/// is in both.
fn assert_without_gap(scratch: &ScratchDirectory, runs: &[Value], mut first: u64) {
    let mut ended_at = None;
    for run in runs {
        assert_books_match_files(scratch, run);
        assert_eq!(field(run, "ledger.vetoed"), &json!({}), "{run:#}");
        assert_eq!(field(run, "ledger.time.dead_ns"), &json!({}), "{run:#}");
        let triggers = number(run, "ledger.triggers");
        assert_eq!(number(run, "ledger.stored"), triggers, "{run:#}");
        let mut events: Vec<u64> = dump(&directory(scratch, run)).iter().map(|line| line.event).collect();
        events.sort_unstable();
        events.dedup();
        assert_eq!(events, (first..first + triggers).collect::<Vec<_>>(), "run {}", number(run, "run"));
        first += triggers;
        let started_at = number(run, "ledger.time.started_ns");
        assert!(ended_at.is_none_or(|ended_at| ended_at == started_at), "{run:#}");
        ended_at = Some(number(run, "ledger.time.triggers_ended_ns"));
    }
}

fn assert_follow(settings: &str) {
    assert_follow_in("", settings);
}

/// Checks the same where the command has these arguments.
fn assert_follow_in(arguments: &str, settings: &str) {
    assert_system_follows(arguments, &format!("{SYSTEM}{settings}"));
}

fn assert_system_follows(arguments: &str, system: &str) {
    assert_follow_at(&ScratchDirectory::new(), arguments, system);
}

fn assert_follow_at(scratch: &ScratchDirectory, arguments: &str, system: &str) -> Vec<Value> {
    let run = format!("[run]\nruns = 4\ncontinuous = true\nevents = {EVENTS}\nduration_s = 0\n");
    scratch.file("run.toml", &format!("{run}{system}"));
    let ended = scratch.sheaf(&format!("run run.toml --json {arguments}")).exits(0);
    let runs = lines(&ended);
    assert_eq!(
        runs.iter().map(|run| number(run, "run")).collect::<Vec<_>>(),
        [1, 2, 3, 4],
        "{}",
        ended.stderr
    );
    assert!(runs.iter().all(|run| number(run, "ledger.triggers") == EVENTS));
    assert_without_gap(scratch, &runs, 0);
    scratch.sheaf("verify --all runs").exits(0);
    runs
}

/// A preprocessor whose results name the run, and readout units that process all fragments with it.
fn preprocessing(place: &ScratchDirectory, settings: &str) -> String {
    compile("crates/sheaf/tests/command/run_preprocessor.c", &place.join("librun.so"));
    format!("[preprocessing]\npath = \"librun.so\"\n{settings}")
}

/// Each fragment is processed once, by a preprocessor of the run that it is in.
#[test]
fn runs_whose_readout_units_process_fragments_follow_one_another_without_a_gap() {
    let shared = "[transport]\nkind = \"shm\"\n";
    for (arguments, workers, transport) in [
        ("", "workers = 2\n", ""),
        ("", "processes = true\n", shared),
        ("--processes", "workers = 2\n", shared),
        ("--processes", "workers = 2\nprocesses = true\n", "[transport]\nkind = \"tcp\"\n"),
    ] {
        let scratch = ScratchDirectory::new();
        let settings = preprocessing(&scratch, workers);
        let runs = assert_follow_at(&scratch, arguments, &format!("{SYSTEM}{settings}{transport}"));
        for run in &runs {
            let lines = dump(&directory(&scratch, run));
            // More where an answer was lost or late, and was asked for again.
            assert!(number(run, "counters.preprocessing_processed") >= lines.len() as u64, "{run:#}");
            assert_eq!(lines.len() as u64, number(run, "ledger.fragments.stored"), "{run:#}");
            let number = u32::try_from(number(run, "run")).unwrap().to_le_bytes();
            for line in lines {
                let result = [&number[..], &line.source.to_le_bytes(), &line.event.to_le_bytes()].concat();
                assert_eq!(line.crc32, crc32(&result), "{arguments}: event {} of {run:#}", line.event);
            }
        }
    }
}

/// The preprocessors of the next run are made while the present one goes on. If they cannot be, it goes on, and the command names the node.
#[test]
fn a_next_run_whose_preprocessors_cannot_be_made_leaves_the_run_alone() {
    for begin in [Controller::in_one_process, Controller::begin] {
        let mut controller = begin(SYSTEM);
        let table = controller.place.join("table");
        std::fs::write(&table, "").unwrap();
        let parameters = format!("processes = true\nparameters = \"{}\"\n", table.display());
        let settings = preprocessing(&controller.place, &parameters);
        controller.place.file("run.toml", &format!("{SYSTEM}{settings}"));
        controller.ctl("start").exits(0).says(&["run 1 is running"]);
        std::fs::remove_file(&table).unwrap();
        let refused = controller.ctl("switch").exits(1).says(&["run 1 goes on", "the table is missing"]);
        assert!(refused.stderr.contains("ru0") || refused.stderr.contains("ru1"), "{}", refused.stderr);
        assert_eq!(controller.status()["state"], "running");
        std::fs::write(&table, "").unwrap();
        controller.ctl("switch").exits(0).says(&["run 2 is running"]);
        controller.ctl("stop").exits(0).says(&["run 2 ended: all"]);
        assert!(controller.runs().iter().all(|run| run["state"] == "good"));
        controller.running().signal("INT");
        controller.serve.take().expect("it serves").end().exits(0);
    }
}

#[test]
fn runs_follow_one_another_without_a_gap() {
    assert_follow("");
}

#[test]
fn runs_over_sockets_follow_one_another_without_a_gap() {
    assert_follow("[transport]\nkind = \"tcp\"\n");
}

#[test]
fn runs_through_shared_memory_with_output_nodes_follow_one_another_without_a_gap() {
    assert_follow("[output]\nnodes = 2\n[transport]\nkind = \"shm\"\n");
}

#[test]
fn runs_with_workers_follow_one_another_without_a_gap() {
    assert_follow("[filter]\nworkers = 2\nprocesses = true\n");
}

#[test]
fn runs_in_many_processes_follow_one_another_without_a_gap() {
    assert_follow_in("--processes", "[transport]\nkind = \"tcp\"\n");
}

#[test]
fn runs_in_many_processes_with_shared_memory_output_nodes_and_workers_follow_one_another_without_a_gap() {
    let workers = "[filter]\nworkers = 2\nprocesses = true\n";
    assert_follow_in("--processes", &format!("[output]\nnodes = 2\n[transport]\nkind = \"shm\"\n{workers}"));
}

#[test]
fn runs_that_the_data_trigger_follow_one_another_without_a_gap() {
    assert_system_follows("", &self_triggered());
    let one_source = self_triggered().replace("\"seen\"", "\"source\"\nsource = 0");
    assert_system_follows("", &one_source);
}

#[test]
fn runs_that_the_data_trigger_follow_one_another_in_the_same_processes() {
    assert_system_follows("--processes", &format!("{}[transport]\nkind = \"tcp\"\n", self_triggered()));
}

#[test]
fn a_node_that_is_killed_around_a_switch_takes_part_in_the_next_run() {
    assert_nodes_are_killed(SYSTEM);
}

#[test]
fn a_node_that_is_killed_where_the_data_trigger_takes_part_in_the_next_run() {
    assert_nodes_are_killed(&self_triggered());
}

/// Processes that die around the end of a run are started again, in that run or in the next one. All events are stored.
fn assert_nodes_are_killed(system: &str) {
    let scratch = ScratchDirectory::new();
    let run = "[run]\nruns = 0\ncontinuous = true\nevents = 60\nduration_s = 0\n";
    scratch.file("run.toml", &format!("{run}{system}[output]\nnodes = 1\n[transport]\nkind = \"tcp\"\n"));
    let running = scratch.start("run run.toml --processes --json");
    let mut run = 1;
    for node in ["bu0", "ru1", "out0", "bu1", "ru0", "out0"] {
        // Its manifest is closed while the next run goes on, so this is shortly after a switch, or before the next one.
        wait_until("a run is closed", || is_closed(&scratch, run));
        signal(running.wait_for_node(node, 0), "KILL");
        wait_until("another run is closed", || is_closed(&scratch, run + 1));
        run += 2;
    }
    running.signal("INT");
    let ended = running.end();
    let runs = lines(&ended);
    assert!(runs.len() >= 12, "{}", ended.stderr);
    let begun = runs.iter().filter(|run| number(run, "ledger.triggers") > 0);
    let mut first = 0;
    for run in begun {
        assert_eq!(number(run, "ledger.stored"), number(run, "ledger.triggers"), "{run:#}\n{}", ended.stderr);
        assert_eq!(field(run, "ledger.balanced"), true, "{run:#}");
        let mut events: Vec<u64> = dump(&directory(&scratch, run)).iter().map(|line| line.event).collect();
        events.sort_unstable();
        events.dedup();
        let triggers = number(run, "ledger.triggers");
        assert_eq!(events, (first..first + triggers).collect::<Vec<_>>(), "run {}", number(run, "run"));
        first += triggers;
    }
    scratch.sheaf("verify --all runs").exits(0);
}

fn is_closed(scratch: &ScratchDirectory, run: u32) -> bool {
    let manifest = std::fs::read_to_string(scratch.join(&format!("runs/run{run:06}/run.json")));
    let manifest = manifest.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    manifest.is_some_and(|manifest| manifest["ended_ns"].is_u64())
}

/// The supervisor sees one run. Each of its triggers is an event of exactly one of the runs, and its account agrees with all of them.
#[test]
fn a_trigger_supervisor_goes_on_from_run_to_run() {
    for protocol in ["tcp", "udp"] {
        let scratch = ScratchDirectory::new();
        let run = format!("[run]\nruns = 4\ncontinuous = true\nevents = {EVENTS}\nduration_s = 0\n");
        let (running, port) = triggers::start(&scratch, &format!("protocol = \"{protocol}\""), &run, "");
        let supervisor = triggers::supervise(&scratch, port, &supervising(protocol));
        let account = supervisor.end().exits(0).json();
        assert_eq!(field(&account, "agrees"), true, "{account:#}");
        let runs = lines(&running.end().exits(0));
        assert_eq!(runs.len(), 4);
        assert_triggers(&runs, &account);
    }
}

fn supervising(protocol: &str) -> String {
    let udp = if protocol == "udp" { " --udp" } else { "" };
    format!("--rate 1000 --triggers {}{udp}", 4 * EVENTS)
}

/// Checks that these runs have taken the triggers of a supervisor, without a gap.
fn assert_triggers(runs: &[Value], account: &Value) {
    let sum = |key: &str| runs.iter().map(|run| number(run, key)).sum::<u64>();
    assert_eq!(sum("trigger_link.received"), number(account, "sent"));
    assert_eq!(sum("ledger.triggers"), number(account, "sent"));
    assert_eq!(sum("ledger.stored"), number(account, "sent"));
    let mut ended_at = None;
    for run in runs {
        assert_eq!(field(run, "ledger.balanced"), true, "{run:#}");
        assert_eq!(number(run, "trigger_link.received"), number(run, "trigger_link.accepted"), "{run:#}");
        let started_at = number(run, "ledger.time.started_ns");
        assert!(ended_at.is_none_or(|ended_at| ended_at == started_at), "{run:#}");
        ended_at = Some(number(run, "ledger.time.triggers_ended_ns"));
    }
}

/// All events of the runs that programs feed.
const ALL: u64 = 4 * EVENTS;

/// A supervisor that gives the triggers of all runs.
fn supervisor() -> String {
    let supervisor = format!(
        "\"{}\", \"emulate-trigger\", \"--rate\", \"1000\", \"--triggers\", \"{ALL}\"",
        env!("CARGO_BIN_EXE_sheaf")
    );
    format!("[trigger]\nmode = \"command\"\n[trigger.command]\ncommand = [{supervisor}]\n")
}

/// As in an experiment: programs read the front ends, a supervisor or the data give the triggers, and both see one run. Each fragment is in
/// exactly one of the runs, byte for byte.
fn assert_fed(arguments: &str, trigger: &str, settings: &str) {
    let scratch = ScratchDirectory::new();
    let run = format!("[run]\nruns = 4\ncontinuous = true\nevents = {EVENTS}\nduration_s = 0\n");
    let units = "[source]\nkind = \"feed\"\ncount = 4\n[readout]\ncount = 2\n[builder]\ncount = 2\n";
    scratch.file("run.toml", &format!("{run}{trigger}{units}{settings}"));
    let running = scratch.start(&format!("run run.toml --json {arguments}"));
    std::thread::scope(|scope| {
        for readout in 0..2_u32 {
            let scratch = &scratch;
            scope.spawn(move || {
                let sources = [2 * readout, 2 * readout + 1];
                let mut program = connect(scratch, readout, &sources);
                assert!(program.wait_for_start(None).expect("connected"));
                for event in 0..ALL {
                    for (index, source) in sources.into_iter().enumerate() {
                        send(&mut program, index, source as usize, event);
                    }
                }
                (0..2).for_each(|index| program.end(index).expect("connected"));
                assert!(program.drain().expect("connected"), "everything is accepted");
            });
        }
    });
    let runs = lines(&running.end().exits(0));
    assert_eq!(runs.len(), 4);
    for (run, first) in runs.iter().zip((0..).step_by(usize::try_from(EVENTS).unwrap())) {
        assert_eq!(number(run, "ledger.stored"), EVENTS, "{run:#}");
        assert_eq!(field(run, "ledger.balanced"), true);
        assert_eq!(number(run, "ledger.fragments.received"), 4 * EVENTS, "{run:#}");
        let lines = dump(&directory(&scratch, run));
        assert_eq!(lines.len() as u64, 4 * EVENTS);
        for line in lines {
            assert!((first..first + EVENTS).contains(&line.event));
            assert_eq!(line.crc32, crc32(&payload(line.source as usize, line.event)));
        }
    }
}

#[test]
fn programs_feed_one_run_after_the_other() {
    assert_fed("", &supervisor(), "");
}

#[test]
fn programs_feed_one_run_after_the_other_in_the_same_processes() {
    assert_fed("--processes", &supervisor(), "[transport]\nkind = \"tcp\"\n");
}

#[test]
fn programs_feed_one_run_after_the_other_and_trigger_themselves() {
    let seen = "[trigger]\nmode = \"seen\"\n";
    assert_fed("", seen, "");
    assert_fed("--processes", seen, "[transport]\nkind = \"tcp\"\n");
}

/// `sheaf next` begins the next run without a gap as well, and Ctrl-C ends the last one.
#[test]
fn the_next_run_is_asked_for_by_a_signal() {
    let scratch = ScratchDirectory::new();
    let run = "[run]\nruns = 0\ncontinuous = true\nduration_s = 0\n";
    scratch.file("run.toml", &format!("{run}{SYSTEM}"));
    let running = scratch.start("run run.toml --json");
    for run in 1..=2 {
        wait_for_events(&scratch, run);
        scratch.sheaf("next runs").exits(0);
        wait_until("the next run has begun", || scratch.join(&format!("runs/run{:06}", run + 1)).exists());
    }
    wait_for_events(&scratch, 3);
    let runs = end(running);
    assert_eq!(runs.len(), 3);
    let reasons: Vec<_> = runs.iter().map(|run| manifest(&scratch, run)["end"]["reason"].clone()).collect();
    assert_eq!(reasons, ["switch", "switch", "signal"]);
    assert_without_gap(&scratch, &runs, 0);
}

fn wait_for_events(scratch: &ScratchDirectory, run: u32) {
    let run = scratch.join(&format!("runs/run{run:06}"));
    wait_until("events are written", || has_events(&run));
}

/// Returns whether an event file of a run has grown beyond its first events.
pub(crate) fn has_events(run: &Path) -> bool {
    let is_big = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let is_file = entry.path().extension().is_some_and(|extension| extension == "sheaf");
            is_file && entry.metadata().is_ok_and(|file| file.len() > 10_000)
        })
    };
    std::fs::read_dir(run).is_ok_and(|mut all| all.any(is_big))
}

fn end(running: Running) -> Vec<Value> {
    running.signal("INT");
    lines(&running.end().exits(0))
}

fn manifest(scratch: &ScratchDirectory, summary: &Value) -> Value {
    let text = std::fs::read_to_string(directory(scratch, summary).join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_system_whose_runs_cannot_follow_one_another_says_why() {
    let scratch = ScratchDirectory::new();
    let run = "runs = 2\ncontinuous = true\noverwrite = true";
    scratch.file("slices.toml", &free_running::RUN.replace("overwrite = true", run));
    scratch.sheaf("run slices.toml").exits(1).says(&["its data are cut by time"]);
    assert!(!scratch.join("runs").exists());
}

impl Controller {
    /// A controller whose runs have all nodes in one process.
    fn in_one_process(configuration: &str) -> Self {
        let place = ScratchDirectory::new();
        place.file("run.toml", configuration);
        let mut serve = place.start("serve run.toml --page 127.0.0.1:0");
        serve.wait_until_said("run control is at");
        Self { place, serve: Some(serve) }
    }
}

#[test]
fn an_operator_switches_to_the_next_run() {
    assert_switches(Controller::in_one_process, SYSTEM);
}

#[test]
fn an_operator_switches_to_the_next_run_where_the_data_trigger() {
    assert_switches(Controller::in_one_process, &self_triggered());
}

#[test]
fn an_operator_switches_to_the_next_run_in_the_same_processes() {
    assert_switches(Controller::begin, SYSTEM);
}

fn assert_switches(begin: impl Fn(&str) -> Controller, system: &str) {
    let logbook =
        "[hook.logbook]\non = \"after_stop\"\ncommand = [\"sh\", \"-c\", \"echo $SHEAF_RUN >> logbook\"]\n";
    let mut controller = begin(&format!("{system}{logbook}"));
    controller.ctl("switch").exits(1).says(&["there is no run", "start one"]);
    controller.ctl("start --comment first").exits(0).says(&["run 1 is running"]);
    for run in 2..=4 {
        let before = controller.triggers_so_far();
        wait_until("triggers are taken", || controller.triggers_so_far() > before + 30.0);
        let comment = format!("switch --comment next-{run}");
        controller.ctl(&comment).exits(0).says(&[&format!("run {run} is running")]);
    }
    wait_until("triggers are taken", || controller.triggers_so_far() > 30.0);
    controller.ctl("stop").exits(0).says(&["run 4 ended: all"]);
    let mut runs = controller.runs();
    runs.sort_by_key(|run| run["run"].as_u64());
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["good"; 4]);
    let comments: Vec<_> = runs.iter().map(|run| run["comments"][0]["text"].clone()).collect();
    assert_eq!(comments, ["first", "next-2", "next-3", "next-4"]);
    let mut times = runs.iter().map(|run| &run["ledger"]["time"]);
    let mut ended_at = times.next().unwrap()["triggers_ended_ns"].clone();
    for time in times {
        assert_eq!(time["started_ns"], ended_at);
        ended_at = time["triggers_ended_ns"].clone();
    }
    assert!(runs.iter().all(|run| run["ledger"]["vetoed"] == json!({})), "{runs:#?}");
    controller.place.sheaf("verify --all runs").exits(0);
    assert_eq!(std::fs::read_to_string(controller.place.join("logbook")).unwrap(), "1\n2\n3\n4\n");
    let journal = controller.ctl("journal").exits(0).stdout;
    for run in 1..=4 {
        assert!(journal.contains(&format!("run {run} ended: all")), "{journal}");
    }
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
}

#[test]
fn a_switch_that_is_not_possible_leaves_the_run_alone() {
    let mut controller =
        Controller::begin(&free_running::RUN.replace("duration_s = 0.5", "duration_s = 600"));
    controller.ctl("start").exits(0);
    let why = "no run can follow run 1 without a gap: its data are cut by time";
    controller.ctl("switch").exits(1).says(&[why, "stop it, and start another"]);
    controller.ctl("stop").exits(0);
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
}

/// The workers of the next run load their filters while the present one goes on. If they cannot, it goes on, and the command names the node.
#[test]
fn a_next_run_that_a_node_cannot_prepare_leaves_the_run_alone() {
    let mut controller = Controller::begin(SYSTEM);
    let place = &controller.place;
    compile("crates/sheaf/tests/command/loading_filter.c", &place.join("libloading.so"));
    let go = place.join("go");
    std::fs::write(&go, "").unwrap();
    let filter = format!(
        "[filter]\nkind = \"library\"\npath = \"libloading.so\"\nprocesses = true\nparameters = \"at once:{}\"\n",
        go.display()
    );
    place.file("run.toml", &format!("{SYSTEM}{filter}"));
    controller.ctl("start").exits(0).says(&["run 1 is running"]);
    std::fs::remove_file(&go).unwrap();
    let refused = controller.ctl("switch").exits(1).says(&["run 1 goes on", "cannot prepare run 2"]);
    assert!(refused.stderr.contains("bu0") || refused.stderr.contains("bu1"), "{}", refused.stderr);
    assert_eq!(controller.status()["state"], "running");
    assert!(!controller.place.join("runs/run000002").exists());
    std::fs::write(&go, "").unwrap();
    controller.ctl("switch").exits(0).says(&["run 2 is running"]);
    controller.ctl("stop").exits(0).says(&["run 2 ended: all"]);
    assert!(controller.runs().iter().all(|run| run["state"] == "good"));
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
}

#[test]
fn a_next_run_that_cannot_be_prepared_leaves_the_run_alone() {
    let ready = "[hook.ready]\non = \"before_start\"\ncommand = [\"sh\", \"-c\", \"test ! -e no-next\"]\n";
    let mut controller = Controller::in_one_process(&format!("{SYSTEM}{ready}"));
    controller.ctl("start").exits(0);
    controller.place.file("no-next", "");
    controller.ctl("switch").exits(1).says(&["run 1 goes on", "hook ready (before_start) failed"]);
    assert_eq!(controller.status()["state"], "running");
    assert!(!controller.place.join("runs/run000002").exists());
    std::fs::remove_file(controller.place.join("no-next")).unwrap();
    controller.ctl("switch").exits(0).says(&["run 2 is running"]);
    controller.ctl("stop").exits(0).says(&["run 2 ended: all"]);
    assert!(controller.runs().iter().all(|run| run["state"] == "good"));
    controller.running().signal("INT");
    controller.serve.take().expect("it serves").end().exits(0);
}
