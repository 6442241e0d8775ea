//! Greetings: what both sides of a connection send before the first frame, and whether it is acceptable.
//!
//! The greeting is the same on connections of TCP and on the sockets of shared memory. `docs/reference/tcp-framing.md` describes it
//! with examples.

use crate::{Refusal, TlsProblem};
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of every connection, from both sides.
pub const MAGIC: [u8; 8] = *b"SHEAFTCP";

/// The version of the framing of a link with one connection.
pub const VERSION: u16 = 1;

/// Set in the version of a greeting where the two sides prove to each other that they have the key of the run: a nonce of 32 bytes
/// follows the greeting, a proof of 32 bytes the nonce of the side that was called, and the caller sends its proof behind
/// the answer.
pub const KEYED: u16 = 0x100;

/// The greeting, 32 bytes: sent first by the side that called, then by the side that was called. In every version of
/// the framing the first 12 bytes have this meaning, so that versions can refuse each other politely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GreetingBytes {
    /// Offset 0: [`MAGIC`].
    pub magic: [u8; 8],
    /// Offset 8: the version of the framing behind the greeting, with [`KEYED`] where there is a key.
    pub version: U16,
    /// Offset 10: 0, or why the sender refuses the connection; it is closed after that.
    pub refusal: U16,
    /// Offset 12: the sender's node code.
    pub node: U32,
    /// Offset 16: the run that the sender takes part in.
    pub run: U32,
    /// Offset 20: the largest frame that the sender takes, head and payload together, in bytes.
    pub max_frame_bytes: U32,
    /// Offset 24: the sender's session.
    pub session: U64,
}

/// The size of a greeting.
pub const GREETING_BYTES: usize = size_of::<GreetingBytes>();

/// No limit for the size of a frame may be larger: sums of two lengths stay far from overflow, and the goodbye is
/// never a frame.
pub const MAX_FRAME_BYTES: usize = 1 << 30;

const _: () = assert!(GREETING_BYTES == 32);

/// Greeting of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its role and index.
    pub node: NodeId,
    /// The run that it takes part in.
    pub run: RunNumber,
    /// Its present life.
    pub session: SessionId,
    /// The largest frame that it takes, head and payload together.
    pub max_frame_bytes: usize,
}

impl Greeting {
    /// Returns the bytes of a guest's greeting: it is not a node, and takes part in the run of the host that admits it.
    #[must_use]
    pub fn emit_as_guest(&self, version: u16, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        let mut greeting = self.emit_as(version, refusal);
        greeting[offset_of!(GreetingBytes, node)..offset_of!(GreetingBytes, max_frame_bytes)].fill(0);
        greeting
    }

    /// The bytes of the greeting, with the reason where the other side is refused.
    #[must_use]
    pub fn emit(&self, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        self.emit_as(VERSION, refusal)
    }

    /// As [`Greeting::emit`], in another version of the framing.
    #[must_use]
    pub fn emit_as(&self, version: u16, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        let bytes = GreetingBytes {
            magic: MAGIC,
            version: version.into(),
            refusal: refusal.map_or(0, code).into(),
            node: self.node.to_code().into(),
            run: self.run.0.into(),
            // At most `MAX_FRAME_BYTES`, see the settings.
            max_frame_bytes: (self.max_frame_bytes as u32).into(),
            session: self.session.0.into(),
        };
        let mut out = [0; GREETING_BYTES];
        out.copy_from_slice(bytes.as_bytes());
        out
    }

    /// Checks the other side's greeting, as received by `self`. The caller decides whether the node is expected.
    ///
    /// # Errors
    /// Why the link is refused, by this side or by the other.
    pub fn parse(&self, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        self.parse_as(VERSION, bytes)
    }

    /// As [`Greeting::parse`], in another version of the framing.
    ///
    /// # Errors
    /// Why the link is refused, by this side or by the other.
    pub fn parse_as(&self, version: u16, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        let said = self.read(version, bytes)?;
        let run = RunNumber(said.run.get());
        if run != self.run {
            return Err(Refusal::WrongRun(run));
        }
        let node = NodeId::from_code(said.node.get()).ok_or(Refusal::UnknownNode(said.node.get()))?;
        said_by(&said, node)
    }

