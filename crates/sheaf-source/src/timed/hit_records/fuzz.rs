//! The body of the fuzz target for described packets of hits.

use super::{CardNumber, HitDescription, HitRecords, RecordKinds, TimeFields};
use crate::described::field::Mark;
use crate::described::fuzz::field;
use crate::timed::{FeedConfig, SliceFeed};
use sheaf_time::clock::PulseConfig;
use sheaf_time::{Picos, SliceConfig};
use sheaf_wire::{ClockDrift, ExactNanos, SourceId};
use std::sync::Arc;

/// Slices with at most four hits, and as many hits that wait.
const SLICES: SliceConfig =
    SliceConfig { length: Picos(64), before: Picos(8), after: Picos(8), max_items: 4, max_empty: 4 };

/// Takes a layout and packets from `bytes`, and cuts their hits into slices. Returns the number of hits.
///
/// # Panics
/// If a packet or a hit is in no account, or in two.
pub fn fuzz_hits(bytes: &[u8]) -> u64 {
    let mut bytes = bytes.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let layout = layout(&mut next);
    let Ok(decoder) = HitRecords::new(Arc::new(layout)) else { return 0 };
    let config = FeedConfig {
        card: SourceId(1),
        tick: ExactNanos::from_picos(1 + i64::from(next())),
        drift: ClockDrift::ZERO,
        offset: ExactNanos::from_picos(i64::from(next()) - 128),
        bits: None,
        pulses: match next() {
            0 => None,
            period => Some(PulseConfig {
                period: ExactNanos::from_picos(10 * i64::from(period)),
                delay: ExactNanos::ZERO,
                tolerance: ClockDrift::from_ppm(500_000),
            }),
        },
        times: crate::timed::HitTimes::Counter,
        tolerance: Picos(u64::from(next())),
        held_hits: 4,
        slices: SLICES,
    };
    let Ok(mut feed) = SliceFeed::new(Box::new(decoder), config) else { return 0 };
    let packets: Vec<u8> = bytes.collect();
    let (mut rest, mut count, mut last) = (&packets[..], 0, None);
    let mut take = |feed: &mut SliceFeed| {
        while let Some(slice) = feed.poll() {
            assert!(slice.items.is_sorted_by_key(|(at, _)| *at) && slice.items.len() <= SLICES.max_items);
            assert!(
                last.replace(slice.number).is_none_or(|last| last < slice.number),
                "each slice once, in order"
            );
        }
    };
    while let Some((&length, more)) = rest.split_first() {
        let (packet, after) = more.split_at(more.len().min(usize::from(length)));
        feed.packet(packet);
        take(&mut feed);
        (rest, count) = (after, count + 1);
    }
    feed.finish();
    take(&mut feed);
    let books = feed.books();
    assert!(books.is_balanced(), "{books:?}");
    let read = books.packets + books.packets_repeated + books.packets_unreadable + books.packets_of_others;
    assert_eq!(read, count, "each packet is in one account");
    books.hits
}

fn layout(next: &mut dyn FnMut() -> u8) -> HitDescription {
    let what = next();
    let mut maybe = |bit: u32| (what >> bit & 1 == 1).then(|| field(next));
    let card = maybe(0).map_or(CardNumber::Always(SourceId(1)), CardNumber::In);
    let (packet_number, base, fine) = (maybe(1), maybe(2), maybe(3));
    let (kind, channel, value, extra) = (maybe(4), maybe(5), maybe(6), maybe(7));
    HitDescription {
        magic: match next() {
            0 => Vec::new(),
            byte => vec![Mark { offset: 0, bytes: vec![byte] }],
        },
        card,
        packet_number,
        header_bytes: usize::from(next() % 32),
        record_bytes: usize::from(next() % 32),
        kinds: kind.map(|field| RecordKinds {
            field,
            hits: vec![u64::from(next())],
            markers: vec![u64::from(next())],
            pulses: vec![u64::from(next()), 0xff],
            resets: vec![u64::from(next()), 0xff],
        }),
        time: TimeFields { base, coarse: field(next), fine },
        channel,
        value,
        extra,
    }
}

/// Returns inputs with packets that fit their layouts, by name.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    // Fields of 16 and 8 bits, big endian.
    let (u16_at, u8_at) = (0b0010, 0b0000);
    let seed = |name: &str, layout: &[u8], pulse_period: u8, packets: &[&[u8]]| {
        // A tick of 10 ps, an offset of 0, pulses after so many ticks, a tolerance of 200 ps.
        let config = [9, 128, pulse_period, 200];
        let packets = packets.iter().flat_map(|packet| {
            let length = u8::try_from(packet.len()).expect("a short packet");
            std::iter::once(length).chain(packet.iter().copied())
        });
        (name.to_owned(), layout.iter().copied().chain(config).chain(packets).collect())
    };
    vec![
        seed(
            "plain",
            // No header, records of three bytes: time and channel.
            &[0b0010_0000, u8_at, 2, 0, 0, 3, u16_at, 0],
            0,
            &[&[0, 10, 1, 0, 20, 2, 0, 15, 3], &[0, 200, 1, 0, 90, 4, 9]],
        ),
        seed(
            "numbered",
            // Card, packet number and base in a header of four bytes that begins with 0xa5.
            &[0b0000_0111, u8_at, 1, u8_at, 2, u8_at, 3, 0xa5, 4, 2, u16_at, 0],
            0,
            &[
                &[0xa5, 1, 7, 100, 0, 1, 0, 9],
                &[0xa5, 1, 9, 130, 0, 2],
                &[0xa5, 2, 1, 1, 0, 0],
                &[0x5a, 1, 10, 0],
            ],
        ),
        seed(
            "kinds",
            // A fine time, kinds 1 for hits and 2 for markers, a value.
            &[0b0101_1000, u8_at, 2, u8_at, 3, u8_at, 4, 0, 0, 5, 1, 2, 3, 4, u16_at, 0],
            0,
            &[&[0, 1, 7, 1, 50, 0, 1, 9, 1, 51, 0, 2, 0, 2, 0, 0, 3, 0, 5, 0], &[0, 4, 0, 1, 52]],
        ),
        seed(
            "pulses",
            // Records of three bytes: time, and kinds 1 for hits, 3 for pulses, 4 for resets, and 255 for both. Pulses every 100 ticks.
            &[0b0001_0000, u8_at, 2, 0, 0, 3, 1, 2, 3, 4, u16_at, 0],
            100,
            &[
                &[0, 7, 1, 0, 20, 3, 0, 30, 1, 0, 121, 3, 0, 130, 1, 0, 150, 3, 0, 125, 1],
                &[0, 140, 4, 0, 10, 1, 0, 80, 0xff, 0, 5, 1, 0, 99, 0xff, 0, 50, 1],
            ],
        ),
    ]
}
