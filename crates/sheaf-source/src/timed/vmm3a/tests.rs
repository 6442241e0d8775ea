use super::*;
use proptest::prelude::*;
use sheaf_wire::{EventId, Timestamp};

fn packet(card: u8, number: u32, records: &[(u32, u16)]) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.extend([b'V', b'M', b'3', card << 4]);
    packet.extend([0; 8]);
    for (upper, lower) in records {
        packet.extend(upper.to_be_bytes());
        packet.extend(lower.to_be_bytes());
    }
    packet
}

fn readings(decoder: &mut Vmm3a, packet: &[u8]) -> Vec<Reading> {
    let mut readings = Vec::new();
    let packet = Packet { source: SourceId(0), event: EventId(0), time: Timestamp::ZERO, bytes: packet };
    decoder.read(&packet, &mut |reading| readings.push(reading)).unwrap();
    readings
}

fn marker(chip: u16, time: u64) -> (u32, u16) {
    ((time >> 10) as u32, chip << 10 | (time & 0x3ff) as u16)
}

fn hit(offset: u32, chip: u32, adc: u32, bcid: u32, channel: u16, tdc: u16) -> (u32, u16) {
    (offset << 27 | chip << 22 | adc << 12 | (bcid ^ bcid >> 1), 0x8000 | channel << 8 | tdc)
}

#[test]
fn a_hit_counts_from_the_latest_marker_of_its_own_chip() {
    let mut decoder = Vmm3a::new();
    let records = [
        hit(0, 3, 1, 1, 1, 1),
        marker(3, 5_000_000),
        marker(4, 9_000_000),
        hit(0, 3, 1023, 7, 63, 255),
        hit(2, 3, 0, 4095, 0, 0),
        hit(31, 3, 0, 10, 0, 0),
    ];
    let packet = packet(2, 77, &records);
    assert_eq!(decoder.head(&packet), Ok(PacketHead { card: SourceId(2), number: 77 }));
    let hit = |time, channel, value, extra| Reading::Hit { time, channel, value, extra };
    assert_eq!(
        readings(&mut decoder, &packet),
        [
            Reading::Untimed,
            Reading::Marker { time: 5_000_000 },
            Reading::Marker { time: 9_000_000 },
            hit(5_000_007, 3 * 64 + 63, 1023, 255),
            hit(5_000_000 + 2 * 4096 + 4095, 3 * 64, 0, 0),
            hit(5_000_000 - 4096 + 10, 3 * 64, 0, 0),
        ]
    );
}

#[test]
fn markers_are_kept_from_packet_to_packet() {
    let mut decoder = Vmm3a::new();
    readings(&mut decoder, &packet(1, 1, &[marker(0, 1 << 41)]));
    let next = readings(&mut decoder, &packet(1, 2, &[hit(0, 0, 5, 6, 7, 8)]));
    assert_eq!(next, [Reading::Hit { time: (1 << 41) + 6, channel: 7, value: 5, extra: 8 }]);
}

#[test]
fn what_is_no_packet_is_refused_and_a_torn_record_is_told() {
    let decoder = Vmm3a::new();
    assert_eq!(decoder.head(&[0; 15]), Err(PacketError::TooShort { bytes: 15, needed: 16 }));
    assert_eq!(decoder.head(&[0; 16]), Err(PacketError::Foreign));
    let mut torn = packet(1, 1, &[marker(0, 5)]);
    torn.extend([1, 2, 3]);
    let got = readings(&mut Vmm3a::new(), &torn);
    assert_eq!(got, [Reading::Marker { time: 5 }, Reading::Remainder]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Vmm3a::new();
        let _ = decoder.head(&bytes);
        for reading in readings(&mut decoder, &bytes) {
            if let Reading::Hit { time, .. } = reading {
                prop_assert!(time < 1 << TIME_BITS);
            }
        }
    }

    #[test]
    fn gray_code_is_undone(binary in 0..4096_u32) {
        prop_assert_eq!(gray_to_binary(binary ^ binary >> 1), binary);
    }
}
