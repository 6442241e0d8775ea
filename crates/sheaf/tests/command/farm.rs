//! Farms of processes: started by the run, joined by hand, killed under load.

use crate::child::{Running, ScratchDirectory, signal, wait_until};
use crate::output::{assert_books_match_files, directory, dump, field, number};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// A run without a limit, with short timeouts, so that a death is detected quickly.
const IMPATIENT: &str = "\
[run]
duration_s = 0
[source.emulated]
mean_bytes = 500
rms_bytes = 200
[readout]
count = 2
merge_timeout_ms = 50
[builder]
count = 2
check_content = true
slots = 256
event_timeout_ms = 300
request_retry_ms = 100
[manager]
max_attempts = 1000
start_timeout_ms = 5000
stop_timeout_ms = 20000
peer_timeout_ms = 1000
[protocol]
heartbeat_ms = 50
[filter]
time_limit_ms = 1000
";

/// Returns the processors that are children of a process.
fn workers(parent: u32) -> BTreeSet<u32> {
    let process = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let id: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let arguments = std::fs::read(path.join("cmdline")).ok()?;
        let is_worker = arguments.split(|byte| *byte == 0).nth(1) == Some(b"processor");
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        (is_worker && line.trim().parse() == Ok(parent)).then_some(id)
    };
    std::fs::read_dir("/proc").unwrap().filter_map(process).collect()
}

/// Waits for a worker of `parent` that is none of `not`, and returns it.
fn worker(parent: u32, not: &BTreeSet<u32>) -> u32 {
    let find = || workers(parent).into_iter().find(|id| !not.contains(id));
    wait_until("there is a worker", || find().is_some());
    find().expect("it was there")
}

/// Returns the number of bytes in the event files of the run, without the space reserved for a full disk.
fn written(run: &Path) -> u64 {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "sheaf"))
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|it| it.len())
        .sum()
}

/// Waits until the run has written more than now.
fn wait_for_work(scratch: &ScratchDirectory) {
    let run = scratch.join("runs/run000001");
    let before = written(&run);
    wait_until("the run writes events", || written(&run) > before + 20_000);
}

/// Ends the run and checks its files: every event must be there exactly once.
fn end(scratch: &ScratchDirectory, running: Running) -> Value {
    running.signal("INT");
    let summary = running.end().exits(0).json();
    assert_books_match_files(scratch, &summary);
    assert_eq!(field(&summary, "ledger.dropped"), &json!({}));
    assert_eq!(number(&summary, "ledger.stored"), number(&summary, "ledger.triggers"));
    assert_eq!(number(&summary, "trouble.content_mismatches"), 0);
    let events: BTreeSet<_> = dump(&directory(scratch, &summary)).iter().map(|line| line.event).collect();
    assert!(events.into_iter().eq(0..number(&summary, "ledger.triggers")), "every event is there");
    summary
}

fn counter(summary: &Value, name: &str) -> u64 {
    field(summary, "counters").get(name).map_or(0, |value| value.as_u64().expect("a number"))
}

/// Twenty kills under load: of processors, and of builder units with their dispatcher.
#[test]
fn processors_and_builders_that_are_killed_lose_no_event_and_store_none_twice() {
    let scratch = ScratchDirectory::new();
    let config = format!("{IMPATIENT}workers = 2\nprocesses = true\n");
    let config = scratch.file("farm.toml", &config);
    let running = scratch.start(&format!("run {} --processes --transport shm --json", config.display()));
    let mut killed = BTreeSet::new();
    for kill in 0..20 {
        let name = if kill % 2 == 0 { "bu0" } else { "bu1" };
        let builder = running.wait_for_node(name, 0);
        let victim = if kill % 7 == 6 { builder } else { worker(builder, &killed) };
        wait_for_work(&scratch);
        signal(victim, "KILL");
        killed.insert(victim);
        if victim == builder {
            running.wait_for_node(name, builder);
        }
    }
    wait_for_work(&scratch);
    let summary = end(&scratch, running);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 2);
    assert!(counter(&summary, "processors_died") > 0, "{summary:#}");
    assert!(counter(&summary, "workers_restarted") > 0, "{summary:#}");
}

/// Processors read payload that arrived over TCP, and payload produced by sources of the same process.
#[test]
fn workers_that_are_processes_judge_over_every_transport() {
    for transport in ["memory", "tcp"] {
        let scratch = ScratchDirectory::new();
        let config = format!("{IMPATIENT}workers = 2\nprocesses = true\nkind = \"prescale\"\nprescale = 3\n");
        let config = scratch.file("farm.toml", &config);
        let ended =
            scratch.sheaf(&format!("run {} --transport {transport} --events 3000 --json", config.display()));
        let summary = ended.exits(0).json();
        assert_books_match_files(&scratch, &summary);
        assert_eq!((number(&summary, "ledger.stored"), number(&summary, "ledger.rejected")), (1000, 2000));
        assert_eq!(counter(&summary, "farm_judged"), 3000, "{summary:#}");
        let workers = field(&summary, "workers").as_array().expect("a list");
        let judged: u64 = workers.iter().map(|worker| number(worker, "judged")).sum();
        assert_eq!(judged, 3000, "{summary:#}");
    }
}

