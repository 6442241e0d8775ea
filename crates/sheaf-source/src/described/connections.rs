//! Connects to front ends over TCP, or accepts their connections, and reads packets from them.

use super::deframer::{Deframer, FrameCounts, NextPacket, PacketEnding};
use super::description::Description;
use sheaf_wire::{Nanos, SourceId, Timestamp};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Pause after the first failed attempt to connect. It doubles with each.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);

/// Longest pause between two attempts.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(2);

/// Time after which an attempt without an answer has failed.
const ATTEMPT_LIMIT: Nanos = Nanos::from_secs(5);

/// Silence after which the kernel asks whether the front end is alive, and the time between its questions.
const ASK_AFTER: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// Connections of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Address at which front ends connect.
    pub listen: Option<SocketAddr>,
    /// Addresses of front ends.
    pub connect: Vec<SocketAddr>,
    /// Maximum number of front ends that are connected at `listen` at the same time.
    pub most: usize,
    /// Whether the sources end when the front ends have closed their connections: each of `connect`, and `most` at `listen`.
    pub ends_on_close: bool,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Connections that were made.
    pub made: u64,
    /// Connections that the front end closed.
    pub closed: u64,
    /// Connections that failed, or were closed because nothing told where the next packet begins.
    pub lost: u64,
    /// Connections beyond the configured number.
    pub refused: u64,
    /// Attempts to connect that failed.
    pub attempts_failed: u64,
    /// Counts of their streams.
    pub streams: FrameCounts,
}

impl ConnectionCounts {
    /// Adds what was found in a stream, and its end.
    fn add(&mut self, found: FrameCounts, end: Option<End>) {
        self.streams += found;
        match end {
            Some(End::Closed) => self.closed += 1,
            Some(End::Lost) => self.lost += 1,
            None => {}
        }
    }
}

/// A stream of packets.
#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    from: SocketAddr,
    deframer: Deframer,
    /// Source that had no room for a fragment of the last packet.
    waits_for: Option<SourceId>,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Lost,
}

/// A front end to connect to.
#[derive(Debug)]
enum Caller {
    /// After this instant, with the pause after the next failure.
    Pauses(Timestamp, Nanos),
    /// Since this instant.
    Calls(Socket, Timestamp, Nanos),
    Connected(Box<Connection>),
    Ended,
}

/// All connections of a readout unit.
#[derive(Debug)]
pub(super) struct Connections {
    settings: ConnectionSettings,
    ending: PacketEnding,
    listener: Option<TcpListener>,
    guests: Vec<Connection>,
    callers: Vec<(SocketAddr, Caller)>,
    counts: ConnectionCounts,
    last_error: Option<String>,
}

impl Connections {
    /// Listens, and returns no connections yet.
    pub(super) fn open(settings: ConnectionSettings, ending: PacketEnding) -> io::Result<Self> {
        let listener = settings.listen.map(TcpListener::bind).transpose()?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
        }
        let caller = |address: &SocketAddr| (*address, Caller::Pauses(Timestamp::ZERO, FIRST_PAUSE));
        let callers = settings.connect.iter().map(caller).collect();
        let counts = ConnectionCounts::default();
        Ok(Self { settings, ending, listener, guests: Vec::new(), callers, counts, last_error: None })
    }

    /// Returns the address at which front ends connect.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Reads each connection once. `take` takes a packet and returns the source that has no room for its fragments, if any;
    /// the connection is not read again before `has_room` says so.
    pub(super) fn receive(
        &mut self,
        now: Timestamp,
        description: &Description,
        has_room: &dyn Fn(SourceId) -> bool,
        take: &mut dyn FnMut(&[u8]) -> Option<SourceId>,
    ) {
        self.accept(description);
        let Self { settings, ending, guests, callers, counts, last_error, .. } = self;
        let mut read = |connection: &mut Connection, counts: &mut ConnectionCounts| {
            let end = connection.read(description, has_room, take);
            let found = connection.deframer.take_counts();
            if found.bytes_skipped > 0 {
                let bytes = found.bytes_skipped;
                *last_error = Some(format!("{bytes} bytes from {} are in no packet", connection.from));
            }
            counts.add(found, end);
            end
        };
        guests.retain_mut(|guest| read(guest, counts).is_none());
        for (address, caller) in callers {
            if let Caller::Connected(connection) = caller {
                *caller = match read(connection, counts) {
                    Some(End::Closed) if settings.ends_on_close => Caller::Ended,
                    Some(_) => Caller::Pauses(now + FIRST_PAUSE, FIRST_PAUSE),
                    None => continue,
                };
            }
            let before = std::mem::replace(caller, Caller::Ended);
            *caller = call(now, *address, before, counts, || Deframer::new(*ending, description));
        }
    }

    /// Returns whether the front ends have closed all connections that there will be.
    pub(super) fn has_ended(&self) -> bool {
        let most = self.settings.most as u64;
        self.settings.ends_on_close
            && self.callers.iter().all(|(_, caller)| matches!(caller, Caller::Ended))
            && (self.listener.is_none() || self.counts.closed >= most)
    }

    pub(super) fn counts(&self) -> ConnectionCounts {
        self.counts
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.clone()
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.listener = None;
        self.guests.clear();
        self.callers.clear();
    }

    fn accept(&mut self, description: &Description) {
        let Some(listener) = &self.listener else { return };
        while let Ok((socket, from)) = listener.accept() {
            if self.guests.len() >= self.settings.most {
                self.counts.refused += 1;
                continue;
            }
            if prepare(&socket).is_ok() {
                self.counts.made += 1;
                self.guests.push(Connection::new(socket, from, Deframer::new(self.ending, description)));
            }
        }
    }
}

