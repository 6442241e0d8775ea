//! Emulated free-running front ends, compared with a plain sort of the truth.

use crate::child::ScratchDirectory;
use crate::output::{directory, number};
use serde_json::{Value, json};
use sheaf_source::free_running::detector::{FrameHit, SourceView};
use sheaf_source::free_running::{ClockLimits, Detector, DetectorConfig, Flash, FlashConfig};
use sheaf_store::event_file::EventFileReader;
use sheaf_store::run::RunReader;
use sheaf_time::Picos;
use sheaf_wire::{ClockDrift, SourceId};
use std::collections::{BTreeMap, BTreeSet};

const SLICE_PS: u64 = 1_000_000_000;
const BEFORE_PS: u64 = 1_000_000;
const AFTER_PS: u64 = 3_000_000;
const TICK_PS: i128 = 12_500;
const GAP_PS: u64 = 200_000;
const MIN_SOURCES: usize = 4;
const FRAMES: u64 = 500;
const SOURCES: [u32; 6] = [2, 3, 5, 7, 1_100, 1_300];

/// Counters of 24 bits and less start again every 210 ms and more often. Two clocks are not drawn.
pub(crate) const RUN: &str = r#"
[run]
overwrite = true

[source]
kind = "emulated"
build_by = "time"
ids = [2, 3, 5, 7, 1100, 1300]

[source.free_running]
seed = 11
channels = 50
noise_hz = 30_000
flash_hz = 400
flash_sources = 4
flash_hits = 2
flash_jitter_ps = 60_000
max_drift = "40 ppm"
max_offset_us = 5_000
min_counter_bits = 22
frame_us = 1000
disorder_us = 300
disorder_frames = 2
duration_s = 0.5

[source.timed]
front_end = "described"
tick = "12.5 ns"
slice_us = 1000
before_us = 1
after_us = 3

[source.hits]
magic = ["464d at 0"]
packet_number = "u16 at 2"
header_bytes = 6
record_bytes = 9
kind = "u8 at 0 >> 4"
marker_kinds = [4]
time = "u32le at 1 & 0xffffff"
channel = "u8 at 5"
value = "u16le at 6"
extra = "u8 at 8"

[clocks.fixed]
cards = [5]
drift = "-3/7 ppm"
offset = "-1/3 us"

[clocks.later]
cards = [1300]
offset = "2.5 ms"
bits = 23
"#;

const FILTER: &str = "[filter]\nkind = \"coincidence\"\ngap_ps = 200000\nmin_sources = 4\n";

/// A hit as a user sees it: time, channel, value and mark of flashes.
type SeenHit = (u64, u32, u16, u16);

/// A clock that was drawn or configured: drift, and offset in thirds of a picosecond.
struct TestClock {
    drift: (i128, i128),
    offset: i128,
}

impl TestClock {
    fn of(source: SourceId) -> Self {
        let limits =
            ClockLimits { drift: ClockDrift::from_ppm(40), offset: Picos(5_000_000_000), min_bits: Some(22) };
        let drawn = limits.draw(11, source, 24);
        let (drift, offset) = (drawn.drift.ratio(), drawn.offset.ratio() * 3_000);
        match source.0 {
            5 => Self { drift: (-3, 7_000_000), offset: -1_000_000 },
            1_300 => Self { drift: (0, 1), offset: 7_500_000_000 },
            _ => Self { drift: (*drift.numer(), *drift.denom()), offset: offset.to_integer() },
        }
    }

    /// Returns the time that the reading at a moment means. `None`: the clock has not counted a tick since time 0.
    fn seen(&self, time_ps: u64) -> Option<u64> {
        // A tick is `over / under` thirds of a picosecond.
        let (over, under) = (TICK_PS * 3 * self.drift.1, self.drift.0 + self.drift.1);
        let ticks = ((i128::from(time_ps) * 3 - self.offset) * under).div_euclid(over);
        let scaled = self.offset * under + ticks * over;
        (ticks >= 0 && scaled >= 0).then(|| (scaled / (3 * under)) as u64)
    }
}

