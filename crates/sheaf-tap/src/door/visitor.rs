//! A connection at a door: first a visitor that must subscribe, then a consumer.

use super::{Books, DoorOptions};
use bytes::Bytes;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use sheaf_key::{DoorProof, Nonce, Proof};
use sheaf_protocol::sampler::{ConsumerId, Counts, Selection};
use sheaf_wire::tap::{
    EndReason, FRAME_BYTES, Frame, FrameHead, Kind, TapError, emit_challenge, emit_end, emit_proof,
    emit_status,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between reports of missed events to a consumer. They also show that the door is alive.
const STATUS: Duration = Duration::from_secs(1);

/// End of a visitor.
#[derive(Debug)]
pub(super) enum Ended {
    /// It closed the connection, or received the end.
    Left,
    /// It read nothing.
    Slow,
    /// It sent nothing.
    Silent,
    /// It sent invalid data.
    Nonsense(Nonsense),
    /// It did not prove that it has the key of the run.
    WrongKey,
}

/// Violation of the protocol by a visitor.
#[derive(Debug, thiserror::Error)]
pub(super) enum Nonsense {
    #[error(transparent)]
    Frame(#[from] TapError),
    #[error("it should send its subscription once, and sent a frame of the kind {0:?}")]
    Kind(Kind),
    #[error("it sent more after its subscription")]
    More,
    /// Distinguished from other errors: a visitor without the key may be hostile.
    #[error("it did not prove that it has the key of the run")]
    WrongKey,
}

/// The socket of a visitor.
#[derive(Debug)]
pub(super) enum VisitorSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl VisitorSocket {
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Unix(stream) => registry.register(stream, token, interest),
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                registry.register(stream, token, interest)
            }
        }
    }
}

impl Read for VisitorSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for VisitorSocket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Events for a consumer, and their account.
#[derive(Debug)]
struct ConsumerQueue {
    events: rtrb::Consumer<Bytes>,
    books: Arc<Books>,
    sent: u64,
    next_status: Instant,
}

/// A connection at a door.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) id: ConsumerId,
    /// Its own name.
    pub(super) name: String,
    socket: VisitorSocket,
    said: Vec<u8>,
    selection: Option<Selection>,
    queue: Option<ConsumerQueue>,
    /// Bytes being written, whether they are an event, and the number written.
    writing: Option<(Bytes, bool, usize)>,
    came: Instant,
    /// When it last took a byte, or had nothing to take.
    progress: Instant,
    end_sent: bool,
    /// The proof that it must send, and the welcome that follows.
    owes: Option<(DoorProof, Bytes)>,
    /// Frames that are written before all others.
    first: VecDeque<Bytes>,
}

impl Visitor {
    /// Makes a visitor, which must first prove that it has the key, if there is one.
    pub(super) fn new(
        id: ConsumerId,
        socket: VisitorSocket,
        welcome: Bytes,
        proof: Option<DoorProof>,
        now: Instant,
    ) -> Self {
        let (first, owes) = match proof {
            None => (welcome, None),
            Some(proof) => (emit_challenge(proof.challenge()).into(), Some((proof, welcome))),
        };
        Self {
            id,
            name: String::new(),
            socket,
            said: Vec::new(),
            selection: None,
            queue: None,
            writing: Some((first, false, 0)),
            came: now,
            progress: now,
            end_sent: false,
            owes,
            first: VecDeque::new(),
        }
    }

    /// Returns whether it has yet to prove that it has the key.
    pub(super) fn is_unproven(&self) -> bool {
        self.owes.is_some()
    }

    /// Sends a refusal for lack of the key. A visitor that does not get it finds the connection closed.
    pub(super) fn turn_away(&mut self) {
        let _ = self.socket.write(&emit_end(EndReason::WrongKey, &Counts::default()));
    }

    /// Returns whether it is a consumer: the builder's thread knows it.
    pub(super) fn is_listening(&self) -> bool {
        self.queue.is_some()
    }

    /// Takes the visitor's selection, once.
    pub(super) fn take_selection(&mut self) -> Option<Selection> {
        self.selection.take()
    }

    pub(super) fn sit_down(&mut self, events: rtrb::Consumer<Bytes>, books: Arc<Books>) {
        self.queue = Some(ConsumerQueue { events, books, sent: 0, next_status: self.came + STATUS });
    }

    /// Returns the fates of the events for it, and the number sent.
    pub(super) fn books(&self) -> (Counts, u64) {
        self.queue.as_ref().map_or_else(Default::default, |queue| (queue.books.read(), queue.sent))
    }

