//! Self-triggered front ends that send a recorded capture over UDP while a run takes it. The front ends are a Python program that knows
//! nothing of Sheaf; every hit and every packet is compared with the tables of the data set.

use crate::child::ScratchDirectory;
use crate::output::{assert_books_match_files, directory};
use crate::real_data::{crc, data, truth, value};
use sheaf_store::run::RunReader;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A capture.
struct Set {
    name: &'static str,
    cards: &'static [u32],
    tick_ps: u64,
    /// Packets that the capture lacks.
    lost: u64,
}

const TWO_CARDS: Set = Set { name: "example", cards: &[1, 2], tick_ps: 22_500, lost: 2 };
const DETECTOR: Set = Set { name: "example_xyu", cards: &[6, 7], tick_ps: 25_000, lost: 0 };
const FOUR_CARDS: Set = Set { name: "example_rpc", cards: &[1, 2, 4, 5], tick_ps: 22_500, lost: 0 };

/// Length of a slice.
const SLICE_PS: u64 = 1_000_000_000;

/// Time, channel and charge of the hits of each slice and card.
type Hits = BTreeMap<(u64, u32), Vec<(u64, u64, u64)>>;

/// Returns the hits of the data set's table.
fn expected(folder: &Path, set: &Set) -> Hits {
    let mut hits = Hits::new();
    for row in truth(&folder.join(format!("truth/truth_{}_hits.csv.gz", set.name))) {
        let time_ps = value(&row, "t_bc") * set.tick_ps;
        let hit = (time_ps, 64 * value(&row, "vmm") + value(&row, "channel"), value(&row, "adc"));
        hits.entry((time_ps / SLICE_PS, value(&row, "fec") as u32)).or_default().push(hit);
    }
    hits
}

/// Returns the hits in the files of a run.
fn stored(run: &Path) -> Hits {
    let mut hits = Hits::new();
    for event in RunReader::open(run).unwrap() {
        let event = event.unwrap().event;
        for fragment in &event.fragments {
            let of_slice = sheaf_wire::hit::hits(&fragment.payload).unwrap();
            let of_slice: Vec<_> =
                of_slice.map(|hit| (hit.time_ps, u64::from(hit.channel), u64::from(hit.value))).collect();
            if !of_slice.is_empty() {
                assert!(hits.insert((event.id.0, fragment.source.0), of_slice).is_none(), "each slice once");
            }
        }
    }
    hits
}

/// Starts the front ends. They wait for a receiver. Hits are between two bunch clocks.
fn front_ends(
    scratch: &ScratchDirectory,
    capture: &Path,
    address: &str,
    (first, last): (u64, u64),
    options: &str,
) -> Child {
    let python = std::env::var("SHEAF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/front_ends/srs.py"))
        .arg(capture)
        .args([address.to_owned(), first.to_string(), last.to_string()])
        .args(options.split_whitespace())
        .stdout(Stdio::from(std::fs::File::create(scratch.join("sent.txt")).unwrap()))
        .spawn()
        .expect("there is Python")
}

/// Builds slices of what the front ends send, and compares them with the tables.
fn build_live(set: &Set, options: &str) {
    let Some(folder) = data("vmm3a_srs") else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: there is no python3 for the front ends");
    }
    let mut expected = expected(&folder, set);
    let times = expected.values().flatten().map(|(time_ps, ..)| *time_ps);
    let (first, last) = (times.clone().min().expect("there are hits"), times.max().expect("there are hits"));
    for card in set.cards {
        // The first hit of each card, which the front ends add.
        expected.entry((first / SLICE_PS, *card)).or_default().push((first, 64 * 31, 0));
    }
    let scratch = ScratchDirectory::new();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    scratch.file(
        "run.toml",
        &format!(
            "[run]\nevents = {}\nduration_s = 0\n[source]\nkind = \"packets\"\n[source.timed]\nlisten = \"{address}\"\n\
             cards = {:?}\ntick = \"{} ps\"\nslice_us = {}\n[readout]\ncount = 1\n[builder]\ncount = 2\n[incomplete]\n\
             policy = \"wait\"\n",
            last / SLICE_PS - first / SLICE_PS + 1,
            set.cards,
            set.tick_ps,
            SLICE_PS / 1_000_000,
        ),
    );
    let capture = folder.join(format!("{}.pcapng", set.name));
    let mut sender =
        front_ends(&scratch, &capture, &address, (first / set.tick_ps, last / set.tick_ps), options);
    let summary = scratch.sheaf("run run.toml --processes --json").exits(0).json();
    // It may still send to the run that has ended.
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert_books_match_files(&scratch, &summary);
    let mut stored = stored(&directory(&scratch, &summary));
    for hits in expected.values_mut().chain(stored.values_mut()) {
        hits.sort_unstable();
    }
    assert!(stored.keys().eq(expected.keys()), "slices with hits: {:?}", stored.keys());
    assert!(stored == expected, "time, channel and charge of every hit");
    assert_packets(&scratch, &folder, set);
    // Counters that are zero are left out.
    assert_eq!(summary["counters"]["source_packets_lost"].as_u64().unwrap_or(0), set.lost, "{summary:#}");
    assert!(summary["counters"].get("source_packets_dropped").is_none(), "{summary:#}");
}

/// Checks that the front ends have sent the packets of the table.
fn assert_packets(scratch: &ScratchDirectory, folder: &Path, set: &Set) {
    let rows = truth(&folder.join(format!("truth/truth_{}_packets.csv.gz", set.name)));
    let expected: Vec<String> = rows
        .iter()
        .map(|row| {
            let (counter, card) = (value(row, "frame_counter"), value(row, "fec"));
            format!("{counter} {card} {:08x}", crc(row, "crc32_payload"))
        })
        .collect();
    let sent = std::fs::read_to_string(scratch.join("sent.txt")).unwrap();
    assert_eq!(sent.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn two_cards_that_send_at_full_speed_are_built_hit_by_hit() {
    build_live(&TWO_CARDS, "");
}

#[test]
fn a_detector_that_sends_at_full_speed_is_built_hit_by_hit() {
    build_live(&DETECTOR, "");
}

#[test]
fn a_detector_that_sends_at_recorded_speed_is_built_hit_by_hit() {
    build_live(&DETECTOR, "--recorded-speed");
}

#[test]
fn four_cards_that_send_at_recorded_speed_are_built_hit_by_hit() {
    build_live(&FOUR_CARDS, "--recorded-speed");
}
