use super::*;
use crate::described::field::{ByteOrder, Field, Width};
use crate::timed::testing::vmm3a_packet as packet;
use crate::timed::{CardNumber, HitDescription, HitRecords, RecordKinds, TimeFields, Vmm3a};

use std::sync::Arc;

const CONFIG: FeedConfig = FeedConfig {
    card: SourceId(2),
    tick: ExactNanos::from_nanos(1),
    drift: ClockDrift::ZERO,
    offset: ExactNanos::ZERO,
    bits: None,
    pulses: None,
    times: HitTimes::Counter,
    tolerance: Picos(100_000),
    held_hits: 1000,
    slices: SliceConfig {
        length: Picos(1_000_000),
        before: Picos::ZERO,
        after: Picos::ZERO,
        max_items: 100,
        max_empty: 10,
    },
};

fn feed() -> SliceFeed {
    SliceFeed::new(Box::new(Vmm3a::new()), CONFIG).unwrap()
}

fn slices(feed: &mut SliceFeed) -> Vec<(u64, Vec<u64>)> {
    let times = |slice: Slice<Hit>| slice.items.iter().map(|(_, hit)| hit.time_ps).collect();
    std::iter::from_fn(|| feed.poll()).map(|slice| (slice.number, times(slice))).collect()
}

#[test]
fn hits_become_slices_in_order_of_time() {
    let mut feed = feed();
    feed.packet(&packet(2, 1, 4000, &[30, 10, 20]));
    assert_eq!(slices(&mut feed), []);
    feed.packet(&packet(2, 2, 6000, &[5]));
    let first = (4, vec![4_010_000, 4_020_000, 4_030_000]);
    assert_eq!(slices(&mut feed), [first], "slice 5 may still get late hits");
    feed.finish();
    assert_eq!(slices(&mut feed), [(5, vec![]), (6, vec![6_005_000])]);
}

#[test]
fn packets_that_are_lost_repeated_late_or_foreign_are_booked() {
    let mut feed = feed();
    for number in [u32::MAX - 1, u32::MAX, 0, 0, 5, 3, 6] {
        feed.packet(&packet(2, number, 4000, &[1]));
    }
    feed.packet(&packet(3, 7, 4000, &[1]));
    feed.packet(b"hello");
    let books = feed.books();
    assert_eq!(books.packets, 6, "the counter rolls over: {books:?}");
    assert_eq!((books.packets_lost, books.gaps), (3, 1), "1, 2 and 4: 3 came late");
    assert_eq!((books.packets_repeated, books.packets_unordered), (1, 1));
    assert_eq!((books.packets_of_others, books.packets_unreadable), (1, 1));
    assert_eq!((books.hits, books.hits_untimed), (6, 0));
}

#[test]
fn cards_with_different_clocks_are_on_one_timeline() {
    // The same moments, by a clock of 1 ns and by one of 2 ns whose counter was zero 50 ns after the other's and has 13 bits.
    let of_second = FeedConfig {
        tick: ExactNanos::from_nanos(2),
        offset: ExactNanos::from_nanos(50),
        bits: Some(13),
        ..CONFIG
    };
    let mut first = feed();
    let mut second = SliceFeed::new(Box::new(Vmm3a::new()), of_second).unwrap();
    // Readings of the second: (moment - 50) / 2, after 8,191 from 0 again.
    let moments = [4_050_u64, 9_050, 16_050, 17_050, 20_050];
    for (number, moment) in (1..).zip(moments) {
        first.packet(&packet(2, number, moment, &[0]));
        second.packet(&packet(2, number, (moment - 50) / 2 % (1 << 13), &[0]));
    }
    first.finish();
    second.finish();
    let hits = |feed: &mut SliceFeed| -> Vec<u64> {
        slices(feed).into_iter().flat_map(|(_, times)| times).collect()
    };
    let expected: Vec<u64> = moments.iter().map(|moment| moment * 1000).collect();
    assert_eq!(hits(&mut first), expected);
    assert_eq!(hits(&mut second), expected);
}

