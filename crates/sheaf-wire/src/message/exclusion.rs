//! Exclusion of sources during a run.

use super::DecodeError;
use super::codec::Entry;
use super::layout::ExclusionBytes;
use crate::{EventId, SourceId};
use zerocopy::little_endian::{U32, U64};

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
            excluded: match bytes.excluded {
                0 => false,
                1 => true,
                value => return Err(DecodeError::BadValue { field: "excluded", value: value.into() }),
            },
            event: EventId(bytes.event.get()),
        })
    }
}
