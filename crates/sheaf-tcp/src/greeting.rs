//! Greetings of a link with several connections, and greetings that arrive a byte at a time.

use super::framing::{GREETING_BYTES, KEYED, MAGIC, RAIL_GREETING_BYTES, RAILS_VERSION, RailBytes};
use super::proving;
use super::sequence::Window;
use sheaf_transport::{Refusal, TlsProblem};
use zerocopy::{FromBytes, IntoBytes};

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
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
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
    /// The version of this side.
    version: u16,
    /// Length in bytes of a greeting of this version, with everything that belongs to it.
    length: usize,
}

/// Maximum length of a greeting, with its proof.
const LONGEST_BYTES: usize = RAIL_GREETING_BYTES + proving::ANSWER_BYTES;

impl GreetingBuffer {
    /// Makes the buffer for a caller's greeting in this version of the framing.
    pub(super) fn of_call(version: u16) -> Self {
        Self::new(version, proving::CALL_BYTES)
    }

    /// Makes the buffer for the answer to a caller.
    pub(super) fn of_answer(version: u16) -> Self {
        Self::new(version, proving::ANSWER_BYTES)
    }

    fn new(version: u16, keyed_bytes: usize) -> Self {
        let greeting = if version & !KEYED == RAILS_VERSION { RAIL_GREETING_BYTES } else { GREETING_BYTES };
        let length = greeting + if version & KEYED == 0 { 0 } else { keyed_bytes };
        Self { bytes: [0; LONGEST_BYTES], arrived: 0, version, length }
    }

    /// Returns the length of the complete greeting. One of another version, or one that refuses, is limited to the part
    /// common to all versions.
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
        // Whether a greeting is short is known before a short one is complete: never read beyond that.
        let end = if self.arrived < GREETING_BYTES { GREETING_BYTES } else { self.whole() };
        &mut self.bytes[self.arrived..end]
    }

    /// Takes note of `bytes` more; gives the greeting when it is whole.
    pub(super) fn filled(&mut self, bytes: usize) -> Option<&[u8]> {
        self.arrived += bytes;
        (self.arrived >= GREETING_BYTES && self.arrived == self.whole()).then(|| &self.bytes[..self.arrived])
    }

    /// Returns why the received bytes cannot become a greeting: there is no need to wait for the rest.
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
