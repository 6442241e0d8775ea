//! The connection of a trigger supervisor of this program to the event manager, over TCP or UDP.

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sheaf_config::TriggerProtocol;
use sheaf_key::{CallerProof, DoorPurposes, Nonce, Proof, RunKey};
use sheaf_protocol::trigger_link::Supervisor;
use sheaf_protocol::trigger_link::datagram::{Datagram, DatagramCaller};
use sheaf_tcp::{SecureStream, Tls};
use sheaf_wire::trigger_link::{
    FromManager, FromSupervisor, HEAD_BYTES, MAX_DATAGRAM_BYTES, declared_length, read_datagram,
};
use sheaf_wire::{Nanos, Timestamp};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes that wait for the connection before no more triggers are made.
const MAX_UNSENT: usize = 1 << 20;

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);

/// Maximum length of a message of triggers in a datagram, so that the datagram fits into an Ethernet frame.
const MESSAGE_BYTES: usize = 1_400;

/// Evidence of the run, as the supervisor and the event manager show it to each other.
struct Evidence {
    key: Option<RunKey>,
    asked: Option<CallerProof>,
    is_proven: bool,
}

impl Evidence {
    /// Takes a message. Returns the answer to a challenge.
    fn take(&mut self, message: &FromManager) -> anyhow::Result<Option<(Nonce, Proof)>> {
        match message {
            FromManager::Challenge(nonce) => {
                let Some(key) = self.key.clone() else {
                    bail!(
                        "the event manager asks for the key of the run; pass a copy of its `transport.key_file` (`--key`)"
                    );
                };
                let proof = CallerProof::new(key, DoorPurposes::TRIGGERS, *nonce)?;
                let answer = proof.answer();
                self.asked = Some(proof);
                return Ok(Some(answer));
            }
            FromManager::Proof(proof) => {
                if !self.asked.as_ref().is_some_and(|asked| asked.verify(proof)) {
                    bail!(
                        "the event manager has another key than this supervisor; pass a copy of its `transport.key_file`"
                    );
                }
                self.is_proven = true;
            }
            FromManager::Welcome { .. } if self.key.is_some() && !self.is_proven => bail!(
                "the event manager has no key, so it cannot prove that it is of the run; leave `--key` out, or set `transport.key_file` in its configuration"
            ),
            _ => {}
        }
        Ok(None)
    }
}

/// Options of a connection.
pub(crate) struct ConnectionOptions {
    /// Address of the event manager, as `HOST:PORT`.
    pub(crate) address: String,
    /// Name of the supervisor, for the log of the run.
    pub(crate) name: String,
    pub(crate) protocol: TriggerProtocol,
    /// Key of the run, if it has one.
    pub(crate) key: Option<RunKey>,
    /// TLS configuration, for runs that require it.
    pub(crate) tls: Option<Tls>,
    /// Maximum time for which the event manager may be absent or silent.
    pub(crate) patience: Duration,
}

/// See the [module](self).
pub(crate) struct Connection {
    way: Way,
    evidence: Evidence,
    name: String,
    address: String,
    patience: Duration,
    begin: Instant,
    is_welcome: bool,
    is_cut_off: bool,
}

enum Way {
    Tcp { stream: Box<SecureStream>, received: Vec<u8>, unsent: Vec<u8> },
    Udp { socket: UdpSocket, room: Vec<u8>, caller: Box<DatagramCaller> },
}

impl Connection {
    /// Connects to the event manager, and waits for it if it is not there yet.
    pub(crate) fn open(options: ConnectionOptions, now: Timestamp) -> anyhow::Result<Self> {
        let ConnectionOptions { address, name, protocol, key, tls, patience } = options;
        let way = match protocol {
            TriggerProtocol::Udp => datagrams(&address, &name, now)?,
            TriggerProtocol::Tcp => {
                let stream = secure(connect(&address, patience)?, &address, tls.as_ref())?;
                Way::Tcp { stream: Box::new(stream), received: Vec::new(), unsent: Vec::new() }
            }
        };
        Ok(Self {
            way,
            evidence: Evidence { key, asked: None, is_proven: false },
            name,
            address,
            patience,
            begin: Instant::now(),
            is_welcome: false,
            is_cut_off: false,
        })
    }

