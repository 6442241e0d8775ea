//! Messages and memory that two nodes exchange before a link is up.
//!
//! The caller sends the greeting of [`sheaf_transport::greeting`], followed by the fields below, and five files: the
//! link's segment, its arena, the page and the event counter of its bell, and the end of a pipe that stays open while
//! its arena is read. The called node answers with the same, except for the link's segment. A node that refuses answers
//! with the reason, and without files.

use super::arena::{Arena, PeerArena};
use super::bell::Bell;
use super::link::Parts;
use super::segment::{self, Common};
use super::settings::{MAX_RING_BYTES, ShmSettings};
use super::side::{self, Side};
use super::slots::SLOTS;
use super::{record, socket};
use rustix::io;
use rustix::pipe::PipeFlags;
use sheaf_transport::Refusal;
use sheaf_transport::greeting::GREETING_BYTES;
use sheaf_transport::greeting::Greeting;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Behind the greeting.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Terms {
    magic: [u8; 8],
    /// Size of each ring, chosen by the caller.
    ring_bytes: U32,
    /// Slots of each side.
    slots: U32,
    /// Number of bytes of the sender's arena that are to be mapped.
    arena_bytes: U64,
}

/// Changes with everything in the link's segment.
const MAGIC: [u8; 8] = *b"SHMLINK1";

/// The size of a message.
pub(super) const MESSAGE_BYTES: usize = GREETING_BYTES + size_of::<Terms>();

/// Ours of the two pipes of a link, and the end for the peer.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) ours: OwnedFd,
    theirs: OwnedFd,
}

impl Lease {
    fn new() -> io::Result<Self> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { ours, theirs })
    }
}

/// Memory that this node gives to every peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home<'a> {
    pub(super) me: &'a Greeting,
    pub(super) arena: &'a Arena,
    pub(super) bell: &'a Bell,
    pub(super) settings: &'a ShmSettings,
}

/// A call that was made.
#[derive(Debug)]
pub(super) struct Call {
    common: Common,
    lease: OwnedFd,
}

impl Home<'_> {
    fn message(&self, ring_bytes: usize) -> [u8; MESSAGE_BYTES] {
        let terms = Terms {
            magic: MAGIC,
            // At most `MAX_RING_BYTES`.
            ring_bytes: (ring_bytes as u32).into(),
            slots: SLOTS.into(),
            arena_bytes: self.arena.bytes().0.into(),
        };
        let mut message = [0; MESSAGE_BYTES];
        message[..GREETING_BYTES].copy_from_slice(&self.me.emit(None));
        message[GREETING_BYTES..].copy_from_slice(terms.as_bytes());
        message
    }

    fn files<'a>(&'a self, lease: &'a Lease) -> [BorrowedFd<'a>; 4] {
        [self.arena.file(), self.bell.page_file(), self.bell.event(), lease.theirs.as_fd()]
    }

    /// Sends the caller's greeting, with a segment for the link.
    pub(super) fn call(&self, connection: &OwnedFd) -> io::Result<Call> {
        let name = format!("sheaf.run{}.{}.link", self.me.run, self.me.node);
        let file = segment::create(&name, self.settings.link_bytes())?;
        let common = Common::new(&file, self.settings.link_bytes())?;
        let lease = Lease::new()?;
        let [arena, page, event, theirs] = self.files(&lease);
        let files = [file.as_fd(), arena, page, event, theirs];
        socket::send(connection, &self.message(self.settings.ring_bytes()), &files)?;
        Ok(Call { common, lease: lease.ours })
    }

    /// Sends the called node's greeting.
    pub(super) fn answer(&self, connection: &OwnedFd, terms: &Caller) -> io::Result<OwnedFd> {
        let lease = Lease::new()?;
        socket::send(connection, &self.message(terms.ring_bytes), &self.files(&lease))?;
        Ok(lease.ours)
    }

    /// Sends the reason for a refusal. On failure the caller has died.
    pub(super) fn refuse(&self, connection: &OwnedFd, reason: Refusal) {
        let mut message = [0; MESSAGE_BYTES];
        message[..GREETING_BYTES].copy_from_slice(&self.me.emit(Some(reason)));
        let _ = socket::send(connection, &message, &[]);
    }

    /// Decodes the other side's greeting.
    pub(super) fn parse(&self, message: &[u8]) -> Result<(Greeting, Offer), Refusal> {
        let Some((greeting, rest)) = message.split_first_chunk::<GREETING_BYTES>() else {
            return Err(Refusal::Malformed);
        };
        let greeting = self.me.parse(greeting)?;
        let terms = Terms::read_from_bytes(rest).map_err(|_| Refusal::Malformed)?;
        if terms.magic != MAGIC || terms.slots.get() != SLOTS {
            return Err(Refusal::Malformed);
        }
        let arena_bytes = usize::try_from(terms.arena_bytes.get()).map_err(|_| Refusal::Malformed)?;
        Ok((greeting, Offer { ring_bytes: terms.ring_bytes.get() as usize, arena_bytes }))
    }

    fn parts(&self, socket: OwnedFd, said: &Said, lease: OwnedFd, side: Side, common: Common) -> ReadyParts {
        let max_frame_bytes = self.me.max_frame_bytes.min(said.max_frame_bytes);
        let (queue_frames, queue_bytes) =
            (self.settings.queue_frames as u64, self.settings.queue_bytes.0.max(max_frame_bytes as u64));
        ReadyParts { socket, lease, side, common, max_frame_bytes, queue_frames, queue_bytes }
    }

    /// The parts of the link of a caller that was answered.
    pub(super) fn called(&self, socket: OwnedFd, caller: Caller, lease: OwnedFd) -> Parts {
        let Caller { said, common, ring_bytes } = caller;
        self.parts(socket, &said, lease, Side::Called, common).with(said, ring_bytes)
    }

    /// The parts of the link of a call that was answered.
    pub(super) fn answered(&self, socket: OwnedFd, call: Call, said: Said) -> Parts {
        let Call { common, lease } = call;
        self.parts(socket, &said, lease, Side::Caller, common).with(said, self.settings.ring_bytes())
    }
}

