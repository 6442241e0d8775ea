//! Hit spools: windows of captures and of live packets, while they are recorded and after the process was killed.

use crate::child::{Running, ScratchDirectory};
use crate::hits::{configure, packet, write_capture};
use crate::real_data::{data, truth, value};
use serde_json::{Value, json};
use sheaf_store::event_file::EventFileReader;
use std::collections::BTreeMap;
use std::net::UdpSocket;

/// Times of hits, in ns: the tick of the configurations.
type Ticks = Vec<u64>;

/// Returns times, channels and the report of each event of a file.
fn windows(place: &ScratchDirectory, name: &str) -> Vec<(Ticks, Value)> {
    let reader = EventFileReader::open(&place.join(name)).unwrap();
    let events = reader.map(|stored| {
        let stored = stored.unwrap();
        let payloads = stored.event.fragments.iter().map(|fragment| &fragment.payload);
        let hits = payloads.flat_map(|payload| sheaf_wire::hit::hits(payload).unwrap().collect::<Vec<_>>());
        let ticks = hits.map(|hit| hit.time_ps / 1_000).collect();
        (ticks, serde_json::from_slice(&stored.verdict.payload).unwrap())
    });
    events.collect()
}

fn within(ticks: &[u64], from: u64, until: u64) -> Ticks {
    ticks.iter().copied().filter(|at| (from..until).contains(at)).collect()
}

#[test]
fn windows_of_a_capture_are_exact_across_slices_with_overlaps() {
    let place = ScratchDirectory::new();
    let ticks: Ticks = (0..400).map(|number| 5_000 + 37 * number).collect();
    write_capture(&place, "capture.pcap", &ticks);
    configure(&place, "before_us = 0.5\nafter_us = 0.7\n");
    let summary = place.sheaf("spool run.toml --json").exits(0).json();
    assert_eq!((&summary["spool"]["spooled"], &summary["balanced"]), (&json!(400), &json!(true)));
    let asked = [(5_000, 5_001), (6_500, 9_300), (7_000, 8_000), (5_000, 19_000), (6_000, 6_000)];
    let flags: String = asked.iter().map(|(from, to)| format!(" --from {from}ns --to {to}ns")).collect();
    place.sheaf(&format!("extract{flags}")).exits(0);
    let found = windows(&place, "windows.sheaf");
    assert_eq!(found.len(), asked.len());
    for ((ticks_of_window, report), (from, until)) in found.iter().zip(asked) {
        assert_eq!(*ticks_of_window, within(&ticks, from, until));
        assert_eq!(report["from_ps"], json!(from * 1_000));
    }
    place.sheaf("verify windows.sheaf").exits(0);
    place.sheaf("inspect windows.sheaf").exits(0);
    place.sheaf("extract --from 0 --to 1").exits(1).says(&["windows.sheaf already exists"]);
}

#[test]
fn a_report_says_what_a_spool_does_not_have() {
    let place = ScratchDirectory::new();
    write_capture(&place, "capture.pcap", &[5_000, 5_500, 9_200]);
    configure(&place, "");
    place.sheaf("spool run.toml --time-zero 2026-11-25T12:00:00Z").exits(0);
    let ended =
        place.sheaf("extract --from 4us --to 6us --sources 1-3,7 --output early.sheaf --json").exits(3);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let not_held = &report[0]["not_held"];
    let reasons = [(0, "before_recording", 1), (1, "unknown_source", 7)];
    for (at, reason, source) in reasons {
        assert_eq!((&not_held[at]["reason"], &not_held[at]["sources"]), (&json!(reason), &json!([source])));
    }
    let (ticks, _) = windows(&place, "early.sheaf").remove(0);
    assert_eq!(ticks, [5_000, 5_500]);
    let text = place.sheaf("extract --from 7us --to 8us --output silent.sheaf").exits(0).stdout;
    assert!(text.contains("no hits: source 1"), "{text}");
    let utc =
        "extract --from 2026-11-25T12:00:00.000005Z --to 2026-11-25T12:00:00.0000055Z --output utc.sheaf";
    place.sheaf(utc).exits(0);
    assert_eq!(windows(&place, "utc.sheaf")[0].0, [5_000]);
    let text = place.sheaf("inspect utc.sheaf").exits(0).stdout;
    assert!(text.contains("2026-11-25T12:00:00Z"), "the file states the unit and time 0: {text}");
    let csv = place.sheaf("dump utc.sheaf").exits(0).stdout;
    assert!(csv.contains(",5000000,"), "the begin of the window in ps: {csv}");
    let text = place.sheaf("extract").exits(0).stdout;
    assert!(text.contains("3 hits of 1 source"), "{text}");
}

