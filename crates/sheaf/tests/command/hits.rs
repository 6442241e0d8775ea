//! The ledger of hits of self-triggered front ends, of captures that the tests write themselves.

use crate::child::ScratchDirectory;
use crate::output::number;
use crate::streams;
use serde_json::{Value, json};
use sheaf_store::fragment_stream::{StreamReader, StreamWriter};

/// Returns a packet of card 1 with a time marker, and one hit at the same time.
pub(crate) fn packet(number: u32, ticks: u64) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.extend([b'V', b'M', b'3', 1 << 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(((ticks >> 10) as u32).to_be_bytes());
    packet.extend(((ticks & 0x3ff) as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x80, 0]);
    packet
}

/// Writes a capture with one hit at each of these ticks.
pub(crate) fn write_capture(place: &ScratchDirectory, name: &str, ticks: &[u64]) -> Vec<u8> {
    let packets: Vec<_> = (1..).zip(ticks).map(|(number, ticks)| packet(number, *ticks)).collect();
    write_packets(place, name, &packets)
}

/// Writes a capture of raw IP packets with these UDP payloads.
pub(crate) fn write_packets(place: &ScratchDirectory, name: &str, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0]);
    for payload in packets {
        let (udp_bytes, ip_bytes) = (8 + payload.len() as u16, 28 + payload.len() as u16);
        let mut ip = vec![0x45, 0];
        ip.extend(ip_bytes.to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3]);
        ip.extend([0x17, 0x76, 0x17, 0x76]);
        ip.extend(udp_bytes.to_be_bytes());
        ip.extend([0, 0]);
        ip.extend(payload);
        file.extend([0; 8]);
        file.extend([u32::from(ip_bytes).to_le_bytes(), u32::from(ip_bytes).to_le_bytes()].concat());
        file.extend(ip);
    }
    std::fs::write(place.join(name), &file).unwrap();
    file
}

/// Writes a configuration with slices of 1 us and a tick of 1 ns.
pub(crate) fn configure(place: &ScratchDirectory, more: &str) {
    place.file(
        "run.toml",
        &format!(
            "[run]\noverwrite = true\n[source]\nkind = \"capture\"\n[source.timed]\nfile = \"capture.pcap\"\n\
             tick = \"1 ns\"\nslice_us = 1.0\ntolerance_us = 2.0\n{more}"
        ),
    );
}

fn fates(summary: &Value) -> [u64; 4] {
    ["received", "in_slices", "late", "unfinished"].map(|name| number(summary, &format!("hits.{name}")))
}

#[test]
fn late_hits_are_in_the_headline_and_set_the_status_unless_they_are_allowed() {
    let place = ScratchDirectory::new();
    let in_order: Vec<u64> = (0..100).map(|number| 5_000 + 100 * number).collect();
    write_capture(&place, "capture.pcap", &in_order);
    configure(&place, "");
    let summary = place.sheaf("run run.toml --json").exits(0).json();
    assert_eq!(fates(&summary), [100, 100, 0, 0]);
    assert_eq!(summary["kept"]["all"], json!(true));

    // Ten hits more, each of them 4 us behind the one before.
    let late =
        in_order.iter().flat_map(|at| [*at, at - 4_000].into_iter().take(1 + usize::from(at % 1_000 == 900)));
    write_capture(&place, "capture.pcap", &late.collect::<Vec<_>>());
    let ended = place.sheaf("run run.toml --processes --json").exits(3);
    let summary = ended.json();
    assert_eq!(fates(&summary), [110, 100, 10, 0]);
    assert_eq!(summary["ledger"]["balanced"], json!(true));
    assert_eq!((&summary["kept"]["all"], &summary["kept"]["hits_lost"]), (&json!(false), &json!(10)));
    let text = place.sheaf("run run.toml").exits(3).stdout;
    assert!(text.contains("LOST HITS         10 hits are in no time slice"), "{text}");
    assert!(
        text.contains("10 hits late: ") && text.contains("balanced: each hit is in exactly one line"),
        "{text}"
    );

    configure(&place, "max_lost_fraction = 0.1\n");
    assert_eq!(fates(&place.sheaf("run run.toml --json").exits(0).json()), [110, 100, 10, 0]);
}

