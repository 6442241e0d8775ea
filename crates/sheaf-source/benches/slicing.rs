//! Throughput of cutting described hits by time, and of finding coincidences: `cargo bench -p sheaf-source --bench slicing`.
//!
//! One thread, 16 sources, packets of 116 hits of 12 bytes, hits up to a microsecond out of order, slices of a millisecond with
//! about 1,000 hits of each source. Each figure is the median of five runs. The bare loop decodes the same hits by hand, collects
//! those of each slice, sorts them and looks for the same coincidences: nothing that cuts by time does less.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use sheaf_source::described::field::{ByteOrder, Field, Width};
use sheaf_source::random::{Draws, Purpose};
use sheaf_source::timed::{
    CardNumber, FeedConfig, HitDescription, HitRecords, HitTimes, SliceFeed, TimeFields,
};
use sheaf_time::coincidence::of_slice;
use sheaf_time::{CoincidenceConfig, Moment, Picos, Rule, SliceConfig};
use sheaf_wire::{ClockDrift, EventId, ExactNanos, Hit, SourceId, Timestamp};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const RUNS: usize = 5;
const SOURCES: u32 = 16;
const HIT_BYTES: usize = 12;
const HITS_A_PACKET: usize = 116;
const PACKETS_A_SOURCE: usize = 1_000;
const TICK_PS: u64 = 1_000;
const SLICE_PS: u64 = 1_000_000_000;
const COINCIDENCE: CoincidenceConfig =
    CoincidenceConfig { rule: Rule::Gap(Picos(2_000)), min_sources: 3, max_items: usize::MAX };

fn main() {
    let packets: Vec<Vec<Vec<u8>>> = (0..SOURCES).map(packets_of).collect();
    let hits = f64::from(SOURCES) * (HITS_A_PACKET * PACKETS_A_SOURCE) as f64;
    println!("{:<34} {:>10} {:>12}", "", "M hits/s", "of the bare");
    let bare = median_seconds(|| black_box(bare(&packets, false)));
    let bare_coincidence = median_seconds(|| black_box(self::bare(&packets, true)));
    for (name, seconds, bare) in [
        ("bare: decode, collect, sort", bare, bare),
        ("described: slices", median_seconds(|| black_box(sliced(&packets, false))), bare),
        ("bare, and coincidences", bare_coincidence, bare_coincidence),
        (
            "described, and coincidences",
            median_seconds(|| black_box(sliced(&packets, true))),
            bare_coincidence,
        ),
    ] {
        println!("{name:<34} {:>10.1} {:>10.0} %", hits / seconds / 1e6, 100.0 * bare / seconds);
    }
    assert_eq!(self::bare(&packets, true), sliced(&packets, true), "the same coincidences");
}

/// Returns the packets of a source whose hits are a microsecond apart, more or less.
fn packets_of(source: u32) -> Vec<Vec<u8>> {
    let draws = Draws::new(7, SourceId(source), Purpose::Size);
    let packet = |packet: usize| {
        let record = |hit: usize| {
            let number = (packet * HITS_A_PACKET + hit) as u64;
            let draw = draws.bits(EventId(number));
            let ticks = 2_000 + number * 1_000 + draw % 2_000;
            let mut record = ticks.to_le_bytes().to_vec();
            record.extend(((draw >> 20) as u16 % 64).to_le_bytes());
            record.extend(((draw >> 36) as u16).to_le_bytes());
            record
        };
        (0..HITS_A_PACKET).flat_map(record).collect()
    };
    (0..PACKETS_A_SOURCE).map(packet).collect()
}

/// Hits of a slice, with their sources. The memory is used again.
type Hits = Vec<(usize, Moment, Hit)>;

/// Slices that are open at most in the bare loop: packets of the sources are in step.
const OPEN: u64 = 4;

