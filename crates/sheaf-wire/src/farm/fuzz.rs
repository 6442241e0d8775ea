//! The body of the fuzz target for messages between a dispatcher and its processors.

use super::{
    BEHIND_RECORD, CLOSE_RECORD, FromDispatcher, FromProcessor, Hello, PayloadPlace, Times, Welcome,
    WordReader, decode_from_dispatcher, encode_event, split_words,
};
use crate::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use crate::{
    Event, EventId, Fragment, MissingReason, MissingSource, Nanos, NodeId, NumberMark, RunNumber, SourceId,
    Tags, Timestamp, TriggerType, Verdict,
};
use bytes::Bytes;

/// Decodes `bytes` as each kind of message: the first byte selects it. A decoded message must be the same after
/// encoding, as far as its encoding is unique.
///
/// # Panics
/// If a parser violates its contract.
pub fn fuzz_farm(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 4 {
        0 => from_dispatcher(bytes),
        1 => from_processor(bytes),
        2 => {
            if let Ok(welcome) = Welcome::read(bytes) {
                assert_eq!(
                    Welcome::read(&welcome.emit()),
                    Ok(welcome),
                    "a welcome is read as it was written"
                );
            }
        }
        _ => {
            if let Ok(hello) = Hello::read(bytes) {
                assert_eq!(hello.emit(), bytes, "a greeting is written as it was read");
            }
        }
    }
}

/// Two bytes of the length of the record, the record, and the payload behind it.
fn from_dispatcher(bytes: &[u8]) {
    let Some((length, frame)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(frame.len());
    let (record, payload) = frame.split_at(length);
    let payload = Bytes::copy_from_slice(payload);
    let mut fetched = 0_u64;
    let fetch = |place: PayloadPlace, length: u32| {
        let start = usize::try_from(place.offset).map_err(|_| "far")?;
        let end = start.checked_add(length as usize).filter(|end| *end <= payload.len()).ok_or("outside")?;
        fetched += u64::from(length);
        if place.segment == BEHIND_RECORD { Ok(payload.slice(start..end)) } else { Err("elsewhere") }
    };
    match decode_from_dispatcher(record, Vec::new(), fetch) {
        Ok(FromDispatcher::Event(ticket, event)) => {
            assert!(event.fragments.len() * 40 < record.len(), "there are no more than there is room for");
            assert_eq!(fetched, event.payload_bytes());
            let (again, payload) = frame_of(ticket, &event);
            let fetch = |place: PayloadPlace, length: u32| -> Result<Bytes, ()> {
                let start = usize::try_from(place.offset).map_err(|_| ())?;
                payload.get(start..start + length as usize).map(Bytes::copy_from_slice).ok_or(())
            };
            let read = decode_from_dispatcher(&again, Vec::new(), fetch);
            assert_eq!(read, Ok(FromDispatcher::Event(ticket, event)), "an event is read as it was written");
        }
        Ok(FromDispatcher::Close) => assert_eq!(record, CLOSE_RECORD),
        Err(error) => assert!(!error.to_string().is_empty(), "an error says what is wrong"),
    }
}

/// A frame of any number of records.
fn from_processor(mut frame: &[u8]) {
    let mut reader = WordReader::default();
    while !frame.is_empty() {
        let Ok((record, rest)) = split_words(frame) else { return };
        assert!(rest.len() < frame.len(), "every record moves on");
        frame = rest;
        match reader.read(record) {
            Err(_) => return,
            Ok(None) => {}
            Ok(Some(word)) => {
                if let FromProcessor::Verdict(_, verdict) = &word {
                    assert!(verdict.payload.len() <= MAX_VERDICT_PAYLOAD_BYTES);
                }
                let mut again = WordReader::default();
                let mut read = Ok(None);
                word.emit(|head, content| read = again.read(&[head, content].concat()));
                assert_eq!(read, Ok(Some(word)), "a word is read as it was written");
            }
        }
    }
}

/// An event's record, and the payload behind it.
fn frame_of(ticket: u64, event: &Event<Bytes>) -> (Vec<u8>, Vec<u8>) {
    let (mut record, mut payload) = (Vec::new(), Vec::new());
    let place = |bytes: &Bytes| -> Result<PayloadPlace, std::convert::Infallible> {
        let place = PayloadPlace { segment: BEHIND_RECORD, offset: payload.len() as u64 };
        payload.extend_from_slice(bytes);
        Ok(place)
    };
    let Ok(()) = encode_event(&mut record, ticket, event, place);
    (record, payload)
}

/// Some inputs, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let fragment = |source: u32, payload: &'static [u8]| Fragment {
        event: EventId(1),
        source: SourceId(source),
        time: Timestamp(3),
        checksum: (source == 0).then_some(7),
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::from_static(payload),
    };
    let event = Event {
        id: EventId(1),
        time: Timestamp(2),
        trigger_type: TriggerType(4),
        attempt: 1,
        incomplete: true,
        fragments: vec![fragment(0, b"pay"), fragment(1, b""), fragment(2, b"load")],
        missing: vec![MissingSource { source: SourceId(3), reason: MissingReason::SourceSilent }],
    };
    let (record, payload) = frame_of(5, &event);
    let length = (record.len() as u16).to_le_bytes();
    let words = [
        FromProcessor::Ask(32),
        FromProcessor::Verdict(5, Verdict::accept().with_tags(Tags(1)).with_payload(&b"said"[..])),
        FromProcessor::Verdict(6, Verdict::accept().with_payload(vec![7; super::MAX_PART_BYTES + 1])),
        FromProcessor::Failed(7, "no calibration".into()),
        FromProcessor::Times(Times { judged: 3, filter: Nanos(10), worker: Nanos(20), idle: Nanos(5) }),
        FromProcessor::Leave,
    ];
    let mut frame = vec![1];
    words.iter().for_each(|word| word.emit(|head, content| frame.extend([head, content].concat())));
    let welcome = Welcome {
        run: RunNumber(7),
        node: NodeId::builder(3),
        tags: vec!["muon".into(), "jet".into()],
        configuration: "[run]\n".into(),
    };
    let hello = Hello { process: 17, host: "farm17".into() };
    vec![
        ("event".into(), [&[0][..], &length, &record, &payload].concat()),
        ("close".into(), [&[0, 1, 0][..], &CLOSE_RECORD].concat()),
        ("words".into(), frame),
        ("welcome".into(), [vec![2], welcome.emit()].concat()),
        ("hello".into(), [vec![3], hello.emit()].concat()),
    ]
}