#[test]
fn what_an_offset_puts_before_the_timeline_is_counted() {
    let config = FeedConfig { offset: ExactNanos::from_nanos(-5_000), ..CONFIG };
    let mut feed = SliceFeed::new(Box::new(Vmm3a::new()), config).unwrap();
    feed.packet(&packet(2, 1, 4000, &[1, 2]));
    feed.packet(&packet(2, 2, 6000, &[3]));
    let books = feed.books();
    assert_eq!((books.hits, books.hits_off_timeline, books.markers_off_timeline), (1, 2, 1));
    assert_eq!((books.hits_in_slices, books.hits_waiting), (0, 1));
    feed.finish();
    assert_eq!(slices(&mut feed).len(), 1);
    let books = feed.books();
    assert_eq!((books.hits_in_slices, books.hits_waiting), (1, 0));
    assert!(books.is_balanced(), "{books:?}");
}

#[test]
fn the_highest_packet_that_comes_again_after_an_unordered_one_is_repeated() {
    let mut feed = feed();
    for number in [5, 3, 5, 6] {
        feed.packet(&packet(2, number, 4_000, &[1]));
    }
    let books = feed.books();
    assert_eq!(
        (books.packets, books.packets_repeated, books.packets_unordered, books.packets_lost),
        (3, 1, 1, 0)
    );
}

/// A layout of hits, time markers, pulses and resets, as kinds 1 to 4 with a time each.
fn with_pulses(records: &[(u8, u32)]) -> Vec<u8> {
    records.iter().flat_map(|(kind, time)| std::iter::once(*kind).chain(time.to_be_bytes())).collect()
}

fn pulsed_feed(times: HitTimes) -> SliceFeed {
    let field = |offset, bits| Field::new(offset, Width::of_bits(bits).unwrap(), ByteOrder::Big);
    let layout = HitDescription {
        record_bytes: 5,
        kinds: Some(RecordKinds {
            field: field(0, 8),
            hits: vec![1],
            markers: vec![2],
            pulses: vec![3, 5],
            resets: vec![4, 5],
        }),
        time: TimeFields { base: None, coarse: field(1, 32), fine: None },
        card: CardNumber::Always(SourceId(2)),
        channel: None,
        value: None,
        extra: None,
        ..HitDescription::of_sheaf()
    };
    let pulses = PulseConfig {
        period: ExactNanos::from_nanos(100_000),
        delay: ExactNanos::ZERO,
        tolerance: ClockDrift::from_ppm(1_000),
    };
    let config = FeedConfig { pulses: Some(pulses), times, ..CONFIG };
    SliceFeed::new(Box::new(HitRecords::new(Arc::new(layout)).unwrap()), config).unwrap()
}

#[test]
fn a_clock_follows_pulses_and_hits_before_the_first_one_are_untimed() {
    let mut feed = pulsed_feed(HitTimes::Counter);
    // The second pulse is 10 ns late, the third one is noise, and the last one resets the counter.
    feed.packet(&with_pulses(&[(1, 7), (2, 9), (3, 3_000), (1, 3_500), (3, 103_010)]));
    feed.packet(&with_pulses(&[(1, 153_015), (3, 170_000), (5, 203_020), (1, 500), (4, 10_000), (1, 1)]));
    feed.finish();
    let found: Vec<u64> = slices(&mut feed).into_iter().flat_map(|(_, hits)| hits).collect();
    // 10,001 ticks of a clock that counts 100,010 in 100 us.
    let after_reset = 200_000_000 + 10_001 * 100_000_000 / 100_010;
    assert_eq!(found, [500_000, 150_000_000, 200_000_000 + 500 * 100_000_000 / 100_010, after_reset]);
    let books = feed.books();
    assert_eq!((books.hits, books.hits_untimed, books.markers_off_timeline), (4, 1, 0));
    assert_eq!((books.pulses, books.pulses_refused, books.resets), (3, 1, 2));
}

#[test]
fn pulses_do_not_change_times_that_count_from_a_fragment() {
    let mut feed = pulsed_feed(HitTimes::Fragment { zero: Timestamp(0), unit: TimeUnit::NANOSECOND });
    feed.fragment(EventId(0), Timestamp(5_000), &with_pulses(&[(1, 7), (3, 3_000), (4, 10), (1, 9)]));
    feed.finish();
    let found: Vec<u64> = slices(&mut feed).into_iter().flat_map(|(_, hits)| hits).collect();
    assert_eq!((found, feed.books().records_skipped), (vec![5_007_000, 5_009_000], 2));
}
