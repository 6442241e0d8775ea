//! The frame of raw Ethernet: Sheaf's EtherType, and the head in front of a datagram.
//!
//! A frame is the Ethernet header, the port's head and one datagram. Short frames are padded on the wire, so the head
//! contains the length of the datagram. `docs/reference/ethernet.md` has the same as a table.

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

/// The first byte of the port's head.
pub const MAGIC: u8 = b'S';

/// The version of the port's head. A receiver drops and counts every other.
pub const VERSION: u8 = 2;

/// Flag in [`FrameHeadBytes::rail`]: the sender does not know the address of the receiver's rail. It answers at once.
pub const FLAG_ANSWER: u8 = 0x80;

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Carries a datagram.
    Datagram = 1,
    /// No content: announces the sender's address.
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
    /// Head in front of a datagram, 30 bytes: the Ethernet header, and the port's head.
    FrameHeadBytes[30] {
        /// Offset 0: the receiver's address; all ones while it is not known.
        destination: [u8; 6],
        /// Offset 6: the sender's address.
        source: [u8; 6],
        /// Offset 12: the type, with the high byte first as everywhere in Ethernet.
        ethertype: [u8; 2],
        /// Offset 14: [`MAGIC`].
        magic: u8,
        /// Offset 15: [`VERSION`] in the upper four bits, a [`FrameKind`] in the lower four.
        kind: u8,
        /// Offset 16: the rail that the frame was sent by, from 0; and [`FLAG_ANSWER`], or not.
        rail: u8,
        /// Offset 17: the role of the sending node in the upper four bits, that of the receiving one in the lower four; 0 there
        /// means all nodes.
        roles: u8,
        /// Offset 18: the index of the sending node within its role.
        from: U16,
        /// Offset 20: the index of the receiving node within its role; 0 where all are meant.
        to: U16,
        /// Offset 22: the lowest 16 bits of the run.
        run: U16,
        /// Offset 24: how many bytes the datagram has.
        length: U16,
        /// Offset 26: the CRC-32C of the run (4 bytes), then from offset 14 to the end of the datagram, with zeros
        /// here.
        checksum: U32,
    }
}

/// Bytes of the Ethernet header.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// Bytes in front of a datagram.
pub const FRAME_HEAD_BYTES: usize = size_of::<FrameHeadBytes>();

/// The part of [`FRAME_HEAD_BYTES`] that counts for an interface's MTU.
pub const PORT_HEAD_BYTES: usize = FRAME_HEAD_BYTES - ETHERNET_HEADER_BYTES;

/// Offset of the checksum.
const CHECKSUM_AT: usize = std::mem::offset_of!(FrameHeadBytes, checksum);

/// Overhead of a frame on the wire beyond its bytes in memory: check sequence (4), preamble and start (8), gap (12).
pub const WIRE_BYTES: usize = 24;

/// Sender and receiver of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The receiver's address, or [`MacAddress::BROADCAST`].
    pub destination: MacAddress,
    /// The sender's address.
    pub source: MacAddress,
    /// Contents of the frame.
    pub kind: FrameKind,
    /// Whether the sender asks for the receiver's address.
    pub wants_answer: bool,
    /// The rail that it was sent by.
    pub rail: u8,
    /// The run.
    pub run: RunNumber,
    /// Sender.
    pub from: NodeId,
    /// Receiver; `None`: all nodes.
    pub to: Option<NodeId>,
}

