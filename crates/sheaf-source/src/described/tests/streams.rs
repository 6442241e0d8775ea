//! Packets in streams of bytes.

use super::encoder::{Encoder, Random};
use super::{SOURCES, decode, limits, u16_at};
use crate::described::deframer::{Deframer, FrameCounts, PacketEnding, PacketLength};
use crate::described::{Decoder, Description, Field, Mark, Origin};
use proptest::prelude::*;

/// Divides a stream that comes in pieces of `lengths`, again and again.
fn divide(
    ending: PacketEnding,
    description: &Description,
    stream: &[u8],
    lengths: &[usize],
) -> (Vec<Vec<u8>>, FrameCounts) {
    let (mut packets, mut rest) = (Vec::new(), stream);
    let mut lengths = lengths.iter().cycle();
    let read = |room: &mut [u8]| {
        let bytes = lengths.next().copied().unwrap_or(usize::MAX).min(rest.len()).min(room.len());
        room[..bytes].copy_from_slice(&rest[..bytes]);
        rest = &rest[bytes..];
        Ok(bytes)
    };
    let take = |packet: &[u8]| packets.push(packet.to_vec());
    let counts =
        Deframer::new(ending, description).divide(description, read, take).expect("memory can be read");
    // What follows a lost packet is not read.
    let bytes_skipped = counts.bytes_skipped + rest.len() as u64;
    (packets, FrameCounts { bytes_skipped, ..counts })
}

/// Bytes that do not begin a packet of [`Encoder::make_stream`].
fn noise(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(300)).map(|_| (random.next() % 0xc0) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any layout, cut in any way into reads: the packets are those that were sent, and so are the fragments.
    #[test]
    fn every_fragment_of_a_stream_comes_out_however_it_is_cut(
        seed in any::<u64>(), lengths in prop::collection::vec(1..700_usize, 1..20),
    ) {
        let mut random = Random(seed);
        let mut encoder = Encoder::any(&mut random);
        encoder.make_stream(&mut random);
        let (packets, mut wanted) = encoder.packets(&mut random, &SOURCES, 60);
        let (found, counts) = divide(encoder.ending(), &encoder.description, &packets.concat(), &lengths);
        prop_assert!(found == packets);
        prop_assert_eq!(counts, FrameCounts::default());
        let mut decoder = Decoder::new(encoder.description.clone(), limits(), &SOURCES).expect("it is valid");
        let mut found = decode(&mut decoder, &found);
        found.sort();
        wanted.sort();
        prop_assert!(found == wanted);
    }

    /// Between two packets there may be bytes that belong to none. No packet is lost for it, and the bytes are counted.
    #[test]
    fn a_stream_with_other_bytes_between_packets_is_found_again(
        seed in any::<u64>(), lengths in prop::collection::vec(1..700_usize, 1..20),
    ) {
        let mut random = Random(seed);
        let mut encoder = Encoder::any(&mut random);
        encoder.make_stream(&mut random);
        let (packets, _) = encoder.packets(&mut random, &SOURCES, 60);
        let (mut stream, mut skipped, mut times, mut last) = (Vec::new(), 0, 0, 0);
        for (index, packet) in packets.iter().enumerate() {
            // A packet that is found again is confirmed by the next.
            if index - last >= 2 && random.below(4) == 0 {
                last = index;
                times += 1;
                let noise = noise(&mut random);
                skipped += noise.len() as u64;
                stream.extend(noise);
            }
            stream.extend_from_slice(packet);
        }
        let (found, counts) = divide(encoder.ending(), &encoder.description, &stream, &lengths);
        prop_assert!(found == packets);
        let wanted = FrameCounts { resynchronisations: times, bytes_skipped: skipped, packets_cut: 0 };
        prop_assert_eq!(counts, wanted);
    }

    /// Streams with changed, missing and additional bytes: each byte is in a packet or counted, and the cuts do not matter.
    #[test]
    fn a_damaged_stream_is_divided_alike_however_it_is_cut(
        seed in any::<u64>(), lengths in prop::collection::vec(1..700_usize, 1..20),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..20),
    ) {
        let mut random = Random(seed);
        let mut encoder = Encoder::any(&mut random);
        encoder.make_stream(&mut random);
        if random.below(4) == 0 {
            encoder.description.magic.clear();
        }
        let (packets, _) = encoder.packets(&mut random, &SOURCES, 60);
        let mut stream = packets.concat();
        for (place, value, how) in damage {
            let place = place.index(stream.len());
            match how {
                0 => stream[place] = value,
                1 => stream.insert(place, value),
                _ => stream.truncate(stream.len().max(place + 1)),
            }
        }
        let whole = divide(encoder.ending(), &encoder.description, &stream, &[usize::MAX]);
        let cut = divide(encoder.ending(), &encoder.description, &stream, &lengths);
        prop_assert!(whole == cut);
        let bytes: usize = whole.0.iter().map(Vec::len).sum();
        prop_assert_eq!(bytes as u64 + whole.1.bytes_skipped, stream.len() as u64);
    }
}

