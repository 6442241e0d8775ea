//! Captures and packets of cards for tests.

use etherparse::PacketBuilder;

/// Returns a frame with this UDP payload.
pub(super) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder =
        PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 2], [10, 0, 0, 3], 64).udp(6006, 6006);
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// Returns a pcap file of packets, each with the bytes that it had on the wire.
pub(super) fn pcap(link: u32, packets: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
    file.extend(link.to_le_bytes());
    for (packet, on_the_wire) in packets {
        file.extend([0; 8]);
        file.extend((packet.len() as u32).to_le_bytes());
        file.extend(on_the_wire.to_le_bytes());
        file.extend(packet);
    }
    file
}

/// Returns a packet of a VMM3a card: a marker of chip 0, and hits a number of ticks after it.
pub(super) fn vmm3a_packet(card: u8, number: u32, marker: u64, hits: &[u32]) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.extend([b'V', b'M', b'3', card << 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(((marker >> 10) as u32).to_be_bytes());
    packet.extend(((marker & 0x3ff) as u16).to_be_bytes());
    for bcid in hits {
        packet.extend((bcid ^ bcid >> 1).to_be_bytes());
        packet.extend(0x8000_u16.to_be_bytes());
    }
    packet
}
