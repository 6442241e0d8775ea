//! Windows of hits around the times of triggers, compared with a plain search in all hits.

use crate::active::root;
use crate::child::ScratchDirectory;
use crate::output::{directory, field, number};
use crate::real_data::data;
use serde_json::Value;
use sheaf_store::fragment_stream::StreamWriter;
use sheaf_store::run::RunReader;
use sheaf_wire::stream_file::{EXTENSION, StreamHeader};
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId, Timestamp};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const SOURCES: u32 = 4;

/// Length of a frame, and number of frames of a source.
const FRAME_NS: u64 = 1_000_000;
const FRAMES: u64 = 200;

/// Start of the recording. The run's time 0 is the second before it.
const START_NS: u64 = 1_700_000_000_300_000_000;
const ZERO_NS: u64 = 1_700_000_000_000_000_000;

struct Draw(u64);

impl Draw {
    fn next(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Times of the hits of each source, in ps since time 0.
pub(crate) type Hits = BTreeMap<u32, Vec<u64>>;

/// Writes a fragment stream for each source, with frames of hits at random times.
pub(crate) fn record(directory: &Path) -> Hits {
    std::fs::create_dir_all(directory).unwrap();
    (0..SOURCES)
        .map(|source| {
            let header = StreamHeader {
                source: SourceId(source),
                run: RunNumber(5),
                has_events: false,
                has_times: true,
                time_base: None,
            };
            let path = directory.join(format!("source-{source}.{EXTENSION}"));
            let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
            let (mut draw, mut times) = (Draw(u64::from(source)), Vec::new());
            for frame in 0..FRAMES {
                let begin_ns = START_NS + frame * FRAME_NS;
                let mut payload = Vec::new();
                for _ in 0..draw.next(100) {
                    let offset_ns = draw.next(FRAME_NS);
                    payload.extend((offset_ns as u32).to_le_bytes());
                    times.push((begin_ns - ZERO_NS + offset_ns) * 1_000);
                }
                let fragment = Fragment {
                    event: EventId(0),
                    source: SourceId(source),
                    time: Timestamp(begin_ns),
                    checksum: None,
                    processed: false,
                    mark: NumberMark::NONE,
                    payload: &payload,
                };
                writer.append(&fragment).unwrap();
            }
            writer.finish().unwrap();
            times.sort_unstable();
            (source, times)
        })
        .collect()
}

/// Configures a run whose triggers are those in `times.txt`.
fn configure(place: &ScratchDirectory, more: &str) {
    let sheaf = env!("CARGO_BIN_EXE_sheaf");
    let text = format!(
        "[source]\nkind = \"replay\"\nbuild_by = \"window\"\n[source.replay]\ndirectory = \"recording\"\n\
         [source.timed]\nfront_end = \"described\"\ntimes = \"fragment\"\ntick = \"1 ns\"\nslice_us = 200\ntolerance_us = 2000\n\
         [source.hits]\nrecord_bytes = 4\ntime = \"u32le at 0\"\n\
         [trigger]\nmode = \"command\"\n\
         [trigger.command]\ncommand = [\"{sheaf}\", \"emulate-trigger\", \"--times\", \"times.txt\"]\n\
         [triggers.long]\ntype = 7\nbefore_us = 1500\nafter_us = 2500\n{more}"
    );
    place.file("run.toml", &text);
}

/// Begin and end of the window of a trigger with this time and type, in ps.
fn window(time_ns: u64, kind: u16) -> (u64, u64) {
    let (before_us, after_us) = if kind == 7 { (1_500, 2_500) } else { (20, 30) };
    let time_ps = (time_ns - ZERO_NS) * 1_000;
    (time_ps - before_us * 1_000_000, time_ps + after_us * 1_000_000)
}

/// Draws triggers within the recording, and writes their list. Some are in no order of time.
fn draw_triggers(place: &ScratchDirectory, count: u64, span_frames: u64) -> Vec<(u64, u16)> {
    let mut draw = Draw(99);
    let mut triggers: Vec<(u64, u16)> = (0..count)
        .map(|_| {
            let frame = 2 + draw.next(span_frames - 6);
            let kind = if draw.next(10) == 0 { 7 } else { 0 };
            (START_NS + frame * FRAME_NS + draw.next(FRAME_NS), kind)
        })
        .collect();
    triggers.sort_unstable();
    for at in (7..triggers.len()).step_by(7) {
        triggers.swap(at - 5, at);
    }
    let mut text = String::from("# time in ns, type\n");
    for (time, kind) in &triggers {
        writeln!(text, "{time} {kind}").unwrap();
    }
    place.file("times.txt", &text);
    triggers
}

/// Checks that each trigger is an event with the hits of its window, of each source. Returns the number of these hits.
fn check(place: &ScratchDirectory, summary: &Value, hits: &Hits, triggers: &[(u64, u16)]) -> u64 {
    let mut found = 0;
    let mut events = 0;
    for event in RunReader::open(&directory(place, summary)).unwrap() {
        let event = event.unwrap().event;
        let (time, kind) = triggers[event.id.0 as usize];
        assert_eq!((event.time.0, event.trigger_type.0), (time, kind));
        assert_eq!(event.fragments.len(), SOURCES as usize, "event {}", event.id);
        let (from, until) = window(time, kind);
        for fragment in &event.fragments {
            let times = sheaf_wire::hit::hits(&fragment.payload).unwrap().map(|hit| hit.time_ps);
            let expected =
                hits[&fragment.source.0].iter().copied().filter(|time| (from..until).contains(time));
            assert!(times.eq(expected), "event {} source {}", event.id, fragment.source);
            found += (fragment.payload.len() / 16) as u64;
        }
        events += 1;
    }
    assert_eq!(events, triggers.len());
    assert_eq!(field(summary, "ledger.balanced"), true, "{summary:#}");
    assert_eq!(number(summary, "hits.windows.hits_given"), found);
    found
}

#[test]
fn each_trigger_gets_the_hits_of_its_window() {
    let place = ScratchDirectory::new();
    let hits = record(&place.join("recording"));
    let triggers = draw_triggers(&place, 300, FRAMES);
    configure(
        &place,
        "[windows]\nbefore_us = 20\nafter_us = 30\n[readout]\ncount = 2\n[builder]\ncount = 2\n",
    );
    for flags in ["", "--processes"] {
        let summary = place.sheaf(&format!("run run.toml --json {flags}")).exits(0).json();
        check(&place, &summary, &hits, &triggers);
        let all: u64 = hits.values().map(|hits| hits.len() as u64).sum();
        assert_eq!(
            number(&summary, "hits.received"),
            all,
            "the windows reach over the recording: {summary:#}"
        );
        assert_eq!(number(&summary, "events_incomplete"), 0, "{summary:#}");
    }
}

/// A recording has all hits of the sources of a run, whichever of them triggers would ask for.
#[test]
fn a_recording_of_a_run_by_window_has_time_slices_of_all_hits() {
    let place = ScratchDirectory::new();
    let hits = record(&place.join("recording"));
    place.file("times.txt", "");
    configure(&place, "");
    place.sheaf("record run.toml --output slices").exits(0);
    place.file(
        "slices.toml",
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"slices\"\n\
         [source.timed]\nfront_end = \"hits\"\nslice_us = 200\n",
    );
    let summary = place.sheaf("run slices.toml --json").exits(0).json();
    let all: u64 = hits.values().map(|hits| hits.len() as u64).sum();
    assert_eq!(number(&summary, "hits.in_slices"), all, "{summary:#}");
}

/// The memory of a source takes a part of its hits. The others are read from the spool, or are gone.
#[test]
fn hits_that_do_not_fit_in_memory_are_in_the_spool_or_their_loss_is_said() {
    let place = ScratchDirectory::new();
    let hits = record(&place.join("recording"));
    let mut triggers = draw_triggers(&place, 200, FRAMES);
    // The last ones first.
    triggers.reverse();
    let text: String = triggers.iter().map(|(time, kind)| format!("{time}, {kind}\n")).collect();
    place.file("times.txt", &text);
    // One event after the other, so that early hits are wanted when late ones were read.
    let windows = "[builder]\ncount = 1\nslots = 1\n[manager]\nbatch_events = 1\n[windows]\nbefore_us = 20\nafter_us = 30\nmemory_bytes = 65536\n";
    configure(&place, &format!("{windows}spool = \"spool\"\n[readout]\ncount = 2\n"));
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    check(&place, &summary, &hits, &triggers);
    assert!(number(&summary, "hits.windows.hits_archived") > 0, "{summary:#}");
    // What the spool has can be read afterwards.
    let extracted = place.sheaf("extract spool/ru0 --from 0.31s --to 0.32s --sources 0 --output hits.csv");
    extracted.exits(0);

    configure(&place, windows);
    let ended = place.sheaf("run run.toml --json").exits(3);
    let summary = ended.json();
    let missing = field(&summary, "missing_sources");
    let expired =
        (0..SOURCES).map(|source| missing[source.to_string()]["window_expired"].as_u64().unwrap_or(0));
    assert!(expired.sum::<u64>() > 0, "{summary:#}");
    assert_eq!(field(&summary, "ledger.balanced"), true, "{summary:#}");
    let printed = place.sheaf("run run.toml").exits(3).stdout;
    assert!(printed.contains("raise `windows.memory_bytes`"), "the remedy: {printed}");
}

#[test]
fn triggers_off_the_timeline_or_after_the_end_have_no_hits_and_the_run_says_so() {
    let place = ScratchDirectory::new();
    record(&place.join("recording"));
    place.file("times.txt", &format!("12\n{}\n", START_NS + 3_600_000_000_000));
    configure(&place, "");
    let ended = place.sheaf("run run.toml --json").exits(3);
    let missing = ended.json()["missing_sources"]["0"].clone();
    assert_eq!(missing["window_off_timeline"], 1, "{missing}");
    assert_eq!(missing["source_ended"], 1, "{missing}");
}

#[test]
fn settings_that_contradict_windows_are_refused() {
    for (more, part) in [
        ("[trigger]\nmode = \"seen\"\n", "times of their own"),
        ("[trigger]\nmode = \"poisson\"\nrate_hz = 10\n[shaping]\npolicy = \"push\"\n", "shaping.policy"),
        ("[trigger]\nmode = \"poisson\"\nrate_hz = 10\n[filter]\nkind = \"coincidence\"\n", "filter.kind"),
        (
            "[trigger]\nmode = \"poisson\"\nrate_hz = 10\n[windows]\nbefore_us = 0\nafter_us = 0\n",
            "no length",
        ),
    ] {
        let place = ScratchDirectory::new();
        let text = format!(
            "[source]\nkind = \"replay\"\nbuild_by = \"window\"\n[source.replay]\ndirectory = \"none\"\n\
             [source.timed]\nfront_end = \"hits\"\n{more}"
        );
        place.file("run.toml", &text);
        place.sheaf("run run.toml").exits(1).says(&[part]);
    }
}

/// Numbers of hits of both cards in three windows, counted in the table of hits that was made without Sheaf.
#[test]
fn windows_of_a_real_capture_have_the_hits_of_its_table() {
    let Some(data) = data("vmm3a_srs") else { return };
    let place = ScratchDirectory::new();
    let sheaf = env!("CARGO_BIN_EXE_sheaf");
    let capture = data.join("example.pcapng");
    place.file("times.txt", "2861632500000\n2861633000000 7\n2861635250000\n");
    place.file(
        "run.toml",
        &format!(
            "[source]\nkind = \"capture\"\nbuild_by = \"window\"\n[source.timed]\nfile = \"{}\"\nfront_end = \"vmm3a\"\n\
             tick = \"22.5 ns\"\nslice_us = 100\n[trigger]\nmode = \"command\"\n\
             [trigger.command]\ncommand = [\"{sheaf}\", \"emulate-trigger\", \"--times\", \"times.txt\"]\n\
             [windows]\nbefore_us = 10\nafter_us = 40\n[triggers.laser]\ntype = 7\nbefore_us = 1\nafter_us = 500\n",
            capture.display()
        ),
    );
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    let mut hits = Vec::new();
    for event in RunReader::open(&directory(&place, &summary)).unwrap() {
        let event = event.unwrap().event;
        hits.push(event.fragments.iter().map(|fragment| fragment.payload.len() / 16).collect::<Vec<_>>());
    }
    assert_eq!(hits, [[548, 540], [3_353, 3_220], [430, 411]]);
}

/// Each flash of an emulated detector is a trigger. Its event has all of its hits, and no other flash.
#[test]
fn windows_around_flashes_have_their_hits() {
    let place = ScratchDirectory::new();
    let example = std::fs::read_to_string(root().join("examples/free-running.toml")).unwrap();
    let example = example.replace("duration_s = 2.0", "duration_s = 0.5");
    place.file("time.toml", &example);
    place.sheaf("source truth time.toml --output truth.csv").exits(0);
    let truth = std::fs::read_to_string(place.join("truth.csv")).unwrap();
    // Of each flash its time, and its hits as source and time.
    let mut flashes: BTreeMap<u64, (u64, Vec<(u32, u64)>)> = BTreeMap::new();
    for line in truth.lines().skip(1) {
        let cells: Vec<u64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let (_, hits) = flashes.entry(cells[0]).or_insert_with(|| (cells[1], Vec::new()));
        hits.push((cells[2] as u32, cells[5]));
    }
    flashes.values_mut().for_each(|(_, hits)| hits.sort_unstable());
    let times: String = flashes.values().map(|(flash_ps, _)| format!("{}\n", flash_ps / 1_000)).collect();
    place.file("times.txt", &times);
    let sheaf = env!("CARGO_BIN_EXE_sheaf");
    let (sources, _) = example.split_once("[filter]").unwrap();
    let windowed = sources
        .replace("build_by = \"time\"", "build_by = \"window\"")
        .replace("before_us = 1\nafter_us = 2\n", "");
    place.file(
        "window.toml",
        &format!(
            "{windowed}[trigger]\nmode = \"command\"\n\
             [trigger.command]\ncommand = [\"{sheaf}\", \"emulate-trigger\", \"--times\", \"times.txt\"]\n"
        ),
    );
    let summary = place.sheaf("run window.toml --json").exits(0).json();
    let mut events = 0;
    for event in RunReader::open(&directory(&place, &summary)).unwrap() {
        let event = event.unwrap().event;
        let (_, expected) = &flashes[&event.id.0];
        let mut found = Vec::new();
        for fragment in &event.fragments {
            // `extra` is 1 for hits of flashes.
            let hits = sheaf_wire::hit::hits(&fragment.payload).unwrap().filter(|hit| hit.extra == 1);
            found.extend(hits.map(|hit| (fragment.source.0, hit.time_ps)));
        }
        assert_eq!(found.len(), expected.len(), "flash {}", event.id);
        for ((source, time_ps), (true_source, true_ps)) in found.iter().zip(expected) {
            let tick_ps = 10_000;
            assert_eq!(source, true_source);
            assert!(time_ps.abs_diff(*true_ps) <= tick_ps + 1, "flash {}: {time_ps} and {true_ps}", event.id);
        }
        events += 1;
    }
    assert_eq!(events, flashes.len());
}

pub(crate) const SLICE_PS: u64 = 200_000_000;
const GAP_PS: u64 = 2_000_000;
const MARGINS_PS: (u64, u64) = (5_000_000, 300_000_000);

/// Returns the windows of coincidences of sources 0 and 1 by the slice in which they begin.
fn coincidences(hits: &Hits) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let of = |source: u32| hits[&source].iter().map(move |time| (*time, source));
    let mut all: Vec<(u64, u32)> = of(0).chain(of(1)).collect();
    all.sort_unstable();
    let mut windows = BTreeMap::<u64, Vec<_>>::new();
    for cluster in all.chunk_by(|one, next| next.0 - one.0 <= GAP_PS) {
        let (first, last) = (cluster[0].0, cluster[cluster.len() - 1].0);
        if [0, 1].iter().all(|source| cluster.iter().any(|hit| hit.1 == *source)) {
            let window = (first - MARGINS_PS.0, last + MARGINS_PS.1 + 1);
            windows.entry(first / SLICE_PS).or_default().push(window);
        }
    }
    windows
}

/// Two sources are built as time slices. Of the others, only hits around coincidences of these leave the readout units.
#[test]
fn coincidences_of_some_sources_get_the_hits_of_the_others_in_their_windows() {
    let place = ScratchDirectory::new();
    let hits = record(&place.join("recording"));
    let text = "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"recording\"\n\
         [source.timed]\nfront_end = \"described\"\ntimes = \"fragment\"\ntick = \"1 ns\"\nslice_us = 200\ntolerance_us = 2000\n\
         before_us = 10\nafter_us = 100\n[source.hits]\nrecord_bytes = 4\ntime = \"u32le at 0\"\n\
         [building]\nfirst_step = [0, 1]\nfilter = \"coincidence\"\n\
         [filter]\nkind = \"coincidence\"\ngap_ps = 2_000_000\nmin_sources = 2\nmargin_before_us = 5\nmargin_after_us = 300\n\
         [readout]\ncount = 2\n[builder]\ncount = 2\n";
    place.file("run.toml", text);
    let windows = coincidences(&hits);
    for flags in ["", "--processes"] {
        let summary = place.sheaf(&format!("run run.toml --json {flags}")).exits(0).json();
        let mut found = BTreeMap::new();
        for event in RunReader::open(&directory(&place, &summary)).unwrap() {
            let event = event.unwrap().event;
            let windows = &windows[&event.id.0];
            let mut given = 0;
            for fragment in event.fragments.iter().filter(|fragment| fragment.source.0 >= 2) {
                let times = sheaf_wire::hit::hits(&fragment.payload).unwrap().map(|hit| hit.time_ps);
                let is_in = |time: &u64| windows.iter().any(|(from, until)| (from..until).contains(&time));
                let expected = hits[&fragment.source.0].iter().copied().filter(is_in);
                assert!(times.eq(expected), "slice {} source {}", event.id, fragment.source);
                given += 1;
            }
            assert_eq!(given, 2, "slice {}", event.id);
            found.insert(event.id.0, ());
        }
        assert!(found.keys().eq(windows.keys()), "each slice with a coincidence, and no other");
        assert_eq!(field(&summary, "ledger.balanced"), true, "{summary:#}");
        assert_eq!(number(&summary, "events_incomplete"), 0, "{summary:#}");
        assert!(number(&summary, "hits.windows.hits_given") > 0, "{summary:#}");
    }
}
