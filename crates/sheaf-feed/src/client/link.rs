//! A connection to a readout unit: rings in shared memory on the same host, else a link over the network.

use super::{ClientOptions, FeedError};
use bytes::Bytes;
use sheaf_key::RunKey;
use sheaf_shm::door::{Hello, SentRecord, Visit, VisitError, Visited};
use sheaf_tcp::{GuestError, GuestOptions, TcpGuest, TcpSettings, Tls};
use sheaf_transport::{Frame, SendError};
use sheaf_wire::feed::first_part;
use sheaf_wire::{ByteCount, Nanos, SessionId};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time that the last messages have to leave.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Address of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket of this host.
    Socket(PathBuf),
    /// `host:port`.
    Network(String),
}

impl Address {
    /// Reads an address: `HOST:PORT` (`[::1]:PORT`), else a path. An existing file is a path in any case.
    pub(super) fn of(text: &Path) -> Self {
        let parts = text.to_str().and_then(|text| text.rsplit_once(':'));
        let is_address = |(host, port): &(&str, &str)| {
            !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        match parts.filter(is_address) {
            Some((host, port)) if !text.exists() => Self::Network(format!("{host}:{port}")),
            _ => Self::Socket(text.to_owned()),
        }
    }
}

/// Messages in both directions, in order.
#[derive(Debug)]
pub(super) struct Link {
    way: Way,
    /// The last message found no room.
    is_full: bool,
    unsent: Option<Bytes>,
}

#[derive(Debug)]
enum Way {
    Shared(Box<Visit>),
    Network(Box<TcpGuest>),
}

impl Link {
    pub(super) fn connect(address: &Address, options: &ClientOptions) -> Result<Self, FeedError> {
        let way = match (address, &options.network) {
            (Address::Socket(socket), None) => visit(socket)?,
            (Address::Socket(socket), Some(network)) => visit_or_call(socket, network, options)?,
            (Address::Network(address), _) => call(address, options)?,
        };
        Ok(Self { way, is_full: false, unsent: None })
    }

    /// Sends a message of fragments. Returns `false` if there is no room now.
    pub(super) fn send(&mut self, message: &Bytes) -> bool {
        if self.unsent.is_some() {
            return false;
        }
        let sent = match &mut self.way {
            Way::Shared(visit) => {
                let sent = visit.push(&[message]);
                visit.flush();
                sent
            }
            Way::Network(guest) => {
                let at = first_part(message);
                let frame = Frame::new(
                    message.slice(..at),
                    Some(message.slice(at..)).filter(|rest| !rest.is_empty()),
                );
                let sent = guest.send(frame);
                guest.flush();
                // The end of the link is seen where messages are taken.
                !matches!(sent, Err(SendError::Full(_)))
            }
        };
        self.is_full = !sent;
        sent
    }

    /// Returns whether both sides share memory.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.way, Way::Shared(_))
    }

    /// Sends a message of `length` bytes in parts, through shared memory only. Returns its record, or `None` if there is no room
    /// now.
    pub(super) fn send_parts<'a>(
        &mut self,
        length: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Option<SentRecord> {
        let Way::Shared(visit) = &mut self.way else { return None };
        let sent = if self.unsent.is_none() { visit.write(length, parts) } else { None };
        visit.flush();
        self.is_full = sent.is_none();
        sent
    }

    /// Begins a message of at most `room` bytes in shared memory. Returns `false` if there is no room now.
    pub(super) fn begin(&mut self, room: usize) -> bool {
        let has_room = match &mut self.way {
            Way::Shared(visit) => self.unsent.is_none() && visit.begin(room),
            Way::Network(_) => false,
        };
        self.is_full = !has_room;
        has_room
    }

    /// Returns the first `length` bytes of the message that was begun.
    pub(super) fn content(&mut self, length: usize) -> &mut [u8] {
        match &mut self.way {
            Way::Shared(visit) => visit.content(length),
            Way::Network(_) => &mut [],
        }
    }

    /// Sends the first `length` bytes of the message that was begun.
    ///
    /// # Panics
    /// If no message was begun: over a network there is none.
    pub(super) fn finish(&mut self, length: usize) -> SentRecord {
        let Way::Shared(visit) = &mut self.way else { panic!("begun in shared memory") };
        let record = visit.finish(length);
        visit.flush();
        record
    }