    /// Reads its messages and writes its data. Returns how it has ended, if it has.
    pub(super) fn pump(&mut self, now: Instant, options: &DoorOptions, over: bool) -> Option<Ended> {
        if let Some(ended) = self.read() {
            return Some(ended);
        }
        if let Err(error) = self.write(now, over) {
            return (error.kind() != ErrorKind::WouldBlock)
                .then_some(Ended::Left)
                .or_else(|| (now.duration_since(self.progress) >= options.patience).then_some(Ended::Slow));
        }
        if self.end_sent && self.writing.is_none() {
            return Some(Ended::Left);
        }
        let silent = self.queue.is_none() && self.selection.is_none();
        (silent && now.duration_since(self.came) >= options.greeting).then_some(Ended::Silent)
    }

    fn read(&mut self) -> Option<Ended> {
        let mut buffer = [0; 256];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Some(Ended::Left),
                Ok(_) if self.selection.is_some() || self.queue.is_some() => {
                    return Some(Ended::Nonsense(Nonsense::More));
                }
                Ok(bytes) => {
                    self.said.extend_from_slice(&buffer[..bytes]);
                    match self.understand() {
                        Ok(()) => {}
                        // A visitor without the key that sends anything else receives the reason.
                        Err(_) if self.is_unproven() => return Some(Ended::WrongKey),
                        Err(nonsense) => return Some(Ended::Nonsense(nonsense)),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Some(Ended::Left),
            }
        }
    }

    /// Decodes the received bytes as far as possible: the head as soon as it is complete, so that too long a message is
    /// refused at once.
    fn understand(&mut self) -> Result<(), Nonsense> {
        let Some((head, body)) = self.said.split_first_chunk::<FRAME_BYTES>() else { return Ok(()) };
        let head = FrameHead::parse(head)?;
        let expected = if self.is_unproven() { Kind::Answer } else { Kind::Subscribe };
        if head.kind != expected {
            return Err(Nonsense::Kind(head.kind));
        }
        match body.len().cmp(&(head.body_bytes as usize)) {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Greater => Err(Nonsense::More),
            std::cmp::Ordering::Equal => {
                match head.parse_body(&Bytes::copy_from_slice(body))? {
                    Frame::Subscribe(selection, name) => {
                        (self.selection, self.name) = (Some(selection), name)
                    }
                    Frame::Answer(nonce, proof) => self.prove(&nonce, &proof)?,
                    _ => return Err(Nonsense::Kind(head.kind)),
                }
                self.said = Vec::new();
                Ok(())
            }
        }
    }

    /// Takes a visitor's proof that it has the key: it is welcome.
    fn prove(&mut self, nonce: &Nonce, proof: &Proof) -> Result<(), Nonsense> {
        let Some((door, welcome)) = self.owes.take() else { return Err(Nonsense::Kind(Kind::Answer)) };
        let Some(own) = door.verify(nonce, proof) else {
            self.owes = Some((door, welcome));
            return Err(Nonsense::WrongKey);
        };
        self.first.extend([emit_proof(own).into(), welcome]);
        Ok(())
    }

    /// Writes until there is no more data, or no room, which is returned as an error.
    fn write(&mut self, now: Instant, over: bool) -> io::Result<()> {
        loop {
            if self.writing.is_none() {
                self.writing = self.next_frame(now, over);
            }
            let Some((frame, is_event, written)) = &mut self.writing else {
                self.progress = now;
                return Ok(());
            };
            while *written < frame.len() {
                match self.socket.write(&frame[*written..]) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(bytes) => {
                        *written += bytes;
                        self.progress = now;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if let (true, Some(queue)) = (*is_event, &mut self.queue) {
                queue.sent += 1;
                queue.books.leave_queue(frame.len());
            }
            self.writing = None;
        }
    }

    fn next_frame(&mut self, now: Instant, over: bool) -> Option<(Bytes, bool, usize)> {
        if let Some(frame) = self.first.pop_front() {
            return Some((frame, false, 0));
        }
        let Some(queue) = &mut self.queue else {
            return self.last_word(over, Counts::default());
        };
        if now >= queue.next_status && !over {
            queue.next_status = now + STATUS;
            return Some((emit_status(&queue.books.read()).into(), false, 0));
        }
        if let Ok(event) = queue.events.pop() {
            return Some((event, true, 0));
        }
        // The builder's thread added its last event before it set the flag; everything that it had added has been
        // taken.
        let counts = queue.books.read();
        self.last_word(over, counts)
    }

    fn last_word(&mut self, over: bool, counts: Counts) -> Option<(Bytes, bool, usize)> {
        if !over || self.end_sent {
            return None;
        }
        self.end_sent = true;
        Some((emit_end(EndReason::BuilderEnded, &counts).into(), false, 0))
    }
}