#[test]
fn mistakes_are_refused_with_a_remedy() {
    let place = ScratchDirectory::new();
    place.file("emulated.toml", "[run]\nevents = 1\n");
    place.sheaf("spool emulated.toml").exits(1).says(&["build_by = \"time\"", "sheaf record"]);
    write_capture(&place, "capture.pcap", &[5_000]);
    configure(&place, "");
    place.sheaf("spool run.toml --keep 1MiB").exits(1).says(&["at least 8,388,608"]);
    place.sheaf("spool run.toml").exits(0);
    place.sheaf("extract --from 1").exits(1).says(&["1 `--from` and 0 `--to`"]);
    place.sheaf("extract --from 2 --to 1").exits(1).says(&["begins at 2.0 s, after its end"]);
    place.sheaf("extract --from soon --to 1").exits(2).says(&["seconds since the run's time 0"]);
    let utc = "extract --from 2026-11-25T12:00:00Z --to 2026-11-25T12:00:01Z";
    place.sheaf(utc).exits(1).says(&["does not know the UTC", "--time-zero"]);
    place.sheaf("extract absent").exits(1).says(&["absent"]);
}

/// A spool of live packets of card 1, and the socket and address of the front end.
struct LiveSpool {
    running: Running,
    front_end: UdpSocket,
    address: String,
    sent: u32,
}

impl LiveSpool {
    fn start(place: &ScratchDirectory, flags: &str, more: &str) -> Self {
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let timed = "tick = \"1 ns\"\nslice_us = 1.0\ntolerance_us = 2.0\n";
        place.file(
            "live.toml",
            &format!("{more}[source]\nkind = \"packets\"\n[source.timed]\nlisten = \"{address}\"\ncards = [1]\n{timed}"),
        );
        let mut running = place.start(&format!("spool live.toml {flags}"));
        running.wait_until_said("reading 1 source");
        Self { running, front_end: UdpSocket::bind("127.0.0.1:0").unwrap(), address, sent: 0 }
    }

    fn send(&mut self, ticks: &[u64]) {
        for at in ticks {
            self.sent += 1;
            self.front_end.send_to(&packet(self.sent, *at), &self.address).unwrap();
        }
    }
}

/// Waits until the window is held. Returns its hits.
fn extract(place: &ScratchDirectory, flags: &str) -> Ticks {
    let _ = std::fs::remove_file(place.join("windows.sheaf"));
    place.sheaf(&format!("extract {flags} --wait 300")).exits(0);
    windows(place, "windows.sheaf").remove(0).0
}

#[test]
fn a_killed_recording_has_what_it_had_written_and_the_next_one_closes_its_segment() {
    let place = ScratchDirectory::new();
    let mut live = LiveSpool::start(&place, "", "");
    let ticks: Ticks = (0..200).map(|number| 5_000 + 100 * number).collect();
    live.send(&ticks);
    // The last slices wait for later hits.
    let window = "--from 6us --to 20us";
    assert_eq!(extract(&place, window), within(&ticks, 6_000, 20_000), "by the process that records");
    place.sheaf("verify spool").exits(4);
    live.running.signal("KILL");
    live.running.end();
    let text = place.sheaf("verify spool").exits(3).stdout;
    assert!(text.contains("not closed"), "{text}");
    assert_eq!(extract(&place, window), within(&ticks, 6_000, 20_000), "from the files");
    let mut next = LiveSpool::start(&place, "", "");
    assert!(next.running.said().contains("was not closed"));
    next.running.signal("INT");
    next.running.end().exits(0);
    place.sheaf("verify spool").exits(0);
    let earlier = place.sheaf("extract --json").exits(0).json();
    let session = earlier["sessions"][0]["session"].as_str().unwrap().to_owned();
    assert_eq!(extract(&place, &format!("{window} --session {session}")), within(&ticks, 6_000, 20_000));
}

