//! Inputs of a readout unit, and steps of mirrors, as bytes.

use super::{body, encode, header};
use crate::message::{Body, DecodeError, Message, MirrorStep, UnitInput};
use crate::{EventId, Fragment, Nanos, NodeId, NumberMark, SessionId, SourceId, Timestamp};
use bytes::Bytes;
use proptest::prelude::*;

fn fragment() -> impl Strategy<Value = Fragment<Bytes>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    (any::<[u64; 2]>(), any::<u32>(), any::<Option<u32>>(), bytes).prop_map(
        |([event, time], source, checksum, bytes)| Fragment {
            event: EventId(event),
            source: SourceId(source),
            time: Timestamp(time),
            checksum,
            processed: false,
            mark: NumberMark::NONE,
            payload: bytes.into(),
        },
    )
}

fn input() -> impl Strategy<Value = UnitInput<Bytes>> {
    let has_no_payload = |body: &Body<Bytes>| !matches!(body, Body::SuperFragments(_) | Body::Delivery(_));
    let fragments = (any::<u16>(), prop::collection::vec(fragment(), 0..4));
    prop_oneof![
        any::<[u64; 2]>()
            .prop_map(|[now, stall]| UnitInput::Round { now: Timestamp(now), stall: Nanos(stall) }),
        (header(), body().prop_filter("no payload", has_no_payload))
            .prop_map(|(header, body)| UnitInput::Message(Box::new(Message { header, body }))),
        (any::<u16>(), any::<bool>())
            .prop_map(|(index, up)| UnitInput::Link { node: NodeId::builder(index), up }),
        fragments.prop_map(|(source, fragments)| UnitInput::Fragments { source, fragments }),
        any::<u16>().prop_map(|source| UnitInput::Offer { source }),
        any::<u16>().prop_map(|source| UnitInput::SourceEnd { source }),
        prop::collection::vec(any::<u16>(), 0..4).prop_map(UnitInput::Answers),
        prop::option::of(any::<u32>()).prop_map(|digest| UnitInput::End { digest }),
    ]
}

fn step() -> impl Strategy<Value = MirrorStep> {
    let session = || any::<u64>().prop_map(SessionId);
    prop_oneof![
        Just(MirrorStep::StrikeOff),
        Just(MirrorStep::Alone),
        session().prop_map(MirrorStep::TakeOver),
        session().prop_map(MirrorStep::Granted),
        Just(MirrorStep::Superseded),
        Just(MirrorStep::StruckOff),
    ]
}

proptest! {
    #[test]
    fn inputs_of_a_unit_survive_encoding(header in header(), inputs in prop::collection::vec(input(), 0..6)) {
        let message = Message { header, body: Body::UnitInputs(inputs) };
        let (head, mut payload) = encode(message.clone());
        prop_assert_eq!(Message::decode(&head, &mut payload), Ok(message));
    }

    #[test]
    fn steps_of_a_mirror_survive_encoding(header in header(), step in step()) {
        let message = Message { header, body: Body::<Bytes>::Mirror(step) };
        let (head, mut payload) = encode(message.clone());
        prop_assert_eq!(Message::decode(&head, &mut payload), Ok(message));
    }

    /// The payload must be all that the head describes.
    #[test]
    fn a_payload_that_is_cut_is_refused(fragments in prop::collection::vec(fragment(), 1..4)) {
        let inputs = vec![UnitInput::Fragments { source: 0, fragments }];
        let (head, payload) = encode(Message { header: super::plain_header(), body: Body::UnitInputs(inputs) });
        prop_assume!(!payload.is_empty());
        let decoded: Result<Message<Bytes>, _> = Message::decode(&head, &mut payload.slice(1..));
        let is_refused = matches!(decoded, Err(DecodeError::WrongPayloadLength { .. }));
        prop_assert!(is_refused);
    }
}

#[test]
fn inputs_within_inputs_are_refused() {
    let message = |body| Message::<Bytes> { header: super::plain_header(), body };
    let inner = message(Body::UnitInputs(vec![UnitInput::End { digest: None }]));
    let (head, _) = encode(message(Body::UnitInputs(vec![UnitInput::Message(Box::new(inner))])));
    let decoded = Message::<Bytes>::decode(&head, &mut Bytes::new());
    assert_eq!(decoded, Err(DecodeError::BadValue { field: "kind of a message as input", value: 30 }));
}
