//! Bytes of the inputs of the event manager.

use super::super::layout::{HeaderBytes, InputBytes, Kind};
use super::super::{Input, Message, Orders};
use super::{DecodeError, NoPayload, check_header, split};
use crate::{Nanos, NodeId, Payload, SessionId, SourceId, Timestamp};
use bytes::Bytes;
use std::mem::size_of;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

const ROUND: u8 = 1;
const MESSAGE: u8 = 2;
const LINK: u8 = 3;
const ORDERS: u8 = 4;
const STOP: u8 = 5;
const DIGEST: u8 = 6;
const SNAPSHOT: u8 = 7;
const ADMITTED: u8 = 8;
const DISMISSED: u8 = 9;
const STEPS_DOWN: u8 = 10;

/// Flags of a link.
const UP: u8 = 1;

/// Flags of a piece of a snapshot.
const LAST: u8 = 1;

/// Flags of orders.
const HOLD: u8 = 1;
const PAUSE: u8 = 2;
const EXCLUSIONS: u8 = 4;

/// Returns the size of the inputs.
pub(super) fn bytes_of<P>(inputs: &[Input<P>]) -> usize {
    inputs.iter().map(|input| size_of::<InputBytes>() + content_bytes(input)).sum()
}

fn content_bytes<P>(input: &Input<P>) -> usize {
    match input {
        Input::Round { .. } => 8,
        Input::Message(message) => size_of::<HeaderBytes>() + message.body.head_bytes(),
        Input::Orders(Orders { exclusions: Some((sources, nodes)), .. }) => 4 * (sources.len() + nodes.len()),
        Input::Snapshot { bytes, .. } => bytes.len(),
        Input::Link { .. }
        | Input::Orders(_)
        | Input::Stop
        | Input::Digest(_)
        | Input::Admitted
        | Input::StepsDown
        | Input::Dismissed => 0,
    }
}

/// Appends the inputs.
pub(super) fn emit<P: Payload>(head: &mut Vec<u8>, inputs: Vec<Input<P>>) {
    for input in inputs {
        let content_bytes = content_bytes(&input);
        let fixed = InputBytes {
            content_bytes: U32::new(u32::try_from(content_bytes).unwrap_or(u32::MAX)),
            ..fixed(&input)
        };
        head.extend_from_slice(fixed.as_bytes());
        match input {
            Input::Round { stall, .. } => head.extend_from_slice(&stall.0.to_le_bytes()),
            Input::Message(message) => emit_message(head, *message, content_bytes),
            Input::Orders(Orders { exclusions: Some((sources, nodes)), .. }) => {
                let codes =
                    sources.iter().map(|source| source.0).chain(nodes.iter().map(|node| node.to_code()));
                codes.for_each(|code| head.extend_from_slice(&code.to_le_bytes()));
            }
            Input::Snapshot { bytes, .. } => head.extend_from_slice(&bytes),
            Input::Link { .. }
            | Input::Orders(_)
            | Input::Stop
            | Input::Digest(_)
            | Input::Admitted
            | Input::StepsDown
            | Input::Dismissed => {}
        }
    }
}

/// Returns the fixed part of an input.
fn fixed<P>(input: &Input<P>) -> InputBytes {
    let (kind, flags, value) = match input {
        Input::Round { now, .. } => (ROUND, 0, now.0),
        Input::Message(_) => (MESSAGE, 0, 0),
        Input::Link { node, up } => (LINK, u8::from(*up) * UP, u64::from(node.to_code())),
        Input::Orders(Orders { hold, pause, exclusions }) => {
            let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
            let flags = flag(*hold, HOLD) | flag(*pause, PAUSE) | flag(exclusions.is_some(), EXCLUSIONS);
            let sources = exclusions.as_ref().map_or(0, |(sources, _)| sources.len());
            (ORDERS, flags, sources as u64)
        }
        Input::Stop => (STOP, 0, 0),
        Input::Digest(digest) => (DIGEST, 0, u64::from(*digest)),
        Input::Snapshot { manager, is_last, .. } => (SNAPSHOT, u8::from(*is_last) * LAST, manager.0),
        Input::Admitted => (ADMITTED, 0, 0),
        Input::Dismissed => (DISMISSED, 0, 0),
        Input::StepsDown => (STEPS_DOWN, 0, 0),
    };
    InputBytes { kind, flags, reserved: U16::ZERO, content_bytes: U32::ZERO, value: U64::new(value) }
}