fn detector() -> Detector {
    let flash = FlashConfig { rate_hz: 400.0, sources: 4, hits: 2, jitter: Picos(60_000) };
    Detector::new(DetectorConfig {
        seed: 11,
        sources: SOURCES.map(SourceId).to_vec(),
        channels: 50,
        max_value: u16::MAX,
        noise_hz: 30_000.0,
        flash,
        frame: Picos(1_000_000_000),
        disorder: Picos(300_000_000),
    })
    .unwrap()
}

/// Returns all hits of each source, sorted.
fn reference(detector: &Detector) -> BTreeMap<u32, Vec<SeenHit>> {
    let of_source = |source: &SourceId| {
        let (clock, view) = (TestClock::of(*source), SourceView::new(detector, *source).unwrap());
        let mut hits = Vec::new();
        for frame in 0..FRAMES {
            let mut of_frame = Vec::new();
            view.frame(detector, frame, &mut of_frame);
            hits.extend(of_frame.into_iter().filter_map(
                |FrameHit { after_begin, channel, value, extra, .. }| {
                    let time_ps = clock.seen((detector.begin(frame) + after_begin).0)?;
                    Some((time_ps, channel, value, extra))
                },
            ));
        }
        hits.sort_unstable();
        (source.0, hits)
    };
    detector.config().sources.iter().map(of_source).collect()
}

/// Returns first hit, last hit, number of hits and number of sources of each coincidence.
fn coincidences(hits: &BTreeMap<u32, Vec<SeenHit>>) -> Vec<(u64, u64, u32, u32)> {
    let mut all: Vec<_> =
        hits.iter().flat_map(|(source, hits)| hits.iter().map(|hit| (hit.0, *source))).collect();
    all.sort_unstable();
    let clusters = all.chunk_by(|(one, _), (next, _)| next - one <= GAP_PS);
    let of_cluster = |cluster: &[(u64, u32)]| {
        let sources: BTreeSet<_> = cluster.iter().map(|(_, source)| *source).collect();
        let (first, last) = (cluster.first().unwrap().0, cluster.last().unwrap().0);
        (first, last, cluster.len() as u32, sources.len() as u32)
    };
    clusters.map(of_cluster).filter(|(.., sources)| *sources as usize >= MIN_SOURCES).collect()
}

/// Returns the hits of each slice and source of a run, without empty ones.
fn stored(place: &ScratchDirectory, summary: &Value) -> BTreeMap<(u64, u32), Vec<SeenHit>> {
    let mut slices = BTreeMap::new();
    for event in RunReader::open(&directory(place, summary)).unwrap() {
        let event = event.unwrap().event;
        for fragment in event.fragments.iter().filter(|fragment| !fragment.payload.is_empty()) {
            let hits = sheaf_wire::hit::hits(&fragment.payload).unwrap();
            let mut hits: Vec<_> = hits.map(|hit| (hit.time_ps, hit.channel, hit.value, hit.extra)).collect();
            assert!(hits.is_sorted_by_key(|(time, ..)| *time));
            hits.sort_unstable();
            assert!(slices.insert((event.id.0, fragment.source.0), hits).is_none(), "each slice once");
        }
    }
    slices
}

/// Returns the windows of the stored events, sorted, as first hit, last hit, hits and sources.
fn windows(place: &ScratchDirectory, summary: &Value) -> Vec<(u64, u64, u32, u32)> {
    let mut windows: Vec<_> = RunReader::open(&directory(place, summary))
        .unwrap()
        .flat_map(|event| {
            let event = event.unwrap();
            let windows = sheaf_wire::window::windows(&event.verdict.payload).unwrap();
            windows
                .map(|window| {
                    assert_eq!(window.first_ps / SLICE_PS, event.event.id.0, "it begins in its slice");
                    (window.first_ps, window.end_ps - 1, window.hits, window.sources)
                })
                .collect::<Vec<_>>()
        })
        .collect();
    windows.sort_unstable();
    windows
}

