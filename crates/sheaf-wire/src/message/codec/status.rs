//! The status of a readout unit, between bytes and values.

use super::Entry;
use crate::ByteCount;
use crate::message::layout::ReadoutStatusBytes;
use crate::message::{DecodeError, ReadoutStatus};
use zerocopy::little_endian::{U32, U64};

impl Entry for ReadoutStatus {
    type Bytes = ReadoutStatusBytes;
    fn emit(&self) -> ReadoutStatusBytes {
        ReadoutStatusBytes {
            sources: U32::new(self.sources),
            sources_ended: U32::new(self.sources_ended),
            buffered_events: U32::new(self.buffered_events),
            flags: U32::new(emit_flags([self.busy, self.processing, self.waiting, self.declines])),
            buffered_bytes: U64::new(self.buffered.0),
        }
    }
    fn parse(bytes: &ReadoutStatusBytes) -> Result<Self, DecodeError> {
        let flags = bytes.flags.get();
        let [busy, processing, waiting, declines] = parse_flags(flags)
            .ok_or(DecodeError::BadValue { field: "readout flags", value: u64::from(flags) })?;
        Ok(Self {
            sources: bytes.sources.get(),
            sources_ended: bytes.sources_ended.get(),
            buffered_events: bytes.buffered_events.get(),
            buffered: ByteCount(bytes.buffered_bytes.get()),
            busy,
            processing,
            waiting,
            declines,
        })
    }
}

/// Returns the flags as bits, the first as the lowest.
fn emit_flags<const N: usize>(flags: [bool; N]) -> u32 {
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u32::from(*flag))
}

/// Returns the flags, or `None` if other bits are set.
fn parse_flags<const N: usize>(bits: u32) -> Option<[bool; N]> {
    (bits >> N == 0).then(|| std::array::from_fn(|index| bits >> index & 1 != 0))
}