#[test]
fn over_the_network_a_window_needs_the_key_of_the_run_and_ctrl_c_ends_a_recording_in_good_order() {
    let place = ScratchDirectory::new();
    let key = place.join("run.key");
    sheaf_key::RunKey::make_file(&key).unwrap();
    sheaf_key::RunKey::make_file(&place.join("other.key")).unwrap();
    let more = "[transport]\nkind = \"tcp\"\nkey_file = \"run.key\"\n";
    let mut live = LiveSpool::start(&place, "--listen 127.0.0.1:0 --json", more);
    let said = live.running.said();
    let (_, address) = said.split_once("requests are answered at ").expect("it says where");
    let address = address.split_whitespace().next().unwrap();
    let ticks: Ticks = (0..200).map(|number| 5_000 + 100 * number).collect();
    live.send(&ticks);
    let window = format!("--connect {address} --from 6us --to 20us");
    assert_eq!(extract(&place, &format!("{window} --key run.key")), within(&ticks, 6_000, 20_000));
    place.sheaf(&format!("extract {window} --output none.sheaf")).exits(1).says(&["asks for the key"]);
    place
        .sheaf(&format!("extract {window} --key other.key --output none.sheaf"))
        .exits(1)
        .says(&["has another key"]);
    live.running.signal("INT");
    let summary = live.running.end().exits(0).json();
    assert_eq!(summary["balanced"], json!(true));
    assert_eq!(summary["requests"]["requesters_wrong_key"], json!(2));
    assert!(summary["requests"]["windows"].as_u64().unwrap() >= 1);
}

#[test]
fn verify_finds_a_damaged_block() {
    let place = ScratchDirectory::new();
    write_capture(&place, "capture.pcap", &(0..40).map(|number| 5_000 + 500 * number).collect::<Ticks>());
    configure(&place, "");
    place.sheaf("spool run.toml").exits(0);
    let report = place.sheaf("verify spool --json").exits(0).json();
    assert_eq!((&report["ok"], &report["hits"]), (&json!(true), &json!(40)));
    let segment = place.join("spool/segment-0000000001.spool");
    let mut bytes = std::fs::read(&segment).unwrap();
    let hits = bytes.windows(4).position(|window| window == b"SPBK").unwrap() + 48 + 32;
    bytes[hits + 20] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let report = place.sheaf("verify spool --json").exits(3).json();
    assert_eq!(report["problems"][0]["damaged_blocks"], json!(1));
    let ended = place.sheaf("extract --from 0 --to 1s").exits(3);
    assert!(ended.stdout.contains("damaged: source 1"), "{}", ended.stdout);
}

