//! Bytes of the inputs of a readout unit, and of steps between it, its mirror and the event manager.

use super::super::layout::{HeaderBytes, MirrorBytes, UnitFragmentBytes, UnitInputBytes};
use super::super::{MirrorStep, UnitInput};
use super::inputs::{emit_message, empty, parse_message};
use super::{DecodeError, PayloadSource, fragment_to_bytes, parse_fragment, split};
use crate::{EventId, Fragment, Nanos, NodeId, Payload, SessionId, Timestamp};
use std::mem::size_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

const ROUND: u8 = 1;
const MESSAGE: u8 = 2;
const LINK: u8 = 3;
const FRAGMENTS: u8 = 4;
const OFFER: u8 = 5;
const SOURCE_END: u8 = 6;
const ANSWERS: u8 = 7;
const END: u8 = 8;

/// Flags of a link.
const UP: u8 = 1;

/// Flags of the end of a round.
const DIGEST: u8 = 1;

/// Returns the size of the inputs in the head.
pub(super) fn bytes_of<P>(inputs: &[UnitInput<P>]) -> usize {
    inputs.iter().map(|input| size_of::<UnitInputBytes>() + content_bytes(input)).sum()
}

fn content_bytes<P>(input: &UnitInput<P>) -> usize {
    match input {
        UnitInput::Round { .. } => size_of::<U64>(),
        UnitInput::Message(message) => size_of::<HeaderBytes>() + message.body.head_bytes(),
        UnitInput::Fragments { fragments, .. } => fragments.len() * size_of::<UnitFragmentBytes>(),
        UnitInput::Answers(builders) => builders.len() * size_of::<U16>(),
        UnitInput::Link { .. }
        | UnitInput::Offer { .. }
        | UnitInput::SourceEnd { .. }
        | UnitInput::End { .. } => 0,
    }
}

/// Appends the inputs.
pub(super) fn emit<P: Payload>(head: &mut Vec<u8>, inputs: Vec<UnitInput<P>>, payload: &mut dyn FnMut(P)) {
    for input in inputs {
        let content_bytes = content_bytes(&input);
        let fixed = UnitInputBytes {
            content_bytes: U32::new(u32::try_from(content_bytes).unwrap_or(u32::MAX)),
            ..fixed(&input)
        };
        head.extend_from_slice(fixed.as_bytes());
        match input {
            UnitInput::Round { stall, .. } => head.extend_from_slice(&stall.0.to_le_bytes()),
            UnitInput::Message(message) => emit_message(head, *message, content_bytes),
            UnitInput::Fragments { fragments, .. } => {
                for fragment in fragments {
                    let event = U64::new(fragment.event.0);
                    let bytes = UnitFragmentBytes { event, fragment: fragment_to_bytes(&fragment) };
                    head.extend_from_slice(bytes.as_bytes());
                    payload(fragment.payload);
                }
            }
            UnitInput::Answers(builders) => {
                builders.iter().for_each(|builder| head.extend_from_slice(&builder.to_le_bytes()));
            }
            UnitInput::Link { .. }
            | UnitInput::Offer { .. }
            | UnitInput::SourceEnd { .. }
            | UnitInput::End { .. } => {}
        }
    }
}

/// Returns the fixed part of an input.
fn fixed<P>(input: &UnitInput<P>) -> UnitInputBytes {
    let (kind, flags, source, value) = match input {
        UnitInput::Round { now, .. } => (ROUND, 0, 0, now.0),
        UnitInput::Message(_) => (MESSAGE, 0, 0, 0),
        UnitInput::Link { node, up } => (LINK, u8::from(*up) * UP, 0, u64::from(node.to_code())),
        UnitInput::Fragments { source, .. } => (FRAGMENTS, 0, *source, 0),
        UnitInput::Offer { source } => (OFFER, 0, *source, 0),
        UnitInput::SourceEnd { source } => (SOURCE_END, 0, *source, 0),
        UnitInput::Answers(_) => (ANSWERS, 0, 0, 0),
        UnitInput::End { digest } => {
            (END, u8::from(digest.is_some()) * DIGEST, 0, u64::from(digest.unwrap_or(0)))
        }
    };
    UnitInputBytes { kind, flags, source: U16::new(source), content_bytes: U32::ZERO, value: U64::new(value) }
}

/// Reads the inputs.
pub(super) fn parse<P: Payload>(
    mut bytes: &[u8],
    payload_bytes: u64,
    payload: &mut impl PayloadSource<P>,
) -> Result<Vec<UnitInput<P>>, DecodeError> {
    let described = described_payload(bytes)?;
    if described != payload_bytes {
        return Err(DecodeError::WrongPayloadLength { declared: described, have: payload_bytes });
    }
    let mut inputs = Vec::new();
    while !bytes.is_empty() {
        let (fixed, content, rest) = split_input(bytes)?;
        inputs.push(parse_input(fixed, content, payload)?);
        bytes = rest;
    }
    Ok(inputs)
}

