//! The frame of raw Ethernet: the sixteen-bit type of our own, and the head in front of a datagram.
//!
//! A frame is the Ethernet header, the port's head and one datagram. Short frames are filled up on the wire, so the head
//! says how long the datagram is. `docs/reference/ethernet.md` has the same as a table.

mod mac;
#[cfg(test)]
mod tests;

pub use mac::{BadMacAddress, MacAddress};

use crate::checksum::{crc32c, crc32c_append};
use crate::message::layout::layout;
use crate::{NodeId, RunNumber};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The type of the frames unless another is configured: the first of the two that IEEE 802 leaves for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;

/// The smallest value that is a type; below it the field is a length (IEEE 802.3).
pub const LEAST_ETHERTYPE: u16 = 0x0600;

/// The first two bytes of the port's head.
pub const MAGIC: [u8; 2] = *b"SE";

/// The version of the port's head. A receiver drops and counts every other.
pub const VERSION: u8 = 1;

/// Flag: the sender does not know the address of the receiver's rail. It answers at once.
pub const FLAG_ANSWER: u8 = 1;

/// What stands for a node in [`FrameHeadBytes::to`] when all are meant. No node has this code.
pub const TO_ALL: u32 = 0;

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Carries a datagram.
    Datagram = 1,
    /// Carries nothing: says where its sender is.
    Address = 2,
}

impl FrameKind {
    /// The kind with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Datagram),
            2 => Some(Self::Address),
            _ => None,
        }
    }
}

layout! {
    /// What is in front of a datagram, 38 bytes: the Ethernet header, and the port's head.
    FrameHeadBytes[38] {
        /// Offset 0: the receiver's address; all ones while it is not known.
        destination: [u8; 6],
        /// Offset 6: the sender's address.
        source: [u8; 6],
        /// Offset 12: the type, with the high byte first as everywhere in Ethernet.
        ethertype: [u8; 2],
        /// Offset 14: `"SE"`.
        magic: [u8; 2],
        /// Offset 16: [`VERSION`].
        version: u8,
        /// Offset 17: a [`FrameKind`].
        kind: u8,
        /// Offset 18: [`FLAG_ANSWER`], or 0.
        flags: u8,
        /// Offset 19: the rail that the frame was sent by, from 0.
        rail: u8,
        /// Offset 20: the run.
        run: U32,
        /// Offset 24: the code of the sending node.
        from: U32,
        /// Offset 28: the code of the receiving node, or [`TO_ALL`].
        to: U32,
        /// Offset 32: how many bytes the datagram has.
        length: U16,
        /// Offset 34: the CRC-32C from offset 14 to the end of the datagram, with zeros here.
        checksum: U32,
    }
}

/// Bytes of the Ethernet header.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// Bytes in front of a datagram.
pub const FRAME_HEAD_BYTES: usize = size_of::<FrameHeadBytes>();

/// The part of [`FRAME_HEAD_BYTES`] that counts for an interface's MTU.
pub const PORT_HEAD_BYTES: usize = FRAME_HEAD_BYTES - ETHERNET_HEADER_BYTES;

/// Where the checksum stands.
const CHECKSUM_AT: usize = std::mem::offset_of!(FrameHeadBytes, checksum);

/// What a frame occupies on the wire beyond what is in memory, in bytes: check sequence (4), preamble and start (8), gap (12).
pub const WIRE_BYTES: usize = 24;

/// Who sends a frame to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The receiver's address, or [`MacAddress::BROADCAST`].
    pub destination: MacAddress,
    /// The sender's address.
    pub source: MacAddress,
    /// What the frame carries.
    pub kind: FrameKind,
    /// Whether the sender asks for the receiver's address.
    pub wants_answer: bool,
    /// The rail that it was sent by.
    pub rail: u8,
    /// The run.
    pub run: RunNumber,
    /// Who sent it.
    pub from: NodeId,
    /// Whom it is for; `None`: everybody.
    pub to: Option<NodeId>,
}

