use super::fuzz::fuzz_described;
use super::*;
use crate::described::rollover::Rollover;
use proptest::prelude::*;
use sheaf_wire::{EventId, ExactNanos, Nanos, SourceId, TimeUnit, Timestamp};

mod encoder;
mod streams;
use encoder::{Encoder, Random};

const SOURCES: [SourceId; 3] = [SourceId(2), SourceId(3), SourceId(5)];

fn limits() -> Limits {
    Limits {
        waiting_packets: 16,
        wait: Nanos::from_millis(10),
        open_fragments: 16,
        max_fragment: 4096,
        tick: ExactNanos::from_nanos(25),
        unit: TimeUnit::NANOSECOND,
    }
}

/// A fragment as the test knows it: event, source, time, payload.
type Fragment = (u64, u32, u64, Vec<u8>);

/// Decodes packets, each a millisecond after the other, and returns the fragments.
fn decode(decoder: &mut Decoder, packets: &[Vec<u8>]) -> Vec<Fragment> {
    let mut found = Vec::new();
    let mut take = |one: Described<'_>| {
        found.push((one.event.0, one.source.0, one.time.0, one.payload.to_vec()));
    };
    for packet in packets {
        decoder.handle_packet(Timestamp(0), packet, &mut take);
    }
    decoder.finish(Timestamp(0), &mut take);
    found
}

fn of_source(fragments: &[Fragment], source: SourceId) -> Vec<&Fragment> {
    fragments.iter().filter(|fragment| fragment.1 == source.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any layout, several fragments in a packet or several packets for a fragment, counters that roll over, packets that
    /// overtake others: every fragment comes out byte for byte, and where packets have numbers in the order of its source.
    #[test]
    fn every_fragment_of_any_described_packets_comes_out(seed in any::<u64>()) {
        let mut random = Random(seed);
        let encoder = Encoder::any(&mut random);
        let (packets, first, mut wanted) = encoder.packets_with_first(&mut random, &SOURCES, 60);
        let mut order: Vec<usize> = (0..packets.len()).collect();
        let has_numbers = encoder.description.packet_number.is_some();
        if has_numbers {
            // No packet is overtaken by more than 8 others. The first of a source, by which the counters begin, by none.
            order.sort_by_cached_key(|index| match first.contains(index) {
                true => *index,
                false => index + random.below(8) as usize,
            });
        }
        let packets: Vec<Vec<u8>> = order.into_iter().map(|index| packets[index].clone()).collect();
        let mut decoder = Decoder::new(encoder.description.clone(), limits(), &SOURCES).expect("it is valid");
        let mut found = decode(&mut decoder, &packets);
        let books: Vec<StreamBooks> = SOURCES.iter().map(|source| decoder.books(*source)).collect();
        prop_assert_eq!(books.iter().map(|books| books.packets).sum::<u64>(), packets.len() as u64);
        for books in &books {
            let StreamBooks { packets_lost, packets_late, packets_repeated, packet_number_jumps, .. } = *books;
            prop_assert_eq!((packets_lost, packets_late, packets_repeated, packet_number_jumps), (0, 0, 0, 0));
        }
        for source in SOURCES {
            prop_assert!(of_source(&found, source) == of_source(&wanted, source), "source {}", source);
        }
        found.sort();
        wanted.sort();
        prop_assert!(found == wanted);
    }

    #[test]
    fn lost_and_repeated_packets_are_counted_and_the_others_decoded(
        seed in any::<u64>(), lost in prop::collection::btree_set(1..59_usize, 0..20), repeated in 0..59_usize,
    ) {
        let mut random = Random(seed);
        let mut encoder = Encoder::any(&mut random);
        encoder.make_simple();
        let (mut packets, mut wanted) = encoder.packets(&mut random, &SOURCES[..1], 60);
        prop_assert_eq!(packets.len(), wanted.len());
        for index in lost.iter().rev() {
            packets.remove(*index);
            wanted.remove(*index);
        }
        let twice = repeated.min(packets.len() - 1);
        packets.insert(twice + 1, packets[twice].clone());
        let mut decoder = Decoder::new(encoder.description.clone(), limits(), &SOURCES[..1]).expect("valid");
        prop_assert_eq!(decode(&mut decoder, &packets), wanted);
        let books = decoder.books(SOURCES[0]);
        prop_assert_eq!(books.packets_lost, lost.len() as u64);
        prop_assert_eq!(books.packets_repeated, 1);
        let named = decoder.last_error(SOURCES[0]);
        prop_assert_eq!(named.is_some_and(|text| text.contains(" lost after event ")), !lost.is_empty());
    }

    #[test]
    fn a_counter_of_any_width_is_unrolled(
        bits in 2_u32..=64, steps in prop::collection::vec(any::<i64>(), 1..50), start in 0_u64..=u64::MAX >> 2,
    ) {
        let mask = u64::MAX >> (64 - bits);
        let most = (1_i128 << (bits - 1)) - 1;
        let mut counter = Rollover::new(bits);
        let mut number = start & mask;
        prop_assert_eq!(counter.unroll(number), Some(number));
        for step in steps {
            let step = i128::from(step).rem_euclid(2 * most) - most;
            let Ok(next) = u64::try_from(i128::from(number) + step) else { continue };
            prop_assert_eq!(counter.unroll(next & mask), Some(next));
            number = next;
        }
    }

    #[test]
    fn garbage_is_counted_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_described(&bytes);
    }

    /// Packets of a valid description with some bytes changed, or cut short.
    #[test]
    fn damaged_packets_are_in_one_account_each(
        seed in any::<u64>(), damage in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..20),
    ) {
        let mut random = Random(seed);
        let encoder = Encoder::any(&mut random);
        let (mut packets, _) = encoder.packets(&mut random, &SOURCES, 60);
        let number = packets.len();
        for (index, place, value) in damage {
            let packet = &mut packets[usize::from(index) % number];
            if packet.is_empty() {
                continue;
            }
            let place = usize::from(place) % packet.len();
            if value % 3 == 0 {
                packet.truncate(place);
            } else {
                packet[place] = value;
            }
        }
        let mut decoder = Decoder::new(encoder.description.clone(), limits(), &SOURCES).expect("it is valid");
        decode(&mut decoder, &packets);
        let sum: u64 = SOURCES.iter().map(|source| {
            let books = decoder.books(*source);
            let damaged: u64 = books.packets_damaged.iter().sum();
            books.packets + books.packets_keep_alive + books.packets_repeated + damaged
        }).sum();
        prop_assert_eq!(sum, number as u64);
    }
}