    /// Returns the address of the event manager.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the supervisor's machine, whose messages fit this connection.
    pub(crate) fn supervisor(&self) -> Supervisor {
        let supervisor = Supervisor::new(&self.name);
        match self.way {
            Way::Tcp { .. } => supervisor,
            Way::Udp { .. } => supervisor.with_messages_of(MESSAGE_BYTES),
        }
    }

    /// Returns whether both sides have the same clock.
    pub(crate) fn is_same_host(&self) -> bool {
        let addresses = match &self.way {
            Way::Tcp { stream, .. } => stream.addresses(),
            Way::Udp { socket, .. } => socket.local_addr().and_then(|own| Ok((own, socket.peer_addr()?))),
        };
        addresses.is_ok_and(|(ours, theirs)| ours.ip() == theirs.ip())
    }

    /// Returns whether the event manager has accepted the supervisor.
    pub(crate) fn is_welcome(&self) -> bool {
        self.is_welcome
    }

    /// Returns whether the connection has ended.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Returns whether more triggers may be made.
    pub(crate) fn has_room(&self) -> bool {
        match &self.way {
            Way::Tcp { unsent, .. } => unsent.len() <= MAX_UNSENT,
            Way::Udp { .. } => true,
        }
    }

    /// Returns whether nothing was heard for so long that busy may have been missed.
    pub(crate) fn is_deaf(&self, now: Timestamp) -> bool {
        match &self.way {
            Way::Tcp { .. } => false,
            Way::Udp { caller, .. } => caller.is_deaf(now),
        }
    }

    /// Returns whether everything was sent, and over UDP acknowledged.
    pub(crate) fn is_flushed(&self) -> bool {
        match &self.way {
            Way::Tcp { unsent, stream, .. } => unsent.is_empty() && !stream.has_unsent(),
            Way::Udp { caller, .. } => caller.is_flushed(),
        }
    }

    /// Returns the messages that have arrived.
    pub(crate) fn receive(&mut self, now: Timestamp) -> anyhow::Result<Vec<FromManager>> {
        let (messages, has_ended) = match &mut self.way {
            Way::Tcp { stream, received, .. } => read_stream(stream, received)?,
            Way::Udp { socket, room, caller } => {
                read_datagrams(now, (socket, room), caller, self.is_welcome)?
            }
        };
        self.is_cut_off |= has_ended;
        for message in &messages {
            if let Some((nonce, proof)) = self.evidence.take(message)? {
                match &mut self.way {
                    Way::Tcp { unsent, .. } => {
                        unsent.extend_from_slice(&FromSupervisor::Answer { nonce, proof }.emit());
                    }
                    Way::Udp { caller, .. } => caller.answer(nonce, proof),
                }
            }
            self.is_welcome |= matches!(message, FromManager::Welcome { .. });
        }
        if let Way::Udp { caller, .. } = &self.way {
            let silent = if self.is_welcome {
                now.since(caller.heard_at()) >= Nanos::from(self.patience)
            } else {
                self.begin.elapsed() >= self.patience
            };
            if silent {
                bail!(
                    "no answer from {}: does a run with `trigger.network.protocol = \"udp\"` listen there?",
                    self.address
                );
            }
        }
        Ok(messages)
    }

    /// Sends the messages of the supervisor.
    pub(crate) fn send(&mut self, now: Timestamp, supervisor: &mut Supervisor) {
        match &mut self.way {
            Way::Tcp { stream, unsent, .. } => {
                while let Some(message) = supervisor.poll_transmit() {
                    unsent.extend_from_slice(&message.emit());
                }
                self.is_cut_off |= !flush(stream, unsent);
            }
            Way::Udp { socket, caller, .. } => {
                while let Some(datagram) = caller.poll_transmit(now, supervisor) {
                    // What is not taken is lost; an absent event manager is noticed by its silence.
                    let _ = socket.send(&datagram.head.emit(&datagram.messages));
                }
            }
        }
    }

