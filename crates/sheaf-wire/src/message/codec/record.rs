//! Run records, from bytes and to bytes.

use super::DecodeError;
use crate::message::layout::RecordBytes;
use crate::run_record::{MAX_RECORD_NAME_BYTES, MAX_SENT_RECORD_BYTES, RecordKind, RunRecord};
use crate::{SourceId, Timestamp};
use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Returns the size of a record in a message.
pub(crate) fn record_bytes(record: &RunRecord) -> usize {
    size_of::<RecordBytes>() + record.name.len() + record.content.len()
}

/// Appends a record to a message.
pub(crate) fn emit_record(record: &RunRecord, message: &mut Vec<u8>) {
    let length = |bytes: usize| U32::new(u32::try_from(bytes).unwrap_or(u32::MAX));
    let fixed = RecordBytes {
        number: U64::new(record.number),
        time: U64::new(record.time.0),
        source: U32::new(record.source.0),
        name_bytes: length(record.name.len()),
        content_bytes: length(record.content.len()),
        kind: record.kind as u8,
        reserved: [0; 3],
    };
    for part in [fixed.as_bytes(), record.name.as_bytes(), &record.content] {
        message.extend_from_slice(part);
    }
}

/// Reads a record that is all of the bytes.
pub(crate) fn parse_record(bytes: &[u8]) -> Result<RunRecord, DecodeError> {
    let bad = |field, value: u32| DecodeError::BadValue { field, value: value.into() };
    let truncated = |need| DecodeError::Truncated { need, have: bytes.len() };
    let (fixed, rest) =
        RecordBytes::ref_from_prefix(bytes).map_err(|_| truncated(size_of::<RecordBytes>()))?;
    let (name_bytes, content_bytes) = (fixed.name_bytes.get(), fixed.content_bytes.get());
    if name_bytes as usize > MAX_RECORD_NAME_BYTES {
        return Err(bad("name_bytes", name_bytes));
    }
    if content_bytes as usize > MAX_SENT_RECORD_BYTES {
        return Err(bad("content_bytes", content_bytes));
    }
    let need = size_of::<RecordBytes>() + name_bytes as usize + content_bytes as usize;
    let (name, content) = rest.split_at_checked(name_bytes as usize).ok_or(truncated(need))?;
    match content.len().checked_sub(content_bytes as usize) {
        None => return Err(truncated(need)),
        Some(0) => {}
        Some(more) => return Err(DecodeError::TrailingBytes(more)),
    }
    Ok(RunRecord {
        number: fixed.number.get(),
        source: SourceId(fixed.source.get()),
        kind: RecordKind::from_code(fixed.kind).ok_or(bad("kind", fixed.kind.into()))?,
        time: Timestamp(fixed.time.get()),
        name: std::str::from_utf8(name).map_err(|_| bad("name", name_bytes))?.to_owned(),
        content: Bytes::copy_from_slice(content),
    })
}
