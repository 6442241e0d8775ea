//! `[source] kind = "feed"`: programs of the user give the fragments.

use crate::child::{ScratchDirectory, wait_until};
use crate::farm::free_ports;
use crate::output::{dump, field, number};
use sheaf_feed::client::SourceFragment;
use sheaf_feed::{ClientOptions, FeedError, SourceClient};
use sheaf_wire::{EventId, SourceId, Timestamp};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minutes: a machine that does much else makes a test slow, never red.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn connect(scratch: &ScratchDirectory, readout: u32, sources: &[u32]) -> SourceClient {
    try_connect(scratch.join(&format!("runs/ru{readout}.feed")), sources).expect("the run accepts programs")
}

fn try_connect(socket: PathBuf, sources: &[u32]) -> Result<SourceClient, FeedError> {
    SourceClient::connect(&socket, options(sources))
}

pub(crate) fn options(sources: &[u32]) -> ClientOptions {
    ClientOptions {
        sources: sources.iter().map(|source| SourceId(*source)).collect(),
        name: format!("board {}", sources[0]),
        checksum: true,
        keep: true,
        patience: PATIENCE,
        ..ClientOptions::default()
    }
}

pub(crate) fn payload(source: usize, event: u64) -> Vec<u8> {
    let length = (event * 37 + source as u64 * 101) % 3_000;
    (0..length).map(|at| (at + event + source as u64) as u8).collect()
}

pub(crate) fn send(client: &mut SourceClient, index: usize, source: usize, event: u64) {
    let payload = payload(source, event);
    let fragment =
        SourceFragment { event: EventId(event), time: Timestamp(event * 1_000), payload: &payload };
    client.send(index, fragment).expect("the run takes fragments");
}

const RUN: &str = "[source]\nkind = \"feed\"\ncount = 4\n[readout]\ncount = 2\n[builder]\ncount = 2\n";

#[test]
fn programs_feed_a_run_byte_for_byte_and_one_dies_and_comes_back() {
    const EVENTS: u64 = 3_000;
    for flags in ["", "--processes"] {
        let scratch = ScratchDirectory::new();
        scratch.file("run.toml", RUN);
        let run = scratch.start(&format!("run run.toml --json {flags}"));
        std::thread::scope(|scope| {
            // Readout unit 0 has sources 0 and 1 of one program; unit 1 has sources 2 and 3 of one each.
            scope.spawn(|| {
                let mut both = connect(&scratch, 0, &[0, 1]);
                assert!(both.wait_for_start(None).expect("connected"));
                for event in 0..EVENTS {
                    send(&mut both, 0, 0, event);
                    send(&mut both, 1, 1, event);
                }
                both.end(0).expect("connected");
                both.end(1).expect("connected");
                assert!(both.drain().expect("connected"));
            });
            scope.spawn(|| {
                let mut next = 0;
                for life in 1..=5 {
                    let mut board = connect(&scratch, 1, &[2]);
                    assert_eq!(board.last_event(0).map_or(0, |event| event.0 + 1), next, "where it stopped");
                    assert!(board.wait_for_start(None).expect("connected"));
                    while next < EVENTS * life / 5 {
                        send(&mut board, 0, 2, next);
                        next += 1;
                    }
                    if life == 5 {
                        board.end(0).expect("connected");
                        assert!(board.drain().expect("connected"));
                    }
                }
            });
            scope.spawn(|| {
                let mut board = connect(&scratch, 1, &[3]);
                assert!(board.wait_for_start(None).expect("connected"));
                (0..EVENTS).for_each(|event| send(&mut board, 0, 3, event));
                board.end(0).expect("connected");
                assert!(board.drain().expect("connected"));
            });
        });
        let summary = run.end().exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), EVENTS, "{flags}");
        assert_eq!(field(&summary, "ledger.balanced"), true);
        let lines = dump(&scratch.join("runs/run000001"));
        assert_eq!(lines.len() as u64, 4 * EVENTS);
        for line in lines {
            assert_eq!(line.bytes, payload(line.source as usize, line.event).len() as u64);
            assert_eq!(line.crc32, crc32(&payload(line.source as usize, line.event)));
        }
    }
}

/// A program with two sources gives all of one, ends it, and dies halfway through the other. Its successor may not send for the one.
#[test]
fn a_program_that_dies_between_the_ends_of_its_sources_is_continued_by_another() {
    const EVENTS: u64 = 200;
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", &format!("{RUN}[incomplete]\npolicy = \"wait\"\n"));
    let run = scratch.start("run run.toml --json");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut others = connect(&scratch, 1, &[2, 3]);
            assert!(others.wait_for_start(None).expect("connected"));
            (0..EVENTS)
                .for_each(|event| [2, 3].into_iter().for_each(|id| send(&mut others, id - 2, id, event)));
            [0, 1].into_iter().for_each(|index| others.end(index).expect("connected"));
            assert!(others.drain().expect("connected"));
        });
        let ends_of_lives = [EVENTS / 2, EVENTS];
        for (life, until) in ends_of_lives.into_iter().enumerate() {
            let mut both = connect(&scratch, 0, &[0, 1]);
            assert!(both.wait_for_start(None).expect("connected"));
            assert_eq!([both.has_ended(0), both.has_ended(1)], [life > 0, false]);
            for (index, until) in [(0, EVENTS), (1, until)] {
                let first = both.last_event(index).map_or(0, |event| event.0 + 1);
                (first..until).for_each(|event| send(&mut both, index, index, event));
            }
            both.end(0).expect("an end may be repeated");
            if until == EVENTS {
                both.end(1).expect("connected");
                assert!(both.drain().expect("connected"));
            } else {
                while both.progress(1).1 < until {
                    both.wait(Duration::from_secs(1)).expect("connected");
                }
            }
        }
    });
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), EVENTS);
    assert_eq!(number(&summary, "events_incomplete"), 0);
}