/// Why a frame is not one of ours, or cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Of another type, or without the magic.
    #[error("the frame is not of this port: type {ethertype:#06x}, then {magic:02x?} instead of \"SE\"")]
    Stranger {
        /// The type that it has.
        ethertype: u16,
        /// What stands where the magic should.
        magic: [u8; 2],
    },
    /// Shorter than its head, or than its head says.
    #[error("the frame has {bytes} bytes, and {needed} are needed")]
    Truncated {
        /// What is there.
        bytes: usize,
        /// What should be there.
        needed: usize,
    },
    /// Of another version.
    #[error("the frame has version {0}; this program knows {VERSION}")]
    Version(u8),
    /// Damaged on the way.
    #[error("the frame has checksum {stated:#010x}, its bytes have {found:#010x}")]
    Damaged {
        /// What stands in the frame.
        stated: u32,
        /// What its bytes have.
        found: u32,
    },
    /// Whole, but with a value that has no meaning.
    #[error("the frame's {field} is {value:#x}, which means nothing")]
    BadField {
        /// Which.
        field: &'static str,
        /// Its value.
        value: u32,
    },
}

impl FrameHead {
    /// Writes the head in front of a datagram of `length` bytes, the checksum still missing.
    ///
    /// # Panics
    /// If `frame` has no room for the head, or the datagram has more than 65,535 bytes: both are the caller's to know.
    pub fn write(&self, ethertype: u16, length: usize, frame: &mut [u8]) {
        let head = FrameHeadBytes {
            destination: self.destination.0,
            source: self.source.0,
            ethertype: ethertype.to_be_bytes(),
            magic: MAGIC,
            version: VERSION,
            kind: self.kind as u8,
            flags: if self.wants_answer { FLAG_ANSWER } else { 0 },
            rail: self.rail,
            run: U32::new(self.run.0),
            from: U32::new(self.from.to_code()),
            to: U32::new(self.to.map_or(TO_ALL, NodeId::to_code)),
            length: U16::new(u16::try_from(length).expect("an interface's MTU has 16 bits")),
            checksum: U32::ZERO,
        };
        frame[..FRAME_HEAD_BYTES].copy_from_slice(head.as_bytes());
    }

    /// The head, and the datagram behind it, of a frame of type `ethertype`. Filling behind the datagram is left out.
    ///
    /// # Errors
    /// What is wrong with the frame. Its checksum is right in every case but the first four.
    pub fn parse(ethertype: u16, frame: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let Ok((head, rest)) = FrameHeadBytes::ref_from_prefix(frame) else {
            return Err(FrameError::Truncated { bytes: frame.len(), needed: FRAME_HEAD_BYTES });
        };
        if u16::from_be_bytes(head.ethertype) != ethertype || head.magic != MAGIC {
            let ethertype = u16::from_be_bytes(head.ethertype);
            return Err(FrameError::Stranger { ethertype, magic: head.magic });
        }
        if head.version != VERSION {
            return Err(FrameError::Version(head.version));
        }
        let length = usize::from(head.length.get());
        let Some(datagram) = rest.get(..length) else {
            return Err(FrameError::Truncated { bytes: frame.len(), needed: FRAME_HEAD_BYTES + length });
        };
        let (stated, found) = (head.checksum.get(), checksum(&frame[..FRAME_HEAD_BYTES], datagram));
        if stated != found {
            return Err(FrameError::Damaged { stated, found });
        }
        let bad = |field, value| FrameError::BadField { field, value };
        let kind = FrameKind::from_code(head.kind).ok_or(bad("kind", head.kind.into()))?;
        if head.flags & !FLAG_ANSWER != 0 {
            return Err(bad("flags", head.flags.into()));
        }
        let node = |field, code: u32| NodeId::from_code(code).ok_or(bad(field, code));
        let from = node("from", head.from.get())?;
        let to = if head.to.get() == TO_ALL { None } else { Some(node("to", head.to.get())?) };
        let head = Self {
            destination: MacAddress(head.destination),
            source: MacAddress(head.source),
            kind,
            wants_answer: head.flags & FLAG_ANSWER != 0,
            rail: head.rail,
            run: RunNumber(head.run.get()),
            from,
            to,
        };
        Ok((head, datagram))
    }
}

/// Writes the checksum of a frame that is otherwise complete: a head by [`FrameHead::write`], and the datagram.
///
/// # Panics
/// If `frame` is shorter than a head.
pub fn seal_frame(frame: &mut [u8]) {
    let (head, datagram) = frame.split_at_mut(FRAME_HEAD_BYTES);
    let checksum = checksum(head, datagram);
    head[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// The checksum of a frame: the Ethernet header is not in it (switches may change it), the field itself counts as zeros.
fn checksum(head: &[u8], datagram: &[u8]) -> u32 {
    let before = crc32c(&head[ETHERNET_HEADER_BYTES..CHECKSUM_AT]);
    crc32c_append(crc32c_append(before, &[0; size_of::<u32>()]), datagram)
}
