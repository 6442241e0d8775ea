//! Answers to run records.

use super::DecodeError;
use super::codec::Entry;
use super::layout::RecordedBytes;
use crate::SourceId;
use crate::run_record::RecordAnswer;
use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{U32, U64};

/// Answer to a run record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Number of the record.
    pub number: u64,
    /// Source of the record.
    pub source: SourceId,
    /// The answer.
    pub answer: RecordAnswer,
}

impl Entry for Recorded {
    type Bytes = RecordedBytes;
    fn emit(&self) -> RecordedBytes {
        RecordedBytes {
            number: U64::new(self.number),
            source: U32::new(self.source.0),
            answer: self.answer as u8,
            reserved: [0; 3],
        }
    }
    fn parse(bytes: &RecordedBytes) -> Result<Self, DecodeError> {
        let answer = RecordAnswer::from_code(bytes.answer)
            .ok_or(DecodeError::BadValue { field: "answer", value: bytes.answer.into() })?;
        Ok(Self { number: bytes.number.get(), source: SourceId(bytes.source.get()), answer })
    }
}
