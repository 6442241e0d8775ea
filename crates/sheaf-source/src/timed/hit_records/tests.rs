use super::*;
use crate::described::field::{ByteOrder, FieldError, Width};
use proptest::prelude::*;
use sheaf_wire::{EventId, Timestamp};

fn big(offset: usize, bits: u32) -> Field {
    Field::new(offset, Width::of_bits(bits).unwrap(), ByteOrder::Big)
}

/// A header of 8 bytes: number, card, `HT`, and one byte that nobody describes. Records of 8 bytes: time, channel, kind and value.
fn layout() -> HitDescription {
    HitDescription {
        magic: vec![Mark { offset: 5, bytes: b"HT".to_vec() }],
        card: CardNumber::In(big(4, 8)),
        packet_number: Some(big(0, 32)),
        header_bytes: 8,
        record_bytes: 8,
        kinds: None,
        time: TimeFields { base: None, coarse: big(0, 32), fine: None },
        channel: Some(big(4, 16)),
        value: Some(Field { mask: 0xfff, ..big(6, 16) }),
        extra: None,
    }
}

fn packet(records: &[[u8; 8]]) -> Vec<u8> {
    [&[0, 0, 1, 2, 7, b'H', b'T', 0xff][..], records.as_flattened()].concat()
}

fn readings(layout: HitDescription, packet: &[u8]) -> Vec<Reading> {
    let mut decoder = HitRecords::new(Arc::new(layout)).unwrap();
    let mut readings = Vec::new();
    let packet = Packet { source: SourceId(0), event: EventId(0), time: Timestamp::ZERO, bytes: packet };
    decoder.read(&packet, &mut |reading| readings.push(reading)).unwrap();
    readings
}

#[test]
fn a_packet_is_read_as_it_is_described() {
    let decoder = HitRecords::new(Arc::new(layout())).unwrap();
    let mut packet = packet(&[[0, 0, 0, 5, 1, 0, 0xf1, 0x23], [0xff, 0, 0, 0, 0, 2, 0, 9]]);
    assert_eq!(decoder.head(&packet), Ok(PacketHead { card: SourceId(7), number: 0x102 }));
    assert_eq!(decoder.counter_bits(), CounterBits { time: 32, packet: 32 });
    packet.extend([1, 2, 3]);
    let hits = [
        Reading::Hit { time: 5, channel: 256, value: 0x123, extra: 0 },
        Reading::Hit { time: 0xff00_0000, channel: 2, value: 9, extra: 0 },
        Reading::Remainder,
    ];
    assert_eq!(readings(layout(), &packet), hits);
}

#[test]
fn packets_of_others_are_refused() {
    let decoder = HitRecords::new(Arc::new(layout())).unwrap();
    let short = PacketError::TooShort { bytes: 7, needed: 8 };
    assert_eq!(decoder.head(&packet(&[])[..7]), Err(short));
    let mut other = packet(&[]);
    other[5] = b'X';
    assert_eq!(decoder.head(&other), Err(PacketError::Foreign));
    let always = HitDescription { card: CardNumber::Always(SourceId(3)), packet_number: None, ..layout() };
    let decoder = HitRecords::new(Arc::new(always)).unwrap();
    assert_eq!(decoder.head(&packet(&[])).unwrap().card, SourceId(3));
    assert_eq!(decoder.counter_bits().packet, 0);
}

#[test]
fn kinds_tell_hits_from_markers_and_from_all_else() {
    let field = Field { mask: 0xf000, shift: 12, ..big(6, 16) };
    let records = [[0, 0, 0, 1, 0, 0, 0x10, 0], [0, 0, 0, 2, 0, 0, 0x20, 0], [0, 0, 0, 3, 0, 0, 0x30, 4]];
    let with = |hits: &[u64]| HitDescription {
        kinds: Some(RecordKinds {
            field,
            hits: hits.to_vec(),
            markers: vec![2],
            pulses: Vec::new(),
            resets: Vec::new(),
        }),
        ..layout()
    };
    let hit = |time, value| Reading::Hit { time, channel: 0, value, extra: 0 };
    let marker = Reading::Marker { time: 2 };
    assert_eq!(readings(with(&[]), &packet(&records)), [hit(1, 0), marker, hit(3, 4)]);
    assert_eq!(readings(with(&[3]), &packet(&records)), [Reading::Other, marker, hit(3, 4)]);
}