/// Reason why a frame is not one of ours, or cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Of another type, or without the magic.
    #[error(
        "the frame is not of this port: type {ethertype:#06x}, then {magic:#04x} instead of {MAGIC:#04x}"
    )]
    Stranger {
        /// The type that it has.
        ethertype: u16,
        /// Byte in the place of the magic.
        magic: u8,
    },
    /// Shorter than its head, or than the length in its head.
    #[error("the frame has {bytes} bytes, and {needed} are needed")]
    Truncated {
        /// Number of bytes found.
        bytes: usize,
        /// Number of bytes needed.
        needed: usize,
    },
    /// Of another version.
    #[error("the frame has version {0}; this program knows {VERSION}")]
    Version(u8),
    /// Of another run.
    #[error("the frame is of a run that ends in {theirs:#06x} (hexadecimal), this one in {own:#06x}")]
    Stale {
        /// The lowest 16 bits of the run that it has.
        theirs: u16,
        /// Those of the run that was expected.
        own: u16,
    },
    /// Damaged on the way; or of another run whose number has the same lowest 16 bits.
    #[error("the frame has checksum {stated:#010x}, its bytes have {found:#010x}")]
    Damaged {
        /// Contents of the frame.
        stated: u32,
        /// Checksum of its bytes.
        found: u32,
    },
    /// Whole, but with a value that has no meaning.
    #[error("the frame's {field} has the invalid value {value:#x}")]
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
        let to = self.to.map_or(0, |to| to.role as u8);
        let head = FrameHeadBytes {
            destination: self.destination.0,
            source: self.source.0,
            ethertype: ethertype.to_be_bytes(),
            magic: MAGIC,
            kind: VERSION << 4 | self.kind as u8,
            rail: self.rail | if self.wants_answer { FLAG_ANSWER } else { 0 },
            roles: (self.from.role as u8) << 4 | to,
            from: U16::new(self.from.index),
            to: U16::new(self.to.map_or(0, |to| to.index)),
            run: U16::new(low_bits(self.run)),
            length: U16::new(u16::try_from(length).expect("an interface's MTU has 16 bits")),
            checksum: U32::ZERO,
        };
        frame[..FRAME_HEAD_BYTES].copy_from_slice(head.as_bytes());
    }

    /// The head, and the datagram behind it, of a frame of type `ethertype` in run `run`. Filling behind the datagram is left
    /// out.
    ///
    /// # Errors
    /// The problem with the frame. Its checksum is right where a field is bad.
    pub fn parse(ethertype: u16, run: RunNumber, frame: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let Ok((head, rest)) = FrameHeadBytes::ref_from_prefix(frame) else {
            return Err(FrameError::Truncated { bytes: frame.len(), needed: FRAME_HEAD_BYTES });
        };
        if u16::from_be_bytes(head.ethertype) != ethertype || head.magic != MAGIC {
            let ethertype = u16::from_be_bytes(head.ethertype);
            return Err(FrameError::Stranger { ethertype, magic: head.magic });
        }
        if head.kind >> 4 != VERSION {
            return Err(FrameError::Version(head.kind >> 4));
        }
        let length = usize::from(head.length.get());
        let Some(datagram) = rest.get(..length) else {
            return Err(FrameError::Truncated { bytes: frame.len(), needed: FRAME_HEAD_BYTES + length });
        };
        if head.run.get() != low_bits(run) {
            return Err(FrameError::Stale { theirs: head.run.get(), own: low_bits(run) });
        }
        let (stated, found) = (head.checksum.get(), checksum(run, &frame[..FRAME_HEAD_BYTES], datagram));
        if stated != found {
            return Err(FrameError::Damaged { stated, found });
        }
        let bad = |field, value| FrameError::BadField { field, value };
        let kind = head.kind & 15;
        let kind = FrameKind::from_code(kind).ok_or(bad("kind", kind.into()))?;
        let node = |field, role: u8, index: u16| {
            let code = u32::from(role) << 24 | u32::from(index);
            NodeId::from_code(code).ok_or(bad(field, code))
        };
        let from = node("from", head.roles >> 4, head.from.get())?;
        let to = match (head.roles & 15, head.to.get()) {
            (0, 0) => None,
            (role, index) => Some(node("to", role, index)?),
        };
        let head = Self {
            destination: MacAddress(head.destination),
            source: MacAddress(head.source),
            kind,
            wants_answer: head.rail & FLAG_ANSWER != 0,
            rail: head.rail & !FLAG_ANSWER,
            run,
            from,
            to,
        };
        Ok((head, datagram))
    }
}

/// Returns the part of a run's number that travels.
fn low_bits(run: RunNumber) -> u16 {
    (run.0 & u32::from(u16::MAX)) as u16
}

/// Writes the checksum of a frame of run `run` that is otherwise complete: a head by [`FrameHead::write`], and the datagram.
///
/// # Panics
/// If `frame` is shorter than a head.
pub fn seal_frame(run: RunNumber, frame: &mut [u8]) {
    let (head, datagram) = frame.split_at_mut(FRAME_HEAD_BYTES);
    let checksum = checksum(run, head, datagram);
    head[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the checksum of a frame: the Ethernet header is not included (switches may change it), the field itself
/// counts as zeros. The whole run number is included, so that a run with the same lowest bits is distinguished from
/// this one.
fn checksum(run: RunNumber, head: &[u8], datagram: &[u8]) -> u32 {
    let before = crc32c_append(crc32c(&run.0.to_le_bytes()), &head[ETHERNET_HEADER_BYTES..CHECKSUM_AT]);
    crc32c_append(crc32c_append(before, &[0; size_of::<u32>()]), datagram)
}

/// Returns the values of [`FrameHeadBytes::roles`] and [`FrameHeadBytes::to`] in a frame for a node: of the former, the
/// lower four bits. For a filter that compares bytes.
#[must_use]
pub const fn receiver_fields(to: NodeId) -> (u8, u16) {
    (to.role as u8, to.index)
}