/// Windows of real captures, over borders of slices, compared with the tables of the data set.
#[test]
fn windows_of_real_captures_have_the_hits_of_their_tables() {
    let Some(folder) = data("vmm3a_srs") else { return };
    for (name, tick_ps) in [("example", 22_500), ("example_xyu", 25_000), ("example_rpc", 22_500)] {
        let place = ScratchDirectory::new();
        let mut expected: BTreeMap<u32, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for row in truth(&folder.join(format!("truth/truth_{name}_hits.csv.gz"))) {
            let hit = (
                value(&row, "t_bc") * tick_ps,
                64 * value(&row, "vmm") + value(&row, "channel"),
                value(&row, "adc"),
            );
            expected.entry(value(&row, "fec") as u32).or_default().push(hit);
        }
        let all: Vec<u64> = expected.values().flatten().map(|hit| hit.0).collect();
        let (first, last) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
        let capture = folder.join(format!("{name}.pcapng"));
        place.file(
            "run.toml",
            &format!(
                "[source]\nkind = \"capture\"\n[source.timed]\nfile = \"{}\"\ntick = \"{tick_ps} ps\"\nslice_us = 100.0\n\
                 before_us = 30.0\nafter_us = 70.0\n",
                capture.display()
            ),
        );
        place.sheaf("spool run.toml").exits(0);
        let step = (last - first) / 7;
        let asked = (0..7).map(|part| (first + part * step, first + (part + 1) * step + part * 1_234));
        let asked: Vec<_> = asked.collect();
        let flags: String =
            asked.iter().map(|(from, to)| format!(" --from {from}ps --to {}ps", (*to).min(last))).collect();
        place.sheaf(&format!("extract{flags}")).exits(0);
        let reader = EventFileReader::open(&place.join("windows.sheaf")).unwrap();
        for (stored, (from, to)) in reader.zip(asked) {
            let event = stored.unwrap().event;
            assert_eq!(event.fragments.len(), expected.len());
            for fragment in &event.fragments {
                let hits = sheaf_wire::hit::hits(&fragment.payload).unwrap();
                let mut found: Vec<_> =
                    hits.map(|hit| (hit.time_ps, u64::from(hit.channel), u64::from(hit.value))).collect();
                assert!(found.is_sorted_by_key(|hit| hit.0));
                found.sort_unstable();
                let own =
                    expected[&fragment.source.0].iter().filter(|hit| (from..to.min(last)).contains(&hit.0));
                let mut own: Vec<_> = own.copied().collect();
                own.sort_unstable();
                assert_eq!(found, own, "{name}, source {}", fragment.source);
            }
        }
    }
}

/// Coincidences of two sources of a recording, and the hits of all sources in their windows.
#[test]
fn windows_that_a_run_has_stored_are_extracted_of_a_spooled_replay() {
    let place = ScratchDirectory::new();
    let hits = crate::windowed::record(&place.join("recording"));
    let settings = "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"recording\"\n\
         [source.timed]\nfront_end = \"described\"\ntimes = \"fragment\"\ntick = \"1 ns\"\nslice_us = 200\ntolerance_us = 2000\n\
         before_us = 10\nafter_us = 100\n[source.hits]\nrecord_bytes = 4\ntime = \"u32le at 0\"\n\
         [filter]\nkind = \"coincidence\"\ngap_ps = 2_000_000\nmin_sources = 3\n";
    place.file("run.toml", settings);
    place.sheaf("spool run.toml").exits(0);
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    let run = run_directory(&summary);
    let found =
        place.sheaf(&format!("extract --windows {run} --margin 3us --output found.sheaf --json")).exits(0);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let found = found.as_array().unwrap();
    assert!(found.len() > 10, "{}", found.len());
    for window in found {
        let (from, until) = (window["from_ps"].as_u64().unwrap(), window["until_ps"].as_u64().unwrap());
        let expected = hits.values().flatten().filter(|time| (from..until).contains(time)).count();
        assert_eq!(window["hits"], expected, "{window}");
        assert!(window["sources"].as_u64() >= Some(3), "{window}");
    }
    // Events of a run that looks for nothing have no windows.
    place.file(
        "plain.toml",
        &settings.replace(
            "kind = \"coincidence\"\ngap_ps = 2_000_000\nmin_sources = 3\n",
            "kind = \"accept-all\"\n",
        ),
    );
    let summary = place.sheaf("run plain.toml --json").exits(0).json();
    let refused = place.sheaf(&format!("extract --windows {} --output none.sheaf", run_directory(&summary)));
    refused.exits(1).says(&["no event", "coincidence"]);
}

fn run_directory(summary: &Value) -> String {
    summary["output"].as_str().unwrap().to_owned()
}