/// Magic, length of the packet, event.
fn marked() -> (Description, PacketEnding) {
    let description = Description {
        magic: vec![Mark { offset: 0, bytes: vec![0xbe, 0xef] }],
        keep_alive: vec![Mark { offset: 0, bytes: b"ping".to_vec() }],
        packet_header_bytes: 4,
        ..Description::of_event(u16_at(0))
    };
    let field = Field { origin: Origin::Packet, ..u16_at(2) };
    let length = PacketLength { field, unit_bytes: 1, counts_header: true };
    (description, PacketEnding { packet_length: Some(length), marked_bytes: Some(4), max_packet: 64 })
}

#[test]
fn keep_alives_without_a_length_are_between_packets() {
    let (description, ending) = marked();
    let stream =
        [&b"ping"[..], &[0xbe, 0xef, 0, 7, 0, 1, 9], b"pingping", &[0xbe, 0xef, 0, 6, 0, 2]].concat();
    let (packets, counts) = divide(ending, &description, &stream, &[1]);
    let lengths: Vec<usize> = packets.iter().map(Vec::len).collect();
    assert_eq!(lengths, [4, 7, 4, 4, 6]);
    assert_eq!(counts, FrameCounts::default());
}

#[test]
fn a_length_beyond_the_limit_costs_only_its_own_packet() {
    let (description, ending) = marked();
    let packet = |event: u8| vec![0xbe, 0xef, 0, 6, 0, event];
    let too_long = vec![0xbe, 0xef, 1, 0, 0, 2];
    let stream = [packet(1), too_long, packet(3), packet(4), packet(5)[..5].to_vec()].concat();
    let (packets, counts) = divide(ending, &description, &stream, &[usize::MAX]);
    assert_eq!(packets, [packet(1), packet(3), packet(4)]);
    assert_eq!(counts, FrameCounts { resynchronisations: 1, bytes_skipped: 11, packets_cut: 1 });
}

#[test]
fn a_stream_without_marks_is_lost_at_an_impossible_length() {
    let (description, ending) = marked();
    let description = Description { magic: Vec::new(), ..description };
    let stream = [[1, 2, 0, 6, 0, 1], [1, 2, 0, 0, 0, 2], [1, 2, 0, 6, 0, 3]].concat();
    let (packets, counts) = divide(ending, &description, &stream, &[usize::MAX]);
    assert_eq!(packets, [[1, 2, 0, 6, 0, 1]]);
    assert_eq!(counts, FrameCounts { resynchronisations: 1, bytes_skipped: 12, packets_cut: 0 });
}

#[test]
fn streams_need_a_length_of_the_packet() {
    let (description, ending) = marked();
    assert!(ending.check(&description).is_ok());
    let without = PacketEnding { packet_length: None, ..ending };
    let error = without.check(&description).expect_err("nothing has a length").to_string();
    assert!(error.contains("need a length"), "{error}");
    let error =
        PacketEnding { marked_bytes: Some(3), ..ending }.check(&description).expect_err("cut").to_string();
    assert!(error.contains("ends after 4 bytes"), "{error}");
}
