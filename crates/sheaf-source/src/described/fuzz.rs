//! The body of the fuzz target for described packets.

use super::deframer::{Deframer, PacketEnding, PacketLength};
use super::description::{Counted, Description, Length};
use super::field::{ByteOrder, Field, Mark, Origin, Width};
use super::{Decoder, Limits};
use sheaf_wire::{ExactNanos, Nanos, SourceId, TimeUnit, Timestamp};

/// Takes a description and packets from `bytes`, and decodes the packets. Returns the number of fragments.
///
/// # Panics
/// If the decoder violates its contract.
pub fn fuzz_described(bytes: &[u8]) -> u64 {
    let mut bytes = bytes.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let description = description(&mut next);
    let first_limit = next();
    let limits = Limits {
        waiting_packets: usize::from(first_limit % 8),
        wait: Nanos(u64::from(next())),
        open_fragments: usize::from(next() % 4),
        max_fragment: 4 * usize::from(next()),
        tick: ExactNanos::from_picos(i64::from(next()) << 48),
        unit: TimeUnit::NANOSECOND,
    };
    let ending = ending(first_limit, &mut next);
    let Ok(mut decoder) = Decoder::new(description.clone(), limits, &[SourceId(0), SourceId(1)]) else {
        return 0;
    };
    let mut fragments = 0;
    let mut take = |found: super::Described<'_>| {
        assert!(found.payload.len() <= limits.max_fragment);
        fragments += 1;
    };
    let packets: Vec<u8> = bytes.collect();
    if ending.check(&description).is_ok() {
        divide(ending, &description, &packets);
    }
    let (mut rest, mut now) = (&packets[..], 0);
    let mut number = 0_u64;
    while let Some((&length, more)) = rest.split_first() {
        let (packet, after) = more.split_at(more.len().min(usize::from(length)));
        decoder.handle_packet(Timestamp(now), packet, &mut take);
        now += u64::from(length);
        rest = after;
        number += 1;
    }
    decoder.finish(Timestamp(now), &mut take);
    let books = [SourceId(0), SourceId(1)].map(|source| decoder.books(source));
    let sum: u64 = books
        .iter()
        .map(|books| {
            let damaged: u64 = books.packets_damaged.iter().sum();
            books.packets + books.packets_keep_alive + books.packets_reset + books.packets_repeated + damaged
        })
        .sum();
    assert_eq!(sum, number, "each packet is in one account");
    fragments
}

/// Divides a stream into packets: at once, and byte by byte.
fn divide(ending: PacketEnding, description: &Description, stream: &[u8]) {
    let divided = |step: usize| {
        let (mut packets, mut rest) = (Vec::new(), stream);
        let read = |room: &mut [u8]| {
            let bytes = step.min(rest.len()).min(room.len());
            room[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            Ok(bytes)
        };
        let take = |packet: &[u8]| packets.push(packet.to_vec());
        let counts = Deframer::new(ending, description).divide(description, read, take);
        let counts = counts.expect("memory can be read");
        (packets, counts.bytes_skipped + rest.len() as u64)
    };
    let (packets, skipped) = divided(usize::MAX);
    let bytes: usize = packets.iter().map(Vec::len).sum();
    assert_eq!(bytes as u64 + skipped, stream.len() as u64, "each byte is in one account");
    assert!(divided(1) == (packets, skipped), "the cuts of a stream do not matter");
}

/// Returns inputs with packets that fit their descriptions, by name.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    // Description, then limits: packets that wait, their time, open fragments, largest fragment in words, tick.
    let limits = [4, 200, 3, 16, 1];
    let seed = |name: &str, description: &[u8], packets: &[&[u8]]| {
        let packets = packets.iter().flat_map(|packet| {
            let length = u8::try_from(packet.len()).expect("a short packet");
            std::iter::once(length).chain(packet.iter().copied())
        });
        let bytes = description.iter().copied().chain(limits).chain(packets).collect();
        (name.to_owned(), bytes)
    };
    // Fields: of 32, 16 and 8 bits, big endian, in the fragment; and one of 16 bits in the packet.
    let [u32_at, u16_at, u8_at, in_packet] = [0b0110, 0b0010, 0b0000, 0b0011];
    vec![
        seed(
            "event",
            &[0, u32_at, 0, 4, 0, 0, 0],
            &[&[0, 0, 0, 7, 1, 2, 3], &[0, 0, 0, 8], &[0, 0, 0, 9, 4]],
        ),
        seed(
            "little_endian",
            // The header is a part of the payload.
            &[0b1000_0000, 0b1_0010, 1, 4, 0, 0, 0],
            &[&[9, 1, 0, 9, 40], &[9, 2, 0, 9, 41, 42]],
        ),
        seed(
            "wide",
            &[0, 0b1110, 0, 8, 0, 0, 0],
            &[&[0, 0, 0, 0, 0, 0, 1, 0, 50], &[0, 0, 0, 0, 0, 0, 1, 1]],
        ),
        seed(
            "several",
            // Source and length of the payload, several in a packet, a trailer of one byte.
            &[0b0110_0001, u16_at, 0, u8_at, 2, u8_at, 3, 1, 0, 4, 0, 1, 0],
            &[&[0, 1, 0, 2, 10, 11, 99, 0, 1, 1, 1, 12, 99], &[0, 2, 1, 0, 99]],
        ),
        seed(
            "parts",
            // Number of the packet, index of the part, mark of the last part.
            &[0b0001_1100, u16_at, 2, in_packet, 0, u8_at, 4, u8_at, 5, 6, 0, 0, 0],
            &[
                &[0, 1, 0, 5, 0, 0, 20, 21],
                &[0, 3, 0, 6, 0, 1, 24],
                &[0, 2, 0, 5, 1, 1, 22, 23],
                &[0, 4, 0, 7, 0, 1],
            ],
        ),
        seed(
            "marks",
            // A time; a magic byte, a keep-alive and a reset by their first and second byte.
            &[0b0010, u16_at, 2, u16_at, 4, 6, 0, 0, 0b111, 0, 0xa5, 1, 1, 1, 2],
            &[&[0xa5, 0, 255, 255, 0, 1, 30], &[0xa5, 1], &[0xa5, 2], &[0xa5, 0, 0, 0, 0, 9, 31], &[0x5a, 0]],
        ),
        stream_seed(),
    ]
}