#[test]
fn every_hit_of_an_emulated_detector_is_in_its_slice_and_every_flash_is_found_once() {
    let place = ScratchDirectory::new();
    let detector = detector();
    let hits = reference(&detector);
    let all = hits.values().map(|hits| hits.len() as u64).sum::<u64>();
    let mut slices: BTreeMap<(u64, u32), Vec<SeenHit>> = BTreeMap::new();
    for (source, hits) in &hits {
        for hit in hits {
            let first = hit.0.saturating_sub(AFTER_PS) / SLICE_PS;
            for number in first..=(hit.0 + BEFORE_PS) / SLICE_PS {
                slices.entry((number, *source)).or_default().push(*hit);
            }
        }
    }
    let expected = coincidences(&hits);
    for flags in ["", "--processes --readouts 3 --builders 2"] {
        place.file("run.toml", RUN);
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        assert!(stored(&place, &summary) == slices, "{summary:#}");
        for name in ["received", "in_slices"] {
            assert_eq!(number(&summary, &format!("hits.{name}")), all, "{name}: {summary:#}");
        }
        assert_eq!(summary["ledger"]["balanced"], json!(true));
        assert_eq!((number(&summary, "hits.packets_lost"), number(&summary, "events_incomplete")), (0, 0));
        assert!(number(&summary, "counters.source_hits_unsorted") > 0, "frames are out of order");

        place.file("run.toml", &format!("{RUN}{FILTER}"));
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        assert_eq!(windows(&place, &summary), expected);
        assert_eq!(number(&summary, "hits.in_slices"), all);
        assert_eq!(summary["ledger"]["balanced"], json!(true));
    }
    // Each flash is in one coincidence, with all its hits.
    let mut flashes = 0;
    for flash in (0..FRAMES).flat_map(|frame| detector.flashes(frame)) {
        let seen = detector.hits_of(&flash).flat_map(|(source, hits)| {
            let clock = TestClock::of(source);
            hits.into_iter().filter_map(|hit| clock.seen(hit.time_ps)).collect::<Vec<_>>()
        });
        let seen: Vec<u64> = seen.collect();
        let holds = |cluster: &&(u64, u64, u32, u32), time: &u64| (cluster.0..=cluster.1).contains(time);
        let found: Vec<_> =
            expected.iter().filter(|cluster| seen.iter().any(|time| holds(cluster, time))).collect();
        // The clock of source 1300 starts later than the others.
        if flash.time.0 > 2_500_000_000 {
            assert_eq!((seen.len(), found.len()), (8, 1), "{flash:?}: {found:?}");
            assert!(seen.iter().all(|time| holds(&found[0], time)), "{flash:?}: {found:?}");
            flashes += 1;
        }
    }
    assert!(flashes > 150, "{flashes}");
}

/// The run knows no drifts: the clocks follow pulses, which reset the counters in the second run.
#[test]
fn clocks_that_follow_pulses_find_every_flash_without_knowing_their_drifts() {
    const PERIOD_PS: u64 = 50_000_000_000;
    let place = ScratchDirectory::new();
    let detector = detector();
    let pulses = RUN.replace("tick = \"12.5 ns\"", "tick = \"12.5 ns\"\npulse_period = \"50 ms\"");
    let pulses = pulses.replace("marker_kinds = [4]", "marker_kinds = [4]\npulse_kinds = [5]");
    let pulses = pulses.replace("offset = \"2.5 ms\"", "offset = \"2.5 ms\"\npulse_delay = \"-70 ns\"");
    let resets = pulses.replace("pulse_kinds = [5]", "pulse_kinds = [5]\nreset_kinds = [5]");
    let resets = resets.replace("disorder_frames = 2", "disorder_frames = 0");
    for (config, resets) in [(pulses, false), (resets, true)] {
        place.file("run.toml", &format!("{config}{FILTER}"));
        let summary = place.sheaf("run run.toml --json").exits(0).json();
        assert_eq!(summary["ledger"]["balanced"], json!(true));
        // Counters of zero are left out.
        let counter = |name: &str| summary["counters"][format!("source_{name}")].as_u64().unwrap_or(0);
        let all = 6 * FRAMES * 1_000_000_000 / PERIOD_PS;
        assert!((all - 6..=all).contains(&counter("pulses")), "{summary:#}");
        assert_eq!(counter("pulses_refused"), 0);
        assert_eq!(counter("resets"), if resets { counter("pulses") } else { 0 });
        assert!(number(&summary, "hits.untimed") > 0, "counters begin before the first pulse");
        let found = windows(&place, &summary);
        let mut flashes = 0;
        // After the second pulse, the rates are known.
        let known = |flash: &Flash| flash.time.0 > 2 * PERIOD_PS;
        for flash in (0..FRAMES).flat_map(|frame| detector.flashes(frame)).filter(known) {
            let holds = |window: &&(u64, u64, u32, u32)| {
                window.0 < flash.time.0 + 200_000 && flash.time.0 < window.1 + 200_000
            };
            let found: Vec<_> = found.iter().filter(holds).collect();
            assert!(matches!(found[..], [(.., 8.., 4..)]), "{flash:?}: {found:?}");
            flashes += 1;
        }
        assert!(flashes > 100, "{flashes}");
    }
}

