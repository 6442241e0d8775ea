//! The guest's side of a door.

use super::ring::{GAUGES, In, Out, Rings, SentRecord, Way};
use super::words::{FULL, Hello, MESSAGE_BYTES, NOT_UNDERSTOOD, SegmentBytes, WelcomeBytes};
use super::{guest, socket};
use crate::arena::PeerArena;
use crate::bell::Bell;
use crate::cursor::Impossible;
use crate::segment::{self, Common};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;
use sheaf_wire::Nanos;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Time that a host has to answer a greeting, and to send a file that a record names.
const ANSWER_TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The longest text of a welcome.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Reason why a visit did not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// No process listens at the door.
    #[error(
        "cannot connect to {path}: {error}; check that the run is in progress and that this is the right socket"
    )]
    NobodyThere {
        /// The door.
        path: PathBuf,
        /// The system's answer, which is in the text.
        error: std::io::Error,
    },
    /// The door belongs to another user.
    #[error("{0} belongs to a process of another user; run both as the same")]
    Stranger(PathBuf),
    /// The host has no room.
    #[error("{0} has as many guests as it allows; join another builder unit's door")]
    Full(PathBuf),
    /// The two do not understand each other.
    #[error("{0} speaks another version of this protocol; run the same release on both sides")]
    OtherVersion(PathBuf),
    /// The host went away.
    #[error("the host closed the door")]
    Closed,
    /// The host broke the rules.
    #[error("the host violated the protocol of the door: {0}")]
    Violated(&'static str),
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// Result of a poll for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visited {
    /// A record.
    Record,
    /// None now.
    Nothing,
}

/// A visit at a door.
#[derive(Debug)]
pub struct Visit {
    socket: OwnedFd,
    common: Common,
    out: Out,
    into: In,
    own_bell: Bell,
    host_bell: Bell,
    text: Bytes,
    segments: Vec<(u32, Bytes)>,
    ended: bool,
}

/// A mapped segment, kept by every slice of it.
struct Mapped(PeerArena);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Visit {
    /// Connects to the host at `path` and exchanges greetings.
    ///
    /// # Errors
    /// Why the host did not admit the guest.
    pub fn meet(path: &Path, hello: &Hello) -> Result<Self, VisitError> {
        let failed = |what| move |source: io::Errno| VisitError::Io { what, source: source.into() };
        let socket = socket::connect_path(path)
            .map_err(|error| VisitError::NobodyThere { path: path.into(), error: error.into() })?;
        if !socket::is_ours(&socket) {
            return Err(VisitError::Stranger(path.into()));
        }
        match socket::send(&socket, &hello.emit(), &[]) {
            Ok(()) => {}
            // The host has closed the door behind this call.
            Err(io::Errno::PIPE | io::Errno::CONNRESET) => return Err(VisitError::Closed),
            Err(error) => return Err(failed("greet the host")(error)),
        }
        let mut message = vec![0; MESSAGE_BYTES];
        let (bytes, files) = receive(&socket, &mut message)?;
        let other = || VisitError::OtherVersion(path.into());
        let welcome = WelcomeBytes::parse(&message[..bytes]).ok_or_else(other)?;
        match welcome.refusal.get() {
            0 => {}
            FULL => return Err(VisitError::Full(path.into())),
            NOT_UNDERSTOOD => return Err(other()),
            _ => return Err(VisitError::Violated("an unknown refusal")),
        }
        let rings = Rings {
            down_bytes: welcome.down_bytes.get() as usize,
            up_bytes: welcome.up_bytes.get() as usize,
        };
        let text_bytes = welcome.text_bytes.get() as usize;
        let Ok([link, page, event, host_page, host_event, text]) = <[OwnedFd; 6]>::try_from(files) else {
            return Err(VisitError::Violated("a welcome without its files"));
        };
        let is_large =
            |file: &OwnedFd, bytes| segment::sealed_bytes(file).is_some_and(|there| there >= bytes);
        if !rings.are_sound()
            || !is_large(&link, rings.segment_bytes())
            || text_bytes > MAX_TEXT_BYTES
            || !is_large(&text, text_bytes.max(1))
        {
            return Err(VisitError::Violated("a welcome whose files are too small"));
        }
        let bells = Bell::of_peer(page, event).zip(Bell::of_peer(host_page, host_event));
        let (own_bell, host_bell) = bells.ok_or(VisitError::Violated("a welcome without bells"))?;
        let common = Common::new(&link, rings.segment_bytes()).map_err(failed("map the link"))?;
        let text = PeerArena::new(text, text_bytes.max(1)).map_err(failed("map the welcome"))?;
        Ok(Self {
            socket,
            common,
            out: Out::new(rings, Way::Up),
            into: In::new(rings, Way::Down),
            own_bell,
            host_bell,
            text: Bytes::copy_from_slice(&text.as_slice()[..text_bytes]),
            segments: Vec::new(),
            ended: false,
        })
    }

