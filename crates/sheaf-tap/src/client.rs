//! The consumer's side of one door. It blocks up to the given time, and starts no thread.

use crate::address::Address;
use serde::Deserialize;
use sheaf_key::{CallerProof, DoorPurposes, NoRandomness, Nonce, RunKey};
use sheaf_machine::connect_to;
use sheaf_wire::event_file::FileHeader;
use sheaf_wire::link_frame::LinkFrameError;
use sheaf_wire::tap::{
    EndReason, FRAME_BYTES, Frame, FrameHead, Selection, TapError, emit_answer, emit_subscribe,
};
use sheaf_wire::verdict::Tags;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Number of bytes requested from the operating system at a time. Larger events are read directly to their final
/// memory.
const READ_BYTES: usize = 256 << 10;

/// Step by which a body grows as it arrives: its announced length is not trusted.
const GROW_BYTES: usize = 1 << 20;

/// Reason why a consumer gets no events, or no more.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error(
        "cannot join {address}: {error}; check that the run is in progress and accepts consumers (consumers.open)"
    )]
    Connect {
        /// The door.
        address: Address,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {error}")]
    Broken {
        /// The door.
        address: Address,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The door closed the connection without a final message.
    #[error(
        "{address} closed the connection without a last word: the builder died, or dropped this consumer because it read nothing"
    )]
    Closed {
        /// The door.
        address: Address,
    },
    /// The peer is not a door.
    #[error("{address} does not speak the protocol for consumers: {error}")]
    Frame {
        /// The door.
        address: Address,
        /// Description of the error.
        #[source]
        error: TapError,
    },
    /// The door has its maximum number of consumers.
    #[error("{address} has as many consumers as it allows; end one, or raise [consumers] consumers")]
    Full {
        /// The door.
        address: Address,
    },
    /// The door requires a key, and this consumer has none.
    #[error(
        "{address} asks for the key of the run; pass a copy of its `transport.key_file` (`sheaf tap --key`, `key` in Python, \
         `sheaf_tap_open_with_key` in C)"
    )]
    KeyNeeded {
        /// The door.
        address: Address,
    },
    /// This consumer has a key, and the door has none.
    #[error(
        "{address} has no key, so it cannot prove that it is of the run; leave the key out, or set `transport.key_file` in \
         the run's configuration"
    )]
    NoKeyThere {
        /// The door.
        address: Address,
    },
    /// The keys differ.
    #[error("{address} has another key than this consumer; pass a copy of the run's `transport.key_file`")]
    WrongKey {
        /// The door.
        address: Address,
    },
    /// The system has no randomness for a nonce.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// No answer in time.
    #[error("{address} does not answer; is this the address of a door for consumers?")]
    Silent {
        /// The door.
        address: Address,
    },
    /// There is no such tag.
    #[error("no tag has the name {name:?}; the run's tags are: {tags}")]
    UnknownTag {
        /// Name that was requested.
        name: String,
        /// Those that there are, with commas between them.
        tags: String,
    },
}

/// First message of a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Run, builder and session, as in the session's event files.
    pub header: FileHeader,
    /// A JSON object, as in the session's event files, and the list `sources`.
    pub metadata: String,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    sources: Vec<u32>,
}

impl Welcome {
    fn read(&self) -> Metadata {
        serde_json::from_str(&self.metadata).unwrap_or_default()
    }

    /// Returns the names of the tags, from bit 0.
    #[must_use]
    pub fn tag_names(&self) -> Vec<String> {
        self.read().tags
    }

    /// The numbers of the run's sources, ascending.
    #[must_use]
    pub fn sources(&self) -> Vec<u32> {
        self.read().sources
    }

