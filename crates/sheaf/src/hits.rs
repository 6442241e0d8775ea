//! Described packets of hits, made from the configuration.

use crate::described::{field, mark};
use anyhow::{Context, bail};
use sheaf_config as conf;
use sheaf_source::described::field::Field;
use sheaf_source::timed::{CardNumber, HitDescription, HitRecords, RecordKinds, TimeFields};
use sheaf_wire::SourceId;
use std::sync::Arc;

/// Returns a decoder of described packets of hits.
///
/// # Errors
/// If a field of a record is said to be in the header, or a field is not in its header or record.
pub(crate) fn decoder(source: &conf::Source) -> anyhow::Result<HitRecords> {
    HitRecords::new(Arc::new(layout(source)?)).context("[source.hits] describes no packet")
}

/// Returns a decoder of the heads of packets whose hits a library finds. `None`: nothing of them is described, and all are of one card.
///
/// # Errors
/// If a field of the header is invalid.
pub(crate) fn heads(source: &conf::Source) -> anyhow::Result<HitRecords> {
    let hits = &source.hits;
    // A record of one byte, which is not read.
    let any = conf::Field {
        bits: 8,
        is_little_endian: false,
        is_in_packet: false,
        offset: 0,
        mask: None,
        shift: 0,
    };
    let only_head = conf::Hits {
        magic: hits.magic.clone(),
        card: hits.card,
        packet_number: hits.packet_number,
        header: hits.header,
        record: Some(1),
        time: Some(any),
        ..conf::Hits::default()
    };
    decoder(&conf::Source { hits: only_head, ..source.clone() })
}

fn layout(source: &conf::Source) -> anyhow::Result<HitDescription> {
    let hits = &source.hits;
    let of_record = [hits.time, hits.fine, hits.channel, hits.value, hits.extra, hits.kind];
    if let Some(field) = of_record.into_iter().flatten().find(|field| field.is_in_packet) {
        bail!(
            "`{field}` in [source.hits] is a field of a record, and counts from its beginning; write it without `packet`"
        );
    }
    let maybe = |described: Option<conf::Field>| described.map(field);
    let kinds = |kinds: &[u32]| kinds.iter().copied().map(u64::from).collect();
    let mut layout = HitDescription {
        magic: hits.magic.iter().map(mark).collect(),
        card: match (hits.card, &source.timed.cards[..]) {
            (Some(card), _) => CardNumber::In(field(card)),
            (None, [card, ..]) => CardNumber::Always(*card),
            (None, []) => CardNumber::Always(SourceId(0)),
        },
        packet_number: maybe(hits.packet_number),
        header_bytes: 0,
        record_bytes: hits.record.context("`source.hits.record_bytes` is not set")? as usize,
        kinds: maybe(hits.kind).map(|field| RecordKinds {
            field,
            hits: kinds(&hits.hit_kinds),
            markers: kinds(&hits.marker_kinds),
            pulses: kinds(&hits.pulse_kinds),
            resets: kinds(&hits.reset_kinds),
        }),
        time: TimeFields {
            base: maybe(hits.base),
            coarse: field(hits.time.context("`source.hits.time` is not set")?),
            fine: maybe(hits.fine),
        },
        channel: maybe(hits.channel),
        value: maybe(hits.value),
        extra: maybe(hits.extra),
    };
    layout.header_bytes = hits.header.map_or_else(|| end_of_header(&layout), |bytes| bytes as usize);
    Ok(layout)
}

/// Returns the bytes of a header that ends with its last field or mark.
fn end_of_header(layout: &HitDescription) -> usize {
    let fields = [layout.card.field(), layout.packet_number, layout.time.base].into_iter().flatten();
    let marks = layout.magic.iter().map(|mark| mark.offset + mark.bytes.len());
    fields.map(|field: Field| field.range().end).chain(marks).max().unwrap_or(0)
}
