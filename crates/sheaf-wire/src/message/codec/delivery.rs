//! Deliveries, receipts, and lists of kept events.

use super::entries::parse_count;
use super::{
    DecodeError, Entry, PayloadSource, bytes_of, count, emit_all, emit_each, flag, fragment_to_bytes,
    parse_all, parse_each, parse_fragment, split, split_list,
};
use crate::message::layout::{
    DeliveredBytes, DeliveryBytes, FragmentBytes, KeptBytes, MissingBytes, ReceiptBytes, ReceivedBytes,
};
use crate::message::{Delivered, Delivery, Kept, Receipt, ReceiptEntry};
use crate::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use crate::{ByteCount, EventId, Payload, SessionId, Tags, Timestamp, TriggerType};
use bytes::Bytes;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Bits of [`DeliveredBytes::flags`].
const INCOMPLETE: u32 = 1;
const MORE: u32 = 2;

/// Bit 0 of [`ReceivedBytes::flags`].
const LEFT_OUT: u32 = 1;

fn bad<T>(field: &'static str, value: impl Into<u64>) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue { field, value: value.into() })
}

/// Returns the size of the head behind its header.
pub(super) fn head_bytes<P>(delivery: &Delivery<P>) -> usize {
    let said: usize = delivery.entries.iter().map(|entry| entry.said.len()).sum();
    size_of::<DeliveryBytes>()
        + delivery.entries.len() * size_of::<DeliveredBytes>()
        + delivery.fragments.len() * size_of::<FragmentBytes>()
        + bytes_of(&delivery.missing)
        + said
}

pub(super) fn emit_head<P: Payload>(head: &mut Vec<u8>, delivery: &Delivery<P>) {
    let said: usize = delivery.entries.iter().map(|entry| entry.said.len()).sum();
    let sizes = DeliveryBytes {
        entries: count(delivery.entries.len()),
        fragments: count(delivery.fragments.len()),
        missing: count(delivery.missing.len()),
        said: count(said),
    };
    head.extend_from_slice(sizes.as_bytes());
    emit_each(head, &delivery.entries, delivered_to_bytes);
    emit_each(head, &delivery.fragments, fragment_to_bytes);
    emit_all(head, &delivery.missing);
    delivery.entries.iter().for_each(|entry| head.extend_from_slice(&entry.said));
}

fn delivered_to_bytes(entry: &Delivered) -> DeliveredBytes {
    DeliveredBytes {
        event: U64::new(entry.event.0),
        time: U64::new(entry.time.0),
        tags: U64::new(entry.tags.0),
        fragments: U32::new(entry.fragments),
        missing: U32::new(entry.missing),
        said: count(entry.said.len()),
        trigger_type: U16::new(entry.trigger_type.0),
        attempt: U16::new(entry.attempt),
        flags: U32::new(flag(entry.incomplete, INCOMPLETE) | flag(entry.more, MORE)),
        reserved: U32::ZERO,
    }
}

pub(super) fn parse<P: Payload>(
    bytes: &[u8],
    payload_bytes: u64,
    payload: &mut impl PayloadSource<P>,
) -> Result<Delivery<P>, DecodeError> {
    let (sizes, rest) = split::<DeliveryBytes>(bytes)?;
    let (entries, rest) = split_list::<DeliveredBytes>(rest, sizes.entries.get())?;
    let (fragments, rest) = split_list::<FragmentBytes>(rest, sizes.fragments.get())?;
    let (missing, rest) = split_list::<MissingBytes>(rest, sizes.missing.get())?;
    let (said, rest) = split_list::<u8>(rest, sizes.said.get())?;
    if !rest.is_empty() {
        return Err(DecodeError::TrailingBytes(rest.len()));
    }
    let sum = |of: fn(&DeliveredBytes) -> u32| entries.iter().map(|entry| u64::from(of(entry))).sum::<u64>();
    for (field, total, there) in [
        ("delivered fragments", sum(|entry| entry.fragments.get()), fragments.len()),
        ("delivered missing sources", sum(|entry| entry.missing.get()), missing.len()),
        ("delivered verdicts", sum(|entry| entry.said.get()), said.len()),
    ] {
        if total != there as u64 {
            return bad(field, total);
        }
    }
    let described: u64 = fragments.iter().map(|fragment| u64::from(fragment.length.get())).sum();
    if described != payload_bytes {
        return Err(DecodeError::WrongPayloadLength { declared: described, have: payload_bytes });
    }
    let missing = parse_each(missing)?;
    let mut delivery = Delivery {
        entries: Vec::with_capacity(entries.len()),
        fragments: Vec::with_capacity(fragments.len()),
        missing,
    };
    let (mut descriptors, mut said) = (fragments.iter(), said);
    for (index, bytes) in entries.iter().enumerate() {
        let (own, others) = said.split_at(bytes.said.get() as usize);
        said = others;
        let entry = parse_delivered(bytes, own)?;
        if entry.more && index + 1 < entries.len() {
            return bad("delivered flags", bytes.flags.get());
        }
        for descriptor in descriptors.by_ref().take(bytes.fragments.get() as usize) {
            delivery.fragments.push(parse_fragment(entry.event, descriptor, payload)?);
        }
        delivery.entries.push(entry);
    }
    Ok(delivery)
}