    /// The text of the welcome.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Copies the next record to `content`.
    ///
    /// # Errors
    /// [`VisitError::Closed`] when the host has closed the door and all of its records were taken, or that it violated
    /// the protocol.
    pub fn take(&mut self, content: &mut Vec<u8>) -> Result<Visited, VisitError> {
        let violated = |Impossible| VisitError::Violated("its ring has an invalid record");
        if self.into.take(&self.common, content).map_err(violated)? {
            return Ok(Visited::Record);
        }
        if self.ended {
            return Err(VisitError::Closed);
        }
        Ok(Visited::Nothing)
    }

    /// Returns bytes of a segment of the host, in place. The host may overwrite them once the event to which they
    /// belong has been answered.
    ///
    /// # Errors
    /// If the range does not exist.
    pub fn bytes(&mut self, segment: u32, at: u64, length: u64) -> Result<Bytes, VisitError> {
        let known = self.segments.iter().position(|(id, _)| *id == segment);
        let place = match known {
            Some(place) => place,
            None => self.fetch(segment)?,
        };
        // The next request is mostly for the same segment, or the previous one.
        self.segments.swap(0, place);
        let all = &self.segments[0].1;
        let range = usize::try_from(at).ok().zip(usize::try_from(length).ok());
        let range = range.and_then(|(at, length)| Some(at..at.checked_add(length)?));
        let range = range.filter(|range| range.end <= all.len());
        range.map(|range| all.slice(range)).ok_or(VisitError::Violated("a place outside its memory"))
    }

    /// Receives files from the socket until that of a segment has arrived; returns its index in the list.
    fn fetch(&mut self, segment: u32) -> Result<usize, VisitError> {
        let mut message = vec![0; MESSAGE_BYTES];
        loop {
            let (bytes, mut files) = receive(&self.socket, &mut message)?;
            let greeting = SegmentBytes::parse(&message[..bytes]);
            let Some(((head, living), file)) = greeting.zip(files.pop()) else {
                return Err(VisitError::Violated("a segment without its file"));
            };
            let (id, bytes) = (head.id.get(), usize::try_from(head.bytes.get()).unwrap_or(usize::MAX));
            if bytes == 0 || segment::sealed_bytes(&file).is_none_or(|there| there < bytes) {
                return Err(VisitError::Violated("a segment that is smaller than it says"));
            }
            self.segments.retain(|(id, _)| living.contains(id));
            let arena = PeerArena::new(file, bytes)
                .map_err(|source| VisitError::Io { what: "map the host's memory", source: source.into() })?;
            self.segments.push((id, Bytes::from_owner(Mapped(arena))));
            if id == segment {
                return Ok(self.segments.len() - 1);
            }
        }
    }

