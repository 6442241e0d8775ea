use super::*;
use crate::described::field::{ByteOrder, Field, Width};
use crate::timed::{CardNumber, HitDescription, HitRecords, HitTimes, TimeFields};
use proptest::prelude::*;
use sheaf_buffer::Heap;
use sheaf_time::{Picos, SliceConfig};
use sheaf_wire::{ClockDrift, EventId, ExactNanos, Fragment, NumberMark, TimeUnit};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const TICK_PS: u64 = 250;
const SLICE_PS: u64 = 1_000_000;

/// A source whose fragments are given, and which waits now and then.
#[derive(Debug)]
struct Given {
    fragments: VecDeque<Fragment<Bytes>>,
    accepted: usize,
    polls: u32,
}

impl Source for Given {
    fn id(&self) -> SourceId {
        SourceId(7)
    }

    fn keeps_data(&self) -> bool {
        true
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        self.polls += 1;
        match self.polls % 3 {
            0 => SourcePoll::NotBefore(now),
            _ => self.fragments.pop_front().map_or(SourcePoll::Ended, SourcePoll::Fragment),
        }
    }

    fn handle_accepted(&mut self, fragments: usize) {
        self.accepted += fragments;
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats { divided: 3, ..SourceStats::default() }
    }
}

/// Decodes records of a time of 32 bits and a channel of 8.
fn decoder() -> Box<dyn Decoder> {
    let field = |offset, bits| Field::new(offset, Width::of_bits(bits).unwrap(), ByteOrder::Little);
    let layout = HitDescription {
        magic: Vec::new(),
        card: CardNumber::Always(SourceId(0)),
        packet_number: None,
        header_bytes: 0,
        record_bytes: 5,
        kinds: None,
        time: TimeFields { base: None, coarse: field(0, 32), fine: None },
        channel: Some(field(4, 8)),
        value: None,
        extra: None,
    };
    Box::new(HitRecords::new(Arc::new(layout)).unwrap())
}

fn config(times: HitTimes, tolerance: Picos) -> FeedConfig {
    FeedConfig {
        card: SourceId(7),
        tick: ExactNanos::from_picos(TICK_PS as i64),
        drift: ClockDrift::ZERO,
        offset: ExactNanos::ZERO,
        bits: None,
        pulses: None,
        times,
        tolerance,
        held_hits: 100_000,
        slices: SliceConfig {
            length: Picos(SLICE_PS),
            before: Picos(SLICE_PS / 10),
            after: Picos(SLICE_PS / 5),
            max_items: 10_000,
            max_empty: u64::MAX,
        },
    }
}

fn fragment(time_ns: u64, hits: &[(u32, u8)]) -> Fragment<Bytes> {
    let record = |(time, channel): &(u32, u8)| {
        let mut record = time.to_le_bytes().to_vec();
        record.push(*channel);
        record
    };
    Fragment {
        event: EventId(1),
        source: SourceId(7),
        time: Timestamp(time_ns),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: hits.iter().flat_map(record).collect::<Vec<u8>>().into(),
    }
}

/// Slices by number, as time and channel of each hit.
type Cut = BTreeMap<u64, Vec<(u64, u32)>>;

/// Returns the slices of a source that ends, with all numbers between the first and the last.
fn cut(source: &mut dyn Source) -> Cut {
    let mut slices = Cut::new();
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(Fragment { event, payload, .. }) => {
                let mut hits: Vec<_> =
                    sheaf_wire::hit::hits(&payload).unwrap().map(|hit| (hit.time_ps, hit.channel)).collect();
                assert!(hits.is_sorted_by_key(|(time, _)| *time), "slice {event} is not in order of time");
                hits.sort_unstable();
                assert_eq!(slices.insert(event.0, hits), None, "slice {event} came twice");
            }
            SourcePoll::Ended => return slices,
            _ => {}
        }
    }
}

