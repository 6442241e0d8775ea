//! What stands for the bytes of a fragment.

use sheaf_wire::Payload;

/// A payload that has a size and no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// How many bytes it stands for.
    pub bytes: u32,
}

impl Payload for Descriptor {
    fn len(&self) -> usize {
        self.bytes as usize
    }
}