struct ReadyParts {
    socket: OwnedFd,
    lease: OwnedFd,
    side: Side,
    common: Common,
    max_frame_bytes: usize,
    queue_frames: u64,
    queue_bytes: u64,
}

impl ReadyParts {
    fn with(self, said: Said, ring_bytes: usize) -> Parts {
        let Self { socket, lease, side, common, max_frame_bytes, queue_frames, queue_bytes } = self;
        let Said { bell, arena, held, .. } = said;
        Parts {
            socket,
            side,
            common,
            ring_bytes,
            bell,
            arena,
            lease,
            held,
            max_frame_bytes,
            queue_frames,
            queue_bytes,
        }
    }
}

/// Offer of the other side's memory; not checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    ring_bytes: usize,
    arena_bytes: usize,
}

/// Checked offer of the other side.
#[derive(Debug)]
pub(super) struct Said {
    bell: Bell,
    arena: PeerArena,
    held: OwnedFd,
    max_frame_bytes: usize,
}

/// A caller, checked.
#[derive(Debug)]
pub(super) struct Caller {
    said: Said,
    common: Common,
    ring_bytes: usize,
}

impl Said {
    /// `None` if these are not the files that they should be.
    pub(super) fn new(greeting: &Greeting, offer: Offer, files: Vec<OwnedFd>) -> Option<Self> {
        let [arena, page, event, held]: [OwnedFd; 4] = files.try_into().ok()?;
        if offer.arena_bytes == 0 || segment::sealed_bytes(&arena)? < offer.arena_bytes {
            return None;
        }
        let arena = PeerArena::new(arena, offer.arena_bytes).ok()?;
        let bell = Bell::of_peer(page, event)?;
        Some(Self { bell, arena, held, max_frame_bytes: greeting.max_frame_bytes })
    }
}

impl Caller {
    /// Returns `None` if the terms or the files are invalid.
    pub(super) fn new(greeting: &Greeting, offer: Offer, mut files: Vec<OwnedFd>) -> Option<Self> {
        let ring_bytes = offer.ring_bytes;
        let sound =
            ring_bytes.is_power_of_two() && (record::RECORD_ALIGN..=MAX_RING_BYTES).contains(&ring_bytes);
        if !sound || files.is_empty() {
            return None;
        }
        let file = files.remove(0);
        let bytes = side::link_bytes(ring_bytes);
        if segment::sealed_bytes(&file)? < bytes {
            return None;
        }
        let common = Common::new(&file, bytes).ok()?;
        Some(Self { said: Said::new(greeting, offer, files)?, common, ring_bytes })
    }
}
