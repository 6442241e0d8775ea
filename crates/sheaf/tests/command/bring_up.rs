//! `sheaf source check` and `sheaf record`: live sources without a run.

use crate::active::{compile, root};
use crate::child::{Running, ScratchDirectory};
use crate::nodes::free_ports;
use crate::output::{dump, field, number};
use crate::started::{board, payload};
use serde_json::Value;
use std::net::UdpSocket;

/// Starts `sheaf`, and waits until it reads.
fn start(scratch: &ScratchDirectory, arguments: &str, said: &str) -> Running {
    let mut running = scratch.start(arguments);
    running.wait_until_said(said);
    running
}

fn sources(report: &Value) -> &[Value] {
    field(report, "sources").as_array().unwrap()
}

#[test]
fn emulated_sources_are_shown_without_a_run() {
    let scratch = ScratchDirectory::new();
    scratch.file(
        "run.toml",
        "[readout]\ncount = 2\n[source]\ncount = 3\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = 700\n",
    );
    let ended = scratch.sheaf("source check run.toml --fragments 3000 --json").exits(0);
    let report = ended.json();
    let fragments: u64 = sources(&report).iter().map(|source| number(source, "fragments")).sum();
    assert_eq!((sources(&report).len(), fragments), (3, 3_000));
    for source in sources(&report) {
        for quantile in ["min", "median", "max"] {
            assert_eq!(number(source, &format!("size_bytes.{quantile}")), 700);
        }
        assert_eq!((number(source, "gaps"), number(source, "out_of_order")), (0, 0));
        assert_eq!(number(source, "bytes"), 700 * number(source, "fragments"));
    }
    assert!(!scratch.join("runs").exists(), "nothing is written");
    let text = scratch.sheaf("source check run.toml --fragments 300").exits(0).stdout;
    assert!(text.contains("700 to 700 bytes, median 700") && text.contains("first bytes"), "{text}");
}

/// Sends six packets with a gap, disorder and a repetition.
fn send_in_disorder(port: u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (event, time) in [(10_u16, 100_u32), (11, 200), (15, 300), (14, 250), (14, 260), (16, 400)] {
        let packet = [&event.to_be_bytes()[..], &time.to_be_bytes(), b"data"].concat();
        socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
    }
}

#[test]
fn gaps_disorder_and_repetitions_are_recorded_and_replayed() {
    let scratch = ScratchDirectory::new();
    let [port] = free_ports();
    let text = "[source]\nkind = \"stream\"\n[source.stream]\nevent = \"u16 at 0\"\ntime = \"u32 at 2\"\n";
    scratch.file("run.toml", &format!("{text}listen = \"127.0.0.1:{port}\"\n"));
    let record = start(&scratch, "record run.toml --output night --fragments 6", "reading 1 source");
    send_in_disorder(port);
    record.end().exits(0);
    let summary = scratch.sheaf("run --replay night --json").exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 5);
    assert_eq!(number(&summary, "ledger.fragments.received"), 6);
    assert_eq!(number(&summary, "ledger.fragments.dropped.duplicate"), 1);
    assert_eq!(number(&summary, "counters.out_of_order"), 2);
    let times: Vec<_> =
        dump(&scratch.join("runs/run000001")).iter().map(|it| (it.event, it.time_ns)).collect();
    assert_eq!(times, [(10, 100), (11, 200), (14, 250), (15, 300), (16, 400)]);
}

#[test]
fn gaps_and_disorder_of_described_packets_are_shown() {
    let scratch = ScratchDirectory::new();
    let [port] = free_ports();
    let text = "[source]\nkind = \"stream\"\n[source.stream]\nevent = \"u16 at 0\"\ntime = \"u32 at 2\"\n";
    scratch.file("run.toml", &format!("{text}listen = \"127.0.0.1:{port}\"\n"));
    let check = start(&scratch, "source check run.toml --fragments 6 --json", "reading 1 source");
    send_in_disorder(port);
    let report = check.end().exits(3).json();
    let [source] = sources(&report) else { panic!("one source: {report}") };
    let counts =
        ["fragments", "first_event", "last_event", "gaps", "missing_ids", "out_of_order", "repeated"];
    assert_eq!(counts.map(|name| number(source, name)), [6, 10, 16, 1, 3, 2, 1]);
    assert_eq!((number(source, "times_back"), field(source, "has_times")), (1, &Value::Bool(true)));
    assert_eq!(field(source, "first_payload"), "64 61 74 61");
    assert_eq!(number(source, "counters.packets"), 6);
}

#[test]
fn packets_at_an_address_are_shown_before_there_is_a_description() {
    let scratch = ScratchDirectory::new();
    let [port] = free_ports();
    let arguments = format!("source check 127.0.0.1:{port} --fragments 3 --json");
    let check = start(&scratch, &arguments, "waiting for packets");
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for (socket, packet) in [(0, &b"one"[..]), (1, b"other"), (0, b"three")] {
        sockets[socket].send_to(packet, ("127.0.0.1", port)).unwrap();
    }
    let report = check.end().exits(0).json();
    let sender = sockets[0].local_addr().unwrap().to_string();
    let first =
        sources(&report).iter().find(|it| field(it, "source") == sender.as_str()).expect("it has sent");
    assert_eq!((number(first, "fragments"), number(first, "size_bytes.max")), (2, 5));
    assert_eq!(field(first, "first_payload"), "6f 6e 65");
    assert_eq!(sources(&report).len(), 2);
    scratch
        .sheaf("source check nowhere.toml")
        .exits(1)
        .says(&["neither a configuration file nor an address"]);
}

