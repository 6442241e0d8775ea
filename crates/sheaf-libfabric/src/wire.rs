//! Header of a message, and the messages of two nodes over TCP.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The layouts of this release. Nodes of another do not understand each other.
pub(super) const VERSION: u32 = 1;

/// The first bytes of every message: 40.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct HeaderBytes {
    /// The link, as the receiver has named it.
    token: U64,
    /// Which message of the link this is, from 0; not for a message of credit.
    number: U64,
    /// Number of messages that the receiver may have sent to the sender of this one since the link came up.
    granted: U64,
    /// 0: only credit. 1: a frame begins. 2: a frame continues.
    kind: U32,
    /// Bytes of the frame's head; 0 unless a frame begins.
    head_bytes: U32,
    /// Bytes of the frame, head and payload; 0 unless a frame begins.
    frame_bytes: U32,
    reserved: U32,
}

pub(super) const HEADER_BYTES: usize = size_of::<HeaderBytes>();

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Credit, and nothing behind it.
    Credit,
    /// The beginning of a frame, or the whole.
    Begin { head_bytes: usize, frame_bytes: usize },
    /// More of a frame.
    More,
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) token: u64,
    pub(super) number: u64,
    pub(super) granted: u64,
    pub(super) kind: Kind,
}

impl Header {
    pub(super) fn emit(&self, out: &mut [u8]) {
        let (kind, head_bytes, frame_bytes) = match self.kind {
            Kind::Credit => (0, 0, 0),
            // Frames have at most 1 GiB, see the settings.
            Kind::Begin { head_bytes, frame_bytes } => (1, head_bytes as u32, frame_bytes as u32),
            Kind::More => (2, 0, 0),
        };
        let bytes = HeaderBytes {
            token: self.token.into(),
            number: self.number.into(),
            granted: self.granted.into(),
            kind: kind.into(),
            head_bytes: head_bytes.into(),
            frame_bytes: frame_bytes.into(),
            reserved: 0.into(),
        };
        out[..HEADER_BYTES].copy_from_slice(bytes.as_bytes());
    }

    /// The header of a message; `None` if it has none, or one without meaning.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let (said, body) = HeaderBytes::read_from_prefix(message).ok()?;
        let (head_bytes, frame_bytes) = (said.head_bytes.get() as usize, said.frame_bytes.get() as usize);
        let kind = match said.kind.get() {
            0 if body.is_empty() => Kind::Credit,
            1 if head_bytes <= frame_bytes && body.len() <= frame_bytes => {
                Kind::Begin { head_bytes, frame_bytes }
            }
            2 => Kind::More,
            _ => return None,
        };
        Some(Self { token: said.token.get(), number: said.number.get(), granted: said.granted.get(), kind })
    }
}

/// The fixed part of a message over TCP: 40 bytes. In a hello, the provider's name and the endpoint's follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct WordBytes {
    /// 1: hello. 2: farewell. 3: thanks.
    kind: U32,
    version: U32,
    /// The sender's name for the link; of a farewell the number of messages; of thanks 1 if the sender closes too.
    value: U64,
    window: U64,
    max_frame_bytes: U64,
    message_bytes: U32,
    provider_bytes: U32,
}

/// Message over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The sender's address.
    Hello(Hello),
    /// The total number of messages sent; no more follow.
    Farewell { messages: u64 },
    /// All these messages have arrived; whether this side will send a farewell too.
    Thanks { closing: bool },
}

/// Address and number of a link's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Token that messages of this link must begin with.
    pub(super) token: u64,
    /// Number of messages that may be sent before more are granted.
    pub(super) window: u64,
    /// The largest frame.
    pub(super) max_frame_bytes: usize,
    /// The largest message, with its header.
    pub(super) message_bytes: usize,
    /// The provider of libfabric.
    pub(super) provider: String,
    /// The endpoint's name.
    pub(super) name: Vec<u8>,
}

/// Reason why a message was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordError {
    Version(u32),
    Malformed,
}

impl Word {
    pub(super) fn emit(&self) -> Vec<u8> {
        let (kind, value) = match self {
            Self::Hello(hello) => (1, hello.token),
            Self::Farewell { messages } => (2, *messages),
            Self::Thanks { closing } => (3, u64::from(*closing)),
        };
        let hello = if let Self::Hello(hello) = self { Some(hello) } else { None };
        let bytes = WordBytes {
            kind: kind.into(),
            version: VERSION.into(),
            value: value.into(),
            window: hello.map_or(0, |hello| hello.window).into(),
            max_frame_bytes: hello.map_or(0, |hello| hello.max_frame_bytes as u64).into(),
            // Both are far below 4 GiB, see the settings.
            message_bytes: hello.map_or(0, |hello| hello.message_bytes as u32).into(),
            provider_bytes: hello.map_or(0, |hello| hello.provider.len() as u32).into(),
        };
        let mut out = bytes.as_bytes().to_vec();
        if let Some(hello) = hello {
            out.extend_from_slice(hello.provider.as_bytes());
            out.extend_from_slice(&hello.name);
        }
        out
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, WordError> {
        let (said, rest) = WordBytes::read_from_prefix(bytes).map_err(|_| WordError::Malformed)?;
        if said.version.get() != VERSION {
            return Err(WordError::Version(said.version.get()));
        }
        match (said.kind.get(), said.value.get()) {
            (1, token) => {
                let names = rest.split_at_checked(said.provider_bytes.get() as usize);
                let (provider, name) = names.ok_or(WordError::Malformed)?;
                let provider = String::from_utf8(provider.to_vec()).map_err(|_| WordError::Malformed)?;
                let message_bytes = said.message_bytes.get() as usize;
                if message_bytes <= HEADER_BYTES {
                    return Err(WordError::Malformed);
                }
                Ok(Self::Hello(Hello {
                    token,
                    window: said.window.get(),
                    max_frame_bytes: usize::try_from(said.max_frame_bytes.get()).unwrap_or(usize::MAX),
                    message_bytes,
                    provider,
                    name: name.to_vec(),
                }))
            }
            (2, messages) => Ok(Self::Farewell { messages }),
            (3, closing @ 0..=1) => Ok(Self::Thanks { closing: closing == 1 }),
            _ => Err(WordError::Malformed),
        }
    }
}
