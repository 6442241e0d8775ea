//! Stand-in for the bytes of a fragment.

use sheaf_wire::Payload;

/// A payload that has a size and no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of bytes that it represents.
    pub bytes: u32,
}

impl Payload for Descriptor {
    fn len(&self) -> usize {
        self.bytes as usize
    }
}
