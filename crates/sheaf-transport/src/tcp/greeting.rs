//! Who is there: what both sides of a connection say before the first frame, and whether it is acceptable.

use super::framing::{GREETING_BYTES, GreetingBytes, MAGIC, MAX_FRAME_BYTES, VERSION};
use crate::Refusal;
use sheaf_wire::{NodeId, RunNumber, SessionId};
use zerocopy::{FromBytes, IntoBytes};

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) node: NodeId,
    pub(crate) run: RunNumber,
    pub(crate) session: SessionId,
    pub(crate) max_frame_bytes: usize,
}

impl Greeting {
    /// The bytes of the greeting, with the reason where the other side is refused.
    pub(crate) fn emit(&self, refusal: Option<Refusal>) -> [u8; GREETING_BYTES] {
        let bytes = GreetingBytes {
            magic: MAGIC,
            version: VERSION.into(),
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

    /// What the other side said, as heard by `self`. Whether the node is expected is for the caller to say.
    pub(crate) fn hear(&self, bytes: &[u8; GREETING_BYTES]) -> Result<Self, Refusal> {
        let Ok(said) = GreetingBytes::read_from_bytes(bytes) else {
            return Err(Refusal::Malformed);
        };
        if said.magic != MAGIC {
            return Err(Refusal::WrongMagic);
        }
        let run = RunNumber(said.run.get());
        if said.refusal != 0 {
            return Err(self.refused(said.refusal.get(), said.version.get(), run));
        }
        if said.version != VERSION {
            return Err(Refusal::WrongVersion(said.version.get()));
        }
        if run != self.run {
            return Err(Refusal::WrongRun(run));
        }
        let node = NodeId::from_code(said.node.get()).ok_or(Refusal::UnknownNode(said.node.get()))?;
        let (session, max_frame_bytes) = (SessionId(said.session.get()), said.max_frame_bytes.get() as usize);
        if session == SessionId(0) || max_frame_bytes > MAX_FRAME_BYTES {
            return Err(Refusal::Malformed);
        }
        Ok(Self { node, run, session, max_frame_bytes })
    }

    /// Why the other side, which said this of itself, has refused us.
    fn refused(&self, code: u16, version: u16, run: RunNumber) -> Refusal {
        match code {
            1 => Refusal::WrongVersion(version),
            2 => Refusal::WrongRun(run),
            3 => Refusal::UnknownNode(self.node.to_code()),
            4 => Refusal::StaleSession(self.session),
            5 => Refusal::BothInitiate,
            6 => Refusal::Malformed,
            other => Refusal::Other(other),
        }
    }
}

/// The code of a refusal in a greeting.
fn code(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::WrongVersion(_) => 1,
        Refusal::WrongRun(_) => 2,
        Refusal::UnknownNode(_) => 3,
        Refusal::StaleSession(_) => 4,
        Refusal::BothInitiate => 5,
        // Said only to those who sent something like a greeting: not to strangers, nor to the silent.
        Refusal::Malformed | Refusal::WrongMagic | Refusal::NoGreeting | Refusal::Other(_) => 6,
    }
}

/// A greeting that may arrive a byte at a time.
#[derive(Debug, Default)]
pub(super) struct GreetingBuffer {
    bytes: [u8; GREETING_BYTES],
    arrived: usize,
}

impl GreetingBuffer {
    /// The room that is left.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.arrived..]
    }

    /// Takes note of `bytes` more; gives the greeting when it is whole.
    pub(super) fn filled(&mut self, bytes: usize) -> Option<&[u8; GREETING_BYTES]> {
        self.arrived += bytes;
        (self.arrived == GREETING_BYTES).then_some(&self.bytes)
    }

    /// Whether what has arrived cannot become a greeting: no need to wait for the rest.
    pub(super) fn is_hopeless(&self) -> bool {
        let seen = self.arrived.min(MAGIC.len());
        self.bytes[..seen] != MAGIC[..seen]
    }
}