#[test]
fn a_program_declines_the_start_and_says_why() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", RUN);
    let run = scratch.start("run run.toml");
    let mut board = connect(&scratch, 0, &[1]);
    board.decline("the high voltage is off").expect("connected");
    run.end().exits(1).says(&[
        "board 1 declines the start of the run: the high voltage is off",
        "a program that feeds ru0 declined",
    ]);
}

#[test]
fn a_second_program_for_a_source_is_refused_and_ctrl_c_ends_a_run_that_waits() {
    let scratch = ScratchDirectory::new();
    scratch.file("run.toml", RUN);
    let run = scratch.start("run run.toml --json");
    let _first = connect(&scratch, 0, &[0]);
    let impatient = ClientOptions { patience: Duration::ZERO, ..options(&[0]) };
    let second =
        SourceClient::connect(&scratch.join("runs/ru0.feed"), impatient).expect_err("it has a program");
    assert!(second.to_string().contains("another client feeds the source"), "{second}");
    let elsewhere = try_connect(scratch.join("runs/ru0.feed"), &[2]).expect_err("ru1 reads it");
    assert!(elsewhere.to_string().contains("does not read the source"), "{elsewhere}");
    wait_until("it waits", || scratch.join("runs/run000001").exists());
    run.signal("INT");
    run.end();
    assert!(!scratch.join("runs/ru0.feed").exists(), "a run that has ended has no sockets");
}

#[test]
fn the_summary_counts_refused_programs_by_reason() {
    for flags in ["", "--json", "--json --processes"] {
        let scratch = ScratchDirectory::new();
        scratch.file("run.toml", "[source]\nkind = \"feed\"\ncount = 1\n[readout]\ncount = 1\n");
        let run = scratch.start(&format!("run run.toml {flags}"));
        let mut board = connect(&scratch, 0, &[0]);
        for _ in 0..3 {
            try_connect(scratch.join("runs/ru0.feed"), &[7]).expect_err("no readout unit reads it");
        }
        assert!(board.wait_for_start(None).expect("connected"));
        send(&mut board, 0, 0, 0);
        board.end(0).expect("connected");
        assert!(board.drain().expect("connected"));
        let ended = run.end().exits(0);
        if flags.is_empty() {
            let line = ended.stdout.lines().find(|line| line.contains("unknown_source")).expect("a line");
            assert!(line.trim_start().starts_with("refused") && line.contains(" 3  "), "{line}");
        } else {
            assert_eq!(number(&ended.json(), "counters.programs_refused_unknown_source"), 3);
        }
    }
}

#[test]
fn programs_of_other_hosts_need_the_key_of_the_run() {
    let scratch = ScratchDirectory::new();
    let secret = |name: &str, digit: char| {
        let path = scratch.file(name, &digit.to_string().repeat(64));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (key, other_key) = (secret("run.key", 'a'), secret("other.key", 'b'));
    // The listener of the second readout unit is at the next port.
    let port = free_ports();
    let listen =
        format!("[source.feed]\nlisten = \"127.0.0.1:{port}\"\n[transport]\nkey_file = \"run.key\"\n");
    scratch.file("run.toml", &format!("{RUN}{listen}"));
    let run = scratch.start("run run.toml --processes --json");
    let over_network = |readout: u16, sources: &[u32], key: Option<&Path>| {
        let options = ClientOptions {
            sources: sources.iter().map(|source| SourceId(*source)).collect(),
            name: format!("board {}", sources[0]),
            patience: PATIENCE,
            key: key.map(Path::to_owned),
            ..ClientOptions::default()
        };
        SourceClient::connect(Path::new(&format!("127.0.0.1:{}", port + readout)), options)
    };
    let mut first = over_network(0, &[0, 1], Some(&key)).expect("it has the key");
    for stranger in [None, Some(other_key.as_path())] {
        over_network(1, &[2, 3], stranger).expect_err("it has no key, or another");
    }
    let mut second = over_network(1, &[2, 3], Some(&key)).expect("it has the key");
    std::thread::scope(|scope| {
        for (client, sources) in [(&mut first, [0, 1]), (&mut second, [2, 3])] {
            scope.spawn(move || {
                assert!(client.wait_for_start(None).expect("connected"));
                for event in 0..500 {
                    send(client, 0, sources[0], event);
                    send(client, 1, sources[1], event);
                }
                client.end(0).expect("connected");
                client.end(1).expect("connected");
                assert!(client.drain().expect("connected"));
            });
        }
    });
    let summary = run.end().exits(0).json();
    assert_eq!(number(&summary, "ledger.stored"), 500);
    for line in dump(&scratch.join("runs/run000001")) {
        assert_eq!(line.crc32, crc32(&payload(line.source as usize, line.event)));
    }
}

/// CRC-32 as in `sheaf dump`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