#[test]
fn a_time_has_a_fine_part_and_a_base() {
    let fine = Some(Field { mask: 0xf, ..big(7, 8) });
    let time = TimeFields { base: None, coarse: big(0, 32), fine };
    let record = [0, 0, 0, 2, 0, 0, 0, 0xf5];
    let read = |time: TimeFields| match readings(
        HitDescription { time, value: None, ..layout() },
        &packet(&[record]),
    )[..]
    {
        [Reading::Hit { time, .. }] => time,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(read(time), 2 << 4 | 5);
    assert_eq!(time.bits(), 36);
    // The base is the packet number, 0x102, which has 32 bits, or its lowest 8: the sum begins anew with it.
    assert_eq!(read(TimeFields { base: Some(big(0, 32)), ..time }), 0x102 + (2 << 4 | 5));
    let far = TimeFields { base: Some(big(3, 8)), coarse: big(0, 32), fine: None };
    let packet = [&packet(&[])[..], &[0, 0, 0, 0xff, 0, 0, 0, 0]].concat();
    let hit = Reading::Hit { time: 1, channel: 0, value: 0, extra: 0 };
    assert_eq!(readings(HitDescription { time: far, ..layout() }, &packet), [hit], "2 + 255 in 8 bits");
}

#[test]
fn a_layout_that_cannot_be_read_is_refused() {
    let refused = |change: &dyn Fn(&mut HitDescription)| {
        let mut layout = layout();
        change(&mut layout);
        HitRecords::new(Arc::new(layout)).map(|_| ()).unwrap_err()
    };
    let beyond = HitDescriptionError::Beyond { field: "time", end: 9, place: "a record", bytes: 8 };
    assert_eq!(refused(&|layout| layout.time.coarse = big(5, 32)), beyond);
    let beyond = HitDescriptionError::Beyond { field: "card", end: 10, place: "the header", bytes: 8 };
    assert_eq!(refused(&|layout| layout.card = CardNumber::In(big(8, 16))), beyond);
    let wide = HitDescriptionError::TooWide { field: "value", bits: 32, most: 16 };
    assert_eq!(refused(&|layout| layout.value = Some(big(0, 32))), wide);
    let wide = HitDescriptionError::TooWide { field: "time", bits: 64, most: 56 };
    let time = TimeFields { base: None, coarse: big(0, 64), fine: Some(big(0, 8)) };
    assert_eq!(refused(&|layout| layout.time = time), wide);
    let masked = |mask| Field { mask, ..big(0, 32) };
    assert_eq!(
        refused(&|layout| layout.time.coarse = masked(0)),
        HitDescriptionError::Field(FieldError::NoBits { field: "time" })
    );
    assert_eq!(
        refused(&|layout| layout.time.coarse = masked(0b101)),
        HitDescriptionError::Field(FieldError::BitsApart { field: "time" })
    );
    assert_eq!(refused(&|layout| layout.record_bytes = 0), HitDescriptionError::RecordBytes(0));
    let mark = |layout: &mut HitDescription| layout.magic[0].offset = 7;
    assert_eq!(refused(&mark), HitDescriptionError::MarkBeyond { end: 9, bytes: 8 });
}

proptest! {
    #[test]
    fn every_record_of_any_packet_is_one_reading(packet in prop::collection::vec(any::<u8>(), 0..200), kind in any::<bool>()) {
        let field = big(7, 8);
        let kinds = kind.then(|| RecordKinds { field, hits: vec![1, 2], markers: vec![3], pulses: vec![4, 5], resets: vec![5, 6] });
        let found = readings(HitDescription { kinds, ..layout() }, &packet);
        let records = packet.len().saturating_sub(8);
        prop_assert_eq!(found.len(), records / 8 + usize::from(records % 8 > 0));
    }
}