    /// Sleeps, at most until something arrives or `other` can be read.
    pub(crate) fn wait(&self, now: Timestamp, longest: Nanos, other: Option<BorrowedFd<'_>>) {
        let (fd, limit) = match &self.way {
            Way::Tcp { stream, .. } if self.is_flushed() => (PollFd::new(stream, PollFlags::IN), longest),
            Way::Tcp { stream, .. } => (PollFd::new(stream, PollFlags::IN | PollFlags::OUT), longest),
            Way::Udp { socket, caller, .. } => {
                let due = caller.poll_timeout().map_or(longest, |due| due.since(now));
                (PollFd::new(socket, PollFlags::IN), due.min(longest))
            }
        };
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::try_from(limit.0).unwrap_or(0) };
        let mut all = vec![fd];
        all.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        // An interruption is as good as a wake-up.
        let _ = poll(&mut all, Some(&limit));
    }
}

/// Opens a socket to the event manager.
fn datagrams(address: &str, name: &str, now: Timestamp) -> anyhow::Result<Way> {
    let resolve = || format!("cannot resolve {address}");
    let target = address.to_socket_addrs().with_context(resolve)?.next().with_context(resolve)?;
    let any: SocketAddr = match target.ip() {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any).context("cannot open a socket")?;
    socket.connect(target).with_context(|| format!("cannot send to {target}"))?;
    socket.set_nonblocking(true)?;
    let nonce = sheaf_key::nonce()?;
    let link = nonce.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes).max(1));
    Ok(Way::Udp {
        socket,
        room: vec![0; MAX_DATAGRAM_BYTES + 1],
        caller: Box::new(DatagramCaller::new(now, link, name)),
    })
}

fn connect(address: &str, patience: Duration) -> anyhow::Result<TcpStream> {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(_) if begin.elapsed() < patience => std::thread::sleep(RETRY),
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot connect to the event manager at {address}: does a run with `trigger.mode = \"network\"` listen there?"
                    )
                });
            }
        }
    }
}

fn secure(stream: TcpStream, address: &str, tls: Option<&Tls>) -> anyhow::Result<SecureStream> {
    let host = sheaf_config::host_of(address).trim_matches(['[', ']']);
    Ok(SecureStream::connected(stream, host, tls)?)
}

/// Returns the messages that have arrived, and whether the connection has ended.
fn read_stream(stream: &SecureStream, received: &mut Vec<u8>) -> anyhow::Result<(Vec<FromManager>, bool)> {
    let has_ended = loop {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) => break true,
            Ok(read) => received.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => match stream.problem() {
                Some(problem) => bail!("the connection is not secure: {problem}"),
                None => break true,
            },
        }
    };
    let mut messages = Vec::new();
    while let Some(head) = received.first_chunk::<HEAD_BYTES>() {
        let invalid = "a message of the event manager is invalid";
        let length = declared_length(head).context(invalid)?;
        if received.len() < length {
            break;
        }
        messages.push(FromManager::read(&received[..length]).context(invalid)?);
        received.drain(..length);
    }
    Ok((messages, has_ended))
}

/// Returns the messages that have arrived, and whether nobody listens any more at the address.
fn read_datagrams(
    now: Timestamp,
    (socket, room): (&UdpSocket, &mut [u8]),
    caller: &mut DatagramCaller,
    is_welcome: bool,
) -> anyhow::Result<(Vec<FromManager>, bool)> {
    let mut messages = Vec::new();
    loop {
        match socket.recv(room) {
            Ok(length) => {
                let read = read_datagram(&room[..length]);
                let (head, more) = read.context("a datagram of the event manager is invalid")?;
                messages.extend(caller.handle_input(now, Datagram { head, messages: more }));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok((messages, false)),
            // Before the welcome, the run may not have started.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_welcome => {
                return Ok((messages, true));
            }
            Err(_) => {}
        }
    }
}

/// Sends what the connection takes. Returns `false` if it has ended.
fn flush(stream: &SecureStream, unsent: &mut Vec<u8>) -> bool {
    while !unsent.is_empty() {
        match stream.write(unsent) {
            Ok(written) => drop(unsent.drain(..written)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    stream.flush().is_ok_and(|()| true) || stream.has_unsent()
}
