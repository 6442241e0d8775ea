//! Writes packets of any layout. It shares nothing with the decoder but the description that it is to follow.

use super::{Counted, Description, Fragment};
use crate::described::{ByteOrder, Field, Length, Mark, Origin, PacketEnding, PacketLength, Width};
use sheaf_wire::SourceId;

/// Numbers that are a function of a seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A layout of packets.
pub(super) struct Encoder {
    pub(super) description: Description,
    /// Length of the packet: where it is, and whether it counts the header.
    pub(super) packet_length: Option<(Field, bool)>,
}

/// Places a field of at least `bits` behind those before it.
fn place(random: &mut Random, origin: Origin, at: &mut usize, bits: u32) -> Field {
    let widths = [8, 16, 24, 32, 48, 64].into_iter().filter(|width| *width >= bits);
    let widths: Vec<u32> = widths.collect();
    let width = widths[random.below(widths.len() as u64) as usize];
    let offset = *at + random.below(3) as usize;
    *at = offset + width as usize / 8;
    let used = bits + random.below(u64::from(width - bits) + 1) as u32;
    let shift = random.below(u64::from(width - used) + 1) as u32;
    Field {
        origin,
        offset,
        width: Width::of_bits(width).expect("a width"),
        order: if random.coin() { ByteOrder::Big } else { ByteOrder::Little },
        mask: (u64::MAX >> (64 - used)) << shift,
        shift,
    }
}

/// Writes a number to a field, and noise around it.
fn put(random: &mut Random, bytes: &mut [u8], field: &Field, number: u64) {
    let width = field.width.bytes();
    let word = (number << field.shift & field.mask) | (random.next() & !field.mask);
    let target = &mut bytes[field.offset..field.offset + width];
    match field.order {
        ByteOrder::Big => target.copy_from_slice(&word.to_be_bytes()[8 - width..]),
        ByteOrder::Little => target.copy_from_slice(&word.to_le_bytes()[..width]),
    }
}

impl Encoder {
    /// A layout of any kind.
    pub(super) fn any(random: &mut Random) -> Self {
        let (mut in_packet, mut in_fragment) = (0, 0);
        let mut magic = Vec::new();
        if random.coin() {
            magic.push(Mark { offset: 0, bytes: vec![0xda, 0xc0] });
            in_packet = 2;
        }
        let packet_number = random.coin().then(|| place(random, Origin::Packet, &mut in_packet, 8));
        // In packets of one fragment the source may be in the packet's header.
        let several = random.coin();
        let source = if several || random.coin() {
            place(random, Origin::Fragment, &mut in_fragment, 8)
        } else {
            place(random, Origin::Packet, &mut in_packet, 8)
        };
        let event = place(random, Origin::Fragment, &mut in_fragment, 8);
        let time = random.coin().then(|| place(random, Origin::Fragment, &mut in_fragment, 16));
        let length = (several || random.coin()).then(|| Length {
            field: place(random, Origin::Fragment, &mut in_fragment, 16),
            unit_bytes: 1,
            counted: [Counted::Payload, Counted::HeaderAndPayload, Counted::All][random.below(3) as usize],
        });
        let has_parts = random.coin();
        let part = has_parts.then(|| place(random, Origin::Fragment, &mut in_fragment, 8));
        let last = has_parts.then(|| place(random, Origin::Fragment, &mut in_fragment, 1));
        let description = Description {
            magic,
            keep_alive: Vec::new(),
            keep_alive_below: 0,
            reset: Vec::new(),
            packet_header_bytes: in_packet + random.below(4) as usize,
            header_bytes: in_fragment + random.below(4) as usize,
            keep_header: random.coin(),
            trailer_bytes: random.below(6) as usize,
            event,
            source: Some(source),
            time,
            length,
            packet_number,
            part,
            last,
            several,
        };
        Self { description, packet_length: None }
    }

    /// One fragment in a packet, with a number.
    pub(super) fn make_simple(&mut self) {
        let description = &mut self.description;
        (description.several, description.part, description.last) = (false, None, None);
        let mut end = description.packet_header_bytes;
        description.packet_number = Some(place(&mut Random(1), Origin::Packet, &mut end, 16));
        description.packet_header_bytes = end;
    }

    /// Packets that can be told apart in a stream: by a length, and marks at their beginning.
    pub(super) fn make_stream(&mut self, random: &mut Random) {
        let description = &mut self.description;
        let mut end = description.packet_header_bytes.max(2);
        if description.several || description.length.is_none() || random.coin() {
            self.packet_length = Some((place(random, Origin::Packet, &mut end, 16), random.coin()));
        }
        if description.magic.is_empty() {
            // Behind everything else.
            description.magic.push(Mark { offset: end, bytes: vec![0xda, 0xc0] });
            end += 2;
        }
        description.packet_header_bytes = end;
    }

