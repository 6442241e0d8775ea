//! Exclusion of sources and readout units during a run.

use super::DecodeError;
use super::codec::Entry;
use super::layout::{ExclusionBytes, ReadoutExclusionBytes};
use crate::{EventId, SourceId};
use zerocopy::little_endian::{U16, U32, U64};

/// Exclusion of a source, or its end: as an order to the readout unit that reads the source, and as its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// The source.
    pub source: SourceId,
    /// Whether it is excluded.
    pub excluded: bool,
    /// In an order: the first event without the source if an earlier session of the unit has answered, otherwise 0. In an answer: the
    /// first event without the source, or with it again.
    pub event: EventId,
}

impl Entry for Exclusion {
    type Bytes = ExclusionBytes;
    fn emit(&self) -> ExclusionBytes {
        ExclusionBytes {
            event: U64::new(self.event.0),
            source: U32::new(self.source.0),
            excluded: u8::from(self.excluded),
            reserved: [0; 3],
        }
    }
    fn parse(bytes: &ExclusionBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            source: SourceId(bytes.source.get()),
            excluded: parse_excluded(bytes.excluded)?,
            event: EventId(bytes.event.get()),
        })
    }
}

/// Exclusion of a readout unit from the events of a builder unit, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadoutExclusion {
    /// Index of the readout unit.
    pub readout: u16,
    /// Whether it is excluded.
    pub excluded: bool,
    /// The first event without it, or with it again.
    pub event: EventId,
}

impl Entry for ReadoutExclusion {
    type Bytes = ReadoutExclusionBytes;
    fn emit(&self) -> ReadoutExclusionBytes {
        ReadoutExclusionBytes {
            event: U64::new(self.event.0),
            readout: U16::new(self.readout),
            excluded: u8::from(self.excluded),
            reserved: [0; 5],
        }
    }
    fn parse(bytes: &ReadoutExclusionBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            readout: bytes.readout.get(),
            excluded: parse_excluded(bytes.excluded)?,
            event: EventId(bytes.event.get()),
        })
    }
}

fn parse_excluded(byte: u8) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::BadValue { field: "excluded", value: value.into() }),
    }
}