/// Returns the number of hits in coincidences, or of hits in slices.
fn bare(packets: &[Vec<Vec<u8>>], coincidences: bool) -> u64 {
    let mut slices: [Hits; OPEN as usize] = Default::default();
    let (mut next, mut found) = (0, 0);
    for number in 0..PACKETS_A_SOURCE {
        for (source, packets) in packets.iter().enumerate() {
            for record in packets[number].as_chunks::<HIT_BYTES>().0 {
                let [t0, t1, t2, t3, t4, t5, t6, t7, c0, c1, v0, v1] = *record;
                let time_ps = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]) * TICK_PS;
                let channel = u32::from(u16::from_le_bytes([c0, c1]));
                let hit = Hit { time_ps, channel, value: u16::from_le_bytes([v0, v1]), extra: 0 };
                slices[(time_ps / SLICE_PS % OPEN) as usize].push((source, Moment(time_ps), hit));
            }
        }
        let reached = ((number + 1) * HITS_A_PACKET) as u64 * 1_000 * TICK_PS;
        while (next + 1) * SLICE_PS <= reached {
            found += judge(next, &mut slices[(next % OPEN) as usize], coincidences);
            next += 1;
        }
    }
    (next..next + OPEN)
        .map(|next| judge(next, &mut slices[(next % OPEN) as usize], coincidences))
        .sum::<u64>()
        + found
}

fn sliced(packets: &[Vec<Vec<u8>>], coincidences: bool) -> u64 {
    let feed = |source| SliceFeed::new(Box::new(decoder()), config(source)).expect("it is right");
    let mut feeds: Vec<SliceFeed> = (0..SOURCES).map(feed).collect();
    feeds.iter_mut().for_each(|feed| feed.begin_with(0));
    let mut hits = Hits::new();
    let (mut next, mut found, mut given) = (0, 0, Vec::new());
    for number in 0..=PACKETS_A_SOURCE {
        for (source, (feed, packets)) in feeds.iter_mut().zip(packets).enumerate() {
            match packets.get(number) {
                Some(packet) => feed.fragment(EventId(0), Timestamp::ZERO, packet),
                None => feed.finish(),
            }
            while let Some(slice) = feed.poll() {
                given.push((source, slice));
            }
        }
        // The sources are in step: those of a slice come one after the other.
        while given.len() >= SOURCES as usize {
            for (source, slice) in given.extract_if(.., |(_, slice)| slice.number == next) {
                hits.extend(slice.items.iter().map(|(at, hit)| (source, *at, *hit)));
            }
            found += judge(next, &mut hits, coincidences);
            next += 1;
        }
    }
    found
}

/// Sorts the hits of a slice, and counts those in coincidences, or all.
fn judge(number: u64, hits: &mut Hits, coincidences: bool) -> u64 {
    hits.sort_by_key(|(source, at, _)| (*at, *source));
    let found = if coincidences {
        let (begin, end) = (Moment(number * SLICE_PS), Moment((number + 1) * SLICE_PS));
        let (clusters, _) = of_slice(COINCIDENCE, hits, (begin, end), end);
        clusters.iter().map(|cluster| cluster.items.len()).sum()
    } else {
        hits.len()
    };
    hits.clear();
    found as u64
}

fn decoder() -> HitRecords {
    let field =
        |offset, bits| Field::new(offset, Width::of_bits(bits).expect("whole bytes"), ByteOrder::Little);
    let layout = HitDescription {
        magic: Vec::new(),
        card: CardNumber::Always(SourceId(0)),
        packet_number: None,
        header_bytes: 0,
        record_bytes: HIT_BYTES,
        kinds: None,
        time: TimeFields { base: None, coarse: field(0, 64), fine: None },
        channel: Some(field(8, 16)),
        value: Some(field(10, 16)),
        extra: None,
    };
    HitRecords::new(Arc::new(layout)).expect("it is right")
}

fn config(source: u32) -> FeedConfig {
    FeedConfig {
        card: SourceId(source),
        tick: ExactNanos::from_picos(TICK_PS as i64),
        drift: ClockDrift::ZERO,
        offset: ExactNanos::ZERO,
        bits: None,
        pulses: None,
        times: HitTimes::Counter,
        tolerance: Picos(10_000_000),
        held_hits: 1 << 20,
        slices: SliceConfig {
            length: Picos(SLICE_PS),
            before: Picos::ZERO,
            after: Picos::ZERO,
            max_items: 65_536,
            max_empty: 1_000,
        },
    }
}

fn median_seconds(mut work: impl FnMut() -> u64) -> f64 {
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}
