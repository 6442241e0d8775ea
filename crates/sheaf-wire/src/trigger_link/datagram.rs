//! Datagrams of the trigger protocol: a head, and messages as over TCP.

use super::layout::DatagramHeadBytes;
use super::{DATAGRAM_HEAD_BYTES, FromManager, FromSupervisor, HEAD_BYTES, declared_length};
use crate::message::DecodeError;
use crate::message::split;
use crate::parts::bad;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// First bytes of each datagram.
pub const MAGIC: [u8; 8] = *b"SHEAFTRG";

/// Head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHead {
    /// Number that the supervisor has chosen for the connection, not zero.
    pub link: u64,
    /// Number of the sender's last datagram with messages.
    pub number: u64,
    /// Greatest number that the sender has received.
    pub seen: u64,
}

impl DatagramHead {
    /// Returns the bytes of the head. Messages follow them.
    #[must_use]
    pub fn to_bytes(self) -> [u8; DATAGRAM_HEAD_BYTES] {
        let bytes = DatagramHeadBytes {
            magic: MAGIC,
            link: U64::new(self.link),
            number: U64::new(self.number),
            seen: U64::new(self.seen),
        };
        zerocopy::transmute!(bytes)
    }

    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (head, rest) = split::<DatagramHeadBytes>(bytes)?;
        if head.magic != MAGIC {
            return Err(bad("magic", u64::from_le_bytes(head.magic)));
        }
        if head.link.get() == 0 {
            return Err(bad("link", 0_u64));
        }
        let (link, number, seen) = (head.link.get(), head.number.get(), head.seen.get());
        Ok((Self { link, number, seen }, rest))
    }
}

/// Message of one side.
pub trait Message: Sized {
    /// Reads a message.
    ///
    /// # Errors
    /// Returns the defect of the message.
    fn read_message(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Returns the bytes of the message.
    fn to_message(&self) -> Vec<u8>;
}

impl Message for FromSupervisor {
    fn read_message(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(bytes)
    }

    fn to_message(&self) -> Vec<u8> {
        self.emit()
    }
}

impl Message for FromManager {
    fn read_message(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(bytes)
    }

    fn to_message(&self) -> Vec<u8> {
        self.emit()
    }
}

/// Reads a datagram.
///
/// # Errors
/// Returns the first defect. A datagram with a defect has no valid part.
pub fn read_datagram<M: Message>(bytes: &[u8]) -> Result<(DatagramHead, Vec<M>), DecodeError> {
    let (head, mut rest) = DatagramHead::read(bytes)?;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let Some(first) = rest.first_chunk::<HEAD_BYTES>() else {
            return Err(DecodeError::Truncated { need: HEAD_BYTES, have: rest.len() });
        };
        let length = declared_length(first)?;
        let Some((message, behind)) = rest.split_at_checked(length) else {
            return Err(DecodeError::Truncated { need: length, have: rest.len() });
        };
        messages.push(M::read_message(message)?);
        rest = behind;
    }
    if !messages.is_empty() && head.number == 0 {
        return Err(bad("number", 0_u64));
    }
    Ok((head, messages))
}

impl DatagramHead {
    /// Returns a datagram with these messages.
    #[must_use]
    pub fn emit<M: Message>(self, messages: &[M]) -> Vec<u8> {
        let mut bytes = self.to_bytes().as_bytes().to_vec();
        messages.iter().for_each(|message| bytes.extend_from_slice(&message.to_message()));
        bytes
    }
}
