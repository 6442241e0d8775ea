//! Frames of the links to consumers and to hit spools: a head with a magic, a kind, a length and a checksum, and a body.
//!
//! Each link has kinds, bodies and a magic of its own: [`crate::tap`], [`crate::spool_link`].

use crate::checksum::{crc32c, crc32c_append};
use crate::message::layout::layout;
use std::fmt::Debug;
use std::mem::size_of;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a frame before its body.
pub const FRAME_BYTES: usize = size_of::<FrameBytes>();

layout! {
    /// The start of a frame, 16 bytes; the body follows.
    FrameBytes[16] {
        /// Offset 0: the magic of the link.
        magic: [u8; 4],
        /// Offset 4: version of the frames.
        version: u8,
        /// Offset 5: kind of the body.
        kind: u8,
        /// Offset 6: zero.
        reserved: [u8; 2],
        /// Offset 8: bytes of the body.
        body_bytes: U32,
        /// Offset 12: CRC-32C of this head with this field zero, continued over the body if the kind has no checksums of its own.
        checksum: U32,
    }
}

/// Kinds of frames of a link.
pub trait FrameKind: Copy + Debug + 'static {
    /// Error of a parser of this link.
    type Error: From<LinkFrameError>;
    /// The first four bytes of a frame.
    const MAGIC: [u8; 4];
    /// The version of the frames. A receiver refuses every other.
    const VERSION: u8;
    /// Description of the called side, for whoever has reached something else.
    const CALLED: &'static str;

    /// Returns the code of a kind.
    fn code(self) -> u8;

    /// Returns the name of a kind.
    fn name(self) -> &'static str;

    /// Returns the kind with a code.
    fn from_code(code: u8) -> Option<Self>;

    /// Returns the minimum and maximum bytes of a body.
    fn body_bytes(self) -> (u32, u32);

    /// Returns whether the checksum of the frame is that of head and body. The parts of other bodies have checksums of their own.
    fn seals_body(self) -> bool {
        true
    }
}

