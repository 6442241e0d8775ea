//! Hellos: the first frame on every link between nodes, in both directions, with the versions of the protocol that its sender speaks.
//!
//! Both sides know both ranges and come to the same result: the highest version of both, or none, and then both say why. So nothing is
//! negotiated, and no transport takes part. `docs/reference/protocol.md` describes the bytes.

use super::layout::{MAGIC, OLDEST_VERSION, VERSION, layout};
use crate::SessionId;
use crate::checksum::crc32c;
use std::fmt::{self, Display, Formatter};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Kind of a hello, where a message has its [kind](super::layout::Kind). No message has this one.
pub const KIND: u8 = 255;

/// Size of a hello with texts that are not very long: they are followed by zeros, so that the size does not tell one host from another.
pub const HELLO_BYTES: usize = 128;

/// Maximum length of each of the two texts.
const TEXT_BYTES: usize = u8::MAX as usize;

layout! {
    /// A hello, 20 bytes and two texts. In every version of the protocol these fields have this meaning. Whatever follows the texts is ignored.
    HelloBytes[20] {
        /// Offset 0: [`MAGIC`], as in a message.
        magic: [u8; 2],
        /// Offset 2: the newest version of the protocol that the sender speaks. Here a message has its version: a node from before hellos
        /// that does not speak this one says so.
        newest: u8,
        /// Offset 3: [`KIND`].
        kind: u8,
        /// Offset 4: CRC-32C of the whole hello with this field zero.
        checksum: U32,
        /// Offset 8: session of the sender.
        session: U64,
        /// Offset 16: the oldest version of the protocol that the sender speaks, at least 1 and at most the newest.
        oldest: u8,
        /// Offset 17: zero.
        reserved: u8,
        /// Offset 18: bytes of the name and version of the software, UTF-8, which follow.
        software_bytes: u8,
        /// Offset 19: bytes of the name of the host, UTF-8, which follow those.
        host_bytes: u8,
    }
}

/// Versions of the protocol that a program speaks: all from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub oldest: u8,
    /// The newest, not below the oldest.
    pub newest: u8,
}

impl VersionRange {
    /// Versions that this program speaks.
    pub const OWN: Self = Self { oldest: OLDEST_VERSION, newest: VERSION };

    /// Returns the version that two programs use: the highest one that both speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u8> {
        let highest = self.newest.min(other.newest);
        (highest >= self.oldest.max(other.oldest)).then_some(highest)
    }
}

impl Display for VersionRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.oldest, self.newest) {
            (oldest, newest) if oldest == newest => write!(f, "version {newest}"),
            (oldest, newest) => write!(f, "versions {oldest} to {newest}"),
        }
    }
}

/// The hello of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its session; 0 if it is not known.
    pub session: SessionId,
    /// Versions of the protocol that it speaks.
    pub versions: VersionRange,
    /// Name and version of its software; empty if not known.
    pub software: String,
    /// Name of its host; empty if not known.
    pub host: String,
}

/// Reason why bytes that begin like a hello are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Fewer bytes than its fields say.
    #[error("hello ends after {0} bytes")]
    Truncated(usize),
    /// It is damaged.
    #[error("hello has a wrong checksum")]
    WrongChecksum,
    /// Versions that are no range.
    #[error("hello has the versions {0} to {1}, which is no range")]
    BadRange(u8, u8),
}

impl Hello {
    /// Returns the hello of a node that has sent none, and a message of this version.
    #[must_use]
    pub fn unsaid(version: u8) -> Self {
        let versions = VersionRange { oldest: version, newest: version };
        Self { session: SessionId(0), versions, software: String::new(), host: String::new() }
    }

    /// Returns whether a frame that begins with these bytes is a hello.
    #[must_use]
    pub fn is_begun_by(bytes: &[u8]) -> bool {
        matches!(bytes, [magic_0, magic_1, _, KIND, ..] if [*magic_0, *magic_1] == MAGIC)
    }

    /// Returns its bytes, at least [`HELLO_BYTES`]. Texts beyond 255 bytes are cut.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let (software, host) = (cut(&self.software), cut(&self.host));
        let head = HelloBytes {
            magic: MAGIC,
            newest: self.versions.newest,
            kind: KIND,
            checksum: 0.into(),
            session: self.session.0.into(),
            oldest: self.versions.oldest,
            reserved: 0,
            // At most 255 bytes.
            software_bytes: software.len() as u8,
            host_bytes: host.len() as u8,
        };
        let mut bytes = [head.as_bytes(), software.as_bytes(), host.as_bytes()].concat();
        bytes.resize(bytes.len().max(HELLO_BYTES), 0);
        seal(&mut bytes);
        bytes
    }

    /// Parses a hello.
    ///
    /// # Errors
    /// If it is cut or damaged, or its versions are no range.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        let truncated = HelloError::Truncated(bytes.len());
        let (head, texts) = HelloBytes::ref_from_prefix(bytes).map_err(|_| truncated)?;
        if !Self::is_begun_by(bytes) || checksum(bytes) != head.checksum.get() {
            return Err(HelloError::WrongChecksum);
        }
        let (software, rest) = texts.split_at_checked(head.software_bytes.into()).ok_or(truncated)?;
        let host = rest.get(..head.host_bytes.into()).ok_or(truncated)?;
        let versions = VersionRange { oldest: head.oldest, newest: head.newest };
        if versions.oldest == 0 || versions.newest < versions.oldest {
            return Err(HelloError::BadRange(versions.oldest, versions.newest));
        }
        Ok(Self {
            session: SessionId(head.session.get()),
            versions,
            software: text(software),
            host: text(host),
        })
    }
}

/// The sender, as people need to know it: software and host.
impl Display for Hello {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let software = if self.software.is_empty() { "an unknown release" } else { &self.software };
        match self.host.as_str() {
            "" => f.write_str(software),
            host => write!(f, "{software} on host {host}"),
        }
    }
}

/// Returns as much of a text as fits.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

/// Returns a text of a peer for a log: without line breaks and other characters that control a terminal.
fn text(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_control()).collect();
    cut(&text).to_owned()
}

/// Returns the checksum of a hello.
fn checksum(bytes: &[u8]) -> u32 {
    const AT: usize = offset_of!(HelloBytes, checksum);
    let mut sealed = bytes.to_vec();
    sealed[AT..AT + size_of::<U32>()].fill(0);
    crc32c(&sealed)
}

/// Corrects the checksum of a hello, if the bytes are enough for one.
pub(crate) fn seal(bytes: &mut [u8]) {
    if bytes.len() >= size_of::<HelloBytes>() {
        let checksum = checksum(bytes);
        bytes[offset_of!(HelloBytes, checksum)..][..size_of::<U32>()]
            .copy_from_slice(&checksum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