    /// Writes a record of these parts, one behind the other. `false` if there is no room now.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        self.out.push(&self.common, parts)
    }

    /// Writes a record of these parts, which have `length` bytes together. Returns the record, or `None` if there is no room now.
    pub fn write<'a>(&mut self, length: usize, parts: impl Iterator<Item = &'a [u8]>) -> Option<SentRecord> {
        self.out.write(&self.common, length, parts)
    }

    /// Begins a record whose content has at most `room` bytes. Returns `false` if there is no room now. Another record that is written,
    /// or begun, takes its place unless it is finished before.
    pub fn begin(&mut self, room: usize) -> bool {
        self.out.begin(&self.common, room)
    }

    /// Returns the first `length` bytes of the content of the record that was begun.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn content(&mut self, length: usize) -> &mut [u8] {
        self.out.content(&mut self.common, length)
    }

    /// Finishes the record that was begun, whose content has `length` bytes.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn finish(&mut self, length: usize) -> SentRecord {
        self.out.finish(&self.common, length)
    }

    /// Keeps the records from this one on in the ring, even where the host has taken them, so that they can be
    /// [read again](Self::copy_of); `None` keeps nothing.
    pub fn keep_from(&mut self, record: Option<SentRecord>) {
        self.out.keep_from(record);
    }

    /// Returns whether the host is known to have taken a record. What is known is refreshed when there is no room.
    #[must_use]
    pub fn is_taken(&self, record: SentRecord) -> bool {
        self.out.is_taken(record)
    }

    /// Copies the content of a record that is kept.
    ///
    /// # Panics
    /// If it is no longer in the ring.
    #[must_use]
    pub fn copy_of(&self, record: SentRecord) -> Bytes {
        self.out.copy_of(&self.common, record)
    }

    /// Returns whether the host has closed the door or died. Records that it has written can still be taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The longest record.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.out.longest()
    }

    /// Makes written records visible to the host, and wakes it.
    pub fn flush(&mut self) {
        if self.out.publish(&self.common) {
            self.host_bell.ring();
        }
    }

    /// Shows a number to the host, see [`super::Guest::gauge`].
    pub fn show(&self, index: usize, value: u64) {
        assert!(index < guest::GAUGES_COUNT, "there are {} gauges", guest::GAUGES_COUNT);
        self.common.u64(GAUGES + 8 * index).store(value, Ordering::Relaxed);
    }

    /// Flushes, then sleeps until there may be a record, the host has closed the door, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Nanos) {
        self.flush();
        if self.own_bell.answer() || timeout == Nanos::ZERO {
            return;
        }
        if self.own_bell.lie_down() {
            let timeout = Timespec::try_from(timeout.to_std()).ok();
            let mut both = [
                PollFd::from_borrowed_fd(self.own_bell.event(), PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::RDHUP),
            ];
            // A signal ends the sleep early; the following poll finds nothing.
            if rustix::event::poll(&mut both, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
                let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
                self.ended |= both[1].revents().intersects(over);
                drain(&self.own_bell);
            }
        }
        self.own_bell.answer();
    }
}

/// Resets the event counter of a bell, so that it is no longer readable.
pub(super) fn drain(bell: &Bell) {
    // Fails if another thread has reset it.
    let _ = io::read(bell.event(), &mut [0_u8; 8]);
}

/// The next message of the host.
fn receive(socket: &OwnedFd, message: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), VisitError> {
    loop {
        let mut socket_is_ready = [PollFd::new(socket, PollFlags::IN)];
        match rustix::event::poll(&mut socket_is_ready, Some(&ANSWER_TIMEOUT)) {
            Ok(0) => return Err(VisitError::Violated("it does not answer")),
            Ok(_) | Err(io::Errno::INTR) => {}
            Err(source) => return Err(VisitError::Io { what: "wait for the host", source: source.into() }),
        }
        match socket::receive(socket, message) {
            Ok((0, _)) => return Err(VisitError::Closed),
            Ok(received) => return Ok(received),
            Err(io::Errno::AGAIN | io::Errno::INTR) => {}
            Err(io::Errno::CONNRESET) => return Err(VisitError::Closed),
            Err(source) => return Err(VisitError::Io { what: "hear the host", source: source.into() }),
        }
    }
}