/// Advances the connection to a front end.
fn call(
    now: Timestamp,
    address: SocketAddr,
    caller: Caller,
    counts: &mut ConnectionCounts,
    deframer: impl FnOnce() -> Deframer,
) -> Caller {
    let mut failed = |pause: Nanos| {
        counts.attempts_failed += 1;
        Caller::Pauses(now + pause, Nanos((2 * pause.0).min(LONGEST_PAUSE.0)))
    };
    match caller {
        Caller::Pauses(at, pause) if now >= at => match begin(address) {
            Ok(socket) => Caller::Calls(socket, now, pause),
            Err(_) => failed(pause),
        },
        Caller::Calls(socket, since, pause) => match outcome(&socket) {
            None if now < since + ATTEMPT_LIMIT => Caller::Calls(socket, since, pause),
            Some(true) => {
                counts.made += 1;
                Caller::Connected(Box::new(Connection::new(socket.into(), address, deframer())))
            }
            None | Some(false) => failed(pause),
        },
        Caller::Pauses(..) | Caller::Connected(_) | Caller::Ended => caller,
    }
}

/// Begins to connect.
fn begin(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_keepalive(&keepalive())?;
    match socket.connect(&address.into()).map_err(|error| error.kind()) {
        Err(ErrorKind::ConnectionRefused | ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) => {
            Err(ErrorKind::ConnectionRefused.into())
        }
        // The kernel goes on with it. `outcome` finds other errors.
        _ => Ok(socket),
    }
}

/// Returns whether an attempt was successful, if that is known.
fn outcome(socket: &Socket) -> Option<bool> {
    if !matches!(socket.take_error(), Ok(None)) {
        return Some(false);
    }
    let peer = socket.peer_addr().ok()?;
    // An attempt at a port of this host at which no socket listens can connect to itself.
    Some(socket.local_addr().is_ok_and(|own| own.as_socket() != peer.as_socket()))
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    SockRef::from(socket).set_tcp_keepalive(&keepalive())
}

fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(ASK_AFTER.0).with_interval(ASK_AFTER.1)
}

impl Connection {
    fn new(socket: TcpStream, from: SocketAddr, deframer: Deframer) -> Self {
        Self { socket, from, deframer, waits_for: None }
    }

    /// Reads what has arrived, up to a bound, and takes its packets.
    fn read(
        &mut self,
        description: &Description,
        has_room: &dyn Fn(SourceId) -> bool,
        take: &mut dyn FnMut(&[u8]) -> Option<SourceId>,
    ) -> Option<End> {
        if self.waits_for.is_some_and(|source| !has_room(source)) {
            return None;
        }
        // Packets that were read before the source had no room come first.
        if self.waits_for.take().is_some() {
            let end = self.take_packets(description, false, take);
            if end.is_some() || self.waits_for.is_some() {
                return end;
            }
        }
        match self.socket.read(self.deframer.room()) {
            Ok(0) => self.take_packets(description, true, take).or_else(|| self.end()),
            Ok(bytes) => {
                self.deframer.handle_read(bytes);
                self.take_packets(description, false, take)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(_) => {
                let end = self.take_packets(description, true, take);
                if self.waits_for.is_some() { end } else { Some(End::Lost) }
            }
        }
    }

    /// Returns the end of a connection that was closed, unless packets wait: it is read again.
    fn end(&self) -> Option<End> {
        self.waits_for.is_none().then_some(End::Closed)
    }

    fn take_packets(
        &mut self,
        description: &Description,
        is_end: bool,
        take: &mut dyn FnMut(&[u8]) -> Option<SourceId>,
    ) -> Option<End> {
        loop {
            match self.deframer.next(description, is_end) {
                NextPacket::Packet(packet) => {
                    self.waits_for = take(self.deframer.bytes(packet));
                    if self.waits_for.is_some() {
                        return None;
                    }
                }
                NextPacket::More => return None,
                NextPacket::Lost => return Some(End::Lost),
            }
        }
    }
}