    /// The tags with these names.
    ///
    /// # Errors
    /// [`ClientError::UnknownTag`] for a name that the run does not have.
    pub fn tags(&self, wanted: &[String]) -> Result<Tags, ClientError> {
        let names = self.tag_names();
        let mut tags = Tags::NONE;
        for name in wanted {
            tags |= Tags::by_name(name, &names).ok_or_else(|| {
                let mut all = names.clone();
                all.push(Tags::QUARANTINED_NAME.to_owned());
                ClientError::UnknownTag { name: name.clone(), tags: all.join(", ") }
            })?;
        }
        Ok(tags)
    }
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        // Zero would be no limit.
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

/// A frame that arrives.
#[derive(Debug)]
enum Arriving {
    Head(Vec<u8>),
    Body(FrameHead, Vec<u8>),
}

/// A connection to one door.
#[derive(Debug)]
pub struct Client {
    address: Address,
    stream: BufReader<Stream>,
    arriving: Arriving,
    welcome: Welcome,
}

impl Client {
    /// Joins a door as a visitor, and receives its welcome. No events arrive before [`Client::subscribe`].
    ///
    /// # Errors
    /// A [`ClientError`].
    pub fn connect(address: &Address, timeout: Duration) -> Result<Self, ClientError> {
        Self::connect_with(address, None, timeout)
    }

    /// As [`Client::connect`]; over a network both sides prove that they have the `key`, if there is one.
    ///
    /// # Errors
    /// A [`ClientError`].
    pub fn connect_with(
        address: &Address,
        key: Option<&RunKey>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let connected = match address {
            Address::Unix(path) => connect_to(path).map(Stream::Unix),
            Address::Tcp(address) => connect_tcp(address, timeout).map(Stream::Tcp),
        };
        let stream = connected.map_err(|error| ClientError::Connect { address: address.clone(), error })?;
        let header = FileHeader {
            run: sheaf_wire::RunNumber(0),
            node: sheaf_wire::NodeId::MANAGER,
            session: sheaf_wire::SessionId(0),
            part: 0,
            created: sheaf_wire::Timestamp(0),
            time_base: None,
        };
        let mut client = Self {
            address: address.clone(),
            stream: BufReader::with_capacity(READ_BYTES, stream),
            arriving: Arriving::Head(Vec::new()),
            welcome: Welcome { header, metadata: String::new() },
        };
        let address = || address.clone();
        // Within one host there is nothing to prove.
        let key = key.filter(|_| matches!(client.address, Address::Tcp(_)));
        let mut first = client.next(timeout)?;
        match (&first, key) {
            (Some(Frame::Challenge(nonce)), Some(key)) => first = client.prove(key, *nonce, timeout)?,
            (Some(Frame::Challenge(_)), None) => return Err(ClientError::KeyNeeded { address: address() }),
            (Some(Frame::Welcome(..)), Some(_)) => {
                return Err(ClientError::NoKeyThere { address: address() });
            }
            _ => {}
        }
        match first {
            Some(Frame::Welcome(header, metadata)) => client.welcome = Welcome { header, metadata },
            Some(Frame::End(EndReason::Full, _)) => return Err(ClientError::Full { address: address() }),
            Some(Frame::End(EndReason::WrongKey, _)) => {
                return Err(ClientError::WrongKey { address: address() });
            }
            Some(Frame::End(..)) => return Err(ClientError::Closed { address: address() }),
            None => return Err(ClientError::Silent { address: address() }),
            Some(_) => {
                let error = LinkFrameError::BadValue { field: "kind", value: 0 }.into();
                return Err(ClientError::Frame { address: address(), error });
            }
        }
        Ok(client)
    }

    /// Proves to a door that this consumer has the key, and checks the door's proof. Returns the door's next message.
    fn prove(&mut self, key: &RunKey, nonce: Nonce, timeout: Duration) -> Result<Option<Frame>, ClientError> {
        let proof = CallerProof::new(key.clone(), DoorPurposes::CONSUMERS, nonce)?;
        let (own, answer) = proof.answer();
        let said = self.stream.get_mut().write_all(&emit_answer(own, answer));
        said.map_err(|error| self.broken(error))?;
        match self.next(timeout)? {
            Some(Frame::Proof(own)) if proof.verify(&own) => self.next(timeout),
            Some(Frame::Proof(_)) => Err(ClientError::WrongKey { address: self.address.clone() }),
            other => Ok(other),
        }
    }

