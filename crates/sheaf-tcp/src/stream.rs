//! A connection whose bytes are not frames of a link, with TLS or without.
//!
//! Protocols with a message format of their own, such as that of triggers, use the same certificates as links.

use super::socket;
use super::tls::{Session, Tls};
use mio::net::TcpStream;
use sheaf_transport::TlsProblem;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One end of a connection. No call blocks. Several threads may share it: without TLS they exclude each other nowhere.
#[derive(Debug)]
pub struct SecureStream {
    stream: TcpStream,
    session: Option<Mutex<Session>>,
}

impl SecureStream {
    /// The called end of an accepted connection. With `tls` the caller must show a certificate.
    ///
    /// # Errors
    /// The connection cannot be set up.
    pub fn accepted(stream: std::net::TcpStream, tls: Option<&Tls>) -> io::Result<Self> {
        let session = tls.map(Tls::answer).transpose().map_err(io::Error::other)?;
        Self::new(stream, session)
    }

    /// The calling end of a connection to `host`, a name or an address, for which the called end's certificate must be.
    ///
    /// # Errors
    /// The connection cannot be set up.
    pub fn connected(stream: std::net::TcpStream, host: &str, tls: Option<&Tls>) -> io::Result<Self> {
        let session = tls.map(|tls| tls.call(host)).transpose().map_err(io::Error::other)?;
        Self::new(stream, session)
    }

    fn new(stream: std::net::TcpStream, session: Option<Session>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let secure = Self { stream: TcpStream::from_std(stream), session: session.map(Mutex::new) };
        match secure.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(secure),
        }
    }

    fn session(&self) -> Option<MutexGuard<'_, Session>> {
        self.session.as_ref().map(|session| session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Receives into `room`. Returns the number of bytes, 0 at the end of the stream.
    ///
    /// # Errors
    /// Those of the socket, [`ErrorKind::WouldBlock`] if nothing has arrived; [`ErrorKind::InvalidData`] if [`Self::problem`] has the
    /// details.
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.receive_slice(&self.stream, room),
            None => socket::receive_slice(&self.stream, room),
        }
    }

    /// Sends the beginning of `bytes`. Returns the number of bytes taken. With TLS, [`Self::flush`] must follow until it succeeds.
    ///
    /// # Errors
    /// Those of the socket, [`ErrorKind::WouldBlock`] if nothing was taken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.send(&self.stream, &[IoSlice::new(bytes)]),
            None => socket::send(&self.stream, &[IoSlice::new(bytes)]),
        }
    }

    /// Sends records that wait for the socket.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn flush(&self) -> io::Result<()> {
        self.session().map_or(Ok(()), |mut session| session.flush(&self.stream))
    }

    /// Returns whether records wait for the socket.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.session().is_some_and(|session| session.has_unsent())
    }

    /// Returns whether received bytes wait here, about which the kernel does not signal.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.session().is_some_and(|session| session.has_received())
    }

    /// Returns whether the other end has shown a certificate for one of these names, once a byte was received; `true` without TLS.
    #[must_use]
    pub fn is_for_one_of(&self, names: &[String]) -> bool {
        self.session().is_none_or(|session| session.is_for_one_of(names))
    }

    /// Returns why the connection is not secure, after an error.
    #[must_use]
    pub fn problem(&self) -> Option<TlsProblem> {
        self.session().and_then(|session| session.problem())
    }

    /// Ends the data of this side.
    pub fn end(&self) {
        if let Some(mut session) = self.session() {
            session.end(&self.stream);
        }
        // A connection that has ended needs no end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the addresses of both ends: this one and the other.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }
}

impl AsFd for SecureStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