fn split_input(bytes: &[u8]) -> Result<(&UnitInputBytes, &[u8], &[u8]), DecodeError> {
    let (fixed, rest) = split::<UnitInputBytes>(bytes)?;
    let need = fixed.content_bytes.get() as usize;
    let (content, rest) =
        rest.split_at_checked(need).ok_or(DecodeError::Truncated { need, have: rest.len() })?;
    Ok((fixed, content, rest))
}

/// Returns the payload bytes of all fragments.
fn described_payload(mut bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut described = 0;
    while !bytes.is_empty() {
        let (fixed, content, rest) = split_input(bytes)?;
        if fixed.kind == FRAGMENTS {
            let lengths = fragments(content)?.iter().map(|one| u64::from(one.fragment.length.get()));
            described += lengths.sum::<u64>();
        }
        bytes = rest;
    }
    Ok(described)
}

fn fragments(content: &[u8]) -> Result<&[UnitFragmentBytes], DecodeError> {
    let extra = content.len() % size_of::<UnitFragmentBytes>();
    <[UnitFragmentBytes]>::ref_from_bytes(content).map_err(|_| DecodeError::TrailingBytes(extra))
}

fn parse_input<P: Payload>(
    fixed: &UnitInputBytes,
    content: &[u8],
    payload: &mut impl PayloadSource<P>,
) -> Result<UnitInput<P>, DecodeError> {
    let (value, source) = (fixed.value.get(), fixed.source.get());
    let bad = |field, value: u64| DecodeError::BadValue { field, value };
    let has_content = matches!(fixed.kind, ROUND | MESSAGE | FRAGMENTS | ANSWERS);
    if !has_content {
        empty(content)?;
    }
    let known = if matches!(fixed.kind, LINK | END) { 1 } else { 0 };
    if fixed.flags & !known != 0 {
        return Err(bad("flags of an input", fixed.flags.into()));
    }
    Ok(match fixed.kind {
        ROUND => {
            let (stall, extra) = split::<U64>(content)?;
            empty(extra)?;
            UnitInput::Round { now: Timestamp(value), stall: Nanos(stall.get()) }
        }
        MESSAGE => UnitInput::Message(parse_message(content)?),
        LINK => {
            let node = u32::try_from(value).ok().and_then(NodeId::from_code);
            UnitInput::Link { node: node.ok_or(bad("node of a link", value))?, up: fixed.flags & UP != 0 }
        }
        FRAGMENTS => {
            let parse = |one: &UnitFragmentBytes| -> Result<Fragment<P>, DecodeError> {
                parse_fragment(EventId(one.event.get()), &one.fragment, payload)
            };
            let fragments = fragments(content)?.iter().map(parse).collect::<Result<_, _>>()?;
            UnitInput::Fragments { source, fragments }
        }
        OFFER => UnitInput::Offer { source },
        SOURCE_END => UnitInput::SourceEnd { source },
        ANSWERS => {
            let (codes, extra) = content.as_chunks::<2>();
            empty(extra)?;
            UnitInput::Answers(codes.iter().map(|code| u16::from_le_bytes(*code)).collect())
        }
        END => {
            let digest = u32::try_from(value).map_err(|_| bad("digest", value))?;
            let has_digest = fixed.flags & DIGEST != 0;
            if !has_digest && digest != 0 {
                return Err(bad("digest", value));
            }
            UnitInput::End { digest: has_digest.then_some(digest) }
        }
        kind => return Err(bad("kind of an input", kind.into())),
    })
}

/// Returns the code of a step, and the session that it names.
fn step_code(step: MirrorStep) -> (u8, SessionId) {
    match step {
        MirrorStep::StrikeOff => (1, SessionId(0)),
        MirrorStep::Alone => (2, SessionId(0)),
        MirrorStep::TakeOver(session) => (3, session),
        MirrorStep::Granted(session) => (4, session),
        MirrorStep::Superseded => (5, SessionId(0)),
        MirrorStep::StruckOff => (6, SessionId(0)),
    }
}

/// Appends a step.
pub(super) fn emit_step(head: &mut Vec<u8>, step: MirrorStep) {
    let (step, session) = step_code(step);
    let fixed = MirrorBytes { step, reserved: [0; 3], reserved_too: U32::ZERO, session: U64::new(session.0) };
    head.extend_from_slice(fixed.as_bytes());
}

/// Reads a step.
pub(super) fn parse_step(bytes: &[u8]) -> Result<MirrorStep, DecodeError> {
    let (fixed, extra) = split::<MirrorBytes>(bytes)?;
    empty(extra)?;
    let session = SessionId(fixed.session.get());
    let step = match fixed.step {
        1 => MirrorStep::StrikeOff,
        2 => MirrorStep::Alone,
        3 => MirrorStep::TakeOver(session),
        4 => MirrorStep::Granted(session),
        5 => MirrorStep::Superseded,
        6 => MirrorStep::StruckOff,
        step => return Err(DecodeError::BadValue { field: "step of a mirror", value: step.into() }),
    };
    // Steps without a session have none.
    if step_code(step).1 != session {
        return Err(DecodeError::BadValue { field: "session of a step", value: session.0 });
    }
    Ok(step)
}
