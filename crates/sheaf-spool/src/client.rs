//! The side of a requester. It blocks, and starts no thread.

use crate::archive::WindowAnswer;
use crate::collected::CollectedWindow;
use sheaf_key::{CallerProof, DoorPurposes, NoRandomness, RunKey};
use sheaf_machine::connect_to;
use sheaf_wire::spool_link::{
    EndReason, FRAME_BYTES, Frame, FrameHead, SpoolLinkError, WindowDone, WindowRequest,
};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Address of the door of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port: `host:port`.
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// Reason why a requester gets no window.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error(
        "cannot reach the hit spool at {address}: {error}; is `sheaf spool` running there, with `--listen`?"
    )]
    Connect {
        /// The door.
        address: Address,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the hit spool at {address} broke: {error}")]
    Broken {
        /// The door.
        address: Address,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The peer is not a spool.
    #[error("{address} does not answer as a hit spool: {error}")]
    Frame {
        /// The door.
        address: Address,
        /// Description of the error.
        #[source]
        error: SpoolLinkError,
    },
    /// The peer sent something out of turn.
    #[error("{address} does not answer as a hit spool: it sent a frame out of turn")]
    OutOfTurn {
        /// The door.
        address: Address,
    },
    /// The spool closed the connection with a reason.
    #[error("the hit spool at {address} closed the connection: {}", text(*.reason))]
    Ended {
        /// The door.
        address: Address,
        /// Its reason.
        reason: EndReason,
    },
    /// The spool requires a key, and this requester has none.
    #[error(
        "the hit spool at {address} asks for the key of the run; pass a copy of its `transport.key_file` (`--key`)"
    )]
    KeyNeeded {
        /// The door.
        address: Address,
    },
    /// This requester has a key, and the spool has none.
    #[error(
        "the hit spool at {address} has no key; leave the key out, or set `transport.key_file` in its configuration"
    )]
    NoKeyThere {
        /// The door.
        address: Address,
    },
    /// The keys differ.
    #[error("the hit spool at {address} has another key; pass a copy of its `transport.key_file`")]
    WrongKey {
        /// The door.
        address: Address,
    },
    /// The system has no randomness for a nonce.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

const fn text(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Over => "its recording has ended",
        EndReason::Full => "it has its maximum number of connections",
        EndReason::WrongKey => "this requester did not prove that it has the key of the run",
        EndReason::Failed => "it cannot read its files; its log says why",
    }
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Stream {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

/// A connection to the door of a spool.
#[derive(Debug)]
pub struct Client {
    address: Address,
    stream: io::BufReader<Stream>,
    welcome: String,
    next: u32,
}

impl Client {
    /// Joins a spool. Over a network both sides prove that they have the `key`, if there is one. The spool must answer each
    /// request within `patience`.
    ///
    /// # Errors
    /// A [`ClientError`].
    pub fn connect(address: &Address, key: Option<&RunKey>, patience: Duration) -> Result<Self, ClientError> {
        let connected = match address {
            Address::Unix(path) => connect_to(path).and_then(|stream| {
                stream.set_read_timeout(Some(patience))?;
                Ok(Stream::Unix(stream))
            }),
            Address::Tcp(address) => connect_tcp(address, patience).map(Stream::Tcp),
        };
        let stream = connected.map_err(|error| ClientError::Connect { address: address.clone(), error })?;
        let mut client = Self {
            address: address.clone(),
            stream: io::BufReader::with_capacity(256 << 10, stream),
            welcome: String::new(),
            next: 0,
        };
        // Within one host there is nothing to prove.
        let key = key.filter(|_| matches!(address, Address::Tcp(_)));
        let mut first = client.frame()?;
        match (&first, key) {
            (Frame::Challenge(nonce), Some(key)) => {
                let proof = CallerProof::new(key.clone(), DoorPurposes::SPOOLS, *nonce)?;
                let (own, answer) = proof.answer();
                client.send(&Frame::Answer(own, answer))?;
                match client.frame()? {
                    Frame::Proof(theirs) if proof.verify(&theirs) => first = client.frame()?,
                    Frame::Proof(_) | Frame::End(EndReason::WrongKey) => {
                        return Err(ClientError::WrongKey { address: address.clone() });
                    }
                    other => first = other,
                }
            }
            (Frame::Challenge(_), None) => return Err(ClientError::KeyNeeded { address: address.clone() }),
            (Frame::Welcome(_), Some(_)) => return Err(ClientError::NoKeyThere { address: address.clone() }),
            _ => {}
        }
        match first {
            Frame::Welcome(text) => client.welcome = text,
            other => return Err(client.refuse(other)),
        }
        Ok(client)
    }

    /// Returns the description of the spool, a JSON object.
    #[must_use]
    pub fn welcome(&self) -> &str {
        &self.welcome
    }

    /// Asks for a window and receives all of it. The number of the request is set here.
    ///
    /// # Errors
    /// A [`ClientError`]; the connection can no longer be used.
    pub fn window(&mut self, request: &WindowRequest) -> Result<(CollectedWindow, WindowDone), ClientError> {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.send(&Frame::Request(WindowRequest { number, ..request.clone() }))?;
        let mut window = CollectedWindow::default();
        loop {
            match self.frame()? {
                Frame::Hits(part, hits) if part.number == number => {
                    window.add(WindowAnswer::Hits(part, &hits));
                }
                Frame::Gap(part, reason) if part.number == number => {
                    window.add(WindowAnswer::Gap(part, reason));
                }
                Frame::Done(done) if done.number == number => return Ok((window, done)),
                other => return Err(self.refuse(other)),
            }
        }
    }

    fn refuse(&self, frame: Frame) -> ClientError {
        let address = self.address.clone();
        match frame {
            Frame::End(reason) => ClientError::Ended { address, reason },
            _ => ClientError::OutOfTurn { address },
        }
    }

    fn send(&mut self, frame: &Frame) -> Result<(), ClientError> {
        let sent = self.stream.get_mut().write_all(&frame.emit());
        sent.map_err(|error| self.broken(error))
    }

    fn frame(&mut self) -> Result<Frame, ClientError> {
        let mut head = [0; FRAME_BYTES];
        self.stream.read_exact(&mut head).map_err(|error| self.broken(error))?;
        let wrong = |error| ClientError::Frame { address: self.address.clone(), error };
        let head = FrameHead::parse(&head).map_err(wrong)?;
        // The length was compared with the largest of its kind, 16 MiB.
        let mut body = Vec::new();
        let read = Read::by_ref(&mut self.stream).take(head.body_bytes.into()).read_to_end(&mut body);
        read.map_err(|error| self.broken(error))?;
        head.parse_body(&body).map_err(|error| ClientError::Frame { address: self.address.clone(), error })
    }

    fn broken(&self, error: io::Error) -> ClientError {
        let error = match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        };
        ClientError::Broken { address: self.address.clone(), error }
    }
}

fn connect_tcp(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
