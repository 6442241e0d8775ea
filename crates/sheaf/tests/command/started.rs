//! `[source] kind = "command"`: the run starts the programs that feed it. The program is this test binary.

use crate::child::{Running, ScratchDirectory, wait_until};
use crate::nodes::free_ports;
use crate::output::{dump, field, number};
use sheaf_feed::client::{SourceClient, SourceFragment, SourceRecord};
use sheaf_wire::run_record::RecordKind;
use sheaf_wire::{EventId, Timestamp};
use std::path::Path;

const EVENTS: u64 = 1_500;

pub(crate) fn payload(source: u32, event: u64) -> Vec<u8> {
    (0..(event * 31 + u64::from(source) * 7) % 700).map(|at| (at + event) as u8).collect()
}

/// Is a board where a run has started this program, and else nothing. It feeds its sources with events up to `BOARD_EVENTS`. The
/// first life of a board with `BOARD_DIES` fails in the middle. With `BOARD_RECORDS` it sends a record of each source before the run begins.
#[test]
fn a_board_that_a_run_starts() {
    let Ok(events) = std::env::var("BOARD_EVENTS") else { return };
    let events: u64 = events.parse().expect("a number");
    println!("a board begins");
    let mut board = SourceClient::from_environment().expect("the run accepts it");
    let sources: Vec<u32> = board.sources().iter().map(|source| source.0).collect();
    let first = board.last_event(0).map_or(0, |event| event.0 + 1);
    let dies = std::env::var("BOARD_DIES").is_ok() && first == 0;
    if std::env::var("BOARD_RECORDS").is_ok() {
        for index in 0..sources.len() {
            let (kind, name) = (RecordKind::Begin, "gains".to_owned());
            let record = SourceRecord { kind, time: None, name, content: "gain = 3".into() };
            board.record(index, record).expect("the run has it");
        }
    }
    assert!(board.wait_for_start(None).expect("connected"));
    for event in first..events {
        for (index, source) in sources.iter().enumerate() {
            let payload = payload(*source, event);
            let fragment =
                SourceFragment { event: EventId(event), time: Timestamp(event * 1_000), payload: &payload };
            board.send(index, fragment).expect("the run takes fragments");
        }
        if dies && event == events / 2 {
            eprintln!("a board fails");
            std::process::exit(3);
        }
    }
    (0..sources.len()).for_each(|index| board.end(index).expect("connected"));
    assert!(board.drain().expect("connected"));
}

/// A command line that starts this program as a board.
pub(crate) fn board() -> String {
    let exe = std::env::current_exe().unwrap();
    format!("[\"{}\", \"--exact\", \"started::a_board_that_a_run_starts\", \"--nocapture\"]", exe.display())
}

fn programs() -> String {
    let board = board();
    format!(
        "[programs.tracker]\ncommand = {board}\nsources = [0, 1]\nenvironment = [\"BOARD_EVENTS={EVENTS}\"]\n\
         [programs.calo]\ncommand = {board}\nper_source = true\n\
         environment = [\"BOARD_EVENTS={EVENTS}\", \"BOARD_DIES=1\"]\n"
    )
}

const SOURCES: &str = "[source]\nkind = \"command\"\ncount = 4\n[source.command]\nrestart_min_ms = 1\n\
                       [incomplete]\npolicy = \"wait\"\n";

fn check_events(directory: &Path) {
    let lines = dump(directory);
    assert_eq!(lines.len() as u64, 4 * EVENTS);
    for line in lines {
        let mut crc = flate2::Crc::new();
        crc.update(&payload(line.source, line.event));
        assert_eq!(line.crc32, crc.sum(), "event {} of source {}", line.event, line.source);
    }
}