/// Returns the slices that sorting everything and cutting it gives.
fn sorted_and_cut(hits: &[(u64, u32)], first: u64, last: u64) -> Cut {
    let SliceConfig { before, after, .. } = config(HitTimes::Counter, Picos::ZERO).slices;
    let of_slice = |number: u64| {
        let (begin, end) = ((number * SLICE_PS).saturating_sub(before.0), (number + 1) * SLICE_PS + after.0);
        let mut inside: Vec<_> =
            hits.iter().copied().filter(|(time, _)| (begin..end).contains(time)).collect();
        inside.sort_unstable();
        (number, inside)
    };
    (first..=last).map(of_slice).collect()
}

fn source(fragments: Vec<Fragment<Bytes>>) -> Box<dyn Source> {
    Box::new(Given { fragments: fragments.into(), accepted: 0, polls: 0 })
}

fn pool() -> Pool<Heap> {
    Pool::new(160_000, 4)
}

proptest! {
    /// Times from the fragment: each fragment has the hits after its time, in any order, and fragments may overtake each other within
    /// the tolerance.
    #[test]
    fn hits_that_count_from_their_fragment_are_cut_as_a_sort_cuts_them(
        zero in 0..1_000_000_000_000_000_u64,
        fragments in prop::collection::vec((0..3_000_u64, prop::collection::vec((0..20_000_u32, any::<u8>()), 0..20)), 1..30),
        swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        more in 0..4_u64,
    ) {
        let mut all = Vec::new();
        let mut begin = 0;
        let mut given = Vec::new();
        for (step, hits) in &fragments {
            begin += step;
            all.extend(hits.iter().map(|(time, channel)| {
                (begin * 1_000 + u64::from(*time) * TICK_PS, u32::from(*channel))
            }));
            given.push(fragment(zero + begin, hits));
        }
        for swap in swaps {
            if let Some(at) = swap.index(given.len()).checked_sub(1) {
                given.swap(at, at + 1);
            }
        }
        let slice = |ps: u64| ps / SLICE_PS;
        let last = all.iter().map(|(time, _)| slice(time + SLICE_PS / 10)).max().unwrap_or(0) + more;
        // Neighbours that were swapped again and again are up to the whole recording late.
        let tolerance = Picos((begin + 10_000) * 1_000);
        let times = HitTimes::Fragment { zero: Timestamp(zero), unit: TimeUnit::NANOSECOND };
        let mut sliced =
            SliceSource::new(source(given), decoder(), &config(times, tolerance), Some((0, last)), pool()).unwrap();
        let found = cut(&mut sliced);
        prop_assert_eq!(found, sorted_and_cut(&all, 0, last));
        let books = sliced.stats().timed.unwrap();
        prop_assert!(books.is_balanced());
        prop_assert_eq!((books.hits, books.hits_in_slices), (all.len() as u64, all.len() as u64));
        prop_assert_eq!(books.packets, fragments.len() as u64);
        prop_assert_eq!(sliced.stats().divided, 3, "counters of the source are kept");
    }

    /// Times from a counter that rolls over, sorted within a fragment.
    #[test]
    fn hits_of_a_counter_are_cut_as_a_sort_cuts_them(
        steps in prop::collection::vec((0..20_000_u32, any::<u8>()), 0..100), of_each in 1..9_usize,
        first in u32::MAX - 1_000_000..=u32::MAX,
    ) {
        // The counter begins anywhere, here mostly shortly before its end.
        let mut ticks = u64::from(first);
        let mut hits = vec![(ticks, 0)];
        for (step, channel) in steps {
            ticks += u64::from(step);
            hits.push((ticks, channel));
        }
        let given = hits.chunks(of_each).map(|hits| {
            fragment(0, &hits.iter().map(|(ticks, channel)| (*ticks as u32, *channel)).collect::<Vec<_>>())
        });
        let all: Vec<_> = hits.iter().map(|(ticks, channel)| (ticks * TICK_PS, u32::from(*channel))).collect();
        let mut sliced = SliceSource::new(
            source(given.collect()), decoder(), &config(HitTimes::Counter, Picos::ZERO), None, pool(),
        ).unwrap();
        let found = cut(&mut sliced);
        let (first, last) = (*found.keys().next().unwrap(), *found.keys().last().unwrap());
        prop_assert_eq!(found, sorted_and_cut(&all, first, last));
        prop_assert_eq!(sliced.stats().timed.unwrap().hits_in_slices, all.len() as u64);
    }
}

