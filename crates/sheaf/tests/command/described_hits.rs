//! Time slices of packets that the configuration describes, compared with a plain sort of all hits.

use crate::child::ScratchDirectory;
use crate::hits::write_packets;
use crate::output::{directory, number};
use serde_json::json;
use sheaf_store::run::RunReader;
use std::collections::BTreeMap;

/// Length of a slice.
const SLICE_PS: u64 = 1_000_000_000;

/// Returns the time after so many ticks of 25/16 ns, which are no whole number of picoseconds.
fn time_ps(ticks: u64) -> u64 {
    ticks * 25_000 / 16
}

/// Bits of the coarse counter, and of the fine one.
const COARSE_BITS: u32 = 26;
const FINE_BITS: u32 = 4;

const RUN: &str = r#"
[run]
overwrite = true

[source]
kind = "capture"

[source.timed]
file = "capture.pcap"
front_end = "described"
tick = "25/16 ns"
slice_us = 1000
tolerance_us = 400

[source.hits]
magic = ["4854 at 0"]
card = "u8 at 2"
packet_number = "u16 at 4"
header_bytes = 8
record_bytes = 10
kind = "u8 at 0 >> 4"
hit_kinds = [1, 2]
marker_kinds = [4]
channel = "u16 at 0 & 0x0fff"
value = "u16le at 2"
time = "u32 at 4 & 0x3ffffff"
fine = "u8 at 8 & 0xf"
extra = "u8 at 9"
"#;

/// Time, channel, value and second value of the hits of each slice and card.
type Hits = BTreeMap<(u64, u32), Vec<(u64, u32, u16, u16)>>;

fn record(kind: u16, ticks: u64, channel: u16, value: u16, extra: u8) -> [u8; 10] {
    let coarse = (ticks >> FINE_BITS) as u32 & ((1 << COARSE_BITS) - 1);
    let [k0, k1] = (kind << 12 | channel).to_be_bytes();
    let [v0, v1] = value.to_le_bytes();
    // Bits that nobody described are set.
    let [t0, t1, t2, t3] = (coarse | 0xfc00_0000).to_be_bytes();
    [k0, k1, v0, v1, t0, t1, t2, t3, 0xf0 | (ticks & 0xf) as u8, extra]
}

/// Returns packets of two cards over several turns of their counters, and the hits in them. Hits are out of order by up to 300 us.
fn packets() -> (Vec<Vec<u8>>, Hits) {
    let (mut packets, mut hits, mut draw) = (Vec::new(), Hits::new(), 1_u64);
    let mut next = |most: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % most
    };
    for number in 0..400_u64 {
        for card in [3_u8, 9] {
            let [n0, n1] = ((number + 0xff80) as u16).to_be_bytes();
            let mut packet = vec![b'H', b'T', card, 0xee, n0, n1, 0xff, 0xff];
            for place in 0..20_u64 {
                // Each time is another one, so that the order of hits is certain.
                let ticks =
                    1_000_000 + number * 10_000_000 + place * 400_000 + 10 * next(30_000) + u64::from(card);
                let (channel, value, extra) = (next(4_096) as u16, next(65_536) as u16, next(256) as u8);
                let kind = [1, 2, 7][(place % 3) as usize];
                packet.extend(record(kind, ticks, channel, value, extra));
                if kind != 7 {
                    let time_ps = time_ps(ticks);
                    let hit = (time_ps, u32::from(channel), value, u16::from(extra));
                    hits.entry((time_ps / SLICE_PS, u32::from(card))).or_default().push(hit);
                }
            }
            packets.push(packet);
        }
    }
    hits.values_mut().for_each(|hits| hits.sort_unstable());
    (packets, hits)
}

fn stored(place: &ScratchDirectory, summary: &serde_json::Value) -> Hits {
    let mut hits = Hits::new();
    for event in RunReader::open(&directory(place, summary)).unwrap() {
        let event = event.unwrap().event;
        for fragment in event.fragments.iter().filter(|fragment| !fragment.payload.is_empty()) {
            let of_slice = sheaf_wire::hit::hits(&fragment.payload).unwrap();
            let of_slice = of_slice.map(|hit| (hit.time_ps, hit.channel, hit.value, hit.extra)).collect();
            assert!(hits.insert((event.id.0, fragment.source.0), of_slice).is_none(), "each slice once");
        }
    }
    hits
}

#[test]
fn described_packets_of_a_capture_are_cut_into_slices_hit_by_hit() {
    let place = ScratchDirectory::new();
    let (mut packets, hits) = packets();
    // One packet that is not of these front ends, and one that ends within a record.
    packets.insert(100, b"something else".to_vec());
    packets[50].push(1);
    write_packets(&place, "capture.pcap", &packets);
    place.file("run.toml", RUN);
    for flags in ["", "--processes --readouts 2 --builders 2"] {
        let summary = place.sheaf(&format!("run run.toml {flags} --json")).exits(0).json();
        assert!(stored(&place, &summary) == hits, "{summary:#}");
        let all = hits.values().map(|hits| hits.len() as u64).sum::<u64>();
        assert_eq!(number(&summary, "hits.received"), all);
        assert_eq!(number(&summary, "hits.in_slices"), all);
        assert_eq!(summary["ledger"]["balanced"], json!(true));
        assert_eq!(summary["hits"]["packets_lost"], json!(0), "{summary:#}");
        assert_eq!(number(&summary, "counters.source_records_skipped"), 2 * 400 * 6);
    }
}

#[test]
fn a_description_that_lacks_something_is_refused_in_words() {
    let place = ScratchDirectory::new();
    write_packets(&place, "capture.pcap", &packets().0);
    let refused = |line: &str, instead: &str, says: &str| {
        assert!(RUN.contains(line));
        place.file("run.toml", &RUN.replace(line, instead));
        place.sheaf("run run.toml").exits(1).says(&[says]);
    };
    refused("record_bytes = 10\n", "", "`source.hits.record_bytes` is not set");
    refused("time = \"u32 at 4 & 0x3ffffff\"\n", "", "`source.hits.time` is not set");
    refused("kind = \"u8 at 0 >> 4\"\n", "", "`source.hits.kind` is not");
    refused("u8 at 9", "u8 at 10", "the field extra ends after 11 bytes, a record has 10");
    refused("u16le at 2", "u16le at packet 2", "write it without `packet`");
}
