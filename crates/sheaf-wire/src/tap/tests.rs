use super::*;
use crate::{
    EventId, Fragment, MissingReason, MissingSource, NodeId, NumberMark, RunNumber, SessionId, Timestamp,
    TriggerType,
};
use proptest::prelude::*;

fn parse(bytes: &[u8]) -> Result<Frame, TapError> {
    let head: [u8; FRAME_BYTES] = bytes[..FRAME_BYTES].try_into().unwrap();
    FrameHead::parse(&head)?.parse_body(&Bytes::copy_from_slice(&bytes[FRAME_BYTES..]))
}

fn event() -> impl Strategy<Value = (Event<Bytes>, Verdict, u64)> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..50).prop_map(Bytes::from);
    let payloads = proptest::collection::vec(payload(), 0..5);
    (any::<(u64, u64, u16, u16, bool, u64, u64)>(), payloads, payload()).prop_map(
        |(numbers, payloads, said)| {
            let (id, time, trigger_type, attempt, incomplete, tags, sequence) = numbers;
            let fragment = |(source, payload): (u32, Bytes)| Fragment {
                event: EventId(id),
                source: SourceId(source),
                time: Timestamp(time ^ 5),
                checksum: Some(crc32c(&payload)),
                processed: time % 3 == 1,
                mark: NumberMark::renumbered(time as i64 % 5),
                payload,
            };
            let event = Event {
                id: EventId(id),
                time: Timestamp(time),
                trigger_type: TriggerType(trigger_type),
                attempt,
                incomplete,
                fragments: (0..).zip(payloads).map(fragment).collect(),
                missing: vec![MissingSource { source: SourceId(99), reason: MissingReason::SourceSilent }],
            };
            (event, Verdict::accept().with_tags(Tags(tags)).with_payload(said), sequence)
        },
    )
}

fn header() -> FileHeader {
    FileHeader {
        run: RunNumber(7),
        node: NodeId::builder(2),
        session: SessionId(99),
        part: 0,
        created: Timestamp(1_700_000_000_000_000_000),
        time_base: None,
    }
}

proptest! {
    #[test]
    fn an_event_is_the_same_behind_the_wire((event, verdict, sequence) in event()) {
        let bytes = emit_event_frame(&event, &verdict, sequence).unwrap();
        prop_assert_eq!(bytes.len() as u64, event_frame_bytes(&event, &verdict));
        prop_assert_eq!(parse(&bytes), Ok(Frame::Event(StoredEvent { event, verdict, sequence })));
    }

    #[test]
    fn what_is_asked_for_is_understood(tags: u64, prescale: u32, interval: u64, name in "[^\u{0}]{0,20}") {
        let selection = Selection { tags: Tags(tags), prescale, interval: Nanos(interval) };
        let told = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
        let expected = Frame::Subscribe(selection, told.to_owned());
        prop_assert_eq!(parse(&emit_subscribe(&selection, &name)), Ok(expected));
    }

    #[test]
    fn counts_are_the_same_behind_the_wire(n: [u64; 7]) {
        let counts = Counts {
            seen: n[0], taken: n[1], other_tags: n[2], prescaled: n[3], over_rate: n[4], queue_full: n[5], over_budget: n[6],
        };
        prop_assert_eq!(parse(&emit_status(&counts)), Ok(Frame::Status(counts)));
        for reason in [EndReason::BuilderEnded, EndReason::Full] {
            prop_assert_eq!(parse(&emit_end(reason, &counts)), Ok(Frame::End(reason, counts)));
        }
    }

    /// One flipped bit is never taken for something else.
    #[test]
    fn a_damaged_frame_is_refused((event, verdict, sequence) in event(), at: prop::sample::Index, bit in 0_u8..8) {
        for bytes in [
            emit_event_frame(&event, &verdict, sequence).unwrap(),
            emit_welcome(&header(), r#"{"tags":["muon"]}"#).unwrap(),
            emit_subscribe(&Selection::default(), "someone"),
            emit_end(EndReason::BuilderEnded, &Counts::default()),
        ] {
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(parse(&damaged).is_err());
        }
    }
}

#[test]
fn a_welcome_is_what_an_event_file_begins_with() {
    let bytes = emit_welcome(&header(), r#"{"tags":["muon"]}"#).unwrap();
    assert_eq!(bytes[FRAME_BYTES..], header().emit(r#"{"tags":["muon"]}"#).unwrap());
    assert_eq!(parse(&bytes), Ok(Frame::Welcome(header(), r#"{"tags":["muon"]}"#.to_owned())));
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_anything_is_read() {
    let mut bytes = emit_status(&Counts::default());
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(
        parse(&bytes),
        Err(TapError::Frame(LinkFrameError::WrongLength { bytes: u32::MAX, .. }))
    ));
}