    /// The boundaries of its packets.
    pub(super) fn ending(&self) -> PacketEnding {
        let length = |(field, counts_header)| PacketLength { field, unit_bytes: 1, counts_header };
        PacketEnding { packet_length: self.packet_length.map(length), marked_bytes: None, max_packet: 8192 }
    }

    /// Packets of `events` fragments of each source, and the fragments.
    pub(super) fn packets(
        &self,
        random: &mut Random,
        sources: &[SourceId],
        events: u64,
    ) -> (Vec<Vec<u8>>, Vec<Fragment>) {
        let (packets, _, fragments) = self.packets_with_first(random, sources, events);
        (packets, fragments)
    }

    /// As [`Encoder::packets`], with the indices of the first packets of all sources.
    pub(super) fn packets_with_first(
        &self,
        random: &mut Random,
        sources: &[SourceId],
        events: u64,
    ) -> (Vec<Vec<u8>>, Vec<usize>, Vec<Fragment>) {
        let (mut packets, mut fragments) = (Vec::new(), Vec::new());
        let mut first: Vec<Option<usize>> = sources.iter().map(|_| None).collect();
        // Counters of 8 bits begin again within the 60 events, with steps of up to 20.
        let mut next: Vec<(u64, u64)> =
            sources.iter().map(|_| (random.below(200), random.below(200))).collect();
        let mut waiting: Vec<Vec<Vec<u8>>> = sources.iter().map(|_| Vec::new()).collect();
        for round in 0..events {
            for (index, source) in sources.iter().enumerate() {
                next[index].0 += 1 + random.below(20);
                let event = next[index].0;
                let (pieces, fragment) = self.fragment(random, *source, event, round);
                fragments.push(fragment);
                waiting[index].extend(pieces);
                let full = 1 + random.below(5) as usize;
                if !self.description.several || waiting[index].len() >= full || round + 1 == events {
                    for pieces in self.divide(std::mem::take(&mut waiting[index])) {
                        first[index].get_or_insert(packets.len());
                        packets.push(self.packet(random, *source, next[index].1, &pieces));
                        next[index].1 += 1;
                    }
                }
            }
        }
        (packets, first.into_iter().flatten().collect(), fragments)
    }

    fn divide(&self, pieces: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if self.description.several { vec![pieces.concat()] } else { pieces }
    }

    fn packet(&self, random: &mut Random, source: SourceId, number: u64, pieces: &[u8]) -> Vec<u8> {
        let description = &self.description;
        let mut header = vec![0; description.packet_header_bytes];
        for mark in &description.magic {
            header[mark.offset..mark.offset + mark.bytes.len()].copy_from_slice(&mark.bytes);
        }
        if let Some(field) = &description.packet_number {
            put(random, &mut header, field, number);
        }
        if let Some(field) = description.source.filter(|field| field.origin == Origin::Packet) {
            put(random, &mut header, &field, u64::from(source.0));
        }
        if let Some((field, counts_header)) = &self.packet_length {
            let counted = pieces.len() + if *counts_header { header.len() } else { 0 };
            put(random, &mut header, field, counted as u64);
        }
        [&header, pieces].concat()
    }

    /// The pieces of a fragment in any order, and the fragment.
    fn fragment(
        &self,
        random: &mut Random,
        source: SourceId,
        event: u64,
        round: u64,
    ) -> (Vec<Vec<u8>>, Fragment) {
        let description = &self.description;
        let parts = if description.part.is_some() { 1 + random.below(4) } else { 1 };
        // Ticks of 25 ns.
        let ticks = 100 * round;
        let time = if description.time.is_some() { ticks * 25 } else { 0 };
        let mut payload = Vec::new();
        let mut pieces = Vec::new();
        for part in 0..parts {
            let body: Vec<u8> = (0..random.below(100)).map(|_| random.next() as u8).collect();
            let mut header: Vec<u8> = (0..description.header_bytes).map(|_| random.next() as u8).collect();
            let around = header.len() + description.trailer_bytes;
            let mut write = |field: Option<&Field>, number: u64| {
                if let Some(field) = field.filter(|field| field.origin == Origin::Fragment) {
                    put(random, &mut header, field, number);
                }
            };
            write(description.source.as_ref(), u64::from(source.0));
            write(Some(&description.event), event);
            write(description.time.as_ref(), ticks);
            write(description.part.as_ref(), part);
            write(description.last.as_ref(), u64::from(part + 1 == parts));
            if let Some(length) = &description.length {
                let counted = match length.counted {
                    Counted::Payload => body.len(),
                    Counted::HeaderAndPayload => body.len() + description.header_bytes,
                    Counted::All => body.len() + around,
                };
                write(Some(&length.field), counted as u64);
            }
            if description.keep_header && part == 0 {
                payload.extend_from_slice(&header);
            }
            payload.extend_from_slice(&body);
            pieces.push([header, body, vec![0xee; description.trailer_bytes]].concat());
        }
        if random.coin() {
            pieces.reverse();
        }
        (pieces, (event, source.0, time, payload))
    }
}