/// Reason why bytes are not a frame. The receiver closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFrameError {
    /// Not a frame of this link.
    #[error(
        "frame starts with {found:02x?}, not with \"{}\": is this the address of {called}?", .magic.escape_ascii()
    )]
    WrongMagic {
        /// Bytes that it starts with.
        found: [u8; 4],
        /// The magic of the link.
        magic: [u8; 4],
        /// Description of the called side.
        called: &'static str,
    },
    /// Another version.
    #[error(
        "frame has version {found}, this release speaks version {spoken}; run the same release of sheaf on both sides"
    )]
    WrongVersion {
        /// The version in the frame.
        found: u8,
        /// The version of this release.
        spoken: u8,
    },
    /// A field has an undefined value.
    #[error("field `{field}` of a frame has the invalid value {value}")]
    BadValue {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A body of a size that its kind cannot have.
    #[error("body of a frame `{kind}` has {bytes} bytes, {least} to {most} are right")]
    WrongLength {
        /// Name of the kind.
        kind: &'static str,
        /// Bytes of the body.
        bytes: u32,
        /// The fewest.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Damaged bytes.
    #[error("checksum of a frame is {computed:08x}, the frame says {declared:08x}")]
    WrongChecksum {
        /// The checksum in the frame.
        declared: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

impl LinkFrameError {
    /// Makes the error of a field.
    pub(crate) const fn bad(field: &'static str, value: u64) -> Self {
        Self::BadValue { field, value }
    }
}

/// The start of a frame: how many bytes to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead<K> {
    /// Kind of the body.
    pub kind: K,
    /// Number of bytes of the body.
    pub body_bytes: u32,
    checksum: u32,
}

impl<K: FrameKind> FrameHead<K> {
    /// Parses the first [`FRAME_BYTES`] of a frame.
    ///
    /// # Errors
    /// A [`LinkFrameError`] if they are not a frame's head.
    pub fn parse(bytes: &[u8; FRAME_BYTES]) -> Result<Self, K::Error> {
        Ok(Self::parse_bytes(bytes)?)
    }

    fn parse_bytes(bytes: &[u8; FRAME_BYTES]) -> Result<Self, LinkFrameError> {
        let head = FrameBytes::read_from_bytes(bytes).unwrap_or_else(|_| unreachable!("the sizes are equal"));
        if head.magic != K::MAGIC {
            return Err(LinkFrameError::WrongMagic { found: head.magic, magic: K::MAGIC, called: K::CALLED });
        }
        if head.version != K::VERSION {
            return Err(LinkFrameError::WrongVersion { found: head.version, spoken: K::VERSION });
        }
        if head.reserved != [0; 2] {
            return Err(LinkFrameError::bad("reserved", u16::from_le_bytes(head.reserved).into()));
        }
        let kind = K::from_code(head.kind).ok_or_else(|| LinkFrameError::bad("kind", head.kind.into()))?;
        let (bytes, (least, most)) = (head.body_bytes.get(), kind.body_bytes());
        if bytes < least || bytes > most {
            return Err(LinkFrameError::WrongLength { kind: kind.name(), bytes, least, most });
        }
        let parsed = Self { kind, body_bytes: bytes, checksum: head.checksum.get() };
        if !kind.seals_body() {
            parsed.check(&[])?;
        }
        Ok(parsed)
    }

    /// Checks length and checksum of a body.
    pub(crate) fn check_body(&self, body: &[u8]) -> Result<(), LinkFrameError> {
        if body.len() != self.body_bytes as usize {
            return Err(self.wrong_length(body));
        }
        if self.kind.seals_body() { self.check(body) } else { Ok(()) }
    }

    /// Makes the error of a body that has not the length which the head or its own content demands.
    pub(crate) fn wrong_length(&self, body: &[u8]) -> LinkFrameError {
        let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let (least, most) = (self.body_bytes, self.body_bytes);
        LinkFrameError::WrongLength { kind: self.kind.name(), bytes, least, most }
    }

    /// Makes the head of a frame whose body is in two pieces.
    fn new(kind: K, one: &[u8], other: &[u8]) -> Self {
        let body_bytes = u32::try_from(one.len() + other.len()).unwrap_or(u32::MAX);
        let head = Self { kind, body_bytes, checksum: 0 };
        Self {
            checksum: if kind.seals_body() { head.computed(one, other) } else { head.computed(&[], &[]) },
            ..head
        }
    }

    fn to_bytes(self) -> FrameBytes {
        FrameBytes {
            magic: K::MAGIC,
            version: K::VERSION,
            kind: self.kind.code(),
            reserved: [0; 2],
            body_bytes: U32::new(self.body_bytes),
            checksum: U32::new(self.checksum),
        }
    }

    fn computed(self, one: &[u8], other: &[u8]) -> u32 {
        let head = crc32c(Self { checksum: 0, ..self }.to_bytes().as_bytes());
        crc32c_append(crc32c_append(head, one), other)
    }

    fn check(self, body: &[u8]) -> Result<(), LinkFrameError> {
        let (declared, computed) = (self.checksum, self.computed(body, &[]));
        if declared == computed { Ok(()) } else { Err(LinkFrameError::WrongChecksum { declared, computed }) }
    }
}

/// Returns a frame whose body is in two pieces.
pub(crate) fn emit_pieces<K: FrameKind>(kind: K, one: &[u8], other: &[u8]) -> Vec<u8> {
    [FrameHead::new(kind, one, other).to_bytes().as_bytes(), one, other].concat()
}

/// Writes the head of a frame into the first [`FRAME_BYTES`] of `frame`, which has its body behind them.
pub(crate) fn write_head<K: FrameKind>(kind: K, frame: &mut [u8]) {
    let head = FrameHead::new(kind, &frame[FRAME_BYTES..], &[]).to_bytes();
    frame[..FRAME_BYTES].copy_from_slice(head.as_bytes());
}

/// Makes the checksum of a frame right, whatever else is wrong with it, for fuzz targets.
#[doc(hidden)]
pub fn seal<K: FrameKind>(bytes: &mut [u8]) {
    let Some((head, body)) = bytes.split_first_chunk_mut::<FRAME_BYTES>() else { return };
    let Ok(parsed) = FrameBytes::read_from_bytes(&head[..]) else { return };
    let length = (parsed.body_bytes.get() as usize).min(body.len());
    let seals_body = K::from_code(parsed.kind).is_none_or(FrameKind::seals_body);
    let covered: &[u8] = if seals_body { &body[..length] } else { &[] };
    let at = std::mem::offset_of!(FrameBytes, checksum);
    head[at..].fill(0);
    let checksum = crc32c_append(crc32c(&head[..]), covered);
    head[at..].copy_from_slice(&checksum.to_le_bytes());
}
