//! Messages without payload as values of `serde`, in the bytes that they have on the wire.

use super::codec::NoPayload;
use super::{Body, Header, Message};
use crate::{NodeId, Payload, RunNumber, SessionId, Term};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Header of a message of which only the body counts. No session is zero.
const BODY_ONLY: Header = Header {
    sender: NodeId::MANAGER,
    run: RunNumber(0),
    session: SessionId(1),
    sequence: 0,
    acknowledged: 0,
    acknowledged_session: SessionId(0),
    term: Term(0),
};

impl<P: Payload> Serialize for Message<P> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut head = Vec::new();
        let mut payload_bytes = 0;
        self.clone().encode(&mut head, |piece| payload_bytes += piece.len());
        if payload_bytes > 0 {
            return Err(S::Error::custom("a message with payload is no part of a state"));
        }
        to.serialize_bytes(&head)
    }
}

impl<'de, P: Payload> Deserialize<'de> for Message<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let head = <&[u8]>::deserialize(from)?;
        Self::decode(head, &mut NoPayload).map_err(D::Error::custom)
    }
}

impl<P: Payload> Serialize for Body<P> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Message { header: BODY_ONLY, body: self.clone() }.serialize(to)
    }
}

impl<'de, P: Payload> Deserialize<'de> for Body<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Message::deserialize(from).map(|message| message.body)
    }
}