/// The worker is stopped at an arbitrary moment: with events, or between an answer and its next request.
#[test]
fn a_worker_that_hangs_is_killed_and_started_again() {
    let scratch = ScratchDirectory::new();
    // There is one worker, and events wait until it has started. So it has joined when the first events are written.
    let config = format!("{IMPATIENT}workers = 1\nprocesses = true\npatience_ms = 0\n")
        .replace("count = 2\ncheck", "count = 1\ncheck");
    let config = scratch.file("farm.toml", &config);
    let mut running = scratch.start(&format!("run {} --json", config.display()));
    wait_for_work(&scratch);
    let hangs = worker(running.id(), &BTreeSet::new());
    signal(hangs, "STOP");
    running.wait_until_said("was silent for too long");
    wait_until("it is killed", || !workers(running.id()).contains(&hangs));
    wait_for_work(&scratch);
    let summary = end(&scratch, running);
    assert_eq!(counter(&summary, "processors_silent"), 1, "{summary:#}");
    assert!(counter(&summary, "workers_restarted") > 0, "{summary:#}");
}

#[test]
fn processors_join_and_leave_a_run_by_hand() {
    let scratch = ScratchDirectory::new();
    let config = format!("{IMPATIENT}door = true\npatience_ms = 0\n");
    let config = config.replace("[builder]\ncount = 2", "[builder]\ncount = 1");
    let config = scratch.file("farm.toml", &config);
    let mut running = scratch.start(&format!("run {} --json", config.display()));
    running.wait_until_said("bu0: events wait for a processor");
    let join = |at: &str| scratch.start(&format!("processor --join {at} --wait 20 --json"));
    let (mut first, mut second) = (join("runs/run000001"), join("runs/run000001/bu0.farm"));
    first.wait_until_said("judging events");
    second.wait_until_said("judging events");
    wait_for_work(&scratch);
    first.signal("INT");
    let left = first.end().exits(0).json();
    assert!(number(&left, "judged") > 0, "{left:#}");
    signal(second.id(), "KILL");
    let mut third = join("runs/run000001");
    third.wait_until_said("judging events");
    wait_for_work(&scratch);
    let summary = end(&scratch, running);
    assert!(number(&third.end().exits(0).json(), "judged") > 0, "the end of the run is its end");
    assert_eq!((counter(&summary, "processors_left"), counter(&summary, "processors_died")), (1, 1));
    assert!(!directory(&scratch, &summary).join("bu0.farm").exists(), "the door is gone with the run");
}

#[test]
fn a_processor_without_a_run_reports_the_reason() {
    let scratch = ScratchDirectory::new();
    let ended = scratch.sheaf("processor --join nowhere.farm").exits(1);
    assert!(ended.stderr.contains("cannot connect to nowhere.farm"), "{}", ended.stderr);
    let config = scratch.file("wrong.toml", "[filter]\nprocesses = true\nworkers = 0\n");
    let ended = scratch.sheaf(&format!("run {}", config.display())).exits(1);
    assert!(
        ended.stderr.contains("`filter.processes` is true, but `filter.workers` is 0"),
        "{}",
        ended.stderr
    );
}

/// Returns the first of two consecutive free ports.
pub(crate) fn free_ports() -> u16 {
    crate::nodes::free_ports_in_a_row(2)
}

/// To the run, the processors are on another host: they know only its address. Eight are killed under load, and a builder unit with
/// its dispatcher in between.
#[test]
fn processors_on_the_network_that_are_killed_lose_no_event_and_store_none_twice() {
    let scratch = ScratchDirectory::new();
    let port = free_ports();
    let config = format!("{IMPATIENT}patience_ms = 0\nlisten = \"127.0.0.1:{port}\"\n");
    let config = scratch.file("farm.toml", &config);
    let running = scratch.start(&format!("run {} --processes --transport shm --json", config.display()));
    // Each in its own directory, without a door that they could find.
    let elsewhere = ScratchDirectory::new();
    let join = |builder: u16| {
        let mut processor =
            elsewhere.start(&format!("processor --join 127.0.0.1:{} --wait 60", port + builder));
        processor.wait_until_said("judging events");
        processor
    };
    let mut processors = vec![join(0), join(1), join(0), join(1)];
    for kill in 0..8 {
        wait_for_work(&scratch);
        let victim = processors.remove(0);
        signal(victim.id(), "KILL");
        let builder = kill % 2;
        if kill % 7 == 6 {
            let name = if builder == 0 { "bu0" } else { "bu1" };
            let process = running.wait_for_node(name, 0);
            signal(process, "KILL");
            running.wait_for_node(name, process);
            // Its other processor has ended, too, because its dispatcher is gone.
            let other = processors.remove(1);
            other.end().exits(0);
            processors.push(join(builder));
            processors.swap(1, 2);
        }
        processors.push(join(builder));
    }
    wait_for_work(&scratch);
    let summary = end(&scratch, running);
    assert_eq!(number(&summary, "trouble.lost_builder_sessions"), 1);
    assert_eq!(counter(&summary, "farm_accounts_lost"), 1, "{summary:#}");
    assert!(counter(&summary, "processors_died") > 0, "{summary:#}");
    for processor in processors {
        processor.end().exits(0);
    }
}

#[test]
fn a_processor_at_a_wrong_port_reports_what_is_there() {
    let scratch = ScratchDirectory::new();
    let port = free_ports();
    let ended = scratch.sheaf(&format!("processor --join 127.0.0.1:{port}")).exits(1);
    assert!(ended.stderr.contains(&format!("cannot connect to 127.0.0.1:{port}")), "{}", ended.stderr);
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let config = format!("{IMPATIENT}patience_ms = 0\nlisten = \"127.0.0.1:{port}\"\n");
    let config = scratch.file("farm.toml", &config);
    let ended = scratch.sheaf(&format!("run {}", config.display())).exits(1);
    assert!(
        ended.stderr.contains(&format!("cannot listen at 127.0.0.1:{port} for processors")),
        "{}",
        ended.stderr
    );
    drop(taken);
}