fn parse_delivered(bytes: &DeliveredBytes, said: &[u8]) -> Result<Delivered, DecodeError> {
    let flags = bytes.flags.get();
    if flags > (INCOMPLETE | MORE) {
        return bad("delivered flags", flags);
    }
    if said.len() > MAX_VERDICT_PAYLOAD_BYTES {
        return bad("delivered verdicts", said.len() as u64);
    }
    Ok(Delivered {
        event: EventId(bytes.event.get()),
        time: Timestamp(bytes.time.get()),
        trigger_type: TriggerType(bytes.trigger_type.get()),
        attempt: bytes.attempt.get(),
        incomplete: flags & INCOMPLETE != 0,
        tags: Tags(bytes.tags.get()),
        said: Bytes::copy_from_slice(said),
        fragments: bytes.fragments.get(),
        missing: bytes.missing.get(),
        more: flags & MORE != 0,
    })
}

/// Returns the size of the head behind its header.
pub(super) fn receipt_bytes(receipt: &Receipt) -> usize {
    size_of::<ReceiptBytes>() + bytes_of(&receipt.entries)
}

pub(super) fn emit_receipt(head: &mut Vec<u8>, receipt: &Receipt) {
    let fixed = ReceiptBytes {
        events: U64::new(receipt.events),
        bytes: U64::new(receipt.bytes.0),
        entries: count(receipt.entries.len()),
        flags: U32::new(u32::from(receipt.behind)),
    };
    head.extend_from_slice(fixed.as_bytes());
    emit_all(head, &receipt.entries);
}

pub(super) fn parse_receipt(bytes: &[u8]) -> Result<Receipt, DecodeError> {
    let (fixed, rest) = split::<ReceiptBytes>(bytes)?;
    let flags = fixed.flags.get();
    if flags > 1 {
        return bad("receipt flags", flags);
    }
    let entries: Vec<ReceiptEntry> = parse_all(rest)?;
    if entries.len() as u64 != u64::from(fixed.entries.get()) {
        return bad("receipt entries", fixed.entries.get());
    }
    let bytes = ByteCount(fixed.bytes.get());
    Ok(Receipt { events: fixed.events.get(), bytes, behind: flags == 1, entries })
}

impl Entry for ReceiptEntry {
    type Bytes = ReceivedBytes;
    fn emit(&self) -> ReceivedBytes {
        ReceivedBytes {
            first: U64::new(self.first),
            place: U64::new(self.place.unwrap_or(0)),
            count: U32::new(self.count),
            flags: U32::new(flag(self.place.is_none(), LEFT_OUT)),
        }
    }
    fn parse(bytes: &ReceivedBytes) -> Result<Self, DecodeError> {
        let (flags, place) = (bytes.flags.get(), bytes.place.get());
        if flags > LEFT_OUT || (flags == LEFT_OUT && place != 0) {
            return bad("receipt entry flags", flags);
        }
        let place = (flags == 0).then_some(place);
        Ok(Self { first: bytes.first.get(), count: parse_count(bytes.count.get())?, place })
    }
}

impl Entry for Kept {
    type Bytes = KeptBytes;
    fn emit(&self) -> KeptBytes {
        KeptBytes {
            session: U64::new(self.session.0),
            first: U64::new(self.first),
            count: U32::new(self.count),
            output: U16::new(self.output),
            reserved: U16::ZERO,
        }
    }
    fn parse(bytes: &KeptBytes) -> Result<Self, DecodeError> {
        Ok(Self {
            output: bytes.output.get(),
            session: SessionId(bytes.session.get()),
            first: bytes.first.get(),
            count: parse_count(bytes.count.get())?,
        })
    }
}