    /// Returns the first message of the door.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the address of the door.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Sends the selection of events and the consumer's name; to be called once.
    ///
    /// # Errors
    /// [`ClientError::Broken`].
    pub fn subscribe(&mut self, selection: &Selection, name: &str) -> Result<(), ClientError> {
        let said = self.stream.get_mut().write_all(&emit_subscribe(selection, name));
        said.map_err(|error| self.broken(error))
    }

    /// Returns the next frame; `None` if none is complete by then. No more frames follow a [`Frame::End`].
    ///
    /// # Errors
    /// A [`ClientError`]; the connection can no longer be used.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Frame>, ClientError> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            if self.stream.buffer().is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                self.stream.get_ref().set_read_timeout(left).map_err(|error| self.broken(error))?;
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Err(ClientError::Closed { address: self.address.clone() }),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                // A signal is the caller's business; it asks again.
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(None),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    /// Reads more of the head or the body. Returns `false` at the end of the connection.
    fn fill(&mut self) -> io::Result<bool> {
        let bytes = match &mut self.arriving {
            Arriving::Head(head) => {
                let buffer = self.stream.fill_buf()?;
                let bytes = buffer.len().min(FRAME_BYTES - head.len());
                head.extend_from_slice(&buffer[..bytes]);
                self.stream.consume(bytes);
                bytes
            }
            Arriving::Body(head, body) => {
                let have = body.len();
                let missing = head.body_bytes as usize - have;
                body.resize(have + missing.min(GROW_BYTES), 0);
                let read = self.stream.read(&mut body[have..]);
                body.truncate(have + *read.as_ref().unwrap_or(&0));
                read?
            }
        };
        Ok(bytes > 0)
    }

    /// The frame that has arrived, if it is whole.
    fn take_frame(&mut self) -> Result<Option<Frame>, ClientError> {
        let wrong = |address: &Address, error| ClientError::Frame { address: address.clone(), error };
        if let Arriving::Head(bytes) = &self.arriving
            && let Some(bytes) = bytes.first_chunk::<FRAME_BYTES>()
        {
            let head = FrameHead::parse(bytes).map_err(|error| wrong(&self.address, error))?;
            let room = (head.body_bytes as usize).min(GROW_BYTES);
            self.arriving = Arriving::Body(head, Vec::with_capacity(room));
        }
        match &mut self.arriving {
            Arriving::Body(head, body) if body.len() == head.body_bytes as usize => {
                let (head, body) = (*head, std::mem::take(body));
                self.arriving = Arriving::Head(Vec::with_capacity(FRAME_BYTES));
                let frame = head.parse_body(&body.into());
                frame.map(Some).map_err(|error| wrong(&self.address, error))
            }
            _ => Ok(None),
        }
    }

    fn broken(&self, error: io::Error) -> ClientError {
        ClientError::Broken { address: self.address.clone(), error }
    }
}

fn connect_tcp(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) if leads_to_itself(&stream) => last = ErrorKind::ConnectionRefused.into(),
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns whether TCP has connected a socket to itself. This happens if no process listens at a local port and the
/// kernel assigns that very port to the caller: a consumer that calls repeatedly until a run begins would connect to
/// itself there.
fn leads_to_itself(stream: &TcpStream) -> bool {
    matches!((stream.local_addr(), stream.peer_addr()), (Ok(own), Ok(other)) if own == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::net::{SocketAddr, TcpListener};

    #[test]
    fn only_a_connection_between_a_port_and_itself_leads_to_itself() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (called, _) = listener.accept().unwrap();
        assert!(!leads_to_itself(&caller) && !leads_to_itself(&called));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let own = socket.local_addr().unwrap();
        match socket.connect(&own) {
            Ok(()) => assert!(leads_to_itself(&socket.into())),
            Err(error) => println!("skipped: a socket cannot call itself here: {error}"),
        }
    }
}
