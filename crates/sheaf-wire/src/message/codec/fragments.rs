//! Fragments and super-fragments, as in messages and event files.

use super::{DecodeError, Entry, PayloadSource, count, emit_all, emit_each, parse_each, split, split_list};
use crate::message::SuperFragments;
use crate::message::layout::{
    FRAGMENT_HAS_CHECKSUM, FRAGMENT_IS_PROCESSED, FragmentBytes, MissingBytes, SuperFragmentBytes,
    SuperFragmentsBytes,
};
use crate::{EventId, Fragment, MissingSource, NumberMark, Payload, SourceId, SuperFragment, Timestamp};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

pub(super) fn emit_super_fragments_head<P: Payload>(head: &mut Vec<u8>, parts: &SuperFragments<P>) {
    let sizes = SuperFragmentsBytes {
        entries: count(parts.entries.len()),
        fragments: count(parts.fragments.len()),
        missing: count(parts.missing.len()),
        reserved: U32::ZERO,
    };
    head.extend_from_slice(sizes.as_bytes());
    emit_all(head, &parts.entries);
    emit_each(head, &parts.fragments, fragment_to_bytes);
    emit_all(head, &parts.missing);
}

/// The descriptor of a fragment, as in messages and event files.
pub(crate) fn fragment_to_bytes<P: Payload>(fragment: &Fragment<P>) -> FragmentBytes {
    FragmentBytes {
        source: U32::new(fragment.source.0),
        length: U32::new(u32::try_from(fragment.payload.len()).unwrap_or(u32::MAX)),
        time: U64::new(fragment.time.0),
        checksum: U32::new(fragment.checksum.unwrap_or(0)),
        flags: U32::new(fragment_flags(fragment)),
    }
}

fn fragment_flags<P>(fragment: &Fragment<P>) -> u32 {
    let checksum = if fragment.checksum.is_some() { FRAGMENT_HAS_CHECKSUM } else { 0 };
    let processed = if fragment.processed { FRAGMENT_IS_PROCESSED } else { 0 };
    checksum | processed | fragment.mark.to_flags()
}

pub(super) fn parse_super_fragments<P: Payload>(
    bytes: &[u8],
    payload_bytes: u64,
    payload: &mut impl PayloadSource<P>,
) -> Result<SuperFragments<P>, DecodeError> {
    let (sizes, rest) = split::<SuperFragmentsBytes>(bytes)?;
    let (entries, rest) = split_list::<SuperFragmentBytes>(rest, sizes.entries.get())?;
    let (fragments, rest) = split_list::<FragmentBytes>(rest, sizes.fragments.get())?;
    let (missing, rest) = split_list::<MissingBytes>(rest, sizes.missing.get())?;
    if !rest.is_empty() {
        return Err(DecodeError::TrailingBytes(rest.len()));
    }
    let described: u64 = fragments.iter().map(|fragment| u64::from(fragment.length.get())).sum();
    if described != payload_bytes {
        return Err(DecodeError::WrongPayloadLength { declared: described, have: payload_bytes });
    }
    let entries: Vec<SuperFragment> = parse_each(entries)?;
    let total = |of: fn(&SuperFragment) -> u16| {
        let of_entry = |entry: &SuperFragment| u64::from(entry.count) * u64::from(of(entry));
        entries.iter().map(of_entry).fold(0, u64::saturating_add)
    };
    let fragment_total = total(|entry| entry.fragments);
    if fragment_total != fragments.len() as u64 {
        return Err(DecodeError::BadValue { field: "fragments", value: fragment_total });
    }
    let missing_total = total(|entry| entry.missing);
    if missing_total != missing.len() as u64 {
        return Err(DecodeError::BadValue { field: "missing", value: missing_total });
    }
    let missing: Vec<MissingSource> = parse_each(missing)?;
    let mut parsed = Vec::with_capacity(fragments.len());
    let mut descriptors = fragments;
    for entry in &entries {
        // As many as were counted above, and so no more than there are.
        let (of_entry, rest) = descriptors.split_at(entry.count as usize * usize::from(entry.fragments));
        for (event, of_event) in
            entry.events().zip(of_entry.chunks_exact(usize::from(entry.fragments).max(1)))
        {
            for descriptor in of_event {
                parsed.push(parse_fragment(event, descriptor, payload)?);
            }
        }
        descriptors = rest;
    }
    Ok(SuperFragments { entries, fragments: parsed, missing })
}

/// The fragment that a descriptor announces, with its payload taken from `payload`; as in messages and event files.
#[inline]
pub(crate) fn parse_fragment<P: Payload>(
    event: EventId,
    bytes: &FragmentBytes,
    payload: &mut impl PayloadSource<P>,
) -> Result<Fragment<P>, DecodeError> {
    let flags = bytes.flags.get();
    let mark = parse_mark(flags)?;
    let length = bytes.length.get();
    let Some(payload) = payload.take(length as usize) else {
        return Err(DecodeError::WrongPayloadLength { declared: u64::from(length), have: payload.total() });
    };
    Ok(Fragment {
        event,
        source: SourceId(bytes.source.get()),
        time: Timestamp(bytes.time.get()),
        checksum: (flags & FRAGMENT_HAS_CHECKSUM != 0).then(|| bytes.checksum.get()),
        processed: flags & FRAGMENT_IS_PROCESSED != 0,
        mark,
        payload,
    })
}

/// Reads the mark among the flags of a fragment, of which no others may be set.
#[inline]
pub(crate) fn parse_mark(flags: u32) -> Result<NumberMark, DecodeError> {
    // Almost no fragment has a mark.
    if flags & !(FRAGMENT_HAS_CHECKSUM | FRAGMENT_IS_PROCESSED) == 0 {
        return Ok(NumberMark::NONE);
    }
    parse_set_mark(flags)
}

#[cold]
fn parse_set_mark(flags: u32) -> Result<NumberMark, DecodeError> {
    let others = flags & !(FRAGMENT_HAS_CHECKSUM | FRAGMENT_IS_PROCESSED | NumberMark::FLAGS);
    let mark = NumberMark::from_flags(flags).filter(|_| others == 0);
    mark.ok_or(DecodeError::BadValue { field: "fragment flags", value: u64::from(flags) })
}

/// A missing source, as in messages and event files.
pub(crate) fn missing_to_bytes(missing: &MissingSource) -> MissingBytes {
    missing.emit()
}

/// Reads a missing source, as in messages and event files.
pub(crate) fn parse_missing(bytes: &MissingBytes) -> Result<MissingSource, DecodeError> {
    MissingSource::parse(bytes)
}
