//! VMM3a chips behind RD51's scalable readout system (SRS): one card (FEC) reads up to 32 chips (VMM) of 64 channels each
//! and sends UDP packets of hits and time markers.
//!
//! A packet, all big-endian:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | frame counter of the card |
//! | 4 | 3 | `VM3` |
//! | 7 | 1 | card in the upper four bits |
//! | 8 | 4 | time of the packet |
//! | 12 | 4 | overflow counters |
//! | 16 | 6 each | records |
//!
//! A record is 32 bits and 16 bits. Bit 15 of the latter set: a hit, with offset 5 bits, chip 5, charge (ADC) 10 and
//! Gray-coded bunch-clock counter (BCID) 12 in the former, over-threshold bit, channel 6 and TDC 8 in the latter. Clear: a time
//! marker, with the upper 32 bits of a 42-bit bunch-clock counter in the former, and in the latter chip 5 bits and the
//! counter's lower 10 bits.
//!
//! A hit's time in bunch clocks is the latest marker of its chip, plus 4,096 times the offset (31 stands for -1), plus the
//! BCID. The layout is as the RD51 reader `vmm-sdat` (ESS, BSD-2-Clause) reads it; this is written from the description.

use super::decode::{CounterBits, DecodeFailure, Decoder, Packet, PacketError, PacketHead, Reading};
use sheaf_wire::SourceId;

const HEAD_BYTES: usize = 16;
const RECORD_BYTES: usize = 6;
const CHIPS: usize = 32;
/// Bits of a time marker's counter.
const TIME_BITS: u32 = 42;
/// Bunch clocks of one offset: the range of a BCID.
const OFFSET_CLOCKS: u64 = 4096;

/// Multiplier of the chip in a hit's `channel`: chip times this, plus the chip's channel.
pub const CHANNELS_A_CHIP: u32 = 64;

/// Reads the packets of one card.
#[derive(Clone, Debug, Default)]
pub struct Vmm3a {
    /// The latest time marker of each chip.
    markers: [Option<u64>; CHIPS],
}

impl Vmm3a {
    /// A decoder that saw no marker yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn record(&mut self, upper: u32, lower: u16) -> Reading {
        if lower >> 15 == 0 {
            let chip = usize::from(lower >> 10 & 0x1f);
            let time = u64::from(upper) << 10 | u64::from(lower & 0x3ff);
            self.markers[chip] = Some(time);
            return Reading::Marker { time };
        }
        let chip = upper >> 22 & 0x1f;
        let Some(marker) = self.markers[chip as usize] else {
            return Reading::Untimed;
        };
        let bcid = u64::from(gray_to_binary(upper & 0xfff));
        let offset = match upper >> 27 {
            31 => OFFSET_CLOCKS.wrapping_neg(),
            offset => u64::from(offset) * OFFSET_CLOCKS,
        };
        let time = marker.wrapping_add(offset).wrapping_add(bcid) & ((1 << TIME_BITS) - 1);
        let channel = chip * CHANNELS_A_CHIP + u32::from(lower >> 8 & 0x3f);
        let over_threshold = lower >> 14 & 1;
        // Ten and nine bits: they fit.
        Reading::Hit {
            time,
            channel,
            value: (upper >> 12 & 0x3ff) as u16,
            extra: lower & 0xff | over_threshold << 8,
        }
    }
}

impl Decoder for Vmm3a {
    fn head(&self, packet: &[u8]) -> Result<PacketHead, PacketError> {
        let Some(head) = packet.first_chunk::<HEAD_BYTES>() else {
            return Err(PacketError::TooShort { bytes: packet.len(), needed: HEAD_BYTES });
        };
        let [n0, n1, n2, n3, b'V', b'M', b'3', card, ..] = *head else {
            return Err(PacketError::Foreign);
        };
        let number = u64::from(u32::from_be_bytes([n0, n1, n2, n3]));
        Ok(PacketHead { card: SourceId(u32::from(card >> 4)), number })
    }

    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure> {
        let (records, rest) = packet.bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks::<RECORD_BYTES>();
        for &[a, b, c, d, e, f] in records {
            take(self.record(u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f])));
        }
        if !rest.is_empty() {
            take(Reading::Remainder);
        }
        Ok(())
    }

    fn counter_bits(&self) -> CounterBits {
        CounterBits { time: TIME_BITS, packet: 32 }
    }
}

/// Each bit is the sum of itself and all above it.
fn gray_to_binary(mut gray: u32) -> u32 {
    for shift in [1, 2, 4, 8] {
        gray ^= gray >> shift;
    }
    gray
}

#[cfg(test)]
mod tests;
