//! Fragments of replays and programs that are built by time, compared with a plain sort of all hits.

use crate::active::compile;
use crate::child::ScratchDirectory;
use crate::feed::connect;
use crate::output::{directory, number};
use crate::real_data::{data, import};
use crate::streams;
use serde_json::{Value, json};
use sheaf_feed::client::SourceFragment;
use sheaf_store::fragment_stream::{StreamReader, StreamWriter};
use sheaf_store::run::RunReader;
use sheaf_wire::stream_file::{EXTENSION, StreamHeader};
use sheaf_wire::window::Window;
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId, Timestamp};
use std::collections::BTreeMap;
use std::path::Path;

const SLICE_PS: u64 = 100_000_000;

/// Ticks of 10 ns.
const TICK_PS: u64 = 10_000;

/// Hits of 6 bytes, as in superframes of KM3NeT.
const SETTINGS: &str = "
[run]
overwrite = true

[source.timed]
front_end = \"described\"
tick = \"10 ns\"
slice_us = 100
tolerance_us = 3000

[source.hits]
record_bytes = 6
channel = \"u8 at 0\"
time = \"u32le at 1\"
value = \"u8 at 5\"
";

/// Time, channel and value of the hits of each slice and source, without empty slices.
type Hits = BTreeMap<(u64, u32), Vec<(u64, u32, u16)>>;

struct Draw(u64);