#[test]
fn sources_that_a_program_feeds_and_a_library_gives_are_shown() {
    let scratch = ScratchDirectory::new();
    let head = "count = 2\n[readout]\ncount = 1\n";
    scratch.file(
        "command.toml",
        &format!(
            "[source]\nkind = \"command\"\n{head}[programs.board]\ncommand = {}\nenvironment = [\"BOARD_EVENTS=500\"]\n",
            board()
        ),
    );
    compile(&root().join("examples/sources/library/c/ramp.c"), &scratch.join("libramp.so"));
    for (name, isolated) in [("library", false), ("isolated", true)] {
        let library = "path = \"./libramp.so\"\nparameters = \"events=500 samples=10\"";
        let text = format!(
            "[source]\nkind = \"library\"\n{head}[source.library]\n{library}\nisolated = {isolated}\n"
        );
        scratch.file(&format!("{name}.toml"), &text);
    }
    for name in ["command", "library", "isolated"] {
        let report = scratch.sheaf(&format!("source check {name}.toml --json")).exits(0).json();
        for source in sources(&report) {
            assert_eq!((number(source, "fragments"), number(source, "last_event")), (500, 499), "{name}");
        }
        assert_eq!(sources(&report).len(), 2);
    }
    let fails = "[source]\nkind = \"command\"\n[source.command]\nrestart = \"never\"\n[readout]\ncount = 1\n\
                 [programs.board]\ncommand = [\"sh\", \"-c\", \"exit 9\"]\n";
    scratch.file("fails.toml", fails);
    scratch
        .sheaf("source check fails.toml")
        .exits(1)
        .says(&["program board declines the start", "exit status: 9"]);
}

#[test]
fn a_recording_replays_as_it_came() {
    const EVENTS: u64 = 400;
    let scratch = ScratchDirectory::new();
    let text = format!(
        "[source]\nkind = \"command\"\ncount = 2\n[readout]\ncount = 1\n[programs.board]\ncommand = {}\n\
         environment = [\"BOARD_EVENTS={EVENTS}\"]\n",
        board()
    );
    scratch.file("run.toml", &text);
    for (directory, flags) in [("own", ""), ("arrival", "--times arrival")] {
        let recorded = scratch.sheaf(&format!("record run.toml --output {directory} {flags}")).exits(0);
        assert!(recorded.stdout.contains("800 fragments"), "{}", recorded.stdout);
        // The recorded times are played, a thousand times as fast.
        let replay = format!(
            "[run]\noutput = \"runs-{directory}\"\n[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"{directory}\"\n\
             pacing = \"recorded\"\nspeed = 1000.0\n"
        );
        scratch.file("replay.toml", &replay);
        let summary = scratch.sheaf("run replay.toml --json").exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), EVENTS);
        let lines = dump(&scratch.join(&format!("runs-{directory}/run000001")));
        assert_eq!(lines.len() as u64, 2 * EVENTS);
        for line in lines {
            let mut crc = flate2::Crc::new();
            crc.update(&payload(line.source, line.event));
            assert_eq!(line.crc32, crc.sum());
            // A board gives its fragments a microsecond for each event.
            assert!(directory == "arrival" || line.time_ns == line.event * 1_000);
        }
        let again = scratch.sheaf(&format!("record run.toml --output {directory}")).exits(1);
        again.says(&["has fragment streams"]);
    }
    assert!(scratch.join("own/ru0.board.log").exists(), "the output of the program is beside the streams");
}

#[test]
fn a_recording_ends_at_its_bounds_and_does_not_begin_without_room() {
    let scratch = ScratchDirectory::new();
    scratch.file(
        "run.toml",
        "[readout]\ncount = 2\n[source]\ncount = 2\n[source.emulated]\nsize = \"fixed\"\nmean_bytes = 1000\n",
    );
    let by_number = scratch.sheaf("record run.toml --output number --fragments 101").exits(0).stdout;
    assert!(by_number.contains("101 fragments, 101,000 bytes in number"), "{by_number}");
    let by_bytes = scratch.sheaf("record run.toml --output bytes --bytes 5500").exits(0).stdout;
    assert!(by_bytes.contains("6 fragments, 6,000 bytes"), "{by_bytes}");
    let summary = scratch.sheaf("inspect number --json").exits(0).json();
    assert!(summary.to_string().contains("101"), "{summary}");
    let most = 1_u64 << 40;
    let disk = rustix::fs::statvfs(scratch.path()).unwrap();
    if disk.f_bavail * disk.f_frsize > most {
        println!("skipped in part: the disk has more room than a configuration can ask for");
        return;
    }
    scratch.file("full.toml", &format!("[output]\nkeep_free_bytes = {most}\n"));
    scratch
        .sheaf("record full.toml --output full --fragments 1")
        .exits(1)
        .says(&["output.keep_free_bytes requires"]);
}