/// Reads the inputs.
pub(super) fn parse<P: Payload>(mut bytes: &[u8]) -> Result<Vec<Input<P>>, DecodeError> {
    let mut inputs = Vec::new();
    while !bytes.is_empty() {
        let (fixed, rest) = split::<InputBytes>(bytes)?;
        let need = fixed.content_bytes.get() as usize;
        let (content, rest) =
            rest.split_at_checked(need).ok_or(DecodeError::Truncated { need, have: rest.len() })?;
        inputs.push(parse_input(fixed, content)?);
        bytes = rest;
    }
    Ok(inputs)
}

fn parse_input<P: Payload>(fixed: &InputBytes, content: &[u8]) -> Result<Input<P>, DecodeError> {
    let value = fixed.value.get();
    let bad = |field, value: u64| DecodeError::BadValue { field, value };
    let flags = |known: u8| match fixed.flags & !known {
        0 => Ok(fixed.flags),
        _ => Err(bad("flags of an input", fixed.flags.into())),
    };
    match fixed.kind {
        ROUND => {
            let (stall, extra) = split::<U64>(content)?;
            empty(extra)?;
            Ok(Input::Round { now: Timestamp(value), stall: Nanos(stall.get()) })
        }
        MESSAGE => parse_message(content).map(Input::Message),
        ORDERS => parse_orders(flags(HOLD | PAUSE | EXCLUSIONS)?, value, content),
        LINK => {
            empty(content)?;
            let node = u32::try_from(value).ok().and_then(NodeId::from_code);
            Ok(Input::Link { node: node.ok_or(bad("node of a link", value))?, up: flags(UP)? != 0 })
        }
        STOP => empty(content).map(|()| Input::Stop),
        DIGEST => {
            empty(content)?;
            Ok(Input::Digest(u32::try_from(value).map_err(|_| bad("digest", value))?))
        }
        SNAPSHOT => Ok(Input::Snapshot {
            manager: SessionId(value),
            is_last: flags(LAST)? != 0,
            bytes: Bytes::copy_from_slice(content),
        }),
        ADMITTED => empty(content).map(|()| Input::Admitted),
        DISMISSED => empty(content).map(|()| Input::Dismissed),
        STEPS_DOWN => empty(content).map(|()| Input::StepsDown),
        kind => Err(bad("kind of an input", kind.into())),
    }
}

/// Checks that nothing follows.
pub(super) fn empty(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes(bytes.len())) }
}

/// Appends a message that is an input, of so many bytes.
pub(super) fn emit_message<P: Payload>(head: &mut Vec<u8>, message: Message<P>, bytes: usize) {
    let mut content = Vec::with_capacity(bytes);
    message.encode(&mut content, |_| debug_assert!(false, "a message with payload is no input"));
    head.extend_from_slice(&content);
}

/// Reads a message that is an input. It has no payload and no inputs, so that reading it ends.
pub(super) fn parse_message<P: Payload>(bytes: &[u8]) -> Result<Box<Message<P>>, DecodeError> {
    let (kind, _, payload_bytes) = check_header(bytes)?;
    if kind.has_payload() || payload_bytes > 0 || kind == Kind::Inputs {
        return Err(DecodeError::BadValue { field: "kind of a message as input", value: kind as u64 });
    }
    Ok(Box::new(Message::decode(bytes, &mut NoPayload)?))
}

fn parse_orders<P>(flags: u8, sources: u64, content: &[u8]) -> Result<Input<P>, DecodeError> {
    let bad = |field, value: u64| DecodeError::BadValue { field, value };
    let mut orders = Orders { hold: flags & HOLD != 0, pause: flags & PAUSE != 0, exclusions: None };
    if flags & EXCLUSIONS == 0 {
        empty(content)?;
        return Ok(Input::Orders(orders));
    }
    let (codes, extra) = content.as_chunks::<4>();
    empty(extra)?;
    let place = usize::try_from(sources).ok().filter(|place| *place <= codes.len());
    let (sources, nodes) = codes.split_at(place.ok_or(bad("sources of orders", sources))?);
    let source = |code: &[u8; 4]| SourceId(u32::from_le_bytes(*code));
    let node = |code: &[u8; 4]| {
        let code = u32::from_le_bytes(*code);
        NodeId::from_code(code).ok_or(bad("node of orders", code.into()))
    };
    let nodes = nodes.iter().map(node).collect::<Result<Vec<_>, _>>()?;
    orders.exclusions = Some((sources.iter().map(source).collect(), nodes));
    Ok(Input::Orders(orders))
}
