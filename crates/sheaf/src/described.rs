//! Sources whose packets the configuration describes.

use crate::address::resolve;
use crate::blocks::blocks;
use anyhow::Context;
use sheaf_config as conf;
use sheaf_config::{Config, SourceKind};
use sheaf_node::sources::{FragmentMemory, PoolSize};
use sheaf_source::Source;
use sheaf_source::described::{
    ByteOrder, ConnectionSettings, Counted, Description, Field, Length, Limits, Listen, Mark, Origin,
    PacketEnding, PacketLength, PacketPath, Width,
};
use sheaf_wire::{ByteCount, SourceId, TimeUnit};

/// Checks that the packets of a configuration can be decoded.
///
/// # Errors
/// Why they cannot.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    if config.source.kind != SourceKind::Stream {
        return Ok(());
    }
    let description = description(&config.source.stream)?;
    description.check()?;
    if config.source.stream.protocol == conf::PacketProtocol::Tcp {
        ending(&config.source.stream).check(&description)?;
    }
    Ok(())
}

/// Opens the sockets of a readout unit, and returns its sources.
pub(crate) fn open(
    source: &conf::Source,
    max_fragment: ByteCount,
    sources: &[SourceId],
    memory: &FragmentMemory,
) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let stream = &source.stream;
    let unit = source.time_unit.unwrap_or(TimeUnit::NANOSECOND);
    let limits = limits(stream, unit, usize::try_from(max_fragment.0).unwrap_or(usize::MAX));
    let block_bytes = usize::try_from(source.block.max(max_fragment).0).unwrap_or(usize::MAX);
    let size = PoolSize { block_bytes, blocks: blocks(source, max_fragment) };
    Ok(memory.described(path(stream)?, (description(stream)?, limits), sources, size)?)
}

/// Connections at an address if the configuration does not say how many.
const CONNECTIONS: usize = 16;

/// Returns the way by which the packets come.
fn path(stream: &conf::Described) -> anyhow::Result<PacketPath> {
    let listen = stream.listen.as_deref().map(resolve).transpose()?;
    if stream.protocol == conf::PacketProtocol::Udp {
        let address = listen.context("`source.stream.listen` is not set")?;
        let receive_buffer_bytes =
            stream.receive_buffer.map(|bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX));
        return Ok(PacketPath::Udp(Listen { address, receive_buffer_bytes }));
    }
    let connect = ConnectionSettings {
        listen,
        connect: stream.connect.iter().map(|at| resolve(at)).collect::<anyhow::Result<_>>()?,
        most: if stream.connections == 0 { CONNECTIONS } else { stream.connections as usize },
        ends_on_close: stream.end_on_close,
    };
    Ok(PacketPath::Tcp(connect, ending(stream)))
}

/// Returns the boundaries of the packets in a stream.
pub(crate) fn ending(stream: &conf::Described) -> PacketEnding {
    let length = |length| PacketLength {
        field: Field { origin: Origin::Packet, ..field(length) },
        unit_bytes: u64::from(stream.packet_length_unit),
        counts_header: stream.packet_length_counts_header,
    };
    PacketEnding {
        packet_length: stream.packet_length.map(length),
        marked_bytes: (stream.marked_packet > 0).then_some(stream.marked_packet as usize),
        max_packet: usize::try_from(stream.max_packet.0).unwrap_or(usize::MAX),
    }
}

/// Returns the bounds of a decoder.
pub(crate) fn limits(stream: &conf::Described, unit: TimeUnit, max_fragment: usize) -> Limits {
    Limits {
        waiting_packets: stream.waiting_packets as usize,
        wait: stream.wait,
        open_fragments: stream.open_fragments as usize,
        max_fragment,
        tick: stream.tick,
        unit,
    }
}

/// Returns the description of the packets of a configuration.
///
/// # Errors
/// If there is no event number.
pub(crate) fn description(stream: &conf::Described) -> anyhow::Result<Description> {
    let event = stream.event.context("`source.stream.event` is not set")?;
    let maybe = |described: Option<conf::Field>| described.map(field);
    let marks = |marks: &[conf::Mark]| marks.iter().map(mark).collect();
    let mut description = Description {
        magic: marks(&stream.magic),
        keep_alive: marks(&stream.keep_alive),
        keep_alive_below: stream.keep_alive_below as usize,
        reset: marks(&stream.reset),
        packet_header_bytes: stream.packet_header as usize,
        header_bytes: 0,
        keep_header: stream.keep_header,
        trailer_bytes: stream.trailer as usize,
        event: field(event),
        source: maybe(stream.source),
        time: maybe(stream.time),
        length: stream.length.map(|length| Length {
            field: field(length),
            unit_bytes: u64::from(stream.length_unit),
            counted: match stream.length_counts {
                conf::Counted::Payload => Counted::Payload,
                conf::Counted::HeaderAndPayload => Counted::HeaderAndPayload,
                conf::Counted::All => Counted::All,
            },
        }),
        packet_number: maybe(stream.packet_number).map(|field| Field { origin: Origin::Packet, ..field }),
        part: maybe(stream.part),
        last: maybe(stream.last),
        several: stream.several,
    };
    description.header_bytes =
        stream.header.map_or_else(|| end_of_fields(&description, ending(stream)), |bytes| bytes as usize);
    Ok(description)
}

/// Returns the bytes of a fragment's header that ends with the last described field, or with `magic`.
fn end_of_fields(description: &Description, ending: PacketEnding) -> usize {
    let packet_header = description.packet_header_bytes;
    let of_packet = ending.packet_length.map(|length| length.field);
    let fields =
        description.fields().map(|(_, field)| field).chain(of_packet).map(|field| match field.origin {
            Origin::Fragment => field.range().end,
            Origin::Packet => field.range().end.saturating_sub(packet_header),
        });
    let marks =
        description.magic.iter().map(|mark| (mark.offset + mark.bytes.len()).saturating_sub(packet_header));
    fields.chain(marks).max().unwrap_or_default()
}

/// Returns a field as the decoder of packets reads it.
pub(crate) fn field(described: conf::Field) -> Field {
    Field {
        origin: if described.is_in_packet { Origin::Packet } else { Origin::Fragment },
        offset: described.offset as usize,
        width: Width::of_bits(described.bits).expect("the configuration has only such widths"),
        order: if described.is_little_endian { ByteOrder::Little } else { ByteOrder::Big },
        mask: described.mask.unwrap_or(u64::MAX),
        shift: described.shift,
    }
}

pub(crate) fn mark(described: &conf::Mark) -> Mark {
    Mark { offset: described.offset as usize, bytes: described.bytes.clone() }
}