/// Returns an input with a stream: a mark of one byte, the length of the packet, and events. As single packets, these are the same
/// bytes, of which the first is a length.
fn stream_seed() -> (String, Vec<u8>) {
    let (u16_at, u8_in_packet) = (0b0010, 0b0001);
    // The magic is the byte 6: that is also the length of each packet for those who read single packets.
    let description = [0, u16_at, 0, 2, 2, 0, 0b001, 0, 6];
    // A packet length of one byte that counts the header, in units of one byte.
    let limits = [0b1_1100, 200, 3, 16, 1, u8_in_packet, 1, 1];
    let packets = [6, 6, 0, 1, 40, 41, 6, 6, 0, 2, 42, 43, 9, 6, 6, 0, 3, 44, 45];
    ("stream".to_owned(), [&description[..], &limits, &packets].concat())
}

/// Returns boundaries of packets; `what` has bits for those that are not of the description.
fn ending(what: u8, next: &mut dyn FnMut() -> u8) -> PacketEnding {
    let packet_length = (what >> 3 & 1 == 1).then(|| PacketLength {
        field: Field { origin: Origin::Packet, ..field(next) },
        unit_bytes: u64::from(next() % 5),
        counts_header: what >> 4 & 1 == 1,
    });
    let marked_bytes = (what >> 5 & 1 == 1).then(|| 1 + usize::from(next() % 16));
    PacketEnding { packet_length, marked_bytes, max_packet: 256 }
}

fn description(next: &mut dyn FnMut() -> u8) -> Description {
    let what = next();
    let mut description = Description::of_event(field(next));
    let maybe = |bit: u32, next: &mut dyn FnMut() -> u8| (what >> bit & 1 == 1).then(|| field(next));
    description.source = maybe(0, next);
    description.time = maybe(1, next);
    description.packet_number = maybe(2, next).map(|field| Field { origin: Origin::Packet, ..field });
    description.part = maybe(3, next);
    description.last = maybe(4, next);
    description.length = maybe(5, next).map(|field| Length {
        field,
        unit_bytes: u64::from(next() % 5),
        counted: [Counted::Payload, Counted::HeaderAndPayload, Counted::All][usize::from(next() % 3)],
    });
    description.several = what >> 6 & 1 == 1;
    description.keep_header = what >> 7 == 1;
    description.header_bytes = usize::from(next() % 32);
    description.packet_header_bytes = usize::from(next() % 16);
    description.trailer_bytes = usize::from(next() % 8);
    let marks = next();
    let mut mark = |bit: u32| match marks >> bit & 1 {
        0 => Vec::new(),
        _ => vec![Mark { offset: usize::from(next() % 8), bytes: vec![next()] }],
    };
    (description.magic, description.keep_alive, description.reset) = (mark(0), mark(1), mark(2));
    description.keep_alive_below = usize::from(marks >> 5);
    description
}

pub(crate) fn field(next: &mut dyn FnMut() -> u8) -> Field {
    let what = next();
    Field {
        origin: if what & 1 == 0 { Origin::Fragment } else { Origin::Packet },
        offset: usize::from(next() % 24),
        width: Width::of_bits(8 * (1 + u32::from(what >> 1 & 7))).expect("a multiple of 8 up to 64"),
        order: if what & 16 == 0 { ByteOrder::Big } else { ByteOrder::Little },
        mask: u64::MAX >> ((what >> 5) * 8),
        shift: u32::from(what >> 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_decoded_to_fragments() {
        for ((name, bytes), fragments) in seeds().into_iter().zip([3, 2, 2, 3, 3, 2, 1]) {
            assert_eq!(fuzz_described(&bytes), fragments, "{name}");
        }
    }
}