fn u16_at(offset: usize) -> Field {
    Field::new(offset, Width::of_bits(16).expect("16 is a width"), ByteOrder::Big)
}

fn simple() -> Description {
    Description::of_event(u16_at(0))
}

fn decoder(description: &Description) -> Decoder {
    Decoder::new(description.clone(), limits(), &SOURCES[..1]).expect("it is valid")
}

#[test]
fn an_event_number_and_its_payload_are_the_simplest_packet() {
    let packets = [vec![0, 7, 1, 2, 3], vec![0, 8], vec![0]];
    let mut decoder = decoder(&simple());
    assert_eq!(decode(&mut decoder, &packets), [(7, 2, 0, vec![1, 2, 3]), (8, 2, 0, vec![])]);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.packets, books.packets_damaged), (2, [0, 1, 0, 0]));
    let text = decoder.last_error(SOURCES[0]).expect("a packet is too short");
    assert!(text.contains("1 bytes are fewer than the 2"), "{text}");
}

#[test]
fn times_are_converted_from_ticks_to_the_unit_exactly() {
    let description = Description { header_bytes: 4, time: Some(u16_at(2)), ..simple() };
    let tick = "25/16 ns".parse().unwrap();
    let unit = TimeUnit::from_fraction(1, 10).unwrap();
    let mut decoder = Decoder::new(description, Limits { tick, unit, ..limits() }, &SOURCES[..1]).unwrap();
    let packets = [vec![0, 1, 0, 1], vec![0, 2, 0, 3], vec![0, 3, 0, 16]];
    let times: Vec<u64> = decode(&mut decoder, &packets).iter().map(|fragment| fragment.2).collect();
    // 1.5625 ns, 4.6875 ns and 25 ns, in units of 0.1 ns, rounded down.
    assert_eq!(times, [15, 46, 250]);
}

#[test]
fn a_reset_begins_an_epoch_whose_events_follow_all_before() {
    let description = Description {
        reset: vec![Mark { offset: 0, bytes: vec![0xff, 0xff, 0xff] }],
        keep_alive_below: 2,
        ..simple()
    };
    let mut decoder = decoder(&description);
    let packets = [vec![0x9c, 0x40], vec![0], vec![0xff; 3], vec![0, 0], vec![0xff; 3], vec![0, 1]];
    let events: Vec<u64> = decode(&mut decoder, &packets).iter().map(|fragment| fragment.0).collect();
    assert_eq!(events, [40_000, 1 << 48, (2 << 48) + 1]);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.packets_keep_alive, books.packets_reset, books.packets), (1, 2, 3));
}