    /// Keeps the messages from this one on in shared memory, although the readout unit has taken them.
    pub(super) fn keep_from(&mut self, record: Option<SentRecord>) {
        if let Way::Shared(visit) = &mut self.way {
            visit.keep_from(record);
        }
    }

    /// Returns whether the readout unit is known to have taken a message.
    pub(super) fn is_taken(&self, record: SentRecord) -> bool {
        matches!(&self.way, Way::Shared(visit) if visit.is_taken(record))
    }

    /// Copies a message that is kept in shared memory.
    pub(super) fn copy_of(&self, record: SentRecord) -> Bytes {
        match &self.way {
            Way::Shared(visit) => visit.copy_of(record),
            Way::Network(_) => Bytes::new(),
        }
    }

    /// Sends a message, or keeps it until there is room. There must be no message that is kept.
    pub(super) fn send_or_keep(&mut self, message: Bytes) {
        if !self.send(&message) {
            self.unsent = Some(message);
        }
    }

    /// Sends the message that was kept, if there is room now.
    pub(super) fn flush_unsent(&mut self) {
        self.is_full = false;
        if let Some(message) = self.unsent.take() {
            self.send_or_keep(message);
        }
    }

    /// Returns whether the last message found no room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the length of the longest message that the connection can carry.
    pub(super) fn longest(&self) -> usize {
        match &self.way {
            Way::Shared(visit) => visit.longest(),
            Way::Network(_) => usize::MAX,
        }
    }

    /// Copies the next message of the readout unit to `message`. Returns `false` if there is none.
    pub(super) fn take(&mut self, message: &mut Vec<u8>) -> Result<bool, FeedError> {
        match &mut self.way {
            Way::Shared(visit) => match visit.take(message) {
                Ok(Visited::Record) => Ok(true),
                Ok(Visited::Nothing) => Ok(false),
                Err(VisitError::Closed) => Err(FeedError::Closed),
                Err(error) => Err(error.into()),
            },
            Way::Network(guest) => match guest.take() {
                Some(frame) => {
                    message.clear();
                    message.extend_from_slice(&frame.head);
                    frame.payload.iter().for_each(|piece| message.extend_from_slice(piece));
                    Ok(true)
                }
                None if guest.ended().is_some() => Err(FeedError::Closed),
                None => Ok(false),
            },
        }
    }

    /// Sleeps until there may be a message, the connection ends, or `timeout` has passed.
    pub(super) fn wait(&mut self, timeout: Nanos) {
        match &mut self.way {
            Way::Shared(visit) => visit.wait(timeout),
            Way::Network(guest) => guest.wait(timeout),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Way::Network(guest) = &mut self.way {
            // What was sent is delivered, as through shared memory.
            guest.close(FAREWELL);
        }
    }
}

fn visit(socket: &Path) -> Result<Way, VisitError> {
    let hello = Hello { pid: std::process::id(), content: Vec::new() };
    Ok(Way::Shared(Box::new(Visit::meet(socket, &hello)?)))
}

/// Connects through the socket if this host has it, and otherwise over the network.
fn visit_or_call(socket: &Path, network: &str, options: &ClientOptions) -> Result<Way, FeedError> {
    let absent = match visit(socket) {
        Err(error @ VisitError::NobodyThere { .. }) => error,
        result => return Ok(result?),
    };
    match call(network, options) {
        Err(FeedError::Network(error @ (GuestError::NobodyThere { .. } | GuestError::NoSuchHost { .. }))) => {
            Err(FeedError::Nowhere { socket: absent, network: error })
        }
        // A readout unit of this host answers at its port when it has its socket: it has started between the two attempts.
        answered => visit(socket).or(answered),
    }
}

fn call(address: &str, options: &ClientOptions) -> Result<Way, FeedError> {
    let tls = options.tls.as_ref().map(Tls::load).transpose()?;
    let key = options.key.as_deref().map(RunKey::load).transpose()?;
    // The run decides how long messages are, and its credit bounds what waits to be sent.
    let most = ByteCount::mib(1024);
    let settings = TcpSettings { max_frame_bytes: most, queue_bytes: most, ..TcpSettings::default() };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let session = SessionId(Nanos::from(since).0.max(1));
    Ok(Way::Network(Box::new(TcpGuest::meet(address, GuestOptions { session, settings, tls, key })?)))
}