#[test]
fn one_file_starts_a_run_and_its_boards_of_which_two_fail_and_are_started_again() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        scratch.file(
            "run.toml",
            &format!("{SOURCES}[readout]\ncount = 2\n[builder]\ncount = 2\n{}", programs()),
        );
        let ended = scratch.sheaf(&format!("run run.toml --json {flags}")).exits(0).says(&[
            "ru0: tracker: a board begins",
            "ru1: calo.2: a board fails",
            "ru1: calo.3 failed (exit status: 3); it is started again in 1.000 ms",
        ]);
        let summary = ended.json();
        assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{flags}");
        assert_eq!(field(&summary, "ledger.balanced"), true);
        check_events(&scratch.join("runs/run000001"));
        let mut programs: Vec<_> = field(&summary, "programs").as_array().unwrap().iter().collect();
        programs.sort_by_key(|program| field(program, "name").to_string());
        let counts = |key: &str| programs.iter().map(|program| number(program, key)).collect::<Vec<_>>();
        let names: Vec<_> = programs.iter().map(|program| field(program, "name").as_str().unwrap()).collect();
        assert_eq!(names, ["calo.2", "calo.3", "tracker"]);
        assert_eq!((counts("starts"), counts("failures")), (vec![2, 2, 1], vec![1, 1, 0]));
        assert!(programs.iter().all(|it| field(it, "given_up") == false && field(it, "killed") == false));
        let log = std::fs::read_to_string(scratch.join("runs/run000001/ru1.calo.3.log")).unwrap();
        assert_eq!(log.matches("a board begins").count(), 2, "{log}");
        assert!(log.contains("a board fails") && log.contains("--- ended: exit status: 3"), "{log}");
    }
}

#[test]
fn records_of_boards_that_a_run_starts_are_in_its_files() {
    let scratch = ScratchDirectory::new();
    let recording = programs().replace("[\"BOARD_EVENTS=", "[\"BOARD_RECORDS=1\", \"BOARD_EVENTS=");
    scratch.file("run.toml", &format!("{SOURCES}[readout]\ncount = 2\n[builder]\ncount = 1\n{recording}"));
    let summary = scratch.sheaf("run run.toml --json").exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    let inspected = scratch.sheaf("inspect runs/run000001 --json").exits(0).json();
    let records = field(&inspected, "records").as_array().expect("a list");
    let mut sources: Vec<_> = records.iter().map(|record| number(record, "source")).collect();
    sources.sort_unstable();
    assert!(sources.len() >= 4 && [0, 1, 2, 3].iter().all(|source| sources.contains(source)), "{records:#?}");
}

#[test]
fn a_readout_unit_that_is_started_by_hand_starts_its_boards() {
    let scratch = ScratchDirectory::new();
    let [daq, tracker, calo, farm] = free_ports();
    let node = |name: &str, role: &str, at: u16, more: &str| {
        format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\naddress = \"127.0.0.1:{at}\"\n{more}\n")
    };
    let nodes = [
        node("daq", "manager", daq, ""),
        node("tracker", "readout", tracker, "sources = [0, 1]"),
        node("calo", "readout", calo, "sources = [2, 3]"),
        node("farm", "builder", farm, ""),
    ];
    let run = "[run]\nnumber = 7\n[transport]\nkind = \"tcp\"\n";
    scratch.file("run.toml", &format!("{run}{SOURCES}{}{}", programs(), nodes.concat()));
    let start = |name: &str| scratch.start(&format!("node run.toml {name} --json"));
    let running = ["farm", "calo", "tracker"].map(start);
    let summary = start("daq").end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    for node in running {
        let summary = node.end().exits(0).json();
        if field(&summary, "node") == "calo" {
            let programs = field(&summary, "programs").as_array().unwrap();
            assert_eq!(programs.iter().map(|it| number(it, "starts")).collect::<Vec<_>>(), [2, 2]);
        }
    }
    check_events(&scratch.join("runs/run000007"));
}