    /// Checks the greeting of a guest, which is called `node` here.
    ///
    /// # Errors
    /// Why the link is refused, by this side or by the other.
    pub fn parse_guest(
        &self,
        version: u16,
        node: NodeId,
        bytes: &[u8; GREETING_BYTES],
    ) -> Result<Self, Refusal> {
        let said = self.read(version, bytes)?;
        if said.node.get() != 0 {
            return Err(Refusal::UnknownNode(said.node.get()));
        }
        said_by(&said, node)
    }

    /// Checks the greeting of a host for a guest, which does not know the host's node id before.
    ///
    /// # Errors
    /// Why the link is refused, by this side or by the other.
    pub fn hear_host(&self, version: u16, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        let said = self.read(version, bytes)?;
        let node = NodeId::from_code(said.node.get()).ok_or(Refusal::UnknownNode(said.node.get()))?;
        said_by(&said, node)
    }

    /// The fields of a greeting that does not refuse.
    fn read(&self, version: u16, bytes: &[u8; GREETING_BYTES]) -> Result<GreetingBytes, Refusal> {
        let Ok(said) = GreetingBytes::read_from_bytes(bytes) else {
            return Err(Refusal::Malformed);
        };
        if said.magic != MAGIC {
            return Err(Refusal::WrongMagic);
        }
        if said.refusal != 0 {
            let run = RunNumber(said.run.get());
            return Err(self.refused(said.refusal.get(), said.version.get(), run));
        }
        match said.version.get() {
            same if same == version => {}
            other if other ^ version == KEYED => return Err(Refusal::KeyOnOneSide),
            other => return Err(Refusal::WrongVersion(other & !KEYED)),
        }
        Ok(said)
    }

    /// Returns the reason for which the other side, with this greeting, has refused us.
    fn refused(&self, code: u16, version: u16, run: RunNumber) -> Refusal {
        match code {
            1 => Refusal::WrongVersion(version & !KEYED),
            2 => Refusal::WrongRun(run),
            3 => Refusal::UnknownNode(self.node.to_code()),
            4 => Refusal::StaleSession(self.session),
            5 => Refusal::BothInitiate,
            6 => Refusal::Malformed,
            7 => Refusal::WrongRails,
            8 => Refusal::NoRoom,
            9 => Refusal::InUse,
            10 => Refusal::FutureSession(self.session),
            11 => Refusal::KeyOnOneSide,
            12 => Refusal::WrongKey,
            13 => Refusal::Tls(TlsProblem::WrongNode),
            other => Refusal::Other(other),
        }
    }
}

/// Parses the greeting of `node`.
fn said_by(said: &GreetingBytes, node: NodeId) -> Result<Greeting, Refusal> {
    let (session, max_frame_bytes) = (SessionId(said.session.get()), said.max_frame_bytes.get() as usize);
    if session == SessionId(0) || max_frame_bytes > MAX_FRAME_BYTES {
        return Err(Refusal::Malformed);
    }
    Ok(Greeting { node, run: RunNumber(said.run.get()), session, max_frame_bytes })
}

/// The code of a refusal in a greeting.
fn code(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::WrongVersion(_) => 1,
        Refusal::WrongRun(_) => 2,
        Refusal::UnknownNode(_) => 3,
        Refusal::StaleSession(_) => 4,
        Refusal::BothInitiate => 5,
        Refusal::WrongRails => 7,
        Refusal::NoRoom => 8,
        Refusal::InUse => 9,
        Refusal::FutureSession(_) => 10,
        Refusal::KeyOnOneSide => 11,
        Refusal::WrongKey => 12,
        Refusal::Tls(TlsProblem::WrongNode) => 13,
        // Sent only to peers that sent something like a greeting: not to strangers, nor to silent ones.
        Refusal::Malformed
        | Refusal::WrongMagic
        | Refusal::WrongProvider
        | Refusal::WrongDatagramBytes
        | Refusal::NarrowPath { .. }
        | Refusal::Tls(_)
        | Refusal::NoGreeting
        | Refusal::NoProof
        | Refusal::Other(_) => 6,
    }
}