#[test]
fn a_packet_waits_for_an_earlier_one_as_long_as_the_limit_says() {
    let number = Field { origin: Origin::Packet, ..u16_at(2) };
    let description = Description { header_bytes: 4, packet_number: Some(number), ..simple() };
    let mut decoder = decoder(&description);
    let mut events = Vec::new();
    let mut take = |one: Described<'_>| events.push(one.event);
    let millis = |millis| Timestamp(0) + Nanos::from_millis(millis);
    decoder.handle_packet(millis(0), &[0, 1, 0, 1], &mut take);
    decoder.handle_packet(millis(1), &[0, 3, 0, 3], &mut take);
    decoder.handle_timeout(millis(10), &mut take);
    assert_eq!(decoder.books(SOURCES[0]).packets, 1, "10 ms have not passed since it came");
    decoder.handle_timeout(millis(11), &mut take);
    assert_eq!(decoder.books(SOURCES[0]).packets_lost, 1);
    assert_eq!(decoder.last_error(SOURCES[0]).as_deref(), Some("1 packet lost after event 1"));
    decoder.handle_packet(millis(12), &[0, 2, 0, 2], &mut take);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.packets_lost, books.packets_late, books.packets), (0, 1, 3));
    assert_eq!(events, [EventId(1), EventId(3), EventId(2)]);
}

#[test]
fn packets_that_the_first_has_overtaken_are_read() {
    let number = Field { origin: Origin::Packet, ..u16_at(2) };
    let description = Description { header_bytes: 4, packet_number: Some(number), ..simple() };
    let packets: Vec<Vec<u8>> = [5, 3, 4, 6, 4].map(|number| vec![0, number, 0, number]).to_vec();
    let mut decoder = decoder(&description);
    let events: Vec<u64> = decode(&mut decoder, &packets).iter().map(|fragment| fragment.0).collect();
    assert_eq!(events, [5, 3, 4, 6]);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.packets_late, books.packets_lost, books.packets_repeated), (2, 0, 1));
}

#[test]
fn a_board_that_starts_again_is_not_taken_for_repeated_packets() {
    let number = Field { origin: Origin::Packet, ..u16_at(2) };
    let description = Description { header_bytes: 4, packet_number: Some(number), ..simple() };
    let packet = |event: u16, number: u16| [event.to_be_bytes(), number.to_be_bytes()].concat();
    let mut packets: Vec<Vec<u8>> = (0..1000).map(|number| packet(number, number)).collect();
    packets.extend((0..100).map(|number| packet(1000 + number, number)));
    let mut decoder = decoder(&description);
    let found = decode(&mut decoder, &packets);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.packets_repeated, books.packet_number_jumps), (16, 1), "the limit is 16 packets");
    assert_eq!(found.len(), 1100 - 16);
}

#[test]
fn an_incomplete_fragment_makes_way_for_later_ones_and_is_named() {
    let description =
        Description { header_bytes: 6, part: Some(u16_at(2)), last: Some(u16_at(4)), ..simple() };
    let packet = |event: u8, part: u8, last: u8| vec![0, event, 0, part, 0, last, event];
    let mut decoder = decoder(&description);
    // Of each event, the last of three parts and the first; event 20 is whole.
    let mut packets: Vec<Vec<u8>> =
        (0..20).flat_map(|event| [packet(event, 2, 1), packet(event, 0, 0)]).collect();
    packets.extend([packet(20, 1, 1), packet(20, 0, 0), packet(19, 0, 0)]);
    assert_eq!(decode(&mut decoder, &packets), [(20, 2, 0, vec![20, 20])]);
    let books = decoder.books(SOURCES[0]);
    assert_eq!((books.fragments_incomplete, books.parts_repeated), (20, 1));
    assert_eq!(
        decoder.last_error(SOURCES[0]).as_deref(),
        Some("event 4: not all parts of the fragment came")
    );
}

#[test]
fn a_description_that_cannot_work_is_refused() {
    let refused = |description: Description| {
        Decoder::new(description, limits(), &SOURCES).expect_err("it cannot work").to_string()
    };
    let several = refused(Description { several: true, ..simple() });
    assert!(several.contains("needs a length"), "{several}");
    let no_bits = refused(Description { time: Some(Field { shift: 16, ..u16_at(0) }), ..simple() });
    assert!(no_bits.contains("the field time has no bits"), "{no_bits}");
    let apart = refused(Description::of_event(Field { mask: 0xf0f, ..u16_at(0) }));
    assert!(apart.contains("the bits of the counter event are not adjacent"), "{apart}");
}