#[test]
fn a_program_that_does_not_exist_is_an_error_that_says_what_to_do() {
    let scratch = ScratchDirectory::new();
    let run = |command: &str, more: &str| {
        scratch.file("run.toml", &format!("[source]\nkind = \"command\"\n[readout]\ncount = 1\n[programs.board]\ncommand = {command}\n{more}"));
        let ended = scratch.sheaf("run run.toml").exits(1);
        assert!(!scratch.join("runs/run000001").exists(), "a run that cannot be leaves no directory");
        ended
    };
    run("[\"no-such-board\"]", "").says(&[
        "program board (`programs.board.command`) cannot be started",
        "no program `no-such-board` in PATH",
    ]);
    scratch.file("board.py", "print('hello')\n");
    run("[\"./board.py\"]", "").says(&["chmod +x", "command = [\"python3\", \"./board.py\"]"]);
    run("[\"sh\"]", "directory = \"nowhere\"").says(&["nowhere is not a directory"]);
    run("[]", "").says(&["[programs.board] has no `command`", "command = [\"python3\", \"board.py\"]"]);
}

#[test]
fn a_run_does_not_wait_for_a_board_that_was_given_up() {
    let scratch = ScratchDirectory::new();
    let text = "[source]\nkind = \"command\"\n[source.command]\nmax_deaths = 3\nrestart_min_ms = 1\n[readout]\ncount = 1\n\
                [programs.board]\ncommand = [\"sh\", \"-c\", \"echo no answer from crate 7; exit 3\"]\n";
    for flags in ["", "--processes"] {
        scratch.file("run.toml", text);
        scratch.sheaf(&format!("run run.toml {flags}")).exits(1).says(&[
            "ru0: board: no answer from crate 7",
            "program board declines the start of the run: it failed 3 times, at last with exit status: 3",
            "ru0.board.log",
        ]);
    }
}

#[test]
fn a_board_that_fails_in_a_run_and_is_not_started_again_leaves_incomplete_events() {
    let scratch = ScratchDirectory::new();
    let board = board();
    scratch.file(
        "run.toml",
        &format!(
            "[source]\nkind = \"command\"\ncount = 2\n[source.command]\nrestart = \"never\"\n[readout]\ncount = 2\n\
             [programs.good]\ncommand = {board}\nsources = [0]\nenvironment = [\"BOARD_EVENTS=100\"]\n\
             [programs.bad]\ncommand = {board}\nenvironment = [\"BOARD_EVENTS=100\", \"BOARD_DIES=1\"]\n"
        ),
    );
    let ended = scratch
        .sheaf("run run.toml --json")
        .exits(3)
        .says(&["ru1: bad failed (exit status: 3); it is not started again"]);
    let summary = ended.json();
    assert_eq!(number(&summary, "ledger.stored"), 100);
    assert_eq!(field(&summary, "ledger.balanced"), true);
    let missing =
        100 - dump(&scratch.join("runs/run000001")).iter().filter(|line| line.source == 1).count() as u64;
    assert!(missing >= 49, "the fragments behind the failure were never sent");
    assert_eq!(number(&summary, "events_incomplete"), missing);
}

/// Starts a run whose program starts a process of its own, and waits until both run.
fn start_family(scratch: &ScratchDirectory, flags: &str) -> (Running, [u32; 2]) {
    let script = "sleep 10000 & echo $$ $! > ids.new; mv ids.new ids; trap '' TERM; wait; wait";
    scratch.file(
        "run.toml",
        &format!(
            "[source]\nkind = \"command\"\n[source.command]\nstop_timeout_ms = 100\n[readout]\ncount = 1\n\
             [programs.board]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"
        ),
    );
    let run = scratch.start(&format!("run run.toml {flags}"));
    let ids = || std::fs::read_to_string(scratch.join("ids")).ok();
    wait_until("the program runs", || ids().is_some());
    let ids = ids().unwrap();
    let mut ids = ids.split_whitespace().map(|id| id.parse().unwrap());
    (run, [ids.next().unwrap(), ids.next().unwrap()])
}

fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn nothing_of_a_program_is_left_when_sheaf_is_killed() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let (run, ids) = start_family(&scratch, flags);
        assert!(ids.into_iter().all(is_alive));
        run.signal("KILL");
        wait_until("program and child have ended", || !ids.into_iter().any(is_alive));
    }
}

#[test]
fn a_program_that_ignores_the_end_of_its_run_is_killed() {
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        let (run, ids) = start_family(&scratch, flags);
        run.signal("INT");
        run.end();
        assert!(!ids.into_iter().any(is_alive), "they end before the run does");
    }
}