impl Draw {
    fn next(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Returns frames of 1 ms of a source, as the number of the frame and its payload, and enters their hits. Times in a frame count from its
/// begin, and are in no order. Some frames come before their predecessor.
fn frames(source: u32, hits: &mut Hits) -> Vec<(u64, Vec<u8>)> {
    const FRAME_TICKS: u64 = 100_000;
    let mut draw = Draw(u64::from(source));
    let mut frames = Vec::new();
    for frame in 0..60 {
        let mut payload = Vec::new();
        for _ in 0..draw.next(30) {
            let (ticks, channel, value) = (draw.next(FRAME_TICKS), draw.next(31) as u8, draw.next(256) as u8);
            payload.push(channel);
            payload.extend((ticks as u32).to_le_bytes());
            payload.push(value);
            let time_ps = (frame * FRAME_TICKS + ticks) * TICK_PS;
            let slice = hits.entry((time_ps / SLICE_PS, source)).or_default();
            slice.push((time_ps, u32::from(channel), u16::from(value)));
        }
        frames.push((frame, payload));
    }
    for at in (1..frames.len()).step_by(3) {
        frames.swap(at - 1, at);
    }
    hits.values_mut().for_each(|hits| hits.sort_unstable());
    frames
}

fn stored(place: &ScratchDirectory, summary: &Value) -> Hits {
    let mut hits = Hits::new();
    for event in RunReader::open(&directory(place, summary)).unwrap() {
        let event = event.unwrap().event;
        for fragment in event.fragments.iter().filter(|fragment| !fragment.payload.is_empty()) {
            let of_slice = sheaf_wire::hit::hits(&fragment.payload).unwrap();
            let mut of_slice: Vec<_> = of_slice.map(|hit| (hit.time_ps, hit.channel, hit.value)).collect();
            assert!(of_slice.is_sorted_by_key(|(time, ..)| *time));
            of_slice.sort_unstable();
            assert!(hits.insert((event.id.0, fragment.source.0), of_slice).is_none(), "each slice once");
        }
    }
    hits
}

/// Checks that a run stored exactly these hits, and that its books say so.
fn check(place: &ScratchDirectory, summary: &Value, hits: &Hits) {
    assert!(stored(place, summary) == *hits, "{summary:#}");
    let all = hits.values().map(|hits| hits.len() as u64).sum::<u64>();
    assert_eq!(number(summary, "hits.received"), all);
    assert_eq!(number(summary, "hits.in_slices"), all);
    assert_eq!(summary["ledger"]["balanced"], json!(true));
    assert_eq!(number(summary, "events_incomplete"), 0, "{summary:#}");
}

/// Writes a stream without event ids.
fn write_stream(directory: &Path, source: u32, frames: &[(u64, Vec<u8>)], begin_ns: u64) {
    std::fs::create_dir_all(directory).unwrap();
    let source = SourceId(source);
    let header =
        StreamHeader { source, run: RunNumber(5), has_events: false, has_times: true, time_base: None };
    let path = directory.join(format!("source-{source}.{EXTENSION}"));
    let mut writer = StreamWriter::create(&path, header, "{}").unwrap();
    for (frame, payload) in frames {
        let (event, time) = (EventId(0), Timestamp(begin_ns + frame * 1_000_000));
        let mark = NumberMark::NONE;
        writer
            .append(&Fragment { event, source, time, checksum: None, processed: false, mark, payload })
            .unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn replayed_frames_with_utc_times_are_cut_into_slices_hit_by_hit() {
    let place = ScratchDirectory::new();
    let mut hits = Hits::new();
    for source in [3, 9, 70_000] {
        let frames = frames(source, &mut hits);
        write_stream(&place.join("frames"), source, &frames, 1_566_480_018_000_000_000);
    }
    let replay =
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"frames\"\n";
    let settings = SETTINGS.replace("tick =", "times = \"fragment\"\ntick =");
    place.file("run.toml", &format!("{replay}{settings}"));
    for flags in ["", "--processes --readouts 2 --builders 2"] {
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        check(&place, &summary, &hits);
    }
    // By number, streams without event ids are refused, with the way out.
    let by_number = place.sheaf("run --replay frames").exits(1);
    assert!(by_number.stderr.contains("source.build_by = \"time\""), "{}", by_number.stderr);
}

#[test]
fn recorded_slices_are_cut_again_to_another_length() {
    let place = ScratchDirectory::new();
    let mut hits = Hits::new();
    for source in [1, 2] {
        write_stream(&place.join("frames"), source, &frames(source, &mut hits), 7_000_000_000);
    }
    let replay =
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"frames\"\n";
    let longer = SETTINGS
        .replace("tick =", "times = \"fragment\"\ntick =")
        .replace("slice_us = 100", "slice_us = 2700");
    place.file("record.toml", &format!("{replay}{longer}"));
    place.sheaf("record record.toml --output slices").exits(0);
    place.file(
        "run.toml",
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"slices\"\n\
         [source.timed]\nfront_end = \"hits\"\nslice_us = 100\n",
    );
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    check(&place, &summary, &hits);
    // With overlaps, hits would be there twice.
    place.file("record.toml", &format!("{replay}{}", longer.replace("tick =", "before_us = 10\ntick =")));
    place.sheaf("record record.toml --output overlapping").exits(0);
    place.file(
        "run.toml",
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"overlapping\"\n\
         [source.timed]\nfront_end = \"hits\"\nslice_us = 100\n",
    );
    let refused = place.sheaf("run run.toml").exits(1);
    assert!(refused.stderr.contains("overlap by 10000 ns before"), "{}", refused.stderr);
}

#[test]
fn fragments_of_programs_are_cut_into_slices_hit_by_hit() {
    let place = ScratchDirectory::new();
    let feed = "[source]\nkind = \"feed\"\nbuild_by = \"time\"\ncount = 2\n";
    let settings = SETTINGS.replace("tick =", "times = \"fragment\"\ntick =");
    place.file("run.toml", &format!("{feed}{settings}"));
    let mut hits = Hits::new();
    let mut frames = [0, 1].map(|source| frames(source, &mut hits));
    // Both sources say that their time has come to the end of the last frame: from then on, nothing is missing.
    frames.iter_mut().for_each(|frames| frames.push((60, Vec::new())));
    let run = place.start("run run.toml --readouts 1 --json");
    std::thread::scope(|scope| {
        for (source, frames) in (0_u32..).zip(&frames) {
            let place = &place;
            scope.spawn(move || {
                let mut client = connect(place, 0, &[source]);
                assert!(client.wait_for_start(None).expect("connected"));
                for (at, (frame, payload)) in (0..).zip(frames) {
                    let time = Timestamp(frame * 1_000_000);
                    let fragment = SourceFragment { event: EventId(at), time, payload };
                    client.send(0, fragment).expect("the run takes fragments");
                }
                client.end(0).expect("the run takes the end");
                assert!(client.drain().expect("the run takes all"));
            });
        }
    });
    let summary = run.end().exits(0).json();
    check(&place, &summary, &hits);
    // Empty slices come too, from the first fragment on.
    assert_eq!(number(&summary, "events_built"), 600);
}

/// Hits of KM3NeT's ORCA detector in 10 slices of 100 ms, in the order of the file, which is not that of time.
#[test]
fn superframes_of_a_neutrino_telescope_are_cut_into_shorter_slices_hit_by_hit() {
    let Some(data) = data("km3net_orca") else { return };
    let place = ScratchDirectory::new();
    let Some(_) = import(&place, "km3net", &data.join("events_sample.root")) else { return };
    let mut hits = Hits::new();
    let mut begin_ns = u64::MAX;
    let mut frames = Vec::new();
    for path in streams::paths(&place.join("streams")) {
        for fragment in StreamReader::open(&path).unwrap() {
            let fragment = fragment.unwrap();
            begin_ns = begin_ns.min(fragment.time.0);
            frames.push(fragment);
        }
    }
    let zero_ns = begin_ns / 1_000_000_000 * 1_000_000_000;
    for frame in &frames {
        for hit in frame.payload.chunks_exact(6) {
            let ns = u64::from(u32::from_le_bytes(hit[1..5].try_into().unwrap()));
            let time_ps = (frame.time.0 - zero_ns + ns) * 1_000;
            let slice = hits.entry((time_ps / SLICE_PS, frame.source.0)).or_default();
            slice.push((time_ps, u32::from(hit[0]), u16::from(hit[5])));
        }
    }
    hits.values_mut().for_each(|hits| hits.sort_unstable());
    let replay =
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"streams\"\n";
    let settings = SETTINGS
        .replace("tick = \"10 ns\"", "times = \"fragment\"\ntick = \"1 ns\"")
        .replace("tolerance_us = 3000", "tolerance_us = 2000000");
    place.file("run.toml", &format!("{replay}{settings}"));
    let summary = place.sheaf("run run.toml --processes --readouts 2 --builders 2 --json").exits(0).json();
    check(&place, &summary, &hits);
}

/// The decoder of frames, which fails in those that begin with 0xff, and says so in its own words.
const DECODER: &str = r#"
#include <sheaf.h>
#include <stdlib.h>
#include <string.h>
static void *create(const SheafFilterSetup *setup) {
    if (strcmp(setup->parameters, "frames") == 0) return malloc(1);
    strncpy(setup->message, "the parameters are not `frames`", setup->message_bytes);
    return NULL;
}
static int32_t decode(void *it, const SheafRawFragment *raw, SheafDecoded *decoded) {
    (void)it;
    if (raw->bytes > 0 && raw->data[0] == 0xff) { decoded->failure = "a broken frame"; return 1; }
    for (size_t at = 0; at + 6 <= raw->bytes && decoded->count < decoded->room; at += 6) {
        uint32_t time;
        memcpy(&time, raw->data + at + 1, sizeof time);
        decoded->hits[decoded->count++] = (SheafHit){time, raw->data[at], raw->data[at + 5], 0};
    }
    return 0;
}
const SheafDecoderTable *sheaf_decoder(void) {
    static const SheafDecoderTable table = {SHEAF_FILTER_ABI, sizeof table, create, decode, free};
    return &table;
}
"#;

#[test]
fn a_decoder_in_c_finds_the_hits_and_frames_that_it_cannot_read_are_a_loss() {
    let place = ScratchDirectory::new();
    std::fs::write(place.join("frames.c"), DECODER).unwrap();
    compile(&place.join("frames.c"), &place.join("libframes.so"));
    let mut hits = Hits::new();
    let mut of_sources = [3, 9].map(|source| (source, frames(source, &mut hits)));
    for (source, frames) in &of_sources {
        write_stream(&place.join("frames"), *source, frames, 5_000_000_000);
    }
    let configuration = |parameters: &str| {
        format!(
            "[run]\noverwrite = true\n[source]\nkind = \"replay\"\nbuild_by = \"time\"\n\
             [source.replay]\ndirectory = \"frames\"\n\
             [source.timed]\nfront_end = \"library\"\ntimes = \"fragment\"\ntick = \"10 ns\"\nslice_us = 100\n\
             tolerance_us = 3000\n[source.decoder]\npath = \"libframes.so\"\nparameters = \"{parameters}\"\n"
        )
    };
    place.file("run.toml", &configuration("frames"));
    for flags in ["", "--processes --readouts 2"] {
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        check(&place, &summary, &hits);
        assert!(directory(&place, &summary).join("code/source.decoder/libframes.so").is_file());
    }
    of_sources[0].1[20].1 = vec![0xff];
    write_stream(&place.join("frames"), 3, &of_sources[0].1, 5_000_000_000);
    let lossy = place.sheaf("run run.toml --json").exits(3);
    let summary = lossy.json();
    assert_eq!(number(&summary, "hits.packets_undecoded"), 1, "{summary:#}");
    assert_eq!(summary["kept"]["losses"][0]["reason"], json!("undecoded"));
    assert!(lossy.stderr.contains("a broken frame"), "{}", lossy.stderr);
    place.file("run.toml", &configuration("slices"));
    let refused = place.sheaf("run run.toml").exits(1);
    assert!(refused.stderr.contains("the parameters are not `frames`"), "{}", refused.stderr);
}

#[test]
fn coincidences_of_neighbours_store_their_windows() {
    let place = ScratchDirectory::new();
    // Three sources see one hit each in frame 2: 1 and 2 within 50 ns, 9 far away. In frame 4 all three see one within 100 ns.
    let frame = |time: u32| [&[5_u8][..], &time.to_le_bytes(), &[40]].concat();
    for (source, [early, late]) in [(1, [100, 7_000]), (2, [105, 7_003]), (9, [9_000, 7_010])] {
        let mut frames: Vec<_> = (0..6).map(|number| (number, Vec::new())).collect();
        (frames[2].1, frames[4].1) = (frame(early), frame(late));
        write_stream(&place.join("frames"), source, &frames, 0);
    }
    let replay =
        "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"frames\"\n";
    let settings = SETTINGS.replace("tick =", "times = \"fragment\"\nbefore_us = 1\nafter_us = 1\ntick =");
    let run = |conditions: &str| {
        let filter =
            "[filter]\nkind = \"coincidence\"\ngap_ps = 200000\nmargin_before_us = 2\nmargin_after_us = 1\n";
        place.file("run.toml", &format!("{replay}{settings}{filter}{conditions}"));
        let summary = place.sheaf("run run.toml --json").exits(0).json();
        let windows = RunReader::open(&directory(&place, &summary)).unwrap().map(|event| {
            let event = event.unwrap();
            let windows = sheaf_wire::window::windows(&event.verdict.payload).unwrap().collect::<Vec<_>>();
            (event.event.id.0, windows)
        });
        windows.collect::<Vec<_>>()
    };
    let window = |first_ps: u64, last_ps: u64, hits, sources| Window {
        begin_ps: first_ps - 2_000_000,
        end_ps: last_ps + 1_000_001,
        first_ps,
        hits,
        sources,
    };
    let of_two = (20, vec![window(2_001_000_000, 2_001_050_000, 2, 2)]);
    let of_three = (40, vec![window(4_070_000_000, 4_070_100_000, 3, 3)]);
    assert_eq!(run(""), [of_two.clone(), of_three.clone()]);
    assert_eq!(run("min_sum = 81\n"), std::slice::from_ref(&of_three));
    let groups = "[groups.near]\nsources = [\"1-2\"]\n[groups.far]\nsources = [9]\n";
    assert_eq!(run(&format!("min_groups = 2\n{groups}")), std::slice::from_ref(&of_three));
    assert_eq!(run(&format!("min_sources_in_group = 2\n{groups}")), [of_two, of_three]);
    let refused = place.file(
        "run.toml",
        &format!("{replay}{settings}[filter]\nkind = \"coincidence\"\nmin_groups = 3\n{groups}"),
    );
    let refused = place.sheaf(&format!("run {}", refused.display())).exits(1);
    assert!(
        refused.stderr.contains("`filter.min_groups` is 3, but there are 2 groups"),
        "{}",
        refused.stderr
    );
}

/// Recorded data have no deadline: with timeouts that any machine exceeds, nothing of a replay is late.
#[test]
fn a_replay_that_is_slower_than_all_timeouts_loses_no_hit() {
    let place = ScratchDirectory::new();
    let mut hits = Hits::new();
    for source in 0..24 {
        let frames = frames(source, &mut hits);
        write_stream(&place.join("frames"), source, &frames, 1_566_480_018_000_000_000);
    }
    let settings = SETTINGS.replace("tick =", "times = \"fragment\"\ntick =");
    place.file(
        "run.toml",
        &format!(
            "[source]\nkind = \"replay\"\nbuild_by = \"time\"\n[source.replay]\ndirectory = \"frames\"\n{settings}\
             [readout]\ncount = 6\nmerge_timeout_ms = 0.1\n[builder]\ncount = 2\nslots = 32\n\
             event_timeout_ms = 100\nrequest_retry_ms = 1\n[filter]\nkind = \"busy\"\nbusy_us = 2000\n"
        ),
    );
    for flags in ["", "--processes"] {
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        check(&place, &summary, &hits);
        assert_eq!(summary["ledger"]["fragments"]["dropped"], json!({}), "{summary:#}");
    }
}