#[test]
fn the_truth_is_a_table_of_flashes_and_their_hits() {
    let place = ScratchDirectory::new();
    place.file("run.toml", RUN);
    let table = place.sheaf("source truth run.toml").exits(0).stdout;
    let detector = detector();
    let mut expected = "flash,flash_ps,source,channel,value,hit_ps\n".to_owned();
    for (number, flash) in (0..FRAMES).flat_map(|frame| detector.flashes(frame)).enumerate() {
        for (source, hits) in detector.hits_of(&flash) {
            for hit in hits.iter().filter(|hit| TestClock::of(source).seen(hit.time_ps).is_some()) {
                let (flash_ps, hit_ps) = (flash.time.0, hit.time_ps);
                let row = format!("{number},{flash_ps},{source},{},{},{hit_ps}\n", hit.channel, hit.value);
                expected.push_str(&row);
            }
        }
    }
    assert!(table == expected, "{table}");
    place.sheaf("source truth run.toml --output truth.csv --seconds 0.5").exits(0);
    assert_eq!(std::fs::read_to_string(place.join("truth.csv")).unwrap(), expected);
    let shorter = place.sheaf("source truth run.toml --seconds 0.1").exits(0).stdout;
    assert!(shorter.len() < table.len() && table.starts_with(&shorter));

    place.file("run.toml", &RUN.replace("duration_s = 0.5", "duration_s = 0"));
    place.sheaf("source truth run.toml").exits(1).says(&["has no end", "--seconds"]);
    place.file("numbers.toml", "[source]\ncount = 4\n");
    place.sheaf("source truth numbers.toml").exits(1).says(&["numbers.toml has no emulated front ends"]);
}

/// The clocks that are drawn are in the metadata of the streams.
#[test]
fn frames_in_files_give_the_events_of_the_emulated_run_when_they_are_replayed() {
    let place = ScratchDirectory::new();
    place.file("run.toml", &format!("{RUN}{FILTER}"));
    let expected = stored(&place, &place.sheaf("run run.toml --json").exits(0).json());
    place.sheaf("source frames run.toml --output frames").exits(0);
    let described = &RUN[RUN.find("[source.timed]").unwrap()..RUN.find("[clocks.fixed]").unwrap()];
    let mut replay = format!(
        "[run]\noverwrite = true\n[source]\nkind = \"replay\"\nbuild_by = \"time\"\n\
         [source.replay]\ndirectory = \"frames\"\n{described}{FILTER}"
    );
    for source in SOURCES {
        let stream = place.sheaf(&format!("inspect frames/source-{source}.sfrag --json")).exits(0).json();
        let clock = &stream["files"][0]["metadata"]["clock"];
        replay += &format!("[clocks.of-{source}]\ncards = [{source}]\n");
        for key in ["tick", "drift", "offset", "bits"] {
            replay += &format!("{key} = {}\n", clock[key]);
        }
    }
    place.file("replay.toml", &replay);
    let found = stored(&place, &place.sheaf("run replay.toml --json").exits(0).json());
    assert!(!expected.is_empty() && found == expected);
    let again = place.sheaf("source frames run.toml --output frames").exits(1);
    again.says(&["frames has fragment streams", "choose another directory"]);
    let endless = RUN.replace("duration_s = 0.5\n", "duration_s = 0\n");
    place.file("run.toml", &endless);
    place.sheaf("source frames run.toml --output more").exits(1).says(&["the emulated time has no end"]);
}

