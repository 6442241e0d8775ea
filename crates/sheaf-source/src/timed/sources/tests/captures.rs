//! Captures of any length: what their sources deliver is compared with a plain sort and cut.

use super::*;
use crate::timed::testing::{pcap, udp};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The hits of one card, by slice.
type BySlice = BTreeMap<u64, Vec<u64>>;

/// As [`config`], with room in a slice for all hits of a test.
fn roomy(card: SourceId) -> FeedConfig {
    let config = config(card.0);
    FeedConfig { slices: SliceConfig { max_items: 200, ..config.slices }, ..config }
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
    let mut source = CaptureSource::open(path, decoder(), &roomy(card), extent.slices, pool).unwrap();
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
    }
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

proptest! {
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