#[test]
fn what_is_whole_of_a_capture_that_was_cut_is_built() {
    let place = ScratchDirectory::new();
    let file = write_capture(&place, "capture.pcap", &[5_000, 5_500, 7_100, 7_200]);
    std::fs::write(place.join("capture.pcap"), &file[..file.len() - 5]).unwrap();
    configure(&place, "");
    let ended = place.sheaf("run run.toml --json").exits(0).says(&["damaged after packet 3"]);
    let summary = ended.json();
    assert_eq!(fates(&summary), [3, 3, 0, 0]);
    assert_eq!((number(&summary, "events_built"), number(&summary, "counters.source_read_errors")), (3, 1));
}

#[test]
fn a_replay_takes_its_slices_from_its_streams_and_others_are_not_rejected_in_silence() {
    let place = ScratchDirectory::new();
    write_capture(&place, "capture.pcap", &(0..40).map(|number| 5_000 + 500 * number).collect::<Vec<_>>());
    configure(&place, "");
    place.sheaf("record run.toml --output streams").exits(0);
    let coincidences = "[filter]\nkind = \"coincidence\"\ngap_ps = 1000\nmin_sources = 1\n";
    let replay =
        "[run]\noverwrite = true\n[source]\nkind = \"replay\"\n[source.replay]\ndirectory = \"streams\"\n";
    place.file("replay.toml", &format!("{replay}{coincidences}"));
    let stored =
        |summary: &Value| (number(summary, "ledger.stored"), summary["counters"].get("quarantined").cloned());
    for flags in ["", "--processes"] {
        let summary = place.sheaf(&format!("run replay.toml --json {flags}")).exits(0).json();
        assert_eq!(stored(&summary), (20, None), "the streams state their slices");
    }
    place.file("replay.toml", &format!("{replay}[source.timed]\nslice_us = 1.0\n{coincidences}"));
    assert_eq!(stored(&place.sheaf("run replay.toml --json").exits(0).json()), (20, None));
    place.file("replay.toml", &format!("{replay}[source.timed]\nslice_us = 2.0\n{coincidences}"));
    place.sheaf("run replay.toml").exits(1).says(&["time slices of 1000 ns", "remove `slice_us`"]);

    // Streams of another recorder, which state nothing.
    rewrite(&place, "{}");
    place.file("replay.toml", &format!("{replay}{coincidences}"));
    let ended = place.sheaf("run replay.toml --json").exits(0).says(&["set `slice_us`"]);
    assert_eq!(stored(&ended.json()), (20, Some(json!(20))));
    place.file("replay.toml", &format!("{replay}[source.timed]\nslice_us = 1.0\n{coincidences}"));
    assert_eq!(stored(&place.sheaf("run replay.toml --json").exits(0).json()), (20, None));
    rewrite(&place, "{\"slices\": {\"length_ns\": -1}}");
    place.sheaf("run replay.toml").exits(1).says(&["`slices` in the metadata of", "is invalid"]);
}

/// Writes the recorded streams again, with other metadata.
fn rewrite(place: &ScratchDirectory, metadata: &str) {
    for path in streams::paths(&place.join("streams")) {
        let reader = StreamReader::open(&path).unwrap();
        let header = *reader.header();
        let fragments: Vec<_> = reader.map(Result::unwrap).collect();
        std::fs::remove_file(&path).unwrap();
        let mut writer = StreamWriter::create(&path, header, metadata).unwrap();
        fragments.iter().for_each(|fragment| writer.append(fragment).unwrap());
        writer.finish().unwrap();
    }
}

#[test]
fn clocks_of_cards_that_do_not_exist_are_named() {
    let place = ScratchDirectory::new();
    write_capture(&place, "capture.pcap", &[5_000, 5_500]);
    let clock = "[clocks.far]\ncards = [1, 7]\ntick = \"1 ns\"\n";
    configure(&place, clock);
    for flags in ["", "--processes"] {
        let ended = place.sheaf(&format!("run run.toml {flags}")).exits(0);
        assert_eq!(ended.stderr.matches("`clocks.far.cards` names card 7").count(), 1, "{}", ended.stderr);
    }
    configure(&place, &format!("cards = [1]\n{clock}"));
    place.sheaf("run run.toml").exits(1).says(&["card 7", "not a card of the run", "source.timed.cards"]);
}
