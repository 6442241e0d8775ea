//! Inputs of the event manager as bytes.

use super::{body, encode, header};
use crate::message::{Body, DecodeError, Input, Message, Orders, SuperFragments};
use crate::{Nanos, NodeId, SessionId, SourceId, Timestamp};
use bytes::Bytes;
use proptest::prelude::*;

fn orders() -> impl Strategy<Value = Orders> {
    let codes = || prop::collection::vec(any::<u16>(), 0..4);
    (any::<[bool; 3]>(), codes(), codes()).prop_map(|([hold, pause, changed], sources, nodes)| {
        let sources = sources.into_iter().map(|source| SourceId(source.into())).collect();
        let nodes = nodes.into_iter().map(NodeId::builder).collect();
        Orders { hold, pause, exclusions: changed.then_some((sources, nodes)) }
    })
}

fn input() -> impl Strategy<Value = Input<Bytes>> {
    let has_no_payload = |body: &Body<Bytes>| !matches!(body, Body::SuperFragments(_) | Body::Delivery(_));
    prop_oneof![
        any::<[u64; 2]>().prop_map(|[now, stall]| Input::Round { now: Timestamp(now), stall: Nanos(stall) }),
        (header(), body().prop_filter("no payload", has_no_payload))
            .prop_map(|(header, body)| Input::Message(Box::new(Message { header, body }))),
        (any::<u16>(), any::<bool>())
            .prop_map(|(index, up)| Input::Link { node: NodeId::readout(index), up }),
        orders().prop_map(Input::Orders),
        Just(Input::Stop),
        any::<u32>().prop_map(Input::Digest),
        (any::<u64>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(manager, is_last, bytes)| Input::Snapshot {
                manager: SessionId(manager),
                is_last,
                bytes: bytes.into()
            }
        ),
        Just(Input::Admitted),
        Just(Input::Dismissed),
        Just(Input::StepsDown),
    ]
}

fn decode(head: &[u8]) -> Result<Message<Bytes>, DecodeError> {
    Message::decode(head, &mut Bytes::new())
}

proptest! {
    #[test]
    fn bodies_without_payload_are_part_of_a_state(body in body()) {
        if !body.kind().has_payload() {
            let bytes = postcard::to_allocvec(&body).expect("it can be written");
            prop_assert_eq!(postcard::from_bytes::<Body<Bytes>>(&bytes), Ok(body));
        }
    }

    #[test]
    fn inputs_survive_encoding(header in header(), inputs in prop::collection::vec(input(), 0..6)) {
        let message = Message { header, body: Body::Inputs(inputs) };
        let (head, payload) = encode(message.clone());
        prop_assert!(payload.is_empty());
        prop_assert_eq!(decode(&head), Ok(message));
    }
}

#[test]
fn inputs_within_inputs_and_payloads_are_refused() {
    let message = |body| Message::<Bytes> { header: super::plain_header(), body };
    let inner = message(Body::Inputs(vec![Input::Stop]));
    let (head, _) = encode(message(Body::Inputs(vec![Input::Message(Box::new(inner))])));
    let refused = DecodeError::BadValue { field: "kind of a message as input", value: 28 };
    assert_eq!(decode(&head), Err(refused));
    let empty = SuperFragments { entries: Vec::new(), fragments: Vec::new(), missing: Vec::new() };
    let empty = Body::SuperFragments(empty);
    let (head, _) = encode(message(Body::Inputs(vec![Input::Message(Box::new(message(empty)))])));
    assert!(matches!(decode(&head), Err(DecodeError::BadValue { value: 6, .. })));
}
