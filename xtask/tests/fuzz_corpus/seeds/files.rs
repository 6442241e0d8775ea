//! Fragment streams and event files.

use super::Dice;
use bytes::Bytes;
use sheaf_store::fragment_stream::StreamWriter;
use sheaf_wire::event_file::{FileHeader, IndexEntryBytes, RecordKind, RunRecord, emit_event, emit_index};
use sheaf_wire::shift_record::{ShiftPolicy, ShiftRecord};
use sheaf_wire::stream_file::StreamHeader;
use sheaf_wire::{
    Event, EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, RunNumber, SessionId,
    SourceId, Tags, TimeBase, TimeUnit, Timestamp, TriggerType, UtcTime, Verdict,
};

const METADATA: &str = r#"{"detector":"emulated","unit":"ns"}"#;

/// Streams with and without ids, times, metadata, fragments and trailer.
pub(crate) fn fragment_streams(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, ids, times, records, ends) in [
        ("both", true, true, 6, true),
        ("ids", true, false, 4, true),
        ("times", false, true, 4, true),
        ("empty", true, true, 0, true),
        ("one", true, true, 1, true),
        ("unfinished", true, true, 5, false),
        ("long", true, true, 30, true),
        ("time-base", true, true, 2, true),
    ] {
        let header = StreamHeader {
            source: SourceId(1),
            run: RunNumber(7),
            has_events: ids,
            has_times: times,
            time_base: (name == "time-base").then(time_base),
        };
        let mut bytes = Vec::new();
        let metadata = if records % 2 == 0 { METADATA } else { "{}" };
        let mut writer =
            StreamWriter::new(&mut bytes, "seed", header, metadata).expect("memory can be written");
        for number in 0..records {
            let length = dice.below(if records > 10 { 20 } else { 120 });
            let fragment = fragment(dice, EventId(10 + number), SourceId(1), length);
            writer.append(&fragment).expect("memory can be written");
        }
        if ends {
            writer.finish().expect("memory can be written");
        } else {
            drop(writer);
        }
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

/// Ticks of 640 MHz since the beginning of 2026.
fn time_base() -> TimeBase {
    let unit = TimeUnit::from_fraction(25, 16).expect("neither is zero");
    TimeBase { unit, epoch: Some(UtcTime::from_nanos(1_767_225_600_000_000_000)) }
}

fn fragment(dice: &mut Dice, event: EventId, source: SourceId, bytes: usize) -> Fragment<Bytes> {
    let payload = Bytes::from(dice.bytes(bytes));
    Fragment {
        event,
        source,
        time: Timestamp(event.0 * 1000),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload,
    }
}

/// Event files closed and not, with complete, incomplete and empty events, and with run records.
pub(crate) fn event_files(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, events, sources, records, closed) in [
        ("closed", 4, 3, 0, true),
        ("open", 4, 3, 0, false),
        ("empty", 0, 3, 0, true),
        ("no-footer", 0, 3, 0, false),
        ("one", 1, 1, 0, true),
        ("many", 20, 2, 0, true),
        ("wide", 2, 12, 0, true),
        ("records", 2, 2, 4, true),
        ("records-open", 1, 1, 2, false),
        ("time-base", 2, 1, 0, true),
    ] {
        let header = FileHeader {
            run: RunNumber(7),
            node: NodeId::builder(2),
            session: SessionId(5),
            part: 0,
            created: Timestamp(1_700_000_000_000_000_000),
            time_base: (name == "time-base").then(time_base),
        };
        let mut bytes = header.emit(METADATA).expect("the metadata is short");
        let (mut index, mut record_index) = (Vec::new(), Vec::new());
        for number in 0..records {
            let record = record(dice, number);
            record_index.push(IndexEntryBytes::of_record(record.number, bytes.len() as u64));
            record.emit(&mut bytes).expect("the record is small");
        }
        for number in 0..events {
            index.push(IndexEntryBytes::new(EventId(number), bytes.len() as u64));
            let event = event(dice, EventId(number), sources);
            // Every other event has tags and something that the filter says of it.
            let said = dice.bytes(if number % 2 == 1 { 9 } else { 0 });
            let verdict = Verdict::accept().with_tags(Tags(number * number)).with_payload(said);
            emit_event(&event, &verdict, number, &mut bytes).expect("the fragments are small");
            event.fragments.iter().for_each(|fragment| bytes.extend_from_slice(&fragment.payload));
        }
        if closed {
            close(&mut bytes, &index, &record_index);
        }
        seeds.push((name.to_owned(), bytes));
    }
    seeds
}

/// A run record of each kind in turn.
fn record(dice: &mut Dice, number: u64) -> RunRecord {
    let kind = RecordKind::ALL[number as usize % RecordKind::ALL.len()];
    if kind == RecordKind::Shift {
        let shift = ShiftRecord {
            index: number as u32,
            source: SourceId(number as u32),
            quantity: "number".to_owned(),
            first: EventId(5_000),
            shift: -2,
            repaired_from: Some(EventId(5_116)),
            policy: ShiftPolicy::Repair,
        };
        return shift.to_run_record(Timestamp(1_700_000_000_000_000_000));
    }
    RunRecord {
        number,
        source: SourceId(number as u32),
        kind,
        time: Timestamp(1_700_000_000_000_000_000 + number),
        name: format!("{kind:?}"),
        content: dice.bytes(20 * number as usize).into(),
    }
}

fn close(bytes: &mut Vec<u8>, index: &[IndexEntryBytes], records: &[IndexEntryBytes]) {
    let (header, footer) = emit_index(index, records, bytes.len() as u64);
    bytes.extend_from_slice(zerocopy::IntoBytes::as_bytes(&header));
    bytes.extend_from_slice(zerocopy::IntoBytes::as_bytes(index));
    bytes.extend_from_slice(zerocopy::IntoBytes::as_bytes(records));
    bytes.extend_from_slice(zerocopy::IntoBytes::as_bytes(&footer));
}

/// An event of which every third lacks its first source.
fn event(dice: &mut Dice, id: EventId, sources: u32) -> Event<Bytes> {
    let first = u32::from(id.0 % 3 == 2);
    let reason = MissingReason::ALL[id.0 as usize % MissingReason::ALL.len()];
    let fragments = (first..sources).map(|source| {
        let length = dice.below(80);
        fragment(dice, id, SourceId(source), length)
    });
    Event {
        id,
        time: Timestamp(id.0 * 25),
        trigger_type: TriggerType(1),
        attempt: 1,
        incomplete: first == 1,
        fragments: fragments.collect(),
        missing: (0..first).map(|source| MissingSource { source: SourceId(source), reason }).collect(),
    }
}