#[test]
fn a_live_detector_is_not_held_back_and_its_losses_are_told() {
    let place = ScratchDirectory::new();
    let live = RUN.replace("duration_s = 0.5", "duration_s = 0.5\npacing = \"live\"");
    place.file("run.toml", &live);
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    let all = reference(&detector()).values().map(|hits| hits.len() as u64).sum::<u64>();
    assert_eq!((number(&summary, "hits.received"), number(&summary, "hits.in_slices")), (all, all));

    // More frames than any processor can write, and a front end that holds one of them.
    let shorter = live.replace("frame_us = 1000", "frame_us = 1\nbuffer_frames = 1");
    let shorter =
        shorter.replace("disorder_us = 300\ndisorder_frames = 2\nduration_s = 0.5", "duration_s = 0.05");
    place.file("run.toml", &shorter);
    let summary = place.sheaf("run run.toml --json").exits(3).json();
    assert!(number(&summary, "hits.packets_dropped") > 0, "{summary:#}");
    assert_eq!(summary["ledger"]["balanced"], json!(true));
}

#[test]
fn a_hit_spool_keeps_the_hits_of_an_emulated_detector_and_gives_windows_of_them() {
    let place = ScratchDirectory::new();
    place.file("run.toml", RUN);
    let summary = place.sheaf("spool run.toml --json").exits(0).json();
    let hits = reference(&detector());
    let all = hits.values().map(|hits| hits.len() as u64).sum::<u64>();
    assert_eq!((&summary["spool"]["spooled"], &summary["balanced"]), (&json!(all), &json!(true)));
    let (from, until) = (123_456_789_012, 234_567_890_123);
    place.sheaf(&format!("extract --from {from}ps --to {until}ps")).exits(0);
    let window = EventFileReader::open(&place.join("windows.sheaf")).unwrap().next().unwrap().unwrap();
    for fragment in &window.event.fragments {
        let mut found: Vec<SeenHit> = sheaf_wire::hit::hits(&fragment.payload)
            .unwrap()
            .map(|hit| (hit.time_ps, hit.channel, hit.value, hit.extra))
            .collect();
        found.sort_unstable();
        let inside = |hit: &&SeenHit| (from..until).contains(&hit.0);
        let expected: Vec<_> = hits[&fragment.source.0].iter().filter(inside).copied().collect();
        assert!(found == expected && !found.is_empty(), "source {}", fragment.source);
    }
    assert_eq!(window.event.fragments.len(), SOURCES.len());
}

#[test]
fn what_cannot_be_emulated_says_why() {
    let place = ScratchDirectory::new();
    let refused = |line: &str, instead: &str, says: &[&str]| {
        assert!(RUN.contains(line));
        place.file("run.toml", &RUN.replace(line, instead));
        place.sheaf("run run.toml").exits(1).says(says);
    };
    let quiet = RUN.replace("noise_hz = 30_000", "noise_hz = 100").replace("marker_kinds = [4]\n", "");
    place.file("run.toml", &quiet);
    let says = ["[source.free_running] cannot be emulated", "describe time markers"];
    place.sheaf("run run.toml").exits(1).says(&says);
    refused("channel = \"u8 at 5\"", "channel = \"u8 at 6\"", &["the fields channel and value share bits"]);
    refused("bits = 23", "bits = 25", &["the counter has 24 bits in a frame, and needs 25"]);
    refused("bits = 23", "bits = 17", &["starts again every 1.638 ms"]);
    refused("flash_sources = 4", "flash_sources = 7", &["7 sources see a flash, but there are 6"]);
    refused("front_end = \"described\"", "front_end = \"vmm3a\"", &["\"vmm3a\" are not emulated"]);
    refused("build_by = \"time\"", "build_by = \"number\"", &["`source.free_running.seed` is set"]);
}