#[test]
fn a_fragment_without_hits_says_that_its_time_has_come() {
    let times = HitTimes::Fragment { zero: Timestamp(1_000), unit: TimeUnit::NANOSECOND };
    let given = [fragment(1_000, &[(40, 1)]), fragment(9_500, &[]), fragment(900, &[(1, 2)])];
    let mut feed = SliceFeed::new(decoder(), config(times, Picos::ZERO)).unwrap();
    feed.fragment(EventId(1), given[0].time, &given[0].payload);
    assert_eq!(feed.poll(), None, "more hits of slice 0 may follow");
    feed.fragment(EventId(1), given[1].time, &given[1].payload);
    let slices: Vec<_> = std::iter::from_fn(|| feed.poll()).map(|slice| slice.number).collect();
    assert_eq!(slices, (0..8).collect::<Vec<_>>(), "the ninth lacks its overlap");
    feed.fragment(EventId(1), given[2].time, &given[2].payload);
    assert_eq!(feed.books().hits_off_timeline, 1, "100 ns before time 0");
}

#[test]
fn fragments_that_cannot_be_read_are_counted_and_the_others_are_accepted() {
    let mut sliced = SliceSource::new(
        source(vec![fragment(0, &[(4_000, 1)]), fragment(0, &[(8_000, 2)])]),
        decoder(),
        &config(HitTimes::Counter, Picos::ZERO),
        None,
        pool(),
    )
    .unwrap();
    let torn = Fragment { payload: Bytes::from_static(&[1, 2, 3]), ..fragment(0, &[]) };
    sliced.batch.payload = torn.payload.clone();
    sliced.feed.fragment(torn.event, torn.time, &torn.payload);
    assert_eq!(
        cut(&mut sliced).keys().copied().collect::<Vec<_>>(),
        [0, 1, 2],
        "with the overlaps of 1 and 2 us"
    );
    let books = sliced.stats().timed.unwrap();
    assert_eq!((books.packets, books.packets_torn, books.hits), (3, 1, 2));
}

#[test]
fn a_source_is_there_from_its_first_fragment_to_its_last_even_without_hits() {
    let times = HitTimes::Fragment { zero: Timestamp::ZERO, unit: TimeUnit::NANOSECOND };
    let given = vec![fragment(3_000, &[]), fragment(9_500, &[])];
    let config = config(times, Picos(2_000_000));
    let mut sliced = SliceSource::new(source(given), decoder(), &config, None, pool()).unwrap();
    let slices: Vec<u64> = cut(&mut sliced).into_keys().collect();
    assert_eq!(slices, (1..=8).collect::<Vec<_>>(), "from 1 us, where a hit may still come from, to 9 us");
    let mut silent = SliceSource::new(source(Vec::new()), decoder(), &config, None, pool()).unwrap();
    assert_eq!(cut(&mut silent), Cut::new());
}

#[test]
fn times_of_fragments_may_have_another_unit() {
    let unit = TimeUnit::from_fraction(25, 16).unwrap();
    let times = HitTimes::Fragment { zero: Timestamp(64), unit };
    let mut feed = SliceFeed::new(decoder(), config(times, Picos::ZERO)).unwrap();
    let given = fragment(64 + 1_001, &[(2, 1)]);
    feed.fragment(given.event, given.time, &given.payload);
    feed.finish();
    let hits: Vec<u64> =
        std::iter::from_fn(|| feed.poll()).flat_map(|slice| slice.items).map(|(at, _)| at.0).collect();
    // 1,001 units of 1,562.5 ps are 1,564,062.5 ps; two ticks of 250 ps follow.
    assert_eq!(hits, [1_564_562]);
}
