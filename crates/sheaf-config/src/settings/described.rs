//! Packets of front ends that no program was written for.

use super::{HOUR, KIB, MIB};
use crate::choice::choice;
use crate::codec::{
    Field, Mark, address, address_list, bytes, field, mark_list, maybe, milliseconds, period, pick, switch,
    whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, ExactNanos, Nanos};

choice! {
    /// Bytes that the length of a fragment counts.
    Counted {
        /// the payload
        Payload = "payload",
        /// the header and the payload
        HeaderAndPayload = "header-and-payload",
        /// the header, the payload and the trailer
        All = "all",
    }
}

choice! {
    /// Way by which packets come.
    PacketProtocol {
        /// each packet is a datagram
        Udp = "udp",
        /// packets follow each other in connections
        Tcp = "tcp",
    }
}

/// Largest header or trailer.
const MAX_HEADER: u64 = 65_535;

section! {
    /// Packets of front ends of your own, described by their fields. A field is a text such as `"u32 at 4"`: 32 bits after 4
    /// bytes. `sheaf source describe` shows a capture as a description reads it.
    Described "source.stream" {
        /// Protocol of the packets. Over TCP, a packet ends where `packet_length` says, or `length` if a packet has one fragment.
        protocol: PacketProtocol = PacketProtocol::Udp, "protocol", pick();
        /// Address that receives the packets, or at which front ends connect. The kind `stream` needs it, or `connect`. One readout
        /// unit reads all sources that send to it.
        listen: Option<String> = None, "listen", maybe(address());
        /// TCP addresses of front ends, in place of `listen`. Failed and lost connections are tried again, after pauses that double
        /// from 50 ms to 2 s.
        connect: Vec<String> = Vec::new(), "connect", address_list();
        /// Maximum number of TCP connections at `listen` at the same time. 0: 16.
        connections: u32 = 0, "connections", whole(0, 1_024);
        /// Whether the sources end when the front ends have closed their TCP connections: each of `connect`, or `connections` of
        /// them at `listen`. Otherwise the run connects or waits again.
        end_on_close: bool = false, "end_on_close", switch();
        /// Event number, required for the kind `stream`. A counter of any width, which may roll over.
        event: Option<Field> = None, "event", maybe(field());
        /// Source id. Default: there is one source.
        source: Option<Field> = None, "source", maybe(field());
        /// Time, in ticks of `tick`. It may roll over. Default: the time of arrival.
        time: Option<Field> = None, "time", maybe(field());
        /// Duration of a tick of `time`, exactly, or its rate.
        tick: ExactNanos = ExactNanos::from_nanos(1), "tick", period();
        /// Length of the fragment. Default: to the end of the packet.
        length: Option<Field> = None, "length", maybe(field());
        /// Number of bytes of one unit of `length`: 4 for a length in words of 32 bits.
        length_unit: u32 = 1, "length_unit_bytes", whole(1, 65_536);
        /// Bytes that `length` counts.
        length_counts: Counted = Counted::Payload, "length_counts", pick();
        /// Length of the packet, over TCP. Needed if a packet has several fragments, or a fragment no `length`. Its offset is in the
        /// packet.
        packet_length: Option<Field> = None, "packet_length", maybe(field());
        /// Number of bytes of one unit of `packet_length`.
        packet_length_unit: u32 = 1, "packet_length_unit_bytes", whole(1, 65_536);
        /// Whether `packet_length` counts the `packet_header_bytes`, too.
        packet_length_counts_header: bool = true, "packet_length_counts_header", switch();
        /// Maximum size of a packet over TCP. A larger length is an error of the stream. Each connection has a buffer of this size and
        /// 256 KiB.
        max_packet: ByteCount = ByteCount(MIB), "max_packet_bytes", bytes(256, 1 << 30);
        /// Number of the packet, which rises by one from packet to packet of a source and may roll over. With it, packets are
        /// put in order and lost ones are counted. Its offset is in the packet.
        packet_number: Option<Field> = None, "packet_number", maybe(field());
        /// Index of the part of a fragment over several packets, from 0 on. Default: parts come in order.
        part: Option<Field> = None, "part", maybe(field());
        /// A number that is not 0 in the last part of a fragment over several packets. Default: fragments have one part.
        last: Option<Field> = None, "last", maybe(field());
        /// Whether a packet may have more than one fragment. Needs `length`.
        several: bool = false, "several", switch();
        /// Bytes of a packet before its first fragment.
        packet_header: u32 = 0, "packet_header_bytes", whole(0, MAX_HEADER);
        /// Bytes of the header of a fragment. Default: to the end of the last described field.
        header: Option<u32> = None, "header_bytes", maybe(whole(0, MAX_HEADER));
        /// Whether the header is a part of the payload.
        keep_header: bool = false, "keep_header", switch();
        /// Bytes at the end of a fragment that are not a part of the payload.
        trailer: u32 = 0, "trailer_bytes", whole(0, MAX_HEADER);
        /// Bytes that every packet has. Others are counted as damaged.
        magic: Vec<Mark> = Vec::new(), "magic", mark_list();
        /// Packets with any of these bytes are keep-alives.
        keep_alive: Vec<Mark> = Vec::new(), "keep_alive", mark_list();
        /// Packets with fewer bytes are keep-alives.
        keep_alive_below: u32 = 0, "keep_alive_below_bytes", whole(0, MAX_HEADER);
        /// Bytes of a packet with a mark of `keep_alive` or `reset`, over TCP. 0: as its length says.
        marked_packet: u32 = 0, "marked_packet_bytes", whole(0, MAX_HEADER);
        /// A packet with any of these bytes says that the counters of its source begin again at 0. It holds no fragment. Event
        /// ids go on at the next multiple of 2^48.
        reset: Vec<Mark> = Vec::new(), "reset", mark_list();
        /// Maximum number of packets of a source that wait for an earlier one, with `packet_number`.
        waiting_packets: u32 = 64, "waiting_packets", whole(0, 65_536);
        /// Maximum time that they wait.
        wait: Nanos = Nanos::from_millis(10), "wait_ms", milliseconds(Nanos::ZERO, HOUR);
        /// Maximum number of fragments of a source of which not all parts have come. The oldest is given up.
        open_fragments: u32 = 256, "open_fragments", whole(1, 65_536);
        /// UDP: bytes of packets that the operating system holds until they are read. Linux grants at most the sysctl
        /// `net.core.rmem_max`. 0: its default.
        receive_buffer: Option<ByteCount> = Some(ByteCount(4 * MIB)), "receive_buffer_bytes", zero_is_none(bytes(4 * KIB, 1 << 30));
    }
}
