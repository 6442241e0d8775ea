//! Who is there: what both sides of a connection say before the first frame, and whether it is acceptable.

use super::framing::{
    GREETING_BYTES, GreetingBytes, KEYED, MAGIC, MAX_FRAME_BYTES, RAIL_GREETING_BYTES, RAILS_VERSION,
    RailBytes, VERSION,
};
use super::proving;
use super::sequence::Window;
use crate::{Refusal, TlsProblem};
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// Greeting of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) node: NodeId,
    pub(crate) run: RunNumber,
    pub(crate) session: SessionId,
    pub(crate) max_frame_bytes: usize,
}

impl Greeting {
    /// The bytes of a guest's greeting: it is no node, and takes part in the run of whoever lets it in.
    pub(super) fn emit_as_guest(&self, version: u16, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        let mut greeting = self.emit_as(version, refusal);
        greeting[offset_of!(GreetingBytes, node)..offset_of!(GreetingBytes, max_frame_bytes)].fill(0);
        greeting
    }

    /// The bytes of the greeting, with the reason where the other side is refused.
    pub(crate) fn emit(&self, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        self.emit_as(VERSION, refusal)
    }

    /// As [`Greeting::emit`], in another version of the framing.
    pub(crate) fn emit_as(&self, version: u16, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
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

    /// Checks the other side's greeting, as received by `self`. Whether the node is expected is for the caller to
    /// decide.
    pub(crate) fn hear(&self, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        self.hear_as(VERSION, bytes)
    }

    /// As [`Greeting::hear`], in another version of the framing.
    pub(crate) fn hear_as(&self, version: u16, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        let said = self.read(version, bytes)?;
        let run = RunNumber(said.run.get());
        if run != self.run {
            return Err(Refusal::WrongRun(run));
        }
        let node = NodeId::from_code(said.node.get()).ok_or(Refusal::UnknownNode(said.node.get()))?;
        said_by(&said, node)
    }

    /// Checks the greeting of a guest, which is called `node` here.
    pub(super) fn hear_guest(
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

    /// Checks the greeting of a host for a guest, which does not know the host's name before.
    pub(super) fn hear_host(&self, version: u16, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
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

    /// Why the other side, which said this of itself, has refused us.
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
        // Said only to those who sent something like a greeting: not to strangers, nor to the silent.
        Refusal::Malformed
        | Refusal::WrongMagic
        | Refusal::WrongProvider
        | Refusal::WrongDatagramBytes
        | Refusal::NarrowPath { .. }
        | Refusal::Tls(_)
        | Refusal::NoGreeting
        | Refusal::Other(_) => 6,
    }
}

/// Greeting on one of several connections of a link, after the node's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RailGreeting {
    /// Which of the link's, from 0.
    pub(super) rail: usize,
    /// Number of rails.
    pub(super) rails: usize,
    /// Which link it is of those that the two sessions have had.
    pub(super) epoch: u32,
    /// Window of the sender for frames that come out of order.
    pub(super) window: Window,
}

impl RailGreeting {
    pub(super) fn emit(&self) -> [u8; RAIL_GREETING_BYTES - GREETING_BYTES] {
        let bytes = RailBytes {
            // At most 64 rails, see the settings.
            rail: (self.rail as u16).into(),
            rails: (self.rails as u16).into(),
            link: self.epoch.into(),
            window_frames: u32::try_from(self.window.frames).unwrap_or(u32::MAX).into(),
            reserved: 0.into(),
            window_bytes: (self.window.bytes as u64).into(),
        };
        let mut out = [0; RAIL_GREETING_BYTES - GREETING_BYTES];
        out.copy_from_slice(bytes.as_bytes());
        out
    }

    /// Parses the other side's greeting; `None` if it is invalid.
    pub(super) fn hear(bytes: &[u8]) -> Option<Self> {
        let said = RailBytes::read_from_bytes(bytes).ok()?;
        let window = Window {
            frames: said.window_frames.get() as usize,
            bytes: usize::try_from(said.window_bytes.get()).unwrap_or(usize::MAX),
        };
        let (rail, rails) = (usize::from(said.rail.get()), usize::from(said.rails.get()));
        (window.frames > 0).then_some(Self { rail, rails, epoch: said.link.get(), window })
    }
}

/// A greeting that may arrive a byte at a time.
#[derive(Debug)]
pub(super) struct GreetingBuffer {
    bytes: [u8; LONGEST_BYTES],
    arrived: usize,
    /// The version that is spoken here.
    version: u16,
    /// Length in bytes of a greeting of this version, with everything that belongs to it.
    length: usize,
}

/// The longest that a greeting is, with what belongs to it.
const LONGEST_BYTES: usize = RAIL_GREETING_BYTES + proving::ANSWER_BYTES;

impl GreetingBuffer {
    /// For what a caller says first in this version of the framing.
    pub(super) fn of_call(version: u16) -> Self {
        Self::new(version, proving::CALL_BYTES)
    }

    /// For what a caller is answered.
    pub(super) fn of_answer(version: u16) -> Self {
        Self::new(version, proving::ANSWER_BYTES)
    }

    fn new(version: u16, keyed_bytes: usize) -> Self {
        let greeting = if version & !KEYED == RAILS_VERSION { RAIL_GREETING_BYTES } else { GREETING_BYTES };
        let length = greeting + if version & KEYED == 0 { 0 } else { keyed_bytes };
        Self { bytes: [0; LONGEST_BYTES], arrived: 0, version, length }
    }

    /// The length of what has arrived when it is whole. One of another version, or one that refuses, may be no longer than
    /// what all versions have.
    fn whole(&self) -> usize {
        let is_short = match self.bytes.first_chunk::<12>() {
            Some([.., one, two, 0, 0]) if self.arrived >= 12 => {
                u16::from_le_bytes([*one, *two]) != self.version
            }
            _ => self.arrived >= 12,
        };
        if is_short { GREETING_BYTES } else { self.length }
    }

    /// The room that is left.
    pub(super) fn room(&mut self) -> &mut [u8] {
        // What makes a greeting short is known before a short one is whole: never read beyond that.
        let end = if self.arrived < GREETING_BYTES { GREETING_BYTES } else { self.whole() };
        &mut self.bytes[self.arrived..end]
    }

    /// Takes note of `bytes` more; gives the greeting when it is whole.
    pub(super) fn filled(&mut self, bytes: usize) -> Option<&[u8]> {
        self.arrived += bytes;
        (self.arrived >= GREETING_BYTES && self.arrived == self.whole()).then(|| &self.bytes[..self.arrived])
    }

    /// Why what has arrived cannot become a greeting: no need to wait for the rest.
    pub(super) fn is_hopeless(&self) -> Option<Refusal> {
        // The first record of a client, and that with which a server refuses.
        const TLS: [[u8; 2]; 2] = [[0x16, 3], [0x15, 3]];
        let arrived = &self.bytes[..self.arrived];
        let seen = self.arrived.min(MAGIC.len());
        if arrived[..seen] == MAGIC[..seen] {
            None
        } else if TLS.iter().any(|record| arrived.starts_with(record)) {
            Some(Refusal::Tls(TlsProblem::OnlyPeerHas))
        } else {
            Some(Refusal::WrongMagic)
        }
    }
}
