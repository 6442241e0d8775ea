//! The status of a readout unit, commands and counts, between bytes and values.

use super::Entry;
use crate::message::layout::{CommandBytes, CountBytes, ReadoutStatusBytes};
use crate::message::{Command, Count, DecodeError, ReadoutStatus};
use crate::{ByteCount, EventId};
use zerocopy::little_endian::{U16, U32, U64};

impl Entry for ReadoutStatus {
    type Bytes = ReadoutStatusBytes;
    fn emit(&self) -> ReadoutStatusBytes {
        ReadoutStatusBytes {
            sources: U32::new(self.sources),
            sources_ended: U32::new(self.sources_ended),
            buffered_events: U32::new(self.buffered_events),
            flags: U32::new(emit_flags([
                self.busy,
                self.processing,
                self.waiting,
                self.declines,
                self.has_divided,
            ])),
            buffered_bytes: U64::new(self.buffered.0),
            room_until: U64::new(self.room_until.0),
            room_events: U32::new(self.room_events),
            reserved: U32::new(0),
        }
    }
    fn parse(bytes: &ReadoutStatusBytes) -> Result<Self, DecodeError> {
        let flags = bytes.flags.get();
        let [busy, processing, waiting, declines, has_divided] = parse_flags(flags)
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
            has_divided,
            room_until: EventId(bytes.room_until.get()),
            room_events: bytes.room_events.get(),
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

impl Entry for Command {
    type Bytes = CommandBytes;
    fn emit(&self) -> CommandBytes {
        let event = match self {
            Self::Join { floor: event } | Self::HandOver { first: event } => event.0,
            _ => 0,
        };
        CommandBytes { command: self.code(), reserved: [0; 7], event: U64::new(event) }
    }
    fn parse(bytes: &CommandBytes) -> Result<Self, DecodeError> {
        match bytes.command {
            1 => Ok(Self::Start),
            2 => Ok(Self::Close),
            3 => Ok(Self::Join { floor: EventId(bytes.event.get()) }),
            4 => Ok(Self::GiveWay),
            5 => Ok(Self::Pause),
            6 => Ok(Self::Resume),
            7 => Ok(Self::HandOver { first: EventId(bytes.event.get()) }),
            8 => Ok(Self::Divide),
            code => Err(DecodeError::BadValue { field: "command", value: u64::from(code) }),
        }
    }
}

impl Entry for Count {
    type Bytes = CountBytes;
    fn emit(&self) -> CountBytes {
        CountBytes {
            code: U16::new(self.code),
            reason: U16::new(self.reason),
            reserved: U32::ZERO,
            value: U64::new(self.value),
        }
    }
    fn parse(bytes: &CountBytes) -> Result<Self, DecodeError> {
        Ok(Self { code: bytes.code.get(), reason: bytes.reason.get(), value: bytes.value.get() })
    }
}
