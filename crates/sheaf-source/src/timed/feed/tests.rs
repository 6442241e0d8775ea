use super::*;
use crate::timed::Vmm3a;
use crate::timed::testing::vmm3a_packet as packet;

const CONFIG: FeedConfig = FeedConfig {
    card: SourceId(2),
    tick: ExactNanos::from_nanos(1),
    drift: ClockDrift::ZERO,
    offset: ExactNanos::ZERO,
    bits: None,
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
