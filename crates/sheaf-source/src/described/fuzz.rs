//! The body of the fuzz target for described packets.

use super::description::{Counted, Description, Length};
use super::field::{ByteOrder, Field, Mark, Origin, Width};
use super::{Decoder, Limits};
use sheaf_wire::{Nanos, SourceId, Timestamp};

/// Takes a description and packets from `bytes`, and decodes the packets.
///
/// # Panics
/// If the decoder violates its contract.
pub fn fuzz_described(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut next = || bytes.next().unwrap_or_default();
    let description = description(&mut next);
    let limits = Limits {
        waiting_packets: usize::from(next() % 8),
        wait: Nanos(u64::from(next())),
        open_fragments: usize::from(next() % 4),
        max_fragment: 4 * usize::from(next()),
        tick_ps: u64::from(next()) << 48,
    };
    let Ok(mut decoder) = Decoder::new(description, limits, &[SourceId(0), SourceId(1)]) else { return };
    let mut take = |found: super::Described<'_>| assert!(found.payload.len() <= limits.max_fragment);
    let packets: Vec<u8> = bytes.collect();
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

fn field(next: &mut dyn FnMut() -> u8) -> Field {
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
