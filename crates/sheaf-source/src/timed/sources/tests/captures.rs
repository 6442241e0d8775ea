//! Captures of any length: what their sources deliver is compared with a plain sort and cut.

use super::*;
use crate::timed::testing::{pcap, udp};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The hits of one card, by slice.
type BySlice = BTreeMap<u64, Vec<u64>>;

/// As [`config`], with room in a slice for all hits of a test, and without a limit of empty slices.
fn roomy(card: SourceId) -> FeedConfig {
    let config = config(card.0);
    FeedConfig { slices: SliceConfig { max_items: 200, max_empty: u64::MAX, ..config.slices }, ..config }
}

/// A packet: its card, and the time of its only hit.
type Packet = (u8, u64);

fn write_capture(folder: &Path, packets: &[Packet]) -> PathBuf {
    let mut numbers = BTreeMap::new();
    let mut frame = |(card, time): &Packet| {
        let number: &mut u32 = numbers.entry(*card).or_default();
        *number += 1;
        let frame = udp(&packet(*card, *number, *time));
        let bytes = frame.len() as u32;
        (frame, bytes)
    };
    let path = folder.join("capture.pcap");
    std::fs::write(&path, pcap(1, &packets.iter().map(&mut frame).collect::<Vec<_>>())).unwrap();
    path
}

/// Returns all slices that the source of a card delivers. A slice that comes twice is an error.
fn delivered(path: &Path, card: SourceId, extent: &CaptureExtent) -> Result<BySlice, TestCaseError> {
    let pool = Pool::new(4096, 256);
    let mut source =
        CaptureSource::open(path, decoder().unwrap(), &roomy(card), extent.slices, pool).unwrap();
    let mut slices = BySlice::new();
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Ended => break,
            SourcePoll::Fragment(fragment) => {
                let times = sheaf_wire::hit::hits(&fragment.payload).unwrap().map(|hit| hit.time_ps / 1000);
                let earlier = slices.insert(fragment.event.0, times.collect());
                prop_assert_eq!(earlier, None, "slice {} of card {} came twice", fragment.event, card);
            }
            SourcePoll::NotBefore(_) => {}
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
        let books = source.stats().timed.unwrap();
        prop_assert!(books.is_balanced(), "{books:?}");
    }
    let books = source.stats().timed.unwrap();
    let hits = slices.values().map(|hits| hits.len() as u64).sum::<u64>();
    prop_assert_eq!((books.hits, books.hits_in_slices, books.hits_waiting), (hits, hits, 0));
    Ok(slices)
}

/// Returns the slices of a card by a plain cut: one for each from the first to the last that any card has.
fn expected(packets: &[Packet], card: SourceId) -> BySlice {
    let number = |(_, time): &Packet| time / 1000;
    let (first, last) =
        (packets.iter().map(number).min().unwrap(), packets.iter().map(number).max().unwrap());
    let mut slices: BySlice = (first..=last).map(|number| (number, Vec::new())).collect();
    for packet in packets.iter().filter(|packet| u32::from(packet.0) == card.0) {
        slices.get_mut(&number(packet)).unwrap().push(packet.1);
    }
    slices
}

fn check(packets: &[Packet]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_capture(folder.path(), packets);
    let extent = scan_capture(&path, &decoder, &[], &roomy).unwrap();
    for card in &extent.cards {
        prop_assert_eq!(delivered(&path, *card, &extent)?, expected(packets, *card), "card {}", card);
    }
    Ok(())
}

#[test]
fn captures_of_every_number_of_packets_deliver_every_slice() {
    for (packets, step) in (1..=80_u64).flat_map(|packets| [(packets, 0), (packets, 90), (packets, 300)]) {
        check(&(0..packets).map(|number| (1, 5_000 + step * number)).collect::<Vec<_>>()).unwrap();
    }
}

/// Returns the hits that a source delivers, in the order in which it does, and its books.
fn play(path: &Path, tolerance: Picos) -> (Vec<u64>, FeedBooks) {
    let with = |card| FeedConfig { tolerance, ..roomy(card) };
    let extent = scan_capture(path, &decoder, &[], &with).unwrap();
    let pool = Pool::new(4096, 256);
    let mut source =
        CaptureSource::open(path, decoder().unwrap(), &with(SourceId(1)), extent.slices, pool).unwrap();
    let mut times = Vec::new();
    loop {
        match source.poll(Timestamp::ZERO) {
            SourcePoll::Fragment(fragment) => {
                times.extend(sheaf_wire::hit::hits(&fragment.payload).unwrap().map(|hit| hit.time_ps));
            }
            SourcePoll::Ended => return (times, source.stats().timed.unwrap()),
            _ => {}
        }
    }
}

#[test]
fn a_capture_that_ends_within_a_packet_delivers_what_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_capture(folder.path(), &[(1, 5_000), (1, 5_100), (1, 7_300)]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let extent = scan_capture(&path, &decoder, &[], &roomy).unwrap();
    assert_eq!(extent.slices, (5, 5));
    let pool = Pool::new(4096, 256);
    let mut source =
        CaptureSource::open(&path, decoder().unwrap(), &roomy(SourceId(1)), extent.slices, pool).unwrap();
    let SourcePoll::Fragment(fragment) = source.poll(Timestamp::ZERO) else { panic!("no slice") };
    let times: Vec<_> = sheaf_wire::hit::hits(&fragment.payload).unwrap().map(|hit| hit.time_ps).collect();
    assert_eq!(times, [5_000_000, 5_100_000]);
    assert_eq!(source.poll(Timestamp::ZERO), SourcePoll::Ended);
    let stats = source.stats();
    assert_eq!(stats.read_errors, 1);
    assert!(stats.last_error.unwrap().contains("damaged after packet 2"));
}

#[test]
fn a_capture_without_a_whole_packet_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_capture(folder.path(), &[(1, 5_000)]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    let error = scan_capture(&path, &decoder, &[], &roomy).unwrap_err().to_string();
    assert!(error.contains("damaged after packet 0"), "{error}");
}

proptest! {
    #[test]
    fn hits_in_disorder_are_delivered_in_order_or_counted_as_late(
        steps in prop::collection::vec((0..700_u64, 0..3_000_u64), 1..150),
        tolerance in 0..4_000_u64,
    ) {
        let mut time = 10_000;
        let packet = |(step, back)| {
            time += step;
            (1, time - back)
        };
        let packets: Vec<Packet> = steps.iter().copied().map(packet).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = write_capture(folder.path(), &packets);
        let (times, books) = play(&path, Picos::from_nanos(tolerance));
        prop_assert!(times.is_sorted());
        prop_assert!(books.is_balanced(), "{books:?}");
        prop_assert_eq!((books.hits, books.hits_waiting), (packets.len() as u64, 0));
        prop_assert_eq!(times.len() as u64 + books.slices.late, packets.len() as u64);
        let furthest = steps.iter().map(|(_, back)| *back).max().unwrap_or(0);
        if furthest <= tolerance {
            prop_assert_eq!(books.slices.late, 0);
        }
    }

    #[test]
    fn every_hit_of_every_card_is_delivered_once(
        steps in prop::collection::vec((1..4_u8, 0..700_u64), 1..150),
        phase in 5_000..6_000_u64,
    ) {
        let mut time = phase;
        let packet = |(card, step)| {
            time += step;
            (card, time)
        };
        check(&steps.into_iter().map(packet).collect::<Vec<_>>())?;
    }
}
