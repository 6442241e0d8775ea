//! Messages of host and guest over the socket. The guest greets; the host answers with its welcome and the files of the
//! link, or with a refusal; later it hands over the files of its shared memory, as they are needed.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Changes with everything between host and guest.
const MAGIC: [u8; 8] = *b"SHDOOR01";

/// The longest content of a greeting.
pub const MAX_HELLO_BYTES: usize = 256;

/// The most segments that a host has at a time, as far as guests are concerned.
pub(super) const MAX_SEGMENTS: usize = 1024;

/// The largest message on the socket.
pub(super) const MESSAGE_BYTES: usize = size_of::<SegmentBytes>() + 4 * MAX_SEGMENTS;

/// Hello of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its process.
    pub pid: u32,
    /// Whatever host and guest have agreed on, at most [`MAX_HELLO_BYTES`].
    pub content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HelloBytes {
    magic: [u8; 8],
    pid: U32,
    content_bytes: U32,
}

impl Hello {
    pub(super) fn emit(&self) -> Vec<u8> {
        let head = HelloBytes {
            magic: MAGIC,
            pid: self.pid.into(),
            // At most `MAX_HELLO_BYTES`.
            content_bytes: (self.content.len() as u32).into(),
        };
        [head.as_bytes(), &self.content].concat()
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, content) = HelloBytes::ref_from_prefix(bytes).ok()?;
        let sound = head.magic == MAGIC
            && content.len() == head.content_bytes.get() as usize
            && content.len() <= MAX_HELLO_BYTES;
        sound.then(|| Self { pid: head.pid.get(), content: content.to_vec() })
    }
}

/// A host's welcome. With it come five files: the link's segment, page and event counter of the guest's bell, page and event
/// counter of the host's, and the welcome's text.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct WelcomeBytes {
    magic: [u8; 8],
    /// Zero, or why there is no welcome.
    pub(super) refusal: U32,
    pub(super) down_bytes: U32,
    pub(super) up_bytes: U32,
    pub(super) text_bytes: U32,
}

/// There is no room for another guest.
pub(super) const FULL: u32 = 1;
/// The greeting was not understood.
pub(super) const NOT_UNDERSTOOD: u32 = 2;

impl WelcomeBytes {
    pub(super) fn new(down_bytes: u32, up_bytes: u32, text_bytes: u32) -> Self {
        let (down_bytes, up_bytes, text_bytes) = (down_bytes.into(), up_bytes.into(), text_bytes.into());
        Self { magic: MAGIC, refusal: 0.into(), down_bytes, up_bytes, text_bytes }
    }

    pub(super) fn refuse(reason: u32) -> Self {
        Self { refusal: reason.into(), ..Self::new(0, 0, 0) }
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        Self::read_from_bytes(bytes).ok().filter(|welcome| welcome.magic == MAGIC)
    }
}

/// A segment of the host's memory; its file comes with this. The numbers of all segments that the host has follow, so that the
/// guest lets go of the others.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SegmentBytes {
    pub(super) id: U32,
    pub(super) living: U32,
    pub(super) bytes: U64,
}

impl SegmentBytes {
    pub(super) fn emit(id: u32, bytes: usize, living: &[u32]) -> Vec<u8> {
        let living = &living[..living.len().min(MAX_SEGMENTS)];
        let head = Self { id: id.into(), living: (living.len() as u32).into(), bytes: (bytes as u64).into() };
        let mut message = head.as_bytes().to_vec();
        for id in living {
            message.extend_from_slice(&id.to_le_bytes());
        }
        message
    }

    /// The segment, and the numbers of those that live.
    pub(super) fn parse(message: &[u8]) -> Option<(Self, Vec<u32>)> {
        let (head, rest) = Self::read_from_prefix(message).ok()?;
        let living = <[U32]>::ref_from_bytes(rest).ok()?;
        (living.len() == head.living.get() as usize)
            .then(|| (head, living.iter().map(|id| id.get()).collect()))
    }
}
