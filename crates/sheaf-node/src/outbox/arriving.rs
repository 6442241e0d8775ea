//! Messages that arrive, with payload handles as roles want them.

use crate::parcels::Parcels;
use bytes::Bytes;
use sheaf_transport::Frame;
use sheaf_wire::message::{Body, DecodeError, Message, PayloadSource, UnitInput};
use sheaf_wire::{Payload, Span};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// A payload handle as a role wants it of messages that arrive.
pub trait Arriving: Payload {
    /// Decodes a message.
    ///
    /// # Errors
    /// Why the frame is not a message.
    fn decode(frame: Frame) -> Result<Message<Self>, DecodeError>;
}

impl Arriving for Bytes {
    fn decode(frame: Frame) -> Result<Message<Self>, DecodeError> {
        Message::decode(&frame.head, &mut Cut { piece: Bytes::new(), pieces: frame.payload })
    }
}

/// Cuts arrived pieces into fragments, each with a handle of its own. The count of the memory that they lie in is the
/// sender's business too, often on another processor; so a piece that is cut gets a count of its own before.
struct Cut {
    /// Rest of the piece that is being cut.
    piece: Bytes,
    pieces: VecDeque<Bytes>,
}

impl PayloadSource<Bytes> for Cut {
    fn total(&self) -> u64 {
        self.piece.len() as u64 + PayloadSource::total(&self.pieces)
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Option<Bytes> {
        if bytes > 0 && bytes < self.piece.len() {
            // As nearly every time.
            return Some(self.piece.split_to(bytes));
        }
        self.take_last(bytes)
    }
}

impl Cut {
    /// Takes a fragment if the piece contains nothing else, or returns `None`.
    fn take_last(&mut self, bytes: usize) -> Option<Bytes> {
        if bytes == 0 {
            return Some(Bytes::new());
        }
        if self.piece.is_empty() {
            let piece = std::iter::from_fn(|| self.pieces.pop_front()).find(|piece| !piece.is_empty())?;
            if piece.len() == bytes {
                return Some(piece);
            }
            self.piece = Bytes::from_owner(piece);
        }
        match bytes.cmp(&self.piece.len()) {
            Ordering::Less => Some(self.piece.split_to(bytes)),
            Ordering::Equal => Some(std::mem::take(&mut self.piece)),
            Ordering::Greater => None,
        }
    }
}

/// For a role that is sent no payload.
impl Arriving for Span {
    fn decode(frame: Frame) -> Result<Message<Self>, DecodeError> {
        Message::decode(&frame.head, &mut Unwanted(frame.payload_bytes()))
    }
}

/// Decodes a message and copies its payload to `parcels`: whoever keeps it for long must not keep the memory of the transport.
pub(super) fn keep(parcels: &mut Parcels, frame: Frame) -> Result<Message<Span>, DecodeError> {
    let mut bytes = Vec::with_capacity(frame.payload_bytes());
    frame.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
    let mut source = Placed { offset: 0, total: bytes.len() };
    let mut message = Message::decode(&frame.head, &mut source)?;
    let fragments = message.body.payload_pieces();
    if fragments > 0
        && let Body::UnitInputs(inputs) = &mut message.body
    {
        let parcel = parcels.keep(bytes.into(), fragments);
        for input in inputs {
            if let UnitInput::Fragments { fragments, .. } = input {
                fragments.iter_mut().for_each(|fragment| fragment.payload.parcel = parcel);
            }
        }
    }
    Ok(message)
}

/// Gives the places of fragments in a payload.
struct Placed {
    offset: usize,
    total: usize,
}

impl PayloadSource<Span> for Placed {
    fn total(&self) -> u64 {
        self.total as u64
    }

    fn take(&mut self, bytes: usize) -> Option<Span> {
        let offset = self.offset;
        self.offset = offset.checked_add(bytes).filter(|end| *end <= self.total)?;
        Some(Span { parcel: 0, offset: u32::try_from(offset).ok()?, length: u32::try_from(bytes).ok()? })
    }
}

/// A payload that no role accepts: a message with one is refused.
struct Unwanted(usize);

impl PayloadSource<Span> for Unwanted {
    fn total(&self) -> u64 {
        self.0 as u64
    }

    fn take(&mut self, _bytes: usize) -> Option<Span> {
        None
    }
}
