//! Header of a datagram on UDP.

use sheaf_wire::NodeId;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first two bytes of every datagram.
pub const MAGIC: [u8; 2] = *b"SU";

/// The version of the framing.
pub const VERSION: u8 = 1;

/// In front of every datagram, 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PrefixBytes {
    /// Offset 0: [`MAGIC`].
    pub magic: [u8; 2],
    /// Offset 2: [`VERSION`].
    pub version: u8,
    /// Offset 3: the rail, from 0.
    pub rail: u8,
    /// Offset 4: the sender's node code.
    pub node: U32,
}

/// The size of the prefix.
pub const PREFIX_BYTES: usize = size_of::<PrefixBytes>();

/// Decodes the sender of a datagram, its rail, and its kind; `None` if it is not one of ours.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<(NodeId, usize, &[u8])> {
    let (prefix, datagram) = PrefixBytes::ref_from_prefix(bytes).ok()?;
    if prefix.magic != MAGIC || prefix.version != VERSION {
        return None;
    }
    Some((NodeId::from_code(prefix.node.get())?, prefix.rail.into(), datagram))
}
