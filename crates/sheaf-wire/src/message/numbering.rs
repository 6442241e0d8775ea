//! Disagreements of event numbers, and their repair.

use super::DecodeError;
use super::codec::Entry;
use super::layout::{DisagreementBytes, RenumberBytes, RenumberedBytes};
use crate::{EventId, SourceId};
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U16, U32, U64};

/// A fragment whose check value disagrees with that of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The event.
    pub event: EventId,
    /// The source of the fragment.
    pub source: SourceId,
    /// Which of the quantities that are checked, in the order of the configuration.
    pub quantity: u16,
    /// Check value of the fragment.
    pub value: u64,
    /// Check value of the event.
    pub reference: u64,
}

/// Order to renumber the further fragments of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renumber {
    /// The source.
    pub source: SourceId,
    /// Number that is added to the event id of each further fragment, in addition to earlier ones. Not 0.
    pub shift: i64,
}

/// Answer to [`Renumber`], when the first fragment with another number is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renumbered {
    /// The source.
    pub source: SourceId,
    /// Event of the first renumbered fragment.
    pub first: EventId,
    /// The number of the order.
    pub shift: i64,
}

impl Entry for Disagreement {
    type Bytes = DisagreementBytes;
    fn emit(&self) -> DisagreementBytes {
        DisagreementBytes {
            event: U64::new(self.event.0),
            value: U64::new(self.value),
            reference: U64::new(self.reference),
            source: U32::new(self.source.0),
            quantity: U16::new(self.quantity),
            reserved: U16::ZERO,
        }
    }
    fn parse(bytes: &DisagreementBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            event: EventId(bytes.event.get()),
            source: SourceId(bytes.source.get()),
            quantity: bytes.quantity.get(),
            value: bytes.value.get(),
            reference: bytes.reference.get(),
        })
    }
}

impl Entry for Renumber {
    type Bytes = RenumberBytes;
    fn emit(&self) -> RenumberBytes {
        RenumberBytes {
            shift: U64::new(self.shift.cast_unsigned()),
            source: U32::new(self.source.0),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &RenumberBytes) -> Result<Self, DecodeError> {
        Ok(Self { source: SourceId(bytes.source.get()), shift: parse_shift(bytes.shift)? })
    }
}

impl Entry for Renumbered {
    type Bytes = RenumberedBytes;
    fn emit(&self) -> RenumberedBytes {
        RenumberedBytes {
            first: U64::new(self.first.0),
            shift: U64::new(self.shift.cast_unsigned()),
            source: U32::new(self.source.0),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &RenumberedBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            source: SourceId(bytes.source.get()),
            first: EventId(bytes.first.get()),
            shift: parse_shift(bytes.shift)?,
        })
    }
}

fn parse_shift(shift: U64) -> Result<i64, DecodeError> {
    match shift.get() {
        0 => Err(DecodeError::BadValue { field: "shift", value: 0 }),
        shift => Ok(shift.cast_signed()),
    }
}
